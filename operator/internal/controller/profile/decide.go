// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: is a new run due, and may it start?

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/run"
	"spate.dev/operator/internal/plan"
)

// decision says what is to be done now, and if nothing, why.
type decision struct {
	start bool
	// reason and message say what the profile waits for, or what keeps it from being run; empty if nothing does.
	reason, message string
	phase           spatev1.ProfilePhase
	// stalled is true when nothing happens until somebody changes something.
	stalled bool
	again   time.Duration
}

// stalling reasons are those that time does not mend.
var stalling = []string{
	spatev1.ReasonInvalidSpec, spatev1.ReasonNotSupported, spatev1.ReasonNotAllowed, spatev1.ReasonLimitExceeded, spatev1.ReasonOversubscribed,
}

func (s *scope) decide(ctx context.Context) (decision, error) {
	latest := s.latest()
	active := latest != nil && run.Active(latest)
	if s.profile.Spec.Suspend {
		d := decision{reason: spatev1.ReasonSuspended, message: "spec.suspend is true", phase: spatev1.ProfileSuspended}
		if active {
			d.message = "spec.suspend is true: the run is being stopped"
		}
		return d, nil
	}
	if !s.due() {
		if active && s.rateRefused() {
			return s.problem(), nil
		}
		return decision{}, nil
	}
	if len(s.problems) > 0 {
		return s.problem(), nil
	}
	if active {
		return pause(spatev1.ReasonProgressing, "run "+latest.Name+" is being stopped"), nil
	}
	if s.generator == nil { // the inline one, just made
		return pause(spatev1.ReasonGeneratorNotReady, "the generator is being made"), nil
	}
	if message := notReady(s.generator); message != "" {
		return pause(spatev1.ReasonGeneratorNotReady, message), nil
	}
	if s.closed {
		d := pause(spatev1.ReasonProgressing, "another run is being admitted to TrafficGenerator "+s.generator.Name)
		d.again = turnPause
		return d, nil
	}
	return s.admit(ctx)
}

// pause waits for what may come by itself.
func pause(reason, message string) decision {
	return decision{reason: reason, message: message, phase: spatev1.ProfilePending}
}

// problem is the decision not to run what cannot be run.
func (s *scope) problem() decision {
	d := pause(s.problems.Reason(), s.problems.Message())
	if slices.Contains(stalling, d.reason) {
		d.stalled, d.phase = true, spatev1.ProfileStalled
	}
	if s.untried > 0 {
		d.again = s.untried
		return d
	}
	if d.reason == spatev1.ReasonReferenceNotAllowed || d.reason == spatev1.ReasonReferenceNotFound || s.looked {
		d.again = s.pollPause() // a namespace's labels and data that streams name wake nobody
	}
	return d
}

// pollPause is when a profile looks again that nothing may wake: after a quarter of the time that it has waited, from 5 s to a minute. To
// look may be to read all data that it names.
func (s *scope) pollPause() time.Duration {
	var waited time.Duration
	if ready := meta.FindStatusCondition(s.profile.Status.Conditions, spatev1.ConditionReady); ready != nil && ready.Status == metav1.ConditionFalse {
		waited = time.Since(ready.LastTransitionTime.Time)
	}
	return min(max(waited/4, 5*time.Second), time.Minute)
}

// due tells whether what the profile asks for was not started yet: it changed, has a new runID, or was resumed after a
// suspension that had ended its run.
func (s *scope) due() bool {
	started := s.profile.Status.CurrentRun
	if latest := s.latest(); latest != nil && (started == nil || run.Number(latest.Name) > run.Number(started.Name)) {
		started = reference(latest)
	}
	if started == nil || !s.asksFor(started) {
		return true
	}
	latest := s.latest()
	conditions := s.profile.Status.Conditions
	if latest != nil && latest.Name == started.Name {
		conditions = latest.Status.Conditions
	}
	complete := meta.FindStatusCondition(conditions, spatev1.ConditionComplete)
	return complete != nil && complete.Status == metav1.ConditionTrue && complete.Reason == spatev1.ReasonSuspended
}

// asksFor tells whether a run is of what the profile asks for now. A profile that nobody has edited since asks for the same, though its
// digest may be another: a later version of its kind may have more fields with defaults.
func (s *scope) asksFor(started *spatev1.RunReference) bool {
	return started.Digest == s.digest || s.profile.Generation <= started.ProfileGeneration
}

// rateRefused tells whether a run is under way and its profile asks for a rate it may not have, in all or of an entry.
func (s *scope) rateRefused() bool {
	return slices.ContainsFunc(s.problems, func(p plan.Problem) bool {
		return strings.HasPrefix(p.Path, "spec.rate") || p.Path == "spec.traffic" ||
			strings.HasPrefix(p.Path, "spec.traffic[") && strings.HasSuffix(p.Path, "].rate")
	})
}

// notReady tells why a generator cannot take a run; empty if it can.
func notReady(g *spatev1.TrafficGenerator) string {
	ready := meta.FindStatusCondition(g.Status.Conditions, spatev1.ConditionReady)
	switch {
	case g.DeletionTimestamp != nil:
		return fmt.Sprintf("TrafficGenerator %s is being deleted", g.Name)
	case ready == nil || ready.ObservedGeneration != g.Generation:
		return fmt.Sprintf("TrafficGenerator %s is being set up", g.Name)
	case ready.Status != metav1.ConditionTrue:
		return fmt.Sprintf("TrafficGenerator %s is not ready: %s: %s", g.Name, ready.Reason, ready.Message)
	}
	return ""
}

// admit tells whether the generator has room beside the runs it executes: no port beyond its line rate, no limit
// exceeded, nothing claimed that another has. (That this profile alone fits was found when it was resolved.)
func (s *scope) admit(ctx context.Context) (decision, error) {
	active, err := run.ActiveOn(ctx, s.r.Client, s.generator)
	if err != nil || len(active) == 0 {
		return decision{start: err == nil}, err
	}
	others, err := s.r.Memory.LoadOf(ctx, active)
	if err != nil {
		return decision{}, err
	}
	if problems := plan.CheckLoad(s.resolved.Load.Plus(others), s.generator, field.NewPath("spec", "traffic")); len(problems) > 0 {
		return s.busy(fmt.Sprintf("together with %s: %s", strings.Join(run.Names(active), ", "), problems.Message())), nil
	}
	for i := range active {
		facts, err := s.r.Memory.Of(ctx, &active[i])
		if err != nil {
			return decision{}, err
		}
		if conflict := s.resolved.Claims().Conflict(facts.Claims); conflict != "" {
			return s.busy(fmt.Sprintf("together with %s: spec.traffic: %s", run.Names(active[i : i+1])[0], conflict)), nil
		}
	}
	return decision{start: true}, nil
}

// busy is the decision not to run beside the runs there are.
func (s *scope) busy(message string) decision {
	d := decision{reason: spatev1.ReasonGeneratorBusy, message: message, phase: spatev1.ProfileQueued, again: s.pollPause()}
	if s.profile.Spec.WhenBusy == spatev1.BusyRefuse {
		d.stalled, d.phase, d.again = true, spatev1.ProfileStalled, 0
	}
	return d
}
