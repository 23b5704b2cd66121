// SPDX-License-Identifier: Apache-2.0

// Package mlr is MLRsearch, Multiple Loss Ratio search (RFC 9971): for several goals at once it finds the loads between which a device begins to lose
// more than a goal allows. It chooses the same loads and durations as FD.io's reference package MLRsearch 1.2.1.
package mlr

// This file answers: what is the next trial of a search, and what are the goals' results after it?

import (
	"errors"
	"math"
)

// Search is what is searched for: the part that no trial changes.
type Search struct {
	grid    Grid
	goals   []Goal
	targets []target    // of all goals
	chains  [][]*target // by goal, from the coarsest to its own
	opening opening
}

// New returns a search between two loads in pps. An error joins a FieldError for each value that is refused.
func New(least, greatest float64, goals []Goal) (*Search, error) {
	var problems []error
	for _, p := range check(least, greatest, goals) {
		problems = append(problems, p)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	widths := make([]float64, len(goals))
	for i, goal := range goals {
		widths[i] = goal.Width
	}
	grid, err := newGrid(least, greatest, widths)
	if err != nil {
		return nil, problem("goals", "%v", err)
	}
	s := &Search{grid: grid, goals: goals}
	for i, goal := range goals {
		s.targets = append(s.targets, goal.targets(grid, i, len(s.targets))...)
	}
	s.chains = make([][]*target, len(goals))
	for i := range s.targets {
		t := &s.targets[i]
		s.chains[t.goal] = append(s.chains[t.goal], t)
	}
	s.opening = openingOf(s.chains)
	return s, nil
}

func check(least, greatest float64, goals []Goal) (problems []*FieldError) {
	if !(least > 0) || math.IsInf(least, 0) {
		problems = append(problems, problem("load.min", "%v per second is no load; give one above 0", least))
	}
	if !(greatest > least) || math.IsInf(greatest, 0) {
		problems = append(problems, problem("load.max", "%v per second is not above load.min, %v per second; raise load.max or lower load.min", greatest, least))
	}
	if len(goals) == 0 || len(goals) > MaxGoals {
		problems = append(problems, problem("goals", "%d goals; give 1 to %d", len(goals), MaxGoals))
	}
	names := map[string]bool{}
	for _, goal := range goals {
		if names[goal.Name] {
			problems = append(problems, problem("goals["+goal.Name+"].name", "another goal has this name; give each its own"))
		}
		names[goal.Name] = true
		problems = append(problems, goal.Check()...)
		if shortest := goal.InitialTrialDuration; shortest > 0 && least*shortest < 1 {
			problems = append(problems, problem("load.min", "%v per second is less than one packet or connection in a trial of goal %s, %v s; raise load.min to %v per second or "+
				"more, or goals[%s].initialTrialDuration", least, goal.Name, shortest, 1/shortest, goal.Name))
		}
	}
	return problems
}

// Grid returns the loads that the search can try.
func (s *Search) Grid() Grid { return s.grid }

// Want is the input of a trial.
type Want struct {
	// Index of the load in the grid.
	Index int
	// Load in pps.
	Load float64
	// Duration in seconds.
	Duration float64
}

// Outcome is what a trial measured.
type Outcome struct {
	// Loss is the loss ratio of the trial, from 0 to 1.
	Loss float64
	// DeviceLoss is the loss ratio among the packets that were sent.
	DeviceLoss float64
	// Fails reports that the trial is high-loss for a goal, by its number, whatever was lost. nil: for none.
	Fails func(goal int) bool
}

// Run is a search under way.
type Run struct {
	search    *Search
	points    points
	shots     []shot
	selectors []*selector // nil during the initial trials
	shared    int
	seen      []bounds // by goal: the greatest relevant lower and the least relevant upper bound at any time

	wanted Want
	width  int
	winner *selector // nil: an initial trial
	done   bool
}

// Start returns the search before its first trial.
func (s *Search) Start() *Run {
	r := &Run{search: s, points: points{targets: s.targets}, seen: make([]bounds, len(s.goals))}
	for i := range r.seen {
		r.seen[i] = bounds{lower: none, upper: none}
	}
	r.choose()
	return r
}

// Next returns the input of the next trial, or false if every goal is reached.
func (r *Run) Next() (Want, bool) { return r.wanted, !r.done }

// Add takes the outcome of the trial that Next returns.
func (r *Run) Add(o Outcome) {
	if r.done {
		return
	}
	m := measured{duration: r.wanted.Duration, loss: o.Loss, device: o.DeviceLoss}
	for goal := range r.search.goals {
		if o.Fails != nil && o.Fails(goal) {
			m.fails |= 1 << goal
		}
	}
	r.points.add(r.wanted.Index, m)
	if r.winner == nil {
		r.shots = append(r.shots, shot{r.wanted.Index, o.Loss})
	} else {
		r.shared = r.width
		r.winner.measured()
	}
	r.remember()
	r.choose()
}

// choose sets the next trial.
func (r *Run) choose() {
	if r.selectors == nil {
		load, more, lower, upper := r.search.opening.next(r.search.grid, r.shots)
		if more {
			r.want(load, r.search.opening.duration)
			return
		}
		r.shared = upper - lower
		for _, targets := range r.search.chains {
			r.selectors = append(r.selectors, newSelector(r.search.grid, &r.points, &r.shared, targets, lower, upper))
		}
	}
	var best nomination
	r.winner = nil
	for _, s := range r.selectors {
		if n, ok := s.nominate(); ok && (r.winner == nil || n.before(best)) {
			best, r.winner = n, s
		}
	}
	r.width, r.done = best.width, r.winner == nil
	if !r.done {
		r.want(best.load, best.duration)
	}
}

func (r *Run) want(index int, duration float64) {
	r.wanted = Want{Index: index, Load: r.search.grid.Load(index), Duration: duration}
}
