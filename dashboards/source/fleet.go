// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// openRun leads from a row with the labels of a run to its dashboard.
func openRun() []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{
		{Id: "displayName", Value: "run"},
		{Id: "links", Value: []map[string]any{{
			"title": "Run ${__value.text}",
			"url": "/d/spate-run?var-datasource=${datasource}&var-namespace=${__data.fields.profile_namespace}&var-profile=${__data.fields.profile}" +
				"&var-run=${__value.text}&${__url_time_range}",
		}}},
	}
}

// fleet answers: what do all generators do, and how did the latest runs end? Most of it is of recording rules, since it covers all runs.
func fleet() *dashboard.DashboardBuilder {
	d := annotated(page("spate-fleet", "All runs and generators: what is active, how runs ended, and who is at a limit."), ofNamespaces).
		WithVariable(variable("namespace", "Namespace of runs", "spate_run_state", "profile_namespace", true)).
		WithVariable(variable("generator", "Generator", "spate_port_link_up", "generator", true))

	d.WithRow(row("Now")).
		WithPanel(number("Active runs",
			"Runs that generators execute now, of all namespaces.",
			"short", 4, neutral(), query{"sum(spate_operator_runs_active)", ""})).
		WithPanel(number("Waiting runs",
			"Runs that have not been admitted to a generator, of all namespaces.",
			"short", 4, steps("green", from(1, "yellow")),
			query{"sum(spate_operator_runs_waiting) or vector(0)", ""})).
		WithPanel(number("Engines", "Engines that are scraped.", "short", 4, neutral(), query{"count(spate_engine_info{" + ofGenerators + "})", ""})).
		WithPanel(number("Engines away", "Engines whose metrics could not be read at the last scrape.", "short", 4, bad(),
			query{`count(up{` + ofGenerators + `,container="engine"} == 0) or vector(0)`, ""})).
		WithPanel(number("Ports without link",
			"Ports whose link is down.",
			"short", 4, bad(), query{"count(spate_port_link_up{" + ofGenerators + "} == 0) or vector(0)", ""})).
		WithPanel(number("Busiest worker",
			"Share of its time that the busiest worker spends with packets.",
			"percentunit", 4, steps("green", from(0.8, "yellow"), from(0.95, "red")),
			query{"max(spate:worker_busy:ratio_rate1m{" + ofGenerators + "})", ""}))

	d.WithRow(row("Runs")).
		WithPanel(rows("Verdicts",
			"Runs that have ended and still exist, with their verdict and its first reason. A run's name leads to its dashboard.",
			14,
			[]column{{"Value", "ended", "dateTimeFromNow"}, {"profile_namespace", "namespace", ""}, {"profile", "profile", ""}, {"run", "run", ""}, {"outcome", "verdict", ""}, {"reason", "reason", ""}},
			query{"sort_desc(max by (profile_namespace, profile, run, outcome, reason) (spate_run_completion_timestamp_seconds{" + ofNamespaces + "}) * 1000)", ""}).
			OverrideByName("run", openRun()).
			OverrideByName("outcome", []dashboard.DynamicConfigValue{
				{Id: "displayName", Value: "verdict"},
				{Id: "mappings", Value: []map[string]any{{"type": "value", "options": map[string]any{
					"Passed": map[string]any{"color": "green", "index": 0}, "Failed": map[string]any{"color": "red", "index": 1}, "Invalid": map[string]any{"color": "orange", "index": 2},
				}}}},
				{Id: "custom.cellOptions", Value: map[string]any{"type": "color-text"}},
			})).
		WithPanel(graph("Runs by state", "Runs that engines have, by state. Complete and stopped ones are those that still exist.", "short", 10,
			query{"count by (state) (max by (" + byRun + ", state) (spate_run_state{" + ofNamespaces + "}) == 1)", "{{state}}"})).
		WithPanel(graph("Ended runs", "Runs that ended within the last 15 minutes, by outcome, of all namespaces.", "short", 12,
			query{"sum by (outcome) (increase(spate_operator_runs_completed_total[15m]))", "{{outcome}}"})).
		WithPanel(graph("Loss",
			"Packets of a million sent that were not received so far, by run: of streams that are counted on arrival. Packets in flight are among them while the run sends.",
			"short", 12,
			query{"1e6 * spate:run_loss:ratio{" + ofNamespaces + "}", runLegend + " ppm"}))

	d.WithRow(row("Traffic")).
		WithPanel(graph("Sent packets", "By run, over one minute.", "pps", 8, query{"spate:run_tx_packets:rate1m{" + ofNamespaces + "}", runLegend})).
		WithPanel(graph("Received packets",
			"By run, over one minute.",
			"pps", 8, query{"spate:run_rx_packets:rate1m{" + ofNamespaces + "}", runLegend})).
		WithPanel(graph("Established flows", "TCP connections and UDP flows of applications' clients, by run, over one minute.", "cps", 8,
			query{"spate:run_flows_established:rate1m{" + ofNamespaces + "}", runLegend}))

	d.WithRow(row("Limits of generators")).
		WithPanel(graph("Line rate used to send", "Share of the line rate at layer 1, of each generator's busiest port.", "percentunit", 8,
			query{"max by (namespace, generator) (spate:port_tx_l1_utilization:ratio_rate1m{" + ofGenerators + "})", "{{namespace}}/{{generator}}"})).
		WithPanel(graph("Workers' load", "Share of its time that each generator's busiest worker spends with packets.", "percentunit", 8,
			query{"max by (namespace, generator) (spate:worker_busy:ratio_rate1m{" + ofGenerators + "})", "{{namespace}}/{{generator}}"})).
		WithPanel(graph("Late packets", "Share of packets that left later than they should have, by run.", "percentunit", 8,
			query{"spate:run_late:ratio_rate1m{" + ofNamespaces + "}", runLegend})).
		WithPanel(graph("Missed packets", "Packets lost before an engine could read them, by generator.", "pps", 12,
			query{rate("namespace, generator", "spate_port_rx_missed_packets_total", ofGenerators), "{{namespace}}/{{generator}}"})).
		WithPanel(graph("Packets that could not be sent", "Packets refused by the device, or the kernel behind it, by generator.", "pps", 12,
			query{rate("namespace, generator", "spate_port_tx_dropped_packets_total", ofGenerators), "{{namespace}}/{{generator}}"}))
	return d
}
