// SPDX-License-Identifier: Apache-2.0

// Package exit answers: with which code does the plugin exit after an error?
package exit

import "errors"

// Codes of `kubectl spate run`, the worst last.
const (
	// Passed: the run is valid and every threshold holds.
	Passed = 0
	// Failed: the run is valid and a threshold does not hold. It is also the code of every other error of the plugin.
	Failed = 1
	// Invalid: an object or a run's measurement is not valid.
	Invalid = 2
	// NotRun: no run was started, or its end was not seen.
	NotRun = 3
	// Interrupted is 128 and the number of SIGINT, as shells have it.
	Interrupted = 130
)

// Error is an error with an exit code.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// With gives an error an exit code, unless it has one.
func With(code int, err error) error {
	var coded *Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &Error{code, err}
}

// Code returns the exit code of an error: 0 without one, Failed of an error that has none.
func Code(err error) int {
	var coded *Error
	switch {
	case err == nil:
		return Passed
	case errors.As(err, &coded):
		return coded.Code
	}
	return Failed
}
