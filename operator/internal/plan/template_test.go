// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/data"
)

const webTemplate = `
source:
  programs:
    transport: TCP
    client:
    - send: {content: {text: GET /}}
    - receive: {bytes: 5}
    - label: again
      delay: {min: 1ms, max: 2ms}
    - add: {variable: left, value: -1}
    - jump: {to: again, variable: left, comparison: Greater}
    server:
    - receive: {bytes: 5, clear: true}
    - setTime: {variable: start}
    - label: more
      send: {content: {size: 300}, waitForAck: false}
    - loop: {to: more, since: start, duration: 1s}
    - count: {counter: answered}
    - waitForPeerClose: {}
destinationPort: 80
connectionRate: 1.5kcps
pools:
  clients: [{name: c, start: 16.0.0.1, end: 16.0.0.254, portPairOffset: 1.0.0.0, sourcePorts: {start: 41668, step: 17405, min: 2000, max: 63999}, startMAC: "02:00:00:00:00:01"}]
  servers: [{name: s, start: 48.0.0.1, end: 48.0.0.254, order: Random, seed: 7, weight: 3}]
`

// templateOf returns a template with parts of its text replaced.
func templateOf(t *testing.T, text string, changes ...string) *spatev1.ASTFTemplate {
	t.Helper()
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%q is not in the template", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	template := &spatev1.ASTFTemplate{}
	if err := yaml.UnmarshalStrict([]byte(text), &template.Spec); err != nil {
		t.Fatal(err)
	}
	return template
}

// poolsOf returns a template's text from its pools on.
func poolsOf(text string) string {
	_, pools, _ := strings.Cut(text, "pools:")
	return "pools:" + pools
}

func running(name, template, transmit, receive string) spatev1.TrafficEntry {
	return spatev1.TrafficEntry{Name: spatev1.EntryName(name), Application: &spatev1.ApplicationEntry{TemplateRef: &spatev1.LocalReference{Name: spatev1.ObjectName(template)}},
		TransmitPort: spatev1.PortName(transmit), ReceivePort: spatev1.PortName(receive)}
}

func planOf(t *testing.T, in Input) *enginev1.Stateful {
	t.Helper()
	if in.Generator == nil {
		in.Generator = generator()
	}
	return mustResolve(t, in).Plan(Identity{RunID: "r"}).Stateful
}

// isJSON compares a message with its JSON.
func isJSON[T proto.Message](t *testing.T, got T, want string) {
	t.Helper()
	wanted := got.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal([]byte(want), wanted); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, wanted) {
		t.Errorf("got\n%s\nwant\n%s", protojson.Format(got), protojson.Format(wanted))
	}
}

func TestARampIsAWholeNumberOfSteps(t *testing.T) {
	for _, c := range []struct{ over, step spatev1.Duration }{{"", "1s"}, {"3s", "2s"}, {"3s", "4s"}, {"3s", "0s"}} {
		p := profile(running("web", "http", "east", "west"))
		p.Spec.RampUp, p.Spec.RampUpStep = c.over, c.step
		_, problems := Resolve(Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, webTemplate)}})
		if len(problems) != 1 || problems[0].Path != "spec.rampUpStep" {
			t.Errorf("%q by %q: got %v", c.over, c.step, problems)
		}
	}
}

func TestATemplateBecomesPartOfAPlan(t *testing.T) {
	p := profile(running("web", "http", "east", "west"))
	p.Spec.Rate, p.Spec.RampUp, p.Spec.MaxFlowsPerEngine, p.Spec.RandomOrderSeed = "2x", "3s", ptr.To[int64](1000), ptr.To[int64](555)
	p.Spec.RampUpStep = "1s"
	got := planOf(t, Input{Profile: p, Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, webTemplate)}})
	isJSON(t, got, `{
	  "payloads": [{"bytes": "R0VUIC8="}, {"size": 300}], "rampUpNs": 3000000000, "mostFlows": 1000, "drawSeed": 555, "rampUpStepNs": 1000000000,
	  "pools": [
	    {"name": "c", "first": "EAAAAQ==", "last": "EAAA/g==", "order": "POOL_ORDER_SEQUENTIAL", "firstMac": "AgAAAAAB", "sourcePorts": {"first": 41668, "step": 17405, "lowest": 2000, "highest": 63999}},
	    {"name": "s", "first": "MAAAAQ==", "last": "MAAA/g==", "order": "POOL_ORDER_RANDOM", "seed": 7}],
	  "templates": [{
	    "name": "web", "protocol": "TRANSPORT_PROTOCOL_TCP", "clientPort": "east", "serverPort": "west", "destinationPort": 80,
	    "flowsPerSecond": {"numerator": 3000, "denominator": 1}, "clients": [{"pool": 0, "weight": 1}], "servers": [{"pool": 1, "weight": 3}],
	    "client": {"variables": ["left"], "instructions": [
	      {"send": {"payload": 0, "wait": true}}, {"receive": {"bytes": 5}}, {"delay": {"minNs": 1000000, "maxNs": 2000000}},
	      {"add": {"variable": 0, "value": -1}}, {"jump": {"to": 2, "variable": 0, "comparison": "COMPARISON_GREATER"}}]},
	    "server": {"variables": ["start"], "counters": ["answered"], "instructions": [
	      {"receive": {"bytes": 5, "clear": true}}, {"mark": 0}, {"send": {"payload": 1}},
	      {"loop": {"to": 2, "since": 0, "durationNs": 1000000000}}, {"count": 0}, {"waitForPeerClose": {}}]}
	  }]}`)
}

func TestARampThatOutlastsTheRunIsReported(t *testing.T) {
	for ramp, refused := range map[spatev1.Duration]bool{"": false, "2999ms": false, "3s": true, "1h": true} {
		for _, endless := range []bool{false, true} {
			p := profile(running("web", "http", "east", "west"))
			p.Spec.RampUp, p.Spec.Warmup, p.Spec.Duration = ramp, "1s", "2s"
			if endless {
				p.Spec.Duration, refused = "", false
			}
			got := mustResolve(t, Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, webTemplate)}}).Warnings
			if (len(got) > 0) != refused || refused && got[0].Error() != "spec.rampUp: "+string(ramp)+" is not shorter than the run, whose warmup and duration are 3s: the full rate is never reached; shorten it, or run for longer" {
				t.Errorf("%q: got %v", ramp, got)
			}
		}
	}
}

func TestATemplateSwitchesItsProfilesKeepaliveOff(t *testing.T) {
	p := profile(running("web", "http", "east", "west"))
	p.Spec.Tunables.Client.TCP = &spatev1.TCPTunables{KeepaliveIdle: "10s"}
	for idle, want := range map[string]uint64{"0s": 0, "5s": 5e9} {
		template := templateOf(t, webTemplate, "pools:", "tunables: {client: {tcp: {keepaliveIdle: "+idle+"}}}\npools:")
		got := planOf(t, Input{Profile: p, Templates: map[string]*spatev1.ASTFTemplate{"http": template}})
		if ns := got.Templates[0].ClientTunables.KeepaliveIdleNs; ns != want {
			t.Errorf("%s: got %d", idle, ns)
		}
	}
}

func TestTemplatesShareWhatIsTheSame(t *testing.T) {
	other := templateOf(t, webTemplate, "GET /", "PUT /", "destinationPort: 80", "destinationPort: 81", "name: c", "name: other")
	random := templateOf(t, webTemplate, "seed: 7", "seed: 8", "size: 300", "text: GET /")
	got := planOf(t, Input{
		Profile:   profile(running("a", "one", "east", "west"), running("b", "two", "east", "west"), running("c", "three", "east", "west")),
		Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate), "two": other, "three": random},
	})
	if len(got.Payloads) != 3 || len(got.Pools) != 3 {
		t.Errorf("got %d payloads and %d pools", len(got.Payloads), len(got.Pools))
	}
	for i, want := range []struct {
		clients, servers, request, answer uint32
	}{{0, 1, 0, 1}, {0, 1, 2, 1}, {0, 2, 0, 0}} {
		one := got.Templates[i]
		if one.Clients[0].Pool != want.clients || one.Servers[0].Pool != want.servers ||
			one.Client.Instructions[0].GetSend().Payload != want.request || one.Server.Instructions[2].GetSend().Payload != want.answer {
			t.Errorf("template %d: got %v", i, one)
		}
	}
}

func TestClientsAndServersShareNoPool(t *testing.T) {
	plain := []string{", order: Random, seed: 7", "", `, portPairOffset: 1.0.0.0, sourcePorts: {start: 41668, step: 17405, min: 2000, max: 63999}, startMAC: "02:00:00:00:00:01"`, ""}
	back := slices.Concat(plain, []string{"clients: [{name: c, start: 16.0.0.1, end: 16.0.0.254}]", "clients: [{name: s, start: 48.0.0.1, end: 48.0.0.254}]",
		"servers: [{name: s, start: 48.0.0.1, end: 48.0.0.254, ", "servers: [{name: c, start: 16.0.0.1, end: 16.0.0.254, "})
	got := planOf(t, Input{Profile: profile(running("a", "one", "east", "west"), running("b", "two", "west", "east")), Templates: map[string]*spatev1.ASTFTemplate{
		"one": templateOf(t, webTemplate, plain...), "two": templateOf(t, webTemplate, back...),
	}})
	if len(got.Pools) != 4 {
		t.Errorf("got %v", got.Pools)
	}
}

func TestEachFurtherPairOfPortsHasItsOwnAddresses(t *testing.T) {
	got := planOf(t, Input{
		Profile:   profile(running("a", "one", "east", "west"), running("b", "one", "west", "east"), running("c", "one", "loop", "loop")),
		Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate)},
	})
	for i, first := range [][]byte{{16, 0, 0, 1}, {17, 0, 0, 1}, {18, 0, 0, 1}} {
		if pool := got.Pools[got.Templates[i].Clients[0].Pool]; !slices.Equal(pool.First, first) {
			t.Errorf("entry %d: got %v", i, pool)
		}
		if got.Templates[i].Servers[0].Pool != got.Templates[0].Servers[0].Pool {
			t.Errorf("entry %d: the servers have no offset", i)
		}
	}
}

func TestClientsAndServersOfOnePairOfPortsMayBeTwoEntries(t *testing.T) {
	got := planOf(t, Input{
		Profile:   profile(running("clients", "one", "east", ""), running("servers", "one", "", "west"), running("both", "one", "west", "east")),
		Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate, "seed: 7", "seed: 7, portPairOffset: 0.1.0.0")},
	})
	of := func(i int) []byte { return got.Pools[got.Templates[i].Servers[0].Pool].First }
	if !slices.Equal(of(0), []byte{48, 0, 0, 1}) || !slices.Equal(of(1), []byte{48, 0, 0, 1}) || !slices.Equal(of(2), []byte{48, 1, 0, 1}) {
		t.Errorf("got %v, %v, %v", of(0), of(1), of(2))
	}
}

func TestRealClientsAndRealServers(t *testing.T) {
	p := profile(running("clients", "one", "east", ""), running("servers", "two", "", "west"))
	p.Spec.Traffic[0].Application.ConnectionRate = "0.5cps"
	tuned := "tunables: {client: {ttl: 9}, server: {ttl: 8}}\nmaxFlows: 5\nmaxConcurrentFlows: 4\nmatch: [{offset: 1, text: E}]\npools:"
	got := planOf(t, Input{Profile: p, Templates: map[string]*spatev1.ASTFTemplate{
		"one": templateOf(t, webTemplate, "pools:", tuned), "two": templateOf(t, webTemplate, "pools:", tuned)}})
	clients, servers := got.Templates[0], got.Templates[1]
	if clients.Client == nil || clients.Server != nil || clients.ServerTunables != nil || clients.Match != nil || clients.FlowsPerSecond.Denominator != 2 ||
		clients.Limit != 5 || clients.MostOpen != 4 || len(clients.Servers) != 1 {
		t.Errorf("got %v", clients)
	}
	if servers.Client != nil || servers.Server == nil || servers.ClientTunables != nil || servers.FlowsPerSecond != nil || servers.Limit != 0 || servers.MostOpen != 0 ||
		len(servers.Clients) != 0 || string(servers.Match[0].Bytes) != "E" || servers.Match[0].Offset != 1 {
		t.Errorf("got %v", servers)
	}
}

func TestPayloadsAndTunables(t *testing.T) {
	template := templateOf(t, webTemplate,
		"{text: GET /}", `{text: GET /, fields: [{offset: 4, list: {text: [a, b]}}, {list: {hex: ["00ff", "01fe"]}}, {offset: 1, counter: {start: 7, width: 3}}]}`,
		"{size: 300}", "{from: {configMapKeyRef: {name: web, key: page}}}",
		"pools:", `tunables:
  client: {tos: 4, tcp: {mss: 1400, initialWindow: 2, receiveBuffer: 4096, sendBuffer: 8192, duplicateAckThreshold: 4, delayedAck: 0s, minRTO: 1ms,
    connectTimeout: 1s, keepaliveIdle: 2s, keepaliveInterval: 3s, noDelay: true, congestionControl: NewReno, timestamps: false, sack: false, windowScale: false,
    ecn: true, timeWait: 4s, blackhole: true}}
  server: {tcp: {timestamps: true, ecn: false}}
pools:`)
	p := profile(running("a", "one", "east", "west"))
	all := map[string]*spatev1.ASTFTemplate{"one": template}
	refs := DataReferences(p, nil, all)
	if len(refs) != 1 || refs[0].Key != "page" {
		t.Fatalf("got %v", refs)
	}
	got := planOf(t, Input{Profile: p, Templates: all, Data: map[spatev1.DataReference][]byte{refs[0]: []byte("hello")}})
	isJSON(t, got.Payloads[0], `{"bytes": "R0VUIC8=", "fields": [{"offset": 4, "list": {"values": ["YQ==", "Yg=="]}}, {"list": {"values": ["AP8=", "Af4="]}},
	  {"offset": 1, "counter": {"first": 7, "step": 1, "width": 3}}]}`)
	isJSON(t, got.Payloads[1], `{"bytes": "aGVsbG8="}`)
	isJSON(t, got.Templates[0].ClientTunables, `{"tos": 4, "mss": 1400, "initialWindow": 2, "receiveBuffer": 4096, "sendBuffer": 8192, "duplicateAckThreshold": 4,
	  "delayedAckNs": 0, "minimumRtoNs": 1000000, "connectTimeoutNs": 1000000000, "keepaliveIdleNs": 2000000000, "keepaliveIntervalNs": 3000000000, "noDelay": true,
	  "congestionControl": "CONGESTION_CONTROL_NEW_RENO", "noTimestamps": true, "noSack": true, "noWindowScale": true, "ecn": true, "timeWaitNs": 4000000000, "blackhole": true}`)
	isJSON(t, got.Templates[0].ServerTunables, `{}`)
}

func TestAContentWithoutBytesIsRefusedWithTheRemedy(t *testing.T) {
	p := profile(running("a", "one", "east", "west"))
	for name, c := range map[string]struct {
		bytes        map[spatev1.DataReference][]byte
		reason, want string
	}{
		"empty":  {map[spatev1.DataReference][]byte{fromConfigMap("web", "page").Reference(): {}}, spatev1.ReasonInvalidSpec, "is empty: store at least one byte there, or remove the command"},
		"absent": {map[spatev1.DataReference][]byte{}, spatev1.ReasonReferenceNotFound, "does not exist: apply it, or correct name and key"},
	} {
		t.Run(name, func(t *testing.T) {
			template := templateOf(t, webTemplate, "{size: 300}", "{from: {configMapKeyRef: {name: web, key: page}}}")
			_, problems := Resolve(Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"one": template}, Data: c.bytes})
			want := `spec.traffic[0].application.templateRef: ASTFTemplate "one": spec.source.programs.server[2].send.content.from: key "page" of ConfigMap "web" ` + c.want
			if problems.Reason() != c.reason || problems.Message() != want {
				t.Errorf("got %s: %s\nwant %s: %s", problems.Reason(), problems.Message(), c.reason, want)
			}
		})
	}
}

func TestTunablesOfAProfileHoldWhereATemplateHasNone(t *testing.T) {
	one := templateOf(t, webTemplate, "pools:", `tunables:
  client: {tos: 0, tcp: {mss: 1400, sack: true, blackhole: false}}
pools:`)
	p := profile(running("a", "one", "east", "west"), running("b", "two", "east", "west"))
	mss, ttl, tos, no, yes := int32(900), int32(9), int32(4), false, true
	p.Spec.Tunables = spatev1.Tunables{
		Client: spatev1.SideTunables{TTL: &ttl, TOS: &tos, TCP: &spatev1.TCPTunables{MSS: &mss, SACK: &no, Blackhole: &yes, MinRTO: "50ms"}},
		Server: spatev1.SideTunables{TCP: &spatev1.TCPTunables{MSS: &mss}},
	}
	all := map[string]*spatev1.ASTFTemplate{"one": one, "two": templateOf(t, webTemplate)}
	got := planOf(t, Input{Profile: p, Templates: all})
	isJSON(t, got.Templates[0].ClientTunables, `{"ttl": 9, "mss": 1400, "minimumRtoNs": 50000000}`)
	isJSON(t, got.Templates[1].ClientTunables, `{"ttl": 9, "tos": 4, "mss": 900, "minimumRtoNs": 50000000, "noSack": true, "blackhole": true}`)
	for _, template := range got.Templates {
		isJSON(t, template.ServerTunables, `{"mss": 900}`)
	}
	if *p.Spec.Tunables.Client.TCP.MSS != 900 {
		t.Error("the profile was changed")
	}
	p.Spec.Tunables.Server.TCP.MinRTO = "0s"
	_, problems := Resolve(Input{Profile: p, Templates: all, Generator: generator()})
	if len(problems) != 1 || problems[0].Path != "spec.tunables.server.tcp.minRTO" {
		t.Errorf("got %v", problems)
	}
}

const messages = `
source:
  programs:
    transport: UDP
    client: [{keepalive: {timeout: 2s}}, {sendMessage: {hex: "00ff"}}, {receiveMessages: {messages: 1, clear: true}}, {set: {variable: v, value: 3}}, {reset: {}}]
    server: [{receiveMessages: {messages: 1}}, {sendMessage: {base64: "AP8="}}, {leaveOpen: {}}]
destinationPort: 53
connectionRate: 1cps
latency: true
statisticsGroup: names
seed: 9
pools:
  clients: [{name: c, start: "fd00::1", end: "fd00::ff"}]
  servers: [{name: s, start: "fd01::1", end: "fd01::ff"}]
`

func TestMessagesAndSwitches(t *testing.T) {
	first := templateOf(t, webTemplate, "- count: {counter: answered}", "- receiveUntil: {httpMessage: {}}\n    - receiveUntil: {patternHex: 0d0a}\n    - switchTemplate: {template: two}")
	got := planOf(t, Input{
		Profile:   profile(running("dns", "names", "east", "west"), running("a", "one", "east", "west"), running("elsewhere", "two", "west", "east"), running("b", "two", "east", "west")),
		Templates: map[string]*spatev1.ASTFTemplate{"names": templateOf(t, messages), "one": first, "two": templateOf(t, webTemplate, "destinationPort: 80", "destinationPort: 81")},
	})
	isJSON(t, got.Templates[0], `{"name": "dns", "group": "names", "protocol": "TRANSPORT_PROTOCOL_UDP", "clientPort": "east", "serverPort": "west", "destinationPort": 53,
	  "flowsPerSecond": {"numerator": 1, "denominator": 1}, "clients": [{"pool": 0, "weight": 1}], "servers": [{"pool": 1, "weight": 1}], "seed": 9, "latency": true,
	  "client": {"variables": ["v"], "instructions": [{"keepaliveNs": 2000000000}, {"sendMessage": {}}, {"receiveMessages": {"messages": 1, "clear": true}}, {"set": {"value": 3}}, {"reset": {}}]},
	  "server": {"instructions": [{"receiveMessages": {"messages": 1}}, {"sendMessage": {}}, {"leaveOpen": {}}]}}`)
	instructions := got.Templates[1].Server.Instructions
	isJSON(t, instructions[4], `{"receiveUntil": {"httpMessage": {}}}`)
	isJSON(t, instructions[5], `{"receiveUntil": {"pattern": "DQo="}}`)
	if to := instructions[6].GetSwitchTemplate(); to != 3 {
		t.Errorf("switches to %d, want the one on the same ports", to)
	}
}

func TestCapturesAreForTheEngineToRead(t *testing.T) {
	text := "source: {pcap: {from: {configMapKeyRef: {name: captures, key: web}}}}\nconnectionRate: 1cps\n" + poolsOf(webTemplate)
	p := profile(running("a", "one", "east", "west"), running("b", "two", "east", "west"))
	onVolume := templateOf(t, text, "from: {configMapKeyRef: {name: captures, key: web}}", "volume: {name: captures, path: a/web.pcap}")
	g := generator(func(g *spatev1.TrafficGenerator) { g.Spec.Volumes = []spatev1.GeneratorVolume{{Name: "captures"}} })
	got := planOf(t, Input{Profile: p, Generator: g, Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, text), "two": onVolume},
		Data: map[spatev1.DataReference][]byte{{Kind: spatev1.DataConfigMap, Name: "captures", Key: "web"}: []byte("hello")}})
	if one := got.Templates[0]; string(one.Capture.GetPcap()) != "hello" || one.Client != nil || one.Server != nil || one.DestinationPort != 0 || one.Protocol != 0 {
		t.Errorf("got %v", one)
	}
	if path := got.Templates[1].Capture.GetPath(); path != data.VolumesDir+"/captures/a/web.pcap" {
		t.Errorf("got %s", path)
	}
}

// counters returns commands that count: one more than the maximum.
func counters(most int) string {
	var all strings.Builder
	for i := range most + 1 {
		fmt.Fprintf(&all, "    - count: {counter: c%d}\n", i)
	}
	return strings.TrimPrefix(all.String(), "    ")
}

func TestTemplatesThatCannotBeRun(t *testing.T) {
	for name, c := range map[string]struct {
		changes []string
		want    string
	}{
		"an unknown label":         {[]string{"to: again", "to: nowhere"}, `spec.source.programs.client[4].jump.to: "nowhere" is the label of no command of this program`},
		"a label of the other":     {[]string{"to: again", "to: more"}, `spec.source.programs.client[4].jump.to: "more" is the label of no command`},
		"a label twice":            {[]string{"- receive: {bytes: 5}\n", "- {label: again, receive: {bytes: 5}}\n"}, `spec.source.programs.client[2].label: "again" is the label of command 1 too`},
		"an unknown variable":      {[]string{"- add: {variable: left, value: -1}", "- close: {}"}, `spec.source.programs.client[4].jump.variable: nothing gives the variable "left" a value`},
		"an unknown mark":          {[]string{"since: start", "since: begin"}, `spec.source.programs.server[3].loop.since: nothing gives the variable "begin" a value`},
		"five variables":           {[]string{"- count: {counter: answered}", "- set: {variable: a, value: 1}\n    - set: {variable: b, value: 1}\n    - set: {variable: c, value: 1}\n    - set: {variable: d, value: 1}"}, "spec.source.programs.server: has 5 variables (start, a, b, c, d); at most 4"},
		"a wrong comparison":       {[]string{"comparison: Greater", "comparison: Near"}, `jump.comparison: "Near": must be Equal`},
		"two commands":             {[]string{"delay: {min: 1ms, max: 2ms}", "delay: {min: 1ms, max: 2ms}\n      close: {}"}, "spec.source.programs.client[2]: set exactly one of connect, accept"},
		"a delay back":             {[]string{"max: 2ms", "max: 2us"}, "delay.max: 2us is less than min, which is 1ms"},
		"no content":               {[]string{"{text: GET /}", "{}"}, "spec.source.programs.client[0].send.content: set exactly one of text, hex, base64, size and from"},
		"odd digits":               {[]string{"text: GET /", "hex: abc"}, `content.hex: "abc": must be hex digits`},
		"a field outside":          {[]string{"{text: GET /}", "{text: GET /, fields: [{offset: 4, counter: {width: 2}}]}"}, "content.fields[0].offset: 2 bytes at 4 do not lie within the 5 bytes"},
		"values of two lengths":    {[]string{"{text: GET /}", "{text: GET /, fields: [{list: {text: [a, bc]}}]}"}, "fields[0].list.text[1]: has 2 bytes, and the first 1: all must be of one length, which is the field's: pad the shorter ones"},
		"too many digits":          {[]string{"{text: GET /}", "{text: GET /, fields: [{counter: {width: 21}}]}"}, "fields[0].counter.width: 21: must be 1 to 20"},
		"a long pattern":           {[]string{"- count: {counter: answered}", "- receiveUntil: {pattern: " + strings.Repeat("x", 65) + "}"}, "receiveUntil.pattern: has 65 bytes; at most 64"},
		"no time":                  {[]string{"connectionRate: 1.5kcps", "connectionRate: 1pps"}, `spec.connectionRate: "1pps": must be connections a second`},
		"no rate":                  {[]string{"connectionRate: 1.5kcps", "connectionRate: 0cps"}, `spec.connectionRate: "0cps": must be greater than zero`},
		"another transport":        {[]string{"transport: TCP", "transport: SCTP"}, `spec.source.programs.transport: "SCTP": must be TCP or UDP`},
		"latency of TCP":           {[]string{"connectionRate:", "latency: true\nconnectionRate:"}, "spec.latency: round trips are measured of UDP messages"},
		"no port":                  {[]string{"destinationPort: 80\n", ""}, "spec.destinationPort: is required: the port that the servers listen on"},
		"port 0":                   {[]string{"destinationPort: 80", "destinationPort: 0"}, "spec.destinationPort: 0: must be 1 to 65535"},
		"addresses back":           {[]string{"end: 16.0.0.254", "end: 16.0.0.0"}, "spec.pools.clients[0].end: 16.0.0.0 is less than start, which is 16.0.0.1"},
		"families in a pool":       {[]string{"end: 16.0.0.254", `end: "fd00::1"`}, "spec.pools.clients[0].end: fd00::1 is not of the family of start"},
		"families in a template":   {[]string{"start: 48.0.0.1, end: 48.0.0.254", `start: "fd00::1", end: "fd00::2"`}, "spec.pools.servers[0].start: fd00::1 is not of the family of spec.pools.clients[0].start, which is 16.0.0.1"},
		"a name":                   {[]string{"start: 16.0.0.1", "start: localhost"}, `spec.pools.clients[0].start: "localhost": must be an IP address`},
		"a group's MAC":            {[]string{"02:00:00:00:00:01", "03:00:00:00:00:01"}, `spec.pools.clients[0].startMAC: "03:00:00:00:00:01": must be the MAC address of a station`},
		"a source port":            {[]string{"start: 41668", "start: 65536"}, "spec.pools.clients[0].sourcePorts.start: 65536: must be 0 to 65535"},
		"no source ports":          {[]string{"min: 2000, max: 63999", "max: 1023"}, "spec.pools.clients[0].sourcePorts.max: 1023 is less than min, which is 1024"},
		"source ports of servers":  {[]string{"order: Random, seed: 7", "sourcePorts: {start: 2000}"}, "spec.pools.servers[0]: startMAC and sourcePorts go with clients"},
		"tunnels of servers":       {[]string{"order: Random, seed: 7", "gtpu: {local: 10.0.0.2, remote: 10.0.0.1, teid: 1}"}, "spec.pools.servers[0].gtpu: goes with clients"},
		"MACs in tunnels":          {[]string{"portPairOffset: 1.0.0.0,", "gtpu: {local: 10.0.0.2, remote: 10.0.0.1, teid: 1},"}, "spec.pools.clients[0].startMAC: does not go with gtpu"},
		"moved tunnels":            {[]string{`startMAC: "02:00:00:00:00:01"`, "gtpu: {local: 10.0.0.2, remote: 10.0.0.1, teid: 1}"}, "spec.pools.clients[0].portPairOffset: does not go with gtpu"},
		"tunnels of two families":  {[]string{`startMAC: "02:00:00:00:00:01"`, `gtpu: {local: 10.0.0.2, remote: "fd00::1", teid: 1}`}, "spec.pools.clients[0].gtpu.remote: fd00::1 is not of the family of local"},
		"a TEID of none":           {[]string{`startMAC: "02:00:00:00:00:01"`, "gtpu: {local: 10.0.0.2, remote: 10.0.0.1, teid: 0}"}, "spec.pools.clients[0].gtpu.teid: 0: must be 1 to 4294967295"},
		"a QFI of seven bits":      {[]string{`startMAC: "02:00:00:00:00:01"`, "gtpu: {local: 10.0.0.2, remote: 10.0.0.1, teid: 1, qfi: 64}"}, "spec.pools.clients[0].gtpu.qfi: 64: must be 0 to 63"},
		"VXLAN of servers":         {[]string{"order: Random, seed: 7", "vxlan: {local: 10.0.0.2, remote: 10.0.0.1, vni: 1, mirror: true}"}, "spec.pools.servers[0].vxlan: goes with clients"},
		"VXLAN and GTP-U":          {append(tunnelled(""), "gtpu:", "vxlan: {local: 10.0.0.3, remote: 10.0.0.1, vni: 1, mirror: true}, gtpu:"), "spec.pools.clients[0].gtpu: does not go with vxlan"},
		"moved VXLAN":              {[]string{"portPairOffset: 1.0.0.0,", "portPairOffset: 1.0.0.0, vxlan: {local: 10.0.0.2, remote: 10.0.0.1, vni: 1, mirror: true},"}, "spec.pools.clients[0].portPairOffset: does not go with vxlan"},
		"VXLAN to nobody":          {[]string{"portPairOffset: 1.0.0.0,", "vxlan: {local: 10.0.0.2, remote: 10.0.0.1, vni: 1},"}, "spec.pools.clients[0].vxlan: set exactly one of innerGatewayMAC and mirror"},
		"VXLAN to a group":         {[]string{"portPairOffset: 1.0.0.0,", `vxlan: {local: 10.0.0.2, remote: 10.0.0.1, vni: 1, innerGatewayMAC: "03:00:00:00:00:01"},`}, "spec.pools.clients[0].vxlan.innerGatewayMAC: "},
		"a VNI of 25 bits":         {[]string{"portPairOffset: 1.0.0.0,", "vxlan: {local: 10.0.0.2, remote: 10.0.0.1, vni: 16777216, mirror: true},"}, "spec.pools.clients[0].vxlan.vni: 16777216: must be 0 to 16777215"},
		"VXLAN of two families":    {[]string{"portPairOffset: 1.0.0.0,", `vxlan: {local: 10.0.0.2, remote: "fd00::1", vni: 1, mirror: true},`}, "spec.pools.clients[0].vxlan.remote: fd00::1 is not of the family of local"},
		"GRE of servers":           {[]string{"order: Random, seed: 7", "gre: {local: 10.0.0.2, remote: 10.0.0.1}"}, "spec.pools.servers[0].gre: goes with clients"},
		"GRE and GTP-U":            {append(tunnelled(""), "gtpu:", "gre: {local: 10.0.0.3, remote: 10.0.0.1}, gtpu:"), "spec.pools.clients[0].gtpu: does not go with gre"},
		"MACs in GRE":              {[]string{"portPairOffset: 1.0.0.0,", "gre: {local: 10.0.0.2, remote: 10.0.0.1},"}, "spec.pools.clients[0].startMAC: does not go with gre"},
		"moved GRE":                {[]string{`startMAC: "02:00:00:00:00:01"`, "gre: {local: 10.0.0.2, remote: 10.0.0.1}"}, "spec.pools.clients[0].portPairOffset: does not go with gre"},
		"steps of no keys":         {inTunnels("gre: {local: 10.0.0.2, remote: 10.0.0.1, keyStep: 1}"), "spec.pools.clients[0].gre.keyStep: goes with key"},
		"a key of 33 bits":         {inTunnels("gre: {local: 10.0.0.2, remote: 10.0.0.1, key: 4294967296}"), "spec.pools.clients[0].gre.key: 4294967296: must be 0 to 4294967295"},
		"GRE of two families":      {inTunnels(`gre: {local: 10.0.0.2, remote: "fd00::1"}`), "spec.pools.clients[0].gre.remote: fd00::1 is not of the family of local"},
		"labels of servers":        {[]string{"order: Random, seed: 7", "mpls: {local: 10.0.0.2, remote: 10.0.0.1, labels: [{label: 16}]}"}, "spec.pools.servers[0].mpls: goes with clients"},
		"labels and GRE":           {inTunnels("gre: {local: 10.0.0.2, remote: 10.0.0.1}, mpls: {local: 10.0.0.2, remote: 10.0.0.1, labels: [{label: 16}]}"), "spec.pools.clients[0].gre: does not go with mpls"},
		"no labels":                {inTunnels("mpls: {local: 10.0.0.2, remote: 10.0.0.1, labels: []}"), "spec.pools.clients[0].mpls.labels: has 0 labels: must have 1 to 8"},
		"a label of 21 bits":       {inTunnels("mpls: {local: 10.0.0.2, remote: 10.0.0.1, labels: [{label: 16}, {label: 1048576}]}"), "spec.pools.clients[0].mpls.labels[1].label: 1048576: must be 0 to 1048575"},
		"implicit null in a stack": {inTunnels("mpls: {local: 10.0.0.2, remote: 10.0.0.1, labels: [{label: 3}]}"), "spec.pools.clients[0].mpls.labels[0].label: 3 (implicit null) is in no label stack"},
		"a class of four bits":     {inTunnels("mpls: {local: 10.0.0.2, remote: 10.0.0.1, labels: [{label: 16, trafficClass: 8}]}"), "spec.pools.clients[0].mpls.labels[0].trafficClass: 8: must be 0 to 7"},
		"a label's TTL of 0":       {inTunnels("mpls: {local: 10.0.0.2, remote: 10.0.0.1, labels: [{label: 16, ttl: 0}]}"), "spec.pools.clients[0].mpls.labels[0].ttl: 0: must be 1 to 255"},
		"VLANs of servers":         {[]string{"order: Random, seed: 7", "vlans: [{id: 5}], gateway: 48.0.1.1"}, "spec.pools.servers[0]: vlans and gateway go with clients"},
		"VLANs to nowhere":         {[]string{"portPairOffset: 1.0.0.0,", "vlans: [{id: 5}],"}, "spec.pools.clients[0].gateway: is required with vlans"},
		"VLAN 4095":                {[]string{"portPairOffset: 1.0.0.0,", "vlans: [{id: 5}, {id: 4095}], gateway: 16.0.1.1,"}, "spec.pools.clients[0].vlans[1].id: 4095: must be 1 to 4094"},
		"three tags":               {[]string{"portPairOffset: 1.0.0.0,", "vlans: [{id: 5}, {id: 6}, {id: 7}], gateway: 16.0.1.1,"}, "spec.pools.clients[0].vlans: has 3 tags; at most 2"},
		"another tag":              {[]string{"portPairOffset: 1.0.0.0,", "vlans: [{id: 5, protocol: x}], gateway: 16.0.1.1,"}, `spec.pools.clients[0].vlans[0].protocol: "x": must be 802.1Q or 802.1ad`},
		"a mirror of nothing":      {[]string{"portPairOffset: 1.0.0.0,", "mirrorVLANs: true,"}, "spec.pools.clients[0].mirrorVLANs: goes with vlans"},
		"a gateway's family":       {[]string{"portPairOffset: 1.0.0.0,", `gateway: "fe80::1",`}, "spec.pools.clients[0].gateway: fe80::1 is not of the family of the clients"},
		"a client as gateway":      {[]string{"portPairOffset: 1.0.0.0,", "gateway: 16.0.0.254,"}, "spec.pools.clients[0].gateway: 16.0.0.254 is an address of the clients: use that of a next hop"},
		"a group as gateway":       {[]string{"portPairOffset: 1.0.0.0,", "gateway: 224.0.0.1,"}, "spec.pools.clients[0].gateway: 224.0.0.1 is no address that a host can have"},
		"a gateway of gNBs":        {append(tunnelled(", localCount: 4"), "gtpu:", `gateway: "fe80::1", gtpu:`), "spec.pools.clients[0].gateway: fe80::1 is not of the family of gtpu.local"},
		"a moved gateway":          {[]string{"portPairOffset: 1.0.0.0,", "portPairOffset: 1.0.0.0, gateway: 16.0.1.1,"}, "spec.pools.clients[0].portPairOffset: does not go with gateway"},
		"groups behind a gateway":  {[]string{"start: 16.0.0.1, end: 16.0.0.254, portPairOffset: 1.0.0.0,", "start: 224.0.0.1, end: 224.0.0.9, allowMulticast: true, gateway: 16.0.1.1,"}, "spec.pools.clients[0].allowMulticast: does not go with gateway"},
		"a seed without an order":  {[]string{"order: Random, ", ""}, "spec.pools.servers[0].seed: goes with order: Random"},
		"a segment of 8 bytes":     {[]string{"pools:", "tunables: {client: {tcp: {mss: 8}}}\npools:"}, "spec.tunables.client.tcp.mss: 8: must be 88 to 9176"},
		"a late acknowledgement":   {[]string{"pools:", "tunables: {server: {tcp: {delayedAck: 501ms}}}\npools:"}, "spec.tunables.server.tcp.delayedAck: 501ms: must be at most 500ms"},
		"an RTO of zero":           {[]string{"pools:", "tunables: {server: {tcp: {minRTO: 0s}}}\npools:"}, "spec.tunables.server.tcp.minRTO: must be greater than zero"},
		"a long RTO":               {[]string{"pools:", "tunables: {server: {tcp: {minRTO: 61s}}}\npools:"}, "spec.tunables.server.tcp.minRTO: 61s: must be at most 1m0s"},
		"many counters":            {[]string{"- count: {counter: answered}\n", counters(256)}, "spec.source.programs.server: has 257 counters; at most 256"},
		"a match far behind":       {[]string{"pools:", "match: [{offset: 535, text: ab}]\npools:"}, "spec.match[0].offset: 535: its 2 bytes must lie within the first 536"},
		"clients of a group":       {[]string{"16.0.0.1, end: 16.0.0.254", "224.0.0.1, end: 224.0.0.9"}, "spec.pools.clients[0].start: 224.0.0.1 is that of a group"},
		"up to a group":            {[]string{"16.0.0.1, end: 16.0.0.254", "223.255.255.1, end: 224.0.0.9"}, "spec.pools.clients[0].end: 224.0.0.9 is that of a group"},
		"all addresses":            {[]string{"16.0.0.1, end: 16.0.0.254", "0.0.0.0, end: 255.255.255.255"}, "spec.pools.clients[0].start: 0.0.0.0 is that of no station"},
		"over loopback":            {[]string{"16.0.0.1, end: 16.0.0.254", "126.0.0.1, end: 128.0.0.9"}, "spec.pools.clients[0]: 126.0.0.1 to 128.0.0.9 has 127.0.0.0, which is a loopback address"},
		"servers of broadcast":     {[]string{"48.0.0.1, end: 48.0.0.254", "255.255.255.0, end: 255.255.255.255"}, "spec.pools.servers[0].end: 255.255.255.255 is the broadcast address"},
		"IPv6 loopback":            {[]string{"16.0.0.1, end: 16.0.0.254", `"::1", end: "::9"`}, "spec.pools.clients[0].start: ::1 is the loopback address"},
		"IPv6 of none":             {[]string{"16.0.0.1, end: 16.0.0.254", `"::", end: "::"`}, "spec.pools.clients[0].start: :: is that of no station"},
		"IPv6 of a group":          {[]string{"16.0.0.1, end: 16.0.0.254", `"fe00::1", end: "ff02::1"`}, "spec.pools.clients[0].end: ff02::1 is that of a group"},
		"hosts among groups":       {[]string{"start: 16.0.0.1, end: 16.0.0.254", "start: 224.0.0.1, end: 240.0.0.1, allowMulticast: true"}, "spec.pools.clients[0].end: 240.0.0.1 is not multicast"},
		"hosts as groups":          {[]string{"order: Random, seed: 7", "allowMulticast: true"}, "spec.pools.servers[0].start: 48.0.0.1 is not multicast"},
		"groups in tunnels":        {[]string{"start: 16.0.0.1, end: 16.0.0.254, portPairOffset: 1.0.0.0,", "start: 224.0.0.1, end: 224.0.0.9, allowMulticast: true,", `startMAC: "02:00:00:00:00:01"`, "gtpu: {local: 10.0.0.2, remote: 10.0.0.1, teid: 1}"}, "spec.pools.clients[0].allowMulticast: does not go with gtpu"},
		"tunnels to a group":       {[]string{`portPairOffset: 1.0.0.0, `, "", `startMAC: "02:00:00:00:00:01"`, "gtpu: {local: 10.0.0.2, remote: 224.0.0.1, teid: 1}"}, "spec.pools.clients[0].gtpu.remote: 224.0.0.1 is no address"},
		"clients that are servers": {[]string{"48.0.0.1, end: 48.0.0.254", "16.0.0.200, end: 16.0.1.9"}, "spec.pools.clients[0]: 16.0.0.1 to 16.0.0.254 overlaps spec.pools.servers[0], which is 16.0.0.200 to 16.0.1.9: a client would connect to itself"},
		"a limit of none":          {[]string{"pools:", "maxFlows: 0\npools:"}, "spec.maxFlows: 0: must be at least 1"},
		"a match of nothing":       {[]string{"pools:", "match: [{offset: 1}]\npools:"}, "spec.match[0]: set exactly one of text and hex"},
		"two sources":              {[]string{"source:\n", "source:\n  pcap: {volume: {name: a, path: b}}\n"}, "spec.source: set exactly one of programs, pcap, http, dns and payload"},
		"receiving nothing":        {[]string{"receive: {bytes: 5}\n", "receive: {bytes: 0}\n"}, "spec.source.programs.client[1].receive.bytes: 0: must be at least 1"},
		"keepalive without a time": {[]string{"- count: {counter: answered}", "- keepalive: {timeout: 0s}"}, "spec.source.programs.server[4].keepalive.timeout: must be greater than zero"},
	} {
		t.Run(name, func(t *testing.T) {
			problems := application.Check(&templateOf(t, webTemplate, c.changes...).Spec)
			if len(problems) == 0 || !strings.Contains(problems.Message(), c.want) || problems.Reason() != spatev1.ReasonInvalidSpec {
				t.Errorf("got %s\nwant %s", problems.Message(), c.want)
			}
		})
	}
	for _, text := range []string{webTemplate, messages, "source: {pcap: {from: {configMapKeyRef: {name: a, key: b}}}}\nconnectionRate: 1cps\n" + poolsOf(webTemplate)} {
		if problems := application.Check(&templateOf(t, text).Spec); len(problems) > 0 {
			t.Errorf("a good one: got %v", problems)
		}
	}
}

func TestEntriesThatCannotRunATemplate(t *testing.T) {
	one := func(change ...func(*spatev1.TrafficEntry)) *spatev1.TrafficProfile {
		e := running("a", "one", "east", "west")
		for _, c := range change {
			c(&e)
		}
		return profile(e)
	}
	limited := func(limits spatev1.Limits) *spatev1.TrafficGenerator {
		return generator(func(g *spatev1.TrafficGenerator) { g.Spec.Limits = &limits })
	}
	for name, c := range map[string]struct {
		profile   *spatev1.TrafficProfile
		generator *spatev1.TrafficGenerator
		changes   []string
		reason    string
		want      string
	}{
		"no template": {one(func(e *spatev1.TrafficEntry) { e.Application.TemplateRef.Name = "two" }), nil, nil, spatev1.ReasonReferenceNotFound, `spec.traffic[0].application.templateRef.name: ASTFTemplate "two" does not exist in namespace test`},
		"a problem in it": {one(), nil, []string{"to: again", "to: nowhere"}, spatev1.ReasonInvalidSpec,
			`spec.traffic[0].application.templateRef: ASTFTemplate "one": spec.source.programs.client[4].jump.to: "nowhere"`},
		"no data":        {one(), nil, []string{"{size: 300}", "{from: {secretKeyRef: {name: web, key: page}}}"}, spatev1.ReasonReferenceNotFound, `key "page" of Secret "web" does not exist`},
		"no port at all": {one(func(e *spatev1.TrafficEntry) { e.TransmitPort, e.ReceivePort = "", "" }), nil, nil, spatev1.ReasonInvalidSpec, "spec.traffic[0].transmitPort: is required: generator lab has 4 ports, and only those of a generator with two ports are known by default"},
		"unknown port":   {one(func(e *spatev1.TrafficEntry) { e.TransmitPort = "north" }), nil, nil, spatev1.ReasonInvalidSpec, `spec.traffic[0].transmitPort: "north" is no port`},
		"unknown server": {one(func(e *spatev1.TrafficEntry) { e.ReceivePort = "south" }), nil, nil, spatev1.ReasonInvalidSpec, `spec.traffic[0].receivePort: "south" is no port`},
		"a discard port": {one(func(e *spatev1.TrafficEntry) { e.TransmitPort = "void" }), nil, nil, spatev1.ReasonInvalidSpec, "spec.traffic[0].transmitPort: void is a discard port"},
		"half a loopback": {one(func(e *spatev1.TrafficEntry) { e.TransmitPort, e.ReceivePort = "loop", "" }), nil, nil, spatev1.ReasonInvalidSpec,
			"spec.traffic[0]: a loopback port receives what itself sends"},
		"paused":       {one(func(e *spatev1.TrafficEntry) { e.Paused, e.TransmitPort = true, "" }), nil, nil, spatev1.ReasonInvalidSpec, "spec.traffic[0].paused: there are no clients to pause"},
		"a wrong rate": {one(func(e *spatev1.TrafficEntry) { e.Application.ConnectionRate = "1pps" }), nil, nil, spatev1.ReasonInvalidSpec, `spec.traffic[0].application.connectionRate: "1pps": must be`},
		"a rate of real clients": {one(func(e *spatev1.TrafficEntry) { e.TransmitPort, e.Application.ConnectionRate = "", "1cps" }), nil, nil, spatev1.ReasonInvalidSpec,
			"spec.traffic[0].application.connectionRate: there are no clients"},
		"no client": {one(), nil, []string{webTemplate[strings.Index(webTemplate, "    client:"):strings.Index(webTemplate, "    server:")], ""}, spatev1.ReasonInvalidSpec,
			"spec.traffic[0].application.templateRef: it has no source.programs.client, and its clients are at east"},
		"no addresses": {one(), nil, []string{webTemplate[strings.Index(webTemplate, "  clients:"):strings.Index(webTemplate, "  servers:")], ""}, spatev1.ReasonInvalidSpec,
			"spec.traffic[0].application.templateRef: it has no pools.clients, and its clients are at east"},
		"switched to nothing": {one(), nil, []string{"- count: {counter: answered}", "- switchTemplate: {template: two}"}, spatev1.ReasonInvalidSpec,
			`spec.traffic[0].application.templateRef: ASTFTemplate "one": spec.source.programs.server[4].switchTemplate.template: no entry of the profile runs "two" on the same ports`},
		"too far": {profile(running("a", "one", "east", "west"), running("b", "one", "west", "east")), nil, []string{"portPairOffset: 1.0.0.0", "portPairOffset: 255.0.0.0"}, spatev1.ReasonInvalidSpec,
			"spec.traffic[1].application.templateRef: with its portPairOffset taken 1 times, the addresses of pool c leave the address space"},
		"a total":         {scaledTo("1Mpps"), nil, nil, spatev1.ReasonInvalidSpec, `spec.rate: "1Mpps": the rate of templates cannot be given in packets or bits; use a factor`},
		"servers outside": {one(), limited(spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"16.0.0.0/8"}}), nil, spatev1.ReasonLimitExceeded, "clients connect to 48.0.0.1 to 48.0.0.254; generator lab allows only 16.0.0.0/8"},
		"clients outside": {one(), limited(spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"48.0.0.0/8"}}), nil, spatev1.ReasonLimitExceeded, "servers answer 16.0.0.1 to 16.0.0.254"},
		"anybody":         {one(func(e *spatev1.TrafficEntry) { e.TransmitPort = "" }), limited(spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"0.0.0.0/0"}}), nil, spatev1.ReasonLimitExceeded, "servers answer any real client"},
		"another port":    {one(), limited(spatev1.Limits{AllowedPorts: []spatev1.PortRange{"8000-9000"}}), nil, spatev1.ReasonLimitExceeded, "clients connect to port 80; generator lab allows only 8000-9000"},
		"tunnels outside": {one(), limited(spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"16.0.0.0/8", "48.0.0.0/8"}}), tunnelled(""), spatev1.ReasonLimitExceeded, "tunnels lead to 10.0.0.1; generator lab allows only 16.0.0.0/8, 48.0.0.0/8"},
		"tunnels back": {one(), limited(spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"16.0.0.0/8", "48.0.0.0/8", "10.0.0.0/30"}}), tunnelled(", localCount: 3, mirror: true"), spatev1.ReasonLimitExceeded,
			"mirrored tunnels lead back to 10.0.0.2 and on"},
		"tunnels' port": {one(), limited(spatev1.Limits{AllowedPorts: []spatev1.PortRange{"80"}}), tunnelled(""), spatev1.ReasonLimitExceeded, "tunnels are of UDP to port 2152; generator lab allows only 80"},
		"half a mirror": {one(func(e *spatev1.TrafficEntry) { e.ReceivePort = "" }), nil, tunnelled(", mirror: true"), spatev1.ReasonInvalidSpec,
			"spec.traffic[0].application.templateRef: pool c of its clients has gtpu.mirror, for which both sides are one entry's"},
		"half a bridge": {one(func(e *spatev1.TrafficEntry) { e.ReceivePort = "" }), nil, []string{"portPairOffset: 1.0.0.0,", "vlans: [{id: 5}], gateway: 16.0.1.1, mirrorVLANs: true,"}, spatev1.ReasonInvalidSpec,
			"spec.traffic[0].application.templateRef: pool c of its clients has mirrorVLANs, for which both sides are one entry's"},
		"too many flows": {one(), limited(spatev1.Limits{MaxRate: "1kbps"}), nil, spatev1.ReasonLimitExceeded, "and generator lab allows 1kbps (its spec.limits.maxRate)"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Profile: c.profile, Generator: c.generator, Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate, c.changes...)}}
			if in.Generator == nil {
				in.Generator = generator()
			}
			_, problems := Resolve(in)
			if len(problems) == 0 || problems.Reason() != c.reason || !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %s: %s\nwant %s: %s", problems.Reason(), problems.Message(), c.reason, c.want)
			}
		})
	}
	allowed := limited(spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"16.0.0.0/8", "48.0.0.0/8"}, AllowedPorts: []spatev1.PortRange{"80"}})
	planOf(t, Input{Profile: one(), Generator: allowed, Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate)}})
}

// tunnelled adds tunnels with these further settings to the clients of the template, and removes what is not valid with
// tunnels.
func tunnelled(more string) []string {
	return []string{"portPairOffset: 1.0.0.0, ", "", `startMAC: "02:00:00:00:00:01"`, "gtpu: {local: 10.0.0.2, remote: 10.0.0.1, teid: 1" + more + "}"}
}

// inTunnels puts clients into the tunnels of a text, without what does not go with them.
func inTunnels(text string) []string {
	return []string{"portPairOffset: 1.0.0.0, ", "", `startMAC: "02:00:00:00:00:01"`, text}
}

func TestTunnelsOfClientsBecomePartOfAPlan(t *testing.T) {
	changes := tunnelled(", localCount: 2, teidStep: 16, downlinkTEID: 4294967000, qfi: 0, mirror: true")
	got := planOf(t, Input{Profile: profile(running("web", "http", "east", "west")), Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, webTemplate, changes...)}})
	isJSON(t, got.Pools[0].Gtpu, `{"local": "CgAAAg==", "localCount": 2, "remote": "CgAAAQ==", "teid": 1, "teidStep": 16, "downlinkTeid": 4294967000, "qfi": 0, "mirror": true}`)
	allowed := generator(func(g *spatev1.TrafficGenerator) {
		g.Spec.Limits = &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"16.0.0.0/8", "48.0.0.0/8", "10.0.0.0/30"}, AllowedPorts: []spatev1.PortRange{"80", "2152"}}
	})
	got = planOf(t, Input{Profile: profile(running("web", "http", "east", "west")), Generator: allowed, Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, webTemplate, tunnelled("")...)}})
	isJSON(t, got.Pools[0].Gtpu, `{"local": "CgAAAg==", "remote": "CgAAAQ==", "teid": 1}`)
}

func TestVLANsAndGatewaysOfClientsBecomePartOfAPlan(t *testing.T) {
	for text, want := range map[string]string{
		"vlans: [{id: 200, protocol: 802.1ad}, {id: 7, protocol: 802.1Q}], gateway: 16.0.1.1, mirrorVLANs: true,": `{"vlans": [{"id": 200, "tpid": 34984}, {"id": 7}], "gateway": "EAABAQ==", "mirrorVlans": true}`,
		"gateway: 16.0.1.1,": `{"gateway": "EAABAQ=="}`,
	} {
		template := templateOf(t, webTemplate, "portPairOffset: 1.0.0.0,", text)
		got := planOf(t, Input{Profile: profile(running("web", "http", "east", "west")), Templates: map[string]*spatev1.ASTFTemplate{"http": template}}).Pools[0]
		isJSON(t, &enginev1.Pool{Vlans: got.Vlans, Gateway: got.Gateway, MirrorVlans: got.MirrorVlans}, want)
	}
}

func TestBothSidesMayBeOnOnePort(t *testing.T) {
	in := Input{Profile: profile(running("web", "http", "east", "east")), Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, webTemplate)}}
	if web := planOf(t, in).Templates[0]; web.ClientPort != "east" || web.ServerPort != "east" {
		t.Errorf("clients at %s, servers at %s", web.ClientPort, web.ServerPort)
	}
}

func TestVXLANOfClientsBecomesPartOfAPlan(t *testing.T) {
	const ends = "local: 10.0.0.2, localCount: 2, remote: 10.0.0.1, vni: 5000, "
	allowed := func(port spatev1.PortRange) *spatev1.TrafficGenerator {
		return generator(func(g *spatev1.TrafficGenerator) {
			g.Spec.Limits = &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"16.0.0.0/8", "48.0.0.0/8", "10.0.0.0/30"}, AllowedPorts: []spatev1.PortRange{"80", port}}
		})
	}
	for text, want := range map[string]string{
		`vniStep: 2, innerGatewayMAC: "02:00:00:00:00:09"`: `"vniStep": 2, "innerGatewayMac": "AgAAAAAJ"}`,
		"mirror: true": `"mirror": true}`,
	} {
		template := templateOf(t, webTemplate, "portPairOffset: 1.0.0.0,", "vxlan: {"+ends+text+"},")
		in := Input{Profile: profile(running("web", "http", "loop", "loop")), Generator: allowed("4789"), Templates: map[string]*spatev1.ASTFTemplate{"http": template}}
		isJSON(t, planOf(t, in).Pools[0].Vxlan, `{"local": "CgAAAg==", "localCount": 2, "remote": "CgAAAQ==", "vni": 5000, `+want)
		in.Generator = allowed("2152")
		_, problems := Resolve(in)
		if text := fmt.Sprint(problems); !strings.Contains(text, "tunnels are of UDP to port 4789; generator lab allows only 80, 2152") {
			t.Errorf("got %s", text)
		}
	}
}

// Limits on ports judge what is within: neither GRE nor MPLS has ports.
func TestGREAndMPLSOfClientsBecomePartOfAPlan(t *testing.T) {
	const ends = "local: 10.0.0.2, localCount: 2, remote: 10.0.0.1"
	const endsWant = `"local": "CgAAAg==", "localCount": 2, "remote": "CgAAAQ=="`
	allowed := func(to ...spatev1.CIDR) *spatev1.TrafficGenerator {
		return generator(func(g *spatev1.TrafficGenerator) {
			g.Spec.Limits = &spatev1.Limits{AllowedDestinations: append(to, "16.0.0.0/8", "48.0.0.0/8"), AllowedPorts: []spatev1.PortRange{"80"}}
		})
	}
	for text, want := range map[string]string{
		"gre: {" + ends + "}":                                       "{" + endsWant + "}",
		"gre: {" + ends + ", key: 0, keyStep: 4294967295}":          "{" + endsWant + `, "key": 0, "keyStep": 4294967295}`,
		"gre: {" + ends + ", key: 5, mirror: true}":                 "{" + endsWant + `, "key": 5, "mirror": true}`,
		"mpls: {" + ends + ", labels: [{label: 16}], mirror: true}": "{" + endsWant + `, "labels": [{"label": 16}], "mirror": true}`,
		"mpls: {" + ends + ", labels: [{label: 16}], labelStep: 2}": "{" + endsWant + `, "labels": [{"label": 16}], "labelStep": 2}`,
		"mpls: {" + ends + ", labels: [{label: 0, trafficClass: 7, ttl: 255}, {label: 1048575}], downlinkLabel: 3}": "{" + endsWant +
			`, "labels": [{"trafficClass": 7, "ttl": 255}, {"label": 1048575}], "downlinkLabel": 3}`,
	} {
		template := templateOf(t, webTemplate, inTunnels(text)...)
		in := Input{Profile: profile(running("web", "http", "east", "west")), Generator: allowed("10.0.0.0/30"), Templates: map[string]*spatev1.ASTFTemplate{"http": template}}
		pool := planOf(t, in).Pools[0]
		if strings.HasPrefix(text, "gre") {
			isJSON(t, pool.Gre, want)
		} else {
			isJSON(t, pool.Mpls, want)
		}
		in.Generator = allowed("10.0.0.2/31")
		_, problems := Resolve(in)
		if told := fmt.Sprint(problems); !strings.Contains(told, "tunnels lead to 10.0.0.1; generator lab allows only") {
			t.Errorf("%s: got %s", text, told)
		}
	}
}

func scaledTo(rate spatev1.ScaledRate) *spatev1.TrafficProfile {
	p := profile(running("a", "one", "east", "west"), entryOf("b", "east", "west", streamOf("1kpps", 64)))
	p.Spec.Rate = rate
	return p
}

func TestTemplatesAreScaledByFactorsWhileTheyRun(t *testing.T) {
	p := scaledTo("")
	in := Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate)}}
	resolved := mustResolve(t, in)
	made := resolved.Plan(Identity{RunID: "r"})
	if got, err := Rescale(made, resolved.Factor, "3x", generator()); err != nil || got.Factor.RatString() != "3" {
		t.Errorf("got %v %v", got.Factor, err)
	}
	if _, err := Rescale(made, resolved.Factor, "1Mpps", generator()); err == nil || !strings.Contains(err.Error(), "the rate of templates cannot be given") {
		t.Errorf("got %v", err)
	}
	refs := resolved.Definitions
	if len(refs) != 1 || refs[0].Kind != "ASTFTemplate" || refs[0].Digest != TemplateDigest(&in.Templates["one"].Spec) || len(resolved.Entries) != 2 {
		t.Errorf("got %v, %v", refs, resolved.Entries)
	}
	before := ProfileDigest(p)
	p.Spec.Traffic[0].Application.ConnectionRate = "5cps"
	if ProfileDigest(p) != before {
		t.Error("another rate of connections is no other run")
	}
}

func TestEntriesOfTemplatesChangeWhileARunIsUnderWay(t *testing.T) {
	p := scaledTo("2x")
	p.Spec.Traffic[0].Application.ConnectionRate, p.Spec.Traffic[0].Paused = "30cps", true
	template := templateOf(t, webTemplate)
	resolved := mustResolve(t, Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"one": template}})
	want := spatev1.EntrySnapshot{Name: "a", Template: "one", ConnectionRate: "30cps", TemplateRate: template.Spec.ConnectionRate, Paused: true}
	if len(resolved.Entries) != 2 || resolved.Entries[1] != want {
		t.Fatalf("entries %+v", resolved.Entries)
	}
	made := resolved.Plan(Identity{RunID: "r"})
	if first := made.Stateful.Templates[0]; !first.Paused || first.FlowsPerSecond.Numerator != 60 {
		t.Errorf("planned %v", first)
	}
	if got := EntryStates(resolved.Entries, p); got != nil {
		t.Errorf("nothing was changed, got %+v", got)
	}
	p.Spec.Traffic[0].Application.ConnectionRate, p.Spec.Traffic[0].Paused = "", false
	changes := EntryStates(resolved.Entries, p)
	if want := []spatev1.EntryChange{{Name: "a", ConnectionRate: template.Spec.ConnectionRate}}; !slices.Equal(changes, want) {
		t.Fatalf("changes %+v", changes)
	}
	changes[0].ConnectionRate = "0.5cps"
	live, err := Adjust(made, resolved.Factor, "3x", changes, nil, generator())
	if err != nil || len(live.Rates) != 0 || live.ConnectionRates["a"].GetNumerator() != 3 || live.ConnectionRates["a"].GetDenominator() != 2 {
		t.Errorf("got %v %v", live.ConnectionRates, err)
	}
	changes[0].ConnectionRate = "often"
	if _, err := Adjust(made, resolved.Factor, "3x", changes, nil, generator()); err == nil || !strings.Contains(err.Error(), `entry a: connectionRate "often": must be`) {
		t.Errorf("got %v", err)
	}
}

func TestEachPodNeedsAClientOfItsOwn(t *testing.T) {
	four := generator()
	four.Spec.Replicas = 4
	for last, want := range map[string]string{
		"16.0.0.4": "",
		"16.0.0.3": `spec.traffic[0].application.templateRef: ASTFTemplate "http": spec.pools.clients[0] has 3 addresses for the 4 pods of generator lab, and each needs clients of its own: give it at least 4, or use fewer replicas`,
	} {
		template := templateOf(t, webTemplate, "end: 16.0.0.254", "end: "+last, "end: 48.0.0.254", "end: 48.0.0.1")
		in := Input{Profile: profile(running("web", "http", "east", "west")), Generator: four, Templates: map[string]*spatev1.ASTFTemplate{"http": template}}
		_, problems := Resolve(in)
		if got := problems.Message(); got != want {
			t.Errorf("%s: got %q, want %q", last, got, want)
		}
		// With real clients, a pod without servers has nothing to do.
		in.Profile = profile(running("web", "http", "", "west"))
		if _, problems := Resolve(in); len(problems) > 0 {
			t.Errorf("%s: servers: got %q", last, problems.Message())
		}
	}
}

func TestGNBsAreSplitOverPodsAsTheirClients(t *testing.T) {
	three := generator()
	three.Spec.Replicas = 3
	for count, want := range map[string]string{
		", localCount: 6": "",
		", localCount: 4": `spec.traffic[0].application.templateRef: ASTFTemplate "http": spec.pools.clients[0].gtpu.localCount: 4 gNBs cannot be split over the 3 pods of generator lab as their clients are: use a multiple of 3, or fewer replicas`,
		"":                `spec.traffic[0].application.templateRef: ASTFTemplate "http": spec.pools.clients[0].gtpu.localCount: 1 gNBs cannot be split over the 3 pods of generator lab as their clients are: use a multiple of 3, or fewer replicas`,
	} {
		template := templateOf(t, webTemplate, tunnelled(count)...)
		in := Input{Profile: profile(running("web", "http", "east", "west")), Generator: three, Templates: map[string]*spatev1.ASTFTemplate{"http": template}}
		_, problems := Resolve(in)
		if got := problems.Message(); got != want {
			t.Errorf("%q: got %q, want %q", count, got, want)
		}
	}
}

// A load of a search in connections a second is the sum of all applications with clients, which keep their proportions.
func TestConnectionsASecondScaleAllTemplates(t *testing.T) {
	for _, c := range []struct {
		rate spatev1.ScaledRate
		want [2]uint64
	}{{"300cps", [2]uint64{100, 200}}, {"6kcps", [2]uint64{2000, 4000}}, {"2x", [2]uint64{1000, 2000}}} {
		p := profile(running("a", "one", "east", "west"), running("b", "one", "east", "west"))
		p.Spec.Traffic[0].Application.ConnectionRate, p.Spec.Traffic[1].Application.ConnectionRate = "500cps", "1kcps"
		p.Spec.Rate = c.rate
		made := planOf(t, Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate)}})
		for i, want := range c.want {
			if got := made.Templates[i].FlowsPerSecond; got.Numerator != want || got.Denominator != 1 {
				t.Errorf("%s: %v, want %d", c.rate, got, want)
			}
		}
	}
	p := profile(entryOf("b", "east", "west", streamOf("1kpps", 64)))
	p.Spec.Rate = "300cps"
	if _, problems := Resolve(Input{Profile: p, Generator: generator()}); len(problems) != 1 || !strings.Contains(problems[0].Error(), `spec.rate: "300cps": connections and transactions a second are those of applications that have clients`) {
		t.Errorf("%v", problems)
	}
	resolved := mustResolve(t, Input{Profile: scaledTo("2x"), Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate)}})
	if got, err := Rescale(resolved.Plan(Identity{RunID: "r"}), resolved.Factor, "4.5kcps", generator()); err != nil || got.OwnFactor.RatString() != "3" {
		t.Errorf("got %v %v", got.OwnFactor, err)
	}
}
