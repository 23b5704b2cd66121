// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: which labels have the metrics of engines, and what do labels mean? The test that reads metrics of real engines compares them.

import "strings"

var (
	ofRun      = []string{"profile_namespace", "profile", "run"}
	ofStream   = with(ofRun, "stream", "tx_port", "rx_port")
	ofTemplate = with(ofRun, "template", "group", "role")
	ofSession  = []string{"port", "protocol", "session"}
)

func with(labels []string, more ...string) []string {
	return append(append([]string{}, labels...), more...)
}

// byName has labels by the start of metrics' names; the first that fits holds.
var byName = []struct {
	start  string
	labels []string
}{
	{"spate_engine_info", []string{"version", "dpdk_version", "time_source"}},
	{"spate_engine_left_out", []string{"what"}},
	{"spate_run_state", with(ofRun, "state")},
	{"spate_stream_tag_", with(ofStream, "outer_vlan", "vlan")},
	{"spate_stream_latency_quantile_", with(ofStream, "quantile")},
	{"spate_stream_latency_", ofStream},
	{"spate_stream_clock_bound_", ofStream},
	{"spate_stream_jitter_", ofStream},
	{"spate_stream_negative_latency_", ofStream},
	{"spate_stream_outage_", ofStream},
	{"spate_stream_", with(ofStream, "phase")},
	{"spate_receiver_packets", with(ofRun, "receiver", "port", "worker")},
	{"spate_receiver_bytes", with(ofRun, "receiver", "port", "worker")},
	{"spate_receiver_", with(ofRun, "receiver", "port")},
	{"spate_clients_failed", with(ofRun, "clients", "port", "cause")},
	{"spate_clients", with(ofRun, "clients", "port", "state")},
	{"spate_client_events", with(ofRun, "clients", "port", "event")},
	{"spate_client_", with(ofRun, "clients", "port")},
	{"spate_template_program_counter", with(ofTemplate, "counter")},
	{"spate_template_", ofTemplate},
	{"spate_worker_flow_packets", with(ofRun, "worker", "steering")},
	{"spate_worker_", []string{"worker", "cpu"}},
	{"spate_port_device_counter", []string{"port", "counter"}},
	{"spate_port_", []string{"port"}},
	{"spate_queue_", []string{"port", "queue"}},
	{"spate_routing_session_", ofSession},
	{"spate_routing_routes", with(ofSession, "kind")},
	{"spate_routing_updates", with(ofSession, "direction")},
}

// labelsOf returns the labels of a metric of engines; nil if they are not known.
func labelsOf(name string) []string {
	for _, of := range byName {
		if strings.HasPrefix(name, of.start) {
			return of.labels
		}
	}
	return nil
}

// labels are all labels with their meaning.
var labels = []struct{ name, meaning string }{
	{"cause", "why emulated clients have failed, such as `NoOffer`"},
	{"certificate", "`spate-ca`, the certificate of the authority, or the name of a generator's engines in theirs: `GENERATOR.NAMESPACE.engine.spate.dev`"},
	{"clients", "group of emulated clients"},
	{"code", "of a call to an engine: the gRPC code, such as `OK`; of a request to the API server: the HTTP status"},
	{"container", "container of the target; `engine` for engines"},
	{"controller", "controller of the operator"},
	{"counter", "of a device: the name that its driver gives the counter; of a template: the name in its program"},
	{"cpu", "CPU that the worker runs on"},
	{"direction", "`sent` or `received`"},
	{"dpdk_version", "version of DPDK"},
	{"endpoint", "name of the port that is scraped"},
	{"event", "of emulated clients: a message such as `dhcp4_discover`, or an event such as `leases_lost`"},
	{"generator", "TrafficGenerator of the engine or the run"},
	{"generator_namespace", "its namespace, of the operator's metrics of runs"},
	{"goal", "goal of a search"},
	{"group", "`statisticsGroup` of the template; empty without one"},
	{"host", "address of the API server"},
	{"instance", "address of the target"},
	{"job", "the PodMonitor, `NAMESPACE/NAME`"},
	{"kind", "`configured`, `sent` or `received`: routes that runs have the port advertise, that neighbors have of it, or that it has of neighbors"},
	{"le", "upper bound of a histogram's bucket"},
	{"method", "of a call to an engine: the method of the contract; of a request to the API server: that of HTTP"},
	{"name", "queue of a controller; lease of the leader"},
	{"namespace", "namespace of the pod that is scraped: of the generator for engines"},
	{"outcome", "outcome of a verdict: `Passed`, `Failed`, `Invalid`; of an attempt: `succeeded` or `failed`"},
	{"outer_vlan", "outer VLAN of packets with two tags; empty otherwise"},
	{"phase", "`warmup` or `measured`"},
	{"pod", "pod that is scraped"},
	{"port", "port of the generator"},
	{"priority", "priority in a controller's queue"},
	{"profile", "TrafficProfile of the run; the run's own name where its spec describes its traffic"},
	{"profile_namespace", "namespace of the run and its profile"},
	{"protocol", "of a session: `bgp`, `ospf`, `rip` or `bfd`; of samples: by which they are sent, `remote-write` or `otlp`"},
	{"quantile", "`0.5`, `0.9`, `0.95`, `0.99`, `0.999` or `0.9999`"},
	{"queue", "queue of the port"},
	{"reason", "a [reason](conditions.md): the first of a verdict, or what a run waits for"},
	{"receiver", "receiver of the profile"},
	{"resource", "resource of the API server, with its subresource: `trafficruns/status`"},
	{"result", "result of a reconciliation"},
	{"role", "side of the template: `client` or `server`"},
	{"run", "TrafficRun"},
	{"rx_port", "port at which the stream is received; empty for none"},
	{"search", "TrafficSearch"},
	{"search_namespace", "its namespace"},
	{"session", "session of a routing protocol"},
	{"side", "`lower` or `upper`"},
	{"state", "of a run: `prepared`, `armed`, `warming_up`, `running`, `paused`, `draining`, `complete` or `stopped`; of emulated clients: `Idle`, `Discovering`, `Requesting`, `Rebinding`, `Renewing`, `Bound`, `Released` or `Failed`"},
	{"steering", "how packets of flows came to their worker: `rss`, `placed`, `handed_off` or `handoff_lost`"},
	{"stream", "stream, or group of streams that are counted as one"},
	{"template", "entry of the profile with an application"},
	{"threshold", "name of the threshold"},
	{"time_source", "what packets are time-stamped by"},
	{"tx_port", "port that the stream is sent from"},
	{"variant", "variant of a search"},
	{"verb", "method of HTTP, such as `PATCH`"},
	{"version", "version of the release that the engine or the operator is of, with `-dev` or `dev` outside of one"},
	{"vlan", "VLAN of the packet; `untagged`, or `other` for tags that are not named"},
	{"what", "`streams`, `tags` or `template_sides`: what a full page has no room for"},
	{"worker", "worker of the engine, from 0 on"},
}
