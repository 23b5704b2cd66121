// SPDX-License-Identifier: Apache-2.0

package pcap

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/importer/content"
)

// compiling returns a fake engine that prints a response and exits with a code. It stores the plan it gets, which plan
// returns as JSON.
func compiling(t *testing.T, answer string, code int) (c engine.Compiler, plan func() string) {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "spate-engine")
	script := fmt.Sprintf("#!/bin/sh\ncat > %s/plan\n[ \"$*\" = 'compile --plan - --format binary --resolved' ] || exit 9\ncat <<'END'\n%s\nEND\nexit %d\n", folder, answer, code)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return engine.Compiler{Binary: path}, func() string {
		text, err := os.ReadFile(filepath.Join(folder, "plan"))
		if err != nil {
			t.Fatal(err)
		}
		var plan enginev1.Plan
		if err := proto.Unmarshal(text, &plan); err != nil {
			t.Fatal(err)
		}
		if text, err = protojson.Marshal(&plan); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), " ", "") // protojson's spaces vary
	}
}

// resolved returns a plan as the engine prints it, with the programs of both sides.
func resolved(protocol, client, server string) string {
	return fmt.Sprintf(`{"runId": "web", "stateful": {"payloads": [{"bytes": "R0VU"}, {"bytes": "AP8="}], "templates": [{"name": "web", "protocol": "TRANSPORT_PROTOCOL_%s", "destinationPort": 8080,
	  "client": {"instructions": [%s]}, "server": {"instructions": [%s]}}]}}`, protocol, client, server)
}

func TestASessionBecomesATemplate(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"TCP": {resolved("TCP", `{"connect": {}}, {"send": {"payload": 0, "wait": true}}, {"receive": {"bytes": "2"}}, {"waitForPeerClose": {}}`,
			`{"accept": {}}, {"receive": {"bytes": "3", "clear": true}}, {"send": {"payload": 1}}, {"reset": {}}`),
			`{transport: TCP, client: [{connect: {}}, {send: {content: {text: GET}}}, {receive: {bytes: 2}}, {waitForPeerClose: {}}],
			  server: [{accept: {}}, {receive: {bytes: 3, clear: true}}, {send: {content: {base64: AP8=}, waitForAck: false}}, {reset: {}}]}`},
		"UDP": {resolved("UDP", `{"keepaliveNs": "1400000000"}, {"sendMessage": {}}, {"delay": {"minNs": "60500", "maxNs": "60500"}}, {"sendMessage": {"payload": 1}}, {"close": {}}`,
			`{"receiveMessages": {"messages": "2"}}, {"delay": {"minNs": "1000000", "maxNs": "2000000001"}}, {"leaveOpen": {}}`),
			`{transport: UDP, client: [{keepalive: {timeout: 1400ms}}, {sendMessage: {text: GET}}, {delay: {min: 60500ns}}, {sendMessage: {base64: AP8=}}, {close: {}}],
			  server: [{receiveMessages: {messages: 2}}, {delay: {min: 1ms, max: 2000000001ns}}, {leaveOpen: {}}]}`},
		"a side that says nothing": {resolved("UDP", `{"sendMessage": {}}`, ``), `{transport: UDP, client: [{sendMessage: {text: GET}}], server: [{close: {}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			compiler, plan := compiling(t, c.answer, 0)
			got, err := Import(t.Context(), compiler, "web", []byte("pcap"), Options{Rate: "5kcps", Servers: "10.0.0.1", Port: 8080})
			if err != nil {
				t.Fatal(err)
			}
			var want any
			if err := yaml.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			wanted, _ := yaml.Marshal(want)
			if text, _ := yaml.Marshal(got.Template.Spec.Source.Programs); string(text) != string(wanted) {
				t.Errorf("got\n%s\nwant\n%s", text, wanted)
			}
			spec := got.Template.Spec
			if got.Template.Name != "web" || *spec.DestinationPort != 8080 || spec.ConnectionRate != "5kcps" || spec.Pools.Clients[0].End != "16.0.0.254" || spec.Pools.Servers[0].End != "10.0.0.1" || len(got.ConfigMaps) != 0 {
				t.Errorf("got %+v", got.Template)
			}
			if text := plan(); !strings.Contains(text, `"capture":{"pcap":"cGNhcA=="}`) || !strings.Contains(text, `"destinationPort":8080`) {
				t.Errorf("got %s", text)
			}
		})
	}
}

func TestLongPayloadsAreInConfigMaps(t *testing.T) {
	long := strings.Repeat("AAAA", content.MostInline/3+1)
	answer := strings.Replace(resolved("TCP", `{"send": {"payload": 1}}, {"send": {"payload": 1}}`, `{"receive": {"bytes": "2"}}`), "AP8=", long, 1)
	compiler, _ := compiling(t, answer, 0)
	got, err := Import(t.Context(), compiler, "web", nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := got.Template.Spec.Source.Programs.Client
	if len(got.ConfigMaps) != 1 || got.ConfigMaps[0].Name != "web-payloads-1" || client[0].Send.Content.From.ConfigMapKeyRef.Name != "web-payloads-1" || client[1].Send.Content.From.Reference() != client[0].Send.Content.From.Reference() {
		t.Errorf("got %v, %v", got.ConfigMaps, client)
	}
}

// captureOf returns a pcap of one packet.
func captureOf(t *testing.T, network gopacket.SerializableLayer, kind layers.EthernetType) []byte {
	t.Helper()
	frame := gopacket.NewSerializeBuffer()
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	if err := gopacket.SerializeLayers(frame, gopacket.SerializeOptions{FixLengths: true}, &layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: kind}, network); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w := pcapgo.NewWriter(&file)
	if err := errors.Join(w.WriteFileHeader(65536, layers.LinkTypeEthernet), w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(frame.Bytes()), Length: len(frame.Bytes())}, frame.Bytes())); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func TestASessionOverIPv6IsNotedWhereItsPoolsAreIPv4(t *testing.T) {
	six := captureOf(t, &layers.IPv6{Version: 6, SrcIP: net.ParseIP("2001:db8::1"), DstIP: net.ParseIP("2001:db8::2")}, layers.EthernetTypeIPv6)
	four := captureOf(t, &layers.IPv4{Version: 4, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}, layers.EthernetTypeIPv4)
	sixes := Options{Clients: "2001:db8:1::1", Servers: "2001:db8:2::1"}
	for name, c := range map[string]struct {
		pcap  []byte
		o     Options
		noted bool
	}{"IPv4": {four, Options{}, false}, "IPv6": {six, Options{}, true}, "IPv6 with pools": {six, sixes, false}, "no capture": {[]byte("x"), Options{}, false}} {
		compiler, _ := compiling(t, resolved("TCP", `{"connect": {}}`, `{"accept": {}}`), 0)
		got, err := Import(t.Context(), compiler, "web", c.pcap, c.o)
		if err != nil || strings.Contains(got.Note, "the session is IPv6") != c.noted {
			t.Errorf("%s: got %+v %v", name, got, err)
		}
	}
}

func TestSessionsThatAreRefused(t *testing.T) {
	many := strings.Repeat(`{"sendMessage": {}}, `, spatev1.MaxCommands) + `{"close": {}}`
	for name, c := range map[string]struct {
		answer string
		code   int
		as     string
		o      Options
		want   string
	}{
		"by the engine":     {`{"errors": [{"field": "stateful.templates[0].capture.pcap", "description": "packet 12: is of another session"}]}`, 1, "web", Options{}, "packet 12: is of another session"},
		"by what it is not": {"usage", 2, "web", Options{}, "spate-engine compile: exit status 2"},
		"an old engine":     {`{"runId": "web", "stateful": {"templates": [{"name": "web", "capture": {"pcap": ""}}]}}`, 0, "web", Options{}, "did not derive programs from the capture"},
		"no plan":           {"hello", 0, "web", Options{}, "compile --resolved printed no plan"},
		"unknown commands":  {resolved("TCP", `{"mark": 0}`, `{"accept": {}}`), 0, "web", Options{}, "instruction 0, *enginev1.Instruction_Mark, is not known of captures"},
		"no such payload":   {resolved("TCP", `{"send": {"payload": 2}}`, `{"accept": {}}`), 0, "web", Options{}, "payload 2 is none of the 2"},
		"a long session":    {resolved("UDP", many, `{"close": {}}`), 0, "web", Options{}, "spec.source.programs.client: has 4097 commands; at most 4096 have room in a template"},
		"a name":            {"", 0, "Web_1", Options{}, `the name "Web_1" must be`},
		"a range":           {"", 0, "web", Options{Clients: "a-b"}, `clients "a-b": must be an address`},
		"clients of IPv6":   {"", 0, "web", Options{Clients: "2001:db8::1"}, "clients are IPv6, so servers are needed as IPv6 too: give both --clients and --servers"},
		"servers of IPv6":   {"", 0, "web", Options{Servers: "2001:db8::1"}, "servers are IPv6, so clients are needed as IPv6 too"},
		"a rate":            {resolved("TCP", `{"connect": {}}`, `{"accept": {}}`), 0, "web", Options{Rate: "fast"}, `spec.connectionRate: "fast": must be connections a second`},
	} {
		t.Run(name, func(t *testing.T) {
			compiler, _ := compiling(t, c.answer, c.code)
			if _, err := Import(t.Context(), compiler, c.as, nil, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := Import(t.Context(), engine.Compiler{}, "web", nil, Options{}); err == nil {
		t.Error("without an engine there is no program")
	}
}
