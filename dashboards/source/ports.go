// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// ports answers: what do ports and workers of generators do, and is one of them at its limit?
func ports() *dashboard.DashboardBuilder {
	const (
		inPods = `namespace=~"$generator_namespace",` + ofGenerators
		ofPods = inPods + `,pod=~"$pod"`
		of     = ofPods + `,port=~"$port"`
		byPort = "namespace, generator, pod, port"
		legend = "{{pod}} {{port}}"
		worker = "{{pod}} worker {{worker}}"

		bySession = byPort + ", session, protocol"
		session   = legend + " {{session}} ({{protocol}})"

		byWorker = "namespace, generator, pod, worker, cpu"
	)
	busy := rate(byWorker, "spate_worker_busy_seconds_total", ofPods)
	d := annotated(page("spate-ports", "Ports and workers of engines: rates, line rate, losses, sessions of routing protocols, queues, load."), `generator_namespace=~"$generator_namespace",`+ofGenerators).
		WithVariable(variable("generator_namespace", "Namespace of generators", "spate_port_link_up", "namespace", true)).
		WithVariable(variable("generator", "Generator", `spate_port_link_up{namespace=~"$generator_namespace"}`, "generator", true)).
		WithVariable(variable("pod", "Pod", "spate_port_link_up{"+inPods+"}", "pod", true)).
		WithVariable(variable("port", "Port", "spate_port_link_up{"+ofPods+"}", "port", true))

	utilization := func(direction string) query {
		return query{l1(byPort, direction, "spate_port", of) + " / on (" + byPort + ") max by (" + byPort + ") (spate_port_line_rate_bits_per_second{" + of + "})", legend}
	}
	d.WithRow(row("Ports")).
		WithPanel(rows("Ports", "Link, line rate, and what was counted since the engine started.", 24,
			[]column{
				{"namespace", "namespace", ""}, {"generator", "generator", ""}, {"pod", "pod", ""}, {"port", "port", ""}, {"Value #A", "link", "bool_on_off"}, {"Value #B", "line rate", "bps"},
				{"Value #C", "sent", "short"}, {"Value #D", "received", "short"}, {"Value #E", "not sent", "short"}, {"Value #F", "missed", "short"}, {"Value #G", "broken", "short"},
			},
			query{"min by (" + byPort + ") (spate_port_link_up{" + of + "})", ""},
			query{"max by (" + byPort + ") (spate_port_line_rate_bits_per_second{" + of + "})", ""},
			query{total(byPort, "spate_port_tx_packets_total", of), ""},
			query{total(byPort, "spate_port_rx_packets_total", of), ""},
			query{total(byPort, "spate_port_tx_dropped_packets_total", of), ""},
			query{total(byPort, "spate_port_rx_missed_packets_total", of), ""},
			query{total(byPort, "spate_port_rx_errors_total", of), ""})).
		WithPanel(graph("Line rate used to send",
			"Share of the line rate at layer 1, with preamble and gap; of ports whose line rate is known.",
			"percentunit", 12, utilization("tx")).Max(1)).
		WithPanel(graph("Line rate used to receive",
			"Share of the line rate at layer 1, with preamble and gap; of ports whose line rate is known.",
			"percentunit", 12, utilization("rx")).Max(1)).
		WithPanel(graph("Packets", "Packets that devices took, and packets received.", "pps", 12,
			query{rate(byPort, "spate_port_tx_packets_total", of), legend + " sent"}, query{rate(byPort, "spate_port_rx_packets_total", of), legend + " received"})).
		WithPanel(graph("Bits", "At layer 2, FCS included.", "bps", 12,
			query{"8 * " + rate(byPort, "spate_port_tx_bytes_total", of), legend + " sent"}, query{"8 * " + rate(byPort, "spate_port_rx_bytes_total", of), legend + " received"})).
		WithPanel(graph("Losses in the generator",
			"Packets refused by the device or the kernel behind it, lost before they could be read, and received broken.",
			"pps", 12,
			query{rate(byPort, "spate_port_tx_dropped_packets_total", of), legend + " not sent"},
			query{rate(byPort, "spate_port_rx_missed_packets_total", of), legend + " missed"},
			query{rate(byPort, "spate_port_rx_errors_total", of), legend + " broken"})).
		WithPanel(graph("Throttled packets",
			"Packets that the generator's maximum rate delayed, each once, and reflected ones that it dropped.",
			"pps", 12,
			query{rate(byPort, "spate_port_throttled_packets_total", of), legend})).
		WithPanel(graph("Foreign packets", "Received without a trailer of any run, and those of them that are for another station's MAC.", "pps", 12,
			query{rate(byPort, "spate_port_foreign_packets_total", of), legend + " foreign"}, query{rate(byPort, "spate_port_other_mac_packets_total", of), legend + " other MAC"})).
		WithPanel(graph("Reflected packets",
			"Packets received and sent back, and packets received on a port that sends back, and not sent back.",
			"pps", 12,
			query{rate(byPort, "spate_port_reflected_packets_total", of), legend + " reflected"}, query{rate(byPort, "spate_port_not_reflected_packets_total", of), legend + " not reflected"})).
		WithPanel(graph("Segmented frames",
			"Frames that the device segmented (TCP segmentation offload).",
			"pps", 8, query{rate(byPort, "spate_port_tx_segmented_frames_total", of), legend})).
		WithPanel(graph("Receiving waits",
			"Times that nothing was read because the worker that counts was behind.",
			"short", 8, query{rate(byPort, "spate_port_receive_waits_total", of), legend})).
		WithPanel(graph("Moves of neighbors",
			"Times that a neighbor of the port had another MAC address than before, since the engine started.",
			"short", 8,
			query{total(byPort, "spate_port_neighbor_moves_total", of), legend}))

	// Of ports with routing.
	d.WithRow(row("Sessions of routing protocols")).
		WithPanel(rows("Sessions", "BGP is established, OSPF has a full adjacency, RIP has heard a neighbor, BFD is up; and what was counted since the engine started.", 24,
			[]column{
				{"namespace", "namespace", ""}, {"generator", "generator", ""}, {"pod", "pod", ""}, {"port", "port", ""}, {"session", "session", ""}, {"protocol", "protocol", ""},
				{"Value #A", "up", "bool_yes_no"}, {"Value #B", "flaps", "short"}, {"Value #C", "routes received", "short"}, {"Value #D", "routes sent", "short"},
			},
			query{"min by (" + bySession + ") (spate_routing_session_up{" + of + "})", ""},
			query{total(bySession, "spate_routing_session_flaps_total", of), ""},
			query{total(bySession, "spate_routing_routes", of+`,kind="received"`), ""},
			query{total(bySession, "spate_routing_routes", of+`,kind="sent"`), ""})).
		WithPanel(graph("Sessions that are up", "1 while a session is up.", "short", 12,
			query{"min by (" + bySession + ") (spate_routing_session_up{" + of + "})", session}).Max(1)).
		WithPanel(graph("Flaps", "Times that a session was up and then down, since the engine started.", "short", 12,
			query{total(bySession, "spate_routing_session_flaps_total", of), session})).
		WithPanel(graph("Routes", "Of sessions, by now: those that neighbors have sent, and those that they were sent.", "short", 12,
			query{total(bySession+", kind", "spate_routing_routes", of), session + " {{kind}}"})).
		WithPanel(graph("Updates", "Announcements and withdrawals of routes.", "cps", 12,
			query{rate(bySession+", direction", "spate_routing_updates_total", of), session + " {{direction}}"}))

	d.WithRow(row("Queues and devices")).
		WithPanel(graph("Packets sent by queue",
			"By the queue of each port.",
			"pps", 12, query{rate(byPort+", queue", "spate_queue_tx_packets_total", of), legend + " queue {{queue}}"})).
		WithPanel(graph("Packets received by queue", "By the queue of each port: unequal queues make one worker the limit.", "pps", 12,
			query{rate(byPort+", queue", "spate_queue_rx_packets_total", of), legend + " queue {{queue}}"})).
		WithPanel(graph("Bound of time stamps",
			"Maximum error of the time stamps that devices give packets they receive; of ports with receiveTimestamps: Device.",
			"s", 12, query{"max by (" + byPort + ") (spate_port_timestamp_bound_seconds{" + of + "})", legend})).
		WithPanel(graph("Packets without a time stamp",
			"Measured packets that devices were to stamp and did not: the CPU stamped them.",
			"pps", 12, query{rate(byPort, "spate_port_unstamped_packets_total", of), legend})).
		WithPanel(graph("Counters of devices",
			"The 20 counters of devices (extended statistics of ethdev) that grow fastest, by the names that drivers give them.",
			"short", 24,
			query{"topk(20, " + rate(byPort+", counter", "spate_port_device_counter_total", of) + ")", legend + " {{counter}}"}))

	d.WithRow(row("Workers")).
		WithPanel(graph("Load", "Share of its time that a worker spends with packets.", "percentunit", 12,
			query{busy + " / (" + busy + " + " + rate(byWorker, "spate_worker_idle_seconds_total", ofPods) + ")", worker + " (CPU {{cpu}})"}).
			Max(1).Thresholds(steps("green", from(0.95, "red")))).
		WithPanel(graph("Sleeps",
			"Times that a worker slept since nothing was due.",
			"short", 12, query{rate("pod, worker", "spate_worker_sleeps_total", ofPods), worker})).
		WithPanel(graph("Packets sent by worker",
			"By worker, over all ports.",
			"pps", 12, query{rate("pod, worker", "spate_worker_tx_packets_total", ofPods), worker})).
		WithPanel(graph("Packets received by worker",
			"By worker, over all ports.",
			"pps", 12, query{rate("pod, worker", "spate_worker_rx_packets_total", ofPods), worker})).
		WithPanel(rows("Engines", "Versions of engines and of DPDK, and what packets are time-stamped by.", 24,
			[]column{{"namespace", "namespace", ""}, {"generator", "generator", ""}, {"pod", "pod", ""}, {"version", "version", ""}, {"dpdk_version", "DPDK", ""}, {"time_source", "time source", ""}},
			query{"spate_engine_info{" + ofPods + "}", ""}))
	return d
}
