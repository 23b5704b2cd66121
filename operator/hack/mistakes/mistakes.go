// SPDX-License-Identifier: Apache-2.0

// Which mistakes do users make? Each is one change of right.yaml, which is valid.

package main

// mistake is a change that makes the right file wrong.
type mistake struct {
	title string
	// at is the text of the right file that is wrong here; it is there once.
	at, wrong string
	// right is what is written instead; at where it is empty.
	right string
	// field that is reported; empty where the message names a line or a kind instead.
	field string
	// remedy is the part of the message that says what would be right.
	remedy string
}

// chapter of the page.
type chapter struct {
	title    string
	mistakes []mistake
}

var chapters = []chapter{
	{"YAML, kinds and fields", []mistake{
		{
			title: "A field is misspelled", at: "      transmitPort: east\n      receivePort: west\n      stream: {ref: {name: voice}}", wrong: "      transmitport: east\n      receivePort: west\n      stream: {ref: {name: voice}}",
			field: "spec.traffic[0].transmitport", remedy: "did you mean transmitPort?",
		},
		{
			title: "A field of another tool's language", at: "ipv4: {source: 198.18.0.2, destination: 198.19.0.2}", wrong: "ipv4: {src: 198.18.0.2, destination: 198.19.0.2}",
			field: "spec.packet.headers[1].ipv4.src", remedy: "the fields here are ",
		},
		{
			title: "A field stands at the wrong depth", at: "  transmit:\n    continuous: {rate: 1kpps}\n  measure: {flow: true, latency: true}",
			wrong: "  transmit:\n    continuous: {rate: 1kpps}\n  flow: true\n  measure: {latency: true}",
			field: "spec.flow", remedy: "there is spec.measure.flow",
		},
		{
			title: "A tab in the indentation", at: "  rate: 2x\n  duration: 10s", wrong: "  rate: 2x\n\tduration: 10s",
			remedy: "indent with spaces",
		},
		{
			title: "A key twice", at: "  rate: 2x\n  duration: 10s", wrong: "  rate: 2x\n  duration: 10s\n  rate: 3x", remedy: "leave one of them out",
		},
		{
			title: "A version that does not exist", at: "apiVersion: spate.dev/v1alpha1\nkind: StatelessStream", wrong: "apiVersion: spate.dev/v1\nkind: StatelessStream",
			remedy: "the kinds of spate.dev/v1alpha1 are ",
		},
		{
			title: "The plural of a kind", at: "kind: TrafficProfile\nmetadata: {name: calls}", wrong: "kind: TrafficProfiles\nmetadata: {name: calls}", remedy: "TrafficProfile, ",
		},
		{
			title: "A name with capitals", at: "metadata: {name: calls}", wrong: "metadata: {name: Calls}", field: "metadata.name", remedy: "must consist of lower case",
		},
		{
			title: "Two headers in one item", at: "      - ipv4: {source: 198.18.0.2, destination: 198.19.0.2}\n      - udp: {destinationPort: 7}",
			wrong: "      - ipv4: {source: 198.18.0.2, destination: 198.19.0.2}\n        udp: {destinationPort: 7}",
			field: "spec.packet.headers[1]", remedy: "an item of its own",
		},
		{
			title: "Two thresholds of one name", at: "    - name: no-loss\n      expression: result.lost == 0",
			wrong: "    - name: no-loss\n      expression: result.lost == 0\n    - name: no-loss\n      expression: result.duplicates == 0",
			right: "    - name: no-loss\n      expression: result.lost == 0\n    - name: no-duplicates\n      expression: result.duplicates == 0",
			field: "spec.thresholds[1]", remedy: "another name",
		},
	}},
	{"Quantities", []mistake{
		{title: "A rate in a unit of storage", at: "continuous: {rate: 1kpps}", wrong: "continuous: {rate: 10Mb}", field: "spec.transmit.continuous.rate", remedy: "must be a rate such as 1.5Mpps, 10Gbps", right: "continuous: {rate: 10Mbps}"},
		{title: "A blank between number and unit", at: "continuous: {rate: 1kpps}", wrong: "continuous: {rate: 1 kpps}", field: "spec.transmit.continuous.rate", remedy: "must be a rate such as 1.5Mpps, 10Gbps"},
		{title: "A rate of zero", at: "continuous: {rate: 1kpps}", wrong: "continuous: {rate: 0pps}", field: "spec.transmit.continuous.rate", remedy: "must be greater than zero"},
		{title: "A number where a time is needed", at: "  duration: 10s\n", wrong: "  duration: 10\n", field: "spec.duration", remedy: "must be a duration such as 500ms, 10s or 1m30s"},
		{title: "A time in words", at: "  duration: 10s\n", wrong: "  duration: 10min\n", field: "spec.duration", remedy: "must be a duration such as 500ms, 10s or 1m30s", right: "  duration: 10m\n"},
		{title: "A duration of zero for a run without end", at: "  duration: 10s\n", wrong: "  duration: 0s\n", field: "spec.duration", remedy: "leave it out to run until stopped"},
		{title: "A factor without x", at: "  rate: 2x\n", wrong: "  rate: \"2\"\n", field: "spec.rate", remedy: "must be a factor such as 2x"},
		{title: "A line rate without its unit", at: "      gateway: 198.18.0.1\n      lineRate: 10Gbps", wrong: "      gateway: 198.18.0.1\n      lineRate: 10G", field: "spec.ports[0].lineRate", remedy: "must be a bandwidth such as 10Gbps"},
		{title: "Connections in packets", at: "  connectionRate: 100cps", wrong: "  connectionRate: 100pps", field: "spec.connectionRate", remedy: "must be connections a second such as 100cps"},
	}},
	{"Names, ports and references", []mistake{
		{title: "A stream that does not exist", at: "stream: {ref: {name: voice}}", wrong: "stream: {ref: {name: voip}}", field: "spec.traffic[0].stream.ref.name", remedy: "apply it, or correct the name"},
		{title: "A template that does not exist", at: "application: {templateRef: {name: web}}", wrong: "application: {templateRef: {name: website}}", field: "spec.traffic[0].application.templateRef.name", remedy: "apply it, or correct the name"},
		{title: "A port that the generator does not have", at: "    - name: call\n      transmitPort: east", wrong: "    - name: call\n      transmitPort: eth0", field: "spec.traffic[0].transmitPort", remedy: "it has east, west"},
		{title: "Flow is measured, and no port receives", at: "      receivePort: west\n      stream: {ref: {name: voice}}", wrong: "      stream: {ref: {name: voice}}", field: "spec.traffic[0].receivePort", remedy: "name the port its packets are expected at"},
		{title: "A stream and an application in one entry", at: "      application: {templateRef: {name: web}}", wrong: "      application: {templateRef: {name: web}}\n      stream: {ref: {name: voice}}", field: "spec.traffic[0]", remedy: "exactly one of the fields"},
		{title: "A gateway of another subnet", at: "gateway: 198.19.0.1", wrong: "gateway: 198.20.0.1", field: "spec.ports[1].gateway", remedy: "give the port an address of its subnet"},
	}},
	{"Packets", []mistake{
		{title: "A size without the FCS", at: "    size: 128", wrong: "    size: 60", field: "spec.packet.size", remedy: "greater than or equal to 64", right: "    size: 64"},
		{title: "A packet too small for what is measured", at: "      - ethernet: {}\n      - ipv4: {source: 198.18.0.2, destination: 198.19.0.2}\n      - udp: {destinationPort: 7}\n    size: 128",
			wrong: "      - ethernet: {}\n      - vlan: {id: 5}\n      - ipv4: {source: 198.18.0.2, destination: 198.19.0.2}\n      - udp: {destinationPort: 7}\n    size: 64", field: "spec.packet.size", remedy: "at least"},
		{title: "A prefix in a header", at: "source: 198.18.0.2, destination: 198.19.0.2", wrong: "source: 198.18.0.2/24, destination: 198.19.0.2", field: "spec.packet.headers[1].ipv4.source", remedy: "must be an IPv4 address such as 198.18.0.1"},
		{title: "No Ethernet header", at: "    headers:\n      - ethernet: {}\n", wrong: "    headers:\n", field: "spec.packet.headers", remedy: "the first header must be ethernet"},
		{title: "A field of a header that the packet does not have", at: "udp.sourcePort", wrong: "tcp.sourcePort", field: "spec.fields[0].writes[0].field", remedy: "the packet has 0 tcp headers"},
		{title: "A field that the header does not have", at: "udp.sourcePort", wrong: "udp.srcPort", field: "spec.fields[0].writes[0].field", remedy: "it has "},
		{title: "A range that counts down", at: "range: {start: 1024, end: 2047}", wrong: "range: {start: 2047, end: 1024}", field: "spec.fields[0].range", remedy: "use order: Reverse to count down"},
		{title: "Latency without flow", at: "measure: {flow: true, latency: true}", wrong: "measure: {latency: true}", field: "spec.measure.latency", remedy: "latency needs flow: true"},
	}},
	{"Rates and limits", []mistake{
		{title: "More than the line carries", at: "stream: {ref: {name: voice}}", wrong: "stream: {ref: {name: voice}, size: 1518, rate: 500kpps}", right: "stream: {ref: {name: voice}, size: 1518, rate: 400kpps}", field: "spec.rate", remedy: "lower the rates"},
		{title: "More than the generator allows", at: "continuous: {rate: 1kpps}", wrong: "continuous: {rate: 3Mpps}", field: "spec.rate", remedy: "lower the rates"},
		{title: "A destination that the generator does not allow", at: "destination: 198.19.0.2", wrong: "destination: 10.0.0.2", field: "spec.traffic[0].stream.ref", remedy: "generator lab allows only 198.18.0.0/15"},
	}},
	{"Applications", []mistake{
		{title: "Pools that overlap", at: "servers: [{name: servers, start: 198.19.1.1, end: 198.19.1.250}]", wrong: "servers: [{name: servers, start: 198.18.1.200, end: 198.18.1.250}]", field: "spec.pools.clients[0]", remedy: "use addresses apart"},
		{title: "A pool that ends before it starts", at: "start: 198.18.1.1, end: 198.18.1.250", wrong: "start: 198.18.1.250, end: 198.18.1.1", field: "spec.pools.clients[0].end", remedy: "is less than start"},
		{title: "Programs without the port that servers listen on", at: "source: {http: {responseBytes: 1024}}", wrong: "source: {payload: {transport: TCP, requestBytes: 64}}", field: "spec.destinationPort", remedy: "the port that the servers listen on", right: "destinationPort: 7000\n  source: {payload: {transport: TCP, requestBytes: 64}}"},
		{title: "A share without a mix", at: "application: {templateRef: {name: web}}", wrong: "application: {templateRef: {name: web}, share: 1}", field: "spec.mix", remedy: "set both or neither"},
	}},
	{"Thresholds and stages", []mistake{
		{title: "A name that results do not have", at: "expression: result.lost == 0", wrong: "expression: result.losses == 0", field: "spec.thresholds[0].expression", remedy: "result has clients, duplicates, "},
		{title: "A number where a condition is needed", at: "expression: result.lost == 0", wrong: "expression: result.lost", field: "spec.thresholds[0].expression", remedy: "must be true or false"},
		{title: "A time as a number", at: "expression: result.lost == 0", wrong: "expression: result.streams[\"call\"].latency.p99 < 100", field: "spec.thresholds[0].expression", remedy: "duration('100us')"},
		{title: "A stream by its object's name", at: "expression: result.lost == 0", wrong: "expression: result.streams[\"voice\"].lost == 0", field: "spec.thresholds[0].expression", remedy: "streams of the profile are call", right: "expression: result.streams[\"call\"].lost == 0"},
		{
			title: "A baseline for runs that a profile starts by itself", at: "  thresholds:\n    - name: no-loss\n      expression: result.lost == 0",
			wrong: "  thresholds:\n    - name: no-loss\n      expression: result.rx >= baseline.rx * 0.99",
			right: "  runPolicy: Manual  # kubectl spate run calls --baseline RUN\n  thresholds:\n    - name: no-loss\n      expression: result.rx >= baseline.rx * 0.99",
			field: "spec.thresholds[0].expression", remedy: "set spec.runPolicy: Manual",
		},
		{title: "A duration beside stages", at: "    - {name: soak, duration: 10m, rate: 1x}", wrong: "    - {name: soak, duration: 10m, rate: 1x}\n  duration: 1h", field: "spec.stages", remedy: "remove rate, duration and rampUp"},
		{title: "A ramp longer than its stage", at: "{name: ramp, duration: 30s, ramp: 30s, rate: 1x}", wrong: "{name: ramp, duration: 30s, ramp: 60s, rate: 1x}", field: "spec.stages[0].ramp", remedy: "longer than the stage"},
	}},
}
