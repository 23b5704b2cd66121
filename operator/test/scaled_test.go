// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what happens to a run when its generator is scaled while the run sends?

import (
	"fmt"
	"slices"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// scaleTo sets the replicas of the generator as an autoscaler does.
func scaleTo(t *testing.T, ns string, replicas int32) {
	t.Helper()
	g, scale := generatorNamed(ns, "loop"), &autoscalingv1.Scale{}
	must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // the operator writes the status
		if err := cluster.kube.SubResource("scale").Get(t.Context(), g, scale); err != nil {
			return err
		}
		scale.Spec.Replicas = replicas
		return cluster.kube.SubResource("scale").Update(t.Context(), g, client.WithSubResourceBody(scale))
	}))
}

// uidsOf the engine pods of a namespace, and of no pod that is being deleted.
func uidsOf(t *testing.T, ns string) []types.UID {
	t.Helper()
	var all []types.UID
	for _, pod := range enginePods(t, ns) {
		if pod.DeletionTimestamp == nil {
			all = append(all, pod.UID)
		}
	}
	slices.Sort(all)
	return all
}

// scaledInMidRun runs a profile on two pods and scales the generator while it sends: the run ends with all its packets, and the generator
// then has its new number of pods, which it reports with the message.
func scaledInMidRun(t *testing.T, replicas int32, message string) {
	t.Helper()
	ns := ready(t, "  replicas: 2\n")
	mustApply(t, ns, loopbackProfile("steady", lenient+"  rate: 2kpps\n  duration: 20s\n  thresholds: [{name: all, expression: result.rx == 40000}]"))
	mustApply(t, ns, loopbackProfile("next", lenient+"  runPolicy: Manual\n  rate: 2kpps\n  duration: 200ms"))
	p, g := profileNamed(ns, "steady"), generatorNamed(ns, "loop")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	before := uidsOf(t, ns)
	scaleTo(t, ns, replicas)
	run := p.Status.CurrentRun.Name
	expect(t, answerLimit, g, spatev1.ConditionReconciling, metav1.ConditionTrue, spatev1.ReasonReplicasPending,
		fmt.Sprintf("spec.replicas is %d and takes effect when run %s/%s has ended: until then the generator has 2 pods", replicas, ns, run))
	if g.Status.Replicas != 2 || g.Status.ReadyReplicas != 2 || g.Status.ObservedGeneration != g.Generation {
		t.Errorf("%+v", g.Status)
	}
	waiting := create(t, ns, "waiting-", "{profileRef: {name: next}}")
	expect(t, answerLimit, waiting, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonGeneratorNotReady, "TrafficGenerator loop is not ready: ReplicasPending: ")
	if must(t, get(p)); p.Status.Phase != spatev1.ProfileRunning || !slices.Equal(uidsOf(t, ns), before) {
		t.Errorf("%s, pods %v, were %v", p.Status.Phase, uidsOf(t, ns), before)
	}
	r := complete(t, 2*runLimit, p)
	if v := r.Status.Verdict; r.Name != run || v.Outcome != spatev1.VerdictPassed || r.Status.Result.Tx != 40000 || len(r.Status.Resolved.Generator.Pods) != 2 {
		t.Errorf("%s: %+v, %+v", r.Name, v, r.Status.Result)
	}
	hasEnded(t, readyLimit, waiting)
	if pods := len(waiting.Status.Resolved.Generator.Pods); pods != int(replicas) || waiting.Status.Result.Tx+waiting.Status.Result.TxDropped != 400 {
		t.Errorf("the next run has %d pods and sent %d", pods, waiting.Status.Result.Tx)
	}
	expect(t, answerLimit, g, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable, message)
	if n := len(uidsOf(t, ns)); n != int(replicas) {
		t.Errorf("%d pods", n)
	}
}

func TestAGeneratorThatIsScaledUpInMidRunGetsItsPodsAfterTheRun(t *testing.T) {
	t.Parallel()
	scaledInMidRun(t, 3, "3 engines answer")
}

func TestAGeneratorThatIsScaledDownInMidRunLosesItsPodsAfterTheRun(t *testing.T) {
	t.Parallel()
	scaledInMidRun(t, 1, "the engine answers")
}

// Nothing is left of a change that was taken back before it took effect.
func TestAScaleThatIsTakenBackInMidRunChangesNothing(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("endless", lenient))
	p, g := profileNamed(ns, "endless"), generatorNamed(ns, "loop")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	before, run := uidsOf(t, ns), p.Status.CurrentRun.Name
	scaleTo(t, ns, 2)
	expect(t, answerLimit, g, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonReplicasPending)
	// 0.01 % of the line rate of the run's one pod is 1 Mbps; its own rate is 1.184 Mbps.
	mustApply(t, ns, loopbackProfile("endless", lenient+"  rate: 0.01%"))
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: run}}
	until(t, answerLimit, "a live rate in percent is that of the run's pods", func() (bool, string) {
		must(t, get(r))
		return r.Status.RateFactor == "125/148", r.Status.RateFactor
	})
	scaleTo(t, ns, 1)
	expect(t, answerLimit, g, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	time.Sleep(2 * time.Second)
	if must(t, get(p)); p.Status.Phase != spatev1.ProfileRunning || p.Status.CurrentRun.Name != run || !slices.Equal(uidsOf(t, ns), before) || meta.FindStatusCondition(g.Status.Conditions, spatev1.ConditionReconciling) != nil {
		t.Errorf("%+v, pods %v, were %v", p.Status, uidsOf(t, ns), before)
	}
}
