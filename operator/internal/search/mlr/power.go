// SPDX-License-Identifier: Apache-2.0

package mlr

// This file answers: what is a power, to the last bit and on every processor? Trials are full-length or short by their exact duration.

import (
	"math"
	"math/big"
)

// precision of intermediate results in bits.
const precision = 160

func exact(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

// power returns base^exponent for a base above 0, rounded to the nearest value.
func power(base, exponent float64) float64 {
	if exponent == 1 {
		return base
	}
	z := logarithm(base)
	result, _ := exponential(z.Mul(z, exact(exponent))).Float64()
	return result
}

// logarithm improves the processor's by one step of Halley's method, which triples the number of correct digits.
func logarithm(x float64) *big.Float {
	guess := exact(math.Log(x))
	of := exponential(guess)
	above, sum := new(big.Float).Sub(exact(x), of), new(big.Float).Add(exact(x), of)
	return guess.Add(guess, above.Quo(above.Mul(above, exact(2)), sum))
}

// exponential sums the series of a small part of the argument, and squares the result until it is that of the argument.
func exponential(z *big.Float) *big.Float {
	const halvings = 16 // of an argument below 1,024: more than the float64 range
	small := new(big.Float).SetMantExp(z, -halvings)
	sum, term := exact(1), exact(1)
	for n := 1.0; term.Sign() != 0 && term.MantExp(nil) > -precision; n++ {
		term.Quo(term.Mul(term, small), exact(n))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}
