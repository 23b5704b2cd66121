// SPDX-License-Identifier: Apache-2.0

// How does a stack of described headers become layers, and what is wrong with a stack that cannot?

package packet

import (
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/operator/api/v1alpha1"
)

// Kind is a kind of header, by the name it has in a packet's description.
type Kind string

// The kinds of headers.
const (
	Ethernet Kind = "ethernet"
	VLAN     Kind = "vlan"
	IPv4     Kind = "ipv4"
	IPv6     Kind = "ipv6"
	UDP      Kind = "udp"
	TCP      Kind = "tcp"
)

// bytesOf is the length of each kind; descriptions have no options and no extension headers.
var bytesOf = map[Kind]int{Ethernet: 14, VLAN: 4, IPv4: 20, IPv6: 40, UDP: 8, TCP: 20}

// follows says what may stand before a kind; the empty kind is the packet's start.
var follows = map[Kind][]Kind{
	Ethernet: {""},
	VLAN:     {Ethernet, VLAN},
	IPv4:     {Ethernet, VLAN, IPv4, IPv6},
	IPv6:     {Ethernet, VLAN, IPv4, IPv6},
	UDP:      {IPv4, IPv6},
	TCP:      {IPv4, IPv6},
}

// HeaderAt is a header in a frame.
type HeaderAt struct {
	Kind Kind
	// Offset of its first byte.
	Offset int
	// Length of the header.
	Length int
	// End of what it carries.
	End int
}

// stack is a list of headers on its way to bytes.
type stack struct {
	nextHop net.HardwareAddr
	layers  []gopacket.SerializableLayer
	headers []HeaderAt
	length  int
	// network is the innermost IP header so far: transport checksums cover its addresses.
	network gopacket.NetworkLayer
	errs    field.ErrorList
}

func newStack(headers []spatev1.Header, at *field.Path, nextHop net.HardwareAddr) (*stack, field.ErrorList) {
	s := &stack{nextHop: nextHop}
	before := Kind("")
	for i := range headers {
		kind, set := kindOf(&headers[i])
		if set != 1 {
			s.fail(field.Invalid(at.Index(i), set, "set exactly one of ethernet, vlan, ipv4, ipv6, udp and tcp"))
			continue
		}
		at := at.Index(i).Child(string(kind))
		if !slices.Contains(follows[kind], before) {
			s.fail(field.Forbidden(at, misplaced(kind, before)))
		}
		var next *spatev1.Header
		if i+1 < len(headers) {
			next = &headers[i+1]
		}
		s.add(kind, &headers[i], next, at)
		before = kind
	}
	return s, s.errs
}

func kindOf(h *spatev1.Header) (kind Kind, set int) {
	for k, present := range map[Kind]bool{
		Ethernet: h.Ethernet != nil, VLAN: h.VLAN != nil, IPv4: h.IPv4 != nil,
		IPv6: h.IPv6 != nil, UDP: h.UDP != nil, TCP: h.TCP != nil,
	} {
		if present {
			kind, set = k, set+1
		}
	}
	return kind, set
}

func misplaced(kind, before Kind) string {
	if before == "" {
		return "the first header must be ethernet"
	}
	if kind == Ethernet {
		return "ethernet must be the first header"
	}
	names := make([]string, len(follows[kind]))
	for i, k := range follows[kind] {
		names[i] = string(k)
	}
	return fmt.Sprintf("must follow %s, not %s", strings.Join(names, " or "), before)
}

func (s *stack) fail(err *field.Error) { s.errs = append(s.errs, err) }

func (s *stack) add(kind Kind, h, next *spatev1.Header, at *field.Path) {
	var layer gopacket.SerializableLayer
	switch kind {
	case Ethernet:
		layer = s.ethernet(h.Ethernet, next, at)
	case VLAN:
		layer = s.vlan(h.VLAN, next, at)
	case IPv4:
		ip := s.ipv4(h.IPv4, next, at)
		layer, s.network = ip, ip
	case IPv6:
		ip := s.ipv6(h.IPv6, next, at)
		layer, s.network = ip, ip
	case UDP:
		layer = s.udp(h.UDP, at)
	case TCP:
		layer = s.tcp(h.TCP, at)
	}
	s.layers = append(s.layers, layer)
	s.headers = append(s.headers, HeaderAt{Kind: kind, Offset: s.length, Length: bytesOf[kind]})
	s.length += bytesOf[kind]
}

func (s *stack) ethernet(h *spatev1.EthernetHeader, next *spatev1.Header, at *field.Path) gopacket.SerializableLayer {
	source := make(net.HardwareAddr, 6) // the engine writes the port's own
	if h.Source != "" {
		source = s.mac(h.Source, at.Child("source"))
	}
	destination := s.nextHop
	switch {
	case h.Destination != "":
		destination = s.mac(h.Destination, at.Child("destination"))
	case destination == nil:
		s.fail(field.Required(at.Child("destination"), "the next hop's address is not resolved yet: write the MAC "+
			"address of the device the port is connected to (only loopback and null ports do without)"))
	}
	return &layers.Ethernet{SrcMAC: source, DstMAC: destination, EthernetType: s.etherType(h.EtherType, next, at)}
}

func (s *stack) vlan(h *spatev1.VLANHeader, next *spatev1.Header, at *field.Path) gopacket.SerializableLayer {
	return &layers.Dot1Q{
		VLANIdentifier: uint16(s.number(int64(h.ID), 0xfff, at.Child("id"))),
		Priority:       uint8(s.number(int64(h.Priority), 7, at.Child("priority"))),
		DropEligible:   h.DropEligible,
		Type:           s.etherType(h.EtherType, next, at),
	}
}

// etherType is the one written, or the next header's.
func (s *stack) etherType(written *int32, next *spatev1.Header, at *field.Path) layers.EthernetType {
	at = at.Child("etherType")
	switch {
	case written != nil:
		if *written < 1536 {
			s.fail(field.Invalid(at, *written, "must be 1536 to 65535"))
		}
		return layers.EthernetType(s.number(int64(*written), math.MaxUint16, at))
	case next == nil:
		s.fail(field.Required(at, "no header follows that would tell it"))
	case next.VLAN != nil && next.VLAN.Protocol == spatev1.VLANService:
		return layers.EthernetTypeQinQ
	case next.VLAN != nil:
		return layers.EthernetTypeDot1Q
	case next.IPv4 != nil:
		return layers.EthernetTypeIPv4
	case next.IPv6 != nil:
		return layers.EthernetTypeIPv6
	}
	return 0 // the next header is misplaced, and that is told there
}

func (s *stack) ipv4(h *spatev1.IPv4Header, next *spatev1.Header, at *field.Path) *layers.IPv4 {
	flags := layers.IPv4Flag(0)
	if h.DontFragment {
		flags = layers.IPv4DontFragment
	}
	return &layers.IPv4{
		Version:  4,
		TOS:      uint8(s.number(int64(h.DSCP), 63, at.Child("dscp"))<<2 | s.number(int64(h.ECN), 3, at.Child("ecn"))),
		Id:       uint16(s.number(int64(h.Identification), math.MaxUint16, at.Child("identification"))),
		Flags:    flags,
		TTL:      uint8(s.optional(h.TTL, 64, math.MaxUint8, at.Child("ttl"))),
		Protocol: s.protocol(h.Protocol, next, at.Child("protocol")),
		SrcIP:    s.address(string(h.Source), netip.Addr.Is4, "an IPv4 address such as 198.18.0.1", at.Child("source")),
		DstIP:    s.address(string(h.Destination), netip.Addr.Is4, "an IPv4 address such as 198.18.0.1", at.Child("destination")),
	}
}

func (s *stack) ipv6(h *spatev1.IPv6Header, next *spatev1.Header, at *field.Path) *layers.IPv6 {
	return &layers.IPv6{
		Version:      6,
		TrafficClass: uint8(s.number(int64(h.TrafficClass), math.MaxUint8, at.Child("trafficClass"))),
		FlowLabel:    uint32(s.number(int64(h.FlowLabel), 1<<20-1, at.Child("flowLabel"))),
		HopLimit:     uint8(s.optional(h.HopLimit, 64, math.MaxUint8, at.Child("hopLimit"))),
		NextHeader:   s.protocol(h.NextHeader, next, at.Child("nextHeader")),
		SrcIP:        s.address(string(h.Source), netip.Addr.Is6, "an IPv6 address such as 2001:db8::1", at.Child("source")),
		DstIP:        s.address(string(h.Destination), netip.Addr.Is6, "an IPv6 address such as 2001:db8::1", at.Child("destination")),
	}
}

// protocol is the one written, or the next header's.
func (s *stack) protocol(written *int32, next *spatev1.Header, at *field.Path) layers.IPProtocol {
	switch {
	case written != nil:
		return layers.IPProtocol(s.number(int64(*written), math.MaxUint8, at))
	case next == nil:
		s.fail(field.Required(at, "no header follows that would tell it"))
	case next.UDP != nil:
		return layers.IPProtocolUDP
	case next.TCP != nil:
		return layers.IPProtocolTCP
	case next.IPv4 != nil:
		return layers.IPProtocolIPv4
	case next.IPv6 != nil:
		return layers.IPProtocolIPv6
	}
	return 0 // the next header is misplaced, and that is told there
}

func (s *stack) udp(h *spatev1.UDPHeader, at *field.Path) gopacket.SerializableLayer {
	layer := &layers.UDP{
		SrcPort: layers.UDPPort(s.optional(h.SourcePort, 49152, math.MaxUint16, at.Child("sourcePort"))),
		DstPort: layers.UDPPort(s.optional(h.DestinationPort, 0, math.MaxUint16, at.Child("destinationPort"))),
	}
	if s.network != nil {
		s.covers(layer.SetNetworkLayerForChecksum(s.network), at)
	}
	return layer
}

func (s *stack) tcp(h *spatev1.TCPHeader, at *field.Path) gopacket.SerializableLayer {
	layer := &layers.TCP{
		SrcPort: layers.TCPPort(s.optional(h.SourcePort, 49152, math.MaxUint16, at.Child("sourcePort"))),
		DstPort: layers.TCPPort(s.number(int64(h.DestinationPort), math.MaxUint16, at.Child("destinationPort"))),
		Seq:     uint32(s.number(h.Sequence, math.MaxUint32, at.Child("sequence"))),
		Ack:     uint32(s.number(h.Acknowledgement, math.MaxUint32, at.Child("acknowledgement"))),
		Window:  uint16(s.optional(h.Window, 65535, math.MaxUint16, at.Child("window"))),
		Urgent:  uint16(s.number(int64(h.UrgentPointer), math.MaxUint16, at.Child("urgentPointer"))),
	}
	bits := map[spatev1.TCPFlag]*bool{
		spatev1.TCPFin: &layer.FIN, spatev1.TCPSyn: &layer.SYN, spatev1.TCPRst: &layer.RST, spatev1.TCPPsh: &layer.PSH,
		spatev1.TCPAck: &layer.ACK, spatev1.TCPUrg: &layer.URG, spatev1.TCPEce: &layer.ECE, spatev1.TCPCwr: &layer.CWR,
	}
	for i, flag := range h.Flags {
		bit, known := bits[flag]
		if !known {
			s.fail(field.NotSupported(at.Child("flags").Index(i), flag, []spatev1.TCPFlag{"FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"}))
			continue
		}
		*bit = true
	}
	if s.network != nil {
		s.covers(layer.SetNetworkLayerForChecksum(s.network), at)
	}
	return layer
}

func (s *stack) covers(err error, at *field.Path) {
	if err != nil {
		s.fail(field.InternalError(at, err))
	}
}

func (s *stack) number(value, most int64, at *field.Path) int64 {
	if value < 0 || value > most {
		s.fail(field.Invalid(at, value, fmt.Sprintf("must be 0 to %d", most)))
	}
	return value
}

func (s *stack) optional(value *int32, absent, most int64, at *field.Path) int64 {
	if value == nil {
		return absent
	}
	return s.number(int64(*value), most, at)
}

func (s *stack) mac(text spatev1.MACAddress, at *field.Path) net.HardwareAddr {
	address, err := net.ParseMAC(string(text))
	if err != nil || len(address) != 6 {
		s.fail(field.Invalid(at, text, "must be a MAC address such as 02:00:00:00:00:01"))
		return make(net.HardwareAddr, 6)
	}
	return address
}

func (s *stack) address(text string, family func(netip.Addr) bool, wanted string, at *field.Path) net.IP {
	address, err := netip.ParseAddr(text)
	if err != nil || !family(address) || address.Zone() != "" {
		s.fail(field.Invalid(at, text, "must be "+wanted))
		return nil
	}
	return address.AsSlice()
}

func hexBytes(text string, at *field.Path) ([]byte, *field.Error) {
	bytes, err := hex.DecodeString(text)
	if err != nil {
		return nil, field.Invalid(at, text, "must be hex digits, two a byte, such as deadbeef")
	}
	return bytes, nil
}
