// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: where does plain bisection of the load end?

import (
	"errors"
	"math"

	"spate.dev/operator/internal/search/mlr"
)

// NewBisection returns the binary search that RFC 2544 section 26.1 leads to: from the maximum load on, each trial is in the middle of the interval.
// A goal with an exceed ratio of 0 takes one trial a load; one with 0.5 and a duration sum of two trials repeats a trial that lost too much, once
// (ETSI GS NFV-TST 009, binary search with loss verification, max(r) = 2). Other goals are refused. The goals are reached one after another.
func NewBisection(t Throughput) (Method, error) {
	_, err := mlr.New(t.Min, t.Max, t.Goals)
	errs := []error{err, t.check()}
	goals := make([]bisected, len(t.Goals))
	for i, goal := range t.Goals {
		trials, err := trialsPerLoad(goal)
		errs = append(errs, err, checkSplits(t, goal))
		goals[i] = bisected{goal, trials}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return t.method(func() progress { return &bisection{min: t.Min, max: t.Max, goals: goals, trials: map[place][]Trial{}} }), nil
}

// trialsPerLoad is how many high-loss trials make an upper bound.
func trialsPerLoad(goal Goal) (int, error) {
	switch {
	case goal.ExceedRatio == 0 && goal.DurationSum == goal.FinalTrialDuration:
		return 1, nil
	case goal.ExceedRatio == 0.5 && goal.DurationSum == 2*goal.FinalTrialDuration:
		return 2, nil
	}
	return 0, refused("goals["+goal.Name+"].exceedRatio", "Bisection takes exceedRatio 0 with durationSum = finalTrialDuration (RFC 2544), or 0.5 with twice "+
		"finalTrialDuration (TST 009); set one of these, or method MLRsearch")
}

// maxSplits is how often an interval can be halved with exact bounds.
const maxSplits = 60

func checkSplits(t Throughput, goal Goal) error {
	if splits := math.Log2((t.Max - t.Min) / t.Min / goal.Width); splits > maxSplits-1 {
		return refused("load.max", "%v per second is too far above load.min, %v per second, for width %v of goal %s; raise load.min", t.Max, t.Min, goal.Width, goal.Name)
	}
	return nil
}

// dyadic is a fraction of the range of loads: part / 2^splits, in lowest terms.
type dyadic struct {
	part   int64
	splits int
}

var bottom, top = dyadic{0, 0}, dyadic{1, 0}

func (d dyadic) over(splits int) int64 { return d.part << (splits - d.splits) }

// middle of two fractions.
func middle(low, high dyadic) dyadic {
	splits := max(low.splits, high.splits)
	mid := dyadic{low.over(splits) + high.over(splits), splits + 1}
	for mid.splits > 0 && mid.part%2 == 0 {
		mid.part, mid.splits = mid.part/2, mid.splits-1
	}
	return mid
}

// place is where trials are comparable.
type place struct {
	at       dyadic
	duration float64
}

// bisected is a goal with the number of high-loss trials that make an upper bound.
type bisected struct {
	Goal
	attempts int
}

// bisection is a search under way. Its trials are the only state: each goal walks through them from the maximum load on.
type bisection struct {
	min, max float64
	goals    []bisected
	trials   map[place][]Trial
}

func (b *bisection) load(at dyadic) float64 {
	switch at {
	case bottom:
		return b.min
	case top:
		return b.max
	}
	return b.min + (b.max-b.min)*(float64(at.part)/math.Exp2(float64(at.splits)))
}

// decision of the trials at a load.
type decision int

const (
	undecided decision = iota
	passed
	failed
)

// decide returns what a goal's trials at a load say. Without the trials that failed by the generator alone, some loads are undecided.
func (b *bisection) decide(goal bisected, at dyadic, withGenerator bool) decision {
	high := 0
	for _, trial := range b.trials[place{at, goal.FinalTrialDuration}] {
		if trial.LossRatio() <= goal.LossRatio && !trial.fails(goal.Name) {
			return passed
		}
		if withGenerator || trial.fails(goal.Name) || !trial.generatorLimited(goal.LossRatio) {
			high++
		}
	}
	if high >= goal.attempts {
		return failed
	}
	return undecided
}

// walk is how far a goal came. lower and upper are nil where no trial decided.
type walk struct {
	lower, upper *dyadic
	want         dyadic
	reached      bool
}

func (b *bisection) walk(goal bisected) walk {
	switch b.decide(goal, top, true) {
	case undecided:
		return walk{want: top}
	case passed:
		return walk{lower: &top, reached: true}
	}
	low, high := bottom, top
	now := walk{upper: &high}
	for (b.load(high)-b.load(low))/b.load(high) > goal.Width {
		mid := middle(low, high)
		switch b.decide(goal, mid, true) {
		case undecided:
			now.want = mid
			return now
		case passed:
			low, now.lower = mid, &low
		case failed:
			high = mid
		}
	}
	if low == bottom { // the interval ends at the minimum load, and no trial says that it passes
		switch b.decide(goal, bottom, true) {
		case undecided:
			now.want = bottom
			return now
		case passed:
			now.lower = &low
		case failed:
			high = bottom
		}
	}
	now.reached = true
	return now
}

func (b *bisection) next() (Input, bool) {
	_, input, more := b.current()
	return input, more
}

// current returns where the next trial is.
func (b *bisection) current() (place, Input, bool) {
	for _, goal := range b.goals {
		if now := b.walk(goal); !now.reached {
			return place{now.want, goal.FinalTrialDuration}, Input{Load: b.load(now.want), Duration: goal.FinalTrialDuration}, true
		}
	}
	return place{}, Input{}, false
}

func (b *bisection) add(t Trial) {
	if at, _, more := b.current(); more {
		b.trials[at] = append(b.trials[at], t)
	}
}

func (b *bisection) result(bool) Result {
	results := make([]GoalResult, len(b.goals))
	for i, goal := range b.goals {
		results[i] = b.goalResult(goal)
	}
	return goalsResult(results)
}

func (b *bisection) goalResult(goal bisected) GoalResult {
	now := b.walk(goal)
	result := GoalResult{Name: goal.Name}
	if now.lower != nil {
		result.Lower = b.load(*now.lower)
		result.Throughput = result.Lower * (1 - b.passingLoss(goal, *now.lower))
	}
	f := findings{reached: now.reached}
	if now.upper != nil {
		result.Upper = b.load(*now.upper)
		f.generatorLimited = b.decide(goal, *now.upper, false) != failed
	}
	result.conclude(f)
	return result
}

// passingLoss is the loss ratio of the trial that made a load a lower bound.
func (b *bisection) passingLoss(goal bisected, at dyadic) float64 {
	for _, trial := range b.trials[place{at, goal.FinalTrialDuration}] {
		if trial.LossRatio() <= goal.LossRatio && !trial.fails(goal.Name) {
			return trial.LossRatio()
		}
	}
	return 1
}
