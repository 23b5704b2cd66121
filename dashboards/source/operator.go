// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// operator answers: does the operator keep up, what does it wait for, and how far are searches?
func operator() *dashboard.DashboardBuilder {
	d := annotated(page("spate-operator", "The operator: runs, calls to engines, requests to the API server, certificates, searches."), ofNamespaces).
		WithVariable(variable("namespace", "Namespace of runs and searches", "spate_run_state", "profile_namespace", true))
	const (
		each  = "[$__rate_interval]"
		ofOwn = " and on (namespace, pod) spate_operator_runs_active" // of the operator's metrics that others have, too
	)
	over := func(of float64, by, histogram string) string {
		labels := "le"
		if by != "" {
			labels = by + ", le"
		}
		return fmt.Sprintf("histogram_quantile(%g, sum by (%s) (rate(%s_bucket%s)))", of, labels, histogram, each)
	}

	d.WithRow(row("Runs")).
		WithPanel(number("Active",
			"Runs that have been admitted to a generator and have not ended.",
			"short", 4, neutral(), query{"sum(spate_operator_runs_active)", ""})).
		WithPanel(number("Waiting",
			"Runs that have not been admitted.",
			"short", 4, steps("green", from(1, "yellow")), query{"sum(spate_operator_runs_waiting) or vector(0)", ""})).
		WithPanel(number("Supervised",
			"Runs whose engines the operator supervises now.",
			"short", 4, neutral(), query{"sum(spate_operator_supervised_runs)", ""})).
		WithPanel(number("Operators",
			"Operators that lead: one, unless several releases share the cluster.",
			"short", 4, neutral(), query{"sum(leader_election_master_status" + ofOwn + ")", ""})).
		WithPanel(number("Next certificate ends in",
			"Time until the first of the authority's and the engines' certificates ends. They are renewed when a third of their life is left.",
			"s", 8,
			steps("red", from(86400, "yellow"), from(7*86400, "green")), query{"min(spate_operator_certificate_expiry_timestamp_seconds) - time()", ""})).
		WithPanel(graph("Waiting runs",
			"By the reason that they wait for.",
			"short", 8, query{"sum by (reason) (spate_operator_runs_waiting) or vector(0)", "{{reason}}"})).
		WithPanel(graph("Ended runs", "Within the last 15 minutes, by outcome and first reason.", "short", 8,
			query{"sum by (outcome, reason) (increase(spate_operator_runs_completed_total[15m]))", "{{outcome}}: {{reason}}"})).
		WithPanel(graph("Wait before admission",
			"Time from the creation of a run to its admission, of runs admitted within the last 15 minutes.",
			"s", 8,
			query{"histogram_quantile(0.5, sum by (le) (increase(spate_operator_run_wait_seconds_bucket[15m])))", "p50"},
			query{"histogram_quantile(0.99, sum by (le) (increase(spate_operator_run_wait_seconds_bucket[15m])))", "p99"})).
		WithPanel(graph("Size of plans", "Mean size of the resolved plans of runs admitted within the last 15 minutes.", "bytes", 8,
			query{"sum(increase(spate_operator_plan_bytes_sum[15m])) / (sum(increase(spate_operator_plan_bytes_count[15m])) > 0)", "mean"})).
		WithPanel(rows("Certificates", "When the certificates of the authority and of the engines end.", 16,
			[]column{{"certificate", "certificate", ""}, {"Value", "ends", "dateTimeFromNow"}},
			query{"min by (certificate) (spate_operator_certificate_expiry_timestamp_seconds) * 1000", ""}))

	d.WithRow(row("Engines and the API server")).
		WithPanel(graph("Calls to engines",
			"By method and gRPC code.",
			"reqps", 8, query{"sum by (method, code) (rate(spate_operator_engine_call_seconds_count" + each + "))", "{{method}} {{code}}"})).
		WithPanel(graph("Duration of calls to engines",
			"The 99th percentile, by method.",
			"s", 8, query{over(0.99, "method", "spate_operator_engine_call_seconds"), "{{method}}"})).
		WithPanel(graph("Writes to the API server",
			"By resource and verb.",
			"reqps", 8, query{"sum by (resource, verb) (rate(spate_operator_api_writes_total" + each + "))", "{{verb}} {{resource}}"})).
		WithPanel(graph("Requests to the API server", "All requests of operators, by method and code.", "reqps", 8,
			query{`sum by (method, code) (rate(rest_client_requests_total` + each + `)` + ofOwn + `)`, "{{method}} {{code}}"})).
		WithPanel(graph("Reconciliations", "By controller and result.", "reqps", 8,
			query{`sum by (controller, result) (rate(controller_runtime_reconcile_total` + each + `)` + ofOwn + `)`, "{{controller}} {{result}}"})).
		WithPanel(graph("Queues of controllers", "Objects that wait to be reconciled.", "short", 8,
			query{`sum by (name) (workqueue_depth` + ofOwn + `)`, "{{name}}"})).
		WithPanel(graph("Duration of reconciliations", "The 99th percentile, by controller.", "s", 8,
			query{`histogram_quantile(0.99, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket` + each + `)` + ofOwn + `))`, "{{controller}}"})).
		WithPanel(graph("Memory",
			"Resident memory of operators.",
			"bytes", 8, query{"process_resident_memory_bytes" + ofOwn, "{{pod}}"})).
		WithPanel(graph("CPU",
			"CPU time that operators use, in CPUs.",
			"short", 8, query{"rate(process_cpu_seconds_total" + each + ")" + ofOwn, "{{pod}}"}))

	const ofSearches = `search_namespace=~"$namespace"`
	d.WithRow(row("Searches")).
		WithPanel(graph("Load and bounds of searches",
			"Load of the trial under way, and the relevant bounds by goal (RFC 9971): packets a second of the busiest transmitting port, or connections a second of all applications.",
			"short", 16,
			query{"sum by (search_namespace, search, variant) (spate_search_load{" + ofSearches + "})", "{{search_namespace}}/{{search}} {{variant}} load"},
			query{"sum by (search_namespace, search, variant, goal, side) (spate_search_bound{" + ofSearches + "})", "{{search_namespace}}/{{search}} {{variant}} {{goal}} {{side}}"})).
		WithPanel(graph("Trials of searches", "Trials that have ended, by variant.", "short", 8,
			query{"sum by (search_namespace, search, variant) (spate_search_trials_total{" + ofSearches + "})", "{{search_namespace}}/{{search}} {{variant}}"}))
	return d
}
