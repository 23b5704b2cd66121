// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestTheFirstRunOfAReasonIsAnIncreaseOfACounter(t *testing.T) {
	before := testutil.CollectAndCount(runsCompleted)
	for outcome, reason := range map[spatev1.VerdictOutcome]string{
		spatev1.VerdictPassed: spatev1.ReasonThresholdsMet, spatev1.VerdictFailed: spatev1.ReasonThresholdMissed, spatev1.VerdictInvalid: spatev1.ReasonPodLost,
	} {
		RunCompleted(&spatev1.Verdict{Outcome: outcome, Reasons: []spatev1.VerdictReason{{Reason: reason}, {Reason: spatev1.ReasonPortDown}}})
		if n := testutil.ToFloat64(runsCompleted.WithLabelValues(string(outcome), reason)); n != 1 {
			t.Errorf("%v runs are %s with the reason %s", n, outcome, reason)
		}
	}
	if after := testutil.CollectAndCount(runsCompleted); before == 0 || after != before {
		t.Errorf("%d counters before the first runs, %d after them", before, after)
	}
}

func TestWritesAreCountedByResource(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	c := http.Client{Transport: Transport(http.DefaultTransport)}
	for path, want := range map[string]string{
		"/apis/spate.dev/v1alpha1/namespaces/n/trafficruns/r/status": "trafficruns/status",
		"/apis/spate.dev/v1alpha1/namespaces/n/trafficruns/r":        "trafficruns",
		"/apis/spate.dev/v1alpha1/namespaces/n/trafficprofiles":      "trafficprofiles",
		"/api/v1/namespaces/n/configmaps":                            "configmaps",
		"/api/v1/namespaces/n":                                       "namespaces",
		"/healthz":                                                   "other",
	} {
		for _, method := range []string{http.MethodPatch, http.MethodGet} {
			r, err := http.NewRequest(method, server.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
		}
		if n := testutil.ToFloat64(apiWrites.WithLabelValues(want, http.MethodPatch)); n != 1 {
			t.Errorf("%s: %v writes of %s", path, n, want)
		}
		if n := testutil.ToFloat64(apiWrites.WithLabelValues(want, http.MethodGet)); n != 0 {
			t.Errorf("%s: a read is counted", path)
		}
	}
}
