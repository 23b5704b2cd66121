// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/stream"
	"spate.dev/operator/test/refused"
)

// An API server refuses most of these; one with older CustomResourceDefinitions may accept them. Every damaged object
// must be refused or planned, without a panic.
func TestDamagedObjectsArePlannedOrRefused(t *testing.T) {
	good := read[spatev1.TrafficProfile](t, refused.Profile)
	in := func(profile *spatev1.TrafficProfile) Input {
		profile.Name, profile.Namespace = "damaged", "default"
		return Input{
			Profile: profile, Generator: generator(),
			Streams:   map[string]*spatev1.StatelessStream{"other": {Spec: *streamOf("1kpps", 64)}, "small": {Spec: *streamOf("1kpps", 64)}},
			Templates: map[string]*spatev1.ASTFTemplate{"http": read[spatev1.ASTFTemplate](t, refused.Template)},
		}
	}
	planned := func(t *testing.T, in Input) bool {
		resolved, problems := Resolve(in)
		if (resolved == nil) != (len(problems) > 0) {
			t.Errorf("got %v and %v", resolved, problems)
		}
		if resolved != nil {
			resolved.Plan(Identity{RunID: "r", Tag: 1})
		}
		return resolved != nil
	}
	t.Run("profile", func(t *testing.T) {
		damage(t, refused.Profile, func(p *spatev1.TrafficProfile) bool { return planned(t, in(p)) })
		damage(t, refused.Answering, func(p *spatev1.TrafficProfile) bool { return planned(t, in(p)) })
		damage(t, refused.Advertising, func(p *spatev1.TrafficProfile) bool {
			with := in(p)
			with.Generator = read[spatev1.TrafficGenerator](t, refused.Router)
			return planned(t, with)
		})
	})
	t.Run("run", func(t *testing.T) {
		damage(t, refused.Run, func(r *spatev1.TrafficRun) bool { return planned(t, in(Effective(r, good))) })
		damage(t, refused.Describing, func(r *spatev1.TrafficRun) bool { return planned(t, in(Effective(r, good))) })
	})
	t.Run("generator", func(t *testing.T) {
		damage(t, refused.Generator, func(g *spatev1.TrafficGenerator) bool {
			CheckGenerator(&g.Spec)
			with := in(profile(entryOf("a", "east", "west", streamOf("50%", 64))))
			with.Generator = g
			return planned(t, with)
		})
	})
	t.Run("stream", func(t *testing.T) {
		for _, text := range []string{refused.Stream, refused.Headers, refused.Control, refused.Replay} {
			damage(t, text, func(s *spatev1.StatelessStream) bool {
				stream.Check(&s.Spec)
				return planned(t, in(profile(entryOf("a", "east", "west", &s.Spec))))
			})
		}
	})
	t.Run("template", func(t *testing.T) {
		damage(t, refused.Template, func(template *spatev1.ASTFTemplate) bool {
			application.Check(&template.Spec)
			Alone(template, nil)
			with := in(profile(running("b", "http", "east", "west")))
			with.Templates["http"] = template
			return planned(t, with)
		})
		damage(t, refused.Template, func(template *spatev1.ASTFTemplate) bool {
			return planned(t, in(profile(describing("b", template))))
		})
	})
}

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// damage calls plan with each damaged copy of an object that fits the Go type.
func damage[T any](t *testing.T, text string, plan func(*T) bool) {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	refusals := 0
	for _, damaged := range refused.Damages(object) {
		text, err := json.Marshal(damaged)
		if err != nil {
			t.Fatal(err)
		}
		held := new(T)
		if json.Unmarshal(text, held) != nil {
			continue
		}
		func() {
			defer func() {
				if caught := recover(); caught != nil {
					t.Errorf("panic: %v of %s", caught, text)
				}
			}()
			if !plan(held) {
				refusals++
			}
		}()
	}
	if refusals == 0 {
		t.Error("no damaged object is refused")
	}
}
