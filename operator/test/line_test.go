// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: in which order are runs of several namespaces admitted that wait for one generator? The engines are simulated.

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs"
)

// narrowGenerator has a port that carries one run of 1,000 packets a second (1.184 Mbps on the wire), and a slow one beside it.
var narrowGenerator = strings.Replace(loopbackGenerator, "lineRate: 10Gbps", "lineRate: 2Mbps", 1) + "  allowedNamespaces: {from: All}\n"

// simulatedNamespace makes a namespace whose engines are simulated.
func simulatedNamespace(t *testing.T, node *simulatedNode) string {
	t.Helper()
	needsEngine(t) // the operator checks plans by the engine's own code
	ns := namespace(t)
	node.take(ns)
	return ns
}

// simulatedReady brings a generator named loop up, on simulated engines.
func simulatedReady(t *testing.T, node *simulatedNode, manifest string) string {
	t.Helper()
	ns := simulatedNamespace(t, node)
	mustApply(t, ns, manifest+"---"+loopbackStream)
	expect(t, readyLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	return ns
}

// guestOf makes a namespace that uses the generator of another by the Manual profiles full (1,000 packets a second), slow (100), and
// impatient, which does not wait.
func guestOf(t *testing.T, owner string) string {
	t.Helper()
	ns := namespace(t)
	mustApply(t, ns, loopbackStream)
	for name, spec := range map[string]string{"full": "", "slow": "  rate: 100pps\n", "impatient": "  rate: 100pps\n  whenBusy: Refuse\n"} {
		profile := loopbackProfile(name, "  runPolicy: Manual\n  duration: 1h\n  drain: 100ms\n"+spec)
		mustApply(t, ns, strings.Replace(profile, "generatorRef: {name: loop}", "generatorRef: {name: loop, namespace: "+owner+"}", 1))
	}
	return ns
}

// createInTurn creates a run of a profile, in a later second than those before.
func createInTurn(t *testing.T, ns, profile string) *spatev1.TrafficRun {
	t.Helper()
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	return create(t, ns, profile+"-", "{profileRef: {name: "+profile+"}}")
}

func named(r *spatev1.TrafficRun) string { return r.Namespace + "/" + r.Name }

// hasPlace waits until a run reports its place in the line.
func hasPlace(t *testing.T, r *spatev1.TrafficRun, place string) {
	t.Helper()
	expect(t, answerLimit, r, spatev1.ConditionReconciling, metav1.ConditionTrue, spatev1.ReasonGeneratorBusy, place)
}

func TestRunsOfSeveralNamespacesWaitInLineForABusyGenerator(t *testing.T) {
	t.Parallel()
	owner := simulatedReady(t, startSimulatedNode(t), narrowGenerator)
	one, other := guestOf(t, owner), guestOf(t, owner)
	active := createInTurn(t, one, "full")
	inPhase(t, runLimit, active, spatev1.RunRunning)
	first, second, third, fourth := createInTurn(t, one, "full"), createInTurn(t, other, "slow"), createInTurn(t, one, "full"), createInTurn(t, other, "full")
	hasPlace(t, first, "queued first for TrafficGenerator loop, which has no room yet: together with "+named(active))
	hasPlace(t, second, "behind 1 run, next: "+named(first)) // though it would fit
	hasPlace(t, third, "behind 2 runs, next: "+named(first))
	hasPlace(t, fourth, "behind 3 runs, next: "+named(first))
	impatient := createInTurn(t, other, "impatient")
	hasEnded(t, answerLimit, impatient)
	expect(t, answerLimit, impatient, spatev1.ConditionValid, metav1.ConditionFalse, spatev1.ReasonGeneratorBusy, "behind 4 runs, next: "+named(first), "spec.whenBusy is Refuse")

	t.Run("nothing is written while the line does not move", func(t *testing.T) {
		before := map[string]string{}
		for _, r := range []*spatev1.TrafficRun{first, second, third, fourth} {
			must(t, get(r))
			before[r.Name] = r.ResourceVersion
		}
		time.Sleep(12 * time.Second) // they are reconciled every 5 s
		for _, r := range []*spatev1.TrafficRun{first, second, third, fourth} {
			if must(t, get(r)); before[r.Name] != r.ResourceVersion {
				t.Errorf("%s was written: %+v", r.Name, r.Status.Conditions)
			}
		}
	})

	must(t, cluster.kube.Delete(t.Context(), third)) // a waiter
	hasPlace(t, fourth, "behind 2 runs, next: "+named(first))
	patched(t, active, `{"spec":{"stop":true}}`)
	inPhase(t, runLimit, first, spatev1.RunRunning)
	inPhase(t, runLimit, second, spatev1.RunRunning) // beside it
	hasPlace(t, fourth, "queued first for TrafficGenerator loop, which has no room yet: together with ")
	must(t, cluster.kube.Delete(t.Context(), first))
	inPhase(t, runLimit, fourth, spatev1.RunRunning)
	// Both are prepared at the same time, and either may send first.
	if second.Status.PrepareTime.Before(first.Status.PrepareTime) {
		t.Errorf("%s overtook %s", second.Name, first.Name)
	}
}

// The line is what the runs' statuses say: an operator that starts while they wait continues it.
func TestALineOutlivesTheOperator(t *testing.T) {
	owner := simulatedReady(t, startSimulatedNode(t), narrowGenerator)
	guests := []string{guestOf(t, owner), guestOf(t, owner), guestOf(t, owner)}
	active := createInTurn(t, guests[0], "full")
	inPhase(t, runLimit, active, spatev1.RunRunning)
	var line []*spatev1.TrafficRun
	for i := range 9 { // one namespace has four of them before another has its first
		guest := guests[max(0, i-3)%len(guests)]
		line = append(line, create(t, guest, "full-", "{profileRef: {name: full}, overrides: {duration: 200ms}}"))
	}
	slices.SortFunc(line, func(a, b *spatev1.TrafficRun) int {
		if runs.Older(a, b) {
			return -1
		}
		return 1
	})
	for _, r := range line {
		hasPlace(t, r, "for TrafficGenerator loop")
	}
	cluster.operator.kill()
	patched(t, active, `{"spec":{"stop":true}}`)
	restartOperator(t)
	var started []string
	for _, r := range line {
		hasEnded(t, 2*runLimit, r)
		if r.Status.TrafficStartTime == nil {
			t.Fatalf("%s sent nothing: %+v", named(r), r.Status.Verdict)
		}
		started = append(started, fmt.Sprint(r.Status.TrafficStartTime.UTC().Format("15:04:05.000000 "), named(r)))
	}
	if !slices.IsSorted(started) {
		t.Errorf("the runs, the oldest first, started at\n%s", strings.Join(started, "\n"))
	}
	if waits := meta.FindStatusCondition(line[0].Status.Conditions, spatev1.ConditionReconciling); waits != nil {
		t.Errorf("%+v", waits)
	}
}
