// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestSearchesAreReportedUntilTheyAreDeleted(t *testing.T) {
	s := &spatev1.TrafficSearch{}
	s.Namespace, s.Name = "lab", "router"
	s.Status.Variants = []spatev1.SearchVariant{
		{Name: "64", Trials: 7, Result: spatev1.SearchResult{Goals: []spatev1.GoalResult{{Name: "ndr", Lower: "999392.5", Upper: "1004412"}}}},
		{Name: "1518", Trials: 2, Result: spatev1.SearchResult{Goals: []spatev1.GoalResult{{Name: "ndr", Lower: "812743"}}}},
	}
	Search(s, "500")
	defer SearchDeleted(client.ObjectKeyFromObject(s))
	const want = `
# HELP spate_search_bound Relevant bounds that a TrafficSearch has found so far, in the unit of its loads.
# TYPE spate_search_bound gauge
spate_search_bound{goal="ndr",search="router",search_namespace="lab",side="lower",variant="1518"} 812743
spate_search_bound{goal="ndr",search="router",search_namespace="lab",side="lower",variant="64"} 999392.5
spate_search_bound{goal="ndr",search="router",search_namespace="lab",side="upper",variant="64"} 1.004412e+06
# HELP spate_search_load Load of the trial under way of a TrafficSearch, in packets a second of the busiest transmitting port, or connections a second of all applications.
# TYPE spate_search_load gauge
spate_search_load{search="router",search_namespace="lab",variant="1518"} 500
# HELP spate_search_trials_total Trials of a TrafficSearch that have ended.
# TYPE spate_search_trials_total counter
spate_search_trials_total{search="router",search_namespace="lab",variant="1518"} 2
spate_search_trials_total{search="router",search_namespace="lab",variant="64"} 7
`
	if err := testutil.CollectAndCompare(searches, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	// Without a trial under way there is no load.
	Search(s, "")
	if n := testutil.CollectAndCount(searches, "spate_search_load"); n != 0 {
		t.Errorf("%d loads", n)
	}
	SearchDeleted(client.ObjectKeyFromObject(s))
	if n := testutil.CollectAndCount(searches); n != 0 {
		t.Errorf("%d samples of a deleted search", n)
	}
}
