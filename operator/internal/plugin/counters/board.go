// SPDX-License-Identifier: Apache-2.0

package counters

// This file answers: what have engines counted, and at what rate does it grow?

import (
	"cmp"
	"slices"
	"time"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/plugin/figures"
)

// Overhead of a packet at layer 1 in bytes: preamble, start delimiter and inter-packet gap (IEEE 802.3 clauses 3.2 and 4.4.2).
const Overhead = 20

// Source is an engine that executes a run.
type Source struct{ Run, Pod string }

// Readings are the last two of a source.
type Readings struct {
	Source
	// Ports of the engine.
	Ports []*enginev1.PortInfo
	// Previous is nil after the first reading.
	Previous, Current *enginev1.WatchStatsResponse
	omitted           uint32
	// ticks since the reading, one a second.
	ticks int
}

// StaleAfter is the number of intervals, of a second or more, after which rates of a source are unknown.
const StaleAfter = 5

// Board has the readings of all sources.
type Board struct {
	// Sources by run and pod.
	Sources []*Readings
}

// Add replaces the previous reading of a source by its current one, and that by the answer.
func (b *Board) Add(from Source, answer *livev1.WatchStatsResponse) {
	at, found := slices.BinarySearchFunc(b.Sources, from, func(r *Readings, s Source) int {
		return cmp.Or(cmp.Compare(r.Run, s.Run), cmp.Compare(r.Pod, s.Pod))
	})
	if !found {
		b.Sources = slices.Insert(b.Sources, at, &Readings{Source: from})
	}
	r := b.Sources[at]
	r.Previous, r.Current, r.omitted, r.ticks = r.Current, answer.GetEngine(), answer.GetOmitted(), 0
	if len(answer.GetPorts()) > 0 {
		r.Ports = answer.GetPorts()
	}
}

// Tick makes all readings a second older.
func (b *Board) Tick() {
	for _, r := range b.Sources {
		r.ticks++
	}
}

// Keep drops the sources of runs that are not among those named.
func (b *Board) Keep(runs []string) {
	b.Sources = slices.DeleteFunc(b.Sources, func(r *Readings) bool { return !slices.Contains(runs, r.Run) })
}

// Complete reports whether all rates of a source are known.
func (b *Board) Complete(of Source) bool {
	return slices.ContainsFunc(b.Sources, func(r *Readings) bool { return r.Source == of && r.Previous != nil })
}

// Omitted is the number of streams and sides of templates that the operator omitted.
func (b *Board) Omitted() (sum uint32) {
	for _, r := range b.Sources {
		sum += r.omitted
	}
	return sum
}

// Pods are the latest readings of each pod: an engine counts on its ports and workers for all runs.
func (b *Board) Pods() (all []*Readings) {
	latest := map[string]*Readings{}
	for _, r := range b.Sources {
		if other := latest[r.Pod]; other == nil || r.Current.GetReadAtNs() > other.Current.GetReadAtNs() {
			latest[r.Pod] = r
		}
	}
	for _, r := range latest {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Readings) int { return cmp.Compare(a.Pod, b.Pod) })
	return all
}

// Named returns the name of a part of a run, such as a stream, with the run where several are read.
func (b *Board) Named(r *Readings, name string) string {
	if b.Sources[0].Run == b.Sources[len(b.Sources)-1].Run { // they are sorted
		return name
	}
	return r.Run + "/" + name
}

// span is the time between the readings; 0 after the first.
func (r *Readings) span() time.Duration {
	if r.Previous == nil {
		return 0
	}
	return time.Duration(r.Current.GetReadAtNs() - r.Previous.GetReadAtNs())
}

// PerSecond is the rate at which a counter grows; unknown after one reading, when the counter was reset, and when readings stay away.
func (r *Readings) PerSecond(previous, current uint64) float64 {
	if r.span() <= 0 || current < previous || float64(r.ticks) > StaleAfter*max(r.span().Seconds(), 1) {
		return figures.Unknown
	}
	return float64(current-previous) / r.span().Seconds()
}

// ByName finds an item of the previous reading.
func ByName[T any](previous []T, is func(T) bool) (item T) {
	if at := slices.IndexFunc(previous, is); at >= 0 {
		return previous[at]
	}
	return item
}
