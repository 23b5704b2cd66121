// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/stream"
)

// samples are the objects in config/samples by kind and name.
type samples struct {
	generators map[string]*spatev1.TrafficGenerator
	streams    map[string]*spatev1.StatelessStream
	profiles   map[string]*spatev1.TrafficProfile
	runs       map[string]*spatev1.TrafficRun
	templates  map[string]*spatev1.ASTFTemplate
	clients    map[string]*spatev1.ClientGroup
	data       map[spatev1.DataReference][]byte
}

func readSamples(t *testing.T) samples {
	t.Helper()
	all := samples{
		map[string]*spatev1.TrafficGenerator{}, map[string]*spatev1.StatelessStream{}, map[string]*spatev1.TrafficProfile{}, map[string]*spatev1.TrafficRun{},
		map[string]*spatev1.ASTFTemplate{}, map[string]*spatev1.ClientGroup{}, map[spatev1.DataReference][]byte{},
	}
	files, err := filepath.Glob("../../../config/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			var kind struct{ Kind string }
			if err := yaml.Unmarshal(document, &kind); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			switch kind.Kind {
			case "ConfigMap":
				maps := map[string]*corev1.ConfigMap{}
				keep(t, maps, file, document, func(o *corev1.ConfigMap) string { return o.Name })
				for name, o := range maps {
					of := func(key string) spatev1.DataReference {
						return spatev1.DataReference{Kind: spatev1.DataConfigMap, Name: spatev1.ObjectName(name), Key: key}
					}
					for key, data := range o.BinaryData {
						all.data[of(key)] = data
					}
					for key, text := range o.Data {
						all.data[of(key)] = []byte(text)
					}
				}
			case "TrafficGenerator":
				keep(t, all.generators, file, document, func(o *spatev1.TrafficGenerator) string { return o.Name })
			case "ASTFTemplate":
				keep(t, all.templates, file, document, func(o *spatev1.ASTFTemplate) string { return o.Name })
			case "ClientGroup":
				keep(t, all.clients, file, document, func(o *spatev1.ClientGroup) string { return o.Name })
			case "StatelessStream":
				keep(t, all.streams, file, document, func(o *spatev1.StatelessStream) string { return o.Name })
			case "TrafficProfile":
				keep(t, all.profiles, file, document, func(o *spatev1.TrafficProfile) string { return o.Name })
			case "TrafficRun":
				keep(t, all.runs, file, document, func(o *spatev1.TrafficRun) string { return o.Name + o.GenerateName })
			}
		}
	}
	return all
}

func keep[T any](t *testing.T, in map[string]*T, file string, text []byte, name func(*T) string) {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict(text, object); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	in[name(object)] = object
}

func TestSamplesBecomePlans(t *testing.T) {
	all := readSamples(t)
	for name, generator := range all.generators {
		if problems := CheckGenerator(&generator.Spec); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
	for name, sent := range all.streams {
		if _, problems := stream.Check(&sent.Spec); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
	for name, template := range all.templates {
		if problems := application.Check(&template.Spec); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
	if len(all.templates) == 0 {
		t.Error("there is no sample of a template")
	}
	streams := map[string]int{ // in each plan
		"smoke": 1, "imix": 1, "syn-flood": 1, "rfc2544-sizes": 7, "vxlan": 100, "qinq": 1, "control-protocols": 9, "routing": 1, "routing-b": 0, "subscribers": 0, "ipv6": 2, "burst-chain": 2, "latency": 2,
		"reflector": 1, "receive-only": 0, "replay": 1, "replay-chain": 2, "replay-directions": 2, "many-streams": 20000, "selected-streams": 3,
		"astf-http": 0, "astf-dns": 0, "astf-smtp": 0, "astf-file": 0, "astf-emix": 0, "astf-gre": 0, "astf-gtpu": 0, "astf-mpls": 0, "astf-page": 0, "astf-vlans": 0, "astf-vxlan": 0, "worker-groups": 0,
		"router-imix": 1, "router-latency": 1, "router-syn-flood": 1, "router-http-100k": 0, "scheduled": 0, "forwarding": 1, "benchmark": 1, "stages": 1, "opening": 0, "holding": 0, "requesting": 0,
	}
	templates := map[string]int{"subscribers": 1, "astf-http": 1, "astf-dns": 1, "astf-smtp": 1, "astf-file": 1, "astf-emix": 8, "astf-gre": 1, "astf-gtpu": 1, "astf-mpls": 1, "astf-page": 3, "astf-vlans": 1, "astf-vxlan": 1, "router-http-100k": 1, "scheduled": 1, "worker-groups": 2, "opening": 1, "holding": 1, "requesting": 1}
	if len(all.profiles) != len(streams) {
		t.Errorf("%d profiles among the samples, %d known here", len(all.profiles), len(streams))
	}
	for name, profile := range all.profiles {
		resolved, problems := all.resolve(profile, nil)
		if len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		plan := resolved.Plan(Identity{RunID: "r"})
		if got := len(plan.Streams); got != streams[name] {
			t.Errorf("%s: %d streams, want %d", name, got, streams[name])
		}
		if got := len(plan.GetStateful().GetTemplates()); got != templates[name] {
			t.Errorf("%s: %d templates, want %d", name, got, templates[name])
		}
	}
}

func TestTheKustomizationOfSamplesHasEachOfThem(t *testing.T) {
	const folder = "../../../config/samples/"
	text, err := os.ReadFile(folder + "kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Resources []string }
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(folder + "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := filepath.Base(file); name != "kustomization.yaml" && !slices.Contains(all.Resources, name) {
			t.Errorf("%s is not among the resources of kustomization.yaml", name)
		}
	}
}

func TestSamplesOfRunsExecuteTheirProfiles(t *testing.T) {
	all := readSamples(t)
	if len(all.runs) == 0 {
		t.Error("there is no sample of a run")
	}
	for name, run := range all.runs {
		var profile *spatev1.TrafficProfile
		if ref := run.Spec.ProfileRef; ref != nil {
			if profile = all.profiles[string(ref.Name)]; profile == nil {
				t.Errorf("%s: there is no sample of a profile %s", name, ref.Name)
				continue
			}
		}
		if _, problems := all.resolve(Effective(run, profile), run); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func (s *samples) resolve(profile *spatev1.TrafficProfile, run *spatev1.TrafficRun) (*Resolved, problem.Problems) {
	in := Input{Profile: profile, Run: run, Streams: s.streams, Templates: s.templates, Clients: s.clients, Data: s.data}
	if ref := profile.Spec.GeneratorRef; ref != nil {
		in.Generator = s.generators[string(ref.Name)]
	}
	return Resolve(in)
}
