// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: what have the runs of a variant found?

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/search/repeats"
)

// withFound adds what the runs of a variant have found; nothing if it has none.
func withFound(variants []spatev1.SearchVariant, name string, runs []*spatev1.TrafficRun, of int) []spatev1.SearchVariant {
	if len(runs) == 0 {
		return variants
	}
	return append(variants, found(name, runs, of))
}

// found is what the runs of a variant have found: one, or several repeats.
func found(name string, runs []*spatev1.TrafficRun, of int) spatev1.SearchVariant {
	latest := runs[len(runs)-1]
	v := spatev1.SearchVariant{Name: name, Run: latest.Name, Phase: latest.Status.Phase, Message: messageOf(latest)}
	for _, run := range runs {
		if s := run.Status.Search; s != nil {
			v.MaxLoad, v.Unit, v.Trials, v.Spent = s.MaxLoad, s.Unit, v.Trials+int32(len(s.Trials)), v.Spent+s.Spent
		}
	}
	if s := latest.Status.Search; s != nil {
		v.Result = s.Result
	}
	if latest.Status.Verdict != nil {
		v.Outcome = worst(runs)
	}
	if of > 1 {
		repeated(&v, runs)
	}
	v.Message = kstatus.Shortened(v.Message, longestMessage)
	return v
}

func messageOf(run *spatev1.TrafficRun) string {
	if passed := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionPassed); passed != nil {
		return passed.Message
	}
	return ""
}

// worst returns the worst outcome of runs that have ended.
func worst(runs []*spatev1.TrafficRun) spatev1.VerdictOutcome {
	order := []spatev1.VerdictOutcome{spatev1.VerdictPassed, spatev1.VerdictFailed, spatev1.VerdictInvalid}
	least := 0
	for _, run := range runs {
		least = max(least, slices.Index(order, run.Status.Verdict.Outcome))
	}
	return order[least]
}

// repeated sets the repeats that have ended, their spread and the median of what they found. A repeat that could not be done has no part in these.
func repeated(v *spatev1.SearchVariant, runs []*spatev1.TrafficRun) {
	var results []spatev1.SearchResult
	var messages []string
	for _, run := range runs {
		if run.Status.Verdict == nil {
			continue
		}
		repeat := spatev1.SearchRepeat{Run: run.Name, Outcome: run.Status.Verdict.Outcome}
		if repeat.Outcome != spatev1.VerdictPassed {
			messages = append(messages, run.Name+": "+messageOf(run))
		}
		if s := run.Status.Search; s != nil && repeat.Outcome != spatev1.VerdictInvalid {
			results = append(results, s.Result)
			for _, g := range s.Result.Goals {
				repeat.Goals = append(repeat.Goals, spatev1.RepeatedGoal{
					Name: g.Name, Reason: g.Reason, Regular: g.Regular, Lower: g.Lower, Upper: g.Upper, Throughput: g.Throughput,
				})
			}
		}
		v.Repeats = append(v.Repeats, repeat)
	}
	if len(results) == 0 {
		return // the result is that of the current run so far
	}
	v.Result = repeats.Result(results)
	for _, goal := range v.Result.Goals {
		spread := repeats.Spread(goal.Name, repeats.Lower(v.Repeats, goal.Name))
		v.Spread = append(v.Spread, spread)
		messages = append(messages, fmt.Sprintf("%s median %s of %d repeats, %s to %s", goal.Name, spread.Median, spread.Count, spread.Min, spread.Max))
	}
	v.Message = strings.Join(messages, "; ")
}
