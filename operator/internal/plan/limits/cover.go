// SPDX-License-Identifier: Apache-2.0

// Which addresses and ports do a generator's limits cover?

package limits

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// covered reports whether all addresses from low to high are in one of the prefixes, or in several adjacent ones.
func covered(prefixes []spatev1.CIDR, low, high netip.Addr) bool {
	at, to := low.Unmap(), high.Unmap()
	if at.BitLen() != to.BitLen() { // IPv6 addresses of which only some are IPv4-mapped
		at, to = low, high
	}
	for {
		end := netip.Addr{}
		for _, text := range prefixes {
			prefix, err := netip.ParsePrefix(string(text))
			if err != nil || !prefix.Contains(at) {
				continue
			}
			if last := LastOf(prefix); !end.IsValid() || end.Less(last) {
				end = last
			}
		}
		switch {
		case !end.IsValid():
			return false
		case !end.Less(to):
			return true
		}
		if at = end.Next(); !at.IsValid() {
			return false
		}
	}
}

// LastOf returns the highest address of a prefix.
func LastOf(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Masked().Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// portsCovered reports whether all ports from low to high are in the union of the ranges.
func portsCovered(ranges []spatev1.PortRange, low, high uint64) bool {
	for at := low; at <= high; {
		end, found := uint64(0), false
		for _, r := range ranges {
			if first, last, err := portRange(r); err == nil && first <= at && at <= last {
				end, found = max(end, last), true
			}
		}
		if !found {
			return false
		}
		at = end + 1
	}
	return true
}

// EchoProblem returns why limits do not allow echo requests to an address; empty if they do.
func EchoProblem(limits *spatev1.Limits, to netip.Addr) string {
	switch {
	case limits == nil:
		return ""
	case len(limits.AllowedPorts) > 0:
		return "echo requests are neither TCP nor UDP, which are all that is allowed with limits.allowedPorts"
	case len(limits.AllowedDestinations) > 0 && !covered(limits.AllowedDestinations, to, to):
		return fmt.Sprintf("%s is in none of limits.allowedDestinations %v", to, limits.AllowedDestinations)
	}
	return ""
}

// Reflected returns the destinations that limits allow a reflector. The engine applies them, because destinations
// depend on what is received.
func Reflected(limits *spatev1.Limits) (addresses []*enginev1.AddressRange, ports []*enginev1.PortRange) {
	if limits == nil {
		return nil, nil
	}
	for _, text := range limits.AllowedDestinations {
		if prefix, err := netip.ParsePrefix(string(text)); err == nil {
			addresses = append(addresses, &enginev1.AddressRange{First: prefix.Masked().Addr().AsSlice(), Last: LastOf(prefix).AsSlice()})
		}
	}
	for _, text := range limits.AllowedPorts {
		if first, last, err := portRange(text); err == nil {
			ports = append(ports, &enginev1.PortRange{First: uint32(first), Last: uint32(last)})
		}
	}
	return addresses, ports
}

func portRange(ports spatev1.PortRange) (first, last uint64, err error) {
	low, high, ranged := strings.Cut(string(ports), "-")
	if !ranged {
		high = low
	}
	if first, err = strconv.ParseUint(low, 10, 16); err != nil {
		return 0, 0, err
	}
	last, err = strconv.ParseUint(high, 10, 16)
	return first, last, err
}
