// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

// One header of each kind, for tests that combine them.

type (
	header1 = spatev1.Header
	empty   = spatev1.EmptyOption
)

func full(source, destination string) header1 {
	return header1{Ethernet: &spatev1.EthernetHeader{Source: spatev1.MACAddress(source), Destination: spatev1.MACAddress(destination)}}
}
func innerEth() header1 { return full("02:00:00:00:0a:01", "02:00:00:00:0a:02") }
func mpls(label int32) header1 {
	return header1{MPLS: &spatev1.MPLSHeader{Label: label, TrafficClass: 5, TTL: ptr.To[int32](63)}}
}
func arp() header1 {
	return header1{ARP: &spatev1.ARPHeader{Operation: "Reply", SenderMAC: "02:00:00:00:00:07", SenderIP: "198.18.0.1", TargetIP: "198.18.0.2"}}
}
func pppoe(code int32) header1 {
	return header1{PPPoE: &spatev1.PPPoEHeader{Code: code, SessionID: 0x1234}}
}
func ppp() header1 { return header1{PPP: &spatev1.PPPHeader{}} }
func ip4Options() header1 {
	h := ip4()
	h.IPv4.DSCP, h.IPv4.ECN, h.IPv4.Identification, h.IPv4.DontFragment = 46, 1, 4711, true
	h.IPv4.Options = []spatev1.IPv4Option{{NOP: &empty{}}, {RouterAlert: ptr.To[int32](0)}, {RecordRoute: ptr.To[int32](2)}, {Raw: "5e06ffff0000"}, {End: &empty{}}}
	return h
}
func hopByHop() header1 {
	return header1{IPv6HopByHop: &spatev1.IPv6OptionsHeader{Options: []spatev1.IPv6Option{{Type: 5, Value: "0000"}}}}
}
func destinationOptions() header1 {
	return header1{IPv6Destination: &spatev1.IPv6OptionsHeader{Options: []spatev1.IPv6Option{{Type: 0x1e, Value: "0102030405"}}}}
}
func segments(left int32) header1 {
	return header1{IPv6Routing: &spatev1.IPv6RoutingHeader{Type: 4, SegmentsLeft: left, Addresses: []string{"2001:db8:2::1", "2001:db8:3::1"}}}
}
func fragment6() header1 {
	return header1{IPv6Fragment: &spatev1.IPv6FragmentHeader{Identification: 0xdeadbeef}}
}
func tcpOptions() header1 {
	h := tcp()
	h.TCP.Options = []spatev1.TCPOption{
		{MSS: ptr.To[int32](1460)}, {SACKPermitted: &empty{}}, {Timestamps: &spatev1.TCPTimestamps{Value: 0x01020304, Echo: 5}},
		{NOP: &empty{}}, {WindowScale: ptr.To[int32](7)}, {SACK: []spatev1.SACKBlock{{Left: 1, Right: 1 << 31}}},
	}
	return h
}
func ping4() header1 {
	return header1{ICMPv4: &spatev1.ICMPv4Header{EchoRequest: &spatev1.ICMPEcho{Identifier: 9, Sequence: 3}}}
}
func pong4() header1 {
	return header1{ICMPv4: &spatev1.ICMPv4Header{EchoReply: &spatev1.ICMPEcho{Identifier: 9, Sequence: 3}}}
}
func unreachable4() header1 {
	return header1{ICMPv4: &spatev1.ICMPv4Header{Generic: &spatev1.ICMPGeneric{Type: 3, Code: 3}}}
}
func ping6() header1 {
	return header1{ICMPv6: &spatev1.ICMPv6Header{EchoRequest: &spatev1.ICMPEcho{Identifier: 9, Sequence: 3}}}
}
func unreachable6() header1 {
	return header1{ICMPv6: &spatev1.ICMPv6Header{Generic: &spatev1.ICMPGeneric{Type: 1, Code: 4}}}
}
func solicitation() header1 {
	return header1{ICMPv6: &spatev1.ICMPv6Header{NeighborSolicitation: &spatev1.NeighborSolicitation{Target: "2001:db8::9", SourceLinkLayer: "02:00:00:00:00:07"}}}
}
func advertisement() header1 {
	return header1{ICMPv6: &spatev1.ICMPv6Header{NeighborAdvertisement: &spatev1.NeighborAdvertisement{
		Target: "2001:db8::9", Router: true, Solicited: true, Override: true, TargetLinkLayer: "02:00:00:00:00:07"}}}
}
func sctpData() header1 {
	return header1{SCTP: &spatev1.SCTPHeader{DestinationPort: 5000, VerificationTag: 0xabcdef01, Chunks: []spatev1.SCTPChunk{
		{Raw: &spatev1.SCTPRawChunk{Type: 11}}, {Data: &spatev1.SCTPDataChunk{TSN: 77, Stream: 3, StreamSequence: 4}}}}}
}
func sctpInit() header1 {
	return header1{SCTP: &spatev1.SCTPHeader{DestinationPort: 5000, Chunks: []spatev1.SCTPChunk{
		{Raw: &spatev1.SCTPRawChunk{Type: 1, Value: "01020304000100000010001000000001"}}}}}
}
func gre() header1 { return header1{GRE: &spatev1.GREHeader{}} }
func greFull() header1 {
	return header1{GRE: &spatev1.GREHeader{Key: ptr.To[int64](0xcafe), Sequence: ptr.To[int64](12), ChecksumPresent: true}}
}
func vxlan() header1  { return header1{VXLAN: &spatev1.VXLANHeader{VNI: 0xabcdef}} }
func tunnel() header1 { return header1{UDP: &spatev1.UDPHeader{}} }
func unsummed() header1 {
	return header1{UDP: &spatev1.UDPHeader{Checksum: ptr.To[int32](0)}}
}
func geneve() header1 {
	return header1{Geneve: &spatev1.GeneveHeader{VNI: 77, Options: []spatev1.GeneveOption{{Class: 0x0102, Type: 1, Value: "01020304"}}}}
}
func gtpu() header1 { return header1{GTPU: &spatev1.GTPUHeader{TEID: 0x11223344}} }
func gtpuFull() header1 {
	return header1{GTPU: &spatev1.GTPUHeader{TEID: 5, Sequence: ptr.To[int32](9), Extensions: []spatev1.GTPUExtension{{Type: 0x85, Content: "0009"}}}}
}
func lacp() header1 {
	return header1{LACP: &spatev1.LACPHeader{
		Actor: spatev1.LACPParticipant{
			SystemPriority: 32768, System: "02:00:00:00:00:07", Key: 13, PortPriority: 255, Port: 22,
			State: []spatev1.LACPState{spatev1.LACPActivity, spatev1.LACPAggregation, spatev1.LACPSynchronization},
		},
		Partner: &spatev1.LACPParticipant{System: "02:00:00:00:00:08", Key: 1, Port: 2, State: []spatev1.LACPState{spatev1.LACPTimeout, spatev1.LACPExpired}}, CollectorMaxDelay: 50,
	}}
}
func pause(quanta int32) header1 {
	return header1{MACControl: &spatev1.MACControlHeader{PauseTime: &quanta}}
}
func pfc() header1 {
	return header1{MACControl: &spatev1.MACControlHeader{PriorityEnableVector: ptr.To[int32](0x88), Times: []int32{0, 0, 0, 65535, 0, 0, 0, 1}}}
}
func igmp(message spatev1.IGMPMessage) header1 {
	h := header1{IGMP: &spatev1.IGMPHeader{Message: message}}
	switch message {
	case spatev1.IGMPReportV3:
		h.IGMP.GroupRecords = []spatev1.MulticastRecord{
			{RecordType: spatev1.ModeIsExclude, MulticastAddress: "239.1.1.1"},
			{RecordType: spatev1.AllowNewSources, MulticastAddress: "232.1.1.1", SourceAddresses: []string{"198.18.0.1", "198.18.0.2"}},
		}
	case spatev1.IGMPQueryV3:
		h.IGMP.SourceAddresses = []string{"198.18.0.1"}
		fallthrough
	default:
		h.IGMP.GroupAddress = "239.1.1.1"
	}
	return h
}
func mld(message spatev1.MLDMessage) header1 {
	m := &spatev1.MulticastListener{Message: message}
	switch message {
	case spatev1.MLDReportV2:
		m.MulticastAddressRecords = []spatev1.MulticastRecord{
			{RecordType: spatev1.ChangeToExcludeMode, MulticastAddress: "ff0e::1"},
			{RecordType: spatev1.BlockOldSources, MulticastAddress: "ff3e::1", SourceAddresses: []string{"2001:db8::1", "2001:db8::2"}},
		}
	case spatev1.MLDQueryV2:
		m.SourceAddresses = []string{"2001:db8::1"}
		fallthrough
	default:
		m.MulticastAddress = "ff0e::1"
	}
	return header1{ICMPv6: &spatev1.ICMPv6Header{MulticastListener: m}}
}
func nsh() header1 {
	return header1{NSH: &spatev1.NSHHeader{ServicePathIdentifier: 0xabcdef, FixedContext: "000102030405060708090a0b0c0d0e0f"}}
}
func nshMetadata() header1 {
	return header1{NSH: &spatev1.NSHHeader{ServicePathIdentifier: 5, ServiceIndex: ptr.To[int32](7), TTL: ptr.To[int32](3), OAM: true,
		Metadata: []spatev1.NSHMetadata{{Class: 0x0102, Type: 3, Value: "0405060708"}, {Class: 9, Type: 1}}}}
}
func l2tp() header1 { return header1{L2TP: &spatev1.L2TPHeader{TunnelID: 10, SessionID: 20}} }
func l2tpFull() header1 {
	return header1{L2TP: &spatev1.L2TPHeader{TunnelID: 10, SessionID: 20, LengthPresent: true, Ns: ptr.To[int32](3), OffsetSize: ptr.To[int32](4), Priority: true}}
}
func l2tpControl() header1 {
	return header1{L2TP: &spatev1.L2TPHeader{Control: true, TunnelID: 10, Ns: ptr.To[int32](3), Nr: ptr.To[int32](4), AVPs: "8008000000000006"}} // HELLO
}
func l2tpv3(cookie string) header1 {
	return header1{L2TPv3: &spatev1.L2TPv3Header{SessionID: ptr.To[int64](0x01020304), Cookie: cookie, SequenceNumber: ptr.To[int32](7)}}
}
func l2tpv3Control() header1 {
	return header1{L2TPv3: &spatev1.L2TPv3Header{ControlConnectionID: ptr.To[int64](0x01020304), Ns: ptr.To[int32](3), Nr: ptr.To[int32](4)}}
}
