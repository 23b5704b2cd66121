// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/problem"
)

// fullProfile returns a profile with a value in each field that a run can override.
func fullProfile() *spatev1.TrafficProfile {
	return &spatev1.TrafficProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "imix", UID: "1", Generation: 3, Labels: map[string]string{"team": "a"}},
		Spec: spatev1.TrafficProfileSpec{
			TrafficDefinition: spatev1.TrafficDefinition{
				Rate: "2x", Duration: "10s", Warmup: "1s", Drain: "500ms",
				Traffic:    []spatev1.TrafficEntry{{Name: "a", TransmitPort: "left", Stream: &spatev1.StreamEntry{}}},
				Thresholds: []spatev1.Threshold{{Name: "own", Expression: "result.lost == 0"}},
			},
			Generator: &spatev1.TrafficGeneratorSpec{},
			RunPolicy: spatev1.RunManual,
		},
	}
}

func overrides() spatev1.RunOverrides {
	return spatev1.RunOverrides{
		GeneratorRef: &spatev1.GeneratorReference{Name: "other"}, Rate: "80%", Duration: "1h", Warmup: "5s",
		Thresholds: []spatev1.Threshold{{Name: "less", Expression: "result.lossRatio < 0.1"}},
	}
}

func TestRunWithoutOverridesExecutesTheProfileAsItIs(t *testing.T) {
	profile := fullProfile()
	run := &spatev1.TrafficRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "imix-7", UID: "2"},
		Spec:       spatev1.TrafficRunSpec{ProfileRef: &spatev1.LocalReference{Name: "imix"}},
	}
	if changed := diff.Diff(profile, Effective(run, profile)); changed != "" {
		t.Error(changed)
	}
}

func TestOverridesReplaceFieldsOfAReferencedProfile(t *testing.T) {
	profile := fullProfile()
	run := &spatev1.TrafficRun{Spec: spatev1.TrafficRunSpec{ProfileRef: &spatev1.LocalReference{Name: "imix"}, Overrides: overrides()}}
	want := fullProfile()
	want.Spec.Generator = nil
	want.Spec.GeneratorRef = &spatev1.GeneratorReference{Name: "other"}
	want.Spec.Rate, want.Spec.Duration, want.Spec.Warmup = "80%", "1h", "5s"
	want.Spec.Thresholds = []spatev1.Threshold{{Name: "less", Expression: "result.lossRatio < 0.1"}}
	if changed := diff.Diff(want, Effective(run, profile)); changed != "" {
		t.Error(changed)
	}
	if changed := diff.Diff(fullProfile(), profile); changed != "" {
		t.Errorf("the profile was changed: %s", changed)
	}
}

func TestRunThatDescribesItsProfileGivesItItsName(t *testing.T) {
	run := &spatev1.TrafficRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "once", UID: "2", Generation: 4, Labels: map[string]string{"ci": "1"}},
		Spec:       spatev1.TrafficRunSpec{Profile: &fullProfile().Spec.TrafficDefinition, Overrides: overrides()},
	}
	want := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "once"}}
	want.Spec.TrafficDefinition = fullProfile().Spec.TrafficDefinition
	want.Spec.GeneratorRef = &spatev1.GeneratorReference{Name: "other"}
	want.Spec.Rate, want.Spec.Duration, want.Spec.Warmup = "80%", "1h", "5s"
	want.Spec.Thresholds = []spatev1.Threshold{{Name: "less", Expression: "result.lossRatio < 0.1"}}
	if changed := diff.Diff(want, Effective(run, nil)); changed != "" {
		t.Error(changed)
	}
}

func TestNoThresholdsOverrideThoseOfAProfile(t *testing.T) {
	run := &spatev1.TrafficRun{Spec: spatev1.TrafficRunSpec{Overrides: spatev1.RunOverrides{Thresholds: []spatev1.Threshold{}}}}
	if got := Effective(run, fullProfile()).Spec.Thresholds; len(got) != 0 {
		t.Errorf("thresholds are %v: an empty list must replace the profile's", got)
	}
}

func TestRunIsPausedByItselfOrByItsProfile(t *testing.T) {
	for _, c := range []struct{ run, profile, want bool }{{false, false, false}, {true, false, true}, {false, true, true}, {true, true, true}} {
		profile := fullProfile()
		profile.Spec.Paused = c.profile
		if got := Effective(&spatev1.TrafficRun{Spec: spatev1.TrafficRunSpec{Paused: c.run}}, profile).Spec.Paused; got != c.want {
			t.Errorf("run paused %v, profile paused %v: paused is %v, want %v", c.run, c.profile, got, c.want)
		}
	}
}

func TestEffectiveProfileSharesNothingWithRunAndProfile(t *testing.T) {
	profile := fullProfile()
	run := &spatev1.TrafficRun{Spec: spatev1.TrafficRunSpec{Overrides: overrides()}}
	effective := Effective(run, profile)
	effective.Spec.GeneratorRef.Name, effective.Spec.Thresholds[0].Name, effective.Spec.Traffic[0].Name, effective.Labels["team"] = "x", "x", "x", "x"
	if changed := diff.Diff(fullProfile(), profile); changed != "" {
		t.Errorf("profile: %s", changed)
	}
	if changed := diff.Diff(overrides(), run.Spec.Overrides); changed != "" {
		t.Errorf("run: %s", changed)
	}
}

// A field that is added to RunOverrides must be applied, and a problem with it must have its path.
func TestEveryOverrideIsApplied(t *testing.T) {
	kind := reflect.TypeFor[spatev1.RunOverrides]()
	for i := range kind.NumField() {
		run := &spatev1.TrafficRun{Spec: spatev1.TrafficRunSpec{ProfileRef: &spatev1.LocalReference{Name: "imix"}}}
		fill(t, reflect.ValueOf(&run.Spec.Overrides).Elem().Field(i))
		if diff.Diff(Effective(run, fullProfile()), fullProfile()) == "" {
			t.Errorf("%s changes nothing", kind.Field(i).Name)
		}
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		if got := OfRun(problem.Problems{{Path: "spec." + name, Message: "x"}}, run)[0].Path; got != "spec.overrides."+name {
			t.Errorf("a problem of %s is reported at %s", name, got)
		}
	}
}

func TestProblemsOfARunAreReportedByItsFields(t *testing.T) {
	inline, referring := spatev1.TrafficRunSpec{Profile: &spatev1.TrafficDefinition{}}, spatev1.TrafficRunSpec{ProfileRef: &spatev1.LocalReference{Name: "imix"}}
	with := func(spec spatev1.TrafficRunSpec) spatev1.TrafficRunSpec { spec.Overrides = overrides(); return spec }
	for _, c := range []struct {
		spec       spatev1.TrafficRunSpec
		path, want string
	}{
		{inline, "spec.rate", "spec.profile.rate: x"},
		{inline, "spec", "spec.profile: x"},
		{with(inline), "spec.rate", "spec.overrides.rate: x"},
		{with(inline), "spec.rateLimit", "spec.profile.rateLimit: x"},
		{with(inline), "spec.traffic[0].stream.rate", "spec.profile.traffic[0].stream.rate: x"},
		{with(referring), "spec.thresholds[1].expression", "spec.overrides.thresholds[1].expression: x"},
		{with(referring), "spec.generatorRef.name", "spec.overrides.generatorRef.name: x"},
		{referring, "spec.thresholds[1].expression", `spec.profileRef: TrafficProfile "imix": spec.thresholds[1].expression: x`},
		{with(referring), "spec.traffic", `spec.profileRef: TrafficProfile "imix": spec.traffic: x`},
	} {
		got := OfRun(problem.Problems{{Reason: spatev1.ReasonInvalidSpec, Path: c.path, Message: "x"}}, &spatev1.TrafficRun{Spec: c.spec})[0]
		if got.Error() != c.want || got.Reason != spatev1.ReasonInvalidSpec {
			t.Errorf("%s: got %s, want %s", c.path, got, c.want)
		}
	}
}
