// SPDX-License-Identifier: Apache-2.0

// Package samples keeps a run's counters over time, in a bounded amount of memory.
package samples

// This file answers: which counters are sampled, and how do they stay bounded over a run of any length?

import (
	"maps"
	"slices"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	// Most is the maximum number of samples of a run.
	Most = 600
	// mostOfAll bounds the samples of all active runs together, and Fewest is what a run may keep nevertheless.
	mostOfAll = 100 * Most
	// Fewest is the maximum number of samples of a run while very many runs are active.
	Fewest = 60
	// MostStreams and MostTemplates are how many streams, and how many templates, are sampled beside the sums: the first by name.
	MostStreams, MostTemplates = 8, 8
	// Interval is the time between two samples, until the first time that there are too many of them.
	Interval = time.Second
)

// Limit is the maximum number of samples of one run while a number of runs are active.
func Limit(active int) int {
	return max(Fewest, min(Most, mostOfAll/max(active, 1)))
}

// Table has the values of counters by name, as many of each as there are samples. A counter that was always 0 is absent. All but the gauges
// are sums since the end of the warm-up, so the difference of two samples is what was counted between them.
type Table map[string][]int64

// Names of counters of streams and of the run; times are in nanoseconds.
const (
	Tx, TxBytes, Rx, RxBytes = "tx", "txBytes", "rx", "rxBytes"
	// Lost includes packets in flight.
	Lost                              = "lost"
	Duplicates, OutOfOrder            = "duplicates", "outOfOrder"
	Late, TxDropped                   = "late", "txDropped"
	RxMissed, Foreign, Throttled      = "rxMissed", "foreign", "throttled"
	DelayCount, DelaySum              = "delayCount", "delaySum"
	DelayP50, DelayP99, DelayGreatest = "delayP50", "delayP99", "delayMax" // gauges: of the run so far
)

// Names of counters of flows: of a template, at its client, or at its server where clients are real.
const (
	Attempted, Established, Closed, Failed = "attempted", "established", "closed", "failed"
	Open                                   = "open" // a gauge
	BytesSent, BytesReceived               = "bytesSent", "bytesReceived"
	PacketsSent, PacketsReceived           = "packetsSent", "packetsReceived"
	Retransmitted                          = "retransmitted"
	FlowsLate, NotStarted, Exhausted       = "flowsLate", "notStarted", "exhausted"
	ConnectCount, ConnectSum, ConnectP99   = "connectCount", "connectSum", "connectP99" // the last is a gauge
)

// Series are the samples of a run.
type Series struct {
	// Times of the samples since the start of the traffic, in nanoseconds, ascending.
	Times []int64
	// Interval is the least time between two samples, but for the last of the run.
	Interval time.Duration
	// Total has the sums of all streams and ports, Flows those of all templates.
	Total, Flows Table
	// Streams and Templates are the sampled ones by name.
	Streams, Templates map[string]Table
	// StreamsNotSampled and TemplatesNotSampled are in the sums only.
	StreamsNotSampled, TemplatesNotSampled int
}

// New returns a series without samples.
func New() *Series {
	return &Series{Interval: Interval, Total: Table{}, Flows: Table{}, Streams: map[string]Table{}, Templates: map[string]Table{}}
}

// Times is a number of durations and their sum in nanoseconds.
type Times struct{ Count, Sum int64 }

// Reading is what the engines had counted at a time since the start of the traffic.
type Reading struct {
	At     time.Duration
	Result *spatev1.RunResult
	// Delays are those of the sampled streams, ConnectTimes those of the sampled templates, by name.
	Delays, ConnectTimes map[string]Times
}

// Due reports whether it is time for a sample. A reading that comes slightly early counts, since it need not be exactly periodic.
func (s *Series) Due(at time.Duration) bool {
	last := len(s.Times) - 1
	return last < 0 || at-time.Duration(s.Times[last]) >= s.Interval-Interval/10
}

// Add adds a sample, and keeps at most `limit` (2 or more): every second sample is dropped when there are more. A reading that is no later than
// the last sample replaces it.
func (s *Series) Add(r Reading, limit int) {
	if last := len(s.Times) - 1; last >= 0 && int64(r.At) <= s.Times[last] {
		r.At = time.Duration(s.Times[last])
		s.truncate(last)
	}
	s.Choose(r.Result)
	n := len(s.Times)
	s.Times = append(s.Times, int64(r.At))
	total := PacketsOf(&r.Result.StreamCounters)
	total[RxMissed], total[Foreign], total[Throttled] = r.Result.RxMissed, r.Result.Foreign, r.Result.Throttled
	s.Total.add(n, total)
	allFlows := r.Result.Flows
	if allFlows == nil {
		allFlows = &spatev1.FlowCounters{}
	}
	s.Flows.add(n, FlowsOf(allFlows))
	for name, table := range s.Streams {
		stream := r.Result.Streams[name]
		counted := PacketsOf(&stream.StreamCounters)
		counted[DelayCount], counted[DelaySum] = r.Delays[name].Count, r.Delays[name].Sum
		if l := stream.Latency; l != nil {
			counted[DelayP50], counted[DelayP99], counted[DelayGreatest] = int64(l.P50), int64(l.P99), int64(l.Max)
		}
		table.add(n, counted)
	}
	for name, table := range s.Templates {
		side := once(r.Result.Templates[name])
		counted := FlowsOf(&side.FlowCounters)
		counted[ConnectCount], counted[ConnectSum] = r.ConnectTimes[name].Count, r.ConnectTimes[name].Sum
		if l := side.ConnectTime; l != nil {
			counted[ConnectP99] = int64(l.P99)
		}
		table.add(n, counted)
	}
	for len(s.Times) > max(limit, 2) {
		s.Halve()
	}
}

// Choose settles which streams and templates are sampled, unless there are samples.
func (s *Series) Choose(r *spatev1.RunResult) {
	if len(s.Times) > 0 {
		return
	}
	streams, templates := slices.Sorted(maps.Keys(r.Streams)), slices.Sorted(maps.Keys(r.Templates))
	s.StreamsNotSampled, s.TemplatesNotSampled = max(len(streams)-MostStreams, 0), max(len(templates)-MostTemplates, 0)
	clear(s.Streams)
	clear(s.Templates)
	for _, name := range streams[:min(len(streams), MostStreams)] {
		s.Streams[name] = Table{}
	}
	for _, name := range templates[:min(len(templates), MostTemplates)] {
		s.Templates[name] = Table{}
	}
}

// once is the side of a template that counts its flows.
func once(t spatev1.TemplateResult) *spatev1.TemplateSide {
	switch {
	case t.Client != nil:
		return t.Client
	case t.Server != nil:
		return t.Server
	}
	return &spatev1.TemplateSide{}
}

// PacketsOf are the counters of a stream, or of all streams, by name.
func PacketsOf(c *spatev1.StreamCounters) map[string]int64 {
	return map[string]int64{
		Tx: c.Tx, TxBytes: c.TxBytes, Rx: c.Rx, RxBytes: c.RxBytes, Lost: c.Lost, Duplicates: c.Duplicates, OutOfOrder: c.OutOfOrder, Late: c.Late, TxDropped: c.TxDropped,
	}
}

// FlowsOf are the counters of flows by name.
func FlowsOf(c *spatev1.FlowCounters) map[string]int64 {
	return map[string]int64{
		Attempted: c.Attempted, Established: c.Established, Closed: c.Closed, Failed: c.Failed, Open: c.Open, BytesSent: c.BytesSent, BytesReceived: c.BytesReceived,
		PacketsSent: c.PacketsSent, PacketsReceived: c.PacketsReceived, Retransmitted: c.Retransmitted, FlowsLate: c.Late, NotStarted: c.NotStarted, Exhausted: c.Exhausted,
	}
}

// add adds the values of a sample behind n others.
func (t Table) add(n int, values map[string]int64) {
	for name, value := range values {
		column, known := t[name]
		if !known && value == 0 {
			continue
		}
		if !known {
			column = make([]int64, n)
		}
		t[name] = append(column, value)
	}
}

// tables yields every table of the series.
func (s *Series) tables(yield func(Table)) {
	yield(s.Total)
	yield(s.Flows)
	for _, t := range s.Streams {
		yield(t)
	}
	for _, t := range s.Templates {
		yield(t)
	}
}

// truncate drops the samples from the nth on.
func (s *Series) truncate(n int) {
	s.Times = s.Times[:n]
	s.tables(func(t Table) {
		for name, column := range t {
			t[name] = column[:min(n, len(column))]
		}
	})
}

// Halve drops every second sample, and keeps the last. What was counted between the others is still the difference of their values.
func (s *Series) Halve() {
	s.Times = everySecond(s.Times)
	s.Interval *= 2
	s.tables(func(t Table) {
		for name, column := range t {
			t[name] = everySecond(column)
		}
	})
}

// everySecond returns the last value, the third to last, and so on, in their order.
func everySecond(column []int64) []int64 {
	kept := column[:0]
	for i, value := range column {
		if (len(column)-1-i)%2 == 0 {
			kept = append(kept, value)
		}
	}
	return kept
}
