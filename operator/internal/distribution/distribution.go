// SPDX-License-Identifier: Apache-2.0

// Package distribution merges the histograms of durations that several engines send, and computes percentiles of the sum.
package distribution

// This file answers: which duration is a percentile of what several engines counted? The arithmetic is the engine's
// (engine/stats/src/histogram.rs, described at Distribution in engine.proto), so the percentiles are those that one engine would have
// reported if it had counted everything.

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"spate.dev/operator/internal/engine/enginev1"
)

const (
	// maxPrecision is the engine's highest: cells of a thousandth of their values.
	maxPrecision = 10
	// durationBits bounds durations: no histogram of an engine has cells from 2^47 ns, 39 h, on.
	durationBits = 47
)

// Distribution has the counts of durations by cell. The zero value has none.
type Distribution struct {
	precision uint32
	cells     []cell // by index, each index once
	total     uint64
}

// cell has the count of the durations between two bounds, which its index and the precision define.
type cell struct {
	index uint32
	count uint64
}

// Merge adds up the counts of several engines, at the lowest precision of theirs. It returns false if one of them is absent, as from an
// older engine, or malformed. Counts that are too large for 64 bits become the greatest number.
func Merge(parts []*enginev1.Distribution) (Distribution, bool) {
	merged := Distribution{precision: maxPrecision}
	for _, part := range parts {
		if part == nil {
			return Distribution{}, false
		}
		merged.precision = min(merged.precision, part.GetPrecisionBits())
	}
	for _, part := range parts {
		if !merged.append(part) {
			return Distribution{}, false
		}
	}
	slices.SortFunc(merged.cells, func(a, b cell) int { return cmp.Compare(a.index, b.index) })
	joined := merged.cells[:0]
	for _, c := range merged.cells {
		merged.total = sum(merged.total, c.count)
		if at := len(joined) - 1; at >= 0 && joined[at].index == c.index {
			joined[at].count = sum(joined[at].count, c.count)
		} else {
			joined = append(joined, c)
		}
	}
	merged.cells = joined
	return merged, true
}

// Between returns what an engine counted after an earlier answer of it. It returns false if an answer is absent or malformed, or the later one
// has counted less.
func Between(earlier, later *enginev1.Distribution) (Distribution, bool) {
	if earlier == nil {
		return Merge([]*enginev1.Distribution{later})
	}
	precision := min(earlier.GetPrecisionBits(), later.GetPrecisionBits())
	bounded := &enginev1.Distribution{PrecisionBits: precision}
	before, ok := Merge([]*enginev1.Distribution{earlier, bounded})
	after, ok2 := Merge([]*enginev1.Distribution{later, bounded})
	if !ok || !ok2 || later == nil {
		return Distribution{}, false
	}
	counts := make(map[uint32]uint64, len(before.cells))
	for _, c := range before.cells {
		counts[c.index] = c.count
	}
	between := Distribution{precision: precision}
	for _, c := range after.cells {
		if counts[c.index] > c.count {
			return Distribution{}, false
		}
		if n := c.count - counts[c.index]; n > 0 {
			between.cells, between.total = append(between.cells, cell{c.index, n}), sum(between.total, n)
		}
		delete(counts, c.index)
	}
	return between, len(counts) == 0
}

// Bounds returns the bounds of all durations, exact to the width of a cell; 0 if nothing was counted.
func (d Distribution) Bounds() (least, greatest uint64) {
	if len(d.cells) == 0 {
		return 0, 0
	}
	if first := d.cells[0].index; first > 0 {
		least = last(first-1, d.precision) + 1
	}
	return least, last(d.cells[len(d.cells)-1].index, d.precision)
}

// Message returns the distribution as an engine sends it.
func (d Distribution) Message() *enginev1.Distribution {
	m := &enginev1.Distribution{PrecisionBits: d.precision}
	before := uint32(0)
	for _, c := range d.cells {
		m.Cells, m.Counts = append(m.Cells, c.index-before), append(m.Counts, c.count)
		before = c.index
	}
	return m
}

// append adds an engine's cells. It returns false if their indices are not ascending, or are not those of cells.
func (d *Distribution) append(part *enginev1.Distribution) bool {
	precision, counts := part.GetPrecisionBits(), part.GetCounts()
	if precision > maxPrecision || len(part.GetCells()) != len(counts) {
		return false
	}
	index, end := uint64(0), uint64(durationBits+1-precision)<<precision
	for i, ahead := range part.GetCells() {
		index += uint64(ahead)
		if index >= end || ahead == 0 && i > 0 {
			return false
		}
		d.cells = append(d.cells, cell{coarser(uint32(index), precision, d.precision), counts[i]})
	}
	return true
}

// coarser returns the cell of a lower precision that a cell is in.
func coarser(index, precision, lower uint32) uint32 {
	for ; precision > lower; precision-- {
		if index >= 1<<precision {
			index = index/2 + 1<<(precision-1)
		}
	}
	return index
}

// Quantile returns the shortest duration, in nanoseconds, that at least `partsPerMillion` of all are no longer than, or the greatest
// duration that counts in the same cell; 0 if nothing was counted.
func (d Distribution) Quantile(partsPerMillion uint32) uint64 {
	const million = 1_000_000
	high, low := bits.Mul64(d.total, uint64(min(partsPerMillion, million)))
	low, carry := bits.Add64(low, million-1, 0)
	rank, _ := bits.Div64(high+carry, low, million) // rounded up; no more than the total
	rank = max(rank, 1)
	seen := uint64(0)
	for _, c := range d.cells {
		if seen = sum(seen, c.count); seen >= rank {
			return last(c.index, d.precision)
		}
	}
	return 0
}

// last returns the longest duration that counts in a cell.
func last(index, precision uint32) uint64 {
	if index < 2<<precision {
		return uint64(index)
	}
	shift := index>>precision - 1
	return uint64(index-shift<<precision+1)<<shift - 1
}

// sum is the greatest number if the sum is greater.
func sum(a, b uint64) uint64 {
	total, carry := bits.Add64(a, b, 0)
	if carry > 0 {
		return math.MaxUint64
	}
	return total
}
