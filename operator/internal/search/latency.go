// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: at which loads is latency measured, and which trials are those? (RFC 2544 section 26.2)

import (
	"errors"
	"fmt"
)

// Latency is a test at shares of a throughput. Latencies are not part of a trial's record here: the result names the trials.
type Latency struct {
	// Throughput in pps, of a test before.
	Throughput float64
	// Percent are the percentages of it, in the order of measurement.
	Percent []float64
	// Duration of a trial in seconds.
	Duration float64
	// Repeats is the number of trials at each load.
	Repeats int
	Options
}

// LatencyResult are the trials at a load.
type LatencyResult struct {
	// Percent of the throughput.
	Percent float64
	// Load of an interface in pps.
	Load float64
	// Trials are the numbers of the trials, without invalid ones.
	Trials []int
	// LossRatio is the greatest of the trials.
	LossRatio float64
	// Reason is Found, GeneratorLimited if packets were not sent, or BudgetExhausted if trials are missing.
	Reason Reason
}

// NewLatency returns the test. An error joins a FieldError for each value that is refused.
func NewLatency(l Latency) (Method, error) {
	errs := []error{l.problems(l.Duration)}
	if !isLoad(l.Throughput) {
		errs = append(errs, refused("latency.of", "the goal has no throughput (%v per second); name a goal with a lower bound", l.Throughput))
	}
	if len(l.Percent) == 0 {
		errs = append(errs, refused("latency.atPercent", "there is none; give percentages of the throughput, as 100, 50 and 10"))
	}
	for i, percent := range l.Percent {
		if !(percent > 0 && percent <= 100) {
			errs = append(errs, refused(fmt.Sprintf("latency.atPercent[%d]", i), "%v is out of range; give a value above 0, up to 100", percent))
		}
	}
	if !isDuration(l.Duration) {
		errs = append(errs, refused("latency.duration", "%v s is no duration; give one above 0, as 120s", l.Duration))
	}
	if l.Repeats < 1 {
		errs = append(errs, refused("latency.repeats", "%d is no number of trials; give 1 or more (RFC 2544: 20)", l.Repeats))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return replayed{l.Options, func() progress { return newLatency(l) }}, nil
}

type latency struct {
	test Latency
	rows []LatencyResult
	done int // trials
}

func newLatency(l Latency) *latency {
	rows := make([]LatencyResult, len(l.Percent))
	for i, percent := range l.Percent {
		rows[i] = LatencyResult{Percent: percent, Load: l.Throughput * percent / 100, Reason: Found}
	}
	return &latency{test: l, rows: rows}
}

func (l *latency) row() int { return l.done / l.test.Repeats }

func (l *latency) next() (Input, bool) {
	if l.row() >= len(l.rows) {
		return Input{}, false
	}
	return Input{Load: l.rows[l.row()].Load, Duration: l.test.Duration}, true
}

func (l *latency) add(t Trial) {
	row := &l.rows[l.row()]
	row.Trials = append(row.Trials, t.Number)
	row.LossRatio = max(row.LossRatio, t.LossRatio())
	if t.Unsent() != 0 {
		row.Reason = GeneratorLimited
	}
	l.done++
}

func (l *latency) result(bool) Result {
	for i := range l.rows {
		if len(l.rows[i].Trials) < l.test.Repeats {
			l.rows[i].Reason = BudgetExhausted
		}
	}
	return Result{Latency: l.rows, Reason: reasonOf(l.rows, func(r LatencyResult) Reason { return r.Reason })}
}
