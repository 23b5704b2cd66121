// SPDX-License-Identifier: Apache-2.0

package mlr

// This file answers: which trial serves one goal best?

// nomination is a trial that a goal asks for.
type nomination struct {
	load     int     // index in the grid
	duration float64 // in seconds
	// width is the step or part of the interval that led to the load: of equal nominations the wider one wins.
	width int
	// expandAtLower and expandAtUpper: the next step is wider if the load becomes that bound.
	expandAtLower, expandAtUpper bool
}

// before reports whether a nomination is measured before another: the least load, since what fails there spares the higher ones; then the longest
// duration; then the greatest width. Of equal ones, the earlier goal's is.
func (n nomination) before(other nomination) bool {
	switch {
	case n.load != other.load:
		return n.load < other.load
	case n.duration != other.duration:
		return n.duration > other.duration
	}
	return n.width > other.width
}

// selector moves one goal from its coarsest target to its own.
type selector struct {
	grid   Grid
	points *points
	// shared is the width that the last trial of any goal was nominated for: a step is no narrower.
	shared  *int
	targets []*target // that are left, the current one first
	// lower and upper are the loads to start from, or none: of the initial trials, then the bounds of the target before.
	lower, upper int
	// step is the width of the next step while a bound is missing.
	step int
	won  nomination
}

func newSelector(grid Grid, points *points, shared *int, targets []*target, lower, upper int) *selector {
	s := &selector{grid: grid, points: points, shared: shared, targets: targets, lower: lower, upper: upper}
	s.start()
	return s
}

func (s *selector) target() *target { return s.targets[0] }

// start prepares for the current target.
func (s *selector) start() {
	step := s.target().width
	if s.lower != none && s.upper != none {
		step = max(step, s.upper-s.lower)
	}
	s.stepAfter(step)
}

// stepAfter sets the step after an interval of a width was met.
func (s *selector) stepAfter(width int) {
	s.step = s.grid.clamp(max(width, s.target().width) * s.target().expansion)
}

// stepWidth is the width of a step outside of the known bounds.
func (s *selector) stepWidth() int { return max(s.step, *s.shared) }

// nominate returns the trial that the goal needs next, or false if it is reached.
func (s *selector) nominate() (nomination, bool) {
	for {
		now := s.points.bounds(s.target())
		for _, strategy := range strategies {
			if n, ok := strategy(s, now); ok {
				n.duration = s.target().trial
				s.won = n
				return n, true
			}
		}
		if len(s.targets) == 1 {
			return nomination{}, false
		}
		s.targets = s.targets[1:]
		s.lower, s.upper = now.lower, now.upper
		s.start()
	}
}

// measured widens the next step if the goal's nomination was measured and only moved a bound.
func (s *selector) measured() {
	now := s.points.bounds(s.target())
	if s.won.expandAtLower && s.won.load == now.lower || s.won.expandAtUpper && s.won.load == now.upper {
		s.step = s.grid.clamp(s.step * s.target().expansion)
		*s.shared = s.step
	}
}

// pointless reports whether a trial at a load serves the target no more.
func (s *selector) pointless(now bounds, load int) bool {
	return now.excludes(load) || now.both() && now.upper-now.lower <= s.target().width
}
