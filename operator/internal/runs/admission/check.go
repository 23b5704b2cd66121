// SPDX-License-Identifier: Apache-2.0

package admission

// This file answers: does the engine's own code accept the plan? Each plan is checked once.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/origin"
	"spate.dev/operator/internal/plan/problem"
)

// check is the result of checking a definition's plan.
type check struct {
	inputs  string
	refused []engine.Violation
	// failed is why the check could not be done. It is repeated at `again`, after longer pauses each time.
	failed string
	again  time.Time
	pause  time.Duration
}

const (
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
	// quickly is the time limit for plans of a namespace whose plans did not take long before. A plan that takes longer
	// is checked again in a place for such plans.
	quickly = 3 * time.Second
	// lateLasts is how long a namespace uses such places.
	lateLasts = 10 * time.Minute
)

// check has the engine's code check the plan. A plan that cannot be checked is not run. It returns false if the plan
// must be checked in another place.
func (s *Resolution) check(ctx context.Context, inputs string) (ok bool) {
	id := plan.Identity{RunID: s.definition.Name, Tag: 1, Profile: s.definition.Name, Namespace: s.definition.Namespace}
	p := s.Resolved.Outline(id)
	s.r.mu.Lock()
	last := s.r.checked[s.key]
	s.r.mu.Unlock()
	if due, at := last.due(inputs); due && !time.Now().Before(at) {
		compiler := s.r.Compiler
		whole := cmp.Or(compiler.Limit, engine.DefaultLimit)
		if compiler.Limit = whole; !s.slow {
			compiler.Limit = min(whole, quickly)
		}
		checked, err := compiler.CheckWritten(ctx, p, func(w io.Writer) error { return s.Resolved.WriteWithData(w, id) })
		if late := (*engine.LateError)(nil); errors.As(err, &late) {
			if s.tookLong(); compiler.Limit < whole {
				return false
			}
		}
		last = last.next(inputs, checked.Refused, err)
		if err != nil {
			log.FromContext(ctx).Error(err, "the plan could not be checked")
		}
		s.r.mu.Lock()
		s.r.checked[s.key] = last
		s.r.mu.Unlock()
	}
	if last.failed != "" {
		_, at := last.due(inputs)
		s.Resolved, s.Retry = nil, max(time.Until(at), time.Millisecond)
		s.Problems = append(s.Problems, problem.Problem{
			Reason: spatev1.ReasonCheckFailed, Path: "spec.traffic",
			Message: fmt.Sprintf("%s; use fewer or smaller entries, or give the operator more CPU or memory (--plan-check-limit is the time for it); the next check is at %s",
				last.failed, at.UTC().Format(time.TimeOnly+"Z")),
		})
		return true
	}
	if len(last.refused) == 0 {
		return true
	}
	from := origin.Of(p, s.Resolved.Entries, s.Resolved.Clients)
	s.Resolved = nil
	for _, violation := range last.refused {
		s.Problems = append(s.Problems, from.Refused(violation.Field, violation.Description).Problem(s.definition))
	}
	return true
}

// tookLong records that a plan of the definition's namespace took long to check.
func (s *Resolution) tookLong() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	maps.DeleteFunc(s.r.late, func(_ string, at time.Time) bool { return time.Since(at) >= lateLasts })
	s.r.late[s.definition.Namespace] = time.Now()
}

// due reports whether the plan is to be checked, and when. After failures the pauses get longer; an edited plan is
// checked after the first pause.
func (c check) due(inputs string) (due bool, at time.Time) {
	switch {
	case c.failed == "":
		return c.inputs != inputs, time.Time{}
	case c.inputs != inputs:
		return true, c.again.Add(firstPause - c.pause)
	}
	return true, c.again
}

// next returns the result after a further check.
func (c check) next(inputs string, refused []engine.Violation, err error) check {
	if err == nil {
		return check{inputs: inputs, refused: refused}
	}
	pause := firstPause
	if c.failed != "" { // of an earlier version, too: edits do not shorten the pause
		pause = min(2*c.pause, longestPause)
	}
	return check{inputs: inputs, failed: err.Error(), again: time.Now().Add(pause), pause: pause}
}
