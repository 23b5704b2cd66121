// SPDX-License-Identifier: Apache-2.0

// Which changes of the good objects are refused, and in which words?

package refused

import (
	"fmt"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
)

// Change replaces text of a good object.
type Change struct {
	From, To string
	// Want is what an API server must say, the field first; nothing where it takes the object all the same.
	Want []string
}

// Make gives the changed object.
func (c Change) Make(good string) string {
	if !strings.Contains(good, c.From) {
		panic("nothing to change: " + c.From)
	}
	return strings.Replace(good, c.From, c.To, 1)
}

// source of the good template.
var source = Template[strings.Index(Template, "  source:"):strings.Index(Template, "  destinationPort:")]

// ignoring adds sources to ignore to the good profile.
func ignoring(sources string, want ...string) Change {
	return Change{"  traffic:\n", "  ignoredSources: " + sources + "\n  traffic:\n", want}
}

// ipv6Addresses gives different ones, separated by commas.
func ipv6Addresses(count int) string {
	all := make([]string, count)
	for i := range all {
		all[i] = fmt.Sprintf("%q", fmt.Sprintf("2001:db8::%d", i))
	}
	return strings.Join(all, ", ")
}

// application is the second entry of the good profile, to be replaced by an application.
const application = "stream:\n      ref: {name: other}\n      rate: 10kpps\n"

// inlined is an application that is described inline.
const inlined = "application: {inline: {source: {http: {}}, connectionRate: 1cps, pools: {clients: [{name: c, start: 16.0.0.1, count: 9}], servers: [{name: s, start: 48.0.0.1, count: 9}]}}}\n"

// programmed is an application that is described inline with a program of its clients.
func programmed(commands string) string {
	return strings.Replace(inlined, "source: {http: {}}", "destinationPort: 80, source: {programs: {transport: TCP, client: ["+commands+"]}}", 1)
}

// waiting is a command with rules of its own, times and the order of them.
const waiting = "      - delay: {min: 10ms, max: 20ms}\n"

// grouped gives two workers groups.
func grouped(groups string) string { return "  workers: 2\n  workerGroups: [" + groups + "]\n" }

// Changes lists, for each good object, what makes it one that is refused, or that is taken though it is another.
var Changes = map[string]map[string]Change{
	Profile: {
		"rate in apples": {"rate: 80%", "rate: 10 apples", []string{"spec.traffic[0].stream.inline.transmit.continuous.rate", `"10 apples"`, "must be a rate such as 1.5Mpps, 10Gbps (layer 2, FCS included), 10GbpsL1 or 80%"}},
		"rate of zero":   {"rate: 80%", "rate: 0.0pps", []string{"spec.traffic[0].stream.inline.transmit.continuous.rate", "must be greater than zero"}},
		"a number":       {"rate: 80%", "rate: 80", []string{"spec.traffic[0].stream.inline.transmit.continuous.rate", "must be of type string"}},
		"two modes": {"{continuous: {rate: 80%}}", "{continuous: {rate: 80%}, burst: {packets: 5, rate: 1pps}}",
			[]string{"spec.traffic[0].stream.inline.transmit", "exactly one of the fields in [continuous burst multiBurst replay]"}},
		"sources to ignore":           ignoring(`{macs: ["02:00:00:00:00:99"], addresses: [192.0.2.1, 198.18.7.0/24, "2001:db8::1", "2001:db8::/32"]}`),
		"nothing to ignore":           ignoring("{}", "spec.ignoredSources", "should have at least 1 properties"),
		"half a MAC to ignore":        ignoring(`{macs: ["02:00:00"]}`, "spec.ignoredSources.macs[0]", "must be a MAC address such as"),
		"a host's name to ignore":     ignoring("{addresses: [192.0.2.1, probe]}", "spec.ignoredSources.addresses[1]", "must be an address or a prefix such as"),
		"an address to ignore twice":  ignoring("{addresses: [192.0.2.1, 192.0.2.1]}", "spec.ignoredSources.addresses[1]", "Duplicate value"),
		"65 addresses to ignore":      ignoring("{addresses: ["+ipv6Addresses(65)+"]}", "spec.ignoredSources.addresses", "Too many: 65: must have at most 64 items"),
		"64 addresses to ignore":      ignoring("{addresses: [" + ipv6Addresses(64) + "]}"),
		"no mode":                     {"{continuous: {rate: 80%}}", "{}", []string{"spec.traffic[0].stream.inline.transmit", "exactly one of"}},
		"start over end":              {"{start: 1025, end: 65000}", "{start: 65000, end: 1025}", []string{"spec.traffic[0].stream.inline.fields[0].range", "start must not be greater than end; use order: Reverse to count down"}},
		"unknown transmit port":       {"transmitPort: east\n    receivePort", "transmitPort: north\n    receivePort", []string{"spec.traffic", "the transmitPort of each entry must name a port of spec.generator.ports"}},
		"unknown receive port":        {"receivePort: east", "receivePort: south", []string{"spec.traffic", "the receivePort of each entry must name a port of spec.generator.ports"}},
		"a group of clients":          {"receivePort: east\n", "transmitPodGroup: near\n    receivePort: east\n", []string{"spec.traffic", "the transmitPodGroup and receivePodGroup of each entry must name one of spec.generator.podGroups"}},
		"receivers of a stream":       {"receivePort: east\n", "receivePort: east\n    receivePodGroup: near\n", []string{"spec.traffic[0].receivePodGroup", "is of an application's servers: packets of a stream are counted in whichever pod they arrive; leave it out"}},
		"a group of no clients":       {"transmitPort: east\n    " + application, "receivePort: east\n    transmitPodGroup: near\n    application: {templateRef: {name: other}}\n", []string{"spec.traffic[1].transmitPodGroup", "is of what transmitPort sends, and only receivePort is set: set transmitPort, or leave it out"}},
		"a group of no servers":       {"transmitPort: east\n    " + application, "transmitPort: east\n    receivePodGroup: near\n    application: {templateRef: {name: other}}\n", []string{"spec.traffic[1].receivePodGroup", "is of servers at receivePort, and only transmitPort is set: set receivePort, or leave it out"}},
		"a stream from nowhere":       {"transmitPort: east\n    receivePort: east\n", "receivePort: east\n", []string{"spec.traffic[0].transmitPort", "is required beside receivePort: a stream is sent from a port"}},
		"ports by default":            {"transmitPort: east\n    receivePort: east\n", "paused: false\n", nil},
		"a share of no mix":           {"      rate: 10kpps\n", "      rate: 10kpps\n  - {name: t, transmitPort: east, application: {templateRef: {name: t}, share: 1}}\n", []string{"spec.mix", "set both or neither"}},
		"a mix of nothing":            {"spec:\n", "spec:\n  mix: {rate: 1kcps, shareBy: Bytes}\n", []string{"spec.mix", "set both or neither"}},
		"a mix in packets":            {"spec:\n", "spec:\n  mix: {rate: 1kpps, shareBy: Bytes}\n", []string{"spec.mix.rate", "must be connections a second such as 100kcps"}},
		"a mix of none":               {"spec:\n", "spec:\n  mix: {rate: 0.0kbps, shareBy: Bytes}\n", []string{"spec.mix.rate", "greater than zero"}},
		"a mix by packets":            {"spec:\n", "spec:\n  mix: {rate: 1kcps, shareBy: Packets}\n", []string{"spec.mix.shareBy"}},
		"a share of a stream":         {"      ref: {name: other}", "      ref: {name: other}\n      share: 3", []string{`unknown field "spec.traffic[1].stream.share"`}},
		"two rates of clients":        {application, "application: {templateRef: {name: other}, connectionRate: 1cps, share: 1}\n", []string{"spec.traffic[1].application", "at most one of the fields in [connectionRate share]"}},
		"a rate of real clients":      {"transmitPort: east\n    " + application, "receivePort: east\n    application: {templateRef: {name: other}, connectionRate: 1cps}\n", []string{"spec.traffic[1].application", "connectionRate and share are those of emulated clients: set transmitPort"}},
		"a template that waits":       {application, "application: {templateRef: {name: other}, start: Waiting}\n", []string{`unknown field "spec.traffic[1].application.start"`}},
		"a paused template":           {application, "application: {templateRef: {name: other}}\n    paused: true\n", nil},
		"packets of a template":       {application, "application: {templateRef: {name: other}, rate: 1kpps}\n", []string{`unknown field "spec.traffic[1].application.rate"`}},
		"servers only":                {"transmitPort: east\n    " + application, "receivePort: east\n    application: {templateRef: {name: other}}\n", nil},
		"two kinds of entry":          {application, "stream: {ref: {name: other}}\n    application: {templateRef: {name: other}}\n", []string{"spec.traffic[1]", "exactly one of the fields in [stream application]"}},
		"two streams in one":          {"ref: {name: other}", "ref: {name: other}\n      inline: {transmit: {replay: {pcap: {volume: {name: a, path: b}}}}}", []string{"spec.traffic[1].stream", "exactly one of the fields in [ref inline selector]"}},
		"no stream in one":            {"      ref: {name: other}\n", "", []string{"spec.traffic[1].stream", "exactly one of the fields in [ref inline selector]"}},
		"an inline application":       {application, inlined, nil},
		"an application of two":       {application, "application: {templateRef: {name: other}, " + strings.TrimPrefix(inlined, "application: {"), []string{"spec.traffic[1].application", "exactly one of the fields in [templateRef inline]"}},
		"inline programs":             {application, programmed("{close: {}}"), nil},
		"an inline program of none":   {application, strings.Replace(programmed(""), ", client: []", "", 1), nil}, // a rule, which the operator checks
		"a rule of inline programs":   {application, programmed("{delay: {min: 2ms, max: 1ms}}"), nil},            // the same
		"a range of inline programs":  {application, programmed("{receive: {bytes: 0}}"), []string{"spec.traffic[1].application.inline.source.programs.client[0].receive.bytes", "greater than or equal to 1"}},
		"inline programs and more":    {application, strings.Replace(programmed("{close: {}}"), "{programs", "{http: {}, programs", 1), []string{"spec.traffic[1].application.inline.source", "exactly one of the fields in [programs pcap http dns payload]"}},
		"inline programs' port":       {application, strings.Replace(programmed("{close: {}}"), "destinationPort: 80, ", "", 1), []string{"spec.traffic[1].application.inline.destinationPort", "is required: the port that the servers listen on"}},
		"an inline port missing":      {application, strings.Replace(inlined, "{http: {}}", "{payload: {transport: TCP, requestBytes: 1}}", 1), []string{"spec.traffic[1].application.inline.destinationPort", "is required"}},
		"no source":                   {application + "  ", "paused: false\n  ", []string{"spec.traffic[1]", "exactly one of the fields in [stream application]"}},
		"too little memory for all":   {"  generator:\n", "  generator:\n    memory: 287Mi\n", []string{"spec.generator.memory", "must be at least 256Mi and 32Mi for each worker"}},
		"just enough memory":          {"  generator:\n", "  generator:\n    memory: 288Mi\n", nil},
		"two generators":              {"spec:\n  generator:", "spec:\n  generatorRef: {name: lab}\n  generator:", []string{"spec", "at most one of the fields in [generatorRef generator]"}},
		"no generator":                {"  generator:\n    ports:\n    - name: east\n      attachment: {loopback: {}}\n", "", nil},
		"a schedule":                  {"runID: first", "runID: first\n  runPolicy: Schedule\n  schedule: {cron: 0 2 * * *, timeZone: Europe/Berlin}", nil},
		"a schedule of no policy":     {"runID: first", "runID: first\n  schedule: {cron: 0 2 * * *}", []string{"spec.schedule", "goes with runPolicy: Schedule: set both or neither"}},
		"a policy of no schedule":     {"runID: first", "runID: first\n  runPolicy: Schedule", []string{"spec.schedule", "goes with runPolicy: Schedule: set both or neither"}},
		"a time zone in cron":         {"runID: first", "runID: first\n  runPolicy: Schedule\n  schedule: {cron: TZ=UTC 0 2 * * *}", []string{"spec.schedule.cron", "has no time zone: set timeZone"}},
		"a name twice":                {"name: other\n", "name: small\n", []string{"spec.traffic[1]", "Duplicate value"}},
		"a wrong start":               {"      rate: 10kpps", "      start: Never", []string{"spec.traffic[1].stream.start"}},
		"next with negative loops":    {"      rate: 10kpps", "      next: {entry: small, loops: -1}", []string{"spec.traffic[1].stream.next.loops"}},
		"a chain, paused":             {"      rate: 10kpps", "      next: {entry: small, loops: 3}\n      start: Waiting\n    paused: true", nil},
		"a wrong name":                {"name: small", "name: Small!", []string{"spec.traffic[0].name", "must be lower-case letters"}},
		"percent of a profile":        {"rate: 1.5x", "rate: 50%", nil},
		"a total of each port":        {"rate: 1.5x", "rate: 1Mpps/port", nil},
		"a factor of each port":       {"rate: 1.5x", "rate: 2x/port", []string{"spec.rate", "must be a factor such as 2x, a total such as 1Mpps, 10Gbps (layer 2, FCS included), 10GbpsL1 or 80%, or the total of each port such as 1Mpps/port"}},
		"nothing of a profile":        {"rate: 1.5x", "rate: 0x", []string{"spec.rate", "a rate must be greater than zero; to send nothing set spec.suspend"}},
		"no duration":                 {"duration: 10s", "duration: soon", []string{"spec.duration", "must be a duration such as 500ms"}},
		"a duration of zero":          {"duration: 10s", "duration: 0s", []string{"spec.duration", "leave it out to run until stopped"}},
		"a bare number":               {"warmup: 1s", `warmup: "5"`, []string{"spec.warmup", "must be a duration"}},
		"a wrong run id":              {"runID: first", "runID: -x-", []string{"spec.runID", "must be letters"}},
		"a wrong policy":              {"whenBusy: Queue", "whenBusy: Wait", []string{"spec.whenBusy", `supported values: "Queue", "Refuse"`}},
		"a policy for lost pods":      {"whenBusy: Queue", "whenPodLost: Continue", nil},
		"a wrong policy for them":     {"whenBusy: Queue", "whenPodLost: Ignore", []string{"spec.whenPodLost", `supported values: "Abort", "Continue"`}},
		"a wrong tolerance":           {"late: 1%", "late: 101%", []string{"spec.generatorTolerance.late", "such as 100, or a share such as 0.1%"}},
		"freeing what is not its own": {"whenBusy: Queue\n", "suspendPolicy: Free\n", nil}, // taken: the generator is inline
		"a misspelt field":            {"transmitPort: east\n    stream:\n      ref", "transmitport: east\n    stream:\n      ref", []string{`unknown field "spec.traffic[1].transmitport"`}},
		"an unknown field":            {"rate: 1.5x", "streams: []", []string{`unknown field "spec.streams"`}},
		"a wrong generator":           {"attachment: {loopback: {}}", "attachment: {loopback: {}, discard: {}}", []string{"spec.generator.ports[0].attachment", "exactly one of"}},
		"a long expression":           {"result.lost == 0", strings.Repeat("x", 1025), []string{"spec.thresholds[0].expression", "Too long"}},
		"a long name":                 {"{name: imix}", "{name: " + strings.Repeat("x", 51) + "}", []string{"is invalid: metadata: ", "metadata.name must be at most 50 characters"}},
	},
	Stream: {
		"headers and bytes":   {"    size: 128", "    size: 128\n    bytes: AAAA", []string{"spec.packet", "exactly one of the fields in [headers bytes]"}},
		"two in one header":   {"- vlan: {id: 100}", "- vlan: {id: 100}\n      ipv6: {source: \"::1\", destination: \"::2\"}", []string{"spec.packet.headers[1]", "must have at most 1 item"}},
		"an unknown header":   {"- vlan: {id: 100}", "- isis: {}", []string{"spec.packet.headers[1].isis"}},
		"not ethernet first":  {"    - ethernet: {destination: \"02:00:00:00:00:01\"}\n", "", []string{"spec.packet.headers", "the first header must be ethernet"}},
		"a wrong mac":         {"02:00:00:00:00:01", "02-00-00-00-00-01", []string{"spec.packet.headers[0].ethernet.destination", "must be a MAC address such as"}},
		"a wrong address":     {"source: 16.0.0.1", "source: 16.0.0.300", []string{"spec.packet.headers[2].ipv4.source", "must be an IPv4 address such as"}},
		"another family":      {"source: 16.0.0.1", `source: "2001:db8::1"`, []string{"spec.packet.headers[2].ipv4.source", "must be an IPv4 address"}},
		"no destination":      {", destination: 48.0.0.1", "", []string{"spec.packet.headers[2].ipv4.destination", "Required value"}},
		"a port too high":     {"destinationPort: 80", "destinationPort: 65536", []string{"spec.packet.headers[3].tcp.destinationPort", "less than or equal to 65535"}},
		"an unknown flag":     {"[SYN]", "[SYN, XMAS]", []string{"spec.packet.headers[3].tcp.flags[1]", `"XMAS"`}},
		"a vlan too high":     {"id: 100", "id: 4096", []string{"spec.packet.headers[1].vlan.id"}},
		"too small":           {"size: 128", "size: 63", []string{"spec.packet.size", "greater than or equal to 64"}},
		"too large":           {"size: 128", "size: 9235", []string{"spec.packet.size", "less than or equal to 9234"}},
		"odd hex":             {`hex: "00ff"`, `hex: "00f"`, []string{"spec.packet.payload.hex", "should match"}},
		"two payloads":        {`hex: "00ff"`, `hex: "00ff", text: x`, []string{"spec.packet.payload", "exactly one of"}},
		"values and a range":  {"range: {start: 16.0.0.0, end: 18.0.0.254}\n    order: Random\n    seed: 7\n", "range: {start: 1, end: 2}\n    values: [1]\n", []string{"spec.fields[0]", "exactly one of the fields in [values range]"}},
		"two ends":            {"end: 18.0.0.254}", "end: 18.0.0.254, count: 2}", []string{"spec.fields[0].range", "exactly one of the fields in [end count]"}},
		"no end":              {"start: 1025, end: 65000", "start: 1025", []string{"spec.fields[1].range", "exactly one of the fields in [end count]"}},
		"a count":             {"start: 1025, end: 65000", "start: 1025, count: 100", nil},
		"a count of none":     {"start: 1025, end: 65000", "start: 1025, count: 0", []string{"spec.fields[1].range.count"}},
		"a seed for nothing":  {"    order: Random\n    seed: 7\n", "    seed: 7\n", []string{"spec.fields[0].seed", "seed goes with order: Random"}},
		"a random first":      {"end: 18.0.0.254}", "end: 18.0.0.254, first: 17.0.0.0}", []string{"spec.fields[0].range", "first and step do not go with order: Random"}},
		"a random step":       {"end: 18.0.0.254}", "end: 18.0.0.254, step: 2}", []string{"spec.fields[0].range", "first and step do not go with order: Random"}},
		"an unknown order":    {"order: Random", "order: Backward", []string{"spec.fields[0].order"}},
		"a mix":               {"    size: 128", "    imix: Simple", nil},
		"an unknown mix":      {"    size: 128", "    imix: Fancy", []string{"spec.packet.imix", `supported values: "Simple", "TCP", "IPsec", "Tolly"`}},
		"a mix and a size":    {"    size: 128", "    size: 128\n    imix: Simple", []string{"spec.packet", "at most one of the fields in [size sizes imix]"}},
		"start over end":      {"{start: 1025, end: 65000, step: 2}", "{start: 2, end: 1}", []string{"spec.fields[1].range", "start must not be greater than end"}},
		"a step of zero":      {"step: 2", "step: 0", []string{"spec.fields[1].range.step"}},
		"a fraction":          {"start: 1025", "start: 10.25", []string{"spec.fields[1].range.start"}},
		"a wrong field name":  {"{field: ipv4.source}", "{field: source}", []string{"spec.fields[0].writes[0].field", "should match"}},
		"offset without size": {"{offset: 60, size: 2, mask: \"0xff00\", shift: 8}", "{offset: 60}", []string{"spec.fields[1].writes[1]", "size goes with offset"}},
		"an odd size":         {"offset: 60, size: 2", "offset: 60, size: 5", []string{"spec.fields[1].writes[1].size"}},
		"a field name twice":  {"name: port", "name: client", []string{"spec.fields[1]", "Duplicate value"}},
	},
	Headers: {
		"two options in one":     {"{raw: \"9404\"}", "{raw: \"9404\", nop: {}}", []string{"spec.packet.headers[5].ipv4.options[1]", "at most 1"}},
		"two chunks in one":      {"{raw: {type: 1}}", "{raw: {type: 1}, data: {}}", []string{"spec.packet.headers[15].sctp.chunks[0]"}},
		"two messages":           {"{echoRequest: {identifier: 1}}", "{echoRequest: {}, echoReply: {}}", []string{"spec.packet.headers[11].icmpv4", "exactly one of"}},
		"a large label":          {"label: 100", "label: 1048576", []string{"spec.packet.headers[1].mpls.label"}},
		"a large identifier":     {"vni: 16777215", "vni: 16777216", []string{"spec.packet.headers[17].vxlan.vni"}},
		"a wrong segment":        {"addresses: [\"2001:2::1\"]", "addresses: [2001]", []string{"spec.packet.headers[9].ipv6Routing.addresses[0]"}},
		"a checksum of nothing":  {"checksumPresent: true, ", "", []string{"spec.packet.headers[16].gre.checksum", "goes with checksumPresent"}},
		"a checksum too large":   {"checksum: 0x1234", "checksum: 0x12345", []string{"spec.packet.headers[5].ipv4.checksum"}},
		"size and sizes":         {"    sizes:", "    size: 64\n    sizes:", []string{"spec.packet", "at most one of the fields in [size sizes imix]"}},
		"list and range":         {"{list: [", "{range: {start: 64, end: 65}, list: [", []string{"spec.packet.sizes", "exactly one of the fields in [list range]"}},
		"a wrong range":          {"{list: [{size: 64, weight: 7}, {size: 1518}], order: Random, seed: 1}", "{range: {start: 65, end: 64}}", []string{"spec.packet.sizes.range", "start must not be greater than end"}},
		"a step of random sizes": {"{list: [{size: 64, weight: 7}, {size: 1518}], order: Random, seed: 1}", "{range: {start: 64, end: 65, order: Random, step: 2}}", []string{"spec.packet.sizes.range.step", "order: Random"}},
		"raw checksums":          {"    sizes:", "    checksums: [{type: IPv4, offset: 14}]\n    sizes:", []string{"spec.packet.checksums", "go with bytes"}},
		"too many copies":        {"count: 20000", "count: 20001", []string{"spec.copies.count"}},
		"copies of nowhere":      {"{offset: 30, size: 6}", "{offset: 30}", []string{"spec.copies.vary[1]", "size goes with offset"}},
		"carrying to itself":     {"carryTo: b", "carryTo: a", []string{"spec.fields[0].carryTo", "must name another field"}},
		"a large cache":          {"cache: 10000", "cache: 10001", []string{"spec.cache"}},
		"a large mark":           {"ipv6FlowLabel: 1048575", "ipv6FlowLabel: 1048576", []string{"spec.measure.mark.ipv6FlowLabel", "must be 1 to 1048575, or auto"}},
		"a wrong mark":           {"ipv6FlowLabel: 1048575", "ipv6FlowLabel: any", []string{"spec.measure.mark.ipv6FlowLabel", "or auto"}},
		"mark and flow":          {"{mark: ", "{flow: true, mark: ", []string{"spec.measure.mark", "leave flow and latency out"}},
		"tags without flow":      {"{mark: {ipv6FlowLabel: 1048575}}", "{byTag: {vlans: [{start: 1}]}}", []string{"spec.measure.byTag", "byTag needs flow"}},
		"a VLAN of no frames":    {"{mark: {ipv6FlowLabel: 1048575}}", "{flow: true, byTag: {vlans: [{start: 1, end: 4095}]}}", []string{"spec.measure.byTag.vlans[0].end", "4094"}},
		"VLANs backwards":        {"{mark: {ipv6FlowLabel: 1048575}}", "{flow: true, byTag: {qinq: [{outer: 7, inner: {start: 2, end: 1}}]}}", []string{"spec.measure.byTag.qinq[0].inner.end", "end must not be below start"}},
		"latency without flow":   {"{mark: {ipv6FlowLabel: 1048575}}", "{latency: true}", []string{"spec.measure.latency", "latency needs flow"}},
	},
	Control: {
		"two headers in one":     {"- macControl: {pauseTime: 65535}", "- macControl: {pauseTime: 65535}\n      ppp: {}", []string{"spec.packet.headers[2]", "at most 1"}},
		"PAUSE and PFC":          {"{pauseTime: 65535}", "{pauseTime: 65535, priorityEnableVector: 1}", []string{"spec.packet.headers[2].macControl", "exactly one of the fields in [pauseTime priorityEnableVector]"}},
		"times of a PAUSE":       {"{pauseTime: 65535}", "{pauseTime: 65535, times: [1]}", []string{"spec.packet.headers[2].macControl.times", "times go with priorityEnableVector"}},
		"nine priorities":        {"times: [0, ", "times: [0, 0, ", []string{"spec.packet.headers[3].macControl.times", "at most 8"}},
		"no system":              {"system: \"02:00:00:00:00:01\", ", "", []string{"spec.packet.headers[1].lacp.actor.system", "Required value"}},
		"an unknown state":       {"[Activity, Aggregation]", "[Activity, Up]", []string{"spec.packet.headers[1].lacp.actor.state[1]", "Unsupported value"}},
		"a message of no kind":   {"MembershipQueryV3", "MembershipQuery", []string{"spec.packet.headers[4].igmp.message", "Unsupported value"}},
		"records of a query":     {"message: MembershipReportV3", "message: MembershipReportV2", []string{"spec.packet.headers[5].igmp.groupRecords", "groupRecords go with message: MembershipReportV3"}},
		"sources of version 2":   {"MembershipQueryV3", "MembershipQueryV2", []string{"spec.packet.headers[4].igmp.sourceAddresses", "sourceAddresses go with message: MembershipQueryV3"}},
		"a group in words":       {"groupAddress: 232.1.1.1", "groupAddress: all-hosts", []string{"spec.packet.headers[4].igmp.groupAddress", "must be an IPv4 address"}},
		"sources of MLDv1":       {"message: QueryV2", "message: QueryV1", []string{"spec.packet.headers[6].icmpv6.multicastListener.sourceAddresses", "sourceAddresses go with message: QueryV2"}},
		"records of MLDv1":       {"message: ReportV2", "message: Done", []string{"spec.packet.headers[7].icmpv6.multicastListener.multicastAddressRecords", "multicastAddressRecords go with message: ReportV2"}},
		"two types of metadata":  {"fixedContext: \"", "metadata: [{class: 1, type: 1}], fixedContext: \"", []string{"spec.packet.headers[8].nsh", "at most one of the fields in [fixedContext metadata]"}},
		"a short context":        {"fixedContext: \"00", "fixedContext: \"", []string{"spec.packet.headers[8].nsh.fixedContext"}},
		"a large path":           {"16777215, serviceIndex", "16777216, serviceIndex", []string{"spec.packet.headers[8].nsh.servicePathIdentifier"}},
		"a priority of control":  {"{control: true, ", "{control: true, priority: true, ", []string{"spec.packet.headers[12].l2tp.control", "a control message has neither offsetSize nor priority"}},
		"a session of control":   {"{controlConnectionID: 4294967295, ", "{controlConnectionID: 1, sessionID: 1, ", []string{"spec.packet.headers[15].l2tpv3", "exactly one of the fields in [sessionID controlConnectionID]"}},
		"a cookie of control":    {"{controlConnectionID: 4294967295, ", "{controlConnectionID: 1, cookie: \"00000000\", ", []string{"spec.packet.headers[15].l2tpv3", "cookie, l2SpecificSublayer and sequenceNumber go with sessionID"}},
		"a cookie of five bytes": {"cookie: \"0001020304050607\"", "cookie: \"0001020304\"", []string{"spec.packet.headers[14].l2tpv3.cookie"}},
	},
	Replay: {
		"a packet beside it":  {"spec:\n", "spec:\n  packet: {bytes: AAAA}\n", []string{"spec.packet", "except with transmit.replay"}},
		"two modes":           {"    replay:\n", "    burst: {packets: 1, rate: 1pps}\n    replay:\n", []string{"spec.transmit", "exactly one of"}},
		"a path that climbs":  {"a/b.pcap", "a/../b.pcap", []string{"spec.transmit.replay.pcap.volume.path"}},
		"an absolute path":    {"a/b.pcap", "/b.pcap", []string{"spec.transmit.replay.pcap.volume.path"}},
		"a least gap of both": {"minGap: 1us\n", "minGap: 1us\n      directions: {by: IP}\n", []string{"spec.transmit.replay.minGap", "does not go with directions"}},
		"unknown directions":  {"minGap: 1us\n", "directions: {by: Port}\n", []string{"spec.transmit.replay.directions.by", "Port"}},
		"two gaps":            {"{scale: \"0.5\"}", "{scale: \"0.5\", fixed: 1us}", []string{"spec.transmit.replay.gap", "exactly one of"}},
		"a scale of zero":     {"\"0.5\"", "\"0.0\"", []string{"spec.transmit.replay.gap.scale", "greater than zero"}},
		"no loops":            {"loops: 2", "loops: 0", []string{"spec.transmit.replay.loops"}},
		"two sources of pcap": {"{volume: ", "{from: {configMapKeyRef: {name: a, key: b}}, volume: ", []string{"spec.transmit.replay.pcap", "exactly one of"}},
	},
	Answering: {
		"nothing to do":      {"  reflect: [{port: east, swap: Addresses}]\n  receive: [{name: tap, port: east}]\n", "", []string{"spec", "set traffic, reflect or receive"}},
		"reflects elsewhere": {"{port: east, swap", "{port: west, swap", []string{"spec.reflect", "must name a port of spec.generator.ports"}},
		"receives elsewhere": {"name: tap, port: east", "name: tap, port: west", []string{"spec.receive", "must name a port of spec.generator.ports"}},
		"swaps nothing":      {"swap: Addresses", "swap: None", []string{"spec.reflect[0].swap"}},
	},
	Generator: {
		"an address alone":       {"[198.18.0.1/24, ", "[198.18.0.1, ", []string{"spec.ports[0].addresses[0]", "an address with its prefix"}},
		"a gateway in IPv6":      {"gateway: 198.18.0.254", "gateway: \"fe80::1\"", []string{"spec.ports[0].gateway", "must be an IPv4 address"}},
		"no address as a group":  {"address: 239.1.1.1", "address: x", []string{"spec.ports[0].multicastGroups[0].address", "must be an IP address"}},
		"the same group twice":   {"address: \"ff3e::1\"", "address: 239.1.1.1", []string{"spec.ports[0].multicastGroups[1]", "Duplicate value"}},
		"a large vlan":           {"vlan: 100", "vlan: 4095", []string{"spec.ports[0].vlan"}},
		"punt to eth0":           {"interface: bgp", "interface: eth0", []string{"spec.ports[0].punt.interface", "choose another name"}},
		"two volumes in one":     {"persistentVolumeClaim: {claimName: captures}", "persistentVolumeClaim: {claimName: captures}, secret: {secretName: x}", []string{"spec.volumes[0]", "exactly one of"}},
		"eth0":                   {"name: east\n    attachment", "name: eth0\n    attachment", []string{"spec.ports[0].name", "eth0 and lo are the pod's own interfaces"}},
		"a long port name":       {"name: east\n    attachment", "name: abcdefghijklmnop\n    attachment", []string{"spec.ports[0].name"}},
		"an upper-case name":     {"name: east\n    attachment", "name: East\n    attachment", []string{"spec.ports[0].name", "1 to 15 lower-case letters"}},
		"a name twice":           {"name: west", "name: east", []string{"spec.ports[1]", "Duplicate value"}},
		"a resource claim":       {"{loopback: {}}", "{resourceClaim: {resourceClaimTemplateName: links, request: link}}", nil},
		"a claim beside another": {"{loopback: {}}", "{loopback: {}, resourceClaim: {resourceClaimTemplateName: links}}", []string{"spec.ports[1].attachment", "exactly one of"}},
		"a claim of no template": {"{loopback: {}}", "{resourceClaim: {request: link}}", []string{"spec.ports[1].attachment.resourceClaim.resourceClaimTemplateName", "Required value"}},
		"a request without name": {"{loopback: {}}", "{resourceClaim: {resourceClaimTemplateName: links, request: ''}}", []string{"spec.ports[1].attachment.resourceClaim.request"}},
		"two attachments":        {"{loopback: {}}", "{loopback: {}, discard: {}}", []string{"spec.ports[1].attachment", "exactly one of the fields in [sriov kernel bond memif resourceClaim loopback discard]"}},
		"no attachment":          {"{loopback: {}}", "{}", []string{"spec.ports[1].attachment", "exactly one of"}},
		"too many replicas":      {"replicas: 1", "replicas: 17", []string{"spec.replicas"}},
		"groups of another sum":  {"replicas: 1", "replicas: 4\n  podGroups: [{name: near, replicas: 1}, {name: far, replicas: 2}]", []string{"spec.replicas", "with podGroups it must be the sum of their replicas: set it to that, or change the replicas of a group"}},
		"groups without a sum":   {"  replicas: 1\n", "  podGroups: [{name: near, replicas: 1}, {name: far, replicas: 2}]\n", []string{"spec.replicas", "with podGroups it must be the sum of their replicas"}},
		"groups":                 {"replicas: 1", "replicas: 3\n  podGroups: [{name: near, replicas: 1}, {name: far, replicas: 2, nodeSelector: {zone: b}}]", nil},
		"a group of nothing":     {"replicas: 1", "replicas: 1\n  podGroups: [{name: near, replicas: 1}, {name: far, replicas: 0}]", []string{"spec.podGroups[1].replicas", "should be greater than or equal to 1"}},
		"a group twice":          {"replicas: 1", "replicas: 2\n  podGroups: [{name: near, replicas: 1}, {name: near, replicas: 1}]", []string{"spec.podGroups[1]", "Duplicate value"}},
		"a group in capitals":    {"replicas: 1", "replicas: 1\n  podGroups: [{name: Near, replicas: 1}]", []string{"spec.podGroups[0].name", "must be lower-case letters"}},
		"no groups":              {"replicas: 1", "replicas: 1\n  podGroups: []", []string{"spec.podGroups", "should have at least 1 items"}},
		"no workers":             {"workers: 2", "workers: 0", []string{"spec.workers"}},
		"worker groups":          {"  workers: 2\n", grouped("{name: a, ports: [east], workers: 1}, {name: b, ports: [west], workers: 1}"), nil},
		"a group of all":         {"  workers: 2\n", grouped("{name: a, ports: [west, east], workers: 2}"), nil},
		"more than the workers":  {"  workers: 2\n", grouped("{name: a, ports: [east], workers: 1}, {name: b, ports: [west], workers: 2}"), []string{"spec.workers", "must be the sum of the workers of workerGroups"}},
		"a port in no group":     {"  workers: 2\n", grouped("{name: a, ports: [east], workers: 2}"), []string{"spec.workerGroups", "each port must be in exactly one group"}},
		"a port in two groups":   {"  workers: 2\n", grouped("{name: a, ports: [east, west], workers: 1}, {name: b, ports: [west], workers: 1}"), []string{"spec.workerGroups", "each port must be in exactly one group"}},
		"a group of no port":     {"  workers: 2\n", grouped("{name: a, ports: [east, west, south], workers: 2}"), []string{"spec.workerGroups", "a group has a port that is none of spec.ports"}},
		"a group without ports":  {"  workers: 2\n", grouped("{name: a, ports: [east, west], workers: 1}, {name: b, ports: [], workers: 1}"), []string{"spec.workerGroups[1].ports", "should have at least 1 items"}},
		"a group at rest":        {"  workers: 2\n", grouped("{name: a, ports: [east], workers: 2}, {name: b, ports: [west], workers: 0}"), []string{"spec.workerGroups[1].workers"}},
		"two groups of a name":   {"  workers: 2\n", grouped("{name: a, ports: [east], workers: 1}, {name: a, ports: [west], workers: 1}"), []string{"spec.workerGroups[1]", "Duplicate value"}},
		"threads of a core":      {"cpuPolicy: Exclusive", "cpuPolicy: Exclusive\n  threadsPerCore: 1", nil},
		"three of a core":        {"cpuPolicy: Exclusive", "cpuPolicy: Exclusive\n  threadsPerCore: 3", []string{"spec.threadsPerCore"}},
		"threads of shared CPUs": {"cpuPolicy: Exclusive", "cpuPolicy: Shared\n  threadsPerCore: 1", []string{"spec.threadsPerCore", "only with cpuPolicy: Exclusive: shared CPUs are not assigned by core"}},
		"half a page":            {"size: 128Mi", "size: 127Mi", []string{"spec.packetMemory.size", "must be a whole number of pages: a multiple of 2Mi, or of 1Gi with backing: Hugepages1Gi"}},
		"half a page of none":    {"{size: 128Mi, backing: Hugepages2Mi}", "{size: 127Mi, backing: Standard}", nil},
		"part of a large page":   {"backing: Hugepages2Mi", "backing: Hugepages1Gi", []string{"spec.packetMemory.size", "a multiple of 2Mi, or of 1Gi with backing: Hugepages1Gi"}},
		"a whole large page":     {"{size: 128Mi, backing: Hugepages2Mi}", "{size: 1024Mi, backing: Hugepages1Gi}", nil},
		"another backing":        {"backing: Hugepages2Mi", "backing: Hugepages4Ki", []string{"spec.packetMemory.backing"}},
		"a label of ours":        {"labels: {team: net}", "labels: {spate.dev/generator: x}", []string{"spec.podTemplate.metadata.labels", "keys of spate.dev, kubernetes.io and k8s.io are set by the operator and Kubernetes"}},
		"networks of pods":       {"annotations: {example.org/note: lab}", "annotations: {k8s.v1.cni.cncf.io/networks: x}", []string{"spec.podTemplate.metadata.annotations", "are set by the operator and Kubernetes"}},
		"any PodSpec":            {"priorityClassName: high", "hostNetwork: true", []string{`unknown field "spec.podTemplate.spec.hostNetwork"`}},
		"memory in megabytes":    {"size: 128Mi", "size: 128MB", []string{"spec.packetMemory.size", "such as 128Mi"}},
		"memory of nothing":      {"size: 128Mi", "size: \"0\"", []string{"spec.packetMemory.size", "greater than zero"}},
		"too little memory":      {"memory: 320Mi", "memory: 319Mi", []string{"spec.memory", "must be at least 256Mi and 32Mi for each worker", "raise it, or leave it out"}},
		"memory for one worker":  {"  workers: 2\n", "  workers: 3\n", []string{"spec.memory", "must be at least 256Mi and 32Mi for each worker"}},
		"memory without a unit":  {"memory: 320Mi", "memory: \"335544320\"", nil},
		"line rate in packets":   {"lineRate: 10Gbps", "lineRate: 10Mpps", []string{"spec.ports[0].lineRate", "must be a bandwidth such as 10Gbps"}},
		"limit in percent":       {"maxRate: 5Mpps", "maxRate: 50%", []string{"spec.limits.maxRate", "must be a rate such as 1.5Mpps"}},
		"a wrong prefix":         {"198.18.0.0/15", "198.18.0.0", []string{"spec.limits.allowedDestinations[0]", "must be a prefix such as"}},
		"a backward range":       {"1024-65535", "65535-1024", []string{"spec.limits.allowedPorts[1]", "must not be greater than the last"}},
		"a port too high":        {"1024-65535", "1024-65536", []string{"spec.limits.allowedPorts[1]", "must be a port or a range"}},
		"selector without from":  {"from: Selector", "from: All", []string{"spec.allowedNamespaces", "selector is required with from: Selector"}},
		"a short lease":          {"lease: 1m", "lease: 29s", []string{"spec.lease", "must be at least 30s"}},
		"an unknown poll mode":   {"pollMode: Auto", "pollMode: Lazy", []string{"spec.pollMode"}},
		"a network without name": {"{network: east, namespace: nets}", "{}", []string{"spec.ports[0].attachment.kernel.network", "Required value"}},
		"a bond":                 {"{loopback: {}}", "{bond: {members: [{name: a, sriov: {network: east}}, {name: b, kernel: {network: west}}]}}", nil},
		"a bond of one":          {"{loopback: {}}", "{bond: {members: [{name: a, sriov: {network: east}}]}}", []string{"spec.ports[1].attachment.bond.members", "should have at least 2 items"}},
		"AF_XDP":                 {"{loopback: {}}", "{kernel: {network: east, socketFamily: AFXDP}}", nil},
		"another family":         {"{loopback: {}}", "{kernel: {network: east, socketFamily: AFInet}}", []string{"spec.ports[1].attachment.kernel.socketFamily", `"AFPacket", "AFXDP"`}},
		"a bond by AF_XDP": {"{loopback: {}}", "{bond: {members: [{name: a, kernel: {network: east}}, {name: b, kernel: {network: west, socketFamily: AFXDP}}]}}",
			[]string{"spec.ports[1].attachment.bond.members[1].kernel.socketFamily", "must be AFPacket in a bond"}},
		"a bond of nothing":     {"{loopback: {}}", "{bond: {members: [{name: a, sriov: {network: east}}, {name: b}]}}", []string{"spec.ports[1].attachment.bond.members[1]", "exactly one of"}},
		"a memif":               {"{loopback: {}}", "{memif: {volume: captures, socket: vpp/east.sock, role: Client}}", nil},
		"a socket of the node":  {"{loopback: {}}", "{memif: {volume: captures, socket: /run/vpp.sock}}", []string{"spec.ports[1].attachment.memif.socket", "must be a relative path"}},
		"a socket elsewhere":    {"{loopback: {}}", "{memif: {volume: captures, socket: ../tls/x}}", []string{"spec.ports[1].attachment.memif.socket", "must be a relative path"}},
		"an argument for DPDK":  {"{loopback: {}}", "{memif: {volume: captures, socket: \"a,zero-copy=yes\"}}", []string{"spec.ports[1].attachment.memif.socket", "must be a relative path"}},
		"a driver of no device": {"{network: east, namespace: nets}", "{network: east, driver: Bifurcated}", []string{"spec.ports[0].attachment.kernel.driver", "unknown field"}},
	},
	Template: {
		"two actions":           {"- connect: {}", "- connect: {}\n        reset: {}", []string{"spec.source.programs.client[0]", "exactly one of"}},
		"the longest programs":  {"      server:\n", strings.Repeat(waiting, spatev1.MaxCommands-7) + "      server:\n" + strings.Repeat(waiting, spatev1.MaxCommands-4), nil},
		"a longer program":      {"      server:\n", strings.Repeat(waiting, spatev1.MaxCommands-6) + "      server:\n", []string{"spec.source.programs.client: Too many: 4097: must have at most 4096 items"}},
		"pcap and programs":     {"source:\n", "source:\n    pcap: {from: {configMapKeyRef: {name: captures, key: http}}}\n", []string{"spec.source", "exactly one of the fields in [programs pcap http dns payload]"}},
		"a preset and programs": {"source:\n", "source:\n    http: {}\n", []string{"spec.source", "exactly one of the fields in [programs pcap http dns payload]"}},
		"rate in packets":       {"connectionRate: 100cps", "connectionRate: 100pps", []string{"spec.connectionRate", "must be connections a second"}},
		"two ends":              {"end: 16.0.0.254", "end: 16.0.0.254, count: 5", []string{"spec.pools.clients[0]", "exactly one of the fields in [end count]"}},
		"a count":               {"end: 16.0.0.254", "count: 254", nil},
		"mixed families":        {"end: 16.0.0.254", `end: "::1"`, []string{"spec.pools.clients[0]", "start and end must be of the same family"}},
		"two endings":           {"{httpMessage: {}}", "{httpMessage: {}, pattern: x}", []string{"spec.source.programs.client[5].receiveUntil", "exactly one of the fields in [pattern patternHex httpMessage]"}},
		"any base64":            {"{text: hello}", `{base64: "+/8="}`, nil},
		"half of base64":        {"{text: hello}", `{base64: "+/8=+/8"}`, []string{"spec.source.programs.client[1].send.content.base64", "should match"}},
		"two contents":          {"{content: {text: hello}}", "{content: {text: hello, base64: aGk=}}", []string{"spec.source.programs.client[1].send.content", "exactly one of the fields in [text hex base64 size from]"}},
		"half a field":          {"{offset: 1, counter: {width: 3}}", "{offset: 1}", []string{"spec.source.programs.server[1].send.content.fields[0]", "exactly one of the fields in [list counter]"}},
		"a wide counter":        {"{width: 3}", "{width: 21}", []string{"fields[0].counter.width"}},
		"no servers":            {"servers: [{name: s, start: 48.0.0.1, end: 48.0.0.254, order: Random, seed: 7, weight: 2}]", "servers: []", []string{"spec.pools.servers"}},
		"servers' ports":        {"weight: 2}", "weight: 2, sourcePorts: {start: 2000}}", []string{"spec.pools.servers", "startMAC and sourcePorts go with clients"}},
		"servers' tunnels":      {"weight: 2}", "weight: 2, gtpu: {local: 10.0.0.2, remote: 10.0.0.1, teid: 1}}", []string{"spec.pools.servers", "gtpu, vxlan, vlans and gateway go with clients"}},
		"servers in VXLAN":      {"weight: 2}", "weight: 2, vxlan: {local: 10.0.0.2, remote: 10.0.0.1, vni: 1, mirror: true}}", []string{"spec.pools.servers", "gtpu, vxlan, vlans and gateway go with clients"}},
		"VXLAN":                 {"end: 16.0.0.254", "end: 16.0.0.254, vxlan: {local: 10.0.0.2, localCount: 2, remote: 10.0.0.1, vni: 16777215, vniStep: 0, innerGatewayMAC: \"02:00:00:00:00:01\"}, gateway: 10.0.0.1", nil},
		"VXLAN to nobody":       {"end: 16.0.0.254", "end: 16.0.0.254, vxlan: {local: 10.0.0.2, remote: 10.0.0.1, vni: 1}", []string{"spec.pools.clients[0].vxlan", "set one of innerGatewayMAC and mirror"}},
		"a VNI of 25 bits":      {"end: 16.0.0.254", "end: 16.0.0.254, vxlan: {local: 10.0.0.2, remote: 10.0.0.1, vni: 16777216, mirror: true}", []string{"spec.pools.clients[0].vxlan.vni", "less than or equal to 16777215"}},
		"servers in VLANs":      {"weight: 2}", "weight: 2, vlans: [{id: 5}], gateway: 48.0.1.1}", []string{"spec.pools.servers", "gtpu, vxlan, vlans and gateway go with clients"}},
		"QinQ":                  {"end: 16.0.0.254", "end: 16.0.0.254, vlans: [{id: 200, protocol: 802.1ad}, {id: 7}], gateway: 16.0.1.1, mirrorVLANs: true", nil},
		"VLANs to nowhere":      {"end: 16.0.0.254", "end: 16.0.0.254, vlans: [{id: 5}]", []string{"spec.pools.clients[0]", "vlans go with a gateway"}},
		"three tags":            {"end: 16.0.0.254", "end: 16.0.0.254, vlans: [{id: 5}, {id: 6}, {id: 7}], gateway: 16.0.1.1", []string{"spec.pools.clients[0].vlans", "at most 2 items"}},
		"VLAN 4095":             {"end: 16.0.0.254", "end: 16.0.0.254, vlans: [{id: 4095}], gateway: 16.0.1.1", []string{"spec.pools.clients[0].vlans[0].id", "less than or equal to 4094"}},
		"another tag":           {"end: 16.0.0.254", "end: 16.0.0.254, vlans: [{id: 5, protocol: 802.1x}], gateway: 16.0.1.1", []string{"spec.pools.clients[0].vlans[0].protocol", `supported values: "802.1Q", "802.1ad"`}},
		"MACs in tunnels":       {"sourcePorts: {start: 2000, max: 3000}", "gtpu: {local: 10.0.0.2, remote: 10.0.0.1, teid: 1}", []string{"spec.pools.clients[0]", "startMAC does not go with gtpu"}},
		"tunnels' families":     {`startMAC: "02:00:00:00:00:01"`, `gtpu: {local: 10.0.0.2, remote: "::1", teid: 1}`, []string{"spec.pools.clients[0].gtpu", "local and remote must be of the same family"}},
		"a tunnel of none":      {`startMAC: "02:00:00:00:00:01"`, "gtpu: {local: 10.0.0.2, remote: 10.0.0.1, teid: 0}", []string{"spec.pools.clients[0].gtpu.teid", "greater than or equal to 1"}},
		"ports back":            {"max: 3000", "max: 3000, min: 3001", []string{"spec.pools.clients[0].sourcePorts", "min must not be greater than max"}},
		"no port":               {"  destinationPort: 80\n", "", []string{"spec.destinationPort", "is required: the port that the servers listen on"}},
		"latency of TCP":        {"connectionRate: 100cps", "connectionRate: 100cps\n  latency: true", []string{"spec.latency", "round trips are measured of UDP messages"}},
		"a match of both":       {"{text: GET}", "{text: GET, hex: \"00\"}", []string{"spec.match[0]", "exactly one of the fields in [text hex]"}},
		"clients of a group":    {"start: 16.0.0.1, end: 16.0.0.254", "start: 224.0.0.1, end: 224.0.0.9", []string{"spec.pools.clients[0].start", "an address that a host can have"}},
		"allowed groups":        {"start: 16.0.0.1, end: 16.0.0.254", `allowMulticast: true, start: "ff02::1", end: "ff02::9"`, nil},
		"groups in tunnels":     {`startMAC: "02:00:00:00:00:01"`, "allowMulticast: true, gtpu: {local: 10.0.0.2, remote: 10.0.0.1, teid: 1}", []string{"spec.pools.clients[0]", "allowMulticast does not go with gtpu"}},
		"up to the broadcast":   {"end: 16.0.0.254", "end: 255.255.255.255", []string{"spec.pools.clients[0].end", "an address that a host can have"}},
		"loopback":              {"start: 16.0.0.1, end: 16.0.0.254", `start: "::1", end: "::1"`, []string{"spec.pools.clients[0].start", "an address that a host can have"}},
		"link-local":            {"start: 16.0.0.1, end: 16.0.0.254", `start: "fe80::1", end: "fe80::2"`, nil},
		"a match far off":       {"{offset: 4, hex: 2f}", "{offset: 535, hex: 2f2f}", []string{"spec.match[1].offset", "within the first 536"}},
		"a match at the end":    {"{offset: 4, hex: 2f}", "{offset: 534, hex: 2f2f}", nil},
		"a long RTO":            {"  match: [", "  tunables: {client: {tcp: {minRTO: 61s}}}\n  match: [", []string{"spec.tunables.client.tcp.minRTO", "at most 60s"}},
		"a preset":              {source, "  source: {http: {requestBytes: 64, responseBytes: 1099511627776, requestsPerConnection: 1000000, path: \"/a?b\", thinkTime: 1ms}}\n", nil},
		"a preset's path":       {source, "  source: {http: {path: a b}}\n", []string{"spec.source.http.path", "must start with '/'"}},
		"a short request":       {source, "  source: {http: {requestBytes: 63}}\n", []string{"spec.source.http.requestBytes"}},
		"a preset's name":       {source, "  source: {dns: {name: -a.b}}\n", []string{"spec.source.dns.name", "must be a domain name"}},
		"a long label":          {source, "  source: {dns: {name: " + strings.Repeat("a", 64) + ".b}}\n", []string{"spec.source.dns.name", "each label of at most 63"}},
		"many answers":          {source, "  source: {dns: {answers: 29}}\n", []string{"spec.source.dns.answers"}},
		"latency of DNS":        {source + "  destinationPort: 80\n", "  source: {dns: {}}\n  latency: true\n", nil},
		"latency of HTTP":       {source, "  source: {http: {}}\n  latency: true\n", []string{"spec.latency", "round trips are measured of UDP messages"}},
		"a payload of none":     {source + "  destinationPort: 80\n", "  source: {payload: {transport: UDP, requestBytes: 1}}\n", []string{"spec.destinationPort", "is required"}},
		"delay min > max":       {"{min: 10ms, max: 20ms}", "{min: 30ms, max: 20ms}", []string{"spec.source.programs.client[3].delay", "min must not be greater than max"}},
	},
	Run: {
		"two profiles":       {"  overrides:", "  profile: {traffic: [{name: a, stream: {ref: {name: a}}}]}\n  overrides:", []string{"spec", "exactly one of the fields in [profileRef profile]"}},
		"no profile":         {"  profileRef: {name: imix}\n", "", []string{"spec", "exactly one of the fields in [profileRef profile]"}},
		"a duration of zero": {"duration: 10s", "duration: 0s", []string{"spec.overrides.duration", "must be greater than zero"}},
		"a rate of zero":     {"rate: 80%", "rate: 0%", []string{"spec.overrides.rate", "must be greater than zero"}},
		"a threshold twice":  {"[{name: no-loss, expression: result.lost == 0}]", "[{name: a, expression: x}, {name: a, expression: y}]", []string{"spec.overrides.thresholds[1]", "Duplicate value"}},
		"traffic overridden": {"    warmup: 1s", "    traffic: []", []string{`unknown field "spec.overrides.traffic"`}},
		"what is resolved":   {"  paused: true", "  tag: 1", []string{`unknown field "spec.tag"`}},
		"a time before now":  {"ttlSecondsAfterFinished: 3600", "ttlSecondsAfterFinished: -1", []string{"spec.ttlSecondsAfterFinished"}},
	},
	Describing: {
		"nothing to do":              {"    traffic:\n    - name: small\n      stream: {ref: {name: small}}\n", "", []string{"spec.profile", "there is nothing to do"}},
		"a generator inline":         {"generatorRef: {name: lab}", "generator: {ports: []}", []string{`unknown field "spec.profile.generator"`}},
		"a range of inline programs": {"stream: {ref: {name: small}}\n", programmed("{receive: {bytes: 0}}"), []string{"spec.profile.traffic[0].application.inline.source.programs.client[0].receive.bytes", "greater than or equal to 1"}},
		"inline programs":            {"stream: {ref: {name: small}}\n", programmed("{close: {}}"), nil},
		"a policy":                   {"    duration: 10s", "    runPolicy: Manual", []string{`unknown field "spec.profile.runPolicy"`}},
		"an entry of none":           {"      stream: {ref: {name: small}}\n", "", []string{"spec.profile.traffic[0]", "exactly one of"}},
	},
}
