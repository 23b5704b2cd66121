// SPDX-License-Identifier: Apache-2.0

package mlr

// This file answers: where between the bounds is a load worth a trial?

// place moves a load away from what is known: at least a width from bounds, and onto the grid's end rather than within a width of it. It reports
// false where no load is left. A bound that does not exist is none.
func (g Grid) place(load, width int, b bounds) (int, bool) {
	low, high := 0, g.top
	if b.lower != none {
		low = b.lower
	}
	if b.upper != none {
		high = b.upper
	}
	load = g.clamp(load)
	if low >= high || b.excludes(load) {
		return 0, false
	}
	if high-low <= width {
		switch {
		case b.lower == none:
			return low, true
		case b.upper == none:
			return high, true
		}
		return 0, false
	}
	first, last := low+width, high-width
	if first > last {
		first = middle(low, high, width)
		last = first
	}
	switch {
	case load < first && b.lower == none:
		return low, true
	case load < first:
		return first, true
	case load > last && b.upper == none:
		return high, true
	case load > last:
		return last, true
	}
	return load, true
}

// middle splits an interval that is wider than a target's width. One part is the width times a power of two, so that later halves meet the width
// exactly; of such splits it is the most even one, with the smaller part below, because trials at lower loads are the likelier to pass.
func middle(low, high, width int) int {
	whole := high - low
	switch {
	case whole == 2*width:
		return low + width
	case whole < 2*width && width%2 == 0: // a later target may have half the width
		return middle(low, high, width/2)
	case whole < 2*width:
		return low + whole/2
	}
	part := width
	for whole-2*part > 2*part {
		part *= 2
	}
	// In one split, part is below; in the other, twice the part is above, as much as half of the interval or more.
	if whole-2*part < 4*part-whole {
		return low + part
	}
	return low + whole - 2*part
}
