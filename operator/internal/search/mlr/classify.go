// SPDX-License-Identifier: Apache-2.0

package mlr

// This file answers: is a load a lower bound, an upper bound, or not decided yet? (RFC 9971 section 6.1 and appendix A)

// Class is what the trials at a load make of it.
type Class int

// Classes of a load.
const (
	Undecided Class = iota
	Lower
	Upper
)

func (c Class) String() string { return [...]string{"Undecided", "Lower", "Upper"}[c] }

// sums are the durations of the trials at a load, in seconds, by length and loss: full-length trials have at least the duration that the target
// asks for, high-loss trials a loss ratio above the target's.
type sums struct{ fullLow, fullHigh, shortLow, shortHigh float64 }

func (s *sums) add(duration float64, full, high bool) {
	switch {
	case full && high:
		s.fullHigh += duration
	case full:
		s.fullLow += duration
	case high:
		s.shortHigh += duration
	default:
		s.shortLow += duration
	}
}

// classify decides as if the time that is missing to the duration sum were all low-loss, and as if it were all high-loss: where both agree, no
// further trial is needed. Short trials count only as far as more of them are high-loss than the exceed ratio lets pass.
func (s sums) classify(exceed, durationSum float64) Class {
	balance := s.shortLow * exceed / (1 - exceed)
	high := s.fullHigh + max(0, s.shortHigh-balance)
	whole := max(s.fullLow+high, durationSum)
	allowed := whole * exceed
	lowerAtBest, lowerAtWorst := high <= allowed, whole-s.fullLow <= allowed
	switch {
	case lowerAtBest != lowerAtWorst:
		return Undecided
	case lowerAtBest:
		return Lower
	}
	return Upper
}
