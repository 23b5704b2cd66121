// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: what triggered the profile's latest run, and is another due?

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs"
)

// started is what triggered a run. scheduled is zero unless the run is for a time of a schedule.
type started struct {
	trigger   spatev1.RunTrigger
	scheduled time.Time
}

// lastStarted is the profile's latest run that this operator started; known is false if it has started none.
func (s *scope) lastStarted() (last started, known bool) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	last, known = s.r.started[s.profile.UID]
	return last, known
}

// trigger of the latest run that the profile started, according to its status, the existing runs, and what the cache does not have yet;
// nil if it has started none.
func (s *scope) trigger() *spatev1.RunTrigger {
	last := s.profile.Status.LastTrigger
	newer := func(t spatev1.RunTrigger) {
		if last == nil || t.Number > last.Number {
			last = &t
		}
	}
	if own := s.own(); own != nil {
		newer(runs.TriggerOf(own))
	}
	if latest, known := s.lastStarted(); known {
		newer(latest.trigger)
	}
	return last
}

// refreshTrigger records the trigger of the latest run as this version of the operator computes it. If the profile was not edited
// since, its digest may still differ: a later version of the CRD may have more fields with defaults.
func (s *scope) refreshTrigger() {
	last := s.trigger()
	if last == nil {
		return
	}
	now := *last
	switch {
	case s.profile.Generation <= now.Generation:
		now.Digest = s.digest
	case s.digest == now.Digest:
		now.Generation = s.profile.Generation
	}
	s.profile.Status.LastTrigger = &now
}

// due reports whether the profile must start a run: by its policy it was changed, or resumed after a suspension that ended its run; or
// it has a new runID.
func (s *scope) due() bool {
	last, spec := s.trigger(), &s.profile.Spec
	switch {
	case spec.Suspend:
		return false
	case spec.RunPolicy == spatev1.RunManual || spec.RunPolicy == spatev1.RunOnSchedule:
		return spec.RunID != "" && (last == nil || last.RunID != spec.RunID)
	case last == nil:
		return true
	case last.Digest != s.digest && s.profile.Generation > last.Generation:
		return true
	}
	var conditions []metav1.Condition // of that run, if its outcome is known
	if own := s.own(); own != nil && int64(runs.Number(own.Name)) == last.Number {
		conditions = own.Status.Conditions
	} else if current := s.profile.Status.CurrentRun; current != nil && current.Name == s.runName(last.Number) {
		conditions = s.profile.Status.Conditions
	}
	complete := meta.FindStatusCondition(conditions, spatev1.ConditionComplete)
	return complete != nil && complete.Status == metav1.ConditionTrue && complete.Reason == spatev1.ReasonSuspended
}
