// SPDX-License-Identifier: Apache-2.0

package engine

// This file answers: what does an engine's error mean to the operator?

import (
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error is what an engine answered instead of a result.
type Error struct {
	Code    codes.Code
	Message string
	// Violations are the fields of the plan that are wrong, by their path.
	Violations []Violation
}

// Violation is one wrong field of a plan.
type Violation struct {
	Field       string // such as "streams[3].packet.frame"
	Description string
}

func (e *Error) Error() string {
	if len(e.Violations) == 0 {
		return e.Message
	}
	parts := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		parts[i] = v.Field + ": " + v.Description
	}
	return strings.Join(parts, "; ")
}

// Unreachable tells whether the call may never have arrived at an engine. It is worth repeating.
func Unreachable(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code == codes.Unavailable || e.Code == codes.DeadlineExceeded || e.Code == codes.Canceled)
}

// UnknownRun tells whether the engine does not hold the run.
func UnknownRun(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codes.NotFound
}

// Unimplemented tells whether the engine, of an older version, does not know the call.
func Unimplemented(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codes.Unimplemented
}

// explain turns a gRPC status into an Error.
func explain(err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	e := &Error{Code: s.Code(), Message: s.Message()}
	for _, detail := range s.Details() {
		if request, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range request.FieldViolations {
				e.Violations = append(e.Violations, Violation{Field: v.Field, Description: v.Description})
			}
		}
	}
	return e
}

// TooLate tells whether a start came after its instant, or for a run that is not prepared.
func TooLate(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codes.FailedPrecondition
}
