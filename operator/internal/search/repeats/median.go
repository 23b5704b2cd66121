// SPDX-License-Identifier: Apache-2.0

package repeats

// This file answers: what is the median of the results of several searches?

import (
	"math"
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/sequence"
)

// Result returns the median of results, each number by itself. A goal is regular if it is in all of them, and its reason the first that is not
// Found. Rows of latency and of frame loss are those that all results have.
func Result(all []spatev1.SearchResult) spatev1.SearchResult {
	if len(all) < 2 {
		return slices.Concat(all, []spatev1.SearchResult{{}})[0]
	}
	median := spatev1.SearchResult{Reason: string(search.Found)}
	for _, goal := range all[0].Goals {
		if found, complete := collect(all, func(r spatev1.SearchResult) []spatev1.GoalResult { return r.Goals }, func(g spatev1.GoalResult) bool { return g.Name == goal.Name }); complete {
			median.Goals = append(median.Goals, medianGoal(found))
		}
	}
	for _, row := range all[0].Latency {
		if found, complete := collect(all, func(r spatev1.SearchResult) []spatev1.LatencyResult { return r.Latency }, func(l spatev1.LatencyResult) bool { return l.Percent == row.Percent }); complete {
			median.Latency = append(median.Latency, medianLatency(found))
		}
	}
	for _, row := range all[0].FrameLoss {
		if found, complete := collect(all, func(r spatev1.SearchResult) []spatev1.FrameLossResult { return r.FrameLoss }, func(f spatev1.FrameLossResult) bool { return f.Percent == row.Percent }); complete {
			median.FrameLoss = append(median.FrameLoss, spatev1.FrameLossResult{
				Percent: row.Percent, Load: row.Load, LossRatio: sequence.Ratio(of(found, func(f spatev1.FrameLossResult) float64 { return number(f.LossRatio) })),
			})
		}
	}
	if !slices.ContainsFunc(all, func(r spatev1.SearchResult) bool { return r.BackToBack == nil }) {
		median.BackToBack = medianBurst(all)
	}
	if found, complete := collect(all, optional(func(r spatev1.SearchResult) *spatev1.RecoveryResult { return r.Recovery }), func(spatev1.RecoveryResult) bool { return true }); complete {
		median.Recovery = &spatev1.RecoveryResult{
			Load:     sequence.Text(of(found, func(r spatev1.RecoveryResult) float64 { return number(r.Load) })),
			Mean:     ofTimes(found, func(r spatev1.RecoveryResult) spatev1.MeasuredTime { return r.Mean }),
			Greatest: ofTimes(found, func(r spatev1.RecoveryResult) spatev1.MeasuredTime { return r.Greatest }),
		}
	}
	if found, complete := collect(all, optional(func(r spatev1.SearchResult) *spatev1.ResetResult { return r.Reset }), func(spatev1.ResetResult) bool { return true }); complete {
		median.Reset = &spatev1.ResetResult{
			Load:     sequence.Text(of(found, func(r spatev1.ResetResult) float64 { return number(r.Load) })),
			Mean:     ofTimes(found, func(r spatev1.ResetResult) spatev1.MeasuredTime { return r.Mean }),
			Greatest: ofTimes(found, func(r spatev1.ResetResult) spatev1.MeasuredTime { return r.Greatest }),
			ByLoss:   ofTimes(found, func(r spatev1.ResetResult) spatev1.MeasuredTime { return r.ByLoss }),
			Reason:   string(search.Found),
		}
		if irregular := slices.IndexFunc(found, func(r spatev1.ResetResult) bool { return r.Reason != string(search.Found) }); irregular >= 0 {
			median.Reset.Reason = found[irregular].Reason
		}
	}
	for _, result := range all {
		if median.Reason == string(search.Found) && result.Reason != "" {
			median.Reason = result.Reason
		}
	}
	return median
}

// optional returns the rows of a result that has one or none.
func optional[R any](of func(spatev1.SearchResult) *R) func(spatev1.SearchResult) []R {
	return func(r spatev1.SearchResult) []R {
		if found := of(r); found != nil {
			return []R{*found}
		}
		return nil
	}
}

// collect returns the row of each result that is the same one; complete is false if one has none.
func collect[R any](all []spatev1.SearchResult, rows func(spatev1.SearchResult) []R, same func(R) bool) (found []R, complete bool) {
	for _, result := range all {
		if at := slices.IndexFunc(rows(result), same); at >= 0 {
			found = append(found, rows(result)[at])
		}
	}
	return found, len(found) == len(all)
}

// of returns the median of a number of each row.
func of[R any](rows []R, number func(R) float64) float64 {
	values := make([]float64, len(rows))
	for i, row := range rows {
		values[i] = number(row)
	}
	return Median(values)
}

// ofTimes returns the median of a time of each row.
func ofTimes[R any](rows []R, time func(R) spatev1.MeasuredTime) spatev1.MeasuredTime {
	return spatev1.MeasuredTime(math.Round(of(rows, func(r R) float64 { return float64(time(r)) })))
}

func medianGoal(all []spatev1.GoalResult) spatev1.GoalResult {
	goal := spatev1.GoalResult{Name: all[0].Name, Reason: string(search.Found), Regular: true, Confirmed: true}
	for _, found := range all {
		goal.Regular, goal.Confirmed = goal.Regular && found.Regular, goal.Confirmed && found.Confirmed
		if goal.Reason == string(search.Found) || goal.Reason == string(search.Unstable) && !found.Regular {
			goal.Reason = found.Reason
		}
		if goal.BoundedBy == "" {
			goal.BoundedBy = found.BoundedBy
		}
	}
	goal.Lower = sequence.Text(of(all, func(g spatev1.GoalResult) float64 { return number(g.Lower) }))
	goal.Throughput = sequence.Text(of(all, func(g spatev1.GoalResult) float64 { return number(g.Throughput) }))
	upper := of(all, func(g spatev1.GoalResult) float64 {
		if g.Upper == "" {
			return math.Inf(1)
		}
		return number(g.Upper)
	})
	if !math.IsInf(upper, 1) {
		goal.Upper = sequence.Text(upper)
	}
	return goal
}

func medianLatency(all []spatev1.LatencyResult) spatev1.LatencyResult {
	return spatev1.LatencyResult{
		Percent:        all[0].Percent,
		Load:           sequence.Text(of(all, func(l spatev1.LatencyResult) float64 { return number(l.Load) })),
		Mean:           ofTimes(all, func(l spatev1.LatencyResult) spatev1.MeasuredTime { return l.Mean }),
		Typical:        ofTimes(all, func(l spatev1.LatencyResult) spatev1.MeasuredTime { return l.Typical }),
		WorstCase:      ofTimes(all, func(l spatev1.LatencyResult) spatev1.MeasuredTime { return l.WorstCase }),
		DelayVariation: ofTimes(all, func(l spatev1.LatencyResult) spatev1.MeasuredTime { return l.DelayVariation }),
	}
}

func medianBurst(all []spatev1.SearchResult) *spatev1.BackToBackResult {
	return &spatev1.BackToBackResult{
		Frames:              sequence.Frames(of(all, func(r spatev1.SearchResult) float64 { return number(r.BackToBack.Frames) })),
		BufferTime:          ofTimes(all, func(r spatev1.SearchResult) spatev1.MeasuredTime { return r.BackToBack.BufferTime }),
		CorrectedBufferTime: ofTimes(all, func(r spatev1.SearchResult) spatev1.MeasuredTime { return r.BackToBack.CorrectedBufferTime }),
	}
}
