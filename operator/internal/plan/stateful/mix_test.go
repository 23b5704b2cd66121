// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// For any shares, engines can sum the parts, each is exact to a millionth, and their sum is the total.
func TestPartsOfAMixAddUpToTheTotal(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		weights, sum := make([]*big.Rat, 1+random.IntN(40)), new(big.Rat)
		for i := range weights {
			weights[i] = big.NewRat(1+random.Int64N(1_000_000), 1+random.Int64N(10_000_000))
			sum.Add(sum, weights[i])
		}
		total := big.NewRat(1+random.Int64N(100_000_000), []int64{1, 1, 10, 1000, 3}[random.IntN(5)])
		parts, err := shareOut(total, weights)
		if err != nil {
			t.Fatal(err)
		}
		all, least := new(big.Rat), big.NewRat(1, 100_000)
		for i, part := range parts {
			all.Add(all, part)
			off := new(big.Rat).Sub(part, new(big.Rat).Mul(total, new(big.Rat).Quo(weights[i], sum)))
			if off.Abs(off).Cmp(least) >= 0 || part.Denom().Cmp(big.NewInt(finest)) > 0 {
				t.Fatalf("%s of %s by %s of %s", part, total, weights[i], sum)
			}
		}
		if all.Cmp(total) != 0 {
			t.Fatalf("the sum is %s, not %s", all, total)
		}
	}
}
