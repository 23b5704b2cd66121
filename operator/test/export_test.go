// SPDX-License-Identifier: Apache-2.0

package test

// Samples of runs that have ended are sent by the operator, and by hand. The engines are simulated.

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestSamplesOfARunAreSentWhenItHasEnded(t *testing.T) {
	var bytes atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/write" && r.Header.Get("Authorization") != "Bearer t0ken" {
			http.Error(w, "no such tenant", http.StatusUnauthorized)
			return
		}
		bytes.Add(n)
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	token, config := filepath.Join(folder, "token"), filepath.Join(folder, "http.yaml")
	must(t, os.WriteFile(token, []byte("0ld"), 0o600))
	must(t, os.WriteFile(config, []byte("authorization: {credentials_file: token}\n"), 0o600))
	restartOperator(t, "--samples-remote-write-url="+server.URL+"/write", "--samples-remote-write-http-config="+config, "--samples-otlp-url="+server.URL+"/v1/metrics", "--samples-labels=site=north")
	t.Cleanup(func() { restartOperator(t) })
	ns := simulatedReady(t, startSimulatedNode(t), loopbackGenerator)
	mustApply(t, ns, loopbackProfile("sent", lenient+"  duration: 1s\n  drain: 100ms\n  runPolicy: Manual\n"))
	r := create(t, ns, "sent-", "{profileRef: {name: sent}}")
	hasEnded(t, runLimit, r)
	expect(t, runLimit, r, spatev1.ConditionOTLPExported, metav1.ConditionTrue, spatev1.ReasonSamplesSent, " samples")
	expect(t, runLimit, r, spatev1.ConditionRemoteWritten, metav1.ConditionFalse, spatev1.ReasonSamplesNotSent, "HTTP status 401 ", ": no such tenant")
	if v := r.Status.Verdict; v.Outcome != spatev1.VerdictPassed {
		t.Errorf("%+v", v)
	}
	must(t, os.WriteFile(token, []byte("t0ken"), 0o600))
	expect(t, runLimit, r, spatev1.ConditionRemoteWritten, metav1.ConditionTrue, spatev1.ReasonSamplesSent, " samples")
	if bytes.Load() == 0 {
		t.Error("nothing came")
	}
	by := bytes.Load()
	viewer := userOf(t, ns, "spate-viewer")
	mayReadConfigMaps(t, ns, "spate-viewer")
	if done := executedWith(t, ns, viewer, "", "export", "sent", "--otlp", server.URL+"/v1/metrics"); done.code != 0 || !strings.Contains(done.output, " samples of run "+r.Name+" were accepted (OTLP)") || bytes.Load() == by {
		t.Errorf("%+v", done)
	}
	if done := executedWith(t, ns, viewer, "", "export", r.Name); done.code != 0 || !strings.Contains(done.output, "spate_run_tx_packets_total{") || !strings.Contains(done.output, `run="`+r.Name+`"`) {
		t.Errorf("%+v", done)
	}
}
