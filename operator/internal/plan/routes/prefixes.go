// SPDX-License-Identifier: Apache-2.0

package routes

// This file answers: which prefixes does a set have, however many they are, and which do two sets have in common?

import (
	"fmt"
	"math/big"
	"net/netip"
	"strings"

	"spate.dev/operator/internal/engine/enginev1"
)

// prefixes are those of a set: a list, count of one length at equal distances, or at most count of a file that only engines read.
type prefixes struct {
	list        []netip.Prefix
	first       netip.Prefix
	count, step int64
	// ofFile is the family of a file's prefixes; 0 if they are of none.
	ofFile enginev1.AddressFamily
}

// read returns the prefixes of a set of a plan.
func read(of *enginev1.Prefixes) (prefixes, error) {
	if r := of.GetRange(); r != nil {
		first, err := parse(r.First)
		return prefixes{first: first, count: int64(r.Count), step: int64(max(r.Step, 1))}, err
	}
	if file := of.GetMrt(); file != nil {
		return prefixes{count: int64(file.Most), ofFile: file.Family}, nil
	}
	p := prefixes{}
	for _, text := range of.GetList() {
		prefix, err := parse(text)
		if err != nil {
			return p, err
		}
		p.list = append(p.list, prefix)
	}
	return p, nil
}

// parse reads a prefix without bits behind its length.
func parse(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil || prefix.Addr().Is4In6():
		return prefix, fmt.Errorf("%q: must be a prefix such as 20.0.0.0/24 or 2001:db8::/48", text)
	case prefix != prefix.Masked():
		return prefix, fmt.Errorf("%s has bits behind its length; write %s", text, prefix.Masked())
	}
	return prefix, nil
}

// total is how many there are.
func (p prefixes) total() int64 {
	if p.list != nil {
		return int64(len(p.list))
	}
	return p.count
}

// is4 reports whether they are of IPv4.
func (p prefixes) is4() bool {
	switch {
	case p.unknown():
		return p.ofFile == enginev1.AddressFamily_ADDRESS_FAMILY_IPV4
	case p.list != nil:
		return p.list[0].Addr().Is4()
	}
	return p.first.Addr().Is4()
}

// unknown reports whether only engines know them: those of a file are compared with others when engines read it.
func (p prefixes) unknown() bool {
	return p.ofFile != enginev1.AddressFamily_ADDRESS_FAMILY_UNSPECIFIED
}

// alike reports whether two prefixes have one family and one length.
func alike(a, b netip.Prefix) bool {
	return a.Bits() == b.Bits() && a.Addr().BitLen() == b.Addr().BitLen()
}

// number is the number of a prefix among all of its length.
func number(p netip.Prefix) *big.Int {
	n := new(big.Int).SetBytes(p.Addr().AsSlice())
	return n.Rsh(n, uint(p.Addr().BitLen()-p.Bits()))
}

// numbered is the prefix with a number among all of the length of another; false if there are not as many.
func numbered(like netip.Prefix, n *big.Int) (netip.Prefix, bool) {
	if n.BitLen() > like.Bits() {
		return netip.Prefix{}, false
	}
	length := like.Addr().BitLen()
	bytes := new(big.Int).Lsh(n, uint(length-like.Bits())).FillBytes(make([]byte, length/8))
	addr, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(addr, like.Bits()), true
}

// at is prefix n of a range; false if it is beyond the last address.
func (p prefixes) at(n *big.Int) (netip.Prefix, bool) {
	distance := new(big.Int).Mul(n, big.NewInt(p.step))
	return numbered(p.first, distance.Add(distance, number(p.first)))
}

// room is how many prefixes a range can have.
func (p prefixes) room() *big.Int {
	all := new(big.Int).Lsh(big.NewInt(1), uint(p.first.Bits()))
	all.Sub(all, big.NewInt(1))
	all.Sub(all, number(p.first))
	all.Quo(all, big.NewInt(p.step))
	return all.Add(all, big.NewInt(1))
}

// has reports whether a prefix is in a range.
func (p prefixes) has(prefix netip.Prefix) bool {
	if !alike(p.first, prefix) {
		return false
	}
	n, rest := new(big.Int).QuoRem(new(big.Int).Sub(number(prefix), number(p.first)), big.NewInt(p.step), new(big.Int))
	return rest.Sign() == 0 && n.Sign() >= 0 && n.Cmp(big.NewInt(p.count)) < 0
}

// within returns the first known prefix that lies in a network.
func (p prefixes) within(network netip.Prefix) (netip.Prefix, bool) {
	inside := func(prefix netip.Prefix) bool {
		return prefix.Bits() >= network.Bits() && network.Contains(prefix.Addr())
	}
	for _, prefix := range p.list {
		if inside(prefix) {
			return prefix, true
		}
	}
	if p.unknown() || p.list != nil || p.first.Addr().BitLen() != network.Addr().BitLen() || p.first.Bits() < network.Bits() {
		return netip.Prefix{}, false
	}
	lowest := new(big.Int).Lsh(number(network.Masked()), uint(p.first.Bits()-network.Bits()))
	n := ceil(lowest.Sub(lowest, number(p.first)), big.NewInt(p.step))
	if n.Sign() < 0 {
		n.SetInt64(0)
	}
	found, ok := p.at(n)
	return found, ok && n.Cmp(big.NewInt(p.count)) < 0 && inside(found)
}

// common returns a prefix that two sets are known to have.
func (p prefixes) common(other prefixes) (netip.Prefix, bool) {
	switch {
	case p.unknown() || other.unknown():
		return netip.Prefix{}, false
	case p.list == nil && other.list == nil:
		return p.commonOfRanges(other)
	case p.list == nil:
		return other.common(p)
	}
	has := other.has
	if other.list != nil {
		all := make(map[netip.Prefix]bool, len(other.list))
		for _, prefix := range other.list {
			all[prefix] = true
		}
		has = func(prefix netip.Prefix) bool { return all[prefix] }
	}
	for _, prefix := range p.list {
		if has(prefix) {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}

// commonOfRanges solves i * s = distance + j * t for the least i and j that are not negative.
func (p prefixes) commonOfRanges(other prefixes) (netip.Prefix, bool) {
	if !alike(p.first, other.first) {
		return netip.Prefix{}, false
	}
	low, high := p, other
	if number(low.first).Cmp(number(high.first)) > 0 {
		low, high = high, low
	}
	distance := new(big.Int).Sub(number(high.first), number(low.first))
	s, t, x := big.NewInt(low.step), big.NewInt(high.step), new(big.Int)
	gcd := new(big.Int).GCD(x, nil, s, t)
	quotient, rest := new(big.Int).QuoRem(distance, gcd, new(big.Int))
	if rest.Sign() != 0 {
		return netip.Prefix{}, false
	}
	cycle := new(big.Int).Quo(t, gcd)
	remainder := quotient.Mul(quotient, x)
	remainder.Mod(remainder, cycle)
	i := ceil(distance, s)
	i.Add(i, remainder.Mod(remainder.Sub(remainder, i), cycle))
	found, ok := low.at(i)
	return found, ok && i.Cmp(big.NewInt(low.count)) < 0 && high.has(found)
}

// ceil divides by a positive number, and rounds up.
func ceil(of, by *big.Int) *big.Int {
	// DivMod rounds towards negative infinity for a positive divisor.
	n, rest := new(big.Int).DivMod(of, by, new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	return n
}

// Common returns a prefix that two sets of plans have on one port; empty if there is none.
func Common(a, b *enginev1.RouteSet) string {
	if a.GetPort() != b.GetPort() {
		return ""
	}
	one, err := read(a.GetPrefixes())
	other, wrong := read(b.GetPrefixes())
	if err != nil || wrong != nil || one.total() == 0 || other.total() == 0 {
		return "" // no plan has such a set
	}
	if found, ok := one.common(other); ok {
		return found.String()
	}
	return ""
}

// listed formats names.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
