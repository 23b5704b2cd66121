// SPDX-License-Identifier: Apache-2.0

package sequence

// This file answers: which requirement of a goal bounded it, where loss did not?

import (
	"math"
	"strconv"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/search"
)

// boundedBy returns the requirement that trials did not meet at the upper bound of a goal, or in the trial that was to confirm the lower one, if
// none of these trials lost more than the goal allows; else an empty text.
func boundedBy(goal *spatev1.SearchGoal, found search.GoalResult, own []spatev1.TrialRecord) string {
	at, allowed := found.Upper, goalOf(*goal).LossRatio
	if found.Reason == search.ConfirmFailed {
		at = found.Lower
	}
	first, requirements := -1, Requirements(goal)
	for i := range own {
		record := &own[i]
		if record.Invalid != "" || !isAt(record, at) {
			continue
		}
		for _, unmet := range record.Unmet {
			if unmet.Goal == goal.Name && int(unmet.Index) < len(requirements) && first < 0 {
				first = int(unmet.Index)
			}
		}
		if loss, err := strconv.ParseFloat(record.LossRatio, 64); err != nil || loss > allowed {
			return ""
		}
	}
	if first < 0 {
		return ""
	}
	return requirements[first].Text
}

// isAt reports whether a trial was done at a load, which its record may have rounded.
func isAt(record *spatev1.TrialRecord, load float64) bool {
	own, err := strconv.ParseFloat(record.Load, 64)
	return err == nil && math.Abs(own-load) <= 1e-9*load
}
