// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
)

// verdictOf returns a verdict with an outcome and a reason.
func verdictOf(outcome spatev1.VerdictOutcome, reason string) *spatev1.Verdict {
	return &spatev1.Verdict{Outcome: outcome, Reasons: []spatev1.VerdictReason{{Reason: reason, Message: "numbers"}}}
}

// shown formats conditions as `Type=Status Reason`, without absent ones.
func shown(conditions []metav1.Condition) string {
	var all []string
	for _, kind := range []string{
		spatev1.ConditionReady, spatev1.ConditionReconciling, spatev1.ConditionStalled, spatev1.ConditionRunning, spatev1.ConditionComplete,
		spatev1.ConditionValid, spatev1.ConditionPassed,
	} {
		if c := meta.FindStatusCondition(conditions, kind); c != nil {
			all = append(all, kind+"="+string(c.Status)+" "+c.Reason)
		}
	}
	return strings.Join(all, ", ")
}

func TestWhatConditionsSayOfARun(t *testing.T) {
	at := func(phase spatev1.RunPhase) *scope {
		s := &scope{run: admitted("g-0")}
		s.run.Status.Phase = phase
		return s
	}
	endless := func(s *scope) *scope {
		s.run.Status.Resolved.Timing.Duration = ""
		return s
	}
	unresolved := func(reason string) *scope {
		return &scope{run: &spatev1.TrafficRun{Status: spatev1.TrafficRunStatus{Phase: spatev1.RunPending}}, waiting: waiting{reason, "why"}}
	}
	ended := func(outcome spatev1.VerdictOutcome, reason, why string) *scope {
		s := at(spatev1.RunComplete)
		s.run.Status.Verdict, s.ended = verdictOf(outcome, reason), why
		return s
	}
	unreachable, orphaned := at(spatev1.RunRunning), at(spatev1.RunPreparing)
	unreachable.unreachable, orphaned.orphaned = "pod g-0: no answer", "pod g-0: the engine still executes run x"
	const awaiting = ", Valid=Unknown AwaitingResult, Passed=Unknown AwaitingResult"
	for name, c := range map[string]struct {
		scope *scope
		want  string
	}{
		"waits for its profile":   {unresolved(spatev1.ReasonReferenceNotFound), "Ready=False ReferenceNotFound, Reconciling=True ReferenceNotFound, Running=False NotStarted, Complete=False NotStarted, Valid=Unknown ReferenceNotFound, Passed=Unknown ReferenceNotFound"},
		"waits for its generator": {unresolved(spatev1.ReasonGeneratorBusy), "Ready=False GeneratorBusy, Reconciling=True GeneratorBusy, Running=False NotStarted, Complete=False NotStarted, Valid=Unknown GeneratorBusy, Passed=Unknown GeneratorBusy"},
		"is prepared":             {at(spatev1.RunPreparing), "Ready=False Preparing, Reconciling=True Preparing, Running=False Preparing, Complete=False Preparing" + awaiting},
		"waits for an orphan":     {orphaned, "Ready=False OrphanedRun, Reconciling=True OrphanedRun, Running=False Preparing, Complete=False Preparing" + awaiting},
		"warms up":                {at(spatev1.RunWarmingUp), "Ready=True Available, Reconciling=True WarmingUp, Running=True WarmingUp, Complete=False WarmingUp" + awaiting},
		"sends":                   {at(spatev1.RunRunning), "Ready=True Available, Reconciling=True Transmitting, Running=True Transmitting, Complete=False Transmitting" + awaiting},
		"sends without an end":    {endless(at(spatev1.RunRunning)), "Ready=True Available, Running=True Transmitting, Complete=False Transmitting" + awaiting},
		"an engine is silent":     {unreachable, "Ready=False EngineUnreachable, Reconciling=True EngineUnreachable, Running=True Transmitting, Complete=False Transmitting" + awaiting},
		"drains":                  {at(spatev1.RunDraining), "Ready=True Available, Reconciling=True Draining, Running=False Draining, Complete=False Draining" + awaiting},
		"passed":                  {ended(spatev1.VerdictPassed, spatev1.ReasonThresholdsMet, ""), "Ready=True Finished, Running=False Finished, Complete=True Finished, Valid=True MeasurementValid, Passed=True ThresholdsMet"},
		"failed":                  {ended(spatev1.VerdictFailed, spatev1.ReasonThresholdMissed, ""), "Ready=True Finished, Running=False Finished, Complete=True Finished, Valid=True MeasurementValid, Passed=False ThresholdMissed"},
		"a threshold in error":    {ended(spatev1.VerdictFailed, spatev1.ReasonThresholdError, ""), "Ready=True Finished, Running=False Finished, Complete=True Finished, Valid=True MeasurementValid, Passed=False ThresholdError"},
		"the generator's limit":   {ended(spatev1.VerdictInvalid, spatev1.ReasonGeneratorLimited, ""), "Ready=True Finished, Running=False Finished, Complete=True Finished, Valid=False GeneratorLimited, Passed=Unknown GeneratorLimited"},
		"a pod is lost":           {ended(spatev1.VerdictInvalid, spatev1.ReasonPodLost, ""), "Ready=True Stopped, Running=False Stopped, Complete=True Stopped, Valid=False PodLost, Passed=Unknown PodLost"},
		"an invalid spec":         {ended(spatev1.VerdictInvalid, spatev1.ReasonInvalidSpec, ""), "Ready=True Stopped, Running=False Stopped, Complete=True Stopped, Valid=False InvalidSpec, Passed=Unknown InvalidSpec"},
		"suspended":               {ended(spatev1.VerdictInvalid, spatev1.ReasonIncomplete, endSuspended), "Ready=True Suspended, Running=False Suspended, Complete=True Suspended, Valid=False Incomplete, Passed=Unknown Incomplete"},
		"stopped":                 {ended(spatev1.VerdictInvalid, spatev1.ReasonIncomplete, endStopped), "Ready=True Stopped, Running=False Stopped, Complete=True Stopped, Valid=False Incomplete, Passed=Unknown Incomplete"},
		"without an end, stopped": {ended(spatev1.VerdictPassed, spatev1.ReasonThresholdsMet, endStopped), "Ready=True Stopped, Running=False Stopped, Complete=True Stopped, Valid=True MeasurementValid, Passed=True ThresholdsMet"},
	} {
		t.Run(name, func(t *testing.T) {
			c.scope.run.Generation = 7
			c.scope.conditions()
			all := c.scope.run.Status.Conditions
			if got := shown(all); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			for _, is := range all {
				if is.ObservedGeneration != 7 {
					t.Errorf("%s is of generation %d", is.Type, is.ObservedGeneration)
				}
			}
		})
	}
}

func TestValidAndPassedSayWhyARunWaitsOrIsNotValid(t *testing.T) {
	s := &scope{run: &spatev1.TrafficRun{}, waiting: waiting{spatev1.ReasonGeneratorBusy, "together with n/other: too much"}}
	s.run.Status.Phase = spatev1.RunPending
	for _, step := range []struct {
		what, message string
		change        func()
	}{
		{"waits", "together with n/other: too much", func() {}},
		{"is under way", "the run has not ended", func() {
			s.waiting, s.run.Status.Resolved, s.run.Status.Phase = waiting{}, &spatev1.ResolvedRun{}, spatev1.RunRunning
		}},
		{"is not valid", "numbers", func() {
			s.run.Status.Phase, s.run.Status.Verdict = spatev1.RunComplete, verdictOf(spatev1.VerdictInvalid, spatev1.ReasonGeneratorLimited)
		}},
	} {
		step.change()
		s.conditions()
		for _, kind := range []string{spatev1.ConditionValid, spatev1.ConditionPassed} {
			if c := meta.FindStatusCondition(s.run.Status.Conditions, kind); c.Message != step.message {
				t.Errorf("%s: %s: %q", step.what, kind, c.Message)
			}
		}
	}
}

// A condition that a run waited for is removed when the run starts.
func TestARunThatRunsWithoutAnEndIsNotReconciling(t *testing.T) {
	s := &scope{run: admitted("g-0")}
	s.run.Status.Resolved.Timing.Duration = ""
	kstatus.Progressing(&s.run.Status.Conditions, 1, spatev1.ReasonGeneratorBusy, "x")
	s.run.Status.Phase = spatev1.RunRunning
	s.conditions()
	if meta.FindStatusCondition(s.run.Status.Conditions, spatev1.ConditionReconciling) != nil || !meta.IsStatusConditionTrue(s.run.Status.Conditions, spatev1.ConditionReady) {
		t.Error(shown(s.run.Status.Conditions))
	}
}
