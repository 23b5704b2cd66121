// SPDX-License-Identifier: Apache-2.0

package run

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

func gapsOf(pairs ...uint64) (all []*enginev1.ArrivalGap) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, &enginev1.ArrivalGap{FromNs: pairs[i], ToNs: pairs[i+1]})
	}
	return all
}

func TestOutageIsTheLongestTimeInWhichAllEnginesHaveAGap(t *testing.T) {
	sent := &enginev1.ArrivalGap{FromNs: 0, ToNs: 10_000}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	certain := spatev1.MeasuredTime(100)
	none := spatev1.MeasuredTime(0)
	for name, c := range map[string]struct {
		reports      []*enginev1.Outage
		want, offset int64
		atLeast      *spatev1.MeasuredTime
	}{
		"one engine":                {[]*enginev1.Outage{nil, {LongestNs: 700, OffsetNs: 40}}, 700, 40, nil},
		"one engine, not exact":     {[]*enginev1.Outage{{LongestNs: 100, OffsetNs: 40, UnlistedNs: 900}}, 900, 40, &certain},
		"part of both gaps":         {[]*enginev1.Outage{{Gaps: gapsOf(100, 500, 1000, 4000), Sent: sent}, {Gaps: gapsOf(300, 400, 3500, 9000), Sent: sent}}, 500, 3500, nil},
		"one received all the time": {[]*enginev1.Outage{{Gaps: gapsOf(0, 10_000), Sent: sent}, {Sent: sent}}, 0, 0, nil},
		"one only sends":            {[]*enginev1.Outage{{Gaps: gapsOf(0, 20_000), Sent: sent}, {Gaps: gapsOf(50, 60, 700, 900)}}, 200, 700, nil},
		"after the last packet":     {[]*enginev1.Outage{{Gaps: gapsOf(0, 300, 8000, 20_000), Sent: sent}, {Gaps: gapsOf(0, 20_000)}}, 2000, 8000, nil},
		"less the path's delay":     {[]*enginev1.Outage{{Gaps: gapsOf(0, 500, 10_400, 20_000), Sent: sent, LeastDelayNs: 490}, {Gaps: gapsOf(0, 20_000)}}, 90, 10_400, nil},
		"gaps that are not listed":  {[]*enginev1.Outage{{Gaps: gapsOf(100, 200), Sent: sent, UnlistedNs: 90}, {Gaps: gapsOf(0, 9000), UnlistedNs: 2000}}, 2000, 100, &certain},
		"none that is certain":      {[]*enginev1.Outage{{Sent: sent, UnlistedNs: 90}, {Sent: sent}}, 90, 0, &none},
		"nothing sent":              {[]*enginev1.Outage{{Gaps: gapsOf(0, 9000)}, {Gaps: gapsOf(0, 9000)}}, 0, 0, nil},
	} {
		for _, r := range c.reports {
			if r != nil {
				r.PhaseBeganAtNs = began.UnixNano()
			}
		}
		got := outageOf(c.reports)
		if int64(got.Longest) != c.want || int64(got.Offset) != c.offset {
			t.Errorf("%s: %d from %d on, want %d from %d on", name, got.Longest, got.Offset, c.want, c.offset)
		}
		if (got.AtLeast == nil) != (c.atLeast == nil) || got.AtLeast != nil && *got.AtLeast != *c.atLeast {
			t.Errorf("%s: certain is %v, want %v", name, got.AtLeast, c.atLeast)
		}
		if got.At != nil && got.At.Sub(began) != time.Duration(c.offset) {
			t.Errorf("%s: it began at %s", name, got.At)
		}
	}
	if got := outageOf([]*enginev1.Outage{nil}); got != nil {
		t.Errorf("nothing is reported, and the outage is %v", got)
	}
}

// Arrivals at random at several engines: the whole has the longest time between two of all arrivals.
func TestOutageOfSeveralEnginesIsThatOfAllArrivals(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		const end = 100_000
		var all []uint64
		var reports []*enginev1.Outage
		for range 2 + random.IntN(4) {
			arrivals := make([]uint64, random.IntN(60))
			for i := range arrivals {
				arrivals[i] = random.Uint64N(end)
			}
			all = append(all, arrivals...)
			at := slices.Concat([]uint64{0, end}, arrivals)
			slices.Sort(at)
			report := &enginev1.Outage{Sent: &enginev1.ArrivalGap{FromNs: 0, ToNs: end}}
			for i, to := range at[1:] {
				if to > at[i] {
					report.Gaps = append(report.Gaps, &enginev1.ArrivalGap{FromNs: at[i], ToNs: to})
				}
			}
			reports = append(reports, report)
		}
		at := slices.Concat(all, []uint64{0, end})
		slices.Sort(at)
		want := uint64(0)
		for i, to := range at[1:] {
			want = max(want, to-at[i])
		}
		if got := outageOf(reports); uint64(got.Longest) != want || got.AtLeast != nil {
			t.Fatalf("%d (certain %v), want %d of %v", got.Longest, got.AtLeast, want, at)
		}
	}
}
