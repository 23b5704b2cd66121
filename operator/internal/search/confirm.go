// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: does a longer trial confirm a lower bound?

// Confirm is a last trial at each lower bound that was found.
type Confirm struct {
	// Duration of the trial in seconds.
	Duration float64
	// LossRatio is the greatest loss ratio that confirms.
	LossRatio float64
}

// confirmation is a search that ends with such trials, one for each load.
type confirmation struct {
	search  progress
	confirm Confirm
	trials  []Trial
}

func (c *confirmation) next() (Input, bool) {
	if want, more := c.search.next(); more {
		return want, true
	}
	for _, goal := range c.search.result(false).Goals {
		if goal.Lower > 0 && c.at(goal.Lower) == nil {
			return Input{Load: goal.Lower, Duration: c.confirm.Duration}, true
		}
	}
	return Input{}, false
}

func (c *confirmation) add(t Trial) {
	if _, more := c.search.next(); more {
		c.search.add(t)
		return
	}
	c.trials = append(c.trials, t)
}

// at returns the trial that confirms a load, nil if there is none yet.
func (c *confirmation) at(load float64) *Trial {
	for i := range c.trials {
		if c.trials[i].Load == load {
			return &c.trials[i]
		}
	}
	return nil
}

func (c *confirmation) result(cut bool) Result {
	result := c.search.result(cut)
	for i := range result.Goals {
		if goal := &result.Goals[i]; goal.Lower > 0 {
			c.conclude(goal)
		}
	}
	return goalsResult(result.Goals)
}

func (c *confirmation) conclude(goal *GoalResult) {
	trial := c.at(goal.Lower)
	switch {
	case trial == nil:
		goal.Reason = BudgetExhausted
	case trial.fails(goal.Name):
		goal.Reason = ConfirmFailed
	case trial.LossRatio() <= c.confirm.LossRatio:
		goal.Confirmed = true
		return
	case trial.generatorLimited(c.confirm.LossRatio):
		goal.Reason = GeneratorLimited
	default:
		goal.Reason = ConfirmFailed
	}
	goal.Regular = false
}
