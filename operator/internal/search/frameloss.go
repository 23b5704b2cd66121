// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: how much is lost at which share of the maximum load? (RFC 2544 section 26.3)

import (
	"errors"
	"math"
)

// FrameLoss is a test from the maximum load down, until two successive trials lose nothing.
type FrameLoss struct {
	// Max is the load of an interface at 100 %, in pps.
	Max float64
	// Step is the share of Max between two trials, at most 0.1.
	Step float64
	// Duration of a trial in seconds.
	Duration float64
	Options
}

// FrameLossResult is what is lost at a load.
type FrameLossResult struct {
	// Percent of the maximum load.
	Percent float64
	// Load of an interface in pps.
	Load float64
	// LossRatio counts packets that the generator did not send as lost, DeviceLossRatio does not.
	LossRatio, DeviceLossRatio float64
	// Reason is Found, or GeneratorLimited if packets were not sent.
	Reason Reason
}

// NewFrameLoss returns the test. An error joins a FieldError for each value that is refused.
func NewFrameLoss(f FrameLoss) (Method, error) {
	errs := []error{f.problems(f.Duration), checkMax(f.Max)}
	if !(f.Step >= minStep && f.Step <= 0.1) {
		errs = append(errs, refused("frameLoss.step", "%v is no step of RFC 2544 section 26.3; give a share above 0, at least %v, and at most 0.1", f.Step, minStep))
	}
	if !isDuration(f.Duration) {
		errs = append(errs, refused("frameLoss.duration", "%v s is no duration; give one above 0, as 60s", f.Duration))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return replayed{f.Options, func() progress { return &frameLoss{test: f} }}, nil
}

// minStep is the least step: 1,000 trials.
const minStep = 0.001

type frameLoss struct {
	test FrameLoss
	rows []FrameLossResult
}

// steps is the share of the maximum load of the next trial, in units of 1e-9: a whole number, without the rounding of the shares of its steps.
func (f *frameLoss) steps() float64 {
	return math.Round((1 - float64(len(f.rows))*f.test.Step) * 1e9)
}

// share of the maximum load of the next trial.
func (f *frameLoss) share() float64 { return f.steps() / 1e9 }

// percent of the maximum load of the next trial. 100 times the share would not be the number that is written with as few digits.
func (f *frameLoss) percent() float64 { return f.steps() / 1e7 }

func (f *frameLoss) next() (Input, bool) {
	return Input{Load: f.test.Max * f.share(), Duration: f.test.Duration}, !f.twoWithoutLoss() && f.share() > 0
}

func (f *frameLoss) twoWithoutLoss() bool {
	n := len(f.rows)
	return n >= 2 && f.rows[n-1].LossRatio == 0 && f.rows[n-2].LossRatio == 0
}

func (f *frameLoss) add(t Trial) {
	row := FrameLossResult{
		Percent: f.percent(), Load: t.Load, LossRatio: t.LossRatio(), DeviceLossRatio: t.DeviceLossRatio(), Reason: Found,
	}
	if t.Unsent() != 0 {
		row.Reason = GeneratorLimited
	}
	f.rows = append(f.rows, row)
}

func (f *frameLoss) result(cut bool) Result {
	result := Result{FrameLoss: f.rows, Reason: reasonOf(f.rows, func(r FrameLossResult) Reason { return r.Reason })}
	switch {
	case cut:
		result.Reason = BudgetExhausted
	case result.Reason == Found && !f.twoWithoutLoss():
		result.Reason = MinLoadFails
	}
	return result
}
