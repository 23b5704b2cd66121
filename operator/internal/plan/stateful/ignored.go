// SPDX-License-Identifier: Apache-2.0

// Which sources do a profile's applications ignore?

package stateful

import (
	"net"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/problem"
)

// mostIgnored MACs, and addresses or prefixes.
const mostIgnored = 64

// ignoredSources returns the sources to ignore of a profile; nil without any.
func ignoredSources(ignored *spatev1.IgnoredSources, at *field.Path, problems *problem.Problems) *enginev1.IgnoredSources {
	if ignored == nil {
		return nil
	}
	made := &enginev1.IgnoredSources{}
	macs, addresses := at.Child("macs"), at.Child("addresses")
	few(len(ignored.MACs), macs, problems)
	few(len(ignored.Addresses), addresses, problems)
	for i, text := range ignored.MACs {
		mac, err := net.ParseMAC(string(text))
		if err != nil || len(mac) != 6 || mac[0]&1 != 0 {
			problems.Add(spatev1.ReasonInvalidSpec, macs.Index(i), "%q: must be the MAC address of a station, such as 02:00:00:00:00:01", text)
			continue
		}
		made.Macs = append(made.Macs, mac)
	}
	for i, text := range ignored.Addresses {
		prefix, ok := prefixOf(string(text))
		if !ok {
			problems.Add(spatev1.ReasonInvalidSpec, addresses.Index(i), "%q: must be an address or a prefix, such as 198.18.0.1 or 2001:db8::/32", text)
			continue
		}
		made.Prefixes = append(made.Prefixes, &enginev1.Prefix{Address: prefix.Masked().Addr().AsSlice(), Length: uint32(prefix.Bits())})
	}
	return made
}

// prefixOf reads a prefix, or an address as the prefix that has no other; without a zone, and not of IPv4 in IPv6.
func prefixOf(text string) (netip.Prefix, bool) {
	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		return prefix, err == nil && !prefix.Addr().Is4In6()
	}
	address, err := netip.ParseAddr(text)
	return netip.PrefixFrom(address, address.BitLen()), err == nil && address.Zone() == "" && !address.Is4In6()
}

func few(count int, at *field.Path, problems *problem.Problems) {
	if count > mostIgnored {
		problems.Add(spatev1.ReasonInvalidSpec, at, "%d items; must be at most %d", count, mostIgnored)
	}
}
