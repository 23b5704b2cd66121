// SPDX-License-Identifier: Apache-2.0

// What are the fields of each kind of header, and where in it? Building, finding and reading all go by these tables.

package packet

import (
	"fmt"
	"math/bits"
)

// part is a field, in wire order; a part without a name is reserved.
type part struct {
	name string
	bits int
}

// layout is the fixed part of a header.
type layout []part

// Kind is a kind of header, by the name it has in a packet's description.
type Kind string

// The kinds of headers.
const (
	Ethernet        Kind = "ethernet"
	VLAN            Kind = "vlan"
	MPLS            Kind = "mpls"
	ARP             Kind = "arp"
	LACP            Kind = "lacp"
	MACControl      Kind = "macControl"
	PPPoE           Kind = "pppoe"
	PPP             Kind = "ppp"
	IPv4            Kind = "ipv4"
	IPv6            Kind = "ipv6"
	IPv6HopByHop    Kind = "ipv6HopByHop"
	IPv6Destination Kind = "ipv6Destination"
	IPv6Routing     Kind = "ipv6Routing"
	IPv6Fragment    Kind = "ipv6Fragment"
	ICMPv4          Kind = "icmpv4"
	ICMPv6          Kind = "icmpv6"
	IGMP            Kind = "igmp"
	UDP             Kind = "udp"
	TCP             Kind = "tcp"
	SCTP            Kind = "sctp"
	GRE             Kind = "gre"
	VXLAN           Kind = "vxlan"
	Geneve          Kind = "geneve"
	GTPU            Kind = "gtpu"
	NSH             Kind = "nsh"
	L2TP            Kind = "l2tp"
	L2TPv3          Kind = "l2tpv3"
)

var optionsLayout = layout{{"nextHeader", 8}, {"length", 8}}

// layouts of the fixed parts, from the RFCs that the API's types name.
var layouts = map[Kind]layout{
	Ethernet: {{"destination", 48}, {"source", 48}, {"etherType", 16}},
	VLAN:     {{"priority", 3}, {"dropEligible", 1}, {"id", 12}, {"etherType", 16}},
	MPLS:     {{"label", 20}, {"trafficClass", 3}, {"bottomOfStack", 1}, {"ttl", 8}},
	ARP: {
		{"hardwareType", 16}, {"protocolType", 16}, {"hardwareLength", 8}, {"protocolLength", 8}, {"operation", 16},
		{"senderMAC", 48}, {"senderIP", 32}, {"targetMAC", 48}, {"targetIP", 32},
	},
	LACP: {
		{"subtype", 8}, {"version", 8},
		{"actorType", 8}, {"actorLength", 8}, {"actorSystemPriority", 16}, {"actorSystem", 48}, {"actorKey", 16}, {"actorPortPriority", 16},
		{"actorPort", 16}, {"actorState", 8}, {"", 24},
		{"partnerType", 8}, {"partnerLength", 8}, {"partnerSystemPriority", 16}, {"partnerSystem", 48}, {"partnerKey", 16}, {"partnerPortPriority", 16},
		{"partnerPort", 16}, {"partnerState", 8}, {"", 24},
		{"collectorType", 8}, {"collectorLength", 8}, {"collectorMaxDelay", 16}, {"", 96}, {"terminatorType", 8}, {"terminatorLength", 8}, {"", 400},
	},
	MACControl: {{"opcode", 16}},
	PPPoE:      {{"version", 4}, {"type", 4}, {"code", 8}, {"sessionID", 16}, {"length", 16}},
	PPP:        {{"protocol", 16}},
	IPv4: {
		{"version", 4}, {"headerLength", 4}, {"dscp", 6}, {"ecn", 2}, {"totalLength", 16}, {"identification", 16}, {"", 1},
		{"dontFragment", 1}, {"moreFragments", 1}, {"fragmentOffset", 13}, {"ttl", 8}, {"protocol", 8}, {"checksum", 16},
		{"source", 32}, {"destination", 32},
	},
	IPv6: {
		{"version", 4}, {"trafficClass", 8}, {"flowLabel", 20}, {"payloadLength", 16}, {"nextHeader", 8}, {"hopLimit", 8},
		{"source", 128}, {"destination", 128},
	},
	IPv6HopByHop:    optionsLayout,
	IPv6Destination: optionsLayout,
	IPv6Routing:     {{"nextHeader", 8}, {"length", 8}, {"type", 8}, {"segmentsLeft", 8}, {"data", 32}},
	IPv6Fragment:    {{"nextHeader", 8}, {"", 8}, {"offset", 13}, {"", 2}, {"moreFragments", 1}, {"identification", 32}},
	ICMPv4:          {{"type", 8}, {"code", 8}, {"checksum", 16}, {"rest", 32}},
	ICMPv6:          {{"type", 8}, {"code", 8}, {"checksum", 16}, {"rest", 32}},
	IGMP:            {{"type", 8}, {"maxRespCode", 8}, {"checksum", 16}, {"groupAddress", 32}},
	UDP:             {{"sourcePort", 16}, {"destinationPort", 16}, {"length", 16}, {"checksum", 16}},
	TCP: {
		{"sourcePort", 16}, {"destinationPort", 16}, {"sequence", 32}, {"acknowledgement", 32}, {"dataOffset", 4}, {"", 4},
		{"flags", 8}, {"window", 16}, {"checksum", 16}, {"urgentPointer", 16},
	},
	SCTP: {{"sourcePort", 16}, {"destinationPort", 16}, {"verificationTag", 32}, {"checksum", 32}},
	GRE: {
		{"checksumPresent", 1}, {"", 1}, {"keyPresent", 1}, {"sequencePresent", 1}, {"", 9}, {"version", 3}, {"protocol", 16},
	},
	VXLAN: {{"flags", 8}, {"", 16}, {"nextProtocol", 8}, {"vni", 24}, {"", 8}},
	Geneve: {
		{"version", 2}, {"optionsLength", 6}, {"control", 1}, {"critical", 1}, {"", 6}, {"protocol", 16}, {"vni", 24}, {"", 8},
	},
	GTPU: {
		{"version", 3}, {"protocolType", 1}, {"", 1}, {"extensionPresent", 1}, {"sequencePresent", 1}, {"nPDUPresent", 1},
		{"messageType", 8}, {"length", 16}, {"teid", 32},
	},
	NSH: {
		{"version", 2}, {"oam", 1}, {"", 1}, {"ttl", 6}, {"length", 6}, {"", 4}, {"mdType", 4}, {"nextProtocol", 8},
		{"servicePathIdentifier", 24}, {"serviceIndex", 8},
	},
	L2TP:   l2tpFlags,
	L2TPv3: {{"sessionID", 32}},
}

// fixedPart is a layout with its length and fields computed.
type fixedPart struct {
	bytes  int
	fields map[string]Location
}

var fixedParts = func() map[Kind]fixedPart {
	all := map[Kind]fixedPart{}
	for kind := range layouts {
		h := lay(kind)
		all[kind] = fixedPart{len(h.bytes), h.fields}
	}
	return all
}()

// Location is a field's place in a frame, in bits from the frame's start, the most significant bit of a byte first.
type Location struct {
	Bit, Bits int
}

// header is a header that is being encoded.
type header struct {
	kind   Kind
	bytes  []byte
	fields map[string]Location
	// counts are the header's length fields: the bytes from a place in the header to the end of its payload.
	counts []count
	// sum is the header's checksum, if it is computed.
	sum *sum
	// closed is true when nothing can follow, not even a payload.
	closed bool
}

// count is a 16-bit field that counts bytes from `from`, both from the header's start.
type count struct{ offset, from int }

// sum is a checksum field, located from the header's start.
type sum struct {
	offset int
	kind   ChecksumKind
	// headerOnly is true when the checksum covers the header alone.
	headerOnly bool
	// protocol of the pseudo header; 0 for none.
	protocol        uint8
	zeroMeansAbsent bool
}

// lay starts a header with the fixed part of its kind.
func lay(kind Kind) *header {
	h := &header{kind: kind, fields: map[string]Location{}}
	h.extend(layouts[kind])
	return h
}

// extend appends fields.
func (h *header) extend(parts layout) {
	bit := len(h.bytes) * 8
	for _, p := range parts {
		if p.name != "" {
			h.fields[p.name] = Location{bit, p.bits}
		}
		bit += p.bits
	}
	h.bytes = append(h.bytes, make([]byte, bit/8-len(h.bytes))...)
}

// set writes a field of at most 64 bits.
func (h *header) set(name string, value uint64) {
	where, known := h.fields[name]
	if !known || bits.Len64(value) > where.Bits {
		panic(fmt.Sprintf("%s.%s does not take %d", h.kind, name, value)) // values were validated before
	}
	where.write(h.bytes, value)
}

func (h *header) flag(name string, on bool) {
	if on {
		h.set(name, 1)
	}
}

// copy writes a field of whole bytes.
func (h *header) copy(name string, value []byte) {
	where := h.fields[name]
	copy(h.bytes[where.Bit/8:(where.Bit+where.Bits)/8], value)
}

// counted writes a given length, or has it computed: the bytes from `from` on.
func (h *header) counted(name string, given *int32, from int) {
	if given != nil {
		h.set(name, uint64(*given))
		return
	}
	h.counts = append(h.counts, count{h.fields[name].Bit / 8, from})
}

// summed writes a given checksum, or has it computed.
func (h *header) summed(given *int32, s sum) {
	if given != nil {
		h.set("checksum", uint64(*given))
		return
	}
	s.offset = h.fields["checksum"].Bit / 8
	h.sum = &s
}

func (l Location) write(bytes []byte, value uint64) {
	for i := range l.Bits {
		bit := l.Bit + l.Bits - 1 - i
		mask := byte(0x80) >> (bit % 8)
		bytes[bit/8] &^= mask
		if value>>i&1 != 0 {
			bytes[bit/8] |= mask
		}
	}
}

func (l Location) read(bytes []byte) (value uint64) {
	for bit := l.Bit; bit < l.Bit+l.Bits; bit++ {
		value = value<<1 | uint64(bytes[bit/8]>>(7-bit%8)&1)
	}
	return value
}
