// SPDX-License-Identifier: Apache-2.0

// Can the requirements of a search's goals be evaluated, on the results that trials of a profile will have?

package plan

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/verdict"
)

// CheckRequirements reports expressions that are no valid expressions on a trial. `tests` is the path of the tests.
func CheckRequirements(tests *spatev1.SearchTests, at *field.Path) problem.Problems {
	return requirements(tests, at, func(*verdict.Threshold) error { return nil })
}

// CheckRequirements also reports expressions that read what trials of the profile do not have: streams and templates that are not in it, or times
// that it does not measure.
func (r *Resolved) CheckRequirements(tests *spatev1.SearchTests, at *field.Path) problem.Problems {
	subjects := r.subjects
	subjects.Sessions = nil // they are not measured of trials
	problems := requirements(tests, at, func(t *verdict.Threshold) error { return t.Check(subjects) })
	if tests == nil {
		return problems
	}
	for _, test := range []struct {
		name  string
		asked bool
	}{{"recovery", tests.Recovery != nil}, {"reset", tests.Reset != nil}} {
		if test.asked && len(r.templates) > 0 {
			problems.Add(spatev1.ReasonInvalidSpec, at.Child(test.name), "is measured of streams, and the profile has applications; leave it out")
		}
	}
	if tests.Throughput == nil || len(r.templates) > 0 {
		return problems
	}
	for i, goal := range tests.Throughput.Goals {
		if goal.Standard == spatev1.GoalRFC9411 {
			problems.Add(spatev1.ReasonInvalidSpec, at.Child("throughput", "goals").Index(i).Child("standard"), "RFC9411 is for applications, and the profile has none; use RFC2544")
		}
	}
	return problems
}

func requirements(tests *spatev1.SearchTests, at *field.Path, check func(*verdict.Threshold) error) (problems problem.Problems) {
	if tests == nil || tests.Throughput == nil {
		return nil
	}
	for i, goal := range tests.Throughput.Goals {
		for j, expression := range goal.Require {
			compiled, err := verdict.CompileTrial(expression)
			if err == nil {
				err = check(compiled)
			}
			if err != nil {
				problems.Add(spatev1.ReasonInvalidSpec, at.Child("throughput", "goals").Index(i).Child("require").Index(j), "%q: %v", expression, err)
			}
		}
	}
	return problems
}
