// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"math/big"
	"math/rand/v2"
	"net/netip"
	"testing"

	"spate.dev/operator/internal/engine/enginev1"
)

func rangeOf(first string, count, step int64) prefixes {
	return prefixes{first: netip.MustParsePrefix(first), count: count, step: step}
}

// all enumerates a range.
func all(t *testing.T, p prefixes) map[netip.Prefix]bool {
	t.Helper()
	found := map[netip.Prefix]bool{}
	for n := range p.count {
		prefix, ok := p.at(big.NewInt(n))
		if !ok {
			t.Fatalf("%+v has no prefix %d", p, n)
		}
		found[prefix] = true
	}
	return found
}

func TestWhatTwoRangesHaveInCommonIsWhatTheirPrefixesAre(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	common := 0
	for range 3000 {
		one := prefixes{first: like(t, "20.0.0.0/24", random.Int64N(60)), count: 1 + random.Int64N(20), step: 1 + random.Int64N(12)}
		other := prefixes{first: like(t, "20.0.0.0/24", random.Int64N(60)), count: 1 + random.Int64N(20), step: 1 + random.Int64N(12)}
		inBoth := 0
		ofOther := all(t, other)
		for prefix := range all(t, one) {
			if ofOther[prefix] {
				inBoth++
			}
		}
		found, ok := one.common(other)
		if ok != (inBoth > 0) || ok && (!one.has(found) || !other.has(found)) {
			t.Fatalf("%+v and %+v have %d in common, got %v, %v", one, other, inBoth, found, ok)
		}
		if ok {
			common++
		}
		network := netip.PrefixFrom(like(t, "20.0.0.0/24", random.Int64N(60)).Addr(), 20+int(random.Int64N(6))).Masked()
		inside := false
		for prefix := range all(t, one) {
			inside = inside || network.Bits() <= 24 && network.Contains(prefix.Addr())
		}
		if found, ok := one.within(network); ok != inside || ok && (!one.has(found) || !network.Contains(found.Addr())) {
			t.Fatalf("%+v within %s: got %v, %v", one, network, found, ok)
		}
	}
	if common < 300 || common > 2700 {
		t.Errorf("%d of 3000 pairs have something in common", common)
	}
}

// like is the nth prefix behind another.
func like(t *testing.T, first string, n int64) netip.Prefix {
	t.Helper()
	prefix, ok := rangeOf(first, n+1, 1).at(big.NewInt(n))
	if !ok {
		t.Fatalf("%s has no prefix %d", first, n)
	}
	return prefix
}

func TestPrefixesOfAnyLengthHaveRoomUntilTheLastAddress(t *testing.T) {
	for first, want := range map[string]string{
		"0.0.0.0/0": "1", "255.255.255.0/24": "1", "20.0.0.0/8": "236", "::/128": "340282366920938463463374607431768211456", "2001:db8::/48": "246286079492096", "ffff::/16": "1",
	} {
		if got := rangeOf(first, 1, 1).room().String(); got != want {
			t.Errorf("%s: room for %s, want %s", first, got, want)
		}
	}
	if got := rangeOf("255.255.0.0/24", 1, 100).room().String(); got != "3" { // 0, 100, 200
		t.Errorf("got %s", got)
	}
	if last, ok := rangeOf("20.0.0.0/24", 1000000, 1).at(big.NewInt(999999)); !ok || last.String() != "35.66.63.0/24" {
		t.Errorf("got %s", last)
	}
	if _, ok := rangeOf("255.255.255.0/24", 2, 1).at(big.NewInt(1)); ok {
		t.Error("there is a prefix behind the last address")
	}
}

func TestSetsOfOnePortHaveNoPrefixInCommon(t *testing.T) {
	ranged := func(port, first string, count, step uint32) *enginev1.RouteSet {
		return &enginev1.RouteSet{Port: port, Prefixes: &enginev1.Prefixes{Range: &enginev1.PrefixRange{First: first, Count: count, Step: step}}}
	}
	listed := func(list ...string) *enginev1.RouteSet {
		return &enginev1.RouteSet{Port: "east", Prefixes: &enginev1.Prefixes{List: list}}
	}
	for name, c := range map[string]struct {
		a, b *enginev1.RouteSet
		want string
	}{
		"ranges":                {ranged("east", "20.0.0.0/24", 1000000, 1), ranged("east", "20.1.0.0/24", 10, 1), "20.1.0.0/24"},
		"ranges between others": {ranged("east", "20.0.0.0/24", 1000000, 2), ranged("east", "20.0.1.0/24", 1000000, 2), ""},
		"another length":        {ranged("east", "20.0.0.0/24", 1000000, 1), ranged("east", "20.1.0.0/25", 10, 1), ""},
		"another port":          {ranged("east", "20.0.0.0/24", 10, 1), ranged("west", "20.0.0.0/24", 10, 1), ""},
		"another family":        {ranged("east", "::/24", 10, 1), ranged("east", "0.0.0.0/24", 10, 1), ""},
		"a list in a range":     {listed("10.0.0.0/8", "20.0.9.0/24"), ranged("east", "20.0.0.0/24", 10, 1), "20.0.9.0/24"},
		"lists":                 {listed("10.0.0.0/8", "::/0"), listed("::/0"), "::/0"},
		"of IPv6":               {ranged("east", "2001:db8::/48", 1000, 3), ranged("east", "2001:db8:2::/48", 1000, 5), "2001:db8:c::/48"},
	} {
		for _, got := range []string{Common(c.a, c.b), Common(c.b, c.a)} {
			if got != c.want {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
		}
	}
}
