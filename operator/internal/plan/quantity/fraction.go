// SPDX-License-Identifier: Apache-2.0

// Which fraction represents a rate? Engines compute packets per nanosecond from it exactly, with 64 bits in numerator
// and denominator. A rate such as 0.1023482498892335% needs more. The nearest fraction that fits differs by less than
// 1e-5 bits per second, or 1e-9 packets per second.

package quantity

import (
	"fmt"
	"math"
	"math/big"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
)

const (
	nsPerSecond = 1e9
	// longestOnMedium is the longest packet with FCS, preamble and inter-frame gap, in bytes.
	longestOnMedium = packet.MaxFrameBytes + packet.FCSBytes + 20
)

// Maximum denominators, which leave room for nanoseconds, and for the bits of the longest packet on the medium.
var (
	MostDenominator     = new(big.Int).Div(new(big.Int).Lsh(big.NewInt(1), 63), big.NewInt(nsPerSecond))
	mostBitsDenominator = new(big.Int).Div(MostDenominator, big.NewInt(8*longestOnMedium))
)

// RateRatio returns a rate's value in the contract's form.
func RateRatio(unit Unit, value *big.Rat) (*enginev1.Ratio, error) {
	most := mostBitsDenominator
	if unit == PacketsPerSecond {
		most = MostDenominator
	}
	if near := Nearest(value, most); near.Sign() > 0 {
		value = near
	}
	return Ratio(value)
}

// Nearest returns the last convergent of a value's continued fraction whose denominator is at most `most`; the value
// itself if its denominator is.
func Nearest(value *big.Rat, most *big.Int) *big.Rat {
	if value.Denom().Cmp(most) <= 0 {
		return value
	}
	// h/k is the convergent, and g/j the one before it.
	g, j, h, k := big.NewInt(0), big.NewInt(1), big.NewInt(1), big.NewInt(0)
	above, below := new(big.Int).Set(value.Num()), new(big.Int).Set(value.Denom())
	for below.Sign() != 0 {
		whole, rest := new(big.Int).QuoRem(above, below, new(big.Int))
		next := new(big.Int).Add(new(big.Int).Mul(whole, k), j)
		if next.Cmp(most) > 0 {
			break
		}
		g, h = h, new(big.Int).Add(new(big.Int).Mul(whole, h), g)
		j, k = k, next
		above, below = below, rest
	}
	return new(big.Rat).SetFrac(h, k)
}

// Times returns a multiple of a value.
func Times(value *big.Rat, n int64) *big.Rat {
	return new(big.Rat).Mul(value, new(big.Rat).SetInt64(n))
}

// Rational returns a plan's ratio, whose denominator is not 0.
func Rational(ratio *enginev1.Ratio) *big.Rat {
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(ratio.GetNumerator()), new(big.Int).SetUint64(ratio.GetDenominator()))
}

// Ratio returns a rational number in the contract's form, if it fits.
func Ratio(value *big.Rat) (*enginev1.Ratio, error) {
	if most := new(big.Rat).SetUint64(math.MaxUint64); value.Cmp(most) > 0 {
		return nil, fmt.Errorf("%s is more than a number of 64 bits holds (%s); use a lower one", value.RatString(), most.RatString())
	}
	if !value.Num().IsUint64() || !value.Denom().IsUint64() {
		return nil, fmt.Errorf("%s is no fraction of 64-bit numbers; use a rounder one", value.RatString())
	}
	return &enginev1.Ratio{Numerator: value.Num().Uint64(), Denominator: value.Denom().Uint64()}, nil
}

// PlanRate returns a rate of a unit for the plan.
func PlanRate(unit Unit, ratio *enginev1.Ratio) *enginev1.Rate {
	switch unit {
	case PacketsPerSecond:
		return &enginev1.Rate{Kind: &enginev1.Rate_PacketsPerSecond{PacketsPerSecond: ratio}}
	case L2BitsPerSecond:
		return &enginev1.Rate{Kind: &enginev1.Rate_L2BitsPerSecond{L2BitsPerSecond: ratio}}
	default:
		return &enginev1.Rate{Kind: &enginev1.Rate_L1BitsPerSecond{L1BitsPerSecond: ratio}}
	}
}
