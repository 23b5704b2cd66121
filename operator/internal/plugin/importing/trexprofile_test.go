// SPDX-License-Identifier: Apache-2.0

package importing

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/packet"
	"spate.dev/operator/internal/plugin/plugintest"
)

// trexPython returns an interpreter that has TRex's client.
func trexPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv("TREX_PYTHON")
	if _, err := os.Stat(python); err != nil {
		t.Skipf("TREX_PYTHON=%q is no interpreter with TRex's client: `make trex-client` installs one", python)
	}
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	return python
}

// statelessProfile has its tunables as arguments.
const statelessProfile = `
from trex_stl_lib.api import *

class Own(object):
    def get_streams(self, direction=0, size=64, **kwargs):
        print("something of the profile's own")
        packet = Ether() / IP(src="16.0.0.1", dst="48.0.0.%d" % (1 + direction)) / UDP(dport=12, sport=1025)
        vm = STLScVmRaw([STLVmFlowVar("port", min_value=1, max_value=9, size=2, op="inc"), STLVmWrFlowVar("port", pkt_offset="UDP.sport"), STLVmFixIpv4(offset="IP")])
        return [STLStream(name="own", packet=STLPktBuilder(pkt=packet / ((size - 4 - len(packet)) * "x"), vm=vm), mode=STLTXCont(pps=10))]

def register():
    return Own()
`

// statefulProfile parses its tunables and sends the content of a file beside it.
const statefulProfile = `
from trex.astf.api import *
import argparse
import os

class Own():
    def get_profile(self, tunables, **kwargs):
        parser = argparse.ArgumentParser()
        parser.add_argument("--size", type=int, default=10)
        size = parser.parse_args(tunables).size
        request = open(os.path.join(os.path.dirname(__file__), "request.txt"), "rb").read()
        client = ASTFProgram()
        client.send(request)
        client.recv(size)
        server = ASTFProgram()
        server.recv(len(request))
        server.send("x" * size)
        ip_gen = ASTFIPGen(glob=ASTFIPGenGlobal(ip_offset="1.0.0.0"),
                           dist_client=ASTFIPGenDist(ip_range=["16.0.0.1", "16.0.0.9"], distribution="seq"),
                           dist_server=ASTFIPGenDist(ip_range=["48.0.0.1", "48.0.0.9"], distribution="seq"))
        info = ASTFGlobalInfo()
        info.tcp.mss = 1000
        template = ASTFTemplate(client_template=ASTFTCPClientTemplate(program=client, ip_gen=ip_gen, port=80, cps=3),
                                server_template=ASTFTCPServerTemplate(program=server, assoc=ASTFAssociationRule(port=80)))
        return ASTFProfile(default_ip_gen=ip_gen, default_c_glob_info=info, templates=template)

def register():
    return Own()
`

// captureProfile names its capture relative to its own file, as TRex's own profiles do.
const captureProfile = `
from trex.astf.api import *

class Own():
    def get_profile(self, **kwargs):
        ip_gen = ASTFIPGen(glob=ASTFIPGenGlobal(ip_offset="1.0.0.0"),
                           dist_client=ASTFIPGenDist(ip_range=["16.0.0.1", "16.0.0.9"], distribution="seq"),
                           dist_server=ASTFIPGenDist(ip_range=["48.0.0.1", "48.0.0.9"], distribution="seq"))
        return ASTFProfile(default_ip_gen=ip_gen, cap_list=[ASTFCapInfo(file="../captures/page.pcap", cps=3)])

def register():
    return Own()
`

func TestStatelessProfilesInPythonAreImported(t *testing.T) {
	python, folder := trexPython(t), t.TempDir()
	out, stderr, err := importing("", write(t, filepath.Join(folder, "one.py"), statelessProfile), "--python", python, "--direction", "1", "-t", "size=128", "--destination-mac", "02:00:00:00:00:01")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plugintest.Kinds(t, out), []string{"StatelessStream /one-own", "TrafficProfile /one"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var planned struct {
		Streams []struct {
			Packet  struct{ Frame []byte }
			Program struct{ Writes []struct{ Offset, Size int } }
		}
	}
	if err := json.Unmarshal([]byte(plannedOf(t, out)), &planned); err != nil || len(planned.Streams) != 1 {
		t.Fatal(err, planned)
	}
	// A packet has 128 bytes with FCS, the other direction's destination address, and a different source port each time. These are the
	// offsets of the two fields.
	const destination, port = 30, 34
	frame, writes := planned.Streams[0].Packet.Frame, planned.Streams[0].Program.Writes
	if len(frame) != 124 || !bytes.Equal(frame[destination:destination+4], []byte{48, 0, 0, 2}) || len(writes) != 1 || writes[0].Offset != port || writes[0].Size != 2 {
		t.Errorf("got %d bytes: %x, %v", len(frame), frame, writes)
	}
	if strings.Contains(stderr, "something of the profile's own") {
		t.Errorf("stderr %q", stderr)
	}
}

// scapyProfile has a stream for each stack of headers that Scapy's contributions to TRex's client know.
const scapyProfile = `
from trex_stl_lib.api import *
from scapy.contrib.igmp import IGMP
from scapy.contrib.igmpv3 import IGMPv3, IGMPv3mq, IGMPv3mr, IGMPv3gr
from scapy.contrib.lacp import SlowProtocol, LACP
from scapy.contrib.mac_control import MACControlPause, MACControlClassBasedFlowControl
from scapy.contrib.nsh import NSH
from scapy.layers.l2tp import L2TP
from scapy.layers.ppp import HDLC, PPP

class Own(object):
    def get_streams(self, **kwargs):
        def eth(**fields):
            return Ether(src="02:00:00:00:00:07", dst="02:00:00:00:00:08", **fields)
        def ip(**fields):
            return IP(src="198.18.0.1", dst="198.19.0.1", **fields)
        inner = IP(src="16.0.0.1", dst="48.0.0.1") / UDP(sport=1025, dport=12) / ("x" * 18)
        alert = dict(ttl=1, options=[IPOption_Router_Alert()])
        packets = {
            "leave": eth() / ip(**alert) / IGMP(type=0x17, mrcode=0, gaddr="239.1.1.1"),
            "query": eth() / ip(**alert) / IGMPv3(type=0x11, mrcode=100) / IGMPv3mq(gaddr="239.1.1.1", qrv=2, qqic=125, srcaddrs=["198.18.0.1"]),
            "report": eth() / ip(**alert) / IGMPv3(type=0x22, mrcode=0) / IGMPv3mr(records=[IGMPv3gr(rtype=2, maddr="239.1.1.1"), IGMPv3gr(rtype=5, maddr="232.1.1.1", srcaddrs=["198.18.0.1", "198.18.0.2"])]),
            "lacp": eth(type=0x8809) / SlowProtocol(subtype=1) / LACP(actor_system_priority=32768, actor_system="02:00:00:00:00:07", actor_key=13, actor_port_priority=255,
                actor_port_numer=22, actor_state=13, partner_system="02:00:00:00:00:08", partner_key=1, partner_port_numer=2, partner_state=130, collector_max_delay=50),
            "pause": eth(type=0x8808) / MACControlPause(pause_time=65535),
            "pfc": eth(type=0x8808) / MACControlClassBasedFlowControl(c3_enabled=1, c7_enabled=1, c3_pause_time=65535, c7_pause_time=1),
            "nsh": eth(type=0x894f) / NSH(NSP=0xabcdef, NSI=255, NextProto=1, NPC=0x00010203, NSC=0x04050607, SPC=0x08090a0b, SSC=0x0c0d0e0f) / inner,
            "l2tp": eth() / ip() / UDP(sport=1701, dport=1701) / L2TP(tunnel_id=10, session_id=20) / PPP() / inner,
            "framed": eth() / ip() / UDP(sport=1701, dport=1701) / L2TP(hdr="sequence", tunnel_id=10, session_id=20, ns=3, nr=4) / HDLC() / PPP() / inner,
        }
        return [STLStream(name=name, packet=STLPktBuilder(pkt=packet), mode=STLTXCont(pps=10)) for name, packet in sorted(packets.items())]

def register():
    return Own()
`

// described are the packets of scapyProfile as headers.
var described = map[string]string{
	"leave": `[{ipv4: {source: 198.18.0.1, destination: 198.19.0.1, identification: 1}}, {igmp: {message: LeaveGroup, groupAddress: 239.1.1.1}}]`,
	"query": `[{ipv4: {source: 198.18.0.1, destination: 198.19.0.1, dscp: 48, identification: 1}}, {igmp: {message: MembershipQueryV3, groupAddress: 239.1.1.1, sourceAddresses: [198.18.0.1]}}]`,
	"report": `[{ipv4: {source: 198.18.0.1, destination: 198.19.0.1, dscp: 48, identification: 1}}, {igmp: {message: MembershipReportV3, groupRecords: [
	    {recordType: ModeIsExclude, multicastAddress: 239.1.1.1}, {recordType: AllowNewSources, multicastAddress: 232.1.1.1, sourceAddresses: [198.18.0.1, 198.18.0.2]}]}}]`,
	"lacp": `[{lacp: {actor: {systemPriority: 32768, system: "02:00:00:00:00:07", key: 13, portPriority: 255, port: 22, state: [Activity, Aggregation, Synchronization]},
	    partner: {system: "02:00:00:00:00:08", key: 1, port: 2, state: [Timeout, Expired]}, collectorMaxDelay: 50}}]`,
	"pause": `[{macControl: {pauseTime: 65535}}]`,
	"pfc":   `[{macControl: {priorityEnableVector: 0x88, times: [0, 0, 0, 65535, 0, 0, 0, 1]}}]`,
	"nsh":   `[{nsh: {servicePathIdentifier: 0xabcdef, ttl: 0, fixedContext: "000102030405060708090a0b0c0d0e0f"}}, ` + inner,
	"l2tp": `[{ipv4: {source: 198.18.0.1, destination: 198.19.0.1, identification: 1}}, {udp: {sourcePort: 1701}}, {l2tp: {tunnelID: 10, sessionID: 20}},
	    {ppp: {addressAndControl: false}}, ` + inner,
	"framed": `[{ipv4: {source: 198.18.0.1, destination: 198.19.0.1, identification: 1}}, {udp: {sourcePort: 1701}}, {l2tp: {tunnelID: 10, sessionID: 20, ns: 3, nr: 4}}, {ppp: {}}, ` + inner,
}

const inner = `{ipv4: {source: 16.0.0.1, destination: 48.0.0.1, identification: 1}}, {udp: {sourcePort: 1025, destinationPort: 12}}]`

// Scapy's packets, as the import takes them, are those that the same headers describe here.
func TestScapysHeadersAreThoseOfPackets(t *testing.T) {
	python, folder := trexPython(t), t.TempDir()
	out, _, err := importing("", write(t, filepath.Join(folder, "own.py"), scapyProfile), "--python", python, "--port", "east", "--generator", "lab")
	if err != nil {
		t.Fatal(err)
	}
	var imported struct {
		Streams []struct {
			Name   string
			Packet struct{ Frame []byte }
		}
	}
	if err := json.Unmarshal([]byte(plannedOf(t, out)), &imported); err != nil || len(imported.Streams) != len(described) {
		t.Fatal(err, len(imported.Streams))
	}
	for _, s := range imported.Streams {
		t.Run(s.Name, func(t *testing.T) {
			p := &spatev1.Packet{}
			text := described[s.Name]
			if err := yaml.UnmarshalStrict([]byte(`headers: `+strings.Replace(text, "[", `[{ethernet: {source: "02:00:00:00:00:07", destination: "02:00:00:00:00:08"}}, `, 1)), p); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(text, inner) {
				p.Payload = &spatev1.Payload{Text: strings.Repeat("x", 18)}
			}
			built, errs := packet.Build(p, field.NewPath("packet"), packet.Options{})
			if len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			if !bytes.Equal(built.Frame, s.Packet.Frame) {
				t.Errorf("built    %x\nimported %x", built.Frame, s.Packet.Frame)
			}
			if seen, want := packet.Inspect(s.Packet.Frame).Headers, built.Headers; len(seen) != len(want) {
				t.Errorf("%d headers are read of %d", len(seen), len(want))
			}
		})
	}
}

// tagsInPython are tagsInJSON.
const tagsInPython = `
class Own(object):
    def get_tpg_conf(self, tunables, **kwargs):
        return [{"type": "Dot1Q", "value": {"vlan": 4}}, {"type": "Dot1Q", "value": {"vlan": 5}}, {"type": "QinQ", "value": {"vlans": [1, 5]}}]

def register():
    return Own()
`

func TestTagsInPythonAreThoseOfTaggedPacketGroups(t *testing.T) {
	python := trexPython(t)
	tags := write(t, filepath.Join(t.TempDir(), "own_tags.py"), tagsInPython)
	out, _, err := importing(taggedGroup, "-", "--name", "x", "--tags", tags, "--python", python, "--destination-mac", "02:00:00:00:00:01")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plannedTags(t, out), "[{0 4 5} {1 5 5}]"; got != want {
		t.Errorf("counted by %s, want %s", got, want)
	}
}

func TestStatefulProfilesInPythonAreImported(t *testing.T) {
	python, folder := trexPython(t), t.TempDir()
	write(t, filepath.Join(folder, "request.txt"), "GET /")
	file := write(t, filepath.Join(folder, "web.py"), statefulProfile)
	out, _, err := importing("", file, "--python", python, "-t", "size=77", "--port", "east", "--receive-port", "west")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plugintest.Kinds(t, out), []string{"ASTFTemplate /web-1", "TrafficProfile /web"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, want := range []string{"text: GET /", "bytes: 77", "connectionRate: 3cps", "mss: 1000", "start: 16.0.0.1", "destinationPort: 80"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	plannedOf(t, out)
}

func TestCapturesThatAProfileInPythonNamesAreImported(t *testing.T) {
	python, folder := trexPython(t), t.TempDir()
	request, response := "GET /page HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	file := write(t, filepath.Join(folder, "profiles", "own.py"), captureProfile)
	if _, _, err := importing("", file, "--python", python); err == nil || !strings.Contains(err.Error(), filepath.Join(folder, "captures", "page.pcap")) {
		t.Errorf("without the capture: got %v", err)
	}
	write(t, filepath.Join(folder, "captures", "page.pcap"), connection(t, 8080, request, response))
	out, _, err := importing("", file, "--python", python, "--port", "east", "--receive-port", "west")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plugintest.Kinds(t, out), []string{"ASTFTemplate /own-1", "TrafficProfile /own"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var planned struct {
		Stateful struct {
			Payloads  []struct{ Bytes []byte }
			Templates []struct {
				Protocol        string
				DestinationPort int
			}
		}
	}
	if err := json.Unmarshal([]byte(plannedOf(t, out)), &planned); err != nil {
		t.Fatal(err)
	}
	var payloads []string
	for _, payload := range planned.Stateful.Payloads {
		payloads = append(payloads, string(payload.Bytes))
	}
	templates := planned.Stateful.Templates
	if !slices.Equal(payloads, []string{request, response}) || len(templates) != 1 || templates[0].DestinationPort != 8080 || templates[0].Protocol != "TRANSPORT_PROTOCOL_TCP" {
		t.Errorf("got %q, %v in\n%s", payloads, templates, out)
	}
	if !strings.Contains(out, "connectionRate: 3cps") {
		t.Errorf("the rate is not in\n%s", out)
	}
}

// connection returns a capture of a TCP connection to a port, with a request and its response.
func connection(t *testing.T, port layers.TCPPort, request, response string) string {
	t.Helper()
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	if err := w.WriteFileHeader(1500, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	ports, addresses, next := [2]layers.TCPPort{1025, port}, [2]net.IP{{10, 0, 0, 1}, {10, 0, 0, 2}}, [2]uint32{1000, 2000}
	for _, packet := range []struct {
		from     int
		syn, fin bool
		text     string
	}{{from: 0, syn: true}, {from: 1, syn: true}, {from: 0}, {from: 0, text: request}, {from: 1, text: response}, {from: 0, fin: true}, {from: 1, fin: true}, {from: 0}} {
		from, to := packet.from, 1-packet.from
		ethernet := layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, byte(from)}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, byte(to)}, EthernetType: layers.EthernetTypeIPv4}
		ip := layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: addresses[from], DstIP: addresses[to]}
		tcp := layers.TCP{SrcPort: ports[from], DstPort: ports[to], Seq: next[from], Window: 32768, SYN: packet.syn, FIN: packet.fin}
		if !packet.syn || from == 1 {
			tcp.ACK, tcp.Ack = true, next[to]
		}
		next[from] += uint32(len(packet.text))
		if packet.syn || packet.fin {
			next[from]++
		}
		frame := gopacket.NewSerializeBuffer()
		err := errors.Join(tcp.SetNetworkLayerForChecksum(&ip),
			gopacket.SerializeLayers(frame, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, &ethernet, &ip, &tcp, gopacket.Payload(packet.text)))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(frame.Bytes()), Length: len(frame.Bytes())}, frame.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// plannedOf returns the plan of what was imported.
func plannedOf(t *testing.T, manifests string) string {
	t.Helper()
	if _, stderr, err := spate(manifests, "validate", "-"); err != nil {
		t.Fatal(err, stderr)
	}
	planned, _, err := spate(manifests, "plan", "-")
	if err != nil {
		t.Fatal(err)
	}
	return planned
}

func TestProfilesInPythonThatCannotBeLoadedAreRefused(t *testing.T) {
	python, folder := trexPython(t), t.TempDir()
	file := func(name, text string) string { return write(t, filepath.Join(folder, name), text) }
	write(t, filepath.Join(folder, "request.txt"), "GET /")
	for want, args := range map[string][]string{
		"No such file": {filepath.Join(folder, "missing.py")},
		"has no function `register`, by which TRex finds a profile":      {file("empty.py", "")},
		"has neither get_streams (stateless) nor get_profile (stateful)": {file("neither.py", "def register():\n    return 1\n")},
		"it makes a topology of tunnels or clients, not a profile":       {file("topology.py", "def get_topo():\n    pass\n")},
		"name it with --tags, beside the profile of the streams":         {file("tags.py", "class C:\n    def get_tpg_conf(self): pass\n\ndef register():\n    return C()\n")},
		"it has no tags of tagged packet groups":                         {file("streams.py", statelessProfile), "--tags", file("other.py", statelessProfile)},
		"Python has another module 'json' of its own: rename the file":   {file("json.py", statelessProfile)},
		"ZeroDivisionError: division by zero":                            {file("wrong.py", "1 / 0\n")},
		"ValueError: not today":                                          {file("raises.py", "class C:\n    def get_profile(self, tunables, **more): raise ValueError('not today')\n\ndef register():\n    return C()\n")},
		"unrecognized arguments: --colour red":                           {file("web.py", statefulProfile), "-t", "colour=red"},
		"--direction goes with stateless profiles":                       {file("sides.py", statefulProfile), "--direction", "1"},
		"Bad IP range": {file("range.py", strings.Replace(statefulProfile, `"16.0.0.9"`, `"15.0.0.9"`, 1))},
	} {
		out, _, err := importing("", append(args, "--python", python)...)
		if err == nil || out != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v\nwant %s", args[0], err, want)
		}
	}
}

func TestWithoutTRexsClientTheImportTellsHowToInstallIt(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("NO PYTHON: `make deps` brings python3")
	}
	t.Setenv("PYTHONPATH", "")
	if exec.Command(python, "-c", "import lbr_trex_client").Run() == nil {
		t.Skipf("%s has TRex's client", python)
	}
	file := write(t, filepath.Join(t.TempDir(), "one.py"), statelessProfile)
	if _, _, err := importing("", file, "--python", python); err == nil || !strings.Contains(err.Error(), "-m pip install lbr-trex-client") {
		t.Errorf("got %v", err)
	}
}
