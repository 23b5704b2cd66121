// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"

	spatev1 "spate.dev/api/v1alpha1"
)

// fullProfile is a profile with a value in each field that a run can override.
func fullProfile() *spatev1.TrafficProfile {
	return &spatev1.TrafficProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "imix", UID: "1", Generation: 3, Labels: map[string]string{"team": "a"}},
		Spec: spatev1.TrafficProfileSpec{
			TrafficDefinition: spatev1.TrafficDefinition{
				Rate: "2x", Duration: "10s", Warmup: "1s", Drain: "500ms",
				Traffic:    []spatev1.TrafficEntry{{Name: "a", TransmitPort: "left"}},
				Thresholds: []spatev1.Threshold{{Name: "own", Expression: "result.lost == 0"}},
			},
			Generator: &spatev1.TrafficGeneratorSpec{},
			RunPolicy: spatev1.RunManual,
		},
	}
}

func overridden() spatev1.RunOverrides {
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
	run := &spatev1.TrafficRun{Spec: spatev1.TrafficRunSpec{ProfileRef: &spatev1.LocalReference{Name: "imix"}, Overrides: overridden()}}
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
		Spec:       spatev1.TrafficRunSpec{Profile: &fullProfile().Spec.TrafficDefinition, Overrides: overridden()},
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
	run := &spatev1.TrafficRun{Spec: spatev1.TrafficRunSpec{Overrides: overridden()}}
	effective := Effective(run, profile)
	effective.Spec.GeneratorRef.Name, effective.Spec.Thresholds[0].Name, effective.Spec.Traffic[0].Name, effective.Labels["team"] = "x", "x", "x", "x"
	if changed := diff.Diff(fullProfile(), profile); changed != "" {
		t.Errorf("profile: %s", changed)
	}
	if changed := diff.Diff(overridden(), run.Spec.Overrides); changed != "" {
		t.Errorf("run: %s", changed)
	}
}
