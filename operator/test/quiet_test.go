// SPDX-License-Identifier: Apache-2.0

package test

// The operator as a guest of the cluster: small, and quiet when nothing changes.

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

// quiet fails if the operator writes anything but its lease for a while, or has grown large.
func quiet(t *testing.T) {
	t.Helper()
	writes := func() float64 {
		sum := 0.0
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			sum += cluster.operator.metric("rest_client_requests_total", `method="`+method+`"`)
		}
		return sum
	}
	until(t, 90*time.Second, "what other tests left is gone", func() (bool, string) {
		var all corev1.NamespaceList
		err := cluster.kube.List(t.Context(), &all)
		var going []string
		for _, ns := range all.Items {
			if ns.DeletionTimestamp != nil {
				going = append(going, ns.Name)
			}
		}
		return err == nil && len(going) == 0, strings.Join(going, " ")
	})
	time.Sleep(3 * time.Second) // the last events and statuses
	const span = 15 * time.Second
	before := writes()
	time.Sleep(span)
	// The lease is renewed every two seconds.
	if made := writes() - before; made > span.Seconds()/2+1 {
		t.Errorf("%.0f writes in %s\n%s", made, span, cluster.operator.log.lines(20))
	}
	if log := cluster.operator.log.lines(1 << 20); strings.Contains(log, "is forbidden: User") || strings.Contains(log, "could not be tried") {
		t.Errorf("the operator's role is too small, or the engine's dry run fails:\n%s", log)
	}
	rss := cluster.operator.metric("process_resident_memory_bytes")
	t.Logf("the operator's resident memory: %.0f MiB", rss/(1<<20))
	if rss == 0 || rss > 100<<20 {
		t.Error("want less than 100 MiB")
	}
}

func TestWaitingMakesNoWrites(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator+"---"+loopbackStream+"---"+loopbackProfile("waiting", ""))
	expect(t, answerLimit, profileNamed(ns, "waiting"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonGeneratorNotReady)
	quiet(t)
}
