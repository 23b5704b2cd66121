// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: which requirements of a search's goals does a trial not meet?

import (
	"fmt"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/search/sequence"
	"spate.dev/operator/internal/verdict"
)

// longestValues bounds the values in a trial's record: a status has up to 500 records.
const longestValues = 128

// unmet returns the first requirement of each goal that a trial does not meet, and the values that the first of them read. An expression that
// cannot be evaluated is not met: a trial of which nothing arrived has no latency. deviation is that of the trial's rate (rateDeviation).
func unmet(tests *spatev1.SearchTests, result *spatev1.RunResult, deviation float64) (all []spatev1.UnmetRequirement, values string) {
	if tests.Throughput == nil {
		return nil, ""
	}
	var trial *verdict.Result
	for _, goal := range tests.Throughput.Goals {
		for i, requirement := range sequence.Requirements(&goal) {
			if trial == nil {
				whole := forThresholds(*result)
				trial = &whole
			}
			why, met := fmt.Sprintf("the rate deviates by %.1f%%", 100*deviation), deviation < sequence.MaxRateDeviation
			if !requirement.ConstantRate {
				why, met = meets(requirement.Text, trial)
			}
			if met {
				continue
			}
			if all = append(all, spatev1.UnmetRequirement{Goal: goal.Name, Index: int32(i)}); values == "" {
				values = kstatus.Shortened(why, longestValues-len("..."))
			}
			break
		}
	}
	return all, values
}

// meets evaluates an expression, and returns the values that it read, or why it could not be evaluated.
func meets(expression string, trial *verdict.Result) (values string, met bool) {
	compiled, err := verdict.CompileTrial(expression)
	if err != nil { // the check at the run's admission rejects these
		return err.Error(), false
	}
	outcome := compiled.Evaluate(*trial)
	if outcome.Failed {
		return "cannot be evaluated", false
	}
	return outcome.Values, outcome.Passed
}

// latencyReaders are the thresholds of a run, and the requirements of its search, to find out which of them read a stream's latency.
func latencyReaders(run *spatev1.TrafficRun) readers {
	all := readersOf(run.Status.Resolved.Thresholds)
	if search := run.Spec.Search; search != nil && search.Throughput != nil {
		for _, goal := range search.Throughput.Goals {
			for _, expression := range goal.Require {
				if compiled, err := verdict.CompileTrial(expression); err == nil {
					all = append(all, compiled)
				}
			}
		}
	}
	return all
}
