// SPDX-License-Identifier: Apache-2.0

// How does a stack of described headers become a list of headers in bytes, and what is wrong with one that cannot?

package packet

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

var (
	linkKinds      = []Kind{Ethernet, VLAN}
	extensionKinds = []Kind{IPv6HopByHop, IPv6Destination, IPv6Routing, IPv6Fragment}
	overIPv6       = slices.Concat([]Kind{IPv6}, extensionKinds)
	overIP         = slices.Concat([]Kind{IPv4}, overIPv6)
	underIP        = slices.Concat(linkKinds, []Kind{MPLS, PPP, GRE, VXLAN, Geneve, GTPU, NSH, L2TPv3}, overIP)
)

// follows lists the kinds that may precede a kind; the empty kind is the packet's start. ICMP errors quote an IP
// packet.
var follows = map[Kind][]Kind{
	Ethernet:        {"", VXLAN, GRE, Geneve, NSH, L2TPv3, MPLS},
	VLAN:            linkKinds,
	MPLS:            slices.Concat(linkKinds, []Kind{MPLS, PPP, GRE, VXLAN, NSH}, overIP),
	ARP:             linkKinds,
	LACP:            linkKinds,
	MACControl:      {Ethernet},
	PPPoE:           linkKinds,
	PPP:             {PPPoE, L2TP},
	IPv4:            slices.Concat(underIP, []Kind{ICMPv4}),
	IPv6:            slices.Concat(underIP, []Kind{ICMPv6}),
	IPv6HopByHop:    {IPv6},
	IPv6Destination: overIPv6,
	IPv6Routing:     overIPv6,
	IPv6Fragment:    overIPv6,
	ICMPv4:          {IPv4},
	ICMPv6:          overIPv6,
	IGMP:            {IPv4},
	UDP:             overIP,
	TCP:             overIP,
	SCTP:            overIP,
	GRE:             overIP,
	VXLAN:           {UDP},
	Geneve:          {UDP},
	GTPU:            {UDP},
	NSH:             slices.Concat(linkKinds, []Kind{GRE, VXLAN, Geneve, NSH}),
	L2TP:            {UDP},
	L2TPv3:          slices.Concat([]Kind{UDP}, overIP),
}

// stack is a list of headers that is being encoded.
type stack struct {
	options Options
	headers []*header
	length  int
	errs    field.ErrorList
	// behind are the headers that follow the one that is being encoded.
	behind []spatev1.Header

	sourceFromPort, destinationFromPort bool
	// finalDestination is the last address of the innermost IPv6 header's routing header; nil without one.
	finalDestination []byte
	// finals maps a header to the final destination that its checksum covers.
	finals map[*header][]byte
	// The length from the last header's start to the packet's end must be a multiple of align; 0 sets no constraint.
	align int
}

func newStack(headers []spatev1.Header, at *field.Path, options Options) *stack {
	s := &stack{options: options, finals: map[*header][]byte{}}
	before := Kind("")
	for i := range headers {
		kind, set := kindOf(&headers[i])
		if set != 1 {
			s.fail(field.Invalid(at.Index(i), set, "set exactly one header"))
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
		s.behind = headers[i+1:]
		s.add(s.header(kind, &headers[i], next, at))
		before = kind
	}
	return s
}

func (s *stack) add(h *header) {
	if h.sum != nil && h.sum.protocol != 0 && s.finalDestination != nil {
		s.finals[h] = s.finalDestination
	}
	s.headers = append(s.headers, h)
	s.length += len(h.bytes)
}

func (s *stack) header(kind Kind, d, next *spatev1.Header, at *field.Path) *header {
	s.align = 0
	switch kind {
	case Ethernet:
		return s.ethernet(d.Ethernet, next, at)
	case VLAN:
		return s.vlan(d.VLAN, next, at)
	case MPLS:
		return s.mpls(d.MPLS, next, at)
	case ARP:
		return s.arp(d.ARP, at)
	case LACP:
		return s.lacp(d.LACP, at)
	case MACControl:
		return s.macControl(d.MACControl, at)
	case PPPoE:
		return s.pppoe(d.PPPoE, next, at)
	case PPP:
		return s.ppp(d.PPP, next, at)
	case IPv4:
		s.finalDestination = nil
		return s.ipv4(d.IPv4, next, at)
	case IPv6:
		s.finalDestination = nil
		return s.ipv6(d.IPv6, next, at)
	case IPv6HopByHop:
		return s.ipv6Options(kind, d.IPv6HopByHop, next, at)
	case IPv6Destination:
		return s.ipv6Options(kind, d.IPv6Destination, next, at)
	case IPv6Routing:
		return s.ipv6Routing(d.IPv6Routing, next, at)
	case IPv6Fragment:
		return s.ipv6Fragment(d.IPv6Fragment, next, at)
	case ICMPv4:
		return s.icmpv4(d.ICMPv4, at)
	case ICMPv6:
		return s.icmpv6(d.ICMPv6, at)
	case IGMP:
		return s.igmp(d.IGMP, at)
	case UDP:
		return s.udp(d.UDP, next, at)
	case TCP:
		return s.tcp(d.TCP, at)
	case SCTP:
		return s.sctp(d.SCTP, at)
	case GRE:
		return s.gre(d.GRE, next, at)
	case VXLAN:
		return s.vxlan(d.VXLAN, next, at)
	case Geneve:
		return s.geneve(d.Geneve, next, at)
	case NSH:
		return s.nsh(d.NSH, next, at)
	case L2TP:
		return s.l2tp(d.L2TP, next, at)
	case L2TPv3:
		return s.l2tpv3(d.L2TPv3, next, at)
	default:
		return s.gtpu(d.GTPU, at)
	}
}

func kindOf(h *spatev1.Header) (kind Kind, set int) {
	for k, present := range map[Kind]bool{
		Ethernet: h.Ethernet != nil, VLAN: h.VLAN != nil, MPLS: h.MPLS != nil, ARP: h.ARP != nil, PPPoE: h.PPPoE != nil,
		PPP: h.PPP != nil, IPv4: h.IPv4 != nil, IPv6: h.IPv6 != nil, IPv6HopByHop: h.IPv6HopByHop != nil,
		IPv6Destination: h.IPv6Destination != nil, IPv6Routing: h.IPv6Routing != nil, IPv6Fragment: h.IPv6Fragment != nil,
		ICMPv4: h.ICMPv4 != nil, ICMPv6: h.ICMPv6 != nil, UDP: h.UDP != nil, TCP: h.TCP != nil, SCTP: h.SCTP != nil,
		GRE: h.GRE != nil, VXLAN: h.VXLAN != nil, Geneve: h.Geneve != nil, GTPU: h.GTPU != nil,
		LACP: h.LACP != nil, MACControl: h.MACControl != nil, IGMP: h.IGMP != nil, NSH: h.NSH != nil, L2TP: h.L2TP != nil,
		L2TPv3: h.L2TPv3 != nil,
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
	var names []string
	for _, k := range follows[kind] {
		if k != "" {
			names = append(names, string(k))
		}
	}
	return fmt.Sprintf("must follow %s, not %s", strings.Join(names, " or "), before)
}

func (s *stack) fail(err *field.Error) { s.errs = append(s.errs, err) }

// number checks a value's bounds. It records an error for a bad value and returns 0.
func (s *stack) number(value, most int64, at *field.Path) uint64 {
	if value < 0 || value > most {
		s.fail(field.Invalid(at, value, fmt.Sprintf("must be 0 to %d", most)))
		return 0
	}
	return uint64(value)
}

func (s *stack) optional(value *int32, absent, most int64, at *field.Path) uint64 {
	if value == nil {
		return uint64(absent)
	}
	return s.number(int64(*value), most, at)
}

// given checks a 16-bit value that replaces a computed one.
func (s *stack) given(value *int32, at *field.Path) *int32 {
	if value == nil {
		return nil
	}
	checked := int32(s.number(int64(*value), 65535, at))
	return &checked
}

// named returns the value written, or else the one the next header's kind implies.
func (s *stack) named(written *int32, most int64, next *spatev1.Header, at *field.Path, by func(*spatev1.Header) uint64) uint64 {
	switch {
	case written != nil:
		return s.number(int64(*written), most, at)
	case next == nil:
		s.fail(field.Required(at, "no header follows that would determine it"))
		return 0
	}
	return by(next)
}

func (s *stack) mac(text spatev1.MACAddress, at *field.Path) net.HardwareAddr {
	address, err := net.ParseMAC(string(text))
	if err != nil || len(address) != 6 {
		s.fail(field.Invalid(at, text, "must be a MAC address such as 02:00:00:00:00:01"))
		return make(net.HardwareAddr, 6)
	}
	return address
}

func (s *stack) ipv4Address(text spatev1.IPv4Address, at *field.Path) []byte {
	address, err := netip.ParseAddr(string(text))
	if err != nil || !address.Is4() {
		s.fail(field.Invalid(at, text, "must be an IPv4 address such as 198.18.0.1"))
		return make([]byte, 4)
	}
	return address.AsSlice()
}

func (s *stack) ipv6Address(text string, at *field.Path) []byte {
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is6() || address.Zone() != "" {
		s.fail(field.Invalid(at, text, "must be an IPv6 address such as 2001:db8::1"))
		return make([]byte, 16)
	}
	return address.AsSlice()
}

func (s *stack) hex(text string, at *field.Path) []byte {
	bytes, err := hex.DecodeString(text)
	if err != nil {
		s.fail(field.Invalid(at, text, "must be hex digits, two a byte, such as deadbeef"))
		return nil
	}
	return bytes
}
