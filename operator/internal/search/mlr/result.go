// SPDX-License-Identifier: Apache-2.0

package mlr

// This file answers: what do the trials so far say of a goal?

// Result is what is known of a goal.
type Result struct {
	// Lower and Upper are the loads of the relevant bounds in pps, 0 if there is none.
	Lower, Upper float64
	// Throughput is the conditional throughput at the lower bound in pps, 0 without one (RFC 9971 section 4.8.3).
	Throughput float64
	// Reached: the bounds are as close as the goal asks for, or the missing bound is beyond the least or greatest load.
	Reached bool
	// GeneratorLimited: the upper bound is one only because of packets that the generator did not send.
	GeneratorLimited bool
	// Unstable: a load was a relevant bound, and later trials there or at another load showed otherwise.
	Unstable bool
}

// Results returns what is known of each goal, in their order.
func (r *Run) Results() []Result {
	results := make([]Result, len(r.search.goals))
	for goal := range results {
		results[goal] = r.result(goal)
	}
	return results
}

func (r *Run) result(goal int) Result {
	own, grid := r.own(goal), r.search.grid
	now, seen := r.points.bounds(own), r.seen[goal]
	result := Result{Unstable: now.lower < seen.lower || seen.upper != none && (now.upper == none || now.upper > seen.upper)}
	if now.lower != none {
		result.Lower = grid.Load(now.lower)
		result.Throughput = result.Lower * (1 - r.points.loss(now.lower, own))
	}
	if now.upper != none {
		result.Upper = grid.Load(now.upper)
		result.GeneratorLimited = r.points.limited(now.upper, own)
	}
	switch {
	case now.both():
		result.Reached = now.upper-now.lower <= own.width
	case now.lower != none:
		result.Reached = now.lower == grid.top
	default:
		result.Reached = now.upper == 0
	}
	return result
}

// own returns a goal's own target.
func (r *Run) own(goal int) *target {
	chain := r.search.chains[goal]
	return chain[len(chain)-1]
}

// remember keeps the tightest bounds of each goal.
func (r *Run) remember() {
	for goal := range r.seen {
		now, seen := r.points.bounds(r.own(goal)), &r.seen[goal]
		seen.lower = max(seen.lower, now.lower)
		if now.upper != none && (seen.upper == none || now.upper < seen.upper) {
			seen.upper = now.upper
		}
	}
}
