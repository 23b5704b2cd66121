// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// applications answers: what became of the flows of emulated applications, and how does TCP fare?
func applications() *dashboard.DashboardBuilder {
	const of = ofRun + `,template=~"$template"`
	d := annotated(oneProfile(page("spate-applications", "Emulated applications of a profile's runs: flows, goodput, times, what TCP did, and emulated clients.")), ofRun).
		WithVariable(variable("template", "Template", "spate_template_open_flows{"+ofRun+"}", "template", true))

	// counted is a counter's rate by template and side. Engines leave out counters that are 0 everywhere: they are 0 here.
	counted := func(counter, more string) string {
		return fmt.Sprintf("%s or 0 * %s", rate("template, role", "spate_template_"+counter+"_total", of+more), total("template, role", "spate_template_open_flows", of+more))
	}
	side := func(counter, legend string) query {
		return query{counted(counter, ""), "{{template}} {{role}} " + legend}
	}
	plain := func(counter string) query { return query{counted(counter, ""), "{{template}} {{role}}"} }

	d.WithRow(row("Flows")).
		WithPanel(graph("Connection rate",
			"Connections that the clients of an active run request at the rate factor in force, and those that they attempt and establish; UDP flows are among them. Factors of stages are not in the request.",
			"cps", 12,
			query{"sum(spate_run_target_connections_per_second{" + ofRun + "})", "requested"},
			query{fmt.Sprintf(`sum(rate(spate_template_flows_attempted_total{%s,role="client"}[$__rate_interval]))`, of), "attempted"},
			query{fmt.Sprintf(`sum(rate(spate_template_flows_established_total{%s,role="client"}[$__rate_interval]))`, of), "established"})).
		WithPanel(graph("Flows established", "TCP connections and UDP flows, by template and side.", "cps", 12, plain("flows_established"))).
		WithPanel(graph("Open flows",
			"Those in TIME-WAIT are not among them.",
			"short", 8, query{total("template, role", "spate_template_open_flows", of), "{{template}} {{role}}"})).
		WithPanel(graph("Flows closed", "Flows that ended, in whatever way.", "cps", 8, plain("flows_closed"))).
		WithPanel(graph("Flows that failed", "By reason; those of UDP clients that ended by an idle timeout among them.", "cps", 8,
			side("resets_received", "reset by the peer"),
			side("flows_refused", "reset by ICMP (UDP)"),
			side("connect_drops", "timed out (handshake)"),
			side("timeout_drops", "timed out"),
			side("keepalive_drops", "timed out (keepalive)"),
			side("flows_closed_early", "closed early"),
			query{counted("flows_idle_timeouts", `,role="client"`), "{{template}} {{role}} idle timeout (UDP)"},
			side("flows_aborted", "aborted"),
			side("http_errors", "HTTP error"))).
		WithPanel(graph("Generator's own limits on flows",
			"Anything here is the generator's doing, not a fault of the device under test. Throttled: due, and not started because maxConcurrentFlows were open.",
			"cps", 12,
			side("flows_late", "late"),
			side("flows_not_started", "not started"),
			side("flows_throttled", "throttled"),
			side("flows_exhausted", "exhausted (flow table)"),
			side("ports_exhausted", "exhausted (ports)"))).
		WithPanel(graph("Longest outage",
			"Longest time without an arrival of a packet of a side's flows in the measured phase so far, at one engine.",
			"s", 12,
			query{"max by (template, role) (spate_template_outage_longest_seconds{" + of + "})", "{{template}} {{role}}"}))

	d.WithRow(row("Data")).
		WithPanel(graph("Goodput sent",
			"Data of applications, each byte once, headers not counted.",
			"bps", 8, query{"8 * (" + counted("sent_data_bytes", "") + ")", "{{template}} {{role}}"})).
		WithPanel(graph("Goodput received",
			"Bytes received in sequence, each once.",
			"bps", 8, query{"8 * (" + counted("received_data_bytes", "") + ")", "{{template}} {{role}}"})).
		WithPanel(graph("Packets",
			"Segments and datagrams sent and received.",
			"pps", 8, side("sent_packets", "sent"), side("received_packets", "received")))

	const connect, roundTrip = "spate_template_connect_seconds_bucket", "spate_template_round_trip_seconds_bucket"
	times := func(bucket string) []query {
		return []query{
			{quantile(0.5, "template, role", bucket, of), "{{template}} {{role}} p50"},
			{quantile(0.9, "template, role", bucket, of), "{{template}} {{role}} p90"},
			{quantile(0.99, "template, role", bucket, of), "{{template}} {{role}} p99"},
		}
	}
	d.WithRow(row("Times")).
		WithPanel(graph("Connect time", "From the first SYN to the connection being established.", "s", 12, times(connect)...)).
		WithPanel(graph("Round trip",
			"From what is sent to its answer: the acknowledgement of data over TCP, the answer to a message over UDP.",
			"s", 12, times(roundTrip)...)).
		WithPanel(heat("Distribution of connect times", "Connections by the time until they were established.", 12, connect+"{"+of+"}")).
		WithPanel(heat("Distribution of round trips", "Answers by the time until they came.", 12, roundTrip+"{"+of+"}"))

	d.WithRow(row("TCP")).
		WithPanel(graph("Retransmitted segments", "Share of data segments that were sent again, by template and side.", "percentunit", 8,
			query{share(counted("retransmitted_packets", ""), rate("template, role", "spate_template_sent_data_packets_total", of)), "{{template}} {{role}}"})).
		WithPanel(graph("Loss recovery", "Fast recoveries, and time-outs: of all segments, of SYN, and those that were undone.", "short", 8,
			side("fast_retransmits", "fast recoveries"), side("retransmit_timeouts", "time-outs"), side("syn_timeouts", "time-outs of SYN"), side("spurious_timeouts", "undone"))).
		WithPanel(graph("What arrived wrongly", "Segments out of order, with nothing new, beyond the window, and with wrong checksums.", "pps", 8,
			side("out_of_order_packets", "out of order"), side("duplicate_packets", "duplicate"), side("beyond_window_packets", "beyond the window"), side("bad_checksums", "wrong checksum"))).
		WithPanel(graph("Windows",
			"Times that a peer's window was closed for so long that it was probed, and duplicate acknowledgements.",
			"short", 8,
			side("window_probes_sent", "window probes"), side("duplicate_acks", "duplicate acknowledgements"))).
		WithPanel(graph("Congestion", "Packets marked congested, and reductions because the peer reported marks (RFC 3168).", "short", 8,
			side("congestion_marks", "marks received"), side("congestion_echoes", "reductions"))).
		WithPanel(graph("Resets",
			"Resets sent, those among them that answered no open flow, and connections to servers that no template is for.",
			"cps", 8,
			side("resets_sent", "sent"), side("strays_refused", "to no open flow"), side("unmatched", "unmatched")))

	d.WithRow(row("Programs")).
		WithPanel(graph("Counters of programs",
			"What programs count by names of their own (count), a second: numbers, or nanoseconds where they measure a time.",
			"short", 24, query{rate("template, role, counter", "spate_template_program_counter_total", of), "{{template}} {{role}} {{counter}}"}))

	clients(d)

	d.WithRow(row("Workers")).
		WithPanel(graph("How packets come to their worker",
			"By the hash that the device computes (rss), because the flow is where its client's packets arrive (placed), by another worker (handed_off), or lost on that way (handoff_lost).",
			"pps", 12,
			query{rate("steering", "spate_worker_flow_packets_total", ofRun), "{{steering}}"})).
		WithPanel(graph("Flow packets by worker", "Packets of flows, by the worker that has the flow.", "pps", 12,
			query{rate("generator, pod, worker", "spate_worker_flow_packets_total", ofRun), "{{pod}} worker {{worker}}"}))
	return d
}
