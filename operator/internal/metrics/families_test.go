// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"reflect"
	"slices"
	"testing"
)

func TestFamiliesHaveTypeHelpAndLabels(t *testing.T) {
	all := Families()
	for _, want := range []Family{
		{"spate_operator_runs_waiting", "gauge", "TrafficRuns that have not been admitted to a generator, by the reason that they wait for.", []string{"reason"}},
		{"spate_operator_run_wait_seconds", "histogram", "Time from the creation of a TrafficRun to its admission to a generator.", nil},
		{"spate_operator_api_writes_total", "counter", "Requests by which the operator wrote to the API server, by resource and verb.", []string{"resource", "verb"}},
		{"spate_search_trials_total", "counter", "Trials of a TrafficSearch that have ended.", []string{"search_namespace", "search", "variant"}},
	} {
		if !slices.ContainsFunc(all, func(f Family) bool { return reflect.DeepEqual(f, want) }) {
			t.Errorf("%+v is not in %+v", want, all)
		}
	}
	for _, f := range all {
		if f.Name == "" || f.Help == "" {
			t.Errorf("%+v", f)
		}
	}
}
