// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what is lost when the operator, or its way to the API server, fails?

import (
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/test/drill"
)

// freeze stops a pod's engine where it is; thaw lets it go on.
func freeze(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	cluster.kubelet.signal(pod.UID, syscall.SIGSTOP)
	t.Cleanup(func() { cluster.kubelet.signal(pod.UID, syscall.SIGCONT) })
}

func thaw(pod *corev1.Pod) { cluster.kubelet.signal(pod.UID, syscall.SIGCONT) }

// eachPhase begins a row for each phase in which a fault strikes.
func eachPhase(t *testing.T, fault string, limit time.Duration) []*drill.Drill {
	t.Helper()
	var all [3]*drill.Drill
	for i, phase := range []string{"Draining", "Running", "Preparing"} { // what starts last is written first
		all[len(all)-1-i] = newDrill(t, fault+" in "+phase, limit)
	}
	return all[:]
}

// exact fails unless all runs have ended with all they were to send.
func (f *phases) exact(t *testing.T, drills []*drill.Drill) {
	t.Helper()
	exact(t, drills[0], 2*time.Minute, f.preparing, 2000)
	exact(t, drills[1], time.Minute, f.running, 12_000)
	exact(t, drills[2], time.Minute, f.draining, 2000)
}

func TestDrillOperatorKilledInEachPhase(t *testing.T) {
	drills := eachPhase(t, "operator killed", 4*time.Minute)
	f := inEachPhase(t)
	for _, d := range drills {
		d.Strike()
	}
	cluster.operator.kill()
	thaw(&f.frozen)
	restartOperator(t)
	for _, d := range drills {
		d.Detected(leadLimit)
		d.ReportsText("another operator holds the lease")
	}
	f.exact(t, drills)
}

// Answers of the API server are slow, so that the instant is there to be seen before the operator knows that it is written.
func TestDrillOperatorKilledBetweenTheInstantAndTheStart(t *testing.T) {
	drill.Long(t)
	d := newDrill(t, "operator killed between the instant and Start", 3*time.Minute)
	ns := ready(t, "  replicas: 2\n")
	must(t, cluster.api.set(linkSlow))
	t.Cleanup(func() { must(t, cluster.api.set(linkOpen)) })
	mustApply(t, ns, loopbackProfile("instant", tolerant+"  duration: 2s"))
	p := profileNamed(ns, "instant")
	r := runOf(t, p)
	until(t, runLimit, "the instant is written", func() (bool, string) {
		return get(r) == nil && r.Status.TrafficStartTime != nil, string(r.Status.Phase)
	})
	cluster.operator.kill()
	d.Strike()
	for _, pod := range enginePods(t, ns) {
		held := heldBy(t, asOperator(t, &pod), r.Status.Resolved.RunID)
		if held == nil || held.State != enginev1.RunState_RUN_STATE_PREPARED || held.StartedAtNs != 0 {
			t.Fatalf("engine %s has heard of the start: %+v", pod.Name, held)
		}
	}
	must(t, cluster.api.set(linkOpen))
	restartOperator(t)
	d.Detected(leadLimit)
	d.ReportsText("another operator holds the lease")
	exact(t, d, time.Minute, p, 2000)
}

func TestDrillAPIServerAway(t *testing.T) {
	drill.Long(t)
	for _, outage := range []struct {
		state linkState
		how   string
		span  time.Duration
	}{
		{linkSilent, "API server away for 30 s (packets vanish)", 30 * time.Second},
		{linkRefused, "API server away for 60 s (connections refused)", time.Minute},
	} {
		t.Run(outage.span.String(), func(t *testing.T) {
			drills := eachPhase(t, outage.how, 6*time.Minute)
			f := inEachPhase(t)
			settle := keepOperator(t)
			first := cluster.operator
			for _, d := range drills {
				d.Strike()
			}
			struck := time.Now()
			must(t, cluster.api.set(outage.state))
			t.Cleanup(func() { must(t, cluster.api.set(linkOpen)) })
			thaw(&f.frozen)
			select {
			case <-first.done: // its lease could not be renewed: it must not act any more
			case <-time.After(outage.span):
				t.Fatalf("the operator goes on for %s without its lease", outage.span)
			}
			for _, d := range drills {
				d.Detected(15 * time.Second) // then another may lead
				d.ReportsText("the operator ends (leader election lost) and is started again")
			}
			time.Sleep(time.Until(struck.Add(outage.span)))
			must(t, cluster.api.set(linkOpen))
			settle()
			f.exact(t, drills)
		})
	}
}

// standBy starts a second operator, which waits for the lease.
func standBy(t *testing.T) *operator {
	t.Helper()
	o, err := launchOperator()
	must(t, err)
	until(t, 20*time.Second, "the second operator stands by", func() (bool, string) {
		return o.metric("go_goroutines") > 0, o.log.lines(3)
	})
	if o.leads() {
		t.Fatal("two operators lead")
	}
	return o
}

func TestDrillLeaderKilledWhileAnotherStandsBy(t *testing.T) {
	drill.Long(t)
	d := newDrill(t, "two operators, the leader is killed", 3*time.Minute)
	_, p := underWay(t, "failover", "  duration: 25s")
	second := standBy(t)
	d.Strike()
	cluster.operator.kill()
	cluster.operator = second
	until(t, leadLimit, "the second operator leads", func() (bool, string) { return cluster.operator.leads(), "" })
	d.Detected(leadLimit)
	d.ReportsText("the standby holds the lease")
	exact(t, d, time.Minute, p, 25_000)
}

// A leader that stood still for longer than its lease must end when it goes on, for another leads.
func TestDrillLeaderFrozenWhileAnotherStandsBy(t *testing.T) {
	drill.Long(t)
	d := newDrill(t, "two operators, the leader stands still for 25 s and goes on", 4*time.Minute)
	_, p := underWay(t, "frozen", "  duration: 35s")
	second := standBy(t)
	first := cluster.operator
	d.Strike()
	must(t, first.command.Process.Signal(syscall.SIGSTOP))
	struck := time.Now()
	cluster.operator = second
	until(t, leadLimit, "the second operator leads", func() (bool, string) { return cluster.operator.leads(), "" })
	d.Detected(leadLimit)
	d.ReportsText("the standby holds the lease")
	time.Sleep(time.Until(struck.Add(25 * time.Second)))
	must(t, first.command.Process.Signal(syscall.SIGCONT))
	select {
	case <-first.done:
		d.ReportsText("the first ends: leader election lost")
	case <-time.After(30 * time.Second):
		first.kill()
		t.Error("the first operator goes on without the lease")
	}
	exact(t, d, time.Minute, p, 35_000)
}
