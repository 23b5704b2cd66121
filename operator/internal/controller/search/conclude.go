// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: what is the outcome of a search? That of its thresholds, or without these, whether all its results are regular.

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/plan/problem"
)

// conclude ends a search. stopped is true if spec.stop ended it before its end: within its last run, or before missing runs, which were not created.
func conclude(search *spatev1.TrafficSearch, stopped bool, missing int) {
	status, done := &search.Status, 0
	complete, reason := spatev1.ReasonFinished, spatev1.ReasonSearchRegular
	status.Outcome = spatev1.VerdictPassed
	var messages []string
	for _, v := range status.Variants {
		messages = append(messages, v.Name+": "+v.Message)
		switch done++; {
		case v.Outcome == spatev1.VerdictInvalid:
			status.Outcome, reason = spatev1.VerdictInvalid, spatev1.ReasonSearchInvalid
		case v.Outcome == spatev1.VerdictFailed && status.Outcome == spatev1.VerdictPassed:
			status.Outcome, reason = spatev1.VerdictFailed, spatev1.ReasonSearchIrregular
		}
	}
	switch {
	case stopped:
		status.Outcome, reason, complete = spatev1.VerdictInvalid, spatev1.ReasonIncomplete, spatev1.ReasonStopped
		if missing > 0 {
			messages = append(messages, fmt.Sprintf("spec.stop is true: %d runs were not started", missing))
		}
	case status.Outcome != spatev1.VerdictInvalid && len(search.Spec.Thresholds) > 0:
		var judged string
		status.Outcome, reason, judged = judge(search)
		messages = append([]string{judged}, messages...)
	}
	status.Progress = fmt.Sprintf("%d/%d variants done", done, len(variantsOf(search)))
	end(search, complete, reason, strings.Join(messages, "; "))
}

// stoppedIn reports whether spec.stop of a search ended its run before the end: a run that ends while it is to be stopped is complete.
func stoppedIn(search *spatev1.TrafficSearch, run *spatev1.TrafficRun) bool {
	passed := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionPassed)
	return search.Spec.Stop && run.Spec.Stop && passed != nil && passed.Reason == spatev1.ReasonIncomplete
}

// refuse ends a search whose spec cannot be executed, before its first run.
func refuse(search *spatev1.TrafficSearch, wrong problem.Problems) {
	search.Status.Outcome = spatev1.VerdictInvalid
	end(search, wrong.Reason(), wrong.Reason(), wrong.Message())
}

// end sets the conditions of a search that has ended. complete and reason are those of Complete and of Passed.
func end(search *spatev1.TrafficSearch, complete, reason, message string) {
	status, at := &search.Status, metav1.Now()
	status.Phase, status.CompletionTime = spatev1.SearchComplete, &at
	passed := map[spatev1.VerdictOutcome]metav1.ConditionStatus{spatev1.VerdictPassed: metav1.ConditionTrue, spatev1.VerdictFailed: metav1.ConditionFalse}[status.Outcome]
	if passed == "" {
		passed = metav1.ConditionUnknown
	}
	kstatus.Set(&status.Conditions, spatev1.ConditionPassed, passed, search.Generation, reason, kstatus.Shortened(message, longestMessage))
	kstatus.Set(&status.Conditions, spatev1.ConditionComplete, metav1.ConditionTrue, search.Generation, complete, "")
	kstatus.Ready(&status.Conditions, search.Generation, complete, "the search has ended")
}
