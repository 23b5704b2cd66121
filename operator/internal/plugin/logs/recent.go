// SPDX-License-Identifier: Apache-2.0

package logs

// This file answers: which are the last lines that a log has about its target?

import "slices"

// recent keeps the last lines that are added, at most limit of them.
type recent struct {
	limit int64
	lines []line
	// oldest is the index of the earliest line when there are limit of them.
	oldest int
}

func (r *recent) add(l line) {
	switch {
	case r.limit == 0:
	case int64(len(r.lines)) < r.limit:
		r.lines = append(r.lines, l)
	default:
		r.lines[r.oldest] = l
		r.oldest = (r.oldest + 1) % len(r.lines)
	}
}

// inOrder returns the lines in the order in which they were added; none of nil.
func (r *recent) inOrder() []line {
	if r == nil {
		return nil
	}
	return slices.Concat(r.lines[r.oldest:], r.lines[:r.oldest])
}
