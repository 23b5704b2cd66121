// SPDX-License-Identifier: Apache-2.0

package plan

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

// The CRD accepts all of these.
func TestAGreatestRateThatEnginesCannotHaveIsRefusedOfTheGenerator(t *testing.T) {
	for name, c := range map[string]struct {
		rate     spatev1.AbsoluteRate
		replicas int32
		want     string
	}{
		"of one engine":       {"10Gbps", 1, ""},
		"most of an engine":   {"18446744073709551615pps", 1, ""},
		"most of two":         {"36893488147419103230pps", 2, ""},
		"no replicas said":    {"10Gbps", 0, ""},
		"too high":            {"100000000000Gbps", 1, `spec.limits.maxRate: "100000000000Gbps": as each engine's part, 100000000000000000000 is more than a number of 64 bits holds (18446744073709551615); use a lower one`},
		"too high for two":    {"36893488147419103232pps", 2, `spec.limits.maxRate: "36893488147419103232pps": as each engine's part, 18446744073709551616 is more than a number of 64 bits holds (18446744073709551615); use a lower one`},
		"too fine":            {"1.00000000000000000001Gbps", 1, `spec.limits.maxRate: "1.00000000000000000001Gbps": as each engine's part, 100000000000000000001/100000000000 is no fraction of 64-bit numbers; use a rounder one`},
		"with zeros in front": {"0000000000000000000000000001pps", 1, `spec.limits.maxRate: "0000000000000000000000000001pps": must be a rate such as 1.5Mpps, 10Gbps (layer 2, FCS included) or 10GbpsL1`},
	} {
		g := generator(func(g *spatev1.TrafficGenerator) {
			g.Spec.Replicas, g.Spec.Limits = c.replicas, &spatev1.Limits{MaxRate: c.rate}
		})
		problems := CheckGenerator(&g.Spec)
		if got := problems.Message(); got != c.want || got != "" && problems.Reason() != spatev1.ReasonInvalidSpec {
			t.Errorf("%s: %s %s, want %s", name, problems.Reason(), got, c.want)
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
