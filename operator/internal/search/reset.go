// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: for how long does a device forward nothing when it is reset? (RFC 2544 section 26.6, RFC 6201)

import (
	"errors"
	"math"
)

// Reset is a test of a device that is reset during a trial at its throughput, by a person or program outside the cluster.
type Reset struct {
	// Max is the maximum load of an interface, in pps.
	Max float64
	// Throughput is what the device forwards without loss, in pps: the load of the trials.
	Throughput float64
	// Duration of a trial in seconds.
	Duration float64
	// Repeats is the number of trials, of which the mean is taken.
	Repeats int
	Options
}

// ResetResult is the result of such a test.
type ResetResult struct {
	// Load in pps.
	Load float64
	// Mean and Greatest of the longest times without a frame, in seconds: the method of time stamps.
	Mean, Greatest float64
	// ByLoss is the mean of the frames lost, divided by those sent a second, in seconds: the method of frame loss.
	ByLoss float64
	// Reason is Found; NothingLost, if a trial lost no frame; TooEarly, if no frame arrived at the beginning of one; NotRecovered, if none of a
	// stream arrived at the end of one; GeneratorLimited or BudgetExhausted.
	Reason Reason
}

// leastReset is the least duration of a trial, in seconds: its last part shows whether the device has recovered.
const leastReset = 2

// NewReset returns the test. An error joins a FieldError for each value that is refused.
func NewReset(r Reset) (Method, error) {
	errs := []error{r.problems(r.Duration), checkMax(r.Max)}
	if !isLoad(r.Throughput) {
		errs = append(errs, refused("throughput", "%v pps is no throughput; give that of a goal with loss ratio 0, which must have a lower bound", r.Throughput))
	}
	if !isDuration(r.Duration) || r.Duration < leastReset {
		errs = append(errs, refused("reset.duration", "%v s is too short for a reset; give 2s or more, as 120s", r.Duration))
	}
	if r.Repeats < 1 {
		errs = append(errs, refused("reset.repeats", "%d is no number of trials; give 1 or more", r.Repeats))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return replayed{r.Options, func() progress { return &reset{test: r} }}, nil
}

type reset struct {
	test   Reset
	trials []Trial
}

func (r *reset) next() (Input, bool) {
	return Input{Load: min(r.test.Throughput, r.test.Max), Duration: r.test.Duration}, len(r.trials) < r.test.Repeats
}

func (r *reset) add(t Trial) { r.trials = append(r.trials, t) }

// atBeginning is how long after its beginning, in seconds, an outage begins at least in a trial that frames of have arrived before.
const atBeginning = 0.001

func (r *reset) result(cut bool) Result {
	found := &ResetResult{Load: min(r.test.Throughput, r.test.Max), Reason: Found}
	note := func(reason Reason, holds bool) {
		if holds && found.Reason == Found {
			found.Reason = reason
		}
	}
	note(BudgetExhausted, cut)
	for _, t := range r.trials {
		found.Mean += t.Outage / float64(len(r.trials))
		found.Greatest = math.Max(found.Greatest, t.Outage)
		if t.Sent > 0 {
			found.ByLoss += float64(t.Lost) * t.Duration / float64(t.Sent) / float64(len(r.trials))
		}
		note(GeneratorLimited, t.Unsent() != 0)
		note(NothingLost, t.Lost <= 0)
		note(TooEarly, t.OutageAt < atBeginning)
		note(NotRecovered, t.SilentAtEnd)
	}
	if len(r.trials) == 0 {
		return Result{Reason: found.Reason}
	}
	return Result{Reset: found, Reason: found.Reason}
}
