// SPDX-License-Identifier: Apache-2.0

package mlr

// This file answers: in which ways can a trial bring a target nearer?

// strategies in the order in which they are tried. Each returns a load and a width, or false if it has nothing to propose.
var strategies = [...]func(s *selector, now bounds) (nomination, bool){halve, refineLower, refineUpper, extendDown, extendUp, bisect}

// halve splits the interval of the target before, which is between one and two of this target's widths: its two bounds need not be measured again
// if the middle turns out to be close to one.
func halve(s *selector, now bounds) (nomination, bool) {
	width := s.target().width
	if s.lower == none || s.upper == none || s.upper-s.lower <= width || s.upper-s.lower > 2*width {
		return nomination{}, false
	}
	return s.refine(now, middle(s.lower, s.upper, width))
}

// refineLower measures the lower load to start from by this target's rules.
func refineLower(s *selector, now bounds) (nomination, bool) { return s.refine(now, s.lower) }

// refineUpper measures the upper load to start from by this target's rules.
func refineUpper(s *selector, now bounds) (nomination, bool) { return s.refine(now, s.upper) }

func (s *selector) refine(now bounds, load int) (nomination, bool) {
	if load == none || s.pointless(now, load) {
		return nomination{}, false
	}
	s.stepAfter(s.target().width)
	return nomination{load: load, width: s.target().width}, true
}

// extendDown goes on below an upper bound while there is no lower one.
func extendDown(s *selector, now bounds) (nomination, bool) {
	if now.lower != none || now.upper <= 0 {
		return nomination{}, false
	}
	width := s.stepWidth()
	load, ok := s.grid.place(now.upper-width, s.target().width, now)
	return nomination{load: load, width: width, expandAtUpper: true}, ok
}

// extendUp goes on above a lower bound while there is no upper one.
func extendUp(s *selector, now bounds) (nomination, bool) {
	if now.upper != none || now.lower == none || now.lower >= s.grid.top {
		return nomination{}, false
	}
	width := s.stepWidth()
	load, ok := s.grid.place(now.lower+width, s.target().width, now)
	return nomination{load: load, width: width, expandAtLower: true}, ok
}

// bisect splits the interval between the bounds. A bound may be another goal's and far off: the middle then yields to a step from the bound towards
// the load to start from, where that is nearer.
func bisect(s *selector, now bounds) (nomination, bool) {
	width := s.target().width
	if !now.both() || now.upper-now.lower <= width {
		return nomination{}, false
	}
	load, step := middle(now.lower, now.upper, width), s.stepWidth()
	if s.upper != none && load < s.upper {
		down, ok := s.grid.place(now.upper-step, width, now)
		if ok && load < down && down < s.upper {
			return nomination{load: down, width: step, expandAtUpper: true}, true
		}
	}
	if s.lower != none && load > s.lower {
		up, ok := s.grid.place(now.lower+step, width, now)
		if ok && s.lower < up && up < load {
			return nomination{load: up, width: step, expandAtLower: true}, true
		}
	}
	part := min(load-now.lower, now.upper-load)
	s.stepAfter(part)
	return nomination{load: load, width: part}, true
}
