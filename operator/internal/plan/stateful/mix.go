// SPDX-License-Identifier: Apache-2.0

// Which rate does each entry of a mix have? A total is divided by connections, or by the bytes that applications send.

package stateful

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/quantity"
)

// finest is the common denominator of the rates of a mix that have no smaller one. It leaves room for a factor
// (spec.rate), and for sums in 64 bits in engines.
const finest = 1_000_000

// Mix sets the rate of the entries with a share, or reports why it cannot. The entries were checked by themselves.
func Mix(profile *spatev1.TrafficProfile, entries []Entry) (problems problem.Problems) {
	var shared []*Entry
	for i := range entries {
		if entries[i].spec.Application.Share != nil {
			shared = append(shared, &entries[i])
		}
	}
	mix, at := profile.Spec.Mix, spec.Child("mix")
	switch {
	case mix == nil && len(shared) > 0:
		problems.Add(spatev1.ReasonInvalidSpec, shared[0].At.Child("application", "share"), "is of spec.mix, which is absent: set it, or a connectionRate instead")
		return problems
	case mix == nil:
		return problems
	case len(shared) == 0:
		problems.Add(spatev1.ReasonInvalidSpec, at, "no entry has a share of it: set share, or leave it out")
		return problems
	}
	total, bits, err := quantity.ParseMixRate(mix.Rate)
	if err != nil {
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("rate"), "%q: %v", mix.Rate, err)
		return problems
	}
	weights, sizes := make([]*big.Rat, len(shared)), make([]*big.Rat, len(shared))
	byBytes := mix.ShareBy == spatev1.ShareBytes
	if !byBytes && mix.ShareBy != spatev1.ShareConnections {
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("shareBy"), "%q: must be Connections or Bytes", mix.ShareBy)
		return problems
	}
	for i, e := range shared {
		if problems.AtLeastOne(int64(*e.spec.Application.Share), e.At.Child("application", "share")); *e.spec.Application.Share < 1 {
			return problems
		}
		weights[i], sizes[i] = big.NewRat(int64(*e.spec.Application.Share), 1), new(big.Rat)
		if !byBytes && !bits {
			continue
		}
		bytes, err := e.bytes()
		if err != nil {
			problems.Add(spatev1.ReasonInvalidSpec, e.At.Child("application", "share"), "the bytes of a connection of %s cannot be determined: %v", e.says(spec.Child("source")), err)
			return problems
		}
		sizes[i] = new(big.Rat).SetFrac(bytes, big.NewInt(1))
		if byBytes { // the number of connections that makes its share of bytes
			weights[i].Quo(weights[i], sizes[i])
		}
	}
	if bits {
		total = connectionsOf(total, weights, sizes)
	}
	rates, err := shareOut(total, weights)
	if err != nil {
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("rate"), "%q: %v", mix.Rate, err)
		return problems
	}
	for i, e := range shared {
		if rates[i].Sign() == 0 {
			problems.Add(spatev1.ReasonInvalidSpec, e.At.Child("application", "share"), "is less than a connection in %d s: raise it, or spec.mix.rate", finest)
			continue
		}
		e.rate = rates[i]
		e.own = spatev1.ConnectionRate(quantity.FormatDecimal(rates[i]) + "cps")
	}
	return problems
}

// connectionsOf returns the number of connections per second that result in a total of bits per second, if they are in
// proportion to weights and each has its number of bytes. It is exact, or rounded to a millionth if the exact fractions are
// too fine for sums in engines.
func connectionsOf(bits *big.Rat, weights, bytes []*big.Rat) *big.Rat {
	sum, each := new(big.Rat), new(big.Rat)
	for i := range weights {
		sum.Add(sum, weights[i])
		each.Add(each, new(big.Rat).Mul(weights[i], bytes[i]))
	}
	all := new(big.Rat).Quo(bits, each.Mul(each, big.NewRat(8, 1)))
	all.Mul(all, sum)
	if _, ok := inCommon(all, weights); ok {
		return all
	}
	half := big.NewRat(1, 2)
	units := half.Add(half, new(big.Rat).Mul(all, big.NewRat(finest, 1)))
	return new(big.Rat).SetFrac(new(big.Int).Quo(units.Num(), units.Denom()), big.NewInt(finest))
}

// shareOut divides a total in proportion to weights. The parts are exact, or multiples of a millionth by largest
// remainders if the exact fractions are too fine for sums in engines. Their sum is the total.
func shareOut(total *big.Rat, weights []*big.Rat) ([]*big.Rat, error) {
	if exact, ok := inCommon(total, weights); ok {
		return exact, nil
	}
	// A multiple of the total's denominator, so that the sum is exact.
	denominator := new(big.Int).Set(total.Denom())
	for ten := big.NewInt(10); new(big.Int).Mul(denominator, ten).Cmp(big.NewInt(finest)) <= 0; {
		denominator.Mul(denominator, ten)
	}
	units := new(big.Rat).Mul(total, new(big.Rat).SetInt(denominator)).Num()
	if denominator.Cmp(quantity.MostDenominator) > 0 || units.BitLen() > mostUnitBits {
		return nil, errors.New("has too many digits to be shared out; use a rounder one")
	}
	sum := new(big.Rat)
	for _, weight := range weights {
		sum.Add(sum, weight)
	}
	parts, remainders, left := make([]*big.Int, len(weights)), make([]*big.Rat, len(weights)), new(big.Int).Set(units)
	order := make([]int, len(weights))
	for i, weight := range weights {
		exact := new(big.Rat).Mul(new(big.Rat).Quo(weight, sum), new(big.Rat).SetInt(units))
		parts[i] = new(big.Int).Quo(exact.Num(), exact.Denom())
		remainders[i], order[i] = exact.Sub(exact, new(big.Rat).SetInt(parts[i])), i
		left.Sub(left, parts[i])
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Or(remainders[b].Cmp(remainders[a]), a-b) })
	for _, i := range order[:left.Int64()] {
		parts[i].Add(parts[i], big.NewInt(1))
	}
	shared := make([]*big.Rat, len(weights))
	for i, part := range parts {
		shared[i] = new(big.Rat).SetFrac(part, denominator)
	}
	return shared, nil
}

// mostUnitBits is the maximum size of a sum of rates as integers; the remaining bits are for other rates, and for a
// factor.
const mostUnitBits = 48

// inCommon returns a total's parts in proportion to weights, if their common denominator is not too large.
func inCommon(total *big.Rat, weights []*big.Rat) ([]*big.Rat, bool) {
	sum := new(big.Rat)
	for _, weight := range weights {
		sum.Add(sum, weight)
	}
	exact, denominator := make([]*big.Rat, len(weights)), big.NewInt(1)
	for i, weight := range weights {
		exact[i] = new(big.Rat).Mul(total, new(big.Rat).Quo(weight, sum))
		common := new(big.Int).GCD(nil, nil, denominator, exact[i].Denom())
		denominator.Mul(denominator, new(big.Int).Quo(exact[i].Denom(), common))
		if denominator.Cmp(big.NewInt(finest)) > 0 {
			return nil, false
		}
	}
	units := new(big.Rat).Mul(total, new(big.Rat).SetInt(denominator))
	return exact, units.Num().BitLen() <= mostUnitBits
}

// bytes returns the number of bytes that a connection of the entry's template has in both directions: what both
// programs send.
func (e *Entry) bytes() (*big.Int, error) {
	if e.Template.Made.Capture != nil {
		return nil, errors.New("its programs come from a capture, which only engines read: write them out with kubectl spate import pcap, or set a connectionRate instead")
	}
	sum := new(big.Int)
	for _, side := range []struct {
		name    string
		program *application.Program
	}{{"client", e.Template.Client}, {"server", e.Template.Server}} {
		if side.program == nil {
			return nil, fmt.Errorf("it has no source.programs.%s: write it, or set a connectionRate instead", side.name)
		}
		sent, err := side.program.Sent()
		if err != nil {
			return nil, fmt.Errorf("source.programs.%s %w", side.name, err)
		}
		sum.Add(sum, sent)
	}
	if sum.Sign() == 0 {
		return nil, errors.New("it sends nothing: set a connectionRate instead")
	}
	return sum, nil
}
