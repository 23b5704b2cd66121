// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: what was the profile's latest run started for, and is another due?

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs"
)

// started is what a run was started for. scheduled is zero but for a time of a schedule.
type started struct {
	trigger   spatev1.RunTrigger
	scheduled time.Time
}

// lastStarted is the profile's latest run that this operator started; none if it has started none.
func (s *scope) lastStarted() (last started, known bool) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	last, known = s.r.started[s.profile.UID]
	return last, known
}

// trigger of the latest run that the profile started, by its status, by the runs there are, and by what the cache does not have yet; nil
// if it has started none.
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

// refreshTrigger records what the latest run was started for as this version of the operator sees it. A profile that nobody has edited
// since asks for the same, though its digest may be another: a later version of its kind may have more fields with defaults.
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

// due is true if the profile is to start a run: by its policy it was changed, or resumed after a suspension that had ended its run; or it
// has another runID.
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
	var conditions []metav1.Condition // of that run, if it is known what became of it
	if own := s.own(); own != nil && int64(runs.Number(own.Name)) == last.Number {
		conditions = own.Status.Conditions
	} else if current := s.profile.Status.CurrentRun; current != nil && current.Name == s.runName(last.Number) {
		conditions = s.profile.Status.Conditions
	}
	complete := meta.FindStatusCondition(conditions, spatev1.ConditionComplete)
	return complete != nil && complete.Status == metav1.ConditionTrue && complete.Reason == spatev1.ReasonSuspended
}
