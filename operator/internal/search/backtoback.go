// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: how long a burst does a device buffer? (RFC 9004, which replaces RFC 2544 section 26.4)

import (
	"errors"
	"math"
)

// BackToBack is a search for the longest burst at the maximum load that loses nothing. It applies to packets whose throughput is below that load.
type BackToBack struct {
	// Max is the maximum load of an interface for these packets, in pps: the line rate.
	Max float64
	// Throughput is what the device forwards of it without loss, in pps.
	Throughput float64
	// Longest is the duration of the longest burst, in seconds.
	Longest float64
	// Resolution is the difference of two bursts that is not distinguished, in packets.
	Resolution int64
	// Repeats is the number of searches, of which the mean is taken (RFC 2544: 50).
	Repeats int
	Options
}

// BackToBackResult is the result of such a search. Lengths are in packets.
type BackToBackResult struct {
	// Bursts are the longest bursts without loss, by repeat.
	Bursts []int64
	// Mean, Least, Greatest and Deviation (the standard deviation) of Bursts.
	Mean, Deviation float64
	Least, Greatest int64
	// BufferTime is the mean burst's duration in seconds, CorrectedBufferTime the share of it that is due to the buffer: the device forwards at its
	// throughput while the burst lasts (RFC 9004 section 5.5).
	BufferTime, CorrectedBufferTime float64
	// Reason is Found; MaxLoadPasses, if the longest burst loses nothing or the throughput is the maximum load; MinLoadFails, if the shortest burst
	// loses packets; GeneratorLimited or BudgetExhausted.
	Reason Reason
}

// NewBackToBack returns the test. An error joins a FieldError for each value that is refused.
func NewBackToBack(b BackToBack) (Method, error) {
	errs := []error{b.problems(b.Longest), checkMax(b.Max)}
	if !isLoad(b.Throughput) {
		errs = append(errs, refused("throughput", "%v per second is no throughput; give that of a goal with loss ratio 0, which must have a lower bound", b.Throughput))
	}
	if !isDuration(b.Longest) {
		errs = append(errs, refused("backToBack.longest", "%v s is no duration; give one above 0, as 2s", b.Longest))
	}
	if b.Resolution < 1 {
		errs = append(errs, refused("backToBack.resolution", "%d is no number of packets; give 1 or more", b.Resolution))
	}
	if b.Repeats < 1 {
		errs = append(errs, refused("backToBack.repeats", "%d is no number of searches; give 1 or more (RFC 2544: 50)", b.Repeats))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	units := math.Floor(b.Max * b.Longest / float64(b.Resolution))
	if !(units >= 1 && units < 1<<52) || float64(b.Resolution) > 1<<52 {
		return nil, refused("backToBack.longest", "%v s at %v per second is %v times resolution, %d packets; give a duration with at least one of these, or a finer resolution",
			b.Longest, b.Max, units, b.Resolution)
	}
	return replayed{b.Options, func() progress { return &backToBack{test: b, bracket: newBracket(int64(units))} }}, nil
}

// bracket is one search over lengths from 1 to longest, in units of the resolution: 0 passes, as it sends nothing.
type bracket struct {
	longest   int64
	low, high int64 // the longest that passed and the shortest that failed; -1 and longest+1 if none did
	step      int64 // of the next trial while one of both is missing
	guess     int64 // the length to start at
}

// newBracket bisects from the longest burst on.
func newBracket(longest int64) bracket {
	return bracket{longest: longest, low: 0, high: longest + 1, step: 1, guess: longest}
}

// again starts at the length that was found before: as a rule, two trials show that it is still right.
func (b bracket) again() bracket {
	return bracket{longest: b.longest, low: -1, high: b.longest + 1, step: 1, guess: max(b.low, 1)}
}

// next returns the next length, or false if the search is at its end.
func (b bracket) next() (int64, bool) {
	lowKnown, highKnown := b.low >= 0, b.high <= b.longest
	switch {
	case !highKnown && b.low == b.longest, b.high == 1, lowKnown && highKnown && b.high-b.low <= 1:
		return 0, false
	case !highKnown && b.low <= 0:
		return b.guess, true
	case !highKnown:
		return min(b.low+b.step, b.longest), true
	case !lowKnown:
		return max(b.high-b.step, 1), true
	}
	return b.low + (b.high-b.low)/2, true
}

func (b *bracket) add(length int64, passes bool) {
	if b.low > 0 || b.high <= b.longest { // not the first trial
		b.step *= 2
	}
	if passes {
		b.low = length
	} else {
		b.high = length
	}
	if b.high == 1 {
		b.low = 0
	}
}

type backToBack struct {
	test    BackToBack
	bracket bracket
	bursts  []int64 // in units
	limited bool    // by the generator
}

// applies: a device that forwards the maximum load buffers a burst of any length.
func (b *backToBack) applies() bool { return b.test.Throughput < b.test.Max }

func (b *backToBack) next() (Input, bool) {
	if !b.applies() || len(b.bursts) == b.test.Repeats {
		return Input{}, false
	}
	units, _ := b.bracket.next()
	packets := units * b.test.Resolution
	return Input{Load: b.test.Max, Duration: float64(packets) / b.test.Max, Packets: packets}, true
}

func (b *backToBack) add(t Trial) {
	b.limited = b.limited || t.generatorLimited(0)
	b.bracket.add(t.Packets/b.test.Resolution, t.LossRatio() == 0)
	if _, more := b.bracket.next(); !more {
		b.bursts = append(b.bursts, b.bracket.low)
		b.bracket = b.bracket.again()
	}
}

func (b *backToBack) result(cut bool) Result {
	r := BackToBackResult{Reason: Found}
	for i, units := range b.bursts {
		burst := units * b.test.Resolution
		r.Bursts = append(r.Bursts, burst)
		r.Mean += float64(burst)
		if r.Greatest = max(r.Greatest, burst); i == 0 || burst < r.Least {
			r.Least = burst
		}
	}
	if n := len(r.Bursts); n > 0 {
		r.Mean /= float64(n)
	}
	for _, burst := range r.Bursts {
		r.Deviation += (float64(burst) - r.Mean) * (float64(burst) - r.Mean)
	}
	if n := len(r.Bursts); n > 1 {
		r.Deviation = math.Sqrt(r.Deviation / float64(n-1))
	}
	r.BufferTime = r.Mean / b.test.Max
	r.CorrectedBufferTime = r.BufferTime * max(0, 1-b.test.Throughput/b.test.Max)
	switch longest := b.bracket.longest * b.test.Resolution; {
	case cut:
		r.Reason = BudgetExhausted
	case !b.applies() || r.Greatest == longest:
		r.Reason = MaxLoadPasses
	case b.limited:
		r.Reason = GeneratorLimited
	case r.Least == 0:
		r.Reason = MinLoadFails
	}
	return Result{BackToBack: &r, Reason: r.Reason}
}
