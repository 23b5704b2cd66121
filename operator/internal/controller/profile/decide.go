// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: must a run be started, and if not, why?

import (
	"slices"
	"strings"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/runs"
)

// decision is what to do now, or why nothing is done.
type decision struct {
	start bool
	// scheduled is the time of the schedule that the run is for; zero for other runs.
	scheduled time.Time
	// skipped describes a time of the schedule that passed without a run, and why.
	skipped string
	// replace is the run to stop first.
	replace *spatev1.TrafficRun
	// reason and message are what the profile waits for, or why it cannot be run; empty if neither applies.
	reason, message string
	phase           spatev1.ProfilePhase
	// stalled is true if nothing happens until a user changes an object.
	stalled bool
	again   time.Duration
}

func (s *scope) decide() decision {
	own, due := s.active(), s.due()
	switch {
	case s.profile.Spec.Suspend:
		d := decision{reason: spatev1.ReasonSuspended, message: "spec.suspend is true", phase: spatev1.ProfileSuspended}
		if own != nil {
			d.message = "spec.suspend is true: the run is being stopped"
		}
		return d
	case s.waits != "" && own == nil:
		d := pending(spatev1.ReasonProgressing, s.waits)
		d.again = s.retry
		return d
	case s.waits != "":
		return decision{again: s.retry}
	case len(s.problems) > 0 && (own == nil || due || s.liveRefused()):
		return s.problem()
	case due && own != nil && s.profile.Spec.RunPolicy == spatev1.RunOnChange && runs.PolicyOf(own) == spatev1.RunOnChange:
		return pending(spatev1.ReasonProgressing, "run "+own.Name+" is being stopped")
	case due && own != nil && s.profile.Spec.RunPolicy != spatev1.RunOnSchedule:
		return pending(spatev1.ReasonProgressing, "run "+own.Name+" has not ended")
	case due:
		return decision{start: true}
	case s.profile.Spec.RunPolicy == spatev1.RunOnSchedule && s.profile.Spec.Schedule != nil:
		return s.bySchedule()
	}
	s.profile.Status.NextScheduleTime = nil
	return decision{}
}

// pending is a decision to wait.
func pending(reason, message string) decision {
	return decision{reason: reason, message: message, phase: spatev1.ProfilePending}
}

// problem is the decision for a profile that cannot be run.
func (s *scope) problem() decision {
	d := pending(s.problems.Reason(), s.problems.Message())
	if s.problems.Lasting() {
		d.stalled, d.phase = true, spatev1.ProfileStalled
	}
	d.again = s.retry
	return d
}

// liveRefused reports whether the profile's problem is in a live field or its thresholds: then the active run keeps its current
// settings.
func (s *scope) liveRefused() bool {
	return slices.ContainsFunc(s.problems, func(p problem.Problem) bool {
		return strings.HasPrefix(p.Path, "spec.rate") || strings.HasPrefix(p.Path, "spec.thresholds") || p.Path == "spec.traffic" ||
			strings.HasPrefix(p.Path, "spec.traffic[") && (strings.HasSuffix(p.Path, "].stream.rate") || strings.HasSuffix(p.Path, "].application.connectionRate"))
	})
}
