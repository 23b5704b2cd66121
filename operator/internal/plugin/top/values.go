// SPDX-License-Identifier: Apache-2.0

package top

// This file answers: which figures of a reading do the tables add up?

import (
	"math"
	"slices"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plugin/figures"
)

// counted are the counters of a stream, warm-up and measured phase together.
type counted struct{ txPackets, txBytes, rxPackets uint64 }

func countedOf(s *enginev1.StreamStats) counted {
	w, m := s.GetWarmup(), s.GetMeasured()
	return counted{w.GetTxPackets() + m.GetTxPackets(), w.GetTxBytes() + m.GetTxBytes(), w.GetRxPackets() + m.GetRxPackets()}
}

// counterOf sums up counters of a side of a template.
func counterOf(t *enginev1.TemplateStats, names ...string) (sum uint64) {
	for _, c := range t.GetCounters() {
		if slices.Contains(names, c.GetName()) {
			sum += c.GetValue()
		}
	}
	return sum
}

// quantile of times, in nanoseconds; unknown without a measurement.
func quantile(times *enginev1.LatencyStats, partsPerMillion uint32) float64 {
	for _, q := range times.GetQuantiles() {
		if q.GetPartsPerMillion() == partsPerMillion && times.GetCount() > 0 {
			return float64(q.GetNs())
		}
	}
	return figures.Unknown
}

// greater is the greater of two values, of which either may be unknown.
func greater(a, b float64) float64 {
	switch {
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	}
	return max(a, b)
}
