// SPDX-License-Identifier: Apache-2.0

// Which checksums does a frame have, and what does each cover (RFC 1071)?

package packet

import "encoding/binary"

// Checksum is a checksum field and what it covers. Offsets count from the frame's start.
type Checksum struct {
	// Offset of the 16-bit field.
	Offset int
	// Start and End of the bytes covered.
	Start, End int
	// PseudoHeaderSum is the sum of the pseudo header in 16-bit words, not folded; 0 for none.
	PseudoHeaderSum uint32
	// ZeroMeansAbsent writes a result of 0 as 0xffff (UDP, RFC 768).
	ZeroMeansAbsent bool
}

const (
	protocolTCP = 6
	protocolUDP = 17
)

// checksums lists those of a frame's headers.
func checksums(frame []byte, headers []HeaderAt) []Checksum {
	var sums []Checksum
	var network HeaderAt
	for _, h := range headers {
		switch h.Kind {
		case IPv4:
			network = h
			sums = append(sums, Checksum{Offset: h.Offset + 10, Start: h.Offset, End: h.Offset + h.Length})
		case IPv6:
			network = h
		case UDP:
			sums = append(sums, Checksum{
				Offset: h.Offset + 6, Start: h.Offset, End: h.End, ZeroMeansAbsent: true,
				PseudoHeaderSum: pseudoHeaderSum(frame, network, protocolUDP, h.End-h.Offset),
			})
		case TCP:
			sums = append(sums, Checksum{
				Offset: h.Offset + 16, Start: h.Offset, End: h.End,
				PseudoHeaderSum: pseudoHeaderSum(frame, network, protocolTCP, h.End-h.Offset),
			})
		}
	}
	return sums
}

// trueChecksums lists those that are right in a raw frame: one that is wrong was meant so, and an absent one (UDP over
// IPv4) stays absent.
func trueChecksums(frame []byte, seen Inspection) []Checksum {
	var sums []Checksum
	for _, sum := range checksums(frame, seen.Headers) {
		absent := sum.ZeroMeansAbsent && binary.BigEndian.Uint16(frame[sum.Offset:]) == 0
		if !absent && sum.holds(frame) {
			sums = append(sums, sum)
		}
	}
	return sums
}

// holds tells whether the checksum is right.
func (c Checksum) holds(frame []byte) bool {
	return fold(c.PseudoHeaderSum+sum16(frame[c.Start:c.End])) == 0xffff
}

// pseudoHeaderSum adds up what a transport checksum covers of its IP header (RFC 9293 section 3.1, RFC 8200 section 8.1).
func pseudoHeaderSum(frame []byte, network HeaderAt, protocol, length int) uint32 {
	addresses := frame[network.Offset+12 : network.Offset+20]
	if network.Kind == IPv6 {
		addresses = frame[network.Offset+8 : network.Offset+40]
	}
	return sum16(addresses) + uint32(protocol) + uint32(length)
}

func sum16(bytes []byte) uint32 {
	var sum uint32
	for ; len(bytes) >= 2; bytes = bytes[2:] {
		sum += uint32(binary.BigEndian.Uint16(bytes))
	}
	if len(bytes) == 1 {
		sum += uint32(bytes[0]) << 8
	}
	return sum
}

func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
