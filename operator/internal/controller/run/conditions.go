// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what do a run's conditions and events say?

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
)

// runningReason is the status and reason of the Running condition in each phase.
var runningReason = map[spatev1.RunPhase]struct {
	status metav1.ConditionStatus
	reason string
}{
	spatev1.RunPending:   {metav1.ConditionFalse, spatev1.ReasonNotStarted},
	spatev1.RunPreparing: {metav1.ConditionFalse, spatev1.ReasonPreparing},
	spatev1.RunSettingUp: {metav1.ConditionFalse, spatev1.ReasonSettingUp},
	spatev1.RunWarmingUp: {metav1.ConditionTrue, spatev1.ReasonWarmingUp},
	spatev1.RunRunning:   {metav1.ConditionTrue, spatev1.ReasonTransmitting},
	spatev1.RunDraining:  {metav1.ConditionFalse, spatev1.ReasonDraining},
}

// beforeTraffic are the phases in which nothing is sent yet.
var beforeTraffic = []spatev1.RunPhase{spatev1.RunPending, spatev1.RunPreparing, spatev1.RunSettingUp}

// invalidAtTheEnd are reasons for which a run is invalid that was not ended early.
var invalidAtTheEnd = []string{spatev1.ReasonGeneratorLimited, spatev1.ReasonCountersContradict, spatev1.ReasonDrainTimedOut, spatev1.ReasonThresholdUnmeasured, spatev1.ReasonRoutingFailed}

// conditions derives the conditions from the phase and the verdict.
func (s *scope) conditions() {
	s.recorded()
	status, generation := &s.run.Status, s.run.Generation
	set := func(kind string, value metav1.ConditionStatus, reason, message string) {
		kstatus.Set(&status.Conditions, kind, value, generation, reason, message)
	}
	if status.Phase != spatev1.RunComplete {
		running := runningReason[status.Phase]
		set(spatev1.ConditionRunning, running.status, running.reason, "")
		set(spatev1.ConditionComplete, metav1.ConditionFalse, running.reason, "")
		why, message := spatev1.ReasonAwaitingResult, "the run has not ended"
		if s.waiting.reason != "" {
			why, message = s.waiting.reason, s.waiting.message
		}
		set(spatev1.ConditionValid, metav1.ConditionUnknown, why, message)
		set(spatev1.ConditionPassed, metav1.ConditionUnknown, why, message)
		switch {
		case s.waiting.reason != "":
			kstatus.Progressing(&status.Conditions, generation, s.waiting.reason, s.waiting.message)
		case s.unreachable != "":
			kstatus.Progressing(&status.Conditions, generation, spatev1.ReasonEngineUnreachable, s.unreachable)
		case s.orphaned != "":
			kstatus.Progressing(&status.Conditions, generation, spatev1.ReasonOrphanedRun, s.orphaned)
		case slices.Contains(beforeTraffic, status.Phase):
			kstatus.Progressing(&status.Conditions, generation, running.reason, "")
		default:
			set(spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable, executedBy(s.run))
			if status.Resolved.Timing.Duration == "" { // a run without an end is in its desired state
				meta.RemoveStatusCondition(&status.Conditions, spatev1.ConditionReconciling)
			} else {
				set(spatev1.ConditionReconciling, metav1.ConditionTrue, running.reason, "")
			}
		}
		return
	}
	reason := spatev1.ReasonFinished
	switch {
	case s.ended == endSuspended:
		reason = spatev1.ReasonSuspended
	case s.ended != "" || status.Verdict.Outcome == spatev1.VerdictInvalid && !slices.Contains(invalidAtTheEnd, status.Verdict.Reasons[0].Reason):
		reason = spatev1.ReasonStopped
	}
	message := s.ended
	set(spatev1.ConditionRunning, metav1.ConditionFalse, reason, message)
	set(spatev1.ConditionComplete, metav1.ConditionTrue, reason, message)
	why, numbers := primary(status.Verdict)
	if status.Verdict.Outcome == spatev1.VerdictInvalid {
		set(spatev1.ConditionValid, metav1.ConditionFalse, why, numbers)
		set(spatev1.ConditionPassed, metav1.ConditionUnknown, why, numbers)
	} else {
		passed := metav1.ConditionFalse
		if status.Verdict.Outcome == spatev1.VerdictPassed {
			passed = metav1.ConditionTrue
		}
		set(spatev1.ConditionValid, metav1.ConditionTrue, spatev1.ReasonMeasurementValid, validFor(s.run))
		set(spatev1.ConditionPassed, passed, why, numbers)
	}
	kstatus.Ready(&status.Conditions, generation, reason, "the run has ended")
}

// recordPhase emits an event for every change of the phase.
func (s *scope) recordPhase(before *spatev1.TrafficRun) {
	if s.run.Status.Phase == before.Status.Phase {
		return
	}
	kind, reason, message := corev1.EventTypeNormal, string(s.run.Status.Phase), ""
	switch s.run.Status.Phase {
	case spatev1.RunPending:
		message = s.waiting.message
	case spatev1.RunPreparing:
		message = "the engines receive the plan"
	case spatev1.RunSettingUp:
		message = "sessions of the run's ports are awaited: " + s.waiting.message
	case spatev1.RunWarmingUp, spatev1.RunRunning:
		message = "all engines start at " + s.run.Status.TrafficStartTime.UTC().Format("15:04:05.000000Z07:00")
		if before.Status.Phase == spatev1.RunWarmingUp {
			message = "the measured phase has started"
		}
	case spatev1.RunDraining:
		message = "transmission has ended, packets in flight are awaited"
	case spatev1.RunComplete:
		verdict := s.run.Status.Verdict
		reason, message = primary(verdict)
		message = string(verdict.Outcome) + ": " + message
		if verdict.Outcome != spatev1.VerdictPassed || meta.IsStatusConditionFalse(s.run.Status.Conditions, spatev1.ConditionRecorded) {
			kind = corev1.EventTypeWarning
		}
	}
	var related runtime.Object
	if s.profile != nil {
		related = s.profile
	}
	s.r.Events.Eventf(s.run, related, kind, reason, "Run", "%s", kstatus.Shortened(message, kstatus.LongestNote))
}
