// SPDX-License-Identifier: Apache-2.0

package test

// Drills: a fault is injected for real, and one row says how long until it showed, what the API reported and what was kept.
// This file answers: what do they have in common?

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/pki"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/test/drill"
)

// leadLimit is how long there may be no leader after an operator that could not give its lease back: the lease's 15 s, the
// interval at which it is tried, and the start of a process on a busy machine.
const leadLimit = 30 * time.Second

func newDrill(t *testing.T, fault string, limit time.Duration) *drill.Drill {
	t.Helper()
	needsEngine(t)
	return drill.New(t, fault, limit)
}

// tolerant of a machine that is too busy to send all in time: what is tested is that every packet is accounted for.
const tolerant = "  generatorTolerance: {late: 100%, txDropped: \"1000000\"}\n"

// underWay brings the loopback generator up and a profile into its Running phase.
func underWay(t *testing.T, name, spec string) (string, *spatev1.TrafficProfile) {
	t.Helper()
	return runningAs(t, name, tolerant+spec)
}

// exact waits for the end of a profile's run and fails unless it passed and `want` packets were due: each was sent and received, or
// is counted as not sent.
func exact(t *testing.T, d *drill.Drill, limit time.Duration, p *spatev1.TrafficProfile, want int64) {
	t.Helper()
	r := complete(t, limit, p)
	res := r.Status.Result
	if res == nil || r.Status.Verdict.Outcome != spatev1.VerdictPassed || res.Tx+res.TxDropped != want || res.Rx != res.Tx || res.Lost != 0 {
		t.Fatalf("want %d packets: %+v %+v", want, r.Status.Verdict, res)
	}
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, "")
	d.Reports("TrafficProfile", meta.FindStatusCondition(p.Status.Conditions, spatev1.ConditionPassed))
	kept := fmt.Sprintf("the whole result: %d of %d packets sent and received", res.Rx, want)
	if res.TxDropped > 0 {
		kept += fmt.Sprintf(", %d counted as not sent", res.TxDropped)
	}
	d.Kept("%s", kept)
}

// invalid waits for the end of a profile's run, which must be invalid for the reason, and gives it.
func invalid(t *testing.T, d *drill.Drill, limit time.Duration, p *spatev1.TrafficProfile, reason string, words ...string) *spatev1.TrafficRun {
	t.Helper()
	r := complete(t, limit, p)
	if r.Status.Verdict.Outcome != spatev1.VerdictInvalid {
		t.Errorf("verdict %+v, want Invalid", r.Status.Verdict)
	}
	expect(t, answerLimit, p, spatev1.ConditionValid, metav1.ConditionFalse, reason, words...)
	d.Reports("TrafficProfile", meta.FindStatusCondition(p.Status.Conditions, spatev1.ConditionValid))
	return r
}

// runOf waits for the run that a profile has made.
func runOf(t *testing.T, p *spatev1.TrafficProfile) *spatev1.TrafficRun {
	t.Helper()
	r := &spatev1.TrafficRun{}
	until(t, runLimit, "the run of "+p.Name, func() (bool, string) {
		if err := get(p); err != nil || p.Status.CurrentRun == nil {
			return false, fmt.Sprint(err)
		}
		r.Namespace, r.Name = p.Namespace, p.Status.CurrentRun.Name
		return get(r) == nil, r.Name
	})
	return r
}

// runPhase waits until a profile's run is in a phase.
func runPhase(t *testing.T, p *spatev1.TrafficProfile, want spatev1.RunPhase) *spatev1.TrafficRun {
	t.Helper()
	r := runOf(t, p)
	until(t, runLimit, fmt.Sprintf("run %s is %s", r.Name, want), func() (bool, string) {
		err := get(r)
		return err == nil && r.Status.Phase == want, string(r.Status.Phase)
	})
	return r
}

// asOperator calls a pod's engine with the operator's certificate and past the link that a drill may have cut.
func asOperator(t *testing.T, pod *corev1.Pod) *engine.Client {
	t.Helper()
	pool := engine.NewPool(operatorStore())
	t.Cleanup(pool.Close)
	c, err := pool.Client(t.Context(), pastTheLink(pod))
	must(t, err)
	return c
}

// operatorStore has the operator's certificates.
func operatorStore() *pki.Store {
	return &pki.Store{Client: cluster.kube, Namespace: operatorNamespace, Policy: pki.DefaultPolicy(), Clock: clock.RealClock{}}
}

// pastTheLink is a pod's engine where no drill cuts calls off.
func pastTheLink(pod *corev1.Pod) engine.Target {
	target := podspec.EngineOf(pod)
	target.Address = cluster.kubelet.process(pod.UID).own
	return target
}

// heldBy gives what an engine knows of a run; nil if it holds none of that id.
func heldBy(t *testing.T, c *engine.Client, id string) *enginev1.RunInfo {
	t.Helper()
	info, err := c.Info(t.Context())
	must(t, err)
	for _, r := range info.Runs {
		if r.RunId == id {
			return r
		}
	}
	return nil
}

// keepOperator starts the operator again whenever it ends, as its Deployment does, until settle is called, which waits until one
// leads. In between cluster.operator is the first.
func keepOperator(t *testing.T) (settle func()) {
	t.Helper()
	current := make(chan *operator, 1) // the last that was started
	current <- cluster.operator
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for o := cluster.operator; ; {
			select {
			case <-over:
				return
			case <-o.done:
			}
			next, err := launchOperator()
			if err != nil {
				t.Errorf("start the operator again: %v", err)
				return
			}
			<-current
			o = next
			current <- o
		}
	})
	end := sync.OnceFunc(func() {
		close(over)
		wg.Wait()
		cluster.operator = <-current
	})
	t.Cleanup(end)
	return func() {
		t.Helper()
		until(t, leadLimit, "an operator leads", func() (bool, string) {
			o := <-current
			defer func() { current <- o }()
			return o.leads(), o.log.lines(2)
		})
		end()
	}
}

// phases are runs of as many generators, one in each phase that a fault may strike in.
type phases struct {
	preparing, running, draining *spatev1.TrafficProfile
	frozen                       corev1.Pod // the engine that does not answer, so that its run stays in Preparing
}

// inEachPhase brings them up.
func inEachPhase(t *testing.T) *phases {
	t.Helper()
	var f phases
	for name, p := range map[string]**spatev1.TrafficProfile{"preparing": &f.preparing, "running": &f.running, "draining": &f.draining} {
		ns := namespace(t)
		mustApply(t, ns, loopbackGenerator+"---"+loopbackStream)
		*p = profileNamed(ns, name)
	}
	for _, p := range []*spatev1.TrafficProfile{f.preparing, f.running, f.draining} {
		expect(t, readyLimit, generatorNamed(p.Namespace, "loop"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	}
	f.frozen = enginePods(t, f.preparing.Namespace)[0]
	freeze(t, &f.frozen)
	mustApply(t, f.preparing.Namespace, loopbackProfile("preparing", tolerant+"  duration: 2s"))
	mustApply(t, f.running.Namespace, loopbackProfile("running", tolerant+"  duration: 12s"))
	mustApply(t, f.draining.Namespace, loopbackProfile("draining", tolerant+"  duration: 2s\n  drain: 10s"))
	runPhase(t, f.preparing, spatev1.RunPreparing)
	runPhase(t, f.draining, spatev1.RunDraining)
	runPhase(t, f.running, spatev1.RunRunning)
	return &f
}
