// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how do the times without an arrival at each engine become the outage of a stream or template?

import (
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// span is a time in nanoseconds since the measured phase began.
type span struct{ from, to uint64 }

func (s span) length() uint64 {
	if s.to <= s.from {
		return 0
	}
	return s.to - s.from
}

// outageOf combines what engines report of one stream or side; nil if none reports any. Nothing of the whole arrived while all of them had
// a gap. A time that is missing in the reports is no longer than the greatest UnlistedNs.
func outageOf(reports []*enginev1.Outage) *spatev1.Outage {
	all := slices.DeleteFunc(slices.Clone(reports), func(o *enginev1.Outage) bool { return o == nil })
	if len(all) == 0 {
		return nil
	}
	longest, unlisted := span{all[0].OffsetNs, all[0].OffsetNs + all[0].LongestNs}, all[0].UnlistedNs
	if len(all) > 1 {
		longest, unlisted = ofSeveral(all)
	}
	out := &spatev1.Outage{Longest: nanoseconds(longest.length()), Offset: nanoseconds(longest.from)}
	if unlisted > longest.length() {
		certain := out.Longest
		out.AtLeast, out.Longest = &certain, nanoseconds(unlisted)
	}
	if longest.length() > 0 {
		out.At = &metav1.MicroTime{Time: time.Unix(0, all[0].PhaseBeganAtNs+int64(out.Offset)).UTC()}
	}
	return out
}

// ofSeveral returns the longest time in which nothing arrived at any engine although one of them sent, and up to what length others may be
// missing.
func ofSeveral(all []*enginev1.Outage) (longest span, unlisted uint64) {
	silent := []span{{0, math.MaxUint64}}
	sent, delay := span{math.MaxUint64, 0}, uint64(0)
	for _, o := range all {
		var gaps []span
		for _, gap := range o.Gaps {
			gaps = append(gaps, span{gap.FromNs, gap.ToNs})
		}
		silent, unlisted = intersection(silent, gaps), max(unlisted, o.UnlistedNs)
		if d := o.LeastDelayNs; d > 0 && (delay == 0 || d < delay) {
			delay = d
		}
		if o.Sent != nil {
			sent.from, sent.to = min(sent.from, o.Sent.FromNs), max(sent.to, o.Sent.ToNs)
		}
	}
	if sent.length() == 0 {
		return span{}, 0
	}
	sent.from, sent.to = sent.from+delay, sent.to+delay
	for _, s := range intersection(silent, []span{sent}) {
		if s.length() > longest.length() {
			longest = s
		}
	}
	return longest, min(unlisted, sent.length())
}

// intersection returns what is in spans of both, which are in ascending order and do not overlap.
func intersection(a, b []span) (both []span) {
	for len(a) > 0 && len(b) > 0 {
		s := span{max(a[0].from, b[0].from), min(a[0].to, b[0].to)}
		if s.length() > 0 {
			both = append(both, s)
		}
		if a[0].to <= b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return both
}
