// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how do the counters of all engines become one result?

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/quantity"
	"spate.dev/operator/internal/runs/storage"
)

// sample is a reading of counters, from which current rates are computed.
type sample struct {
	at     time.Time
	tx, rx uint64 // packets of the run, warm-up included
	flows  uint64 // flows of templates that were established, in the same time
	// written is when the counters were last written to the status.
	written time.Time
}

// measure updates the result so far, without its streams, templates and groups, and the progress. It does so at the pace of writes,
// which may be slower than the reconciling. Counters are sampled at the same pace.
func (s *scope) measure(ctx context.Context, stats []*enginev1.WatchStatsResponse, facts *storage.Facts) {
	s.withoutLink(stats, facts)
	routing := s.routing(stats)
	last := s.found.sample
	known := !last.written.IsZero()
	if known && time.Since(last.written) < pace(s.r.supervisor.size(), s.r.requests) {
		return
	}
	result := resultOf(stats, facts, s.run)
	result.Duration, result.Routing = spatev1.MeasuredTime(s.measured()), routing
	s.sample(ctx, &result, stats, false)
	current := sampleOf(stats)
	result.Streams, result.Templates, result.Groups = nil, nil, nil
	result, _ = bounded(result, roomOf(s.run))
	s.run.Status.Result = &result
	at := now()
	progress := &spatev1.RunProgress{UpdateTime: &at, TimeLeft: s.timeLeft(), Stage: s.stageText(), LossRatio: result.LossRatio}
	current.written = time.Now()
	if span := current.at.Sub(last.at); known && span > 0 {
		progress.TxRate, progress.RxRate = rate(current.tx-last.tx, span, "pps"), rate(current.rx-last.rx, span, "pps")
		if result.Flows != nil {
			progress.ConnectionRate = rate(current.flows-last.flows, span, "cps")
		}
	} else if p := s.run.Status.Progress; p != nil {
		progress.TxRate, progress.RxRate, progress.ConnectionRate = p.TxRate, p.RxRate, p.ConnectionRate
	}
	s.run.Status.Progress = progress
	s.found.sample = current
}

// withoutLink adds the run's ports that have no link now to status.portsDown, and emits an event once for each.
func (s *scope) withoutLink(stats []*enginev1.WatchStatsResponse, facts *storage.Facts) {
	down := s.run.Status.PortsDown
	for i, st := range present(stats) {
		for _, p := range st.Ports {
			name := fmt.Sprintf("port %s of pod %s", p.Port, s.podName(i))
			if !p.LinkUp && facts.Ports[p.Port] && !slices.Contains(down, name) {
				down = append(slices.Clip(down), name)
				s.run.Status.PortsDown = down
				s.r.Events.Eventf(s.run, s.pods[i], corev1.EventTypeWarning, spatev1.ReasonPortDown, "Run", "%s has no link", name)
			}
		}
	}
}

// sampleOf reads what current rates are computed from.
func sampleOf(stats []*enginev1.WatchStatsResponse) sample {
	current := sample{at: time.Now()}
	for _, st := range present(stats) {
		current.at = time.Unix(0, st.ReadAtNs) // when the engine read them, not when they were received
		for _, stream := range st.Streams {
			current.tx += stream.GetWarmup().GetTxPackets() + stream.GetMeasured().GetTxPackets()
			current.rx += stream.GetWarmup().GetRxPackets() + stream.GetMeasured().GetRxPackets()
		}
	}
	all := templatesBy(stats, (*enginev1.TemplateStats).GetTemplate, whole, noTimes)
	for _, t := range all {
		for _, side := range []*spatev1.TemplateSide{t.Client, t.Server} {
			if side != nil {
				current.tx += uint64(side.PacketsSent)
				current.rx += uint64(side.PacketsReceived)
			}
		}
	}
	if flows := flowsOf(all); flows != nil {
		current.flows = uint64(flows.Established)
	}
	return current
}

// rate formats a rate of packets or flows with three significant digits.
func rate(count uint64, span time.Duration, unit string) string {
	perSecond := float64(count) / span.Seconds()
	if perSecond > 0 {
		digit := math.Pow(10, math.Floor(math.Log10(perSecond))-2)
		perSecond = math.Round(perSecond/digit) * digit
	}
	value := new(big.Rat)
	value.SetFloat64(perSecond)
	return quantity.FormatRate(value, unit)
}

// resultOf sums the measured phase up over all engines whose pods are not lost. A packet in flight counts as lost until it is received.
func resultOf(stats []*enginev1.WatchStatsResponse, facts *storage.Facts, run *spatev1.TrafficRun) spatev1.RunResult {
	return resultBy(stats, facts, run, func(_ string, expected int64, c *spatev1.StreamCounters) int64 {
		return expected - (c.Rx - c.Duplicates)
	})
}

// resultBy does so with another measure of what is lost of a stream that is expected to have received a number of packets.
func resultBy(stats []*enginev1.WatchStatsResponse, facts *storage.Facts, run *spatev1.TrafficRun,
	lost func(name string, expected int64, c *spatev1.StreamCounters) int64,
) spatev1.RunResult {
	var (
		order   []string
		byName  = map[string]*spatev1.StreamCounters{}
		delays  = map[string][]*enginev1.LatencyStats{}
		outages = map[string][]*enginev1.Outage{}
		byTag   = map[string][]*enginev1.TagStats{}
		// between is how many packets went from one pod to another, by stream.
		between = map[string]uint64{}
		result  spatev1.RunResult
	)
	for _, st := range present(stats) {
		for _, stream := range st.Streams {
			outages[stream.Name] = append(outages[stream.Name], stream.GetMeasured().GetOutage())
			if t := stream.GetMeasured().GetByTag(); t != nil {
				byTag[stream.Name] = append(byTag[stream.Name], t)
			}
			if l := stream.GetMeasured().GetLatency(); l != nil {
				delays[stream.Name] = append(delays[stream.Name], l)
				if n := l.FromOtherEngines; n > 0 {
					between[stream.Name] += n
				}
			}
			c := byName[stream.Name]
			if c == nil {
				c = &spatev1.StreamCounters{}
				byName[stream.Name] = c
				order = append(order, stream.Name)
			}
			add(c, stream.GetMeasured())
		}
	}
	if len(order) > 0 {
		result.Streams = make(map[string]spatev1.StreamResult, len(order))
	}
	flowTx := int64(0)
	expected := map[string]int64{} // by the stream under which received packets are counted
	var read readers
	if len(between) > 0 {
		result.ClockBound, read = clockBound(stats, facts.ClockBound), latencyReaders(run)
	}
	for _, name := range order {
		if facts.Flow[name] {
			expected[cmp.Or(facts.CountedAs[name], name)] += byName[name].Tx
			flowTx += byName[name].Tx
		}
	}
	for _, name := range order {
		c := byName[name]
		if facts.Flow[name] && facts.CountedAs[name] == "" {
			c.Lost = lost(name, expected[name], c)
		}
		c.LossRatio = ratio(c.Lost, expected[name])
		total(&result.StreamCounters, c)
		result.Streams[name] = spatev1.StreamResult{
			StreamCounters: *c, Latency: oneWay(latencyOf(delays[name]), between[name], result.ClockBound, read.read(name)), Outage: outageOf(outages[name]),
			ByTag: byTagOf(byTag[name]),
		}
	}
	result.LossRatio = ratio(result.Lost, flowTx)
	ofPorts(&result, stats, facts, run)
	result.Templates, result.Groups = templates(stats), groups(stats, facts.Groups)
	result.Flows = flowsOf(result.Templates)
	result.WorstLatency = worstLatency(delaysOf(&result))
	result.Receivers = receivers(stats, run)
	result.Clients = clientResults(stats)
	result.Records = withLostPods(recordsOf(stats, run), run)
	return result
}

func add(c *spatev1.StreamCounters, m *enginev1.StreamCounters) {
	c.Tx += int64(m.GetTxPackets())
	c.TxBytes += int64(m.GetTxBytes())
	c.Rx += int64(m.GetRxPackets())
	c.RxBytes += int64(m.GetRxBytes())
	c.Duplicates += int64(m.GetDuplicates())
	c.OutOfOrder += int64(m.GetOutOfOrder())
	c.Misdirected += int64(m.GetMisdirected())
	c.Late += int64(m.GetLate())
	c.TxDropped += int64(m.GetTxDropped())
	c.SequenceTooHigh += int64(m.GetSequenceTooHigh())
	c.SequenceTooLow += int64(m.GetSequenceTooLow())
}

func total(sum, c *spatev1.StreamCounters) {
	sum.Tx += c.Tx
	sum.TxBytes += c.TxBytes
	sum.Rx += c.Rx
	sum.RxBytes += c.RxBytes
	sum.Lost += c.Lost
	sum.Duplicates += c.Duplicates
	sum.OutOfOrder += c.OutOfOrder
	sum.Misdirected += c.Misdirected
	sum.Late += c.Late
	sum.TxDropped += c.TxDropped
	sum.SequenceTooHigh += c.SequenceTooHigh
	sum.SequenceTooLow += c.SequenceTooLow
}

// ofPorts adds what the run's ports counted since the run was prepared.
func ofPorts(result *spatev1.RunResult, stats []*enginev1.WatchStatsResponse, facts *storage.Facts, run *spatev1.TrafficRun) {
	for i, st := range present(stats) {
		for _, p := range st.Ports {
			if facts.Ports[p.Port] {
				result.RxMissed += int64(p.RxMissed)
				result.Foreign += int64(p.ForeignPackets)
				result.OtherMAC += int64(p.OtherMacPackets)
				result.NotReflected += int64(p.NotReflectedPackets)
				result.Throttled += int64(p.ThrottledPackets)
			}
		}
		for _, b := range run.Status.PortBaseline {
			if b.Pod == run.Status.Resolved.Generator.Pods[i].Name && facts.Ports[b.Port] {
				result.RxMissed -= b.RxMissed
				result.Foreign -= b.Foreign
				result.OtherMAC -= b.OtherMAC
				result.NotReflected -= b.NotReflected
				result.Throttled -= b.Throttled
			}
		}
	}
}

// ratio is a decimal number with at most nine decimal places.
func ratio(part, whole int64) string {
	if whole == 0 || part == 0 {
		return "0"
	}
	text := strconv.FormatFloat(float64(part)/float64(whole), 'f', 9, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
