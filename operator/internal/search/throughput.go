// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: between which loads is a search, and which values of it are refused?

import (
	"errors"
	"fmt"
	"math"

	"spate.dev/operator/internal/search/mlr"
)

// Goal is a search goal.
type Goal = mlr.Goal

// FieldError is a value that is refused.
type FieldError = mlr.FieldError

// Throughput is a search for the loads that meet goals.
type Throughput struct {
	// Min and Max are the loads of an interface between which is searched, in pps.
	Min, Max float64
	Goals    []Goal
	// Warmup is the duration of a first trial at the maximum load that does not count, in seconds. 0: none.
	Warmup float64
	// Confirm is the last trial at each lower bound. nil: none.
	Confirm *Confirm
	Options
}

// NewMLRsearch returns the search of RFC 9971. An error joins a FieldError for each value that is refused.
func NewMLRsearch(t Throughput) (Method, error) {
	multiple, err := mlr.New(t.Min, t.Max, t.Goals)
	if err = errors.Join(err, t.check()); err != nil {
		return nil, err
	}
	return t.method(func() progress { return &mlrProgress{goals: t.Goals, run: multiple.Start()} }), nil
}

// method adds the warm-up trial and the confirmation to a search.
func (t Throughput) method(search func() progress) Method {
	return replayed{t.Options, func() progress {
		now := search()
		if t.Confirm != nil {
			now = &confirmation{search: now, confirm: *t.Confirm}
		}
		if t.Warmup > 0 {
			now = &warmup{progress: now, input: Input{Load: t.Max, Duration: t.Warmup}}
		}
		return now
	}}
}

// check returns what is wrong beside the goals.
func (t Throughput) check() error {
	longest := 0.0
	for _, goal := range t.Goals {
		longest = max(longest, goal.FinalTrialDuration)
	}
	errs := []error{t.problems(longest)}
	if !isDuration(t.Warmup) && t.Warmup != 0 {
		errs = append(errs, refused("trial.warmupTrial", "%v s is no duration; give one above 0, or leave it out", t.Warmup))
	}
	if c := t.Confirm; c != nil {
		if !isDuration(c.Duration) {
			errs = append(errs, refused("confirm.duration", "%v s is no duration; give one above 0, as 10m", c.Duration))
		}
		if !(c.LossRatio >= 0 && c.LossRatio < 1) {
			errs = append(errs, refused("confirm.lossRatio", "%v is not a loss ratio; give a value from 0 to below 1", c.LossRatio))
		}
	}
	return errors.Join(errs...)
}

// problems returns what is wrong with options for a test whose longest trial has a duration in seconds.
func (o Options) problems(longest float64) error {
	var errs []error
	b := o.Budget
	if !(b.Overhead >= 0) || math.IsInf(b.Overhead, 0) {
		errs = append(errs, refused("budget.overhead", "%v s is no duration; give 0 or more", b.Overhead))
	}
	if least := longest + b.Overhead; b.Time != 0 && !(b.Time >= least) {
		errs = append(errs, refused("budget.time", "%v s is less than one final trial takes; give %v s or more, or a shorter trial", b.Time, least))
	}
	if b.Trials < 0 {
		errs = append(errs, refused("budget.trials", "%d is no number of trials; give 1 or more, or leave it out", b.Trials))
	}
	if o.Retries < 0 {
		errs = append(errs, refused("trial.retries", "%d is no number of repetitions; give 0 or more", o.Retries))
	}
	return errors.Join(errs...)
}

func refused(field, format string, values ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, values...)}
}

func isDuration(seconds float64) bool { return seconds > 0 && !math.IsInf(seconds, 0) }

// checkMax refuses what is no maximum load.
func checkMax(load float64) error {
	if isLoad(load) {
		return nil
	}
	return refused("load.max", "%v per second is no load; give one above 0", load)
}

func isLoad(pps float64) bool { return pps > 0 && !math.IsInf(pps, 0) }

// mlrProgress is an MLRsearch under way.
type mlrProgress struct {
	goals []Goal
	run   *mlr.Run
}

func (p *mlrProgress) next() (Input, bool) {
	want, more := p.run.Next()
	return Input{Load: want.Load, Duration: want.Duration}, more
}

func (p *mlrProgress) add(t Trial) {
	p.run.Add(mlr.Outcome{
		Loss: t.LossRatio(), DeviceLoss: t.DeviceLossRatio(), Fails: func(goal int) bool { return t.fails(p.goals[goal].Name) },
	})
}

func (p *mlrProgress) result(bool) Result {
	results := make([]GoalResult, len(p.goals))
	for i, r := range p.run.Results() {
		results[i] = GoalResult{Name: p.goals[i].Name, Lower: r.Lower, Upper: r.Upper, Throughput: r.Throughput}
		results[i].conclude(findings{r.Reached, r.GeneratorLimited, r.Unstable})
	}
	return goalsResult(results)
}

// warmup is a test with a first trial that does not count.
type warmup struct {
	progress
	input Input
	warm  bool
}

func (w *warmup) next() (Input, bool) {
	if !w.warm {
		return w.input, true
	}
	return w.progress.next()
}

func (w *warmup) add(t Trial) {
	if w.warm {
		w.progress.add(t)
	}
	w.warm = true
}
