// SPDX-License-Identifier: Apache-2.0

package search

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestASearchThatWasStoppedIsIncomplete(t *testing.T) {
	run := func(stop bool, outcome spatev1.VerdictOutcome, reason string) *spatev1.TrafficRun {
		r := &spatev1.TrafficRun{Spec: spatev1.TrafficRunSpec{Stop: stop}}
		r.Name, r.Status.Phase = "router-64", spatev1.RunComplete
		r.Status.Verdict = &spatev1.Verdict{Outcome: outcome}
		r.Status.Search = &spatev1.RunSearchStatus{Result: spatev1.SearchResult{Goals: []spatev1.GoalResult{{Name: "ndr", Lower: "999", Upper: "1004"}}}}
		meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: spatev1.ConditionPassed, Status: metav1.ConditionUnknown, Reason: reason, Message: "of the run"})
		return r
	}
	for name, c := range map[string]struct {
		stop             bool
		run              *spatev1.TrafficRun
		missing          int
		complete, passed string
		words            string
	}{
		"within its last run":         {true, run(true, spatev1.VerdictInvalid, spatev1.ReasonIncomplete), 0, spatev1.ReasonStopped, spatev1.ReasonIncomplete, "64: of the run"},
		"before the others":           {true, run(true, spatev1.VerdictInvalid, spatev1.ReasonIncomplete), 2, spatev1.ReasonStopped, spatev1.ReasonIncomplete, "spec.stop is true: 2 runs were not started"},
		"as its last run ended":       {true, run(true, spatev1.VerdictPassed, spatev1.ReasonSearchRegular), 0, spatev1.ReasonFinished, spatev1.ReasonSearchRegular, "64: of the run"},
		"its run was stopped by hand": {false, run(true, spatev1.VerdictInvalid, spatev1.ReasonIncomplete), 0, spatev1.ReasonFinished, spatev1.ReasonSearchInvalid, "64: of the run"},
		"its run could not be done":   {true, run(true, spatev1.VerdictInvalid, spatev1.ReasonPodLost), 0, spatev1.ReasonFinished, spatev1.ReasonSearchInvalid, "64: of the run"},
	} {
		s := &spatev1.TrafficSearch{}
		s.Spec.Stop = c.stop
		s.Status.Variants = withFound(nil, "64", []*spatev1.TrafficRun{c.run}, 1)
		conclude(s, c.missing > 0 || stoppedIn(s, c.run), c.missing)
		complete, passed := meta.FindStatusCondition(s.Status.Conditions, spatev1.ConditionComplete), meta.FindStatusCondition(s.Status.Conditions, spatev1.ConditionPassed)
		if complete.Reason != c.complete || passed.Reason != c.passed || !strings.Contains(passed.Message, c.words) {
			t.Errorf("%s: Complete %s, Passed %s: %s", name, complete.Reason, passed.Reason, passed.Message)
		}
		if found := s.Status.Variants[0].Result.Goals[0]; found.Lower != "999" || found.Upper != "1004" {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
