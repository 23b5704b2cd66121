// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what was counted between two readings of the engines' counters?

import (
	"cmp"
	"math/bits"
	"time"

	"google.golang.org/protobuf/proto"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/distribution"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
)

// stageResult is the result of what was counted after `begin` (nil: from the beginning of the measured phase) until `end`. `settled` has the
// packets of each stream that were sent long enough before the end to have arrived; nil if all were.
func stageResult(begin, end []*enginev1.WatchStatsResponse, settled map[string]int64, facts *storage.Facts, run *spatev1.TrafficRun) spatev1.RunResult {
	lost := lostUntil(end, settled, facts)
	for name, before := range lostUntil(begin, settledTx(begin), facts) {
		lost[name] -= before
	}
	counted, length := make([]*enginev1.WatchStatsResponse, len(end)), time.Duration(0)
	for i, last := range present(end) {
		var first *enginev1.WatchStatsResponse
		if begin != nil {
			if first = begin[i]; first == nil {
				continue
			}
			length = time.Duration(last.ReadAtNs - first.ReadAtNs)
		} else if start := run.Status.TrafficStartTime; start != nil {
			length = time.Unix(0, last.ReadAtNs).Sub(start.Time) - parsed(run.Status.Resolved.Timing.Warmup)
		}
		counted[i] = between(first, last)
	}
	if begin != nil {
		run = run.DeepCopy()
		run.Status.PortBaseline = nil
	}
	result := resultBy(counted, facts, run, func(name string, _ int64, _ *spatev1.StreamCounters) int64 { return lost[name] })
	result.Duration = spatev1.MeasuredTime(max(length, 0))
	result.Receivers, result.Records = nil, nil
	return withoutWhole(result)
}

// withoutWhole is a result without what is known of the whole run only.
func withoutWhole(result spatev1.RunResult) spatev1.RunResult {
	for name, stream := range result.Streams {
		stream.Outage = nil
		result.Streams[name] = stream
	}
	for _, t := range result.Templates {
		for _, side := range []*spatev1.TemplateSide{t.Client, t.Server} {
			if side != nil {
				side.Outage = nil
			}
		}
	}
	return result
}

// lostUntil is how many packets of each stream that is counted on arrival are known to be lost at a reading: later packets of the same sender
// have arrived, or they were sent long enough before.
func lostUntil(stats []*enginev1.WatchStatsResponse, settled map[string]int64, facts *storage.Facts) map[string]int64 {
	type sums struct{ sent, received, missing int64 }
	by := map[string]*sums{}
	of := func(name string) *sums {
		if by[name] == nil {
			by[name] = &sums{}
		}
		return by[name]
	}
	for _, st := range present(stats) {
		for _, stream := range st.Streams {
			if !facts.Flow[stream.Name] {
				continue
			}
			m, under := stream.GetMeasured(), of(cmp.Or(facts.CountedAs[stream.Name], stream.Name))
			under.received += int64(m.GetRxPackets()) - int64(m.GetDuplicates())
			under.missing += m.GetMissing()
			if settled == nil {
				under.sent += int64(m.GetTxPackets())
			}
		}
	}
	for name, sent := range settled {
		if facts.Flow[name] {
			of(cmp.Or(facts.CountedAs[name], name)).sent += sent
		}
	}
	lost := make(map[string]int64, len(by))
	for name, s := range by {
		if lost[name] = s.sent - s.received; settled != nil {
			lost[name] = max(lost[name], s.missing, 0)
		}
	}
	return lost
}

// between returns what one engine counted in the measured phase after an earlier reading, which may be absent.
func between(first, last *enginev1.WatchStatsResponse) *enginev1.WatchStatsResponse {
	if first == nil {
		return last
	}
	out := proto.CloneOf(last)
	streams := map[string]*enginev1.StreamCounters{}
	for _, stream := range first.Streams {
		streams[stream.Name] = stream.GetMeasured()
	}
	for _, stream := range out.Streams {
		subtract(stream.GetMeasured(), streams[stream.Name])
	}
	type side struct {
		template string
		side     enginev1.Side
	}
	sides := map[side]*enginev1.TemplateStats{}
	for _, t := range first.Templates {
		sides[side{t.Template, t.Side}] = t
	}
	for _, t := range out.Templates {
		before := sides[side{t.Template, t.Side}]
		if before == nil {
			continue
		}
		t.Warmup = before.Counters
		programs := map[string]uint64{}
		for _, counter := range before.ProgramCounters {
			programs[counter.Name] = counter.Value
		}
		for _, counter := range t.ProgramCounters {
			counter.Warmup = programs[counter.Name]
		}
		t.ConnectTime, t.RoundTrip = delaysBetween(before.ConnectTime, t.ConnectTime), delaysBetween(before.RoundTrip, t.RoundTrip)
	}
	ports := map[string]*enginev1.PortStats{}
	for _, port := range first.Ports {
		ports[port.Port] = port
	}
	for _, port := range out.Ports {
		before := ports[port.Port]
		port.RxMissed -= before.GetRxMissed()
		port.ForeignPackets -= before.GetForeignPackets()
		port.OtherMacPackets -= before.GetOtherMacPackets()
		port.NotReflectedPackets -= before.GetNotReflectedPackets()
		port.ThrottledPackets -= before.GetThrottledPackets()
	}
	return out
}

// subtract leaves of a stream's counters what was counted after an earlier reading.
func subtract(m, before *enginev1.StreamCounters) {
	if m == nil || before == nil {
		return
	}
	m.TxPackets -= before.TxPackets
	m.TxBytes -= before.TxBytes
	m.TxDropped -= before.TxDropped
	m.Late -= before.Late
	m.RxPackets -= before.RxPackets
	m.RxBytes -= before.RxBytes
	m.Duplicates -= before.Duplicates
	m.OutOfOrder -= before.OutOfOrder
	m.Misdirected -= before.Misdirected
	m.SequenceTooHigh -= before.SequenceTooHigh
	m.SequenceTooLow -= before.SequenceTooLow
	m.Latency = delaysBetween(before.Latency, m.Latency)
	m.ByTag = tagsBetween(before.ByTag, m.ByTag)
}

// delaysBetween returns the delays that were measured after an earlier reading. Least, greatest and percentiles are those of the histogram's
// cells. The interarrival jitter is that at the later reading; its greatest is not known.
func delaysBetween(before, after *enginev1.LatencyStats) *enginev1.LatencyStats {
	if after == nil || before == nil || before.Count == 0 {
		return after
	}
	cells, ok := distribution.Between(before.Distribution, after.Distribution)
	if !ok {
		return nil
	}
	squaresLow, borrow := bits.Sub64(after.SumSquaresLow, before.SumSquaresLow, 0)
	squaresHigh, _ := bits.Sub64(after.SumSquaresHigh, before.SumSquaresHigh, borrow)
	least, greatest := cells.Bounds()
	out := &enginev1.LatencyStats{
		Count: after.Count - before.Count, SumNs: after.SumNs - before.SumNs, MinNs: max(least, after.MinNs), MaxNs: min(greatest, after.MaxNs),
		JitterNs: after.JitterNs, JitterSumNs: after.JitterSumNs - before.JitterSumNs, OneWayUnknown: after.OneWayUnknown, ClockBoundNs: after.ClockBoundNs, DeviceBoundNs: after.DeviceBoundNs,
		SumSquaresHigh: squaresHigh, SumSquaresLow: squaresLow, Negative: after.Negative - before.Negative,
		FromOtherEngines: after.FromOtherEngines - before.FromOtherEngines, Distribution: cells.Message(),
	}
	if out.Count == 0 {
		return nil
	}
	for _, quantile := range after.Quantiles {
		ns := min(cells.Quantile(quantile.PartsPerMillion), out.MaxNs)
		out.Quantiles = append(out.Quantiles, &enginev1.Quantile{PartsPerMillion: quantile.PartsPerMillion, Ns: ns})
	}
	return out
}
