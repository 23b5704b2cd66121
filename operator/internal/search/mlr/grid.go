// SPDX-License-Identifier: Apache-2.0

package mlr

// This file answers: which loads can a trial have?

import (
	"errors"
	"math"
)

// A width is a whole number of grid units only by rounding down. These bound the rounded width as a share of the goal's: enough of it, and
// never so close to it that the error of a logarithm makes the result wider than the goal.
const (
	leastShare    = 0.99
	greatestShare = 0.999999
)

var errGrid = errors.New("no grid of loads fits the widths of the goals and the range of loads; make the least and the greatest width more alike, " +
	"or the range of loads wider than the widths")

// Grid is the loads a search can try: index 0 is the minimum load, index Top the maximum, and each load is the one below it times a constant.
// Widths are differences of indexes, so that halves and doubles of them are exact and trials at one load are known by its index.
type Grid struct {
	least, greatest float64 // pps
	log             float64 // ln(greatest / least)
	top             int
}

// newGrid returns the coarsest grid, or nearly, on which each relative width is almost a whole number of units.
func newGrid(least, greatest float64, widths []float64) (Grid, error) {
	grid := Grid{least: least, greatest: greatest, log: math.Log(greatest) - math.Log(least)}
	for top := 1.0; ; {
		next, fits := top+1, true
		for _, width := range widths {
			units := -math.Log1p(-width) / (grid.log / top)
			if !(units < 1/(1-greatestShare)) { // every share of more units is too great, and units only grow
				return Grid{}, errGrid
			}
			whole := math.Floor(units)
			if share := whole / units; share < leastShare || share > greatestShare {
				fits = false
				next = max(next, (whole+1)/greatestShare/units*top)
			}
		}
		if fits {
			grid.top = int(top)
			return grid, nil
		}
		if top = math.Ceil(next); top > 1<<40 {
			return Grid{}, errGrid
		}
	}
}

// Top is the index of the maximum load.
func (g Grid) Top() int { return g.top }

// Load returns the load of an index in pps. Indexes beyond the grid have the load of its end.
func (g Grid) Load(index int) float64 {
	switch {
	case index <= 0:
		return g.least
	case index >= g.top:
		return g.greatest
	}
	return g.least * math.Exp(g.log*(float64(index)/float64(g.top)))
}

// floor returns the index of the greatest load that does not exceed a load in pps; 0 if all do.
func (g Grid) floor(load float64) int {
	switch {
	case !(load > g.least):
		return 0
	case load >= g.greatest:
		return g.top
	}
	index := g.clamp(int((math.Log(load) - math.Log(g.least)) / g.log * float64(g.top)))
	for index > 0 && g.Load(index) > load {
		index--
	}
	for index < g.top && g.Load(index+1) <= load {
		index++
	}
	return index
}

// width returns the units of a relative width, rounded down, at least one.
func (g Grid) width(relative float64) int { return max(1, g.floor(g.least/(1-relative))) }

// clamp returns the nearest index of the grid.
func (g Grid) clamp(index int) int { return min(max(index, 0), g.top) }
