// SPDX-License-Identifier: Apache-2.0

// Do checksums verify?

package conformance

import (
	"encoding/binary"
	"fmt"
)

type checksumKind int

const (
	ipv4Header checksumKind = iota
	tcp
	udp
	icmpv6
)

func (k checksumKind) String() string { return [...]string{"IPv4", "TCP", "UDP", "ICMPv6"}[k] }

// The l4_type of TRex's fix_checksum_hw.
const (
	l4UDP = 11
	l4TCP = 13
	l4IP  = 17
)

// checksum that TRex keeps true.
type checksum struct {
	kind checksumKind
	// at is where the header starts that holds it, and ip where that of IP starts.
	at, ip int
	// hardware computes it: TRex's packets do not hold it.
	hardware bool
}

// field is where it stands.
func (c checksum) field() int {
	return c.at + [...]int{ipv4Header: 10, tcp: 16, udp: 6, icmpv6: 2}[c.kind]
}

// covers are the bytes it is over, beside the pseudo header; both ends are within the frame.
func (c checksum) covers(frame []byte) (from, to int) {
	end := len(frame)
	switch ip := c.ip; {
	case c.at >= len(frame):
		return 0, 0
	case c.kind == ipv4Header:
		end = c.at + int(frame[c.at]&15)*4
	case ip+6 > len(frame):
		return 0, 0
	case frame[ip]>>4 == 4:
		end = ip + int(binary.BigEndian.Uint16(frame[ip+2:]))
	case frame[ip]>>4 == 6:
		end = ip + 40 + int(binary.BigEndian.Uint16(frame[ip+4:]))
	}
	return c.at, max(min(end, len(frame)), c.at)
}

// addresses are those of the pseudo header.
func (c checksum) addresses(frame []byte) (from, to int) {
	switch ip := c.ip; {
	case c.kind == ipv4Header || ip+40 > len(frame):
		return 0, 0
	case frame[ip]>>4 == 4:
		return ip + 12, ip + 20
	default:
		return ip + 8, ip + 40
	}
}

// verify sums up, which gives ones throughout.
func (c checksum) verify(frame []byte) error {
	from, to := c.covers(frame)
	if c.field()+2 > to {
		return fmt.Errorf("%s checksum at byte %d is not in the packet", c.kind, c.field())
	}
	sum := words(frame[from:to])
	if c.kind != ipv4Header {
		low, high := c.addresses(frame)
		sum += words(frame[low:high]) + uint64(to-from) + [...]uint64{tcp: 6, udp: 17, icmpv6: 58}[c.kind]
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	if sum != 0xffff {
		return fmt.Errorf("%s checksum %x at byte %d is wrong", c.kind, frame[c.field():c.field()+2], c.field())
	}
	return nil
}

// words of 16 bits, summed up; an odd byte is the high half of one.
func words(bytes []byte) (sum uint64) {
	for i, b := range bytes {
		sum += uint64(b) << (8 * (1 - i%2))
	}
	return sum
}
