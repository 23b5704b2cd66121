// SPDX-License-Identifier: Apache-2.0

// How do IPv4 and IPv6 headers, their options and extension headers, become bytes?

package packet

import (
	"encoding/binary"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	protocolHopByHop    = 0
	protocolICMPv4      = 1
	protocolIGMP        = 2
	protocolIPv4        = 4
	protocolTCP         = 6
	protocolUDP         = 17
	protocolIPv6        = 41
	protocolRouting     = 43
	protocolFragment    = 44
	protocolGRE         = 47
	protocolICMPv6      = 58
	protocolDestination = 60
	protocolL2TP        = 115
	protocolSCTP        = 132
	protocolMPLS        = 137

	routingMobility = 2
	routingSegments = 4
)

// mostOptionBytes is what a header length of 15 words leaves after 20 bytes, in IPv4 and in TCP.
const mostOptionBytes = 40

func (s *stack) ipv4(d *spatev1.IPv4Header, next *spatev1.Header, at *field.Path) *header {
	h := lay(IPv4)
	h.set("version", 4)
	h.set("dscp", s.number(int64(d.DSCP), 63, at.Child("dscp")))
	h.set("ecn", s.number(int64(d.ECN), 3, at.Child("ecn")))
	h.set("identification", s.number(int64(d.Identification), 65535, at.Child("identification")))
	h.flag("dontFragment", d.DontFragment)
	h.flag("moreFragments", d.MoreFragments)
	h.set("fragmentOffset", s.number(int64(d.FragmentOffset), 8191, at.Child("fragmentOffset")))
	ttl, described := int64(64), d.Options
	if next != nil && next.IGMP != nil {
		ttl = 1 // RFC 2236 section 2, RFC 3376 section 4
		if v := next.IGMP.Message; len(described) == 0 && v != spatev1.IGMPQueryV1 && v != spatev1.IGMPReportV1 {
			described = []spatev1.IPv4Option{{RouterAlert: new(int32)}}
		}
	}
	h.set("ttl", s.optional(d.TTL, ttl, 255, at.Child("ttl")))
	h.set("protocol", s.protocol(d.Protocol, next, at.Child("protocol")))
	h.copy("source", s.ipv4Address(d.Source, at.Child("source")))
	h.copy("destination", s.ipv4Address(d.Destination, at.Child("destination")))
	var options []byte
	for i := range described {
		options = append(options, s.ipv4Option(&described[i], at.Child("options").Index(i))...)
	}
	h.bytes = append(h.bytes, s.words(options, at.Child("options"))...)
	h.set("headerLength", s.optional(d.HeaderLength, int64(len(h.bytes)/4), 15, at.Child("headerLength")))
	h.counted("totalLength", s.given(d.TotalLength, at.Child("totalLength")), 0)
	h.summed(s.given(d.Checksum, at.Child("checksum")), sum{headerOnly: true})
	return h
}

func (s *stack) ipv4Option(o *spatev1.IPv4Option, at *field.Path) []byte {
	var bytes []byte
	set := 0
	if o.NOP != nil {
		set, bytes = set+1, []byte{1}
	}
	if o.End != nil {
		set, bytes = set+1, []byte{0}
	}
	if o.RouterAlert != nil {
		set, bytes = set+1, binary.BigEndian.AppendUint16([]byte{148, 4}, uint16(s.number(int64(*o.RouterAlert), 65535, at.Child("routerAlert"))))
	}
	if o.RecordRoute != nil {
		slots := *o.RecordRoute
		if slots < 1 || slots > 9 {
			s.fail(field.Invalid(at.Child("recordRoute"), slots, "must be 1 to 9"))
			return nil
		}
		set, bytes = set+1, append([]byte{7, byte(3 + 4*slots), 4}, make([]byte, 4*slots)...)
	}
	if o.Raw != "" {
		set, bytes = set+1, s.hex(o.Raw, at.Child("raw"))
	}
	if set != 1 {
		s.fail(field.Invalid(at, set, "set exactly one of nop, end, routerAlert, recordRoute and raw"))
	}
	return bytes
}

// words pads options to a multiple of 4 bytes, if there is room.
func (s *stack) words(options []byte, at *field.Path) []byte {
	if len(options) > mostOptionBytes {
		s.fail(field.Invalid(at, len(options), "options take 40 bytes at most"))
		return nil
	}
	return append(options, make([]byte, -len(options)&3)...)
}

func (s *stack) ipv6(d *spatev1.IPv6Header, next *spatev1.Header, at *field.Path) *header {
	h := lay(IPv6)
	h.set("version", 6)
	h.set("trafficClass", s.number(int64(d.TrafficClass), 255, at.Child("trafficClass")))
	h.set("flowLabel", s.number(int64(d.FlowLabel), 1<<20-1, at.Child("flowLabel")))
	hops := int64(64)
	if announcesMLD(s.behind) {
		hops = 1 // RFC 2710 section 3, RFC 3810 section 5
	}
	h.set("hopLimit", s.optional(d.HopLimit, hops, 255, at.Child("hopLimit")))
	h.set("nextHeader", s.protocol(d.NextHeader, next, at.Child("nextHeader")))
	h.copy("source", s.ipv6Address(string(d.Source), at.Child("source")))
	h.copy("destination", s.ipv6Address(string(d.Destination), at.Child("destination")))
	h.counted("payloadLength", s.given(d.PayloadLength, at.Child("payloadLength")), len(h.bytes))
	return h
}

func (s *stack) ipv6Options(kind Kind, d *spatev1.IPv6OptionsHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(kind)
	h.set("nextHeader", s.protocol(d.NextHeader, next, at.Child("nextHeader")))
	described := d.Options
	if kind == IPv6HopByHop && len(described) == 0 && announcesMLD(s.behind) {
		described = []spatev1.IPv6Option{{Type: routerAlertIPv6, Value: "0000"}}
	}
	for i, o := range described {
		at := at.Child("options").Index(i)
		kind := byte(s.number(int64(o.Type), 255, at.Child("type")))
		value := s.hex(o.Value, at.Child("value"))
		switch {
		case len(value) > 255:
			s.fail(field.Invalid(at.Child("value"), len(value), "must be at most 255 bytes"))
			continue
		case kind == 0 && len(value) > 0:
			s.fail(field.Invalid(at.Child("value"), o.Value, "an option of type 0 is one byte of padding and has no value"))
			continue
		case kind == 0:
			h.bytes = append(h.bytes, 0)
			continue
		}
		h.bytes = append(append(h.bytes, kind, byte(len(value))), value...)
	}
	switch missing := -len(h.bytes) & 7; missing {
	case 0:
	case 1:
		h.bytes = append(h.bytes, 0)
	default:
		h.bytes = append(append(h.bytes, 1, byte(missing-2)), make([]byte, missing-2)...)
	}
	if len(h.bytes) > 8*256 {
		s.fail(field.Invalid(at.Child("options"), len(h.bytes), "the header must be at most 2048 bytes"))
		return lay(kind)
	}
	h.set("length", uint64(len(h.bytes)/8-1))
	return h
}

func (s *stack) ipv6Routing(d *spatev1.IPv6RoutingHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(IPv6Routing)
	h.set("nextHeader", s.protocol(d.NextHeader, next, at.Child("nextHeader")))
	h.set("type", s.number(int64(d.Type), 255, at.Child("type")))
	left := s.number(int64(d.SegmentsLeft), 255, at.Child("segmentsLeft"))
	h.set("segmentsLeft", left)
	switch {
	case d.Data != "":
		if data := s.hex(d.Data, at.Child("data")); len(data) == 4 {
			h.copy("data", data)
		} else {
			s.fail(field.Invalid(at.Child("data"), d.Data, "must be 8 hex digits"))
		}
	case d.Type == routingSegments && len(d.Addresses) > 0:
		h.bytes[4] = byte(len(d.Addresses) - 1)
	}
	for i, address := range d.Addresses {
		h.bytes = append(h.bytes, s.ipv6Address(address, at.Child("addresses").Index(i))...)
	}
	if int(left) > len(d.Addresses) {
		s.fail(field.Invalid(at.Child("segmentsLeft"), d.SegmentsLeft, "is more than there are addresses"))
	}
	h.set("length", uint64(len(h.bytes)/8-1))
	// The transport's checksum covers the last destination (RFC 8200 section 8.1).
	if left > 0 && len(d.Addresses) > 0 {
		last := len(d.Addresses) - 1
		if d.Type == routingSegments || d.Type == routingMobility {
			last = 0
		}
		s.finalDestination = h.bytes[8+16*last : 24+16*last]
	}
	return h
}

func (s *stack) ipv6Fragment(d *spatev1.IPv6FragmentHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(IPv6Fragment)
	h.set("nextHeader", s.protocol(d.NextHeader, next, at.Child("nextHeader")))
	h.set("identification", s.number(d.Identification, 1<<32-1, at.Child("identification")))
	h.set("offset", s.number(int64(d.Offset), 8191, at.Child("offset")))
	h.flag("moreFragments", d.MoreFragments)
	return h
}

// protocol returns the value written, or else the next header's.
func (s *stack) protocol(written *int32, next *spatev1.Header, at *field.Path) uint64 {
	return s.named(written, 255, next, at, func(next *spatev1.Header) uint64 {
		switch kind, _ := kindOf(next); kind {
		case IPv6HopByHop:
			return protocolHopByHop
		case IPv6Routing:
			return protocolRouting
		case IPv6Fragment:
			return protocolFragment
		case IPv6Destination:
			return protocolDestination
		case ICMPv4:
			return protocolICMPv4
		case ICMPv6:
			return protocolICMPv6
		case IGMP:
			return protocolIGMP
		case L2TPv3:
			return protocolL2TP
		case UDP:
			return protocolUDP
		case TCP:
			return protocolTCP
		case SCTP:
			return protocolSCTP
		case GRE:
			return protocolGRE
		case IPv4:
			return protocolIPv4
		case IPv6:
			return protocolIPv6
		case MPLS:
			return protocolMPLS
		}
		return 0 // the next header is misplaced, which is reported elsewhere
	})
}
