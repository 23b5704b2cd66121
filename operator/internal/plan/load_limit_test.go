// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	spatev1 "spate.dev/operator/api/v1alpha1"
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
		rate, err := EngineRate(generator(func(g *spatev1.TrafficGenerator) { g.Spec.Limits = c.limits }), c.engines)
		got := "<nil>"
		if rate != nil {
			got = strings.Join(strings.Fields(rate.String()), " ")
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %s %v, want %s", name, got, err, c.want)
		}
	}
}
