// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/big"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

// twoWays sends 64 bytes from east (1 Gbps) at one rate and from west (10 Gbps) at another.
func twoWays(east, west spatev1.Rate) *spatev1.TrafficProfile {
	return profile(entryOf("there", "east", "west", streamOf(east, 64)), entryOf("back", "west", "east", streamOf(west, 64)))
}

func fastWest(replicas int32) *spatev1.TrafficGenerator {
	return generator(func(g *spatev1.TrafficGenerator) { g.Spec.Replicas, g.Spec.Ports[1].LineRate = replicas, "10Gbps" })
}

func TestATotalIsThatOfAllPortsOrOfEach(t *testing.T) {
	for name, c := range map[string]struct {
		profile    *spatev1.TrafficProfile
		rate       spatev1.ScaledRate
		replicas   int32
		factor     *big.Rat
		east, west *big.Rat // packets per second
	}{
		"a factor":                       {twoWays("1kpps", "3kpps"), "1.5x", 1, big.NewRat(3, 2), big.NewRat(1500, 1), big.NewRat(4500, 1)},
		"packets of all":                 {twoWays("1kpps", "3kpps"), "1Mpps", 1, big.NewRat(250, 1), big.NewRat(250000, 1), big.NewRat(750000, 1)},
		"packets of each":                {twoWays("1kpps", "1kpps"), "1Mpps/port", 1, big.NewRat(1000, 1), big.NewRat(1e6, 1), big.NewRat(1e6, 1)},
		"packets of each, over two pods": {twoWays("1kpps", "1kpps"), "1Mpps/port", 2, big.NewRat(1000, 1), big.NewRat(1e6, 1), big.NewRat(1e6, 1)},
		"bits of all":                    {twoWays("1kpps", "3kpps"), "4096kbps", 1, big.NewRat(2, 1), big.NewRat(2000, 1), big.NewRat(6000, 1)},
		"bits of each on layer 1":        {twoWays("1kpps", "1kpps"), "1344kbpsL1/port", 1, big.NewRat(2, 1), big.NewRat(2000, 1), big.NewRat(2000, 1)},
		// The rate is 5.5 Gbps of the 11 Gbps of both ports, with 84 bytes per packet: 1/11 of it, from east, is
		// exactly 50 % of east's line rate.
		"a share of all line rates":      {twoWays("1kpps", "10kpps"), "50%", 1, big.NewRat(5500000000, 672*11000), big.NewRat(500000000, 672), big.NewRat(5000000000, 672)},
		"a share, over two pods":         {twoWays("1kpps", "10kpps"), "50%", 2, big.NewRat(11000000000, 672*11000), big.NewRat(1000000000, 672), big.NewRat(10000000000, 672)},
		"a share of each line rate":      {twoWays("1kpps", "10kpps"), "80%/port", 1, big.NewRat(800000000, 672*1000), big.NewRat(800000000, 672), big.NewRat(8000000000, 672)},
		"a share of those that send":     {profile(entryOf("there", "east", "west", streamOf("1kpps", 64))), "80%", 1, big.NewRat(800000000, 672*1000), big.NewRat(800000000, 672), nil},
		"of shares of their own":         {twoWays("10%", "10%"), "80%/port", 1, big.NewRat(8, 1), big.NewRat(800000000, 672), big.NewRat(8000000000, 672)},
		"entries of a port count as one": {profile(entryOf("a", "east", "west", streamOf("1kpps", 64)), entryOf("b", "east", "west", streamOf("3kpps", 64)), entryOf("c", "west", "east", streamOf("4kpps", 64))), "8kpps/port", 1, big.NewRat(2, 1), big.NewRat(8000, 1), big.NewRat(8000, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			c.profile.Spec.Rate = c.rate
			resolved := mustResolve(t, Input{Profile: c.profile, Generator: fastWest(c.replicas)})
			if resolved.Factor.Cmp(c.factor) != 0 {
				t.Errorf("factor %s, want %s", resolved.Factor, c.factor)
			}
			for port, want := range map[string]*big.Rat{"east": c.east, "west": c.west} {
				if got := resolved.Load.Ports[place(port)]; (got == nil) != (want == nil) || got != nil && got.Packets.Cmp(want) != 0 {
					t.Errorf("port %s: %v packets a second, want %s", port, got, want)
				}
			}
			// A run that was planned at another factor results in the same rates.
			c.profile.Spec.Rate = "0.5x"
			half := mustResolve(t, Input{Profile: c.profile, Generator: fastWest(c.replicas)})
			live, err := Rescale(half.Plan(Identity{}), half.Factor, c.rate, fastWest(c.replicas))
			if err != nil || live.OwnFactor.Cmp(c.factor) != 0 || live.Load.Packets.Cmp(resolved.Load.Packets) != 0 {
				t.Errorf("while it runs: factor %v, load %v (%v)", live.OwnFactor, live.Load.Packets, err)
			}
		})
	}
}

func TestTotalsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		profile   *spatev1.TrafficProfile
		generator *spatev1.TrafficGenerator
		rate      spatev1.ScaledRate
		want      string
	}{
		"ports that differ":          {twoWays("1kpps", "3kpps"), fastWest(1), "1Mpps/port", `spec.rate: "1Mpps/port": ports east and west send at different rates of their own, and a rate for each port scales all entries by one factor: make them equal, or give a total without /port`},
		"shares that differ":         {twoWays("1kpps", "1kpps"), fastWest(1), "80%/port", `spec.rate: "80%/port": ports east and west send at different rates of their own`},
		"a line rate unknown":        {twoWays("1kpps", "1kpps"), generator(), "80%", `spec.rate: "80%": a rate in percent needs the line rate of port west`},
		"of each, unknown":           {twoWays("1kpps", "1kpps"), generator(), "80%/port", `spec.rate: "80%/port": a rate in percent needs the line rate of port west`},
		"more than a port can carry": {twoWays("1kpps", "1kpps"), fastWest(1), "80%", "spec.rate: port east of generator lab would have to carry 4.4Gbps on layer 1, and can carry 1Gbps"},
		"a factor of each":           {twoWays("1kpps", "1kpps"), fastWest(1), "2x/port", `spec.rate: "2x/port": must be a factor such as 2x, a total such as 1Mpps`},
		"applications":               {scaledTo("80%"), fastWest(1), "80%", `spec.rate: "80%": the rate of templates cannot be given in packets or bits; use a factor such as 2x`},
	} {
		t.Run(name, func(t *testing.T) {
			c.profile.Spec.Rate = c.rate
			in := Input{Profile: c.profile, Generator: c.generator, Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate)}}
			if _, problems := Resolve(in); !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %s\nwant %s", problems.Message(), c.want)
			}
		})
	}
	if _, err := Rescale(mustResolve(t, Input{Profile: imix(), Generator: generator()}).Plan(Identity{}), big.NewRat(1, 1), "80%", nil); err == nil || !strings.Contains(err.Error(), "the line rate is that of the generator, which does not exist") {
		t.Errorf("without its generator: %v", err)
	}
}
