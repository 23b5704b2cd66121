// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/operator/api/v1alpha1"
)

func sample[T any](t *testing.T, file string) *T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../config/samples", file))
	if err != nil {
		t.Fatal(err)
	}
	object := new(T)
	if err := yaml.UnmarshalStrict(text, object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestSamplesBecomePlans(t *testing.T) {
	lab := sample[spatev1.TrafficGenerator](t, "trafficgenerator.yaml")
	stream := sample[spatev1.StatelessStream](t, "statelessstream.yaml")
	streams := map[string]*spatev1.StatelessStream{stream.Name: stream}
	for _, file := range []string{"imix.yaml", "trafficprofile.yaml"} {
		in := Input{Profile: sample[spatev1.TrafficProfile](t, file), Streams: streams}
		if in.Profile.Spec.GeneratorRef != nil {
			in.Generator = lab
		}
		if _, problems := Resolve(in); len(problems) > 0 {
			t.Errorf("%s: %v", file, problems)
		}
	}
	if problems := CheckGenerator(&lab.Spec); len(problems) > 0 {
		t.Error(problems)
	}
	if _, problems := CheckStream(&stream.Spec); len(problems) > 0 {
		t.Error(problems)
	}
}
