// SPDX-License-Identifier: Apache-2.0

package samples

// This file answers: what was counted, and measured, from one sample to the next?

import (
	"math"
	"time"
)

// Rates are what was counted between a sample and the one before, per second, times a factor; the first since the start of the traffic. It is not a
// number where a counter fell, as it does when a pod is lost.
func (s *Series) Rates(column []int64, factor float64) []float64 {
	if column == nil {
		return nil
	}
	out := make([]float64, len(column))
	beforeValue, beforeTime := int64(0), int64(0)
	for i, value := range column {
		span := time.Duration(s.Times[i] - beforeTime).Seconds()
		if out[i] = factor * float64(value-beforeValue) / span; value < beforeValue || span <= 0 {
			out[i] = math.NaN()
		}
		beforeValue, beforeTime = value, s.Times[i]
	}
	return out
}

// Means are the means of the times that were measured between a sample and the one before, in seconds.
func Means(sums, counts []int64) []float64 {
	if sums == nil || counts == nil {
		return nil
	}
	out := make([]float64, len(sums))
	sumBefore, countBefore := int64(0), int64(0)
	for i := range sums {
		if out[i] = float64(sums[i]-sumBefore) / float64(counts[i]-countBefore) / float64(time.Second); counts[i] <= countBefore || sums[i] < sumBefore {
			out[i] = math.NaN()
		}
		sumBefore, countBefore = sums[i], counts[i]
	}
	return out
}
