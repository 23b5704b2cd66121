// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: what does a profile's status report?

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/stream"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/admission"
)

// status reports on the latest run, and on what the profile waits for.
func (s *scope) status(ctx context.Context, d decision) {
	current := s.latest()
	if current != nil {
		s.mirror(current)
	} else if s.profile.Status.CurrentRun != nil {
		s.gone()
	}
	s.stale(ctx, current)
	if d.skipped != "" {
		s.r.Events.Eventf(s.profile, nil, corev1.EventTypeWarning, "RunSkipped", "Schedule", "%s", d.skipped)
	}
	status, generation := &s.profile.Status, s.profile.Generation
	// A run of an earlier spec says nothing about the current one. The result of a deleted run remains valid.
	outdated := status.CurrentRun == nil || s.due()
	if outdated || d.phase == spatev1.ProfileSuspended {
		s.notStarted(d, current)
	}
	switch {
	case d.reason == spatev1.ReasonSuspended:
		kstatus.Idle(&status.Conditions, generation, d.reason, d.message)
	case d.stalled:
		kstatus.Stalled(&status.Conditions, generation, d.reason, d.message)
	case d.reason != "":
		kstatus.Progressing(&status.Conditions, generation, d.reason, d.message)
	case current != nil && runs.Active(current):
		s.underWay(current)
	default:
		kstatus.Ready(&status.Conditions, generation, spatev1.ReasonAvailable, s.idle())
	}
	switch {
	case d.phase == spatev1.ProfileSuspended, d.phase != "" && (outdated || current == nil || !runs.Active(current)):
		status.Phase = d.phase // otherwise the run continues unchanged
	case status.CurrentRun == nil:
		status.Phase = spatev1.ProfileIdle
	}
	status.Reason = s.reason()
}

// idle describes what a profile without an active run is ready for.
func (s *scope) idle() string {
	status := &s.profile.Status
	switch {
	case status.CurrentRun != nil:
		return ended(status)
	case s.profile.Spec.RunPolicy == spatev1.RunOnSchedule && status.NextScheduleTime != nil:
		return "the next run starts at " + status.NextScheduleTime.UTC().Format(time.RFC3339)
	}
	return "ready to run: create a TrafficRun with spec.profileRef to it, or set spec.runID"
}

// ended describes the outcome of the run.
func ended(status *spatev1.TrafficProfileStatus) string {
	last, current := status.LastResult, status.CurrentRun
	if last == nil || current == nil || last.Run != current.Name {
		return "the run has ended"
	}
	return fmt.Sprintf("run %s has ended: %s: %s", last.Run, last.Verdict, last.Message)
}

// gone reports that the current run was deleted: by the history limit after it had ended, or by a user before.
func (s *scope) gone() {
	status := &s.profile.Status
	if meta.IsStatusConditionTrue(status.Conditions, spatev1.ConditionComplete) {
		for i := range status.Conditions { // the outcome remains valid
			status.Conditions[i].ObservedGeneration = s.profile.Generation
		}
		return
	}
	set := func(kind string, value metav1.ConditionStatus, reason string) {
		kstatus.Set(&status.Conditions, kind, value, s.profile.Generation, reason, "run "+status.CurrentRun.Name+" was deleted")
	}
	status.Phase = spatev1.ProfileComplete
	set(spatev1.ConditionRunning, metav1.ConditionFalse, spatev1.ReasonStopped)
	set(spatev1.ConditionComplete, metav1.ConditionTrue, spatev1.ReasonStopped)
	set(spatev1.ConditionValid, metav1.ConditionFalse, spatev1.ReasonIncomplete)
	set(spatev1.ConditionPassed, metav1.ConditionUnknown, spatev1.ReasonIncomplete)
	meta.RemoveStatusCondition(&status.Conditions, spatev1.ConditionRecorded)
}

// mirror copies the state of the current run.
func (s *scope) mirror(current *spatev1.TrafficRun) {
	status := &s.profile.Status
	status.CurrentRun = reference(current)
	status.Phase = spatev1.ProfilePhase(current.Status.Phase)
	if status.Phase == "" {
		status.Phase = spatev1.ProfilePending
	}
	if ready := meta.FindStatusCondition(current.Status.Conditions, spatev1.ConditionReady); status.Phase == spatev1.ProfilePending && ready != nil && ready.Reason == spatev1.ReasonGeneratorBusy {
		status.Phase = spatev1.ProfileQueued
	}
	status.Totals, status.Flows = nil, nil
	if r := current.Status.Result; r != nil && !runs.Active(current) { // before that, only the run has them: they change all the time
		status.Totals, status.Flows = r.StreamCounters.DeepCopy(), r.Flows.DeepCopy()
	}
	for _, kind := range []string{spatev1.ConditionRunning, spatev1.ConditionComplete, spatev1.ConditionValid, spatev1.ConditionPassed} {
		if c := meta.FindStatusCondition(current.Status.Conditions, kind); c != nil {
			kstatus.Set(&status.Conditions, kind, c.Status, s.profile.Generation, c.Reason, c.Message)
		} else {
			s.unset(kind)
		}
	}
	if c := meta.FindStatusCondition(current.Status.Conditions, spatev1.ConditionRecorded); c != nil {
		kstatus.Set(&status.Conditions, c.Type, c.Status, s.profile.Generation, c.Reason, c.Message)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, spatev1.ConditionRecorded)
	}
	if v := current.Status.Verdict; v != nil {
		passed := meta.FindStatusCondition(current.Status.Conditions, spatev1.ConditionPassed)
		status.LastResult = &spatev1.ResultSummary{
			Run: current.Name, Verdict: v.Outcome, Reason: passed.Reason, Message: passed.Message, CompletionTime: current.Status.CompletionTime,
		}
		if r := current.Status.Result; r != nil {
			status.LastResult.WorstLatency = r.WorstLatency
		}
	}
}

// unset resets conditions to their values before a run.
func (s *scope) unset(kinds ...string) {
	for _, kind := range kinds {
		value, reason := metav1.ConditionFalse, spatev1.ReasonNotStarted
		if kind == spatev1.ConditionPassed || kind == spatev1.ConditionValid {
			value, reason = metav1.ConditionUnknown, spatev1.ReasonAwaitingResult
		}
		kstatus.Set(&s.profile.Status.Conditions, kind, value, s.profile.Generation, reason, "")
	}
}

// notStarted reports that what the profile specifies now is not running.
func (s *scope) notStarted(d decision, current *spatev1.TrafficRun) {
	if d.phase == spatev1.ProfileSuspended {
		if s.profile.Status.CurrentRun == nil {
			s.unset(spatev1.ConditionComplete, spatev1.ConditionValid, spatev1.ConditionPassed)
		}
		if current == nil || !runs.Active(current) {
			kstatus.Set(&s.profile.Status.Conditions, spatev1.ConditionRunning, metav1.ConditionFalse, s.profile.Generation, spatev1.ReasonSuspended, "")
		}
		return
	}
	if current == nil || !runs.Active(current) {
		s.unset(spatev1.ConditionRunning)
	}
	s.unset(spatev1.ConditionComplete, spatev1.ConditionValid, spatev1.ConditionPassed)
	meta.RemoveStatusCondition(&s.profile.Status.Conditions, spatev1.ConditionRecorded)
	s.profile.Status.Totals, s.profile.Status.Flows = nil, nil
}

// underWay reports on the active run: ready as soon as the engines execute it.
func (s *scope) underWay(current *spatev1.TrafficRun) {
	status, generation := &s.profile.Status, s.profile.Generation
	ready := meta.FindStatusCondition(current.Status.Conditions, spatev1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue {
		reason, message := spatev1.ReasonProgressing, "run "+current.Name+" is being prepared"
		if ready != nil {
			reason = ready.Reason
			if ready.Message != "" {
				message = ready.Message
			}
		}
		kstatus.Progressing(&status.Conditions, generation, reason, message)
		return
	}
	kstatus.Ready(&status.Conditions, generation, spatev1.ReasonAvailable, "run "+current.Name+" is active")
	if resolved := current.Status.Resolved; resolved != nil && resolved.Timing.Duration != "" { // a run without an end is in its desired state
		kstatus.Set(&status.Conditions, spatev1.ConditionReconciling, metav1.ConditionTrue, generation, spatev1.ReasonProgressing, "run "+current.Name+" is active")
	}
}

func reference(r *spatev1.TrafficRun) *spatev1.RunReference {
	return &spatev1.RunReference{Name: r.Name, UID: r.UID}
}

// stale sets the Stale condition if a stream or template has changed since the current run was resolved.
func (s *scope) stale(ctx context.Context, current *spatev1.TrafficRun) {
	if current == nil || current.Status.Resolved == nil {
		meta.RemoveStatusCondition(&s.profile.Status.Conditions, spatev1.ConditionStale)
		return
	}
	var changed []string
	for _, ref := range current.Status.Resolved.Profile.Definitions {
		digest, found, err := s.digestOf(ctx, ref)
		switch {
		case err != nil:
		case !found:
			changed = append(changed, fmt.Sprintf("%s %s no longer exists", ref.Kind, ref.Name))
		case digest != ref.Digest:
			changed = append(changed, fmt.Sprintf("%s %s has changed", ref.Kind, ref.Name))
		}
	}
	for _, was := range current.Status.Resolved.Profile.Selections {
		if now, known := s.selection(ctx, was.Entry); known && now != was {
			changed = append(changed, fmt.Sprintf("the StatelessStreams that entry %s selects have changed (%d then, %d now)", was.Entry, was.Count, now.Count))
		}
	}
	if len(changed) == 0 {
		meta.RemoveStatusCondition(&s.profile.Status.Conditions, spatev1.ConditionStale)
		return
	}
	kstatus.Set(&s.profile.Status.Conditions, spatev1.ConditionStale, metav1.ConditionTrue, s.profile.Generation,
		spatev1.ReasonReferenceChanged, strings.Join(changed, ", ")+" since run "+current.Name+" was resolved; it takes effect with the next run")
}

// selection returns what an entry selects now; not known if it has no selector, or the cache cannot be read.
func (s *scope) selection(ctx context.Context, entry spatev1.EntryName) (now spatev1.SelectionSnapshot, known bool) {
	at := slices.IndexFunc(s.profile.Spec.Traffic, func(e spatev1.TrafficEntry) bool { return e.Name == entry })
	if at < 0 || stream.Selector(&s.profile.Spec.Traffic[at]) == nil {
		return now, false
	}
	selector := stream.Selector(&s.profile.Spec.Traffic[at])
	streams, err := admission.Selected(ctx, s.r.Client, s.profile.Namespace, selector)
	return plan.Selection(entry, selector, streams), err == nil
}

// digestOf returns the digest of a referenced object as it is now.
func (s *scope) digestOf(ctx context.Context, ref spatev1.DefinitionSnapshot) (digest string, found bool, err error) {
	if ref.Kind == "ASTFTemplate" {
		template := &spatev1.ASTFTemplate{}
		found, err = s.get(ctx, ref.Name, template)
		return plan.TemplateDigest(&template.Spec), found, err
	}
	if ref.Kind == "ClientGroup" {
		group := &spatev1.ClientGroup{}
		found, err = s.get(ctx, ref.Name, group)
		return plan.ClientGroupDigest(&group.Spec), found, err
	}
	stream := &spatev1.StatelessStream{}
	found, err = s.get(ctx, ref.Name, stream)
	return plan.StreamDigest(&stream.Spec), found, err
}

// reason of the condition that best explains the phase.
func (s *scope) reason() string {
	conditions := s.profile.Status.Conditions
	ready := meta.FindStatusCondition(conditions, spatev1.ConditionReady)
	if ready != nil && ready.Status != metav1.ConditionTrue {
		return ready.Reason
	}
	kind := spatev1.ConditionRunning
	if meta.IsStatusConditionTrue(conditions, spatev1.ConditionComplete) {
		kind = spatev1.ConditionPassed
	}
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

func (s *scope) readyMessage() string {
	if ready := meta.FindStatusCondition(s.profile.Status.Conditions, spatev1.ConditionReady); ready != nil {
		return ready.Message
	}
	return ""
}

func (s *scope) get(ctx context.Context, name spatev1.ObjectName, into client.Object) (bool, error) {
	err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: s.profile.Namespace, Name: string(name)}, into)
	return err == nil, client.IgnoreNotFound(err)
}
