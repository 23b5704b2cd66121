// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: what is the result of a test, and can it be relied on?

// Reason says how a result came about.
type Reason string

// Reasons of results. All but Found and Unstable make a result irregular.
const (
	// Found: both bounds are known and as close as the goal asks for.
	Found Reason = "Found"
	// MaxLoadPasses: the maximum load is no upper bound.
	MaxLoadPasses Reason = "MaxLoadPasses"
	// MinLoadFails: the minimum load is no lower bound.
	MinLoadFails Reason = "MinLoadFails"
	// GeneratorLimited: the upper bound is that of the generator, which did not send all packets; the device may forward more.
	GeneratorLimited Reason = "GeneratorLimited"
	// BudgetExhausted: the bounds are those at the end of the budget.
	BudgetExhausted Reason = "BudgetExhausted"
	// Unstable: the bounds are close enough, and a load that was a bound before is none any more: equal trials had unequal outcomes, or more was
	// lost at a lower load than at a higher one. The bounds are conservative.
	Unstable Reason = "Unstable"
	// ConfirmFailed: the trial that was to confirm the lower bound lost too much.
	ConfirmFailed Reason = "ConfirmFailed"
	// NothingLost: nothing was lost in a trial in which the device was to be reset.
	NothingLost Reason = "NothingLost"
	// TooEarly: nothing arrived at the beginning of such a trial: the device was reset before it was measured.
	TooEarly Reason = "TooEarly"
	// NotRecovered: nothing of a stream arrived at the end of such a trial.
	NotRecovered Reason = "NotRecovered"
)

// Result of a test.
type Result struct {
	// Reason is the first of the test's reasons that is not Found, or else Found.
	Reason Reason
	// Trials is the number of trials, with the invalid ones.
	Trials int
	// Time of all trials in seconds, as the budget counts it.
	Time float64
	// Goals of a throughput test, in the order of the parameters.
	Goals []GoalResult
	// Latency by percentage of a throughput.
	Latency []LatencyResult
	// Recovery from an overload; nil without such a trial.
	Recovery *RecoveryResult
	// Reset of the device; nil without such a trial.
	Reset *ResetResult
	// FrameLoss by percentage of the maximum load, descending.
	FrameLoss []FrameLossResult
	// BackToBack is nil in other tests.
	BackToBack *BackToBackResult
}

// GoalResult is the result of one goal. Loads are of an interface, in pps, and 0 where there is none.
type GoalResult struct {
	Name string
	// Lower is the relevant lower bound, Upper the relevant upper bound.
	Lower, Upper float64
	// Throughput is the conditional throughput at Lower.
	Throughput float64
	// Regular: both bounds exist and are as close as the goal asks for (RFC 9971 section 4.8), no bound is the generator's, and no confirmation failed.
	Regular bool
	Reason  Reason
	// Confirmed: the trial that was to confirm Lower lost no more than allowed.
	Confirmed bool
}

// findings are what a throughput method knows of a goal beside the bounds.
type findings struct{ reached, generatorLimited, unstable bool }

// conclude sets the reason of a goal.
func (g *GoalResult) conclude(f findings) {
	switch {
	case !f.reached:
		g.Reason = BudgetExhausted
	case f.generatorLimited:
		g.Reason = GeneratorLimited
	case g.Upper == 0:
		g.Reason = MaxLoadPasses
	case g.Lower == 0:
		g.Reason = MinLoadFails
	case f.unstable:
		g.Reason = Unstable
	default:
		g.Reason = Found
	}
	g.Regular = g.Reason == Found || g.Reason == Unstable
}

// reasonOf returns the first reason that is not Found.
func reasonOf[R any](results []R, reason func(R) Reason) Reason {
	for _, result := range results {
		if r := reason(result); r != Found {
			return r
		}
	}
	return Found
}

func goalsResult(goals []GoalResult) Result {
	return Result{Goals: goals, Reason: reasonOf(goals, func(g GoalResult) Reason { return g.Reason })}
}
