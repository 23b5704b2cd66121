// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: how long does a device lose frames after an overload? (RFC 2544 section 26.5)

import (
	"errors"
	"math"
)

// Recovery is a test of a device that is overloaded for a time, after which the load is halved.
type Recovery struct {
	// Max is the maximum load of an interface, in pps.
	Max float64
	// Throughput is what the device forwards without loss, in pps.
	Throughput float64
	// Overload is the load of the first part of a trial, as a share of the throughput; at most Max.
	Overload float64
	// Duration of the overload, and After of the half of its load, in seconds.
	Duration, After float64
	// Repeats is the number of trials, of which the mean is taken.
	Repeats int
	Options
}

// RecoveryResult is the result of such a test.
type RecoveryResult struct {
	// Load of the overload, in pps; the load after it is half of it.
	Load float64
	// Mean and Greatest of the times from the reduction of the load to the last loss, in seconds.
	Mean, Greatest float64
	// Reason is Found; MinLoadFails, if a device still lost frames in the last tenth of the time after the overload; GeneratorLimited or
	// BudgetExhausted.
	Reason Reason
}

// NewRecovery returns the test. An error joins a FieldError for each value that is refused.
func NewRecovery(r Recovery) (Method, error) {
	errs := []error{r.problems(r.Duration + r.After), checkMax(r.Max)}
	if !isLoad(r.Throughput) {
		errs = append(errs, refused("throughput", "%v pps is no throughput; give that of a goal with loss ratio 0, which must have a lower bound", r.Throughput))
	}
	if !(r.Overload > 1 && r.Overload <= 100) {
		errs = append(errs, refused("recovery.overload", "%v is no overload; give a share of the throughput above 100%%, as 110%%", r.Overload))
	}
	for _, d := range []struct {
		field string
		value float64
	}{{"recovery.duration", r.Duration}, {"recovery.after", r.After}} {
		if !isDuration(d.value) {
			errs = append(errs, refused(d.field, "%v s is no duration; give one above 0, as 60s", d.value))
		}
	}
	if r.Repeats < 1 {
		errs = append(errs, refused("recovery.repeats", "%d is no number of trials; give 1 or more", r.Repeats))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return replayed{r.Options, func() progress { return &recovery{test: r} }}, nil
}

type recovery struct {
	test    Recovery
	times   []float64
	limited bool // by the generator
}

func (r *recovery) load() float64 { return min(r.test.Throughput*r.test.Overload, r.test.Max) }

func (r *recovery) next() (Input, bool) {
	return Input{Load: r.load(), Duration: r.test.Duration + r.test.After, Overload: r.test.Duration}, len(r.times) < r.test.Repeats
}

func (r *recovery) add(t Trial) {
	r.times = append(r.times, max(t.LastLoss-r.test.Duration, 0))
	r.limited = r.limited || t.Unsent() != 0
}

func (r *recovery) result(cut bool) Result {
	found := &RecoveryResult{Load: r.load(), Reason: Found}
	for _, time := range r.times {
		found.Mean += time / float64(len(r.times))
		found.Greatest = math.Max(found.Greatest, time)
	}
	switch {
	case cut:
		found.Reason = BudgetExhausted
	case r.limited:
		found.Reason = GeneratorLimited
	case found.Greatest > 0.9*r.test.After:
		found.Reason = MinLoadFails
	}
	if len(r.times) == 0 {
		return Result{Reason: found.Reason}
	}
	return Result{Recovery: found, Reason: found.Reason}
}
