// SPDX-License-Identifier: Apache-2.0

package trex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/importer/content"
	"spate.dev/operator/internal/plan"
)

const (
	request = `{"name": "tx", "buf_index": 0}`
	answer  = `{"name": "tx", "buf_index": 1}`
)

// astfJSON returns a profile with one template, with parts of its text replaced.
func astfJSON(client, server string, changes ...string) []byte {
	text := fmt.Sprintf(`{"buf_list": ["R0VU", "AP8AAQ=="], "ip_gen_dist_list": [
	  {"ip_start": "16.0.0.0", "ip_end": "16.0.0.255", "distribution": "seq", "dir": "c", "ip_offset": "1.0.0.0"},
	  {"ip_start": "48.0.0.0", "ip_end": "48.0.255.255", "distribution": "seq", "dir": "s", "ip_offset": "1.0.0.0"}],
	  "program_list": [{"commands": [%s]}, {"commands": [%s]}],
	  "templates": [{"client_template": {"program_index": 0, "ip_gen": {"dist_client": {"index": 0}, "dist_server": {"index": 1}}, "cluster": {}, "port": 80, "cps": 2.5},
	    "server_template": {"program_index": 1, "assoc": [{"port": 80}]}, "tg_id": 1}], "tg_names": ["Web A"]}`, client, server)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			panic(changes[i] + " is not in the profile")
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	return []byte(text)
}

// runsTemplates returns a stateful profile's plan, which a generator must be able to run.
func runsTemplates(t testing.TB, got *Imported) *plan.Resolved {
	t.Helper()
	generator := &spatev1.TrafficGenerator{}
	generator.Name, generator.Spec.Replicas = string(got.Profile.Spec.GeneratorRef.Name), 1
	for _, name := range []spatev1.PortName{got.Profile.Spec.Traffic[0].TransmitPort, got.Profile.Spec.Traffic[0].ReceivePort} {
		generator.Spec.Ports = append(generator.Spec.Ports, spatev1.GeneratorPort{
			Name: name, Attachment: spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{NetworkReference: spatev1.NetworkReference{Network: "net"}}}})
	}
	in := plan.Input{Profile: got.Profile, Generator: generator, Templates: map[string]*spatev1.ASTFTemplate{}, Data: map[spatev1.DataReference][]byte{}}
	for _, template := range got.Templates {
		in.Templates[template.Name] = template
	}
	for _, one := range got.ConfigMaps {
		for key, data := range one.BinaryData {
			in.Data[spatev1.DataReference{Kind: spatev1.DataConfigMap, Name: spatev1.ObjectName(one.Name), Key: key}] = data
		}
	}
	resolved, problems := plan.Resolve(in)
	if len(problems) > 0 {
		t.Fatalf("it cannot be run: %v", problems)
	}
	return resolved
}

func importsASTF(t *testing.T, data []byte) *Imported {
	t.Helper()
	got, err := Import("p", data, Options{})
	if err != nil {
		t.Fatal(err)
	}
	runsTemplates(t, got)
	return got
}

// isYAML compares an object with YAML.
func isYAML(t *testing.T, got any, want string) {
	t.Helper()
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	normal, err := yaml.YAMLToJSON([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if normal, err = yaml.JSONToYAML(normal); err != nil {
		t.Fatal(err)
	}
	if string(text) != string(normal) {
		t.Errorf("got\n%s\nwant\n%s", text, normal)
	}
}

func TestAStatefulProfileBecomesTemplates(t *testing.T) {
	got := importsASTF(t, astfJSON(request+`, {"name": "rx", "min_bytes": 4}`, `{"name": "rx", "min_bytes": 3}, `+answer,
		`"tg_names"`, `"c_glob_info": {"scheduler": {"rampup_sec": 5}}, "tg_names"`))
	isYAML(t, got.Templates[0].Spec, `
destinationPort: 80
connectionRate: 2.5cps
statisticsGroup: web-a
pools:
  clients: [{name: clients, start: 16.0.0.0, end: 16.0.0.255, order: Forward, portPairOffset: 1.0.0.0, sourcePorts: {start: 41668, step: 17405, min: 1024, max: 63999}}]
  servers: [{name: servers, start: 48.0.0.0, end: 48.0.255.255, order: Forward, portPairOffset: 1.0.0.0}]
source:
  programs:
    transport: TCP
    client: [{send: {content: {text: GET}}}, {receive: {bytes: 4}}]
    server: [{receive: {bytes: 3}}, {send: {content: {base64: AP8AAQ==}}}]
tunables:
  client: {ttl: 127, tcp: {mss: 1460, initialWindow: 10, receiveBuffer: 32768, sendBuffer: 32768, congestionControl: NewReno}}
  server: {ttl: 127, tcp: {mss: 1460, initialWindow: 10, receiveBuffer: 32768, sendBuffer: 32768, congestionControl: NewReno}}
`)
	isYAML(t, got.Profile.Spec.Traffic, `[{name: web-a, transmitPort: port0, receivePort: port1, application: {templateRef: {name: p-web-a}}}]`)
	if got.Templates[0].Name != "p-web-a" || got.Profile.Name != "p" || got.Profile.Spec.RampUp != "5s" || got.Profile.Spec.RampUpStep != "1s" {
		t.Errorf("got %s in %s, %s by %s", got.Templates[0].Name, got.Profile.Name, got.Profile.Spec.RampUp, got.Profile.Spec.RampUpStep)
	}
}

func TestCommandsOfTRexKeepTheirMeaning(t *testing.T) {
	const wait = `{"name": "rx", "min_bytes": 3}`
	for name, c := range map[string]struct{ client, want string }{
		"a countdown": {`{"name": "set_var", "id": 0, "val": 9}, ` + request + `, {"name": "jmp_nz", "id": 0, "offset": -1}`,
			`[{set: {variable: var-0, value: 9}}, {label: step-2, send: {content: {text: GET}}}, {add: {variable: var-0, value: -1}}, {jump: {to: step-2, variable: var-0, comparison: NotEqual}}]`},
		"a jump to a jump": {`{"name": "set_var", "id": 0, "val": 9}, {"name": "delay", "usec": 20.5}, {"name": "jmp_nz", "id": 0, "offset": 1}, {"name": "jmp_nz", "id": 0, "offset": -1}`,
			`[{set: {variable: var-0, value: 9}}, {delay: {min: 20500ns}}, {label: step-3, add: {variable: var-0, value: -1}}, {jump: {to: step-4, variable: var-0, comparison: NotEqual}},
			  {label: step-4, add: {variable: var-0, value: -1}}, {jump: {to: step-3, variable: var-0, comparison: NotEqual}}]`},
		"a jump to the end": {request + `, {"name": "add_var", "id": 1, "val": 2}, {"name": "jmp_cmp", "id": 1, "offset": 2, "cmp_op": "ge", "cmp_val": 2}, {"name": "delay", "usec": 1000}`,
			`[{send: {content: {text: GET}}}, {add: {variable: var-1, value: 2}}, {jump: {to: step-5, variable: var-1, comparison: GreaterOrEqual, value: 2}}, {delay: {min: 1ms}}, {label: step-5, close: {}}]`},
		"a jump always": {request + `, {"name": "jmp_cmp", "offset": 2}, {"name": "delay", "usec": 0}, ` + request,
			`[{send: {content: {text: GET}}}, {set: {variable: always, value: 0}}, {jump: {to: step-4, variable: always, comparison: Equal}}, {delay: {min: 0s}}, {label: step-4, send: {content: {text: GET}}}]`},
		"a loop for a time": {`{"name": "set_tick_var", "id": 0}, ` + request + `, {"name": "jmp_dp", "id": 0, "offset": -1, "duration": 0.5}`,
			`[{setTime: {variable: tick-0}}, {label: step-2, send: {content: {text: GET}}}, {loop: {to: step-2, since: tick-0, duration: 500ms}}]`},
		"a moved mark": {`{"name": "set_tick_var", "id": 0}, {"name": "delay", "usec": 1000}, {"name": "add_tick_var", "id": 0, "duration": 0.25}, {"name": "jmp_dp", "id": 0, "offset": -2, "duration": 0.5}`,
			`[{setTime: {variable: tick-0}}, {label: step-2, delay: {min: 1ms}}, {add: {variable: tick-0, value: 250000000}}, {loop: {to: step-2, since: tick-0, duration: 500ms}}]`},
		"counts": {`{"name": "add_stats", "stats_id": 0, "val": 2}, {"name": "add_stats", "stats_id": 1, "val": 0}, ` + request, `[{count: {counter: stats-0}}, {count: {counter: stats-0}}, {send: {content: {text: GET}}}]`},
		"sums in a row": {wait + `, ` + request + `, {"name": "rx", "min_bytes": 8}, {"name": "rx", "min_bytes": 2}`,
			`[{receive: {bytes: 3}}, {send: {content: {text: GET}}}, {receive: {bytes: 8}}, {receive: {bytes: 8}}]`},
		"shares in a loop": {wait + `, {"name": "set_var", "id": 0, "val": 9}, {"name": "rx", "min_bytes": 8}, {"name": "jmp_nz", "id": 0, "offset": -1}, {"name": "rx", "min_bytes": 9}`,
			`[{receive: {bytes: 3, clear: true}}, {set: {variable: var-0, value: 9}}, {label: step-3, receive: {bytes: 5, clear: true}}, {add: {variable: var-0, value: -1}},
			  {jump: {to: step-3, variable: var-0, comparison: NotEqual}}, {receive: {bytes: 1, clear: true}}]`},
		"nothing to wait for in a loop": {`{"name": "set_var", "id": 0, "val": 9}, ` + wait + `, ` + wait + `, ` + request + `, {"name": "jmp_nz", "id": 0, "offset": -2}`,
			`[{set: {variable: var-0, value: 9}}, {receive: {bytes: 3, clear: true}}, {label: step-4, send: {content: {text: GET}}}, {add: {variable: var-0, value: -1}}, {jump: {to: step-4, variable: var-0, comparison: NotEqual}}]`},
		"cleared":      {`{"name": "rx", "min_bytes": 3, "clear": true}, ` + wait, `[{receive: {bytes: 3, clear: true}}, {receive: {bytes: 3}}]`},
		"not blocking": {`{"name": "connect"}, {"name": "tx_mode", "flags": 1}, ` + request + `, {"name": "tx_mode", "flags": 0}, ` + request, `[{connect: {}}, {send: {content: {text: GET}, waitForAck: false}}, {send: {content: {text: GET}}}]`},
		"left open":    {`{"name": "nc"}`, `[{waitForPeerClose: {}}]`},
		"reset":        {`{"name": "connect"}, {"name": "delay_rnd", "min_usec": 100000, "max_usec": 500000}, {"name": "add_stats", "stats_id": 1, "val": 1}, {"name": "reset"}`, `[{connect: {}}, {delay: {min: 100ms, max: 500ms}}, {count: {counter: stats-1}}, {reset: {}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			got := importsASTF(t, astfJSON(c.client, `{"name": "connect"}, `+wait))
			programs := got.Templates[0].Spec.Source.Programs
			isYAML(t, programs.Client, c.want)
			isYAML(t, programs.Server, `[{accept: {}}, {receive: {bytes: 3}}]`)
		})
	}
}

func TestMessagesOfTRex(t *testing.T) {
	got := importsASTF(t, astfJSON(`{"name": "keepalive", "msec": 1500}, {"name": "tx_msg", "buf_index": 0}, {"name": "rx_msg", "min_pkts": 2}`,
		`{"name": "rx_msg", "min_pkts": 1}, {"name": "tx_msg", "buf_index": 1}, {"name": "close_msg"}`,
		`{"commands":`, `{"stream": false, "addon": "latency", "commands":`, `"cps": 2.5`, `"cps": 1, "limit": 7, "cont": true`))
	spec := got.Templates[0].Spec
	isYAML(t, spec.Source.Programs, `{transport: UDP, client: [{keepalive: {timeout: 1500ms}}, {sendMessage: {text: GET}}, {receiveMessages: {messages: 2}}],
	  server: [{receiveMessages: {messages: 1}}, {sendMessage: {base64: AP8AAQ==}}, {close: {}}]}`)
	isYAML(t, spec.Tunables, `{client: {ttl: 127}, server: {ttl: 127}}`)
	if !spec.Latency || *spec.MaxConcurrentFlows != 7 || spec.MaxFlows != nil {
		t.Errorf("got %v, %v, %v", spec.Latency, spec.MaxConcurrentFlows, spec.MaxFlows)
	}
}

func TestSettingsOfTRex(t *testing.T) {
	all := `"c_glob_info": {"tcp": {"mss": 1100, "initwnd": 1, "rxbufsize": 4096, "txbufsize": 8192, "rexmtthresh": 4, "do_rfc1323": 0, "keepinit": 2, "keepidle": 3, "keepintvl": 4,
	  "blackhole": 2, "delay_ack_msec": 30, "no_delay": 1, "no_delay_counter": 2920, "do_sack": 0, "do_ecn": 1, "cc_algo": 1, "reass_maxqlen": 7}, "ip": {"tos": 5, "ttl": 200},
	  "ipv6": {"enable": 1, "src_msb": [32, 1, 13, 184, 0,0,0,0, 0,0,0,0, 0,0,0,0], "dst_msb": [253, 0, 0,0,0,0,0,0, 0,0,0,0, 0,0,0,9]}}, "tg_names"`
	got := importsASTF(t, astfJSON(request, answer, `"tg_names"`, all, `"cps": 2.5`, `"cps": 2.5, "glob_info": {"tcp": {"mss": 900}, "ip": {"ttl": 9}}`))
	isYAML(t, got.Templates[0].Spec.Tunables.Client, `{tos: 4, ttl: 9, tcp: {mss: 900, initialWindow: 1, receiveBuffer: 4096, sendBuffer: 8192, duplicateAckThreshold: 4, timestamps: false,
	  windowScale: false, connectTimeout: 2s, keepaliveIdle: 3s, keepaliveInterval: 4s, blackhole: true, delayedAck: 30ms, noDelay: true, sack: false, ecn: true, congestionControl: Cubic}}`)
	if servers := got.Templates[0].Spec.Tunables.Server; *servers.TCP.MSS != 1460 || *servers.TTL != 64 {
		t.Errorf("the servers have their own, and TRex's hop limit: got %d bytes, %d", *servers.TCP.MSS, *servers.TTL)
	}
	isYAML(t, got.Templates[0].Spec.Pools, `{clients: [{name: clients, start: "2001:db8::1000:0", end: "2001:db8::1000:ff", order: Forward, portPairOffset: "::100:0", sourcePorts: {start: 41668, step: 17405, min: 1024, max: 63999}}],
	  servers: [{name: servers, start: "fd00::3000:0", end: "fd00::3000:ffff", order: Forward, portPairOffset: "::100:0"}]}`)
	if len(got.Notes) != 2 || !strings.Contains(got.Notes[0], "acknowledges each 2920 bytes") || !strings.Contains(got.Notes[1], "reass_maxqlen") {
		t.Errorf("got %q", got.Notes)
	}
}

func TestTRexsDefaultPrefixOfIPv6IsMulticastAndRuns(t *testing.T) {
	const upper = `[255, 2, 0,0,0,0,0,0, 0,0,0,0, 0,0,0,0]`
	got := importsASTF(t, astfJSON(request, answer, `"tg_names"`, `"c_glob_info": {"ipv6": {"enable": 1, "src_msb": `+upper+`, "dst_msb": `+upper+`}}, "tg_names"`))
	isYAML(t, got.Templates[0].Spec.Pools, `{clients: [{name: clients, start: "ff02::1000:0", end: "ff02::1000:ff", order: Forward, portPairOffset: "::100:0", sourcePorts: {start: 41668, step: 17405, min: 1024, max: 63999}, allowMulticast: true}],
	  servers: [{name: servers, start: "ff02::3000:0", end: "ff02::3000:ffff", order: Forward, portPairOffset: "::100:0", allowMulticast: true}]}`)
	for _, pool := range runsTemplates(t, got).Plan(plan.Identity{RunID: "r"}).Stateful.Pools {
		if !pool.AllowMulticast {
			t.Errorf("the engine would refuse %v", pool)
		}
	}
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "addresses are multicast (ff02::1000:0 to ff02::3000:0), as TRex's own prefix ff02:: makes them") {
		t.Errorf("got %q", got.Notes)
	}
}

func TestAcknowledgementsWaitNoLongerThanTheyMay(t *testing.T) {
	got := importsASTF(t, astfJSON(request, answer, `"tg_names"`, `"c_glob_info": {"tcp": {"delay_ack_msec": 500}}, "s_glob_info": {"tcp": {"delay_ack_msec": 4000}}, "tg_names"`))
	both := got.Templates[0].Spec.Tunables
	if both.Client.TCP.DelayedAck != "500ms" || both.Server.TCP.DelayedAck != "500ms" {
		t.Errorf("got %s and %s", both.Client.TCP.DelayedAck, both.Server.TCP.DelayedAck)
	}
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "$.s_glob_info.tcp.delay_ack_msec: TRex's acknowledgements wait for up to 4000 ms; here for 500 ms") {
		t.Errorf("got %q", got.Notes)
	}
}

func TestServersLookAtFirstBytes(t *testing.T) {
	for name, c := range map[string]struct{ rule, want string }{
		"of the request": {`{"offset": [0, 1, 2]}`, `[{hex: "474554"}]`},
		"some of them":   {`{"offset": [0, 2]}`, `[{hex: "47"}, {offset: 2, hex: "54"}]`},
		"given":          {`{"offset": [7, 8], "value": [1, 255], "mask": [255, 255]}`, `[{offset: 7, hex: "01ff"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			got := importsASTF(t, astfJSON(request, answer, `[{"port": 80}]`, `[{"port": 80, "ip_start": "48.0.0.0", "ip_end": "48.0.255.255", "l7_map": `+c.rule+`}]`))
			isYAML(t, got.Templates[0].Spec.Match, c.want)
		})
	}
}

func TestBuffersAreFilled(t *testing.T) {
	long := strings.Repeat("x", content.MostInline)
	got := importsASTF(t, astfJSON(request, answer, `"R0VU"`, `{"base": "R0VU", "size": 8, "fill": "YWI="}`, `"AP8AAQ=="`, fmt.Sprintf(`{"size": %d, "fill": "eA=="}`, len(long)+1)))
	programs := got.Templates[0].Spec.Source.Programs
	isYAML(t, programs.Client, `[{send: {content: {text: GETababa}}}]`)
	isYAML(t, programs.Server, `[{send: {content: {from: {configMapKeyRef: {name: p-payloads-1, key: payload-1}}}}}]`)
	if len(got.ConfigMaps) != 1 || got.ConfigMaps[0].Name != "p-payloads-1" || string(got.ConfigMaps[0].BinaryData["payload-1"]) != long+"x" {
		t.Errorf("got %d maps", len(got.ConfigMaps))
	}
	counted := importsASTF(t, astfJSON(request, answer, `"R0VU"`, `{"base": "R0VU", "size": 6}`))
	isYAML(t, counted.Templates[0].Spec.Source.Programs.Client, `[{send: {content: {base64: R0VUAAEC}}}]`)
}

func TestLongBuffersAreSentInPieces(t *testing.T) {
	got := importsASTF(t, astfJSON(`{"name": "tx_mode", "flags": 1}, {"name": "set_var", "id": 0, "val": 9}, `+request+`, {"name": "jmp_nz", "id": 0, "offset": -1}`, answer,
		`"R0VU"`, `{"size": 2100000, "fill": "Kiw="}`, `"AP8AAQ=="`, `{"base": "Kis=", "size": 1000001}`))
	programs := got.Templates[0].Spec.Source.Programs
	const whole, rest = `{content: {from: {configMapKeyRef: {name: p-payloads-1, key: payload-1}}}, waitForAck: false}`, `{content: {from: {configMapKeyRef: {name: p-payloads-2, key: payload-2}}}, waitForAck: false}`
	isYAML(t, programs.Client, `[{set: {variable: var-0, value: 9}}, {label: step-3, send: `+whole+`}, {send: `+whole+`}, {send: `+rest+`}, {add: {variable: var-0, value: -1}},
		{jump: {to: step-3, variable: var-0, comparison: NotEqual}}]`)
	maps := map[string][]byte{}
	for _, one := range got.ConfigMaps {
		for _, piece := range one.BinaryData {
			maps[one.Name] = piece
		}
	}
	if filled := string(maps["p-payloads-1"]) + string(maps["p-payloads-1"]) + string(maps["p-payloads-2"]); filled != strings.Repeat("*,", 1_050_000) {
		t.Errorf("%d bytes are sent, or others", len(filled))
	}
	want := []byte("*+")
	for i := range 1_000_001 - len(want) {
		want = append(want, byte(i))
	}
	if counted := slices.Concat(maps["p-payloads-3"], programs.Server[1].Send.Content.Base64); !bytes.Equal(counted, want) || len(programs.Server) != 2 || len(maps) != 3 {
		t.Errorf("%d bytes are sent by %d commands of %d maps, or others", len(counted), len(programs.Server), len(maps))
	}
}

func TestClientsReachTheServersThatListen(t *testing.T) {
	// The second template's clients connect to the first's servers, which wait for 3 bytes; its own servers listen on
	// another port.
	second := `{"client_template": {"program_index": 0, "ip_gen": {"dist_client": {"index": 0}, "dist_server": {"index": 1}}, "cluster": {}, "port": 80, "cps": 1},
	    "server_template": {"program_index": 2, "assoc": [{"port": 81%s}]}}], "tg_names"`
	const wait = `{"name": "rx", "min_bytes": 3}`
	both := func(assoc string, changes ...string) []byte {
		return astfJSON(request, wait+`, `+answer, append([]string{`], "tg_names"`, `, ` + fmt.Sprintf(second, assoc),
			`]}],`, `]}, {"commands": [` + answer + `]}],`,
			`"program_index": 1, "assoc": [{"port": 80}]}`, `"program_index": 1, "assoc": [{"port": 80}], "glob_info": {"tcp": {"mss": 900}}}`}, changes...)...)
	}
	got := importsASTF(t, both(""))
	for _, one := range got.Templates {
		isYAML(t, one.Spec.Source.Programs.Server, `[{receive: {bytes: 3}}, {send: {content: {base64: AP8AAQ==}}}]`)
		if mss := one.Spec.Tunables.Server.TCP.MSS; *one.Spec.DestinationPort != 80 || *mss != 900 {
			t.Errorf("%s: port %d, segments of %d bytes", one.Name, *one.Spec.DestinationPort, *mss)
		}
	}
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "template 2: its clients connect to port 80 of the servers of template 1") {
		t.Errorf("notes %q", got.Notes)
	}
	for name, changes := range map[string][]string{
		"other addresses": {`"assoc": [{"port": 80}]`, `"assoc": [{"port": 80, "ip_start": "48.0.0.0", "ip_end": "48.0.0.9"}]`},
		"first bytes":     {`"assoc": [{"port": 80}]`, `"assoc": [{"port": 80, "l7_map": {"offset": [0]}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Import("p", both("", changes...), Options{})
			if err == nil || !strings.Contains(err.Error(), "template 2: $.templates[1].server_template.assoc[0].port: servers listen on 81") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTemplatesOfOneGeneratorShareIt(t *testing.T) {
	one := string(astfJSON(request, answer))
	template := one[strings.Index(one, `"templates": [`)+len(`"templates": [`) : strings.Index(one, `], "tg_names"`)]
	both := strings.Replace(one, template, template+", "+strings.ReplaceAll(template, "80", "81"), 1)
	got := importsASTF(t, []byte(both))
	made := runsTemplates(t, got).Plan(plan.Identity{RunID: "r"}).Stateful
	if len(made.Pools) != 2 || len(made.Templates) != 2 || len(made.Payloads) != 2 {
		t.Errorf("got %v", made)
	}
	if got.Templates[1].Name != "p-web-a-2" || got.Profile.Spec.Traffic[1].Name != "web-a-2" {
		t.Errorf("got %s, %s", got.Templates[1].Name, got.Profile.Spec.Traffic[1].Name)
	}
}

func TestWhatStatefulProfilesMayNotSay(t *testing.T) {
	good := [2]string{request, answer}
	with := func(client string) [2]string { return [2]string{client, answer} }
	for name, c := range map[string]struct {
		programs [2]string
		changes  []string
		want     string
	}{
		"an unknown command":      {with(`{"name": "dance"}`), nil, `$.program_list[0].commands[0].name: "dance" is no command`},
		"no such group":           {with(`{"name": "set_template", "tg_id": 2}`), nil, "$.program_list[0].commands[0].tg_id: 2 is the group of no template"},
		"a time of no variable":   {with(request + `, {"name": "add_tick_stats", "stats_id": 0, "var_id": 0}`), nil, `nothing gives the variable "tick-0" a value`},
		"opening by a server":     {[2]string{request, `{"name": "set_template", "tg_id": 1}`}, nil, "server[0].nextTemplate: servers open no connections"},
		"a great count":           {with(`{"name": "add_stats", "stats_id": 0, "val": 101}`), nil, "commands[0].val: 101 is not a whole number from 0 to 100"},
		"too many commands":       {with(request + strings.Repeat(`, {"name": "delay", "usec": 1}`, spatev1.MaxCommands)), nil, "template 1: $.templates[0]: as ASTFTemplate p-web-a it cannot be run: spec.source.programs.client: has 4097 commands; at most 4096 have room"},
		"a message over TCP":      {with(`{"name": "tx_msg", "buf_index": 0}`), nil, "tx_msg is no command of this program's transport"},
		"a late connect":          {with(request + `, {"name": "connect"}`), nil, "commands[1].name: connect must be the first command"},
		"an early reset":          {with(`{"name": "reset"}, ` + request), nil, "commands[0].name: reset must be the last command"},
		"a jump out":              {with(request + `, {"name": "jmp_nz", "id": 0, "offset": 5}`), nil, "commands[1].offset: leads out of the program"},
		"a jump back over a mode": {with(request + `, {"name": "tx_mode", "flags": 1}, {"name": "jmp_nz", "id": 0, "offset": -2}`), nil, "commands[2].offset: it jumps over a tx_mode"},
		"a key more":              {with(`{"name": "delay", "usec": 1, "msec": 1}`), nil, "commands[0].msec: is not known to the import"},
		"no such buffer":          {with(`{"name": "tx", "buf_index": 2}`), nil, "commands[0].buf_index: 2 is none of the 2 buffers"},
		"an unset variable":       {with(request + `, {"name": "jmp_cmp", "id": 1, "offset": -1, "cmp_op": "eq", "cmp_val": 0}`), nil, `nothing gives the variable "var-1" a value`},
		"no program":              {good, []string{`"program_index": 0`, `"program_index": 5`}, "program_index: 5 is none of the 2 programs"},
		"two transports":          {[2]string{`{"name": "delay", "usec": 1}`, `{"name": "delay", "usec": 1}`}, []string{`"usec": 1}]}, {`, `"usec": 1}], "stream": false}, {`}, "of another transport than the clients'"},
		"a wrong generator":       {good, []string{`"dist_client": {"index": 0}`, `"dist_client": {"index": 1}`}, "dist_client.index: 1 is no generator of this side"},
		"no rate":                 {good, []string{`, "cps": 2.5`, ``}, "client_template.cps: is missing, and no program opens connections of this template"},
		"a rate of nothing":       {good, []string{`"cps": 2.5`, `"cps": 0`}, "client_template.cps: 0.000000000000 is not a rate"},
		"another port":            {good, []string{`[{"port": 80}]`, `[{"port": 81}]`}, "servers listen on 81 and the template's clients connect to 80, where no servers of this transport listen"},
		"other servers":           {good, []string{`[{"port": 80}]`, `[{"port": 80, "ip_start": "48.0.0.0", "ip_end": "48.0.0.255"}]`}, "that some of them are another template's is not supported"},
		"two rules":               {good, []string{`[{"port": 80}]`, `[{"port": 80}, {"port": 81}]`}, "server_template.assoc: there are 2"},
		"a mask":                  {good, []string{`[{"port": 80}]`, `[{"port": 80, "l7_map": {"offset": [0], "mask": [15]}}]`}, "l7_map.mask: 15 at 0: only whole bytes"},
		"bytes behind":            {good, []string{`[{"port": 80}]`, `[{"port": 80, "l7_map": {"offset": [3]}}]`}, "l7_map.offset: 3 is behind the 3 bytes"},
		"a normal distribution":   {good, []string{`"seq", "dir": "c"`, `"normal", "dir": "c"`}, "ip_gen_dist_list[0].distribution: normal is not supported"},
		"addresses back":          {good, []string{`"ip_end": "16.0.0.255"`, `"ip_end": "15.0.0.255"`}, "ip_gen_dist_list[0].ip_end: 15.0.0.255 is less"},
		"no group":                {good, []string{`"tg_id": 1`, `"tg_id": 2`}, "tg_id: 2 names none of the 1 tg_names"},
		"a tiny segment":          {good, []string{`"tg_names"`, `"c_glob_info": {"tcp": {"mss": 1}}, "tg_names"`}, "$.c_glob_info.tcp.mss: 1 is not a whole number from 88 to 9176"},
		"half a blackhole":        {good, []string{`"tg_names"`, `"s_glob_info": {"tcp": {"blackhole": 1}}, "tg_names"`}, "$.s_glob_info.tcp.blackhole: 1, which"},
		"half of ECN":             {good, []string{`"tg_names"`, `"s_glob_info": {"tcp": {"do_ecn": 2}}, "tg_names"`}, "$.s_glob_info.tcp.do_ecn: 2, which"},
		"an unknown setting":      {good, []string{`"tg_names"`, `"s_glob_info": {"tcp": {"speed": 2}}, "tg_names"`}, "$.s_glob_info.tcp.speed: is not known"},
		"no upper bytes":          {good, []string{`"tg_names"`, `"c_glob_info": {"ipv6": {"enable": 1}}, "tg_names"`}, "ipv6.enable needs src_msb and dst_msb"},
		"an uneven filling":       {good, []string{`"R0VU"`, `{"size": 9, "fill": "R0VU"}`}, "buf_list[0].fill: has 3 bytes, which TRex does not repeat evenly"},
		"a great buffer":          {good, []string{`"R0VU"`, `{"size": 67108865}`}, "buf_list[0]: has 67108865 bytes; at most 67108864 are supported"},
		"a great message":         {[2]string{`{"name": "tx_msg", "buf_index": 0}`, `{"name": "rx_msg", "min_pkts": 1}`}, []string{`"R0VU"`, `{"size": 65536}`, `]}, {"commands"`, `], "stream": false}, {"stream": false, "commands"`}, "commands[0].buf_index: buffer 0 has 65536 bytes, and a message has 65535 at most"},
		"no templates":            {good, []string{`"templates": [`, `"templates": [], "old": [`}, "$.templates: there are 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Import("p", astfJSON(c.programs[0], c.programs[1], c.changes...), Options{})
			if err == nil {
				t.Fatalf("is taken; want %q", c.want)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("says\n%v\nwithout\n%s", err, c.want)
			}
		})
	}
}

// tinySegments is a refusal that docs/import-trex.md documents.
const tinySegments = "mss: 1 is not a whole number"

// statefulProfiles are TRex's own, in the folder named by CONFORMANCE.
func statefulProfiles(t *testing.T) map[string][]byte {
	t.Helper()
	folder := os.Getenv("CONFORMANCE")
	files, err := filepath.Glob(filepath.Join(folder, "trex-stateful", "*.json"))
	if folder == "" || err != nil || len(files) == 0 {
		t.Skipf("CONFORMANCE, %q, names no folder with trex-stateful/*.json (%v)", folder, err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		if all[filepath.Base(file)], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestStatefulProfilesOfTRexCanBeRun(t *testing.T) {
	for name, data := range statefulProfiles(t) {
		t.Run(name, func(t *testing.T) {
			got, err := Import("profile", data, Options{})
			if err != nil && strings.Contains(err.Error(), tinySegments) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			var described struct{ Templates []json.RawMessage }
			if err := json.Unmarshal(data, &described); err != nil {
				t.Fatal(err)
			}
			if made := runsTemplates(t, got).Plan(plan.Identity{RunID: "r"}).Stateful; len(made.Templates) != len(described.Templates) {
				t.Errorf("%d templates in the plan, %d described", len(made.Templates), len(described.Templates))
			}
			for _, note := range got.Notes {
				t.Log(note)
			}
		})
	}
}
