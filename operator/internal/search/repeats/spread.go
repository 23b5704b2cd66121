// SPDX-License-Identifier: Apache-2.0

// Package repeats answers: what do the repeats of a search say together, and do two searches differ? Its statistics assume no distribution: bounds
// of a search are few, discrete, and not normally distributed.
package repeats

// This file answers: how are the lower bounds of a goal spread over repeats?

import (
	"math"
	"slices"
	"strconv"

	"github.com/aclements/go-moremath/stats"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/search/sequence"
)

// confidence of intervals, and 1 less it the level of significance of tests.
const confidence = 0.95

// Lower returns the lower bound of a goal in each repeat that has a result for it, 0 where there is no lower bound.
func Lower(all []spatev1.SearchRepeat, goal spatev1.EntryName) (lower []float64) {
	for _, repeat := range all {
		for _, found := range repeat.Goals {
			if found.Name == goal {
				lower = append(lower, number(found.Lower))
			}
		}
	}
	return lower
}

// Spread returns how the lower bounds of a goal are spread. There is at least one.
func Spread(goal spatev1.EntryName, lower []float64) spatev1.GoalSpread {
	least, greatest := stats.Bounds(lower)
	spread := spatev1.GoalSpread{Name: goal, Count: int32(len(lower)), Min: text(least), Median: text(Median(lower)), Max: text(greatest)}
	if len(lower) > 1 {
		spread.Deviation = sequence.Ratio(stats.StdDev(lower)) // rounded
	}
	ci := stats.QuantileCI(len(lower), 0.5, confidence)
	if _, low, high := ci.SampleCI(stats.Sample{Xs: lower}); !math.IsInf(low, 0) && !math.IsInf(high, 0) {
		spread.MedianLow, spread.MedianHigh = text(low), text(high)
	}
	return spread
}

// Median of at least one value: of an even number, the mean of the two in the middle.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// number reads a load or ratio; 0 if it is absent.
func number(text string) float64 {
	value, _ := strconv.ParseFloat(text, 64)
	return value
}

// text writes a number so that it is read back exactly, and 0 as such.
func text(value float64) string {
	if value == 0 {
		return "0"
	}
	return sequence.Text(value)
}
