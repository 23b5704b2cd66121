// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: how much does a search of many trials cost the API server?

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestATrialCostsAtMostTwoWrites(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("searched", lenient+"  runPolicy: Manual"))
	_, from := writesSince(t, 0)
	// A loopback passes the greatest load, in the 35 trials that are half of the sum.
	// A trial whose instant passes before the engine has it gets another one, which is one more write: beside a build that takes all CPUs.
	mustApply(t, ns, strings.Replace(searchOf("many", `
  load: {min: 1kpps, max: 4kpps}
  throughput: {goals: [{name: pdr, lossRatio: 0.5%, exceedRatio: 50%, finalTrialDuration: 50ms, durationSum: 3500ms}]}
  budget: {time: 2m}`), "settle: 0s", "settle: 800ms", 1))
	expect(t, 3*runLimit, searchNamed(ns, "many"), spatev1.ConditionComplete, metav1.ConditionTrue, spatev1.ReasonFinished)
	all, _ := writesSince(t, from)
	writes := 0
	for _, write := range all { // of the search, not of the generator and its pod
		_, object, in := strings.Cut(write, "/namespaces/"+ns+"/")
		if in && (strings.HasPrefix(object, "trafficsearches") || strings.HasPrefix(object, "trafficruns") || strings.HasPrefix(object, "configmaps")) {
			writes++
		}
	}
	trials := len(trialsOf(t, ns, "many-all"))
	t.Logf("%d writes of the search and its run for %d trials", writes, trials)
	if trials != 35 || writes > 2*trials+30 {
		t.Errorf("%d writes for %d trials, want at most 2 for each of 35 trials and 30:\n%s", writes, trials, strings.Join(all, "\n"))
	}
}
