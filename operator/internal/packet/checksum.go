// SPDX-License-Identifier: Apache-2.0

// What does a checksum cover, and what is it (RFC 1071, RFC 9260 appendix A)?

package packet

import (
	"encoding/binary"
	"hash/crc32"
)

// ChecksumKind is how a checksum is computed.
type ChecksumKind int

const (
	// Internet is the one's complement sum of RFC 1071, 16 bits.
	Internet ChecksumKind = iota
	// CRC32C is that of SCTP, 32 bits, least significant byte first.
	CRC32C
)

// Checksum is a checksum field and what it covers. Offsets count from the frame's start.
type Checksum struct {
	// Offset of the field.
	Offset int
	// Start and End of the bytes covered; an End of 0 means to the end of the packet.
	Start, End int
	Kind       ChecksumKind
	// PseudoHeaderSum is the sum of the pseudo header's 16-bit words other than addresses, not folded.
	PseudoHeaderSum uint32
	// AddressesStart and AddressesEnd bound the bytes of the frame that are the pseudo header's addresses.
	AddressesStart, AddressesEnd int
	// LengthMinus is set where sizes vary: the pseudo header's length is the frame's length minus LengthMinus.
	LengthMinus int
	// ZeroMeansAbsent writes a computed 0 as 0xffff (UDP, RFC 768).
	ZeroMeansAbsent bool
}

// pseudo adds a pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1). The final destination of a routing header
// replaces the IP header's.
func (c *Checksum) pseudo(network HeaderAt, protocol uint8, final []byte) {
	source, destination := network.Fields["source"], network.Fields["destination"]
	c.AddressesStart = network.Offset + source.Bit/8
	c.AddressesEnd = network.Offset + (destination.Bit+destination.Bits)/8
	if final != nil {
		c.AddressesEnd = network.Offset + destination.Bit/8
	}
	c.PseudoHeaderSum = sum16(final) + uint32(protocol) + uint32(c.End-c.Start)
}

// toTheEnd covers the bytes to the end of the packet, whatever its length.
func (c *Checksum) toTheEnd() {
	if c.AddressesEnd > 0 {
		c.PseudoHeaderSum -= uint32(c.End - c.Start)
		c.LengthMinus = c.Start
	}
	c.End = 0
}

// write computes the checksum and writes it into the frame.
func (c *Checksum) write(frame []byte) {
	if c.Kind == CRC32C {
		clear(frame[c.Offset : c.Offset+4])
		binary.LittleEndian.PutUint32(frame[c.Offset:], crc32.Checksum(frame[c.Start:c.end(frame)], crc32.MakeTable(crc32.Castagnoli)))
		return
	}
	clear(frame[c.Offset : c.Offset+2])
	value := ^fold(c.sum(frame))
	if value == 0 && c.ZeroMeansAbsent {
		value = 0xffff
	}
	binary.BigEndian.PutUint16(frame[c.Offset:], value)
}

// holds reports whether the checksum in the frame is correct.
func (c *Checksum) holds(frame []byte) bool {
	copied := append([]byte(nil), frame...)
	c.write(copied)
	width := map[ChecksumKind]int{Internet: 2, CRC32C: 4}[c.Kind]
	return string(copied[c.Offset:c.Offset+width]) == string(frame[c.Offset:c.Offset+width])
}

func (c *Checksum) end(frame []byte) int {
	if c.End == 0 {
		return len(frame)
	}
	return c.End
}

func (c *Checksum) sum(frame []byte) uint32 {
	sum := c.PseudoHeaderSum + sum16(frame[c.AddressesStart:c.AddressesEnd]) + sum16(frame[c.Start:c.end(frame)])
	if c.LengthMinus > 0 {
		sum += uint32(len(frame) - c.LengthMinus)
	}
	return sum
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
