// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestObjectsOfKindsThatNoPlanIsMadeOfAreJudged(t *testing.T) {
	key := strings.Repeat("a5", 32)
	capture := "apiVersion: spate.dev/v1alpha1\nkind: TrafficCapture\nmetadata: {name: east}\nspec: {generatorRef: {name: lab}, ports: [east], readerKey: " + key + "}\n"
	set, problems := read(capture)
	if len(problems) > 0 || len(set.Validated) != 1 || set.Validated[0].Value != "TrafficCapture east" || len(set.Others) > 0 {
		t.Errorf("got %+v, %v", set, problems)
	}
	if _, problems := read(capture + "x: 1\n"); len(problems) != 1 || problems[0].Error() != "a.yaml, document 1: TrafficCapture east: x: unknown field; the fields here are apiVersion, kind, metadata, spec, status" {
		t.Errorf("got %v", problems)
	}
}

func TestDefaultsAreFilledIn(t *testing.T) {
	set, problems := read(port + "---\n" + `apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: smoke}
spec:
  traffic: [{name: a, stream: {ref: {name: a}}}]
status: {phase: Running}
`)
	if len(problems) > 0 || len(set.Generators) != 1 || len(set.Profiles) != 1 {
		t.Fatal(problems)
	}
	if g := set.Generators[0].Value.Spec; g.Replicas != 1 || g.Workers != 1 || g.CPUPolicy != spatev1.CPUExclusive || g.PacketMemory.Backing != spatev1.BackingHugepages2Mi {
		t.Errorf("generator %+v", g)
	}
	p := set.Profiles[0].Value
	if p.Spec.Warmup != "0s" || p.Spec.Drain != "500ms" || p.Spec.Traffic[0].Stream.Start != spatev1.StartAuto || p.Status.Phase != "" {
		t.Errorf("profile %+v", p)
	}
}

// A name that the server makes has what the kind asks of names, and five bytes more than is written.
func TestGeneratedNamesAreJudged(t *testing.T) {
	for name, want := range map[string]bool{strings.Repeat("x", 58): true, strings.Repeat("x", 40): true, "Smoke-": false} {
		set, problems := read(strings.Replace(run, "name: smoke-1", "generateName: "+name, 1))
		if taken := len(problems) == 0; taken != want {
			t.Errorf("%s: got %v", name, problems)
		} else if taken && (set.Runs[0].Value.Name != "" || set.Runs[0].Value.GenerateName != name) {
			t.Errorf("%s: got %+v", name, set.Runs[0].Value.ObjectMeta)
		}
	}
}
