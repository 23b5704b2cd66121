// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what does a run prove that goes on without a lost pod?

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/test/drill"
)

// continuing brings up a generator of `replicas` pods, and a profile that goes on without lost ones into its Running phase. It returns the pods by
// their indexes.
func continuing(t *testing.T, name string, replicas int, spec string) (string, *spatev1.TrafficProfile, []corev1.Pod) {
	t.Helper()
	ns := ready(t, fmt.Sprintf("  replicas: %d\n", replicas))
	mustApply(t, ns, loopbackProfile(name, tolerant+"  whenPodLost: Continue\n"+spec))
	p := profileNamed(ns, name)
	phase(t, runLimit, p, spatev1.ProfileRunning)
	awaitCounters(t, p)
	pods := enginePods(t, ns)
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return podspec.Index(&a) - podspec.Index(&b) })
	return ns, p, pods
}

// loses waits until a profile's run goes on without a pod, and returns what is known of it.
func loses(t *testing.T, limit time.Duration, p *spatev1.TrafficProfile, pod string) spatev1.LostPod {
	t.Helper()
	r, at := runOf(t, p), -1
	until(t, limit, "run "+r.Name+" has lost "+pod, func() (bool, string) {
		must(t, get(r))
		at = slices.IndexFunc(r.Status.LostPods, func(l spatev1.LostPod) bool { return l.Name == pod })
		return at >= 0, fmt.Sprintf("%+v", r.Status.LostPods)
	})
	if r.Status.Phase == spatev1.RunComplete {
		t.Fatalf("the run has ended: %+v", r.Status.Verdict)
	}
	return r.Status.LostPods[at]
}

// The operator is restarted after the loss: what is known of the lost pod is in the run's status.
func TestDrillOneOfThreeEnginesKilledAndTheRunGoesOn(t *testing.T) {
	const sent, noLoss = "{name: sent, expression: result.tx > 0}", "{name: no-loss, expression: result.lost == 0}"
	d := newDrill(t, "one of three engines killed, `whenPodLost: Continue`", 3*time.Minute)
	profile := func(thresholds string) string { return "  duration: 9s\n  thresholds: [" + thresholds + "]\n" }
	ns, p, pods := continuing(t, "goes-on", 3, profile(sent+", "+noLoss))
	d.Strike()
	cluster.kubelet.crash(pods[1].UID)
	lost := loses(t, 5*time.Second, p, pods[1].Name)
	d.Detected(5 * time.Second)
	if !strings.Contains(lost.Message, "exit code 137") || lost.LastCounters == nil || lost.LastCounters.Tx == 0 || lost.LastCounters.Tx >= 3000 {
		t.Errorf("%+v", lost)
	}
	reportsEvent(t, d, ns, runOf(t, p), spatev1.ReasonPodLost)
	restartOperator(t)

	r := invalid(t, d, runLimit, p, spatev1.ReasonThresholdUnmeasured, "no-loss", "lost not known", pods[1].Name)
	res, verdict := r.Status.Result, r.Status.Verdict
	if shares := res.Tx + res.TxDropped; shares != 6000 || res.Rx != res.Tx || res.Streams["small"].Tx != res.Tx {
		t.Errorf("the result is not what two of three engines did of 9000 packets: %+v", res)
	}
	if len(r.Status.LostPods) != 1 || r.Status.LostPods[0].LastCounters.Tx != lost.LastCounters.Tx {
		t.Errorf("%+v", r.Status.LostPods)
	}
	if len(verdict.Thresholds) != 2 || !verdict.Thresholds[0].Met || verdict.Thresholds[1].Met {
		t.Errorf("%+v", verdict.Thresholds)
	}
	last := verdict.Reasons[len(verdict.Reasons)-1]
	for _, words := range []string{pods[0].Name + ", " + pods[2].Name, "thresholds sent hold", fmt.Sprintf("%d packets sent", lost.LastCounters.Tx)} {
		if last.Reason != spatev1.ReasonPodLost || !strings.Contains(last.Message, words) {
			t.Errorf("no %q in %+v", words, last)
		}
	}
	// What is known can pass.
	mustApply(t, ns, loopbackProfile("goes-on", tolerant+"  whenPodLost: Continue\n"+profile(sent)))
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet, fmt.Sprintf("%d packets sent, %d received; the threshold holds", res.Tx, res.Rx), "pod "+pods[1].Name+" was lost")
	d.Kept("the result of the other two: %d packets sent; counters of the last look at the lost one: %d packets sent", res.Tx, lost.LastCounters.Tx)
	heals(t, d, ns, p)
}

func TestDrillAllEnginesKilledAndTheRunWouldGoOn(t *testing.T) {
	t.Parallel()
	d := newDrill(t, "both engines killed one after the other, `whenPodLost: Continue`", 3*time.Minute)
	ns, p, pods := continuing(t, "alone", 2, "  duration: 60s\n")
	cluster.kubelet.crash(pods[0].UID)
	loses(t, 20*time.Second, p, pods[0].Name)
	d.Strike()
	cluster.kubelet.crash(pods[1].UID)
	r := invalid(t, d, runLimit, p, spatev1.ReasonPodLost, "all 2 pods are lost", pods[1].Name)
	d.Detected(10 * time.Second) // beside other tests
	if len(r.Status.LostPods) != 2 {
		t.Errorf("%+v", r.Status.LostPods)
	}
	partial(t, d, r)
	heals(t, d, ns, p)
}

// The lost engine sends on until the operator reaches it again.
func TestDrillOneOfTwoEnginesUnreachableAndTheRunGoesOn(t *testing.T) {
	drill.Long(t)
	d := newDrill(t, "partition of 70 s between operator and one of two engines, `whenPodLost: Continue`", 4*time.Minute)
	ns, p, pods := continuing(t, "divided", 2, "  duration: 85s\n")
	first := p.Status.CurrentRun.Name
	d.Strike()
	cut := time.Now()
	cluster.kubelet.cut(t, pods[0].UID, linkSilent)
	loses(t, 100*time.Second, p, pods[0].Name)
	d.Detected(90 * time.Second)
	if still, seen := stands(pods[0].Status.PodIP, first); still {
		t.Fatalf("run %s does not send any more, so that nothing is left to be stopped: %s", first, seen)
	}
	time.Sleep(time.Until(cut.Add(70 * time.Second)))
	cluster.kubelet.cut(t, pods[0].UID, linkOpen)
	healed := time.Now()
	until(t, 10*time.Second, "the lost engine has stopped", func() (bool, string) { return stands(pods[0].Status.PodIP, first) })
	d.ReportsText(fmt.Sprintf("the lost engine stops within %.1f s of healing", time.Since(healed).Seconds()))
	g := generatorNamed(ns, "loop")
	must(t, get(g))
	reportsEvent(t, d, ns, g, spatev1.ReasonOrphanedRun)
	r := complete(t, time.Minute, p)
	if res := r.Status.Result; r.Status.Verdict.Outcome != spatev1.VerdictPassed || res.Tx+res.TxDropped != 42_500 || res.Rx != res.Tx {
		t.Errorf("%+v %+v", r.Status.Verdict, res)
	}
	d.Kept("the result of the other engine: %d packets sent", r.Status.Result.Tx)
	heals(t, d, ns, p)
}
