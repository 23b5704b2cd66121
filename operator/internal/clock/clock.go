// SPDX-License-Identifier: Apache-2.0

// Package clock computes how a clock stands to a reference clock from exchanges of time stamps between them, with a bound that holds
// whatever the network does. It reads no clock and sends nothing. docs/clocks.md has the derivation.
package clock

// This file answers: what does one exchange prove, and what do all of them?

import (
	"fmt"
	"math/bits"
	"time"
)

// Exchange is the four time stamps of a call, in nanoseconds (RFC 5905 section 8).
type Exchange struct {
	// Origin is when the request left, by the reference clock (T1).
	Origin int64
	// Receive is when the request had arrived, by the other clock (T2).
	Receive int64
	// Transmit is when the response left, by the other clock (T3).
	Transmit int64
	// Destination is when the response had arrived, by the reference clock (T4).
	Destination int64
}

// Offset is an interval that contains a clock minus the reference clock, in nanoseconds.
type Offset struct {
	Least, Greatest int64
	// At is the instant of the reference clock at which it does.
	At int64
}

// Middle of the interval.
func (o Offset) Middle() int64 { return o.Least + (o.Greatest-o.Least)/2 }

// Bound is the greatest error of Middle.
func (o Offset) Bound() time.Duration { return time.Duration(o.Greatest - o.Middle()) }

// Plus returns the interval for a clock that is ahead of this one by some nanoseconds.
func (o Offset) Plus(ns int64) Offset {
	return Offset{Least: o.Least + ns, Greatest: o.Greatest + ns, At: o.At}
}

// After returns the interval at another instant, if the clocks drift apart by at most driftPPB nanoseconds a second.
func (o Offset) After(at int64, driftPPB int64) Offset {
	grown := drifted(at-o.At, driftPPB)
	return Offset{Least: o.Least - grown, Greatest: o.Greatest + grown, At: at}
}

// Contains reports whether another interval is within this one.
func (o Offset) Contains(other Offset) bool {
	return o.Least <= other.Least && other.Greatest <= o.Greatest
}

// maxDrift is the maximum of drifted: 36 years.
const maxDrift = 1 << 60

// drifted is the greatest change of an offset in a time, rounded up.
func drifted(ns, driftPPB int64) int64 {
	const billion = 1_000_000_000
	if ns < 0 {
		ns = -ns
	}
	high, low := bits.Mul64(uint64(ns), uint64(driftPPB))
	if high >= billion {
		return maxDrift
	}
	whole, rest := bits.Div64(high, low, billion)
	if rest > 0 {
		whole++
	}
	return int64(min(whole, maxDrift))
}

// limit of time stamps, 73 years: differences of two, widened, do not overflow.
const limit = 1 << 61

// Offset returns what the exchange alone proves at its Destination. The request arrived after it had left, so that the clock was ahead by at
// most Receive - Origin; the response too, so that it was ahead by at least Transmit - Destination. Neither depends on how the round trip was
// divided. Each is true at some instant of the exchange, hence the drift.
func (e Exchange) Offset(driftPPB int64) (Offset, error) {
	for _, stamp := range []int64{e.Origin, e.Receive, e.Transmit, e.Destination} {
		if stamp <= -limit || stamp >= limit {
			return Offset{}, fmt.Errorf("time stamp %d is out of range", stamp)
		}
	}
	grown := drifted(e.Destination-e.Origin, driftPPB)
	o := Offset{Least: e.Transmit - e.Destination - grown, Greatest: e.Receive - e.Origin + grown, At: e.Destination}
	if e.Destination < e.Origin || e.Transmit < e.Receive || o.Least > o.Greatest {
		return Offset{}, fmt.Errorf("time stamps contradict each other: the response left %d ns after the request had arrived, and was back %d ns after the request had left",
			e.Transmit-e.Receive, e.Destination-e.Origin)
	}
	return o, nil
}

// Filter combines exchanges: the clock is where all of them say, so that those with the shortest ways in each direction decide. Older ones
// are worth less by what the clocks may have drifted since. The zero value knows nothing.
type Filter struct {
	known  bool
	offset Offset
	drift  int64
}

// Add takes the next exchange with a clock that drifts by at most driftPPB nanoseconds a second. If the clock cannot be where earlier
// exchanges say, it was set, or drifted faster: the filter forgets them, and stepped is true. An error is that of the exchange, which
// is ignored.
func (f *Filter) Add(e Exchange, driftPPB int64) (stepped bool, err error) {
	latest, err := e.Offset(driftPPB)
	if err != nil {
		return false, err
	}
	if f.known {
		before := f.offset.After(latest.At, max(f.drift, driftPPB))
		both := Offset{Least: max(before.Least, latest.Least), Greatest: min(before.Greatest, latest.Greatest), At: latest.At}
		if stepped = both.Least > both.Greatest; !stepped {
			latest = both
		}
	}
	f.known, f.offset, f.drift = true, latest, driftPPB
	return stepped, nil
}

// At returns where the clock is at an instant of the reference clock; false if nothing is known.
func (f *Filter) At(at int64) (Offset, bool) {
	return f.offset.After(at, f.drift), f.known
}
