// SPDX-License-Identifier: Apache-2.0

package export

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/export"
	"spate.dev/operator/internal/runs/runstest"
	"spate.dev/operator/internal/runs/samples"
	"spate.dev/operator/internal/runs/storage"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// endedRun is a run with a verdict that has sent.
func endedRun() *spatev1.TrafficRun {
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "imix-1", UID: "u"}}
	started := metav1.NewMicroTime(time.Unix(1_800_000_000, 0))
	r.Status.Phase, r.Status.TrafficStartTime = spatev1.RunComplete, &started
	r.Status.Verdict = &spatev1.Verdict{Outcome: spatev1.VerdictPassed, Reasons: []spatev1.VerdictReason{{Reason: spatev1.ReasonThresholdsMet}}}
	return r
}

func TestSamplesAreSentWhenARunHasEnded(t *testing.T) {
	for protocol, condition := range conditions {
		var status, requests atomic.Int32
		status.Store(http.StatusUnauthorized)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.WriteHeader(int(status.Load()))
		}))
		defer server.Close()
		r, recorded := endedRun(), events.NewFakeRecorder(9)
		c := runstest.Builder(t).WithObjects(r).Build()
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(r), r))
		series := samples.New()
		series.Add(samples.Reading{At: time.Second, Result: &spatev1.RunResult{StreamCounters: spatev1.StreamCounters{Tx: 5, Rx: 4}}}, samples.Most)
		encoded, err := series.Encode()
		must(t, err)
		must(t, storage.SaveSamples(t.Context(), c, r, encoded))

		reconciler, request := New(c, recorded, export.Target{Protocol: protocol, URL: server.URL}), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(r)}
		expect := func(status metav1.ConditionStatus, reason, message string) {
			t.Helper()
			must(t, c.Get(t.Context(), request.NamespacedName, r))
			got := meta.FindStatusCondition(r.Status.Conditions, condition)
			if got == nil || got.Status != status || got.Reason != reason || !strings.HasSuffix(got.Message, message) || r.Status.Verdict.Outcome != spatev1.VerdictPassed {
				t.Errorf("%s: %+v, %+v", protocol, got, r.Status.Verdict)
			}
		}
		for range 2 {
			if _, err := reconciler.Reconcile(t.Context(), request); err == nil {
				t.Errorf("%s: it is not repeated", protocol)
			}
			expect(metav1.ConditionFalse, spatev1.ReasonSamplesNotSent, "HTTP status 401 "+http.StatusText(http.StatusUnauthorized)+": ")
		}
		if n := len(recorded.Events); n != 1 {
			t.Errorf("%s: %d events", protocol, n)
		}
		status.Store(http.StatusOK)
		for range 2 {
			_, err := reconciler.Reconcile(t.Context(), request)
			must(t, err)
			expect(metav1.ConditionTrue, spatev1.ReasonSamplesSent, "2 samples")
		}
		if n := requests.Load(); n != 3 {
			t.Errorf("%s: %d requests", protocol, n)
		}
	}
}

func TestARunWithoutSamplesNeedsNoReceiver(t *testing.T) {
	r := endedRun()
	c := runstest.Builder(t).WithObjects(r).Build()
	_, err := New(c, events.NewFakeRecorder(1), export.Target{Protocol: export.OTLP, URL: "http://127.0.0.1:1"}).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(r)})
	must(t, err)
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(r), r))
	if got := meta.FindStatusCondition(r.Status.Conditions, spatev1.ConditionOTLPExported); got == nil || got.Message != "the run has no samples" {
		t.Errorf("%+v", got)
	}
}
