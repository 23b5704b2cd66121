// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/origin"
)

func TestWhatEnginesRefuseIsReportedByTheFieldsThatWereWritten(t *testing.T) {
	referring := entryOf("r", "east", "west", nil)
	referring.Stream = &spatev1.StreamEntry{Ref: &spatev1.LocalReference{Name: "web"}}
	p := profile(entryOf("s", "east", "west", streamOf("1kpps", 64)), referring, running("web", "http", "east", "west"), running("dns", "names", "east", "west"))
	in := Input{Profile: p, Generator: generator(), Streams: map[string]*spatev1.StatelessStream{"web": {Spec: *streamOf("1kpps", 64)}}, Templates: map[string]*spatev1.ASTFTemplate{
		"http":  templateOf(t, webTemplate, "min: 1ms, max: 2ms", "min: 1ms", "- count: {counter: answered}", "- delay: {min: 1s, max: 2s}\n    - count: {counter: answered}"),
		"names": templateOf(t, messages),
	}}
	resolved := mustResolve(t, in)
	o := origin.Of(resolved.Plan(Identity{RunID: "r"}), resolved.Entries, resolved.Clients)
	web := `entry web: ASTFTemplate "http": spec.`
	for path, c := range map[string]struct{ description, want string }{
		"stateful.templates[0].server.instructions[6].wait_for_peer_close":  {"x", web + "source.programs.server[6].waitForPeerClose: x"},
		"stateful.templates[0].client.instructions[0].send.payload":         {"payload 0 has 70000 bytes", web + "source.programs.client[0].send.content: has 70000 bytes"},
		"stateful.templates[1].client.instructions[0].keepalive_ns":         {"9 ns; at most 5", `entry dns: ASTFTemplate "names": spec.source.programs.client[0].keepalive.timeout: 9ns; at most 5ns`},
		"stateful.templates[1].client.instructions[1].send_message.payload": {"x", `entry dns: ASTFTemplate "names": spec.source.programs.client[1].sendMessage: x`},
		"stateful.templates[0].client.instructions[2].delay.max_ns":         {"3600000000000000000 ns; must be at most 315360000000000000 (ten years)", web + "source.programs.client[2].delay.min: 1000000h0m0s; must be at most 87600h0m0s (ten years)"},
		"stateful.templates[0].server.instructions[4].delay.max_ns":         {"x", web + "source.programs.server[4].delay.max: x"},
		"stateful.templates[0].client.instructions[4].jump.to":              {"goes back to 2, and nothing", web + "source.programs.client[4].jump.to: goes back to command 2, and nothing"},
		"stateful.templates[0].server.instructions[3].loop.duration_ns":     {"x", web + "source.programs.server[3].loop.duration: x"},
		"stateful.templates[0].server.instructions[1].mark":                 {"x", web + "source.programs.server[1].setTime.variable: x"},
		"stateful.templates[0].server.counters[0]":                          {"x", web + "source.programs.server[5].count.counter: x"},
		"stateful.templates[0].server.counters":                             {"x", web + "source.programs.server: x"},
		"stateful.templates[0].client.instructions[99].send":                {"x", web + "source.programs.client: x"},
		"stateful.templates[0].client_tunables.minimum_rto_ns":              {"3600000000000000; must be 1..60000000000", web + "tunables.client.tcp.minRTO (or the profile's): 1000h0m0s; must be 1ns..1m0s"},
		"stateful.templates[0].server_tunables.tos":                         {"x", web + "tunables.server.tos (or the profile's): x"},
		"stateful.templates[0].client_tunables.no_window_scale":             {"x", web + "tunables.client.tcp.windowScale (or the profile's): x"},
		"stateful.templates[0].name":                                        {`"a" is stateful.templates[1]'s already`, `entry web: name: "a" is entry dns's already`},
		"stateful.templates[0].server_port":                                 {"x", "entry web: receivePort: x"},
		"stateful.templates[0].match[1]":                                    {"x", web + "match[1]: x"},
		"stateful.templates[0].most_open":                                   {"x", web + "maxConcurrentFlows: x"},
		"stateful.templates[0].flows_per_second":                            {"x", web + "connectionRate: x"},
		"stateful.templates[0].servers[0].pool":                             {"pool 1 has gtpu", web + "pools.servers[0]: the pool has gtpu"},
		"stateful.pools[0].gtpu.downlink_teid":                              {"use a lower teid_step or local_count", web + "pools.clients[0].gtpu.downlinkTEID: use a lower teidStep or localCount"},
		"stateful.pools[1].last":                                            {"see stateful.pools[0].first_mac (templates[1])", web + "pools.servers[0].end: see " + web + "pools.clients[0].startMAC (entry dns)"},
		"stateful.payloads[1].fields[0].offset":                             {"x", web + "source.programs.server[2].send.content.fields[0].offset: x"},
		"stateful.most_flows":                                               {"x", "spec.maxFlowsPerEngine: x"},
		"stateful.records.one_in":                                           {"x", "spec.records.oneIn: x"},
		"stateful.ignored_sources.macs[2]":                                  {"x", "spec.ignoredSources.macs[2]: x"},
		"stateful.ignored_sources.prefixes[1].length":                       {"x", "spec.ignoredSources.addresses[1]: x"},
		"routes[2].prefixes.range.first":                                    {"see routes[0].name", "spec.routing.advertise[2].prefixes.range.first: see spec.routing.advertise[0].name"},
		"routes[1].prefixes.mrt.path":                                       {"x", "spec.routing.advertise[1].prefixes.mrt.volume: x"},
		"routes[0].attributes.large_communities[3]":                         {"x", "spec.routing.advertise[0].attributes.largeCommunities[3]: x"},
		"routes[0].sessions[1]":                                             {"x", "spec.routing.advertise[0].sessions[1]: x"},
		"routes_ready.quiet_ns":                                             {"9", "spec.routing.ready.quiet: 9ns"},
		"streams[0].packet.frame":                                           {"x", "entry s: stream.inline.packet: x"},
		"streams[0].replay.path":                                            {"x", "entry s: stream.inline.transmit.replay.pcap.volume: x"},
		"streams[0].replay.min_gap_ns":                                      {"7", "entry s: stream.inline.transmit.replay.minGap: 7ns"},
		"streams[0].rx_port":                                                {"like streams[1]", "entry s: receivePort: like stream r"},
		"streams[1].replay.path":                                            {`"/no": gone`, `entry r: StatelessStream "web": spec.transmit.replay.pcap.volume: "/no": gone`},
		"streams[1].program.writes[3].variable":                             {"x", `entry r: StatelessStream "web": spec.fields: x`},
		"streams[0].id":                                                     {"x", "stream s.id: x"},
		"timing.duration_ns":                                                {"x", "timing.duration_ns: x"},
		"streams[7].packet":                                                 {"x", "streams[7].packet: x"},
		"stateful.templates[7].client.instructions[0]":                      {"see streams[99999999999999999]", "stateful.templates[7].client.instructions[0]: see streams[99999999999999999]"},
	} {
		if got := o.Refused(path, c.description).Error(); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, c.want)
		}
	}
	for line, want := range map[string]string{
		"error: stateful.templates[0].client.instructions[1].receive.bytes: waits for 11 bytes": `error: ` + web + "source.programs.client[1].receive.bytes: waits for 11 bytes",
		"streams[0].replay: like streams[0]":                                                    "entry s: stream.inline.transmit.replay: like stream s",
		"wrote 7 packets":                                                                       "wrote 7 packets",
	} {
		if got := o.Line(line); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
	for path, want := range map[string]string{
		"stateful.templates[1].client.instructions[1].send_message": `spec.traffic[3].application.templateRef: ASTFTemplate "names": spec.source.programs.client[1].sendMessage: the engine would refuse it: x`,
		"stateful.templates[0].client_port":                         "spec.traffic[2].transmitPort: the engine would refuse it: x",
		"stateful.most_flows":                                       "spec.maxFlowsPerEngine: the engine would refuse it: x",
		"streams[0].replay.path":                                    "spec.traffic[0].stream.inline.transmit.replay.pcap.volume: the engine would refuse it: x",
		"streams[1].replay.path":                                    `spec.traffic[1].stream.ref: StatelessStream "web": spec.transmit.replay.pcap.volume: the engine would refuse it: x`,
		"streams[0].id":                                             "spec.traffic: the engine would refuse it: stream s.id: x",
		"":                                                          "spec.traffic: the engine would refuse it: x",
	} {
		if got := o.Refused(path, "x").Problem(p).Error(); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
		}
	}
}

// The user has not written the programs of a preset.
func TestARefusedProgramOfAPresetIsReportedAtThePreset(t *testing.T) {
	for source, c := range map[string]struct{ path, want string }{
		"{http: {}}":        {"stateful.templates[0].client.instructions[0].send.payload", "spec.source.http"},
		"{http: {path: /}}": {"stateful.payloads[0].bytes", "spec.source.http"},
		"{dns: {}}":         {"stateful.templates[0].server.instructions[1].send_message", "spec.source.dns"},
		"{payload: {transport: TCP, requestBytes: 1, responseBytes: 2}}": {"stateful.templates[0].protocol", "spec.source.payload.transport"},
	} {
		one, port := ofSource(t, source), int32(7)
		one.Spec.DestinationPort = &port
		in := Input{Profile: profile(running("a", "one", "east", "west")), Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"one": one}}
		resolved := mustResolve(t, in)
		o := origin.Of(resolved.Plan(Identity{RunID: "r"}), resolved.Entries, resolved.Clients)
		if got, want := o.Refused(c.path, "x").Error(), `entry a: ASTFTemplate "one": `+c.want+": x"; got != want {
			t.Errorf("%s: got %s, want %s", source, got, want)
		}
	}
}

func TestATemplateAloneBecomesAPlan(t *testing.T) {
	ref := spatev1.DataReference{Kind: spatev1.DataConfigMap, Name: "a", Key: "b"}
	withData := []string{"{size: 300}", "{from: {configMapKeyRef: {name: a, key: b}}}"}
	for name, c := range map[string]struct {
		text    string
		changes []string
		data    map[spatev1.DataReference][]byte
		why     string
	}{
		"both sides":    {webTemplate, nil, nil, ""},
		"messages":      {messages, nil, nil, ""},
		"a client only": {"source: {programs: {transport: TCP, client: [{send: {content: {text: x}}}]}}\ndestinationPort: 80\nconnectionRate: 1cps\n" + poolsOf(webTemplate), nil, nil, ""},
		"fast":          {webTemplate, []string{"1.5kcps", "100Gcps"}, nil, ""},
		"with its data": {webTemplate, withData, map[spatev1.DataReference][]byte{ref: []byte("x")}, ""},
		"without":       {webTemplate, withData, nil, `key "b" of ConfigMap "a" is looked up with a profile`},
		"on a volume":   {"source: {pcap: {volume: {name: a, path: b}}}\nconnectionRate: 1cps\n" + poolsOf(webTemplate), nil, nil, "its capture is on a volume"},
		"that goes on":  {webTemplate, []string{"- count: {counter: answered}", "- switchTemplate: {template: other}"}, nil, "the templates that it switches to"},
	} {
		t.Run(name, func(t *testing.T) {
			template := templateOf(t, c.text, c.changes...)
			template.Name = strings.Repeat("long-name-", 20)
			got, why := Alone(template, c.data)
			if (got == nil) != (c.why != "") || !strings.Contains(why, c.why) {
				t.Fatalf("got %v, %q", got, why)
			}
			if got == nil {
				return
			}
			one := got.Stateful.Templates[0]
			if len(got.Stateful.Templates) != 1 || one.ClientPort == one.ServerPort || (one.Server == nil) != (name == "a client only") {
				t.Errorf("got %v", one)
			}
			if message := origin.Of(got, nil, nil).Refused("stateful.templates[0].client_tunables.mss", "x").OfTemplate().Error(); message != "spec.tunables.client.tcp.mss: the engine would refuse it: x" {
				t.Errorf("got %s", message)
			}
		})
	}
}
