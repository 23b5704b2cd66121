// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"math/big"
	"testing"
)

func TestRatesAreFractionsThatEnginesHaveRoomFor(t *testing.T) {
	for _, c := range []struct {
		unit        Unit
		value, want string
	}{
		{PacketsPerSecond, "1000000", "1000000"},
		{PacketsPerSecond, "3/2", "3/2"},
		{PacketsPerSecond, "1.1666666666666667", "7/6"},
		{L1BitsPerSecond, "10234824.98892335", ""},
		{L2BitsPerSecond, "1000000.5", "2000001/2"},
		{PacketsPerSecond, "0.0000000000001", "1/10000000000000"},
	} {
		value, _ := new(big.Rat).SetString(c.value)
		ratio, err := RateRatio(c.unit, value)
		if err != nil {
			t.Fatalf("%s: %v", c.value, err)
		}
		got := new(big.Rat).SetFrac(new(big.Int).SetUint64(ratio.GetNumerator()), new(big.Int).SetUint64(ratio.GetDenominator()))
		if c.want != "" && got.RatString() != c.want {
			t.Errorf("%s: got %s, want %s", c.value, got.RatString(), c.want)
		}
		off := new(big.Rat).Sub(got, value)
		if off.Abs(off).Cmp(big.NewRat(1, 100000)) > 0 {
			t.Errorf("%s: %s is too far away", c.value, got.RatString())
		}
		if c.unit != PacketsPerSecond && new(big.Int).SetUint64(ratio.GetDenominator()).Cmp(mostBitsDenominator) > 0 {
			t.Errorf("%s: no room for %s", c.value, got.RatString())
		}
	}
}
