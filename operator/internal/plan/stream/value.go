// SPDX-License-Identifier: Apache-2.0

// Which number does the text of a field's value represent?

package stream

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	spatev1 "spate.dev/api/v1alpha1"
)

// value is what is written into a packet: at most 64 bits. For an IPv6 address, these are the lower ones, and the
// packet keeps its upper ones.
type value struct {
	bits uint64
	// upper half of an IPv6 address; nil for all else.
	upper []byte
}

// parseValue converts a number, an IP address or a MAC address to the number that its bytes represent.
func parseValue(text spatev1.FieldValue) (value, error) {
	if number, err := strconv.ParseUint(string(text), 0, 64); err == nil {
		return value{bits: number}, nil
	}
	if address, err := netip.ParseAddr(string(text)); err == nil && address.Zone() == "" {
		if address.Is4() {
			four := address.As4()
			return value{bits: uint64(binary.BigEndian.Uint32(four[:]))}, nil
		}
		six := address.As16()
		return value{bits: binary.BigEndian.Uint64(six[8:]), upper: six[:8]}, nil
	}
	if address, err := net.ParseMAC(string(text)); err == nil && len(address) == 6 {
		return value{bits: LoadBig(address)}, nil
	}
	return value{}, fmt.Errorf("%q must be a whole number of at most 64 bits, an IP address or a MAC address", text)
}

// sameUpper reports whether two values differ in their lower 64 bits only.
func (v value) sameUpper(other value) bool { return string(v.upper) == string(other.upper) }
