// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how many transactions of a trial succeeded, and was their rate constant (RFC 9411 section 7.2.3)?

import (
	"context"
	"math"
	"math/big"
	"slices"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/load"
)

// fewestExamined is the least number of intervals for the rate of a trial to be examined.
const fewestExamined = 4

// countTransactions converts what a trial came to from connections to transactions, of which each connection of a template has a number.
// Transactions of the ramp-up are not counted, but the failed ones among them are: a connection may fail after it.
func countTransactions(connections spatev1.TrialRecord, stats []*enginev1.WatchStatsResponse, perConnection map[string]int64) spatev1.TrialRecord {
	started, due, lost := int64(0), int64(0), int64(0)
	for _, st := range present(stats) {
		for _, t := range st.GetTemplates() {
			each, clients := perConnection[t.GetTemplate()], attempted[enginev1.Side_SIDE_CLIENT]
			if t.GetSide() != enginev1.Side_SIDE_CLIENT {
				continue
			}
			started += measured(t)[clients]
			due += measured(t)[clients] * each
			lost += whole(t)[clients]*each - transactionsOf(t, (*enginev1.ProgramCounter).GetValue)
		}
	}
	of := func(count int64) int64 {
		if started == 0 {
			return 0
		}
		product := new(big.Int).Mul(big.NewInt(count), big.NewInt(due))
		return product.Quo(product, big.NewInt(started)).Int64()
	}
	trial := connections
	trial.Intended, trial.Sent = of(connections.Intended), of(connections.Sent)
	trial.Received = max(trial.Sent-lost, 0)
	return withLossRatio(trial)
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

// rateIsExamined reports whether the rate of the current trial has to be constant.
func (s *scope) rateIsExamined() bool {
	tests, current := s.run.Spec.Search, s.run.Status.Search.Current
	return current.Test == spatev1.TestThroughput && time.Duration(current.Duration) >= fewestExamined*shortestInterval && !s.opens() &&
		slices.ContainsFunc(tests.Throughput.Goals, func(g spatev1.SearchGoal) bool { return g.Standard == spatev1.GoalRFC9411 })
}

// rateDeviation is the greatest deviation from its mean of the rate at which connections or transactions of a trial succeeded, over its intervals but
// the first, which begins with the ramp-up's last connections, and the last, with which those are counted that succeeded in the drain. 0 if the rate
// does not have to be constant. Its errors are those of intervalEnd.
func (s *scope) rateDeviation(ctx context.Context) (float64, error) {
	if !s.rateIsExamined() {
		return 0, nil
	}
	var ends [][]reading
	for i := range len(intervals(s.run.Status.Search.Current, nil)) - 1 {
		at, err := s.intervalEnd(ctx, i+1)
		if err != nil {
			return 0, err
		}
		ends = append(ends, readingsOf(at, s.run.Status.Search.Unit))
	}
	return deviationOf(ends), nil
}

// reading is what an engine had counted at an instant.
type reading struct {
	count int64
	at    time.Duration
}

// readingsOf are those of all engines: the connections or transactions of the measured phase that had succeeded.
func readingsOf(stats []*enginev1.WatchStatsResponse, unit spatev1.LoadUnit) (all []reading) {
	for _, st := range present(stats) {
		all = append(all, reading{succeeded(st, unit), time.Duration(st.GetReadAtNs())})
	}
	return all
}

// deviationOf is the greatest deviation from the mean of the rate between readings. A whole number of events cannot be divided evenly: one of each
// engine more or less is none.
func deviationOf(ends [][]reading) (greatest float64) {
	if len(ends) < 2 {
		return 1
	}
	mean, _ := rateBetween(ends[0], ends[len(ends)-1])
	if mean <= 0 {
		return 1 // nothing succeeded
	}
	for i := range len(ends) - 1 {
		rate, one := rateBetween(ends[i], ends[i+1])
		greatest = max(greatest, (math.Abs(rate-mean)-one)/mean)
	}
	return greatest
}

// rateBetween is the rate of all engines between two readings of each, and by how much one event more of each changes it. Engines may read slightly
// later than they are to: rates are by when they did.
func rateBetween(begin, end []reading) (rate, one float64) {
	for i := range min(len(begin), len(end)) {
		if length := (end[i].at - begin[i].at).Seconds(); length > 0 {
			rate += float64(end[i].count-begin[i].count) / length
			one += 1 / length
		}
	}
	return rate, one
}

// succeeded counts the connections or transactions of the measured phase that have succeeded on an engine.
func succeeded(stats *enginev1.WatchStatsResponse, unit spatev1.LoadUnit) (count int64) {
	for _, t := range stats.GetTemplates() {
		switch {
		case t.GetSide() != enginev1.Side_SIDE_CLIENT:
		case unit == spatev1.UnitTransactions:
			count += transactionsOf(t, func(c *enginev1.ProgramCounter) uint64 { return c.GetValue() - c.GetWarmup() })
		default:
			count += measured(t)["flows_established"]
		}
	}
	return count
}
