// SPDX-License-Identifier: Apache-2.0

package test

// A run is compared with one that has ended, and its verdict stays explained when that is gone. The engines are simulated.

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestARunIsJudgedAgainstABaseline(t *testing.T) {
	t.Parallel()
	ns := simulatedReady(t, startSimulatedNode(t), loopbackGenerator)
	editor := userOf(t, ns, "spate-editor")
	mustApply(t, ns, loopbackProfile("steady", lenient+"  duration: 1s\n  drain: 100ms\n  runPolicy: Manual\n"))
	mustApply(t, ns, loopbackProfile("compared", lenient+`  duration: 1s
  drain: 100ms
  runPolicy: Manual
  thresholds: [{name: as-before, expression: 'result.streams["small"].rx >= baseline.streams["small"].rx * 0.99'}]
`))
	before := executedWith(t, ns, editor, "", "run", "steady", "--wait", "-o", "json")
	var ran struct{ Runs []struct{ Name string } }
	if err := json.Unmarshal([]byte(before.output), &ran); err != nil || before.code != 0 || len(ran.Runs) != 1 {
		t.Fatalf("%v %+v", err, before)
	}
	baseline := ran.Runs[0].Name

	t.Run("without a baseline it is refused with the remedy", func(t *testing.T) {
		if done := executedWith(t, ns, editor, "", "run", "compared", "--wait"); done.code != 2 || !strings.Contains(done.said, "the run has no baseline: set spec.baselineRef to a run that has ended (kubectl spate run --baseline RUN)") {
			t.Errorf("%+v", done)
		}
	})
	t.Run("a baseline that does not exist is refused by the plugin, and awaited by the operator", func(t *testing.T) {
		if done := executedWith(t, ns, editor, "", "run", "compared", "--baseline", "none"); done.code != 3 || !strings.Contains(done.said, "nothing was applied: --baseline: ") {
			t.Errorf("%+v", done)
		}
		r := create(t, ns, "waits-", "{profileRef: {name: compared}, baselineRef: {name: none}}")
		expect(t, answerLimit, r, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonReferenceNotFound, `spec.baselineRef: TrafficRun "none" does not exist in namespace `+ns)
		must(t, cluster.kube.Delete(t.Context(), r))
	})
	t.Run("it passes, and fails at half the rate", func(t *testing.T) {
		if done := executedWith(t, ns, editor, "", "run", "compared", "--baseline", baseline, "--wait"); done.code != 0 || !strings.Contains(done.output, "Baseline: run "+baseline+" of profile steady, which ended at ") {
			t.Errorf("%+v", done)
		}
		done := executedWith(t, ns, editor, "", "run", "compared", "--baseline", "steady", "--set", "rate=0.5x", "--wait")
		if done.code != 1 || !strings.Contains(done.output, `does not hold: result.streams["small"].rx is 500, baseline.streams["small"].rx is 1000`) {
			t.Errorf("%+v", done)
		}
	})
	t.Run("a run waits for a baseline that has not ended, and keeps its result", func(t *testing.T) {
		active := create(t, ns, "active-", "{profileRef: {name: steady}, overrides: {duration: 2s}}")
		r := create(t, ns, "compared-", "{profileRef: {name: compared}, baselineRef: {name: "+active.Name+"}, overrides: {duration: 2s}}")
		expect(t, answerLimit, r, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonBaselineNotComplete)
		inPhase(t, runLimit, r, spatev1.RunRunning)
		uid := active.UID
		must(t, cluster.kube.Delete(t.Context(), active))
		hasEnded(t, runLimit, r)
		if v, b := r.Status.Verdict, r.Status.Resolved.Baseline; v.Outcome != spatev1.VerdictPassed || b.UID != uid || b.Outcome != spatev1.VerdictPassed || string(b.Profile) != "steady" {
			t.Errorf("%+v, %+v", v, b)
		}
		if err := cluster.kube.Get(t.Context(), client.ObjectKeyFromObject(active), active); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("the baseline is there: %v", err)
		}
	})
}
