// SPDX-License-Identifier: Apache-2.0

package compare

// This file answers: which values had a metric in the intervals between the samples of a run, while it was measured at its full rate?

import (
	"math"
	"strings"
	"time"

	"spate.dev/operator/internal/runs/samples"
)

// rateOf are the counters whose mean rates are metrics, and what a rate is multiplied by.
var rateOf = map[string]struct {
	counter string
	factor  float64
}{
	"txPps": {samples.Tx, 1}, "rxPps": {samples.Rx, 1}, "txBps": {samples.TxBytes, 8}, "rxBps": {samples.RxBytes, 8}, "cps": {samples.Established, 1},
}

// meanOf are the sums and numbers of times whose means are metrics.
var meanOf = map[string]struct{ sum, count string }{
	"latency.mean": {samples.DelaySum, samples.DelayCount}, "connectTime.mean": {samples.ConnectSum, samples.ConnectCount},
}

// intervals returns the values of a metric; nil for one that is neither a rate nor a mean, or was not sampled.
func (s *side) intervals(metric string) []float64 {
	table, name := s.tableOf(metric)
	if table == nil {
		return nil
	}
	if rate, is := rateOf[name]; is {
		column := table[rate.counter]
		if column == nil { // it was always 0
			column = make([]int64, len(s.samples.Times))
		}
		return s.measured(s.samples.Rates(column, rate.factor))
	}
	if mean, is := meanOf[name]; is {
		values := s.measured(samples.Means(table[mean.sum], table[mean.count]))
		for i := range values {
			values[i] *= float64(time.Second) // in the unit of the metric
		}
		return values
	}
	return nil
}

// tableOf returns the counters that a metric is of, and its name without theirs; nil if they were not sampled.
func (s *side) tableOf(metric string) (samples.Table, string) {
	parts := strings.Split(metric, ".")
	switch {
	case len(parts) == 1:
		return s.samples.Total, metric
	case parts[0] == "flows":
		return s.samples.Flows, strings.Join(parts[1:], ".")
	case parts[0] == "streams" && len(parts) > 2:
		return s.samples.Streams[parts[1]], strings.Join(parts[2:], ".")
	case parts[0] == "templates" && len(parts) > 3:
		// Samples are of the clients, or of the servers where clients are real.
		sampled := "client"
		if s.run.Status.Result.Templates[parts[1]].Client == nil {
			sampled = "server"
		}
		if parts[2] == sampled {
			return s.samples.Templates[parts[1]], strings.Join(parts[3:], ".")
		}
	}
	return nil, ""
}

// measured keeps the values of the intervals within the measured phase: the warm-up counts nothing, and in the drain nothing is sent.
func (s *side) measured(values []float64) (kept []float64) {
	from := time.Duration(0)
	if resolved := s.run.Status.Resolved; resolved != nil {
		if warmup, err := resolved.Timing.Warmup.Parse(); err == nil { // absent is an error, too
			from = warmup
		}
	}
	until := from + time.Duration(s.run.Status.Result.Duration)
	begins := time.Duration(0)
	for i, value := range values {
		ends := time.Duration(s.samples.Times[i])
		if begins >= from && ends <= until && !math.IsNaN(value) {
			kept = append(kept, value)
		}
		begins = ends
	}
	return kept
}
