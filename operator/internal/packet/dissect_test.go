// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

// An independent dissector (tshark) decodes every combination of headers. It must report the headers that were
// described, correct checksums and nothing malformed.

// stackCase is a packet and what tshark must report of it.
type stackCase struct {
	packet *spatev1.Packet
	// fields that tshark must report, by tshark's names.
	fields map[string]string
	// trailer reserves room for the trailer.
	trailer bool
}

type stackOf = []header1

func join(parts ...stackOf) stackOf { return slices.Concat(parts...) }

var (
	links = []stackOf{
		{eth()}, {eth(), vlan(100, "")}, {eth(), vlan(100, "802.1ad"), vlan(200, "")}, {eth(), mpls(1000), mpls(2000)},
		{eth(), vlan(7, ""), nsh()}, {eth(), vlan(7, ""), mpls(16)}, {eth(), pppoe(0), ppp()}, {eth(), vlan(7, ""), pppoe(0), ppp()}, {eth(), pppoe(0), ppp(), mpls(99)},
	}
	networks4 = []stackOf{{ip4()}, {ip4Options()}, {ip6(), ip4()}, {ip4(), ip4()}}
	networks6 = []stackOf{
		{ip6()}, {ip6(), hopByHop()}, {ip6(), destinationOptions()}, {ip6(), segments(0)}, {ip6(), segments(1)}, {ip6(), fragment6()},
		{ip6(), hopByHop(), destinationOptions(), segments(1), fragment6(), destinationOptions()}, {ip4(), ip6()},
	}
	transports  = []stackOf{{udp()}, {unsummedTo(7)}, {tcp()}, {tcpOptions()}, {sctpData()}, {sctpInit()}}
	transports4 = append(slices.Clone(transports), stackOf{ping4()}, stackOf{pong4()}, stackOf{unreachable4(), ip4(), udp()},
		stackOf{igmp(spatev1.IGMPQueryV1)}, stackOf{igmp(spatev1.IGMPQueryV2)}, stackOf{igmp(spatev1.IGMPQueryV3)}, stackOf{igmp(spatev1.IGMPReportV1)},
		stackOf{igmp(spatev1.IGMPReportV2)}, stackOf{igmp(spatev1.IGMPReportV3)}, stackOf{igmp(spatev1.IGMPLeave)})
	transports6 = append(slices.Clone(transports), stackOf{ping6()}, stackOf{unreachable6(), ip6(), udp()}, stackOf{solicitation()}, stackOf{advertisement()},
		stackOf{mld(spatev1.MLDQueryV1)}, stackOf{mld(spatev1.MLDQueryV2)}, stackOf{mld(spatev1.MLDReportV1)}, stackOf{mld(spatev1.MLDReportV2)}, stackOf{mld(spatev1.MLDDone)})
	tunnels = []stackOf{
		{eth(), ip4(), tunnel(), vxlan(), innerEth()}, {eth(), ip6(), tunnel(), vxlan(), innerEth(), vlan(5, "")},
		{eth(), ip4(), unsummed(), vxlan(), innerEth()}, {eth(), ip4(), gre()}, {eth(), ip6(), greFull()}, {eth(), ip4(), greFull(), innerEth()},
		{eth(), ip4(), gre(), mpls(3000)}, {eth(), ip4(), tunnel(), geneve(), innerEth()}, {eth(), ip6(), unsummed(), geneve(), innerEth(), vlan(6, "")},
		{eth(), nsh(), innerEth()}, {eth(), nshMetadata()}, {eth(), ip4(), gre(), nsh(), innerEth(), vlan(6, "")}, {eth(), ip4(), tunnel(), geneve(), nsh()},
		{eth(), ip4(), tunnel(), vxlan()}, {eth(), ip6(), tunnel(), vxlan(), nsh(), innerEth()}, {eth(), ip4(), unsummed(), vxlan(), nshMetadata(), nsh()},
		{eth(), ip4(), tunnel(), l2tp(), ppp()}, {eth(), ip6(), tunnel(), l2tpFull(), ppp()},
		{eth(), ip4(), tunnel(), gtpu()}, {eth(), ip6(), tunnel(), gtpuFull()}, {eth(), vlan(9, ""), ip4Options(), unsummed(), gtpuFull()},
	}
)

func unsummedTo(port int32) header1 {
	h := unsummed()
	h.UDP.DestinationPort = ptr.To(port)
	return h
}

// dissected returns the combinations of headers.
func dissected() []stackCase {
	var cases []stackCase
	add := func(s stackOf, size int32) {
		cases = append(cases, stackCase{packet: described(size, s...)})
	}
	for _, link := range slices.Concat(links, tunnels) {
		for _, n := range networks4 {
			for _, transport := range transports4 {
				add(join(link, n, transport), 0)
			}
		}
		for _, n := range networks6 {
			for _, transport := range transports6 {
				add(join(link, n, transport), 0)
			}
		}
		last := link[len(link)-1]
		if last.Ethernet != nil || last.VLAN != nil {
			add(join(link, stackOf{arp()}), 0)
			add(join(link, stackOf{lacp()}), 0)
		}
	}
	for _, size := range []int32{64 + 32, 777, 1518, 9233, 9234} {
		for _, s := range []stackOf{{eth(), ip4(), udp()}, {eth(), ip6(), tcp()}, {eth(), ip4(), ping4()}, {eth(), ip6(), ping6()}} {
			cases = append(cases, stackCase{packet: described(size, s...), trailer: true})
		}
	}
	add(stackOf{eth(), pppoe(9)}, 64)
	add(stackOf{eth(), pause(7)}, 64)
	add(stackOf{eth(), pfc()}, 1518)
	return append(cases, withFields()...)
}

// withFields returns packets whose fields are compared one by one.
func withFields() []stackCase {
	of := func(fields string, s ...header1) stackCase {
		c := stackCase{packet: described(0, s...), fields: map[string]string{}}
		for _, pair := range strings.Fields(fields) {
			name, value, _ := strings.Cut(pair, "=")
			c.fields[name] = value
		}
		return c
	}
	icmp := unreachable4()
	icmp.ICMPv4.Generic.Rest = 0x05dc
	icmp.ICMPv4.Generic.Code = 4
	fragment := ip4()
	fragment.IPv4.MoreFragments, fragment.IPv4.Identification = true, 77
	later := ip4()
	later.IPv4.FragmentOffset, later.IPv4.Protocol = 185, ptr.To[int32](17)
	later6 := fragment6()
	later6.IPv6Fragment.Offset, later6.IPv6Fragment.MoreFragments, later6.IPv6Fragment.NextHeader = 1000, true, ptr.To[int32](17)
	sized := stackCase{packet: described(128, eth(), ip6(), later6), fields: map[string]string{"ipv6.fraghdr.offset": "1000", "ipv6.fraghdr.more": "1"}}
	all := tcp()
	all.TCP.Flags = []spatev1.TCPFlag{"FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"}
	all.TCP.UrgentPointer, all.TCP.Acknowledgement, all.TCP.Window = 513, 1<<32-1, ptr.To[int32](1024)
	return []stackCase{
		sized,
		of("ieee8021ad.id=100 vlan.id=200", eth(), vlan(100, "802.1ad"), vlan(200, ""), ip4(), udp()),
		of("mpls.label=1000,2000 mpls.exp=5,5 mpls.bottom=0,1 mpls.ttl=63,63", eth(), mpls(1000), mpls(2000), ip4(), udp()),
		of("arp.opcode=2 arp.src.hw_mac=02:00:00:00:00:07 arp.src.proto_ipv4=198.18.0.1 arp.dst.proto_ipv4=198.18.0.2", eth(), arp()),
		of("pppoe.session_id=0x1234 pppoe.code=0x00", eth(), pppoe(0), ppp(), ip4(), udp()),
		of("ip.dsfield.dscp=46 ip.dsfield.ecn=1 ip.id=0x1267 ip.flags.df=1 ip.hdr_len=44 ip.ttl=64 ip.opt.type=1,148,7,0", eth(), ip4Options(), udp()),
		of("ip.flags.mf=1 ip.id=0x004d", eth(), fragment, udp()),
		of("ip.frag_offset=185 ip.proto=17", eth(), later),
		of("ipv6.flow=0x012345 ipv6.hlim=64 ipv6.src=2001:db8::1 ipv6.dst=2001:db8:1::1 ipv6.opt.type=0x05,0x01", eth(), ip6(), hopByHop(), udp()),
		of("ipv6.routing.type=4 ipv6.routing.segleft=1 ipv6.routing.srh.last_entry=1 ipv6.routing.srh.addr=2001:db8:2::1,2001:db8:3::1", eth(), ip6(), segments(1), tcp()),
		of("ipv6.fraghdr.ident=0xdeadbeef ipv6.fraghdr.offset=0 ipv6.fraghdr.more=0", eth(), ip6(), fragment6(), udp()),
		of("tcp.flags=0x00ff tcp.urgent_pointer=513 tcp.window_size_value=1024 tcp.seq_raw=2147483648 tcp.ack_raw=4294967295", eth(), ip4(), all),
		of("tcp.options.mss_val=1460 tcp.options.timestamp.tsval=16909060 tcp.options.timestamp.tsecr=5 tcp.options.wscale.shift=7 tcp.hdr_len=52", eth(), ip4(), tcpOptions()),
		of("icmp.type=8 icmp.ident=9 icmp.seq=3", eth(), ip4(), ping4()),
		of("icmp.type=3 icmp.code=4 icmp.mtu=1500", eth(), ip4(), icmp, ip4(), udp()),
		of("icmpv6.type=128 icmpv6.echo.identifier=0x0009 icmpv6.echo.sequence_number=3", eth(), ip6(), ping6()),
		of("icmpv6.nd.ns.target_address=2001:db8::9 icmpv6.opt.linkaddr=02:00:00:00:00:07", eth(), ip6(), solicitation()),
		of("icmpv6.nd.na.target_address=2001:db8::9 icmpv6.nd.na.flag.r=1 icmpv6.nd.na.flag.s=1 icmpv6.nd.na.flag.o=1", eth(), ip6(), advertisement()),
		of("sctp.dstport=5000 sctp.verification_tag=0xabcdef01 sctp.chunk_type=11,0 sctp.data_tsn_raw=77 sctp.data_sid=0x0003 sctp.data_ssn=4", eth(), ip4(), sctpData()),
		of("gre.key=0x0000cafe gre.sequence_number=12 gre.proto=0x0800", eth(), ip4(), greFull(), ip4(), udp()),
		of("vxlan.vni=11259375 vxlan.flags=0x0800 udp.dstport=4789,7", eth(), ip4(), tunnel(), vxlan(), innerEth(), ip4(), udp()),
		of("geneve.vni=0x00004d geneve.proto_type=0x6558 geneve.option.class=0x0102 geneve.option.length=8,8", eth(), ip4(), tunnel(), geneve(), innerEth(), ip4(), udp()),
		of("lacp.version=0x01 lacp.actor.sys_priority=32768 lacp.actor.sysid=02:00:00:00:00:07 lacp.actor.key=13 lacp.actor.port_priority=255 lacp.actor.port=22 lacp.actor.state=0x0d "+
			"lacp.partner.sysid=02:00:00:00:00:08 lacp.partner.key=1 lacp.partner.port=2 lacp.partner.state=0x82 lacp.tlv_type=0x01,0x02,0x03,0x00 lacp.tlv_length=0x14,0x14,0x10,0x00 lacp.collector.max_delay=50", eth(), lacp()),
		of("macc.opcode=0x0001 macc.pause_time=65535", eth(), pause(65535)),
		of("macc.opcode=0x0101 macc.cbfc.enbv=0x0088 macc.cbfc.pause_time.c3=65535 macc.cbfc.pause_time.c7=1 macc.cbfc.pause_time.c0=0", eth(), pfc()),
		of("igmp.type=0x11 igmp.version=1 igmp.maddr=239.1.1.1 ip.ttl=1 ip.hdr_len=20", eth(), ip4(), igmp(spatev1.IGMPQueryV1)),
		of("igmp.type=0x11 igmp.version=2 igmp.max_resp=100 ip.ttl=1 ip.opt.ra=0", eth(), ip4(), igmp(spatev1.IGMPQueryV2)),
		of("igmp.type=0x11 igmp.version=3 igmp.qrv=2 igmp.qqic=125 igmp.s=0 igmp.num_src=1 igmp.saddr=198.18.0.1", eth(), ip4(), igmp(spatev1.IGMPQueryV3)),
		of("igmp.type=0x22 igmp.num_grp_recs=2 igmp.record_type=2,5 igmp.maddr=239.1.1.1,232.1.1.1 igmp.num_src=0,2 igmp.saddr=198.18.0.1,198.18.0.2", eth(), ip4(), igmp(spatev1.IGMPReportV3)),
		of("icmpv6.type=130 icmpv6.mld.maximum_response_delay=10000 icmpv6.mld.multicast_address=ff0e::1 ipv6.hlim=1 ipv6.opt.router_alert=0", eth(), ip6(), header1{IPv6HopByHop: &spatev1.IPv6OptionsHeader{}}, mld(spatev1.MLDQueryV1)),
		of("icmpv6.type=130 icmpv6.mld.maximum_response_code=10000 icmpv6.mld.flag.qrv=2 icmpv6.mld.qqi=125 icmpv6.mld.nb_sources=1 icmpv6.mld.source_address=2001:db8::1", eth(), ip6(), hopByHop(), mld(spatev1.MLDQueryV2)),
		of("icmpv6.type=143 icmpv6.mldr.nb_mcast_records=2 icmpv6.mldr.mar.record_type=4,6 icmpv6.mldr.mar.multicast_address=ff0e::1,ff3e::1 icmpv6.mldr.mar.source_address=2001:db8::1,2001:db8::2", eth(), ip6(), hopByHop(), mld(spatev1.MLDReportV2)),
		of("nsh.spi=11259375 nsh.si=255 nsh.ttl=0x003f nsh.length=6 nsh.mdtype=1 nsh.nextproto=1 nsh.contextheader=00010203,04050607,08090a0b,0c0d0e0f", eth(), nsh(), ip4(), udp()),
		of("nsh.spi=5 nsh.si=7 nsh.ttl=0x0003 nsh.Obit=1 nsh.length=6 nsh.mdtype=2 nsh.nextproto=2 nsh.metadataclass=258,9 nsh.metadatatype=3,1", eth(), nshMetadata(), ip6(), udp()),
		of("vxlan.next_proto=4 vxlan.flags=0x0c udp.dstport=4790,7 vxlan.vni=11259375", eth(), ip4(), tunnel(), vxlan(), nsh(), ip4(), udp()),
		of("l2tp.version=2 l2tp.tunnel=10 l2tp.session=20 l2tp.length=50 l2tp.Ns=3 l2tp.Nr=0 l2tp.offset=4 l2tp.priority=1 ppp.protocol=0x0021 ppp.address=0xff", eth(), ip4(), tunnel(), l2tpFull(), ppp(), ip4(), udp()),
		of("l2tp.type=1 l2tp.version=2 l2tp.length=20 l2tp.Ns=3 l2tp.Nr=4 l2tp.avp.message_type=6", eth(), ip4(), tunnel(), l2tpControl()),
		of("l2tp.version=3 l2tp.type=1 l2tp.ccid=0x01020304 l2tp.length=12 l2tp.Ns=3 l2tp.Nr=4", eth(), ip6(), tunnel(), l2tpv3Control()),
		of("l2tp.version=3 l2tp.ccid=0x01020304 l2tp.length=12", eth(), ip4(), l2tpv3Control()),
		of("gtp.teid=0x11223344 gtp.message=0xff", eth(), ip4(), tunnel(), gtpu(), ip4(), udp()),
		of("gtp.teid=0x00000005 gtp.seq_number=0x0009 gtp.ext_hdr.pdu_ses_con.qos_flow_id=9", eth(), ip4(), tunnel(), gtpuFull(), ip4(), udp()),
	}
}

// protocols are tshark's names of the headers.
var protocols = map[Kind]string{
	Ethernet: "eth", VLAN: "vlan", MPLS: "mpls", ARP: "arp", PPPoE: "pppoes", PPP: "ppp", IPv4: "ip", IPv6: "ipv6",
	IPv6HopByHop: "ipv6.hopopts", IPv6Destination: "ipv6.dstopts", IPv6Routing: "ipv6.routing", IPv6Fragment: "ipv6.fraghdr",
	ICMPv4: "icmp", ICMPv6: "icmpv6", UDP: "udp", TCP: "tcp", SCTP: "sctp", GRE: "gre", VXLAN: "vxlan", Geneve: "geneve", GTPU: "gtp",
	LACP: "slow:lacp", MACControl: "macc", IGMP: "igmp", NSH: "nsh", L2TP: "l2tp", L2TPv3: "l2tp",
}

// checked are the fields with tshark's checksum status: 0 is wrong, 1 right, 2 not checked, 3 absent.
var checked = []string{
	"ip.checksum.status", "tcp.checksum.status", "udp.checksum.status", "icmp.checksum.status", "icmpv6.checksum.status",
	"sctp.checksum.status", "gre.checksum.status", "igmp.checksum.status",
}

func TestADissectorSeesWhatWasDescribed(t *testing.T) {
	cases := dissected()
	var frames [][]byte
	var built []*Packet
	for _, c := range cases {
		p, errs := Build(c.packet, at, Options{NextHop: InternalDestination, Trailer: c.trailer})
		if len(errs) > 0 {
			t.Fatalf("%v: %v", kinds(c.packet), errs)
		}
		frames, built = append(frames, p.Frame), append(built, p)
	}
	names := slices.Concat([]string{"frame.protocols", "_ws.malformed", "_ws.expert.severity", "_ws.expert.message"}, checked)
	for _, c := range cases {
		for name := range c.fields {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	lines := tshark(t, frames, names)
	t.Logf("%d packets", len(lines))
	for i, seen := range lines {
		stack := kinds(cases[i].packet)
		want := protocolsOf(cases[i].packet)
		if got := seen["frame.protocols"]; !strings.HasPrefix(simplified(got)+":", want+":") {
			t.Errorf("%v is read as %s, want %s", stack, simplified(got), want)
		}
		if wrong := complaint(seen); wrong != "" {
			t.Errorf("%v: %s", stack, wrong)
		}
		for _, name := range checked {
			if slices.Contains(strings.Split(seen[name], ","), "0") {
				t.Errorf("%v: %s is wrong (%s)\n%x", stack, name, seen[name], frames[i])
			}
		}
		for name, want := range cases[i].fields {
			if got := seen[name]; got != want {
				t.Errorf("%v: %s is %s, want %s", stack, name, got, want)
			}
		}
		checksumsHold(t, built[i])
	}
}

// complaint returns what tshark reports as an error. tshark reports the Ethernet padding behind PPPoE as an error, too:
// that is no fault.
func complaint(seen map[string]string) string {
	const isError = "8388608"
	message := seen["_ws.expert.message"]
	if strings.HasPrefix(message, "Possible bad payload length") {
		return ""
	}
	if seen["_ws.malformed"] != "" || strings.Contains(seen["_ws.expert.severity"], isError) {
		return "malformed: " + message
	}
	return ""
}

func kinds(p *spatev1.Packet) (all []Kind) {
	for i := range p.Headers {
		kind, _ := kindOf(&p.Headers[i])
		all = append(all, kind)
	}
	return all
}

func protocolsOf(p *spatev1.Packet) string {
	var names []string
	for i, kind := range kinds(p) {
		name := protocols[kind]
		switch {
		case kind == VLAN && p.Headers[i].VLAN.Protocol == spatev1.VLANService:
			name = "ieee8021ad"
		case kind == PPPoE && p.Headers[i].PPPoE.Code != 0:
			name = "pppoed"
		}
		if kind == VXLAN && p.Headers[i+1].Ethernet == nil {
			continue // VXLAN-GPE is in no list of tshark's
		}
		if n := len(names); n > 0 && kind == MPLS && names[n-1] == "mpls" {
			continue // one entry for a whole label stack
		}
		names = append(names, name)
		if f := p.Headers[i].IPv4; f != nil && (f.FragmentOffset > 0 || f.MoreFragments) {
			break
		}
	}
	return strings.Join(names, ":")
}

// simplified removes what tshark lists between headers.
func simplified(protocols string) string {
	var kept []string
	for _, name := range strings.Split(protocols, ":") {
		if name != "ethertype" {
			kept = append(kept, name)
		}
	}
	return strings.Join(kept, ":")
}

// tshark decodes frames and returns the fields of each.
func tshark(t *testing.T, frames [][]byte, fields []string) []map[string]string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		t.Fatal("tshark is not installed; run `make deps`")
	}
	capture := filepath.Join(t.TempDir(), "packets.pcap")
	if err := os.WriteFile(capture, pcap(frames), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-n", "-r", capture, "-T", "fields", "-E", "separator=/t"}
	for _, on := range []string{
		"ip.check_checksum:TRUE", "tcp.check_checksum:TRUE", "udp.check_checksum:TRUE", "sctp.checksum:CRC32C",
		"tcp.analyze_sequence_numbers:FALSE", "udp.ignore_ipv6_zero_checksum:TRUE", "ip.defragment:FALSE", "ipv6.defragment:FALSE",
	} {
		args = append(args, "-o", on)
	}
	for _, name := range fields {
		args = append(args, "-e", name)
	}
	command := exec.Command(path, args...)
	command.Env = append(os.Environ(), "HOME="+t.TempDir(), "LC_ALL=C")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, stderr.String())
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(frames) {
		t.Fatalf("tshark shows %d packets of %d: %s", len(lines), len(frames), stderr.String())
	}
	all := make([]map[string]string, len(lines))
	for i, line := range lines {
		all[i] = map[string]string{}
		for j, value := range strings.Split(line, "\t") {
			all[i][fields[j]] = value
		}
	}
	return all
}

// pcap writes frames as an Ethernet capture.
func pcap(frames [][]byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	out = append(out, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	out = binary.LittleEndian.AppendUint32(out, 1<<16)
	out = binary.LittleEndian.AppendUint32(out, 1)
	for i, frame := range frames {
		for _, number := range []int{i, 0, len(frame), len(frame)} {
			out = binary.LittleEndian.AppendUint32(out, uint32(number))
		}
		out = append(out, frame...)
	}
	return out
}

// TestCutPacketsStayTrue truncates packets as the engine does when sizes vary, writes lengths and checksums by the
// offsets the engine gets, and has tshark check them.
func TestCutPacketsStayTrue(t *testing.T) {
	var frames [][]byte
	var names []string
	for _, c := range dissected() {
		if c.fields != nil || c.trailer {
			continue
		}
		p := c.packet
		p.Size = nil
		base, errs := Build(p, at, Options{NextHop: InternalDestination})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		least := int32(base.WireBytes())
		p.Sizes = &spatev1.PacketSizes{Range: &spatev1.SizeRange{Start: least, End: least + 300, Step: 4}}
		built, errs := Build(p, at, Options{NextHop: InternalDestination})
		if len(errs) > 0 {
			t.Fatalf("%v: %v", kinds(p), errs)
		}
		for _, size := range []int{int(least), int(least) + 4, int(least) + 96} {
			frame := bytes.Clone(built.Frame[:size-FCSBytes])
			for _, l := range built.Lengths {
				binary.BigEndian.PutUint16(frame[l.Offset:], uint16(len(frame)-l.Minus))
			}
			for _, sum := range built.Checksums {
				sum.write(frame)
			}
			frames, names = append(frames, frame), append(names, fmt.Sprintf("%v of %d", kinds(p), size))
		}
	}
	for i, seen := range tshark(t, frames, append([]string{"_ws.malformed", "_ws.expert.severity", "_ws.expert.message"}, checked...)) {
		if wrong := complaint(seen); wrong != "" {
			t.Errorf("%s: %s", names[i], wrong)
		}
		for _, name := range checked {
			if slices.Contains(strings.Split(seen[name], ","), "0") {
				t.Errorf("%s: %s is wrong", names[i], name)
			}
		}
	}
}
