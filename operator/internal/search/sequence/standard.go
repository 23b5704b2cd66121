// SPDX-License-Identifier: Apache-2.0

package sequence

// This file answers: what does a goal require of a trial beside little loss?

import (
	"fmt"

	spatev1 "spate.dev/api/v1alpha1"
)

// Requirement of a goal: an expression on a trial, or a constant rate.
type Requirement struct {
	// Text is the expression, or says what is required.
	Text string
	// ConstantRate: the rate at which connections or transactions succeed deviates from its mean by less than MaxRateDeviation.
	ConstantRate bool
}

// MaxRateDeviation is below which deviation a rate is constant (RFC 9411 section 7.2.3).
const MaxRateDeviation = 0.05

// ofRFC9411 are the criteria of RFC 9411 section 7.2.3 that are more than a loss ratio.
var ofRFC9411 = []Requirement{
	{Text: "trial.flows.reset * 100000 < trial.flows.attempted"},
	{Text: fmt.Sprintf("the rate is constant within %v%%", 100*MaxRateDeviation), ConstantRate: true},
}

// Requirements of a goal: its own, then those of its standard. A record has their indices.
func Requirements(goal *spatev1.SearchGoal) []Requirement {
	all := make([]Requirement, len(goal.Require))
	for i, expression := range goal.Require {
		all[i].Text = expression
	}
	if goal.Standard == spatev1.GoalRFC9411 {
		all = append(all, ofRFC9411...)
	}
	return all
}
