// SPDX-License-Identifier: Apache-2.0

package top

// This file answers: what have the engines counted, and at what rate does it grow?

import (
	"cmp"
	"math"
	"slices"
	"time"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/live/livev1"
)

// source is an engine that executes a run.
type source struct{ run, pod string }

// readings are the last two of a source; previous is nil after the first.
type readings struct {
	source
	ports             []*enginev1.PortInfo
	previous, current *enginev1.WatchStatsResponse
	omitted           uint32
	// ticks since the reading, one a second.
	ticks int
}

// staleAfter is the number of ticks after which rates of a source are unknown.
const staleAfter = 5

// board has the readings of all sources.
type board struct {
	sources []*readings // by run and pod
}

// add puts a reading in place of the one before.
func (b *board) add(from source, answer *livev1.WatchStatsResponse) {
	at, found := slices.BinarySearchFunc(b.sources, from, func(r *readings, s source) int {
		return cmp.Or(cmp.Compare(r.run, s.run), cmp.Compare(r.pod, s.pod))
	})
	if !found {
		b.sources = slices.Insert(b.sources, at, &readings{source: from})
	}
	r := b.sources[at]
	r.previous, r.current, r.omitted, r.ticks = r.current, answer.GetEngine(), answer.GetOmitted(), 0
	if len(answer.GetPorts()) > 0 {
		r.ports = answer.GetPorts()
	}
}

// tick makes all readings a second older.
func (b *board) tick() {
	for _, r := range b.sources {
		r.ticks++
	}
}

// keep drops the sources of runs that are not among those named.
func (b *board) keep(runs []string) {
	b.sources = slices.DeleteFunc(b.sources, func(r *readings) bool { return !slices.Contains(runs, r.run) })
}

// complete reports whether all rates of a source are known.
func (b *board) complete(of source) bool {
	return slices.ContainsFunc(b.sources, func(r *readings) bool { return r.source == of && r.previous != nil })
}

// omitted is the number of streams and sides of templates that the operator left out.
func (b *board) omitted() (sum uint32) {
	for _, r := range b.sources {
		sum += r.omitted
	}
	return sum
}

// pods are the latest readings of each pod: an engine counts on its ports and workers for all runs.
func (b *board) pods() (all []*readings) {
	latest := map[string]*readings{}
	for _, r := range b.sources {
		if other := latest[r.pod]; other == nil || r.current.GetReadAtNs() > other.current.GetReadAtNs() {
			latest[r.pod] = r
		}
	}
	for _, r := range latest {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *readings) int { return cmp.Compare(a.pod, b.pod) })
	return all
}

// span is the time between the readings; 0 after the first.
func (r *readings) span() time.Duration {
	if r.previous == nil {
		return 0
	}
	return time.Duration(r.current.GetReadAtNs() - r.previous.GetReadAtNs())
}

// unknown stands for what was not measured.
var unknown = math.NaN()

// perSecond is the rate at which a counter grows; unknown after one reading, when the counter has begun again, and when readings stay away.
func (r *readings) perSecond(previous, current uint64) float64 {
	if r.span() <= 0 || current < previous || r.ticks > staleAfter {
		return unknown
	}
	return float64(current-previous) / r.span().Seconds()
}

// counted are the counters of a stream, warm-up and measured phase together.
type counted struct{ txPackets, txBytes, rxPackets uint64 }

func countedOf(s *enginev1.StreamStats) counted {
	w, m := s.GetWarmup(), s.GetMeasured()
	return counted{w.GetTxPackets() + m.GetTxPackets(), w.GetTxBytes() + m.GetTxBytes(), w.GetRxPackets() + m.GetRxPackets()}
}

// byName finds an item of the previous reading.
func byName[T any](previous []T, is func(T) bool) (item T) {
	if at := slices.IndexFunc(previous, is); at >= 0 {
		return previous[at]
	}
	return item
}

// counterOf sums up counters of a side of a template.
func counterOf(t *enginev1.TemplateStats, names ...string) (sum uint64) {
	for _, c := range t.GetCounters() {
		if slices.Contains(names, c.GetName()) {
			sum += c.GetValue()
		}
	}
	return sum
}

// quantile of times, in nanoseconds; unknown without a measurement.
func quantile(times *enginev1.LatencyStats, partsPerMillion uint32) float64 {
	for _, q := range times.GetQuantiles() {
		if q.GetPartsPerMillion() == partsPerMillion && times.GetCount() > 0 {
			return float64(q.GetNs())
		}
	}
	return unknown
}

// greater is the greater of two values, of which either may be unknown.
func greater(a, b float64) float64 {
	switch {
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	}
	return max(a, b)
}
