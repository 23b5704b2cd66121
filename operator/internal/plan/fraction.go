// SPDX-License-Identifier: Apache-2.0

// Which fraction stands for a rate? Engines compute packets a nanosecond from it exactly, with 64 bits above and below, and
// a rate such as 0.1023482498892335% is finer than that leaves room for. One near it with room is less than 1e-5 bits, or 1e-9
// packets, a second away.

package plan

import (
	"math/big"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
)

const (
	nsPerSecond = 1e9
	// longestOnMedium is the longest packet with FCS, preamble and inter-frame gap, in bytes.
	longestOnMedium = packet.MaxFrameBytes + packet.FCSBytes + 20
)

// Denominators that leave room for nanoseconds, and for the bits of the longest packet on the medium.
var (
	mostDenominator     = new(big.Int).Div(new(big.Int).Lsh(big.NewInt(1), 63), big.NewInt(nsPerSecond))
	mostBitsDenominator = new(big.Int).Div(mostDenominator, big.NewInt(8*longestOnMedium))
)

// rateRatio is a rate's value for the contract.
func rateRatio(unit Unit, value *big.Rat) (*enginev1.Ratio, error) {
	most := mostBitsDenominator
	if unit == PacketsPerSecond {
		most = mostDenominator
	}
	if near := nearest(value, most); near.Sign() > 0 {
		value = near
	}
	return Ratio(value)
}

// nearest is the last convergent of a value's continued fraction whose denominator is at most this; the value itself if its own is.
func nearest(value *big.Rat, most *big.Int) *big.Rat {
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
