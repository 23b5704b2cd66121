// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// measured is a counter of streams in the measured phase.
func measured(counter string) string {
	return fmt.Sprintf(`sum(spate_stream_%s_packets_total{%s,phase="measured"})`, counter, ofRun)
}

// run answers: does a profile's run do what it should, and what comes back?
func run() *dashboard.DashboardBuilder {
	d := annotated(oneProfile(page("spate-run", "The runs of a profile: verdict, requested and achieved rates, loss, and what the generator itself added.")), ofRun)

	d.WithRow(row("Verdict")).
		WithPanel(names("State",
			"The state in force of each run shown.",
			4, query{"max by (run, state) (spate_run_state{" + ofRun + "}) == 1", "{{state}}"})).
		WithPanel(names("Verdict",
			"Outcome and first reason of runs that have ended.",
			4, query{"max by (run, outcome, reason) (spate_run_completion_timestamp_seconds{" + ofRun + "})", "{{outcome}}: {{reason}}"})).
		WithPanel(number("Sent", "Packets sent in the measured phase.", "short", 4, neutral(), query{measured("tx"), ""})).
		WithPanel(number("Received",
			"Packets received in the measured phase, duplicates included.",
			"short", 4, neutral(), query{measured("rx"), ""})).
		WithPanel(number("Loss",
			"Packets of a million sent that were not received: of streams that are counted on arrival, in the measured phase. Packets in flight are among them until the run has drained.",
			"short", 4, bad(),
			query{lossPPM(byRun, ofRun), "{{run}} ppm"})).
		WithPanel(number("Duplicates, out of order",
			"Packets received before, and packets received after one sent later, in the measured phase.",
			"short", 4, bad(),
			query{measured("duplicate"), "duplicates"}, query{measured("out_of_order"), "out of order"})).
		WithPanel(rows("Thresholds", "Thresholds of runs that have ended: 1 where the expression holds.", 24,
			[]column{{"run", "run", ""}, {"threshold", "threshold", ""}, {"Value", "met", "bool_yes_no"}},
			query{"min by (run, threshold) (spate_run_threshold_met{" + ofRun + "})", ""}))

	d.WithRow(row("Requested and achieved")).
		WithPanel(graph("Packet rate",
			"What an active run requests at the rate factor in force, packets of applications included, and what its streams send and receive. Factors of stages are not in the request.",
			"pps", 12,
			query{"sum(spate_run_target_packets_per_second{" + ofRun + "})", "requested"},
			query{fmt.Sprintf("sum(rate(spate_stream_tx_packets_total{%s}[$__rate_interval]))", ofRun), "sent"},
			query{fmt.Sprintf("sum(rate(spate_stream_rx_packets_total{%s}[$__rate_interval]))", ofRun), "received"}).
			OverrideByName("requested", []dashboard.DynamicConfigValue{{Id: "custom.lineStyle", Value: common.LineStyle{Fill: ptr(common.LineStyleFillDash), Dash: []float64{8, 6}}}})).
		WithPanel(graph("Bit rate", "At layer 2 (frames with FCS), and what is sent at layer 1, with preamble and gap.", "bps", 12,
			query{fmt.Sprintf("8 * sum(rate(spate_stream_tx_bytes_total{%s}[$__rate_interval]))", ofRun), "sent, layer 2"},
			query{fmt.Sprintf("8 * sum(rate(spate_stream_rx_bytes_total{%s}[$__rate_interval]))", ofRun), "received, layer 2"},
			query{l1("run", "tx", "spate_stream", ofRun), "{{run}} sent, layer 1"})).
		WithPanel(graph("Sent packets by stream",
			"Packets sent, in all phases.",
			"pps", 12, query{rate("stream", "spate_stream_tx_packets_total", ofRun), "{{stream}}"})).
		WithPanel(graph("Received packets by stream",
			"Packets received, duplicates included, in all phases.",
			"pps", 12, query{rate("stream", "spate_stream_rx_packets_total", ofRun), "{{stream}}"})).
		WithPanel(graph("Line rate used to send",
			"Share of the line rate at layer 1, of the ports of engines that have the run. Other runs of these ports are in it.",
			"percentunit", 12,
			query{"max by (generator, port) (spate:port_tx_l1_utilization:ratio_rate1m and on (namespace, generator, pod) spate_run_state{" + ofRun + "})", "{{generator}} {{port}}"})).
		WithPanel(graph("Loss by stream",
			"Packets of a million sent that were not received so far.",
			"short", 12, query{lossPPM(byRun+", stream", ofRun), "{{stream}} ppm"}))

	d.WithRow(row("What the generator added")).
		WithPanel(graph("Generator's own limits",
			"Anything here is the generator's or the wiring's doing, not a loss of the device under test.",
			"pps", 12,
			query{fmt.Sprintf("sum(rate(spate_stream_late_packets_total{%s}[$__rate_interval]))", ofRun), "late"},
			query{fmt.Sprintf("sum(rate(spate_stream_tx_dropped_packets_total{%s}[$__rate_interval]))", ofRun), "not sent"},
			query{fmt.Sprintf("sum(rate(spate_stream_misdirected_packets_total{%s}[$__rate_interval]))", ofRun), "misdirected"})).
		WithPanel(graph("Workers' load", "Share of its time that each worker of engines that have the run spends with packets.", "percentunit", 12,
			query{"max by (generator, pod, worker) (spate:worker_busy:ratio_rate1m and on (namespace, generator, pod) spate_run_state{" + ofRun + "})", "{{pod}} worker {{worker}}"}))

	d.WithRow(row("Foreign traffic")).
		WithPanel(graph("Foreign packets by receiver", "Ports in spec.receive: packets of no run.", "pps", 12,
			query{rate("receiver, port", "spate_receiver_packets_total", ofRun), "{{receiver}} ({{port}})"})).
		WithPanel(graph("Foreign bits by receiver", "At layer 2, FCS included.", "bps", 12,
			query{"8 * " + rate("receiver, port", "spate_receiver_bytes_total", ofRun), "{{receiver}} ({{port}})"}))
	return d
}
