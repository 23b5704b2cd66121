// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestTheConditionNamesTheFirstFindingsWithTheirRemedies(t *testing.T) {
	outcome := func(name, subject string, state spatev1.PreflightState) spatev1.PreflightCheck {
		c := spatev1.PreflightCheck{Check: name, Subject: subject, State: state, Observed: "seen"}
		if IsFinding(&c) {
			c.Remedy = "mend it"
		}
		return c
	}
	pod := func(name string, all ...spatev1.PreflightCheck) spatev1.GeneratorPodStatus {
		return spatev1.GeneratorPodStatus{Name: name, Preflight: all}
	}
	clock := outcome("ClockSourceNotTSC", "node", spatev1.PreflightWarning)
	down := outcome("LinkDown", "east", spatev1.PreflightError)
	sound := outcome("LinkDown", "west", spatev1.PreflightOk)
	hidden := outcome("NoIOMMU", "east", spatev1.PreflightUnknown)
	for name, c := range map[string]struct {
		pods    []spatev1.GeneratorPodStatus
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"no pods":           {nil, metav1.ConditionUnknown, spatev1.ReasonNoEngines, "no engine has reported its machine"},
		"one has reported":  {[]spatev1.GeneratorPodStatus{pod("g-0", sound), pod("g-1")}, metav1.ConditionUnknown, spatev1.ReasonNoEngines, "1 of 2 engines have reported their machines"},
		"nothing is found":  {[]spatev1.GeneratorPodStatus{pod("g-0", sound), pod("g-1", sound)}, metav1.ConditionTrue, spatev1.ReasonPreflightPassed, "the checks of the pods' machines found nothing"},
		"something unknown": {[]spatev1.GeneratorPodStatus{pod("g-0", hidden), pod("g-1", sound)}, metav1.ConditionTrue, spatev1.ReasonPreflightPassed, "the checks of the pods' machines found nothing; unknown: NoIOMMU of east in pod g-0"},
		"found in one pod":  {[]spatev1.GeneratorPodStatus{pod("g-0", clock), pod("g-1")}, metav1.ConditionFalse, spatev1.ReasonPreflightFindings, "ClockSourceNotTSC of node in pod g-0: seen; remedy: mend it"},
		"found in two pods": {[]spatev1.GeneratorPodStatus{pod("g-0", clock), pod("g-1", clock)}, metav1.ConditionFalse, spatev1.ReasonPreflightFindings, "ClockSourceNotTSC of node in pods g-0, g-1: seen; remedy: mend it"},
		"errors are the first": {[]spatev1.GeneratorPodStatus{pod("g-0", clock), pod("g-1", down)}, metav1.ConditionFalse, spatev1.ReasonPreflightFindings,
			"LinkDown of east in pod g-1: seen; remedy: mend it. ClockSourceNotTSC of node in pod g-0: seen; remedy: mend it"},
		"many": {[]spatev1.GeneratorPodStatus{pod("g-0", clock, outcome("A", "x", spatev1.PreflightWarning), outcome("B", "x", spatev1.PreflightWarning), outcome("C", "x", spatev1.PreflightWarning), outcome("D", "x", spatev1.PreflightWarning))},
			metav1.ConditionFalse, spatev1.ReasonPreflightFindings,
			"ClockSourceNotTSC of node in pod g-0: seen; remedy: mend it. A of x in pod g-0: seen; remedy: mend it. B of x in pod g-0: seen; remedy: mend it (and 2 more: kubectl spate doctor g)"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Name: "g"}, Spec: spatev1.TrafficGeneratorSpec{Replicas: 2}}
			g.Status.Pods = c.pods
			status, reason, message := Summary(g)
			if status != c.status || reason != c.reason || message != c.message {
				t.Errorf("%s %s %q", status, reason, message)
			}
		})
	}
}
