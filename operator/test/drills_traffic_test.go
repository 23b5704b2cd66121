// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does anything send on, after a partition, without an operator that follows the run, or past a drain?

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/test/drill"
)

func TestDrillPartitionThatHeals(t *testing.T) {
	drill.Long(t)
	d := newDrill(t, "partition of 70 s between operator and engine, then healed", 4*time.Minute)
	ns, p := underWay(t, "severed", "")
	pod := enginePods(t, ns)[0]
	awaitCounters(t, p)
	first := p.Status.CurrentRun.Name
	d.Strike()
	cut := time.Now()
	cluster.kubelet.cut(t, pod.UID, linkSilent)
	r := invalid(t, d, 100*time.Second, p, spatev1.ReasonPodLost, "has not answered")
	d.Detected(90 * time.Second)
	partial(t, d, r)
	expect(t, answerLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonEngineUnreachable)
	mustApply(t, ns, loopbackProfile("next", tolerant+"  duration: 1s"))
	next := profileNamed(ns, "next")
	expect(t, answerLimit, next, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonGeneratorNotReady)
	if still, seen := stands(pod.Status.PodIP, first); still {
		t.Fatalf("run %s does not send any more, so that nothing is left to be stopped: %s", first, seen)
	}

	reasons := noted(t, ns)
	time.Sleep(time.Until(cut.Add(70 * time.Second)))
	cluster.kubelet.cut(t, pod.UID, linkOpen)
	healed := time.Now()
	until(t, 10*time.Second, "the traffic of "+first+" has stopped", func() (bool, string) { return stands(pod.Status.PodIP, first) })
	d.ReportsText(fmt.Sprintf("the traffic stops within %.1f s of healing", time.Since(healed).Seconds()))
	result := complete(t, runLimit, next)
	if res := result.Status.Result; result.Status.Verdict.Outcome != spatev1.VerdictPassed || res.Tx+res.TxDropped != 1000 || res.Foreign != 0 {
		t.Errorf("%+v %+v", result.Status.Verdict, res)
	}
	d.Kept("the generator: the next run passed, without a foreign packet")
	ready := reasons()
	if !slices.Contains(ready, spatev1.ReasonOrphanedRun) || slices.Index(ready, spatev1.ReasonAvailable) < slices.Index(ready, spatev1.ReasonOrphanedRun) {
		t.Errorf("the generator said %q: it was free before the traffic had stopped", ready)
	}
	d.ReportsText("TrafficGenerator Ready=False " + spatev1.ReasonOrphanedRun + " until then")
	g := generatorNamed(ns, "loop")
	must(t, get(g))
	reportsEvent(t, d, ns, g, spatev1.ReasonOrphanedRun)
}

// No operator runs. Another client queries the engine's state, which names no run.
func TestDrillLeaseWhileGetInfoGoesOn(t *testing.T) {
	drill.Long(t)
	d := newDrill(t, "no operator follows a run with a lease of 30 s, while GetInfo goes on", 3*time.Minute)
	ns := ready(t, "  lease: 30s\n")
	mustApply(t, ns, loopbackProfile("unfollowed", tolerant+"  duration: 10m"))
	p := profileNamed(ns, "unfollowed")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	pod := enginePods(t, ns)[0]
	awaitCounters(t, p)
	c, id := asOperator(t, &pod), runOf(t, p).Status.Resolved.RunID
	d.Strike()
	cluster.operator.kill()
	asked := 0
	until(t, 40*time.Second, "the run has stopped", func() (bool, string) {
		asked++
		held := heldBy(t, c, id)
		return held == nil || runs.Ended(held.State), fmt.Sprint(held)
	})
	d.Detected(32 * time.Second)
	d.ReportsText(fmt.Sprintf("the engine stops the run, although asked for its state %d times", asked))
	restartOperator(t)
	partial(t, d, invalid(t, d, runLimit, p, spatev1.ReasonIncomplete, "no call named the run for the time of its lease"))
}

// Another run's packets always wait to be read, before and after the drain.
func TestDrillSaturatedDrain(t *testing.T) {
	drill.Long(t)
	d := newDrill(t, "saturated drain: a worker always has packets to read", 3*time.Minute)
	ns := ready(t, "")
	flood := strings.NewReplacer("name: small", "name: flood", "1kpps", "10Mpps", "size: 128", "size: 64", "{flow: true}", "{}").Replace(loopbackStream)
	mustApply(t, ns, flood+"---"+strings.NewReplacer("name: small, stream: {ref: {name: small}}", "name: flood, stream: {ref: {name: flood}}", ", receivePort: loop", "").Replace(loopbackProfile("flood", tolerant)))
	other := profileNamed(ns, "flood")
	phase(t, runLimit, other, spatev1.ProfileRunning)
	mustApply(t, ns, loopbackProfile("drained", tolerant+"  duration: 1s\n  drain: 200ms"))
	p := profileNamed(ns, "drained")
	runPhase(t, p, spatev1.RunDraining)
	d.Strike()
	r := invalid(t, d, runLimit, p, spatev1.ReasonDrainTimedOut, "still had packets to read")
	d.Detected(8 * time.Second)
	partial(t, d, r)
	must(t, cluster.kube.Delete(t.Context(), other))
	heals(t, d, ns, p)
}
