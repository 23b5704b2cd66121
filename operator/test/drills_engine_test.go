// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what is lost when an engine, its pod, its namespace or its certificates go?

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/test/drill"
)

// heals waits until the generator is ready again and a new run on it passes.
func heals(t *testing.T, d *drill.Drill, ns string, p *spatev1.TrafficProfile) {
	t.Helper()
	g := generatorNamed(ns, "loop")
	expect(t, readyLimit, g, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	mustApply(t, ns, loopbackProfile(p.Name, tolerant+"  duration: 500ms\n  runID: again"))
	if r := complete(t, readyLimit, p); r.Status.Verdict.Outcome != spatev1.VerdictPassed || r.Status.Result.Tx+r.Status.Result.TxDropped != 500 {
		t.Errorf("the next run: %+v", r.Status.Verdict)
	}
	d.Kept("the generator: the next run passed")
}

// partial fails unless a run that was cut short has kept what was last read of its counters.
func partial(t *testing.T, d *drill.Drill, r *spatev1.TrafficRun) {
	t.Helper()
	if r.Status.Result == nil || r.Status.Result.Tx == 0 {
		t.Errorf("nothing is kept of the counters: %+v", r.Status.Result)
		return
	}
	d.Kept("counters of the last look: %d packets sent", r.Status.Result.Tx)
}

func TestDrillEngineEnds(t *testing.T) {
	t.Parallel()
	for fault, c := range map[string]struct {
		strike func(t *testing.T, pod *corev1.Pod)
		words  string
		within time.Duration
	}{
		"engine killed": {func(_ *testing.T, pod *corev1.Pod) { cluster.kubelet.crash(pod.UID) }, "exit code 137", 10 * time.Second},
		"engine pod evicted through the API": {func(t *testing.T, pod *corev1.Pod) {
			must(t, cluster.kube.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{}))
		}, "is being deleted", 10 * time.Second},
	} {
		t.Run(fault, func(t *testing.T) {
			d := newDrill(t, fault, 3*time.Minute)
			ns, p := underWay(t, "victim", "  duration: 60s")
			pod := enginePods(t, ns)[0]
			awaitCounters(t, p)
			d.Strike()
			c.strike(t, &pod)
			r := invalid(t, d, runLimit, p, spatev1.ReasonPodLost, pod.Name, c.words)
			d.Detected(c.within)
			partial(t, d, r)
			heals(t, d, ns, p)
		})
	}
}

// awaitCounters waits until a run's status shows packets.
func awaitCounters(t *testing.T, p *spatev1.TrafficProfile) {
	t.Helper()
	r := runOf(t, p)
	until(t, runLimit, "counters in the status of run "+r.Name, func() (bool, string) {
		err := get(r)
		return err == nil && r.Status.Result != nil && r.Status.Result.Tx > 0, fmt.Sprint(err)
	})
}

func TestDrillNamespaceDeletedInMidRun(t *testing.T) {
	t.Parallel()
	d := newDrill(t, "namespace deleted in mid-run", 3*time.Minute)
	ns, p := underWay(t, "homeless", "")
	pod := enginePods(t, ns)[0]
	c, id := asOperator(t, &pod), runOf(t, p).Status.Resolved.RunID
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	d.Strike()
	must(t, cluster.kube.Delete(t.Context(), object))
	until(t, 20*time.Second, "the traffic has stopped", func() (bool, string) {
		info, err := c.Info(t.Context())
		if err != nil {
			return true, "the engine has ended"
		}
		for _, held := range info.Runs {
			if held.RunId == id && !runs.Ended(held.State) {
				return false, held.State.String()
			}
		}
		return true, ""
	})
	d.Detected(20 * time.Second)
	d.ReportsText("the traffic stops")
	until(t, 90*time.Second, "the namespace is gone", func() (bool, string) {
		err := get(object)
		return apierrors.IsNotFound(err), fmt.Sprintf("%v %+v", err, object.Status.Conditions)
	})
	d.ReportsText("the namespace is gone, nothing stays Terminating")
	d.Kept("nothing was to be kept")
}

// The kubelet brings no Secret into the pod before the run is over, so engines have the certificates they had.
func TestDrillAuthorityDeletedInMidRun(t *testing.T) {
	d := newDrill(t, "Secret of the certificate authority deleted in mid-run", 3*time.Minute)
	ns, p := underWay(t, "orphaned", "  duration: 15s")
	cluster.kubelet.leaveMounts(ns)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "spate-ca"}}
	must(t, get(secret))
	d.Strike()
	must(t, cluster.kube.Delete(t.Context(), secret))
	again := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "spate-ca"}}
	until(t, 15*time.Second, "the Secret is made again", func() (bool, string) {
		err := get(again)
		return err == nil && again.UID != secret.UID, fmt.Sprint(err)
	})
	d.Detected(15 * time.Second)
	reportsEvent(t, d, operatorNamespace, again, "AuthorityRestored")
	exact(t, d, runLimit, p, 15_000)
}

// Without a scrape, what is deleted goes all the same, and reports that its last counters were not scraped.
func TestDrillPrometheusAwayAtTheEnd(t *testing.T) {
	drill.Long(t)
	for what, event := range map[string]string{"profile": "CountersNotScraped", "generator": "NotDrained"} {
		t.Run(what, func(t *testing.T) {
			d := newDrill(t, "Prometheus away at the end, the "+what+" is deleted", 3*time.Minute)
			ns, p := underWay(t, "unseen", "  duration: 2s")
			cluster.kubelet.leaveUnscraped(ns)
			r := complete(t, runLimit, p)
			deleted, about := client.Object(p), client.Object(r)
			if what == "generator" {
				deleted = generatorNamed(ns, "loop")
				must(t, get(deleted))
				about = deleted
			}
			d.Strike()
			must(t, cluster.kube.Delete(t.Context(), deleted))
			until(t, time.Minute, "it is gone", func() (bool, string) {
				err := get(about)
				return apierrors.IsNotFound(err), fmt.Sprint(err)
			})
			d.Detected(50 * time.Second)
			reportsEvent(t, d, ns, about, event)
			d.Kept("the run's result while there is the run: %d packets", r.Status.Result.Tx)
		})
	}
}

// reportsEvent waits for an event of an object.
func reportsEvent(t *testing.T, d *drill.Drill, ns string, about client.Object, reason string) {
	t.Helper()
	until(t, answerLimit, "event "+reason+" of "+about.GetName(), func() (bool, string) {
		var all corev1.EventList
		must(t, cluster.kube.List(t.Context(), &all, client.InNamespace(ns)))
		var seen []string
		for _, e := range all.Items {
			if e.InvolvedObject.UID == about.GetUID() && e.Reason == reason {
				d.ReportsText("Event " + reason)
				return true, ""
			}
			seen = append(seen, e.Reason)
		}
		return false, strings.Join(seen, " ")
	})
}
