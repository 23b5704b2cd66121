// SPDX-License-Identifier: Apache-2.0

package receive

// This file answers: which times were measured between two readings?

import (
	"math"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plugin/figures"
)

// times are moments of durations in nanoseconds; unknown where nothing was measured.
type times struct{ count, mean, deviation, least, greatest float64 }

// noTimes were measured where there is no receiver.
var noTimes = times{figures.Unknown, figures.Unknown, figures.Unknown, figures.Unknown, figures.Unknown}

// since are the moments of what was measured after a reading; nil for all. Count, mean and deviation are differences of sums (Chan, Golub and
// LeVeque 1979, solved for one of two samples). The least and the greatest are known if they were exceeded after that reading; else they may
// be those of before.
func since(before, now *enginev1.Moments) times {
	if now == nil {
		return noTimes
	}
	if now.GetCount() < before.GetCount() { // the engine has started to count again
		before = nil
	}
	all, earlier := float64(now.GetCount()), float64(before.GetCount())
	n := all - earlier
	if n == 0 {
		return times{0, figures.Unknown, figures.Unknown, figures.Unknown, figures.Unknown}
	}
	if earlier == 0 {
		return times{n, now.GetMeanNs(), math.Sqrt(now.GetVarianceNs2()), float64(now.GetMinNs()), float64(now.GetMaxNs())}
	}
	mean := (all*now.GetMeanNs() - earlier*before.GetMeanNs()) / n
	apart := mean - before.GetMeanNs()
	squares := all*now.GetVarianceNs2() - earlier*before.GetVarianceNs2() - apart*apart*earlier*n/all
	t := times{n, max(mean, 0), math.Sqrt(max(squares, 0) / n), figures.Unknown, figures.Unknown}
	if now.GetMinNs() < before.GetMinNs() {
		t.least = float64(now.GetMinNs())
	}
	if now.GetMaxNs() > before.GetMaxNs() {
		t.greatest = float64(now.GetMaxNs())
	}
	return t
}
