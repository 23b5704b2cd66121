// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/origin"
)

// describing returns an entry whose application is described inline by the spec of a template.
func describing(name string, template *spatev1.ASTFTemplate) spatev1.TrafficEntry {
	return spatev1.TrafficEntry{
		Name: spatev1.EntryName(name), TransmitPort: "east", ReceivePort: "west", Application: &spatev1.ApplicationEntry{Inline: &template.Spec},
	}
}

func TestInlineProgramsArePlannedAsReferencedOnes(t *testing.T) {
	secret := fromSecret("login", "password").Reference()
	data := map[spatev1.DataReference][]byte{secret: []byte("correct horse battery")}
	for name, changes := range map[string][]string{
		"contents that are written": nil,
		"a Secret":                  {"{text: GET /}", "{from: {secretKeyRef: {name: login, key: password}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			template := templateOf(t, webTemplate, changes...)
			templates := map[string]*spatev1.ASTFTemplate{"one": template}
			described, referring := profile(describing("web", template)), profile(running("web", "one", "east", "west"))
			of := func(p *spatev1.TrafficProfile) *Resolved {
				return mustResolve(t, Input{Profile: p, Generator: generator(), Templates: templates, Data: data})
			}
			got, want := of(described), of(referring)
			if made := got.Plan(Identity{}); !proto.Equal(made, want.Plan(Identity{})) {
				t.Errorf("got %v, want %v", made, want.Plan(Identity{}))
			}
			if !slices.Equal(got.Secrets, want.Secrets) || (len(got.Secrets) == 1) != (changes != nil) {
				t.Errorf("Secrets %v, want %v", got.Secrets, want.Secrets)
			}
			stored, err := proto.Marshal(got.Plan(Identity{}))
			if err != nil || bytes.Contains(stored, data[secret]) {
				t.Errorf("the plan that is stored has the bytes of a Secret, or %v", err)
			}
			if got, want := DataReferences(described, nil, nil), DataReferences(referring, nil, templates); !slices.Equal(got, want) {
				t.Errorf("data %v, want %v", got, want)
			}
			if a, b := Estimate(described, nil, nil), Estimate(referring, nil, templates); a != b {
				t.Errorf("inline %d bytes, by reference %d", a, b)
			}
		})
	}
}

func TestRulesOfInlineProgramsAreReportedByTheirFields(t *testing.T) {
	const at = "spec.traffic[0].application.inline.source.programs"
	for want, changes := range map[string][]string{
		at + ".client[2].delay: Invalid value: min must not be greater than max":                                     {"{min: 1ms, max: 2ms}", "{min: 3ms, max: 2ms}"},
		at + ".client[1]: Invalid value: exactly one of the fields in [connect accept":                               {"receive: {bytes: 5}", "receive: {bytes: 5}\n      close: {}"},
		at + ".client[0].send.content: Invalid value: exactly one of the fields in [text hex base64 size from]":      {"{text: GET /}", "{}"},
		at + ".client[0].send.content.from: Invalid value: exactly one of":                                           {"{text: GET /}", "{from: {}}"},
		at + ".client[0].send.content.from.secretKeyRef.name: Invalid value: is required":                            {"{text: GET /}", "{from: {secretKeyRef: {key: password}}}"},
		at + ".client[2].delay.min: Invalid value: \"1 ms\": must be a duration":                                     {"{min: 1ms, max: 2ms}", "{min: 1 ms}"},
		at + ".server[0].receive.bytes: Invalid value: 0: spec.source.programs.server[0].receive.bytes in body shou": {"{bytes: 5, clear: true}", "{bytes: 0, clear: true}"},
	} {
		p := profile(describing("web", templateOf(t, webTemplate, changes...)))
		_, problems := Resolve(Input{Profile: p, Generator: generator()})
		if len(problems) == 0 || problems.Reason() != spatev1.ReasonInvalidSpec || !strings.HasPrefix(problems[0].Error(), want) {
			t.Errorf("got %v\nwant %s", problems, want)
		}
		for _, ref := range DataReferences(p, nil, nil) {
			if ref.Name == "" {
				t.Errorf("%s: the operator would look up %v", want, ref)
			}
		}
	}
}

func TestAnEnginesRefusalsOfInlineProgramsAreReportedByTheirFields(t *testing.T) {
	resolved := mustResolve(t, Input{Profile: profile(describing("web", templateOf(t, webTemplate))), Generator: generator()})
	message := origin.Of(resolved.Plan(Identity{}), resolved.Entries, resolved.Clients).Refused("stateful.templates[0].server.instructions[2]", "x").Error()
	if want := "entry web: application.inline.source.programs.server[2]: x"; message != want {
		t.Errorf("got %s, want %s", message, want)
	}
}

func TestProgramsSwitchToAnInlineTemplateByItsEntry(t *testing.T) {
	switching := templateOf(t, webTemplate, "- add: {variable: left, value: -1}\n    - jump: {to: again, variable: left, comparison: Greater}\n", "- switchTemplate: {template: answers}\n")
	for name, c := range map[string]struct {
		other spatev1.TrafficEntry
		want  string
	}{
		"inline":       {describing("answers", templateOf(t, webTemplate)), ""},
		"by reference": {running("other", "answers", "east", "west"), ""},
		"to none":      {describing("other", templateOf(t, webTemplate)), `spec.traffic[0].application.inline.source.programs.client[3].switchTemplate.template: no entry of the profile runs "answers" on the same ports; add one`},
	} {
		resolved, problems := Resolve(Input{
			Profile: profile(describing("web", switching), c.other), Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"answers": templateOf(t, webTemplate)},
		})
		if c.want != "" {
			if problems.Message() != c.want {
				t.Errorf("%s: got %s\nwant %s", name, problems.Message(), c.want)
			}
			continue
		}
		if len(problems) > 0 {
			t.Errorf("%s: %s", name, problems)
		} else if to := resolved.Plan(Identity{}).Stateful.Templates[0].Client.Instructions[3].GetSwitchTemplate(); to != 1 {
			t.Errorf("%s: it switches to %d", name, to)
		}
	}
}
