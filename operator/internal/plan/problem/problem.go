// SPDX-License-Identifier: Apache-2.0

// Package problem answers: what prevents a profile from becoming a plan? Each problem has a condition's reason, the
// path of a field, and what would be right.
package problem

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

// Problem is one reason why a profile cannot become a plan.
type Problem struct {
	// Reason is one of the API's condition reasons.
	Reason string
	// Path of the field in the object that is being resolved.
	Path string
	// Message says what is wrong and what would be right.
	Message string
	// Within is the referenced object that has the problem, such as `StatelessStream udp-64`; empty for the object that
	// is being resolved.
	Within string
}

func (p Problem) Error() string { return p.Path + ": " + p.Message }

// Problems is a list of them.
type Problems []Problem

// gravity orders reasons: what a user must correct comes before what may resolve itself.
var gravity = []string{
	spatev1.ReasonInvalidSpec, spatev1.ReasonNotSupported, spatev1.ReasonReferenceNotAllowed, spatev1.ReasonLimitExceeded,
	spatev1.ReasonOversubscribed, spatev1.ReasonReferenceNotFound, spatev1.ReasonGeneratorNotReady,
}

// Reason returns the gravest problem's reason.
func (p Problems) Reason() string {
	for _, reason := range gravity {
		for _, problem := range p {
			if problem.Reason == reason {
				return reason
			}
		}
	}
	if len(p) > 0 {
		return p[0].Reason
	}
	return ""
}

// lasting are the reasons that end only when an object is changed. What is missing may come, what is not ready may become so, and a
// check may succeed later.
var lasting = []string{
	spatev1.ReasonInvalidSpec, spatev1.ReasonNotSupported, spatev1.ReasonNotAllowed, spatev1.ReasonLimitExceeded, spatev1.ReasonOversubscribed,
}

// Lasting is true if time does not resolve the gravest problem: an object must be changed.
func (p Problems) Lasting() bool { return slices.Contains(lasting, p.Reason()) }

// mostShown bounds a message; the others are shown when these are corrected.
const mostShown = 5

// Message joins the problems, the gravest first.
func (p Problems) Message() string {
	var shown []string
	first := p.Reason()
	for _, grave := range []bool{true, false} {
		for _, problem := range p {
			if (problem.Reason == first) == grave {
				shown = append(shown, problem.Error())
			}
		}
	}
	if more := len(shown) - mostShown; more > 0 {
		shown = append(shown[:mostShown], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(shown, "; ")
}

func (p Problems) Error() string { return p.Reason() + ": " + p.Message() }

// Add adds a problem of a field.
func (p *Problems) Add(reason string, at *field.Path, format string, args ...any) {
	*p = append(*p, Problem{Reason: reason, Path: at.String(), Message: fmt.Sprintf(format, args...)})
}

// Invalid adds the errors of a part as problems of this object's spec.
func (p *Problems) Invalid(errs field.ErrorList) {
	for _, err := range errs {
		*p = append(*p, Problem{Reason: spatev1.ReasonInvalidSpec, Path: err.Field, Message: err.ErrorBody()})
	}
}

// Within returns the problems of a referenced object, reported at the reference.
func (p Problems) Within(at *field.Path, kind, name string) Problems {
	quoted := make(Problems, len(p))
	for i, problem := range p {
		quoted[i] = Problem{
			Reason: problem.Reason, Path: at.String(),
			Message: fmt.Sprintf("%s %q: %s", kind, name, problem.Error()),
			Within:  kind + " " + name,
		}
	}
	return quoted
}
