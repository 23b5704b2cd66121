// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does anything send on, after a partition, without anybody who follows the run, between reflectors, or past a drain?

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/operator/api/v1alpha1"
	runs "spate.dev/operator/internal/controller/run"
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

// No operator runs. Somebody else asks the engine how it is, which names no run.
func TestDrillLeaseWhileGetInfoGoesOn(t *testing.T) {
	drill.Long(t)
	d := newDrill(t, "no operator follows a run with a lease of 30 s, while GetInfo goes on", 3*time.Minute)
	ns := ready(t, "  lease: 30s\n")
	mustApply(t, ns, loopbackProfile("unfollowed", tolerant+"  duration: 10m"))
	p := profileNamed(ns, "unfollowed")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	pod := enginePods(t, ns)[0]
	awaitCounters(t, p)
	c, id := asOperator(t, &pod), runOf(t, p).Spec.RunID
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

// What it sends back arrives at the same port, which sends it back again.
func TestDrillReflectLoop(t *testing.T) {
	d := newDrill(t, "a port reflects what it has reflected itself", 2*time.Minute)
	ns := ready(t, "")
	strays := strings.NewReplacer("name: small", "name: strays", "{continuous: {rate: 1kpps}}", "{burst: {packets: 100, rate: 1kpps}}", "{flow: true}", "{}").Replace(loopbackStream)
	mustApply(t, ns, strays+`---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: mirrors}
spec:
  generatorRef: {name: loop}
  traffic: [{name: strays, streamRef: {name: strays}, transmitPort: loop}]
  reflect: [{port: loop, swap: Addresses}]
  duration: 4s
`+tolerant)
	p := profileNamed(ns, "mirrors")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	d.Strike()
	r := runOf(t, p)
	until(t, 10*time.Second, "every packet has been sent back for the last time", func() (bool, string) {
		err := get(r)
		return err == nil && r.Status.Result != nil && r.Status.Result.NotReflected == 100, fmt.Sprintf("%v %+v", err, r.Status.Result)
	})
	d.Detected(5 * time.Second)
	r = complete(t, runLimit, p)
	res := r.Status.Result
	if r.Status.Verdict.Outcome != spatev1.VerdictPassed || res.Tx != 100 || res.NotReflected != 100 {
		t.Errorf("%+v %+v", r.Status.Verdict, res)
	}
	d.ReportsText("result.notReflected: 100 of 100 packets, at the end of their TTL")
	d.Kept("the link: no packet stays; the whole result: %d sent, %d arrivals", res.Tx, res.Foreign)
}

// Another run's packets always wait to be read, before and after the drain.
func TestDrillSaturatedDrain(t *testing.T) {
	d := newDrill(t, "saturated drain: a worker always has packets to read", 3*time.Minute)
	ns := ready(t, "")
	flood := strings.NewReplacer("name: small", "name: flood", "1kpps", "10Mpps", "size: 128", "size: 64", "{flow: true}", "{}").Replace(loopbackStream)
	mustApply(t, ns, flood+"---"+strings.NewReplacer("name: small, streamRef: {name: small}", "name: flood, streamRef: {name: flood}", ", receivePort: loop", "").Replace(loopbackProfile("flood", tolerant)))
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
