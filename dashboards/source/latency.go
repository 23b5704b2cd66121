// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// latency answers: what became of the packets of each stream, and how long were they under way?
func latency() *dashboard.DashboardBuilder {
	const of = ofRun + `,stream=~"$stream"`
	d := annotated(oneProfile(page("spate-latency", "Streams of a profile's runs: rates, loss, order, latency, jitter and outages.")), ofRun).
		WithVariable(variable("stream", "Stream", "spate_stream_tx_packets_total{"+ofRun+"}", "stream", true))

	sum := func(counter string) string {
		return fmt.Sprintf(`sum by (run, stream) (spate_stream_%s_packets_total{%s,phase="measured"})`, counter, of)
	}
	d.WithRow(row("Streams")).
		WithPanel(rows("Streams", "Counters of the measured phase. Loss is of streams that are counted on arrival, in packets of a million sent.", 24,
			[]column{
				{"run", "run", ""}, {"stream", "stream", ""}, {"Value #A", "sent", "short"}, {"Value #B", "received", "short"}, {"Value #C", "loss (ppm)", "short"}, {"Value #D", "duplicates", "short"},
				{"Value #E", "out of order", "short"}, {"Value #F", "misdirected", "short"}, {"Value #G", "late", "short"}, {"Value #H", "not sent", "short"},
			},
			query{sum("tx"), ""}, query{sum("rx"), ""}, query{lossPPM("run, stream", of), ""}, query{sum("duplicate"), ""}, query{sum("out_of_order"), ""}, query{sum("misdirected"), ""}, query{sum("late"), ""},
			query{sum("tx_dropped"), ""})).
		WithPanel(graph("Sent packets",
			"By stream, in all phases.",
			"pps", 12, query{rate("stream", "spate_stream_tx_packets_total", of), "{{stream}}"})).
		WithPanel(graph("Received packets",
			"By stream, duplicates included, in all phases.",
			"pps", 12, query{rate("stream", "spate_stream_rx_packets_total", of), "{{stream}}"})).
		WithPanel(graph("Order",
			"Packets out of order and received before, and packets whose sequence number is more than a window ahead, or behind all that is remembered.",
			"pps", 12,
			query{rate("stream", "spate_stream_out_of_order_packets_total", of), "{{stream}} out of order"},
			query{rate("stream", "spate_stream_duplicate_packets_total", of), "{{stream}} duplicates"},
			query{rate("stream", "spate_stream_sequence_too_high_packets_total", of), "{{stream}} sequence too high"},
			query{rate("stream", "spate_stream_sequence_too_low_packets_total", of), "{{stream}} sequence too low"})).
		WithPanel(graph("Longest outage", "Longest time without an arrival in the measured phase so far, at one engine.", "s", 12,
			query{"max by (run, stream) (spate_stream_outage_longest_seconds{" + of + "})", "{{run}} {{stream}}"}))

	const bucket = "spate_stream_latency_seconds_bucket"
	var percentiles []query
	for _, p := range []struct {
		of   float64
		name string
	}{{0.5, "p50"}, {0.9, "p90"}, {0.99, "p99"}, {0.999, "p99.9"}} {
		percentiles = append(percentiles, query{quantile(p.of, "stream", bucket, of), "{{stream}} " + p.name})
	}
	d.WithRow(row("Latency (streams with measure.latency, in the measured phase)")).
		WithPanel(heat("Distribution of latency", "Packets by how long they were under way, of the streams shown.", 24, bucket+"{"+of+"}")).
		WithPanel(graph("Percentiles of latency",
			"Between the bounds of buckets; the table below and the result of a run have them to three digits.",
			"s", 12, percentiles...)).
		WithPanel(graph("Mean latency and jitter",
			"The mean of packets, interarrival jitter (RFC 3550), and the greatest difference between the delays of a packet and the next.",
			"s", 12,
			query{share(rate("stream", "spate_stream_latency_seconds_sum", of), rate("stream", "spate_stream_latency_seconds_count", of)), "{{stream}} mean"},
			query{"max by (stream) (spate_stream_jitter_seconds{" + of + "})", "{{stream}} jitter"},
			query{"max by (stream) (spate_stream_jitter_max_seconds{" + of + "})", "{{stream}} greatest difference"})).
		WithPanel(rows("Latency of runs",
			"Over the measured phase so far: minimum, quantiles to three significant digits, maximum. Of several engines the greatest is shown.",
			24,
			[]column{
				{"run", "run", ""}, {"stream", "stream", ""}, {"Value #A", "min", "s"}, {"Value #B", "p50", "s"}, {"Value #C", "p90", "s"}, {"Value #D", "p99", "s"}, {"Value #E", "p99.9", "s"},
				{"Value #F", "p99.99", "s"}, {"Value #G", "max", "s"}, {"Value #H", "clock bound", "s"},
			},
			query{"min by (run, stream) (spate_stream_latency_min_seconds{" + of + "})", ""},
			query{"max by (run, stream) (spate_stream_latency_quantile_seconds{" + of + `,quantile="0.5"})`, ""},
			query{"max by (run, stream) (spate_stream_latency_quantile_seconds{" + of + `,quantile="0.9"})`, ""},
			query{"max by (run, stream) (spate_stream_latency_quantile_seconds{" + of + `,quantile="0.99"})`, ""},
			query{"max by (run, stream) (spate_stream_latency_quantile_seconds{" + of + `,quantile="0.999"})`, ""},
			query{"max by (run, stream) (spate_stream_latency_quantile_seconds{" + of + `,quantile="0.9999"})`, ""},
			query{"max by (run, stream) (spate_stream_latency_max_seconds{" + of + "})", ""},
			query{"max by (run, stream) (spate_stream_clock_bound_seconds{" + of + "})", ""})).
		WithPanel(graph("Clocks of engines",
			"What the clocks of engines agree to, 0 where only one takes part. Streams without it have no latency, because their clocks disagree by more than the generator allows.",
			"s", 12,
			query{"max by (run, stream) (spate_stream_clock_bound_seconds{" + of + "})", "{{run}} {{stream}}"})).
		WithPanel(graph("Packets that came before they left", "By clocks that disagree: they are not in the latency, or count as 0.", "pps", 12,
			query{rate("stream", "spate_stream_negative_latency_packets_total", of), "{{stream}}"}))

	const byTag, tag = "run, stream, outer_vlan, vlan", "{{stream}} {{outer_vlan}}/{{vlan}}"
	tagged := func(counter string) query { return query{total(byTag, "spate_stream_tag_"+counter+"_total", of), ""} }
	d.WithRow(row("VLAN tags (streams with measure.byTag, in the measured phase)")).
		WithPanel(rows("Packets by VLAN tag",
			"Of tags that arrived: packets and bytes received, packets before which others with the tag were missing, duplicates, and packets out of order. Successive tags that are counted together have equal counters.",
			24,
			[]column{
				{"run", "run", ""}, {"stream", "stream", ""}, {"outer_vlan", "outer VLAN", ""}, {"vlan", "VLAN", ""}, {"Value #A", "received", "short"}, {"Value #B", "bytes", "bytes"},
				{"Value #C", "gaps", "short"}, {"Value #D", "duplicates", "short"}, {"Value #E", "out of order", "short"},
			},
			tagged("rx_packets"), tagged("rx_bytes"), tagged("sequence_gaps"), tagged("duplicate_packets"), tagged("out_of_order_packets"))).
		WithPanel(graph("Received packets by VLAN tag", "The 20 tags of which most packets arrive; the outer VLAN is before the slash.", "pps", 12,
			query{"topk(20, " + rate("stream, outer_vlan, vlan", "spate_stream_tag_rx_packets_total", of) + ")", tag})).
		WithPanel(graph("Gaps in sequences by VLAN tag", "Packets before which others with the tag were missing: the 20 tags with most of them.", "pps", 12,
			query{"topk(20, " + rate("stream, outer_vlan, vlan", "spate_stream_tag_sequence_gaps_total", of) + ")", tag}))

	const byReceiver, receiver = "receiver, port", "{{receiver}} {{port}}"
	moment := func(of, which string) query {
		by := "max"
		if which == "min" {
			by = "min"
		}
		return query{fmt.Sprintf("%s by (%s) (spate_receiver_%s_%s_seconds{%s})", by, byReceiver, of, which, ofRun), receiver + " " + which}
	}
	d.WithRow(row("Receivers of foreign packets")).
		WithPanel(graph("Foreign packets by worker", "Packets without a trailer of any run that a receiver of the profile counts, by the worker that receives them.", "pps", 12,
			query{rate(byReceiver+", worker", "spate_receiver_packets_total", ofRun), receiver + " worker {{worker}}"})).
		WithPanel(graph("Foreign data", "Their bytes, FCS included.", "bps", 12,
			query{"8 * " + rate(byReceiver, "spate_receiver_bytes_total", ofRun), receiver})).
		WithPanel(graph("Inter-arrival times of foreign packets", "From a packet to the next of the same worker, since the receiver was reset: of several workers the greatest mean and maximum, and the least minimum.", "s", 12,
			moment("inter_arrival", "mean"), moment("inter_arrival", "min"), moment("inter_arrival", "max"))).
		WithPanel(graph("Jitter of foreign packets", "Difference between an inter-arrival time and the next, since the receiver was reset.", "s", 12,
			moment("jitter", "mean"), moment("jitter", "max")))
	return d
}
