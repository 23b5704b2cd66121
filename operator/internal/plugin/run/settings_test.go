// SPDX-License-Identifier: Apache-2.0

package run

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestWhatIsSetIsChecked(t *testing.T) {
	set, err := parseSettings([]string{"rate=80%/port", "duration=10s", "warmup=0s", "generator=lab/east"})
	want := spatev1.RunOverrides{Rate: "80%/port", Duration: "10s", Warmup: "0s", GeneratorRef: &spatev1.GeneratorReference{Name: "east", Namespace: "lab"}}
	if err != nil || !reflect.DeepEqual(set, want) {
		t.Errorf("%+v, %v", set, err)
	}
	for option, want := range map[string]string{
		"rate":       "--set rate: must be NAME=VALUE; NAME is one of rate, duration, warmup, generator",
		"rate=":      "--set rate=: must be NAME=VALUE",
		"size=64":    "--set size=64: cannot be set; NAME is one of rate, duration, warmup, generator",
		"rate=much":  "--set rate=much: must be a factor such as 2x",
		"duration=1": `--set duration=1: time: missing unit in duration "1"`,
	} {
		if _, err := parseSettings([]string{option}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", option, err, want)
		}
	}
}

func TestManifestsAreSetAtTheirFields(t *testing.T) {
	set, err := parseSettings([]string{"rate=2x", "generator=east"})
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"rate": "1x", "duration": "5s"}}}
	if err := setIn(object, set, "spec"); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"spec": map[string]any{"rate": "2x", "duration": "5s", "generatorRef": map[string]any{"name": "east"}}}
	if !reflect.DeepEqual(object.Object, want) {
		t.Errorf("%v", object.Object)
	}
	run := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	if err := setIn(run, set, "spec", "overrides"); err != nil {
		t.Fatal(err)
	}
	if rate, _, _ := unstructured.NestedString(run.Object, "spec", "overrides", "rate"); rate != "2x" {
		t.Errorf("%v", run.Object)
	}
}
