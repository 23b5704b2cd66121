// SPDX-License-Identifier: Apache-2.0

package repeats

// This file answers: do the repeats of two searches differ by more than chance?

import (
	"errors"
	"math"

	"github.com/aclements/go-moremath/stats"
)

// TestName is the test of Compare.
const TestName = "Mann-Whitney U, two-sided"

// Comparison is whether two sets of repeats differ (Mann and Whitney, 1947).
type Comparison struct {
	// U is the number of pairs of which the value of the first set is greater, ties counted half.
	U float64
	// P is the probability of such a U, or one further from its mean, if both sets had the same distribution. It is exact, since sets have at
	// most 20 values.
	P float64
	// Shift is how much the median of the second set exceeds that of the first, in percent of the latter. It is not a number if that is 0.
	Shift float64
	// Needed is the number of repeats that each set needs for P to be able to fall below 0.05; 0 if these are enough.
	Needed int
}

// Differ reports whether the sets differ at a level of significance of 0.05.
func (c Comparison) Differ() bool { return c.P < 1-confidence }

// Compare compares two sets, each of at least one value.
func Compare(first, second []float64) (c Comparison, err error) {
	test, err := stats.MannWhitneyUTest(first, second, stats.LocationDiffers)
	switch {
	case errors.Is(err, stats.ErrSamplesEqual):
		c.U, c.P = float64(len(first)*len(second))/2, 1
	case err != nil:
		return c, err
	default:
		c.U, c.P = test.U, test.P
	}
	if c.Shift = 100 * (Median(second) - Median(first)) / Median(first); math.IsInf(c.Shift, 0) {
		c.Shift = math.NaN()
	}
	if leastP(len(first), len(second)) >= 1-confidence {
		for c.Needed = 1; leastP(c.Needed, c.Needed) >= 1-confidence; c.Needed++ {
		}
	}
	return c, nil
}

// leastP is the P of sets of which each value of one exceeds all of the other: 2 of all ways to choose the ranks of the first.
func leastP(first, second int) float64 {
	ways := 1.0
	for i := 1; i <= first; i++ {
		ways = ways * float64(second+i) / float64(i)
	}
	return min(2/ways, 1)
}
