// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how many transactions of a trial succeeded, and was their rate constant (RFC 9411 section 7.2.3)?

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/sequence"
)

const (
	// mostIntervals is in how many intervals of equal length a trial is divided whose rate has to be constant.
	mostIntervals = 10
	// shortestInterval is their least length.
	shortestInterval = time.Second
)

// countTransactions converts what a trial came to from connections to transactions, of which each connection of a template has a number.
// Those of the ramp-up are not counted, but the failed ones among them are: a connection may fail after it.
func countTransactions(connections spatev1.TrialRecord, stats []*enginev1.WatchStatsResponse, perConnection map[string]int64) spatev1.TrialRecord {
	begun, due, lost := int64(0), int64(0), int64(0)
	for _, st := range present(stats) {
		for _, t := range st.GetTemplates() {
			each, clients := perConnection[t.GetTemplate()], attempted[enginev1.Side_SIDE_CLIENT]
			if t.GetSide() != enginev1.Side_SIDE_CLIENT {
				continue
			}
			begun += measured(t)[clients]
			due += measured(t)[clients] * each
			lost += whole(t)[clients]*each - transactionsOf(t, (*enginev1.ProgramCounter).GetValue)
		}
	}
	of := func(count int64) int64 {
		if begun == 0 {
			return 0
		}
		product := new(big.Int).Mul(big.NewInt(count), big.NewInt(due))
		return product.Quo(product, big.NewInt(begun)).Int64()
	}
	trial := connections
	trial.Intended, trial.Sent = of(connections.Intended), of(connections.Sent)
	trial.Received = max(trial.Sent-lost, 0)
	counted := search.Trial{Intended: trial.Intended, Sent: trial.Sent, Lost: trial.Sent - trial.Received}
	trial.LossRatio = sequence.Ratio(counted.LossRatio())
	return trial
}

// transactionsOf reads the counter of transactions of a side.
func transactionsOf(t *enginev1.TemplateStats, value func(*enginev1.ProgramCounter) uint64) int64 {
	for _, counter := range t.GetProgramCounters() {
		if counter.GetName() == load.TransactionCounter {
			return int64(value(counter))
		}
	}
	return 0
}

// inIntervals reports whether the rate of the current trial has to be constant: engines then keep their counters at the ends of intervals.
func (s *scope) inIntervals() bool {
	tests, current := s.run.Spec.Search, s.run.Status.Search.Current
	return current.Test == spatev1.TestThroughput && time.Duration(current.Duration) >= 2*shortestInterval && !s.opens() &&
		slices.ContainsFunc(tests.Throughput.Goals, func(g spatev1.SearchGoal) bool { return g.Standard == spatev1.GoalRFC9411 })
}

// intervals are the stages of a trial at one part of the plan's rates.
func intervals(trial *spatev1.TrialInput, factor *enginev1.Ratio) []*enginev1.Stage {
	length := time.Duration(trial.Duration)
	count := min(int64(length/shortestInterval), mostIntervals)
	all := make([]*enginev1.Stage, count)
	for i := range all {
		begin, end := int64(length)*int64(i)/count, int64(length)*int64(i+1)/count
		all[i] = &enginev1.Stage{DurationNs: uint64(end - begin), RateFactor: factor}
	}
	return all
}

// rateDeviation is the greatest deviation from its mean of the rate at which connections or transactions of a trial succeeded, over its intervals but
// the last, with which those are counted that succeeded in the drain. 0 if the rate does not have to be constant.
func (s *scope) rateDeviation(ctx context.Context, stats []*enginev1.WatchStatsResponse) (float64, error) {
	if !s.inIntervals() {
		return 0, nil
	}
	var ends []int64
	for i := range len(intervals(s.run.Status.Search.Current, nil)) - 1 {
		at := make([]*enginev1.WatchStatsResponse, len(stats))
		errs := s.each(ctx, func(pod int, _ *corev1.Pod, c *engine.Client) (err error) {
			at[pod], err = c.StageEnd(ctx, s.run.Status.Resolved.RunID, i+1)
			return err
		})
		if err := errors.Join(errs...); err != nil {
			return 0, fmt.Errorf("the counters of trial %d at the end of interval %d: %w", s.run.Status.Search.Current.Number, i+1, err)
		}
		ends = append(ends, succeeded(at, s.run.Status.Search.Unit))
	}
	return deviationOf(ends, int64(len(stats))), nil
}

// succeeded counts the connections or transactions of the measured phase that have succeeded.
func succeeded(stats []*enginev1.WatchStatsResponse, unit spatev1.LoadUnit) (count int64) {
	for _, st := range present(stats) {
		for _, t := range st.GetTemplates() {
			switch {
			case t.GetSide() != enginev1.Side_SIDE_CLIENT:
			case unit == spatev1.UnitTransactions:
				count += transactionsOf(t, func(c *enginev1.ProgramCounter) uint64 { return c.GetValue() - c.GetWarmup() })
			default:
				count += measured(t)["flows_established"]
			}
		}
	}
	return count
}

// deviationOf is the greatest deviation from the mean of what was counted in intervals, of whose ends the counts are given. A whole number of events
// cannot be divided evenly: one of each engine more or less is none.
func deviationOf(ends []int64, engines int64) (greatest float64) {
	if len(ends) == 0 || ends[len(ends)-1] == 0 {
		return 1 // nothing succeeded
	}
	mean, before := float64(ends[len(ends)-1])/float64(len(ends)), int64(0)
	for _, end := range ends {
		greatest = max(greatest, (math.Abs(float64(end-before)-mean)-float64(engines))/mean)
		before = end
	}
	return greatest
}
