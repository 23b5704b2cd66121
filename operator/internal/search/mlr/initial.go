// SPDX-License-Identifier: Apache-2.0

package mlr

// This file answers: which trials come first, when nothing is known?

import "math"

// opening is what the goals have in common for the first trials.
type opening struct {
	loss     float64 // the least loss ratio
	duration float64 // the longest initial duration, in seconds
	width    int     // the greatest width of a coarsest target
}

func openingOf(goals [][]*target) opening {
	o := opening{loss: math.Inf(1)}
	for _, targets := range goals {
		first := targets[0]
		o = opening{min(o.loss, first.loss), max(o.duration, first.trial), max(o.width, first.width)}
	}
	return o
}

// shot is an initial trial: its load and its loss ratio.
type shot struct {
	load int
	loss float64
}

// next returns the load of the next initial trial, or the two loads that the goals start from. The first trial is at the maximum load, the second
// one at the rate that the device forwarded then, the third one beside that: a device that forwards as much as it can under any load is then between
// two loads that are a width apart.
func (o opening) next(grid Grid, shots []shot) (load int, more bool, lower, upper int) {
	switch len(shots) {
	case 0:
		return grid.top, true, 0, 0
	case 1:
		if rate := o.forwarded(grid, shots[0]); rate < grid.top {
			load, more = grid.place(rate, o.width, bounds{lower: none, upper: grid.top})
			return load, more, grid.top, grid.top
		}
		return 0, false, grid.top, grid.top
	case 2:
		last := shots[1]
		if last.loss > o.loss {
			load, more = grid.place(o.forwarded(grid, last), o.width, bounds{lower: none, upper: last.load})
		} else {
			load, more = grid.place(last.load+o.width, o.width, bounds{lower: last.load, upper: grid.top})
		}
		return load, more, last.load, last.load
	}
	return 0, false, min(shots[1].load, shots[2].load), max(shots[1].load, shots[2].load)
}

// forwarded is the highest load with the rate that was forwarded, plus the loss that is allowed.
func (o opening) forwarded(grid Grid, s shot) int {
	return grid.floor(grid.Load(s.load) * (1 - s.loss) * (1 / (1 - o.loss)))
}
