// SPDX-License-Identifier: Apache-2.0

package mlr

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func TestWidthsAreAlmostWholeUnits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(least, greatest float64) float64 {
		return least * math.Exp(random.Float64()*math.Log(greatest/least))
	}
	for range 2000 {
		least := draw(1, 1e6)
		greatest := least * draw(1.1, 1e5)
		widths := []float64{draw(1e-3, 0.5), draw(1e-3, 0.5), draw(1e-3, 0.5)}
		grid, err := newGrid(least, greatest, widths)
		if err != nil {
			t.Fatalf("%v to %v, widths %v: %v", least, greatest, widths, err)
		}
		for _, width := range widths {
			units := grid.width(width)
			if got := -math.Expm1(-grid.log / float64(grid.top) * float64(units)); got > width || units < grid.top && got < 0.98*width {
				t.Fatalf("%v to %v, widths %v: %d units are %v, want %v", least, greatest, widths, units, got, width)
			}
		}
	}
}

func TestLoadsOfTheGridAreTheirOwnFloor(t *testing.T) {
	grid, err := newGrid(9001, 14.88e6, []float64{0.005, 0.0123})
	if err != nil {
		t.Fatal(err)
	}
	if grid.Load(0) != 9001 || grid.Load(grid.Top()) != 14.88e6 || grid.Load(-1) != 9001 || grid.Load(grid.Top()+1) != 14.88e6 {
		t.Error("the ends are not the limits")
	}
	for index := range grid.Top() {
		load := grid.Load(index)
		if got := grid.floor(load); got != index {
			t.Fatalf("floor of load %d is %d", index, got)
		}
		if got := grid.floor(math.Nextafter(grid.Load(index+1), 0)); got != index {
			t.Fatalf("floor just below load %d is %d", index+1, got)
		}
	}
	if grid.floor(0) != 0 || grid.floor(math.NaN()) != 0 || grid.floor(math.Inf(1)) != grid.Top() {
		t.Error("loads outside of the grid are not its ends")
	}
}

func TestWidthsThatNoGridHasAreRefused(t *testing.T) {
	for _, widths := range [][]float64{{0.9, 1e-6}, {0.5}} {
		if _, err := newGrid(1000, 1000.0001, widths); !errors.Is(err, errGrid) {
			t.Errorf("widths %v: got %v", widths, err)
		}
	}
}

func TestPowersAreRoundedToTheNearest(t *testing.T) {
	for _, c := range []struct{ base, exponent, want float64 }{
		{8, 1.0 / 3, 2}, {0.125, 1.0 / 3, 0.5}, {1, 0.3, 1}, {0.5, 10, 1.0 / 1024}, {2, 0.5, math.Sqrt2}, {1e-9, 1, 1e-9},
		{0.38076042824150325, 2, 0.14497850371465296}, // 0.14497850371465293 by glibc 2.36
	} {
		if got := power(c.base, c.exponent); got != c.want {
			t.Errorf("%v^%v: got %v, want %v", c.base, c.exponent, got, c.want)
		}
	}
}

func TestTheMiddleLeavesPowersOfTheWidth(t *testing.T) {
	for width := 1; width < 40; width++ {
		for whole := width + 1; whole < 2000; whole++ {
			mid := middle(0, whole, width)
			if mid <= 0 || mid > whole/2 {
				t.Fatalf("%d of %d: %d is not in the lower half", width, whole, mid)
			}
			if whole >= 2*width && !isWidthTimesPower(mid, width) && !isWidthTimesPower(whole-mid, width) {
				t.Fatalf("%d of %d: no part of %d and %d is the width times a power of two", width, whole, mid, whole-mid)
			}
		}
	}
}

func isWidthTimesPower(part, width int) bool {
	times := part / width
	return part%width == 0 && times&(times-1) == 0
}

func TestLoadsStayAwayFromBounds(t *testing.T) {
	grid := Grid{top: 100}
	for _, c := range []struct {
		load, width int
		bounds      bounds
		want        int
		ok          bool
	}{
		{50, 10, bounds{none, 100}, 50, true},
		{95, 10, bounds{none, 100}, 90, true},
		{5, 10, bounds{none, 100}, 0, true},
		{-20, 10, bounds{none, 100}, 0, true},
		{100, 10, bounds{none, 100}, 0, false},
		{50, 10, bounds{none, 0}, 0, false},
		{5, 10, bounds{none, 8}, 0, true},
		{50, 10, bounds{0, none}, 50, true},
		{95, 10, bounds{0, none}, 100, true},
		{300, 10, bounds{0, none}, 100, true},
		{97, 10, bounds{95, none}, 100, true},
		{50, 10, bounds{100, none}, 0, false},
		{22, 10, bounds{20, 60}, 30, true},
		{59, 10, bounds{20, 60}, 50, true},
		{60, 10, bounds{20, 60}, 0, false},
		{25, 10, bounds{20, 30}, 0, false},
		{21, 10, bounds{20, 35}, 25, true},
	} {
		if got, ok := grid.place(c.load, c.width, c.bounds); got != c.want || ok != c.ok {
			t.Errorf("%+v: got %d %v", c, got, ok)
		}
	}
}
