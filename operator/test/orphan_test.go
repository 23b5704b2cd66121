// SPDX-License-Identifier: Apache-2.0

package test

// Nothing sends that was not requested: what an engine executes without a TrafficRun that is under way is stopped.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// sent is how many packets an engine has sent for a run, by its metrics; -1 if it does not answer.
func sent(ip, run string) int64 {
	asker := http.Client{Timeout: time.Second}
	response, err := asker.Get("http://" + ip + ":7471/metrics")
	if err != nil {
		return -1
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	sum := int64(-1)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "spate_stream_tx_packets_total{") && strings.Contains(line, `run="`+run+`"`) {
			value, _ := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
			sum = max(sum, 0) + int64(value)
		}
	}
	return sum
}

// stands reports whether a counter does not move for half a second; what an engine shows of it may be a second old.
func stands(ip, run string) (bool, string) {
	before := sent(ip, run)
	time.Sleep(1500 * time.Millisecond)
	after := sent(ip, run)
	return before == after, fmt.Sprintf("%d, then %d", before, after)
}

// noted collects the reasons of Ready that generator loop goes through.
func noted(t *testing.T, ns string) (all func() []string) {
	t.Helper()
	var reasons []string
	ctx, cancel := context.WithCancel(t.Context())
	list := &spatev1.TrafficGeneratorList{}
	must(t, cluster.kube.List(ctx, list, client.InNamespace(ns)))
	changes, err := cluster.kube.Watch(ctx, &spatev1.TrafficGeneratorList{}, client.InNamespace(ns), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for change := range changes.ResultChan() {
			g, ok := change.Object.(*spatev1.TrafficGenerator)
			if !ok {
				continue
			}
			for _, c := range g.Status.Conditions {
				if c.Type == spatev1.ConditionReady && (len(reasons) == 0 || reasons[len(reasons)-1] != c.Reason) {
					reasons = append(reasons, c.Reason)
				}
			}
		}
	}()
	return func() []string {
		cancel()
		changes.Stop()
		<-done
		return reasons
	}
}

func hasEvent(t *testing.T, ns, reason, word string) (bool, string) {
	t.Helper()
	var all corev1.EventList
	must(t, cluster.kube.List(t.Context(), &all, client.InNamespace(ns)))
	var seen []string
	for _, e := range all.Items {
		seen = append(seen, e.Reason+": "+e.Message)
		if e.Reason == reason && strings.Contains(e.Message, word) {
			return true, ""
		}
	}
	return false, strings.Join(seen, "\n")
}

// tear removes a profile and its run while no operator is there to stop it.
func tear(t *testing.T, p *spatev1.TrafficProfile) {
	t.Helper()
	cluster.operator.stop()
	for _, object := range []client.Object{p, &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Status.CurrentRun.Name}}} {
		must(t, cluster.kube.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
		must(t, client.IgnoreNotFound(cluster.kube.Delete(t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground))))
	}
}

// A generator whose spec is not valid any more has nothing made of it, but what its engines send is still stopped.
func TestARunThatIsGoneIsStoppedOnAGeneratorThatIsNotValid(t *testing.T) {
	ns, p := running(t, "torn", "  suspend: false")
	first := p.Status.CurrentRun.Name
	ip := enginePods(t, ns)[0].Status.PodIP
	tear(t, p)
	mustApply(t, ns, strings.Replace(loopbackGenerator, "lineRate: 10Gbps,", "lineRate: 10Gbps, vlan: 5,", 1))
	restartOperator(t)
	expect(t, answerLimit, generatorNamed(ns, "loop"), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec, "vlan")
	until(t, 15*time.Second, "the traffic has stopped", func() (bool, string) { return stands(ip, first) })
	until(t, answerLimit, "an event reports the orphan", func() (bool, string) { return hasEvent(t, ns, spatev1.ReasonOrphanedRun, first) })
}

func TestARunThatIsGoneWithoutBeingStoppedIsStopped(t *testing.T) {
	ns, p := running(t, "torn", "  suspend: false")
	first := p.Status.CurrentRun.Name
	ip := enginePods(t, ns)[0].Status.PodIP
	tear(t, p)
	if still, seen := stands(ip, first); still {
		t.Fatalf("the engine stopped by itself: %s", seen)
	}
	restartOperator(t)
	until(t, 10*time.Second, "the traffic has stopped", func() (bool, string) { return stands(ip, first) })
	until(t, answerLimit, "an event reports the orphan", func() (bool, string) { return hasEvent(t, ns, spatev1.ReasonOrphanedRun, first) })
	until(t, answerLimit, "the engine has forgotten the run", func() (bool, string) { n := sent(ip, first); return n == -1, strconv.FormatInt(n, 10) })
	expect(t, answerLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	mustApply(t, ns, loopbackProfile("after", lenient+"  duration: 1s"))
	if r := complete(t, runLimit, profileNamed(ns, "after")); r.Status.Result.Tx != 1000 {
		t.Errorf("%+v", r.Status.Result)
	}
}
