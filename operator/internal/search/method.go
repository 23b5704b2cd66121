// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: given the recorded trials, what is the next one, or the result?

import (
	"errors"
	"fmt"
	"math"
)

// Method is a test. Next returns the input of the trial after the recorded ones, or the result if there is none. It is a function of the records
// alone: the program that measures can be restarted between any two trials. Its errors are ErrRecordsContradict and ErrTrialsInvalid.
type Method interface {
	Next(trials []Trial) (want *Input, done *Result, err error)
}

var (
	// ErrRecordsContradict means that the recorded trials are not those that the method asks for, as when another version or other parameters chose them.
	ErrRecordsContradict = errors.New("RecordsContradict")
	// ErrTrialsInvalid means that a trial was invalid more often than Options.Retries.
	ErrTrialsInvalid = errors.New("TrialsInvalid")
)

// Options are those of every test.
type Options struct {
	Budget Budget
	// Retries is how often a trial in succession is repeated because it is invalid.
	Retries int
}

// Budget is what a test can take. Its end is a result with the bounds so far, not an error.
type Budget struct {
	// Time of all trials in seconds. 0: no limit.
	Time float64
	// Trials is their number. 0: no limit.
	Trials int
	// Overhead is what a trial takes beside its duration, in seconds, if it does not record what it took.
	Overhead float64
}

func (b Budget) allows(trials int, spent float64, want Input) bool {
	return (b.Trials == 0 || trials < b.Trials) && (b.Time == 0 || spent+want.Duration+b.Overhead <= b.Time)
}

func (b Budget) elapsed(t Trial) float64 {
	if t.Elapsed > 0 {
		return t.Elapsed
	}
	return t.Duration + b.Overhead
}

// progress is a test while its records are replayed.
type progress interface {
	// next returns the input of the next trial, or false after the last one. It changes nothing.
	next() (Input, bool)
	// add takes the trial that next asked for.
	add(Trial)
	// result is what the trials so far say. cut: the budget ended the test.
	result(cut bool) Result
}

// replayed is a method of which the records are the only state.
type replayed struct {
	options Options
	start   func() progress
}

func (m replayed) Next(trials []Trial) (*Input, *Result, error) {
	now, spent, invalid := m.start(), 0.0, 0
	for i, trial := range trials {
		want, more := now.next()
		switch {
		case trial.Number != i+1:
			return nil, nil, contradiction(i+1, "its number is %d", trial.Number)
		case trial.Sent < 0 || trial.Intended < 0:
			return nil, nil, contradiction(i+1, "it has a count below 0")
		case !more:
			return nil, nil, contradiction(i+1, "the search ends before it")
		case !m.options.Budget.allows(i, spent, want):
			return nil, nil, contradiction(i+1, "the budget ends before it")
		case !same(want, trial.Input):
			return nil, nil, contradiction(i+1, "it is %v, and the search asks for %v", trial.Input, want)
		}
		spent += m.options.Budget.elapsed(trial)
		if !trial.Valid {
			if invalid++; invalid > m.options.Retries {
				return nil, nil, fmt.Errorf("%w: trial %d and %d before it are invalid; remove the cause, or raise trial.retries", ErrTrialsInvalid, i+1, invalid-1)
			}
			continue
		}
		invalid = 0
		trial.Input = want // the record may be rounded
		now.add(trial)
	}
	want, more := now.next()
	if more && m.options.Budget.allows(len(trials), spent, want) {
		return &want, nil, nil
	}
	result := now.result(more)
	result.Trials, result.Time = len(trials), spent
	return nil, &result, nil
}

func contradiction(trial int, format string, values ...any) error {
	return fmt.Errorf("%w: trial %d: %s; a new runID starts a new search", ErrRecordsContradict, trial, fmt.Sprintf(format, values...))
}

func (in Input) String() string {
	text := fmt.Sprintf("%v per second for %v s", in.Load, in.Duration)
	if in.Packets > 0 {
		text += fmt.Sprintf(" (%d packets)", in.Packets)
	}
	if in.Overload > 0 {
		text += fmt.Sprintf(" (half of it after %v s)", in.Overload)
	}
	return text
}

// tolerance of a recorded load or duration: records are rationals and nanoseconds, and the logarithm differs between processors in its last bit.
const tolerance = 1e-9

func same(want, recorded Input) bool {
	near := func(a, b float64) bool { return math.Abs(a-b) <= tolerance*math.Abs(a) }
	return want.Packets == recorded.Packets && math.Abs(want.Overload-recorded.Overload) <= tolerance && near(want.Load, recorded.Load) &&
		(near(want.Duration, recorded.Duration) || math.Abs(want.Duration-recorded.Duration) <= tolerance)
}
