// SPDX-License-Identifier: Apache-2.0

// Where do the bytes of a frame go? Guard rails judge what is on the wire, however it was described.

package packet

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Inspection is what was read from a frame.
type Inspection struct {
	// Headers that were understood, from the outermost inwards.
	Headers []HeaderAt
	// Destinations of the IP headers, from the outermost inwards.
	Destinations []netip.Addr
	// Source of the innermost IP header.
	Source netip.Addr
	// SourcePort and DestinationPort of the transport header, if Transport.
	SourcePort, DestinationPort uint16
	// Transport is true when a TCP or UDP header was read.
	Transport bool
	// Opaque says why the destination cannot be judged; empty if it can.
	Opaque string
	// PayloadStart and PayloadEnd bound what follows the headers and what the innermost IP packet holds of it.
	PayloadStart, PayloadEnd int
}

// Inspect reads a frame as far as its headers are Ethernet, VLAN, IP, TCP and UDP.
func Inspect(frame []byte) Inspection {
	seen := Inspection{PayloadEnd: len(frame)}
	next := layers.LayerTypeEthernet
	for {
		following, done := seen.read(frame[seen.PayloadStart:seen.PayloadEnd], next)
		if done {
			return seen
		}
		next = following
	}
}

// read takes one header off the payload; done when there is none it knows.
func (s *Inspection) read(data []byte, kind gopacket.LayerType) (next gopacket.LayerType, done bool) {
	switch kind {
	case layers.LayerTypeEthernet:
		var h layers.Ethernet
		if err := h.DecodeFromBytes(data, gopacket.NilDecodeFeedback); err != nil {
			return s.opaque(err)
		}
		s.took(Ethernet, 14, len(data))
		return h.NextLayerType(), false
	case layers.LayerTypeDot1Q:
		var h layers.Dot1Q
		if err := h.DecodeFromBytes(data, gopacket.NilDecodeFeedback); err != nil {
			return s.opaque(err)
		}
		s.took(VLAN, 4, len(data))
		return h.NextLayerType(), false
	case layers.LayerTypeIPv4:
		return s.readIPv4(data)
	case layers.LayerTypeIPv6:
		return s.readIPv6(data)
	case layers.LayerTypeUDP:
		var h layers.UDP
		if err := h.DecodeFromBytes(data, gopacket.NilDecodeFeedback); err != nil {
			return s.opaque(err)
		}
		end := len(data)
		if int(h.Length) >= 8 && int(h.Length) < end {
			end = int(h.Length)
		}
		s.took(UDP, 8, end)
		s.SourcePort, s.DestinationPort, s.Transport = uint16(h.SrcPort), uint16(h.DstPort), true
		return 0, true
	case layers.LayerTypeTCP:
		var h layers.TCP
		if err := h.DecodeFromBytes(data, gopacket.NilDecodeFeedback); err != nil {
			return s.opaque(err)
		}
		s.took(TCP, int(h.DataOffset)*4, len(data))
		s.SourcePort, s.DestinationPort, s.Transport = uint16(h.SrcPort), uint16(h.DstPort), true
		return 0, true
	}
	return 0, true
}

func (s *Inspection) readIPv4(data []byte) (gopacket.LayerType, bool) {
	var h layers.IPv4
	if err := h.DecodeFromBytes(data, gopacket.NilDecodeFeedback); err != nil {
		return s.opaque(err)
	}
	s.goesTo(h.SrcIP, h.DstIP)
	if h.IHL > 5 {
		return s.opaque(errors.New("its IPv4 header has options, which may name other destinations"))
	}
	if int(h.Length) > len(data) {
		return s.opaque(fmt.Errorf("its IPv4 header tells %d bytes where there are %d", h.Length, len(data)))
	}
	s.took(IPv4, 20, int(h.Length))
	if h.FragOffset != 0 || h.Flags&layers.IPv4MoreFragments != 0 {
		return 0, true // what follows is no header, or one whose checksum covers other fragments
	}
	return h.NextLayerType(), false
}

func (s *Inspection) readIPv6(data []byte) (gopacket.LayerType, bool) {
	var h layers.IPv6
	if err := h.DecodeFromBytes(data, gopacket.NilDecodeFeedback); err != nil {
		return s.opaque(err)
	}
	s.goesTo(h.SrcIP, h.DstIP)
	switch h.NextHeader {
	case layers.IPProtocolIPv6HopByHop, layers.IPProtocolIPv6Routing, layers.IPProtocolIPv6Fragment, layers.IPProtocolIPv6Destination:
		return s.opaque(errors.New("its IPv6 header has extension headers, which may name other destinations"))
	}
	if 40+int(h.Length) > len(data) {
		return s.opaque(fmt.Errorf("its IPv6 header tells %d bytes where there are %d", 40+int(h.Length), len(data)))
	}
	s.took(IPv6, 40, 40+int(h.Length))
	return h.NextLayerType(), false
}

// took notes a header at the start of the payload, and where what it carries ends (counted from its own start).
func (s *Inspection) took(kind Kind, length, end int) {
	start := s.PayloadStart
	s.PayloadEnd = start + end
	s.Headers = append(s.Headers, HeaderAt{Kind: kind, Offset: start, Length: length, End: s.PayloadEnd})
	s.PayloadStart = start + length
}

func (s *Inspection) goesTo(source, destination []byte) {
	s.Source, _ = netip.AddrFromSlice(source)
	address, _ := netip.AddrFromSlice(destination)
	s.Destinations = append(s.Destinations, address)
}

func (s *Inspection) opaque(err error) (gopacket.LayerType, bool) {
	s.Opaque = err.Error()
	return 0, true
}

// String sums a frame up for people, such as "ethernet/ipv4/udp 198.18.0.1:49152 > 198.19.0.1:7".
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
