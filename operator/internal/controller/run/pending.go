// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what does a new run wait for, and how is it admitted to its generator?

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/metrics"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/admission"
	"spate.dev/operator/internal/runs/storage"
)

// waiting is why a run has not been admitted yet.
type waiting struct{ reason, message string }

// endUnstarted ends a run that has not sent anything.
func (s *scope) endUnstarted() {
	s.invalid(cmp.Or(s.end.reason, spatev1.ReasonIncomplete), s.end.message+" before the run started", s.end.message)
}

// wait reports why the run is not admitted yet.
func (s *scope) wait(reason, message string, again time.Duration) (time.Duration, error) {
	s.waiting = waiting{reason, message}
	return again, nil
}

// pending resolves what the run executes, and admits it to its generator.
func (s *scope) pending(ctx context.Context) (time.Duration, error) {
	s.run.Status.Phase = spatev1.RunPending
	if s.end.message != "" {
		s.endUnstarted()
		return 0, nil
	}
	if s.definition == nil {
		return s.wait(spatev1.ReasonReferenceNotFound, fmt.Sprintf("spec.profileRef: TrafficProfile %q does not exist in namespace %s", s.run.Spec.ProfileRef.Name, s.run.Namespace), 0)
	}
	if found, again, err := s.findBaseline(ctx); !found || err != nil {
		return again, err
	}
	key := admission.GeneratorKey(s.definition)
	if key.Name != admission.AnyGenerator || !runs.InLine(s.run) { // in line for the only generator, which was found before
		s.run.Status.Generator = key.String()
	}
	if behind, err := s.stillBehind(ctx); err != nil || behind != "" {
		return s.waitInLine(behind), err
	}
	resolution, release, ok, err := s.r.Resolver.Resolve(ctx, admission.Subject{Definition: s.definition, Run: s.run, Key: s.checkedAs(), Check: true})
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return s.waitForTurn("the run " + admission.WaitsForTurn)
	}
	defer release()
	if len(resolution.Problems) > 0 {
		return s.unresolved(resolution)
	}
	if problems := resolution.Resolved.CheckRequirements(s.run.Spec.Search, field.NewPath("spec", "search")); len(problems) > 0 {
		s.invalid(problems.Reason(), problems.Message(), "")
		return 0, nil
	}
	if ok, err := s.checkBaseline(ctx, resolution.Resolved); !ok || err != nil {
		return 0, err
	}
	g := resolution.Generator
	if g != nil {
		s.run.Status.Generator = client.ObjectKeyFromObject(g).String()
	}
	if message := admission.NotReady(g); message != "" { // a generator that became ready before the cache had the run's status does not wake the run
		return s.wait(spatev1.ReasonGeneratorNotReady, message, kstatus.PollPause(s.run.Status.Conditions))
	}
	return s.admit(ctx, resolution)
}

// checkedAs is the key of the plan's check result: a run without overrides has the plan of its profile.
func (s *scope) checkedAs() (key types.UID) {
	if s.profile != nil && s.run.Spec.Search == nil && reflect.DeepEqual(s.run.Spec.Overrides, spatev1.RunOverrides{}) {
		return s.profile.UID
	}
	return s.run.UID
}

// unresolved waits if the problem may resolve itself, and ends the run otherwise.
func (s *scope) unresolved(resolution *admission.Resolution) (time.Duration, error) {
	problems := plan.OfRun(resolution.Problems, s.run)
	switch reason := problems.Reason(); {
	case resolution.Retry > 0:
		return s.wait(reason, problems.Message(), resolution.Retry)
	case problems.Lasting():
		s.invalid(reason, problems.Message(), "")
		return 0, nil
	default:
		return s.wait(reason, problems.Message(), kstatus.PollPause(s.run.Status.Conditions)) // labels of namespaces and data referenced by streams are not watched
	}
}

// admit reserves the run's place on the generator, or makes it wait for one. The reservation is a single write before anything else: an
// operator that stops here leaves no partial state behind.
func (s *scope) admit(ctx context.Context, resolution *admission.Resolution) (time.Duration, error) {
	g := resolution.Generator
	release, ok := s.r.Resolver.Enter(client.ObjectKeyFromObject(g))
	if !ok {
		return s.waitForTurn("another run is being admitted to TrafficGenerator " + g.Name)
	}
	defer release()
	latest := &spatev1.TrafficGenerator{}
	if err := s.r.Client.Get(ctx, client.ObjectKeyFromObject(g), latest); client.IgnoreNotFound(err) != nil {
		return 0, err
	}
	if latest.UID != g.UID || latest.Generation != g.Generation || admission.NotReady(latest) != "" { // its pods may be replaced now
		return s.waitForTurn("TrafficGenerator " + g.Name + " has changed")
	}
	place, err := runs.PlaceOf(ctx, s.r.Client, client.ObjectKeyFromObject(g), s.run)
	if err != nil {
		return 0, err
	}
	busy, refuses := "", s.definition.Spec.WhenBusy == spatev1.BusyRefuse
	if place.Ahead == 0 || refuses {
		if busy, err = resolution.Busy(ctx); err != nil {
			return 0, err
		}
	}
	switch {
	case refuses && (busy != "" || place.Busy):
		s.invalid(spatev1.ReasonGeneratorBusy, cmp.Or(busy, placed(place, g))+"; spec.whenBusy is Refuse", "")
		return 0, nil
	case refuses && place.Ahead > 0: // the generator has just become ready: whether it has room for the older runs is not known yet
		return s.waitForTurn(placed(place, g))
	case place.Ahead > 0:
		return s.waitInLine(placed(place, g)), nil
	case busy != "":
		return s.waitInLine(fmt.Sprintf("queued first for TrafficGenerator %s, which has no room yet: %s", g.Name, busy)), nil
	}
	resolved, id, settled, err := resolution.Admit(ctx, s.run)
	if err != nil {
		return 0, err
	}
	defer settled()
	resolved.Snapshot, err = storage.Save(ctx, s.r.Client, s.run, func(w io.Writer) error { return resolution.Resolved.Write(w, id) })
	what := "the plan"
	if err == nil && s.comparedTo != nil {
		what = "the result of the baseline"
		resolved.Baseline, err = storage.SaveBaseline(ctx, s.r.Client, s.run, s.comparedTo, s.comparedTo.Status.Result)
	}
	if storage.Refused(err) && !kstatus.Expected(err) {
		return s.wait(spatev1.ReasonAdmissionFailed, fmt.Sprintf("%s cannot be stored: %v; retried every %s", what, err, kstatus.RefusedPause), kstatus.RefusedPause)
	}
	if err != nil {
		return 0, err
	}
	resolved.Snapshot.Secrets = resolution.Secrets()
	now := metav1.Now()
	s.run.Status.Resolved, s.run.Status.PrepareTime, s.run.Status.RateFactor = resolved, &now, resolved.RateFactor
	s.run.Status.Paused = s.definition.Spec.Paused
	s.run.Status.Phase = spatev1.RunPreparing
	s.conditions()
	if err := kstatus.Patch(ctx, s.r.Client, s.run, s.before); err != nil {
		return 0, err
	}
	s.recordPhase(s.before)
	s.before = s.run.DeepCopy()
	metrics.RunAdmitted(time.Since(s.run.CreationTimestamp.Time), resolved.Snapshot.Bytes)
	for _, warning := range resolution.Resolved.Warnings {
		s.r.Events.Eventf(s.run, nil, corev1.EventTypeWarning, "PlanWarning", "Start", "%s", warning)
	}
	return time.Millisecond, s.r.Resolver.Seen(ctx, s.run)
}

// waitForTurn makes the run wait until the operator has a place for it. A run in line keeps its place, and nothing is written.
func (s *scope) waitForTurn(message string) (time.Duration, error) {
	if ready := meta.FindStatusCondition(s.run.Status.Conditions, spatev1.ConditionReady); runs.InLine(s.run) {
		return s.wait(ready.Reason, ready.Message, admission.Pause)
	}
	return s.wait(spatev1.ReasonProgressing, message, admission.Pause)
}

// waitInLine makes the run wait for the generator's room.
func (s *scope) waitInLine(message string) time.Duration {
	s.waiting = waiting{spatev1.ReasonGeneratorBusy, message}
	return kstatus.PollPause(s.run.Status.Conditions)
}

// stillBehind returns the place of a run that is in line behind others; empty if it is next, or has no place yet. Its plan is resolved
// again when it is next: resolving all plans of a line whenever it moves would take too long.
func (s *scope) stillBehind(ctx context.Context) (string, error) {
	if !runs.InLine(s.run) || s.run.Generation != s.before.Status.ObservedGeneration || s.run.Status.Generator != s.before.Status.Generator ||
		s.definition.Spec.WhenBusy == spatev1.BusyRefuse {
		return "", nil
	}
	key, _ := runs.GeneratorKey(s.run)
	g := &spatev1.TrafficGenerator{}
	if err := s.r.Client.Get(ctx, key, g); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if admission.NotReady(g) != "" {
		return "", nil
	}
	place, err := runs.PlaceOf(ctx, s.r.Client, client.ObjectKeyFromObject(g), s.run)
	if err != nil || place.Ahead == 0 {
		return "", err
	}
	return placed(place, g), nil
}

// placed describes a run's place in the line for a generator.
func placed(place runs.Place, g *spatev1.TrafficGenerator) string {
	return fmt.Sprintf("queued for TrafficGenerator %s %s", g.Name, place)
}
