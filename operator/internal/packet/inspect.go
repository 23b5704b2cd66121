// SPDX-License-Identifier: Apache-2.0

// Where do the bytes of a frame go? Guard rails check what is on the wire, however it was described.

package packet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Inspection is the result of decoding a frame.
type Inspection struct {
	// Headers that were decoded, from the outermost inwards.
	Headers []HeaderAt
	// Destinations of the IP headers, from the outermost inwards.
	Destinations []netip.Addr
	// Source of the innermost IP header.
	Source netip.Addr
	// SourcePort and DestinationPort of the innermost IP packet's transport header, if Transport.
	SourcePort, DestinationPort uint16
	// Transport is true when the innermost IP packet has a TCP or UDP header.
	Transport bool
	// Opaque says why the destination cannot be determined; empty if it can.
	Opaque string
	// PayloadStart and PayloadEnd bound the bytes behind the headers that lie within the innermost IP packet.
	PayloadStart, PayloadEnd int
}

// mostHeaders bounds the number of headers that are decoded.
const mostHeaders = 64

// Inspect decodes a frame up to the first header it does not know.
func Inspect(frame []byte) Inspection {
	seen := Inspection{PayloadEnd: len(frame)}
	next := Ethernet
	for next != "" && seen.Opaque == "" {
		if len(seen.Headers) == mostHeaders {
			seen.Opaque = fmt.Sprintf("it has more than %d headers", mostHeaders)
			break
		}
		next = seen.read(frame, next)
	}
	return seen
}

// reader decodes one header: its length, the end of its payload, and the kind of the next header.
type reader struct {
	kind   Kind
	frame  []byte
	start  int
	fields map[string]Location
	length int
	end    int
	next   Kind
	// opaque says why the destination cannot be determined.
	opaque string
}

func (r *reader) get(name string) int {
	where := r.fields[name]
	return int(Location{where.Bit + r.start*8, where.Bits}.read(r.frame))
}

// byte of the header.
func (r *reader) byte(offset int) int { return int(r.frame[r.start+offset]) }

// readers of the kinds that another header can follow, or whose length varies.
var readers = map[Kind]func(*reader){
	Ethernet:        readLink,
	VLAN:            readLink,
	MACControl:      readMACControl,
	MPLS:            readMPLS,
	PPPoE:           readPPPoE,
	PPP:             readPPP,
	IPv4:            readIPv4,
	IPv6:            readIPv6,
	IPv6HopByHop:    readOptions,
	IPv6Destination: readOptions,
	IPv6Routing:     readRouting,
	IPv6Fragment:    readFragment,
	IGMP:            readIGMP,
	UDP:             readUDP,
	TCP:             readTCP,
	GRE:             readGRE,
	VXLAN:           readVXLAN,
	Geneve:          readGeneve,
	GTPU:            readGTPU,
	NSH:             readNSH,
	L2TP:            readL2TP,
}

// read decodes one header and returns the kind of the next; an empty kind if it knows none.
func (s *Inspection) read(frame []byte, kind Kind) Kind {
	fixed := fixedParts[kind]
	r := reader{
		kind: kind, frame: frame[:s.PayloadEnd], start: s.PayloadStart, fields: fixed.fields,
		length: fixed.bytes, end: s.PayloadEnd,
	}
	if r.start+r.length > r.end {
		s.Opaque = fmt.Sprintf("its %s header is cut off", kind)
		return ""
	}
	if kind == IPv4 || kind == IPv6 {
		s.goesTo(&r)
	}
	if read := readers[kind]; read != nil {
		read(&r)
	}
	if r.opaque == "" && (r.start+r.length > r.end || r.end > s.PayloadEnd) {
		r.opaque = fmt.Sprintf("its %s header gives more bytes than there are", kind)
	}
	if r.opaque != "" {
		s.Opaque = r.opaque
		return ""
	}
	s.Headers = append(s.Headers, HeaderAt{Kind: kind, Offset: r.start, Length: r.length, End: r.end, Fields: r.fields})
	if kind == UDP || kind == TCP {
		s.SourcePort, s.DestinationPort, s.Transport = uint16(r.get("sourcePort")), uint16(r.get("destinationPort")), true
	}
	s.PayloadStart, s.PayloadEnd = r.start+r.length, r.end
	return r.next
}

func (s *Inspection) goesTo(r *reader) {
	bytes := func(name string) netip.Addr {
		first := r.start + r.fields[name].Bit/8
		address, _ := netip.AddrFromSlice(r.frame[first : first+r.fields[name].Bits/8])
		return address
	}
	s.Source = bytes("source")
	s.Destinations = append(s.Destinations, bytes("destination"))
	s.Transport = false
}

func byEtherType(number int) Kind {
	return map[int]Kind{
		etherTypeIPv4: IPv4, etherTypeIPv6: IPv6, etherTypeVLAN: VLAN, etherTypeQinQ: VLAN, etherTypeMPLS: MPLS, etherTypeARP: ARP,
		etherTypePPPoESession: PPPoE, etherTypePPPoEDiscovery: PPPoE, etherTypeTEB: Ethernet, etherTypeNSH: NSH,
	}[number]
}

func byProtocol(number int) Kind {
	return map[int]Kind{
		protocolICMPv4: ICMPv4, protocolIPv4: IPv4, protocolTCP: TCP, protocolUDP: UDP, protocolIPv6: IPv6,
		protocolRouting: IPv6Routing, protocolFragment: IPv6Fragment, protocolGRE: GRE, protocolICMPv6: ICMPv6,
		protocolDestination: IPv6Destination, protocolSCTP: SCTP, protocolMPLS: MPLS,
		protocolIGMP: IGMP, protocolL2TP: L2TPv3,
	}[number]
}

// readLink finds the next header by its EtherType. Of slow protocols and of MAC control there are other kinds, which count as payload.
func readLink(r *reader) {
	number, at := r.get("etherType"), r.start+r.length
	r.next = byEtherType(number)
	switch {
	case number == etherTypeSlow && at+fixedParts[LACP].bytes <= r.end && r.frame[at] == lacpSubtype:
		r.next = LACP
	case number == etherTypeMACControl && at+fixedParts[MACControl].bytes <= r.end && layoutOf(binary.BigEndian.Uint16(r.frame[at:])) != nil:
		r.next = MACControl
	}
}

// layoutOf returns the layout of a MAC control message by its opcode.
func layoutOf(opcode uint16) layout {
	return map[uint16]layout{opcodePause: pauseLayout, opcodePFC: pfcLayout}[opcode]
}

func readMACControl(r *reader) { r.as(layoutOf(uint16(r.get("opcode")))) }

// as reads the header by another layout than that of its kind.
func (r *reader) as(l layout) {
	h := &header{fields: map[string]Location{}}
	h.extend(l)
	r.fields, r.length = h.fields, len(h.bytes)
}

func readPPP(r *reader) {
	if r.start+4 <= r.end && string(r.frame[r.start:r.start+2]) == string(pppAddressAndControl) {
		r.as(framedPPP)
	}
	r.next = map[int]Kind{pppIPv4: IPv4, pppIPv6: IPv6, pppMPLS: MPLS}[r.get("protocol")]
}

// readIGMP takes the whole IP payload as the message: nothing follows it.
func readIGMP(r *reader) {
	length := r.end - r.start
	switch kind := r.get("type"); {
	case kind == igmpReportV3:
		r.as(igmpReportLayout)
	case kind == igmpQuery && length >= 12:
		r.as(slices.Concat(layouts[IGMP], querierLayout))
	}
	r.length = length
}

// readMPLS finds IP behind the label stack by its version. Labels do not say what they carry, so anything else counts
// as payload.
func readMPLS(r *reader) {
	switch {
	case r.get("bottomOfStack") == 0:
		r.next = MPLS
	case r.start+r.length < r.end && r.byte(4)>>4 == 4:
		r.next = IPv4
	case r.start+r.length < r.end && r.byte(4)>>4 == 6:
		r.next = IPv6
	}
}

func readPPPoE(r *reader) {
	r.end = min(r.end, r.start+r.length+r.get("length"))
	if r.get("code") == 0 {
		r.next = PPP
	}
}

const (
	optionEnd         = 0
	optionNOP         = 1
	optionLooseRoute  = 131
	optionStrictRoute = 137
)

func readIPv4(r *reader) {
	total := r.get("totalLength")
	length := r.get("headerLength") * 4
	switch {
	case r.get("version") != 4 || length < r.length:
		r.opaque = "its IPv4 header has a wrong version or length"
		return
	case total < length:
		r.opaque = fmt.Sprintf("its IPv4 header gives %d bytes, less than the header's own", total)
		return
	case r.start+total > r.end:
		r.opaque = fmt.Sprintf("its IPv4 header gives %d bytes where there are %d", total, r.end-r.start)
		return
	}
	for at := 20; at < length && r.byte(at) != optionEnd; {
		switch {
		case r.byte(at) == optionNOP:
			at++
		case r.byte(at) == optionLooseRoute || r.byte(at) == optionStrictRoute:
			r.opaque = "its IPv4 header has a source route, which names other destinations"
			return
		case at+1 >= length || r.byte(at+1) < 2:
			r.opaque = "its IPv4 header has options that cannot be read"
			return
		default:
			at += r.byte(at + 1)
		}
	}
	r.length, r.end = length, r.start+total
	if r.get("fragmentOffset") != 0 || r.get("moreFragments") != 0 {
		return // what follows is no header, or one whose checksum covers other fragments
	}
	r.next = byProtocol(r.get("protocol"))
}

// followIPv6 finds the header behind an IPv6 header. The value 0 is a hop-by-hop header, which is valid only directly
// behind it.
func followIPv6(r *reader) {
	r.next = byProtocol(r.get("nextHeader"))
	if r.get("nextHeader") == protocolHopByHop && r.kind == IPv6 {
		r.next = IPv6HopByHop
	}
}

func readIPv6(r *reader) {
	length := r.length + r.get("payloadLength")
	switch {
	case r.get("version") != 6:
		r.opaque = "its IPv6 header has a wrong version"
	case r.start+length > r.end:
		r.opaque = fmt.Sprintf("its IPv6 header gives %d bytes where there are %d", length, r.end-r.start)
	default:
		r.end = r.start + length
		followIPv6(r)
	}
}

func readOptions(r *reader) {
	r.length = (r.get("length") + 1) * 8
	followIPv6(r)
}

func readRouting(r *reader) {
	if r.get("segmentsLeft") != 0 {
		r.opaque = "it has a routing header with segments left, which names other destinations"
		return
	}
	r.length = (r.get("length") + 1) * 8
	followIPv6(r)
}

func readFragment(r *reader) {
	if r.get("offset") == 0 && r.get("moreFragments") == 0 {
		followIPv6(r)
	}
}

func readUDP(r *reader) {
	if length := r.get("length"); length >= r.length {
		r.end = min(r.end, r.start+length)
	}
	inner := map[int]Kind{portVXLAN: VXLAN, portVXLANGPE: VXLAN, portGeneve: Geneve, portGTPU: GTPU, portL2TP: L2TP}[r.get("destinationPort")]
	if inner == "" {
		return
	}
	at := r.start + r.length
	if at+fixedParts[inner].bytes > r.end {
		return // too short for a tunnel header
	}
	first := r.frame[at]
	switch {
	case inner == VXLAN && first&vxlanIdentifierValid != 0,
		inner == Geneve && first>>6 == 0 && r.frame[at+1] == 0 && byEtherType(int(r.frame[at+2])<<8|int(r.frame[at+3])) != "",
		inner == GTPU && first>>4 == 3 && r.frame[at+1] == gtpuGPDU,
		inner == L2TP && r.frame[at+1]&0xf == l2tpVersion2:
		r.next = inner
	}
}

func readTCP(r *reader) {
	if length := r.get("dataOffset") * 4; length >= r.length {
		r.length = length
		return
	}
	r.opaque = "its TCP header has a wrong length"
}

func readGRE(r *reader) {
	if r.get("version") != 0 || r.byte(0)&0x40 != 0 {
		return // PPTP, or the routing of RFC 1701
	}
	for _, present := range []string{"checksumPresent", "keyPresent", "sequencePresent"} {
		r.length += 4 * r.get(present)
	}
	r.next = byEtherType(r.get("protocol"))
}

// readVXLAN takes VXLAN-GPE by its port: to that of VXLAN the P bit is reserved, and ignored.
func readVXLAN(r *reader) {
	r.next = Ethernet
	port := binary.BigEndian.Uint16(r.frame[r.start-6:]) // of the UDP header, which is before it
	if port == portVXLANGPE && r.get("flags")&vxlanNextProtocol != 0 {
		r.next = byNextProtocol(r.get("nextProtocol"))
	}
}

func byNextProtocol(number int) Kind {
	return map[int]Kind{nextIPv4: IPv4, nextIPv6: IPv6, nextEthernet: Ethernet, nextNSH: NSH, nextMPLS: MPLS}[number]
}

func readNSH(r *reader) {
	if length := 4 * r.get("length"); r.get("version") == 0 && length >= r.length {
		r.length = length
		r.next = byNextProtocol(r.get("nextProtocol"))
		return
	}
	r.opaque = "its NSH header has a wrong version or length"
}

// readL2TP reads version 2. What is in version 3 only the session's peers know.
func readL2TP(r *reader) {
	parts := slices.Clone(l2tpFlags)
	if r.get("lengthPresent") == 1 {
		parts = append(parts, part{"length", 16})
	}
	parts = append(parts, part{"tunnelID", 16}, part{"sessionID", 16})
	if r.get("sequencePresent") == 1 {
		parts = append(parts, part{"ns", 16}, part{"nr", 16})
	}
	if r.get("offsetPresent") == 1 {
		parts = append(parts, part{"offsetSize", 16})
	}
	r.as(parts)
	if r.start+r.length > r.end {
		return // which the caller reports
	}
	if r.get("lengthPresent") == 1 {
		r.end = min(r.end, r.start+r.get("length"))
	}
	if r.get("offsetPresent") == 1 {
		r.length += r.get("offsetSize")
	}
	if r.get("control") == 0 && r.start+r.length+fixedParts[PPP].bytes <= r.end {
		r.next = PPP
	}
}

func readGeneve(r *reader) {
	r.length += r.get("optionsLength") * 4
	r.next = byEtherType(r.get("protocol"))
}

func readGTPU(r *reader) {
	r.end = min(r.end, r.start+r.length+r.get("length"))
	if r.byte(0)&7 != 0 {
		r.length += 4
		for r.byte(0)&4 != 0 && r.start+r.length <= r.end && r.byte(r.length-1) != 0 {
			if r.start+r.length >= r.end || r.byte(r.length) == 0 {
				r.opaque = "its gtpu header has extensions that cannot be read"
				return
			}
			r.length += 4 * r.byte(r.length)
		}
	}
	if r.start+r.length < r.end {
		r.next = map[int]Kind{4: IPv4, 6: IPv6}[r.byte(r.length)>>4]
	}
}

// String returns a one-line summary, such as "ethernet/ipv4/udp 198.18.0.1:49152 > 198.19.0.1:7".
func (s Inspection) String() string {
	kinds := make([]string, len(s.Headers))
	for i, h := range s.Headers {
		kinds[i] = string(h.Kind)
	}
	text := strings.Join(kinds, "/")
	if len(s.Destinations) == 0 {
		return text
	}
	destination := s.Destinations[len(s.Destinations)-1]
	if !s.Transport {
		return fmt.Sprintf("%s %s > %s", text, s.Source, destination)
	}
	return fmt.Sprintf("%s %s > %s", text,
		netip.AddrPortFrom(s.Source, s.SourcePort), netip.AddrPortFrom(destination, s.DestinationPort))
}
