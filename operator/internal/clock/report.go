// SPDX-License-Identifier: Apache-2.0

package clock

// This file answers: how are an offset and an error reported, so that what is reported is true and seldom changes?

import "time"

// Report is an offset for people: a clock is ahead of the reference by Offset, with an error of at most Bound.
type Report struct {
	Offset, Bound time.Duration
}

const (
	// slack is how much coarser than measured an offset is reported, so that a drifting clock or a slower exchange seldom changes the report.
	slack = 4
	// finest is the smallest measured bound that makes a difference to what is reported.
	finest = 100 * time.Microsecond
)

// ReportOf returns the report of an offset: the one before, while that is true and not much coarser than what is known now.
func ReportOf(before *Report, now Offset) Report {
	measured := max(now.Bound(), finest)
	if before != nil && before.holds(now) && before.Bound <= 4*slack*measured {
		return *before
	}
	bound := roundUp(slack * measured)
	step := int64(bound) / 10
	return Report{Offset: time.Duration(now.Middle() / step * step), Bound: bound}
}

// BoundOf returns the bound to report of an error that is at most now: the one before, while that is true and not much coarser than what is
// known now.
func BoundOf(before, now time.Duration) time.Duration {
	if before >= now && before <= 4*slack*now {
		return before
	}
	return roundUp(2 * now)
}

func (r Report) holds(now Offset) bool {
	reported := Offset{Least: int64(r.Offset - r.Bound), Greatest: int64(r.Offset + r.Bound)}
	return reported.Contains(now)
}

// roundUp to 1, 2 or 5 times a power of ten.
func roundUp(d time.Duration) time.Duration {
	for unit := time.Duration(10); ; unit *= 10 {
		for _, rounded := range []time.Duration{unit, 2 * unit, 5 * unit} {
			if d <= rounded {
				return rounded
			}
		}
	}
}
