// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
)

// samples are the objects of config/samples by kind and name.
type samples struct {
	generators map[string]*spatev1.TrafficGenerator
	streams    map[string]*spatev1.StatelessStream
	profiles   map[string]*spatev1.TrafficProfile
	templates  map[string]*spatev1.ASTFTemplate
	data       map[spatev1.DataReference][]byte
}

func readSamples(t *testing.T) samples {
	t.Helper()
	all := samples{map[string]*spatev1.TrafficGenerator{}, map[string]*spatev1.StatelessStream{}, map[string]*spatev1.TrafficProfile{}, map[string]*spatev1.ASTFTemplate{}, map[spatev1.DataReference][]byte{}}
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
					for key, data := range o.BinaryData {
						all.data[spatev1.DataReference{ConfigMapName: spatev1.ObjectName(name), Key: key}] = data
					}
				}
			case "TrafficGenerator":
				keep(t, all.generators, file, document, func(o *spatev1.TrafficGenerator) string { return o.Name })
			case "ASTFTemplate":
				keep(t, all.templates, file, document, func(o *spatev1.ASTFTemplate) string { return o.Name })
			case "StatelessStream":
				keep(t, all.streams, file, document, func(o *spatev1.StatelessStream) string { return o.Name })
			case "TrafficProfile":
				keep(t, all.profiles, file, document, func(o *spatev1.TrafficProfile) string { return o.Name })
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
	for name, stream := range all.streams {
		if _, problems := CheckStream(&stream.Spec); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
	for name, template := range all.templates {
		if problems := CheckTemplate(&template.Spec); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
	if len(all.templates) == 0 {
		t.Error("there is no sample of a template")
	}
	streams := map[string]int{ // in each plan
		"smoke": 1, "imix": 1, "syn-flood": 1, "rfc2544-sizes": 7, "vxlan": 100, "qinq": 1, "ipv6": 2, "burst-chain": 2, "latency": 2,
		"reflector": 1, "receive-only": 0, "replay": 1, "many-streams": 20000,
		"astf-http": 0, "astf-dns": 0, "astf-emix": 0, "astf-gtpu": 0,
	}
	templates := map[string]int{"astf-http": 1, "astf-dns": 1, "astf-emix": 8, "astf-gtpu": 1}
	if len(all.profiles) != len(streams) {
		t.Errorf("%d profiles among the samples, %d known here", len(all.profiles), len(streams))
	}
	for name, profile := range all.profiles {
		in := Input{Profile: profile, Streams: all.streams, Templates: all.templates, Data: all.data}
		if profile.Spec.GeneratorRef != nil {
			in.Generator = all.generators["lab"]
		}
		resolved, problems := Resolve(in)
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
