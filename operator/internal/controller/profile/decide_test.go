// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

// A run is not stopped because of a policy that its profile no longer has.
func TestWhatADueRunWaitsForIsSaid(t *testing.T) {
	const change, manual, schedule = spatev1.RunOnChange, spatev1.RunManual, spatev1.RunOnSchedule
	before := spatev1.RunTrigger{Generation: 3, Digest: "a", Number: 4}
	for name, c := range map[string]struct {
		profile *spatev1.TrafficProfile
		run     spatev1.TrafficRun
		start   bool
		message string
	}{
		"OnChange":              {edited(change, 4, last(before)), made(change, before), false, "run p-1a2b3-4 is being stopped"},
		"OnChange, ended":       {edited(change, 4, last(before)), made(change, before, endedFor(spatev1.ReasonStopped)), true, ""},
		"OnChange, was Manual":  {edited(change, 4, last(before)), made(manual, before), false, "run p-1a2b3-4 has not ended"},
		"Manual":                {edited(manual, 4, withRunID("two"), last(before)), made(manual, before), false, "run p-1a2b3-4 has not ended"},
		"Manual, was OnChange":  {edited(manual, 4, withRunID("two"), last(before)), made(change, before), false, "run p-1a2b3-4 has not ended"},
		"Schedule, for a runID": {edited(schedule, 4, withRunID("two"), last(before)), made(schedule, before), true, ""},
		"others' run":           {edited(change, 4, last(before)), created(), true, ""},
	} {
		s := &scope{r: &Reconciler{}, profile: c.profile, digest: "b", runs: []spatev1.TrafficRun{c.run}}
		if d := s.decide(); d.start != c.start || d.message != c.message || d.stalled {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
