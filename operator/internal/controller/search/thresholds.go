// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: do the thresholds of a search hold?

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	method "spate.dev/operator/internal/search"
	"spate.dev/operator/internal/verdict"
)

// longestThreshold bounds the message of a threshold, which has the values that it read.
const longestThreshold = 2 << 10

// judge evaluates the thresholds on what all variants have found, and returns the outcome with its reason and message.
func judge(search *spatev1.TrafficSearch) (outcome spatev1.VerdictOutcome, reason, message string) {
	found := forThresholds(search.Status.Variants)
	outcome, reason = spatev1.VerdictPassed, spatev1.ReasonThresholdsMet
	var messages []string
	search.Status.Thresholds = nil
	for _, t := range search.Spec.Thresholds {
		judged, failed := evaluate(&t, found)
		search.Status.Thresholds = append(search.Status.Thresholds, judged)
		if judged.Met {
			continue
		}
		text := fmt.Sprintf("threshold %s: %s", t.Name, judged.Message)
		if t.Message != "" {
			text = t.Message + " (" + text + ")"
		}
		messages = append(messages, text)
		if outcome == spatev1.VerdictPassed {
			if outcome, reason = spatev1.VerdictFailed, spatev1.ReasonThresholdMissed; failed {
				reason = spatev1.ReasonThresholdError
			}
		}
	}
	if outcome == spatev1.VerdictPassed {
		messages = []string{fmt.Sprintf("%d thresholds hold", len(search.Spec.Thresholds))}
	}
	return outcome, reason, strings.Join(messages, "; ")
}

// evaluate evaluates a threshold. failed is true if it could not be.
func evaluate(t *spatev1.SearchThreshold, found verdict.Search) (result spatev1.ThresholdResult, failed bool) {
	result.Name = string(t.Name)
	compiled, err := verdict.CompileSearch(t.Expression)
	if err != nil { // the check before the first run rejects these
		result.Message = fmt.Sprintf("%s: %v", t.Expression, err)
		return result, true
	}
	outcome := compiled.Evaluate(found)
	result.Met, result.Message = outcome.Passed, kstatus.Shortened(outcome.Message, longestThreshold)
	return result, outcome.Failed
}

// forThresholds returns what a search has found as expressions read it.
func forThresholds(variants []spatev1.SearchVariant) verdict.Search {
	all := verdict.Search{Variants: map[string]verdict.Variant{}}
	for i := range variants {
		v := &variants[i]
		found := verdict.Variant{Goals: map[string]verdict.Goal{}, Latency: map[string]verdict.LatencyRow{}, MaxLoad: number(v.MaxLoad)}
		for _, g := range v.Result.Goals {
			found.Goals[string(g.Name)] = goalForThresholds(&g, v.Spread)
		}
		for _, l := range v.Result.Latency {
			found.Latency[strconv.Itoa(int(l.Percent))] = verdict.LatencyRow{
				Load: number(l.Load), Mean: time.Duration(l.Mean), Typical: time.Duration(l.Typical), WorstCase: time.Duration(l.WorstCase), DelayVariation: time.Duration(l.DelayVariation),
			}
		}
		for _, f := range v.Result.FrameLoss {
			found.FrameLoss = append(found.FrameLoss, verdict.FrameLossRow{Percent: number(f.Percent), Load: number(f.Load), LossRatio: number(f.LossRatio)})
		}
		if b := v.Result.BackToBack; b != nil {
			found.BackToBack = verdict.Burst(number(b.Frames), time.Duration(b.BufferTime), time.Duration(b.CorrectedBufferTime))
		}
		if r := v.Result.Recovery; r != nil {
			found.Recovery = verdict.Recovered(time.Duration(r.Mean), time.Duration(r.Greatest))
		}
		if r := v.Result.Reset; r != nil && r.Reason == string(method.Found) { // else the times are not those of a reset
			found.Reset = verdict.WasReset(time.Duration(r.Mean), time.Duration(r.Greatest), time.Duration(r.ByLoss))
		}
		all.Variants[v.Name] = found
	}
	return all
}

func goalForThresholds(g *spatev1.GoalResult, spreads []spatev1.GoalSpread) verdict.Goal {
	goal := verdict.Goal{
		Lower: number(g.Lower), Upper: math.Inf(1), Throughput: number(g.Throughput), LossRatio: 1, Regular: g.Regular, Confirmed: g.Confirmed, Reason: g.Reason,
		Min: number(g.Lower), Max: number(g.Lower),
	}
	if g.Upper != "" {
		goal.Upper = number(g.Upper)
	}
	if goal.Lower > 0 {
		goal.LossRatio = 1 - goal.Throughput/goal.Lower
	}
	for _, spread := range spreads {
		if spread.Name == g.Name {
			goal.Min, goal.Max, goal.Deviation = number(spread.Min), number(spread.Max), number(spread.Deviation)
		}
	}
	return goal
}

// number reads a load or ratio; 0 if it is absent.
func number(text string) float64 {
	value, _ := strconv.ParseFloat(text, 64)
	return value
}
