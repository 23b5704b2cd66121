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

// Error is an error that an engine returned.
type Error struct {
	Code    codes.Code
	Message string
	// Violations are the wrong fields of the plan.
	Violations []Violation
}

// Violation is one wrong field of a plan.
type Violation struct {
	Field       string // path, such as "streams[3].packet.frame"
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

// Unreachable reports whether the call may not have reached an engine. Then it can be repeated.
func Unreachable(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code == codes.Unavailable || e.Code == codes.DeadlineExceeded || e.Code == codes.Canceled)
}

// UnknownRun reports whether the engine does not have the run.
func UnknownRun(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codes.NotFound
}

// Unimplemented reports whether the engine is an older version without the call.
func Unimplemented(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codes.Unimplemented
}

// explain converts a gRPC status to an Error.
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

// TooLate reports whether a start came after its time, or for a run that is not prepared.
func TooLate(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codes.FailedPrecondition
}
