// SPDX-License-Identifier: Apache-2.0

package load

import (
	"math/big"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestEachEngineHasAnEqualPartOfTheGreatestRate(t *testing.T) {
	for name, c := range map[string]struct {
		limits  *spatev1.Limits
		engines int
		want    string
	}{
		"none":      {nil, 2, "<nil>"},
		"no rate":   {&spatev1.Limits{AllowedPorts: []spatev1.PortRange{"7"}}, 2, "<nil>"},
		"packets":   {&spatev1.Limits{MaxRate: "10kpps"}, 3, "packets_per_second:{numerator:10000 denominator:3}"},
		"frames":    {&spatev1.Limits{MaxRate: "1Gbps"}, 1, "l2_bits_per_second:{numerator:1000000000 denominator:1}"},
		"on medium": {&spatev1.Limits{MaxRate: "1GbpsL1"}, 4, "l1_bits_per_second:{numerator:250000000 denominator:1}"},
	} {
		rate, err := EngineRate(c.limits, c.engines)
		got := "<nil>"
		if rate != nil {
			got = strings.Join(strings.Fields(rate.String()), " ")
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %s %v, want %s", name, got, err, c.want)
		}
	}
}

func TestALoadIsNoGreaterInWhatTheGreatestRateCounts(t *testing.T) {
	load := func(packets, l2 int64) Load {
		return Load{Packets: big.NewRat(packets, 1), L2Bits: big.NewRat(l2, 1), L1Bits: big.NewRat(l2+160*packets, 1)}
	}
	for rate, want := range map[spatev1.AbsoluteRate]bool{"1pps": true, "1bps": false, "": false} {
		if got := load(5, 9000).NoGreater(load(6, 8000), &spatev1.Limits{MaxRate: rate}); got != want {
			t.Errorf("fewer packets and more bits, maxRate %q: %v", rate, got)
		}
	}
	if !load(5, 8000).NoGreater(load(5, 8000), nil) {
		t.Error("a load is greater than itself")
	}
}
