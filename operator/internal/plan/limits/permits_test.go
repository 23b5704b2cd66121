// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestOnlyANarrowerLimitIsJudgedAnew(t *testing.T) {
	some := func(rate spatev1.AbsoluteRate, destinations []spatev1.CIDR, ports []spatev1.PortRange) *spatev1.Limits {
		return &spatev1.Limits{MaxRate: rate, AllowedDestinations: destinations, AllowedPorts: ports}
	}
	type (
		to    = []spatev1.CIDR
		ports = []spatev1.PortRange
	)
	for name, c := range map[string]struct {
		then, now *spatev1.Limits
		want      string
	}{
		"none":                             {nil, nil, ""},
		"lifted":                           {some("1kpps", to{"10.0.0.0/8"}, ports{"7"}), nil, ""},
		"empty":                            {nil, some("", nil, nil), ""},
		"a rate where there was none":      {some("", to{"10.0.0.0/8"}, ports{"7"}), some("1kpps", to{"10.0.0.0/8"}, ports{"7"}), "rate"},
		"a lower rate":                     {some("2kpps", nil, nil), some("1kpps", nil, nil), ""},
		"lists where there were no limits": {nil, some("", to{"0.0.0.0/0"}, ports{"0-65535"}), "destinations ports"},
		"a list where there was none":      {some("", to{"10.0.0.0/8"}, nil), some("", to{"10.0.0.0/8"}, ports{"0-65535"}), "ports"},
		"a list that is lifted":            {some("", to{"10.0.0.0/8"}, ports{"7"}), some("", to{"10.0.0.0/8"}, nil), ""},
		"in another order":                 {some("", to{"10.0.0.0/8", "fd00::/8"}, ports{"7", "9"}), some("", to{"fd00::/8", "10.0.0.0/8"}, ports{"9", "7"}), ""},
		"one prefix more":                  {some("", to{"10.0.0.0/8"}, nil), some("", to{"fd00::/8", "10.0.0.0/8"}, nil), ""},
		"a wider prefix":                   {some("", to{"198.18.0.0/15"}, nil), some("", to{"198.0.0.0/8"}, nil), ""},
		"two that make the one":            {some("", to{"198.18.0.0/15"}, nil), some("", to{"198.19.0.0/16", "198.18.0.0/16"}, nil), ""},
		"written otherwise":                {some("", to{"198.18.7.7/16"}, nil), some("", to{"198.18.0.0/16"}, nil), ""},
		"half of the prefix":               {some("", to{"198.18.0.0/15"}, nil), some("", to{"198.18.0.0/16"}, nil), "destinations"},
		"another prefix":                   {some("", to{"10.0.0.0/8", "11.0.0.0/8"}, nil), some("", to{"10.0.0.0/8", "12.0.0.0/8"}, nil), "destinations"},
		"another family":                   {some("", to{"::/0"}, nil), some("", to{"0.0.0.0/0"}, nil), "destinations"},
		"less of what ends beside IPv4":    {some("", to{"::/80"}, nil), some("", to{"::/96"}, nil), "destinations"},
		"a wider range":                    {some("", nil, ports{"80", "1000-1999"}), some("", nil, ports{"80-90", "1500-2500", "900-1499"}), ""},
		"a shorter range":                  {some("", nil, ports{"1000-1999"}), some("", nil, ports{"1000-1998"}), "ports"},
		"one port less":                    {some("", to{"10.0.0.0/8"}, ports{"80", "2152"}), some("", to{"10.0.0.0/8"}, ports{"80"}), "ports"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			if narrowed := Narrowed(c.now, c.then); narrowed != nil {
				if narrowed.MaxRate != "" {
					got = append(got, "rate")
				}
				if len(narrowed.AllowedDestinations) > 0 {
					got = append(got, "destinations")
				}
				if len(narrowed.AllowedPorts) > 0 {
					got = append(got, "ports")
				}
				if got == nil {
					t.Error("nothing is narrower, and it is to be checked")
				}
			}
			if limits := strings.Join(got, " "); limits != c.want {
				t.Errorf("checked by %q, want %q", limits, c.want)
			}
		})
	}
}
