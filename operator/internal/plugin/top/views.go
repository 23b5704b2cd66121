// SPDX-License-Identifier: Apache-2.0

package top

// This file answers: which tables are there, and what do their columns say?

import (
	"fmt"
	"slices"
	"strings"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plugin/counters"
	"spate.dev/operator/internal/plugin/figures"
)

// column of a table. A screen that is too narrow for all shows those with the least rank.
type column struct {
	title string
	// field is the name in JSON.
	field  string
	format func(float64) string // nil: the column is text
	rank   int
	// alarm marks a counter that should not grow.
	alarm bool
}

// row of a table: a value for each column, texts first.
type row struct {
	// id tells the rows of a table apart.
	id     string
	texts  []string
	values []float64
	// trend is what the history is of.
	trend float64
}

// view is one of the tables.
type view struct {
	name    string
	columns []column
	// empty says why there may be no row.
	empty string
	rows  func(*counters.Board) []*row
}

// Views, in the order of their keys.
var views = []view{
	{
		name: "Ports", empty: "no port is read: no run is active", rows: portRows,
		columns: []column{
			{"PORT", "port", nil, 0, false}, {"LINK", "link", nil, 2, false},
			{"TX PPS", "txPacketsPerSecond", figures.Number, 0, false}, {"RX PPS", "rxPacketsPerSecond", figures.Number, 0, false},
			{"TX L1", "txL1BitsPerSecond", figures.Number, 1, false}, {"RX L1", "rxL1BitsPerSecond", figures.Number, 1, false},
			{"TX L2", "txL2BitsPerSecond", figures.Number, 4, false}, {"RX L2", "rxL2BitsPerSecond", figures.Number, 4, false},
			{"UTIL", "lineRateShare", figures.Percent, 1, false},
			{"ERRORS", "rxErrors", figures.Count, 1, true}, {"MISSED", "rxMissed", figures.Count, 1, true}, {"DROPPED", "txDropped", figures.Count, 3, true},
		},
	},
	{
		name: "Streams", empty: "no run has streams", rows: streamRows,
		columns: []column{
			{"STREAM", "stream", nil, 0, false},
			{"TX PPS", "txPacketsPerSecond", figures.Number, 0, false}, {"RX PPS", "rxPacketsPerSecond", figures.Number, 0, false}, {"TX L2", "txL2BitsPerSecond", figures.Number, 4, false},
			{"LOST PPM", "lostPPM", figures.Number, 0, false},
			{"P50", "latencyP50Ns", figures.Nanoseconds, 1, false}, {"P99", "latencyP99Ns", figures.Nanoseconds, 1, false}, {"MAX", "latencyMaxNs", figures.Nanoseconds, 1, false},
			{"DISORDER", "outOfOrder", figures.Count, 1, true}, {"DUP", "duplicates", figures.Count, 3, true}, {"LATE", "late", figures.Count, 2, true}, {"DROPPED", "txDropped", figures.Count, 3, true},
		},
	},
	{
		name: "Templates", empty: "no run has applications", rows: templateRows,
		columns: []column{
			{"TEMPLATE", "template", nil, 0, false}, {"SIDE", "side", nil, 0, false},
			{"CONN/S", "connectionsPerSecond", figures.Number, 0, false}, {"ACTIVE", "active", figures.Count, 0, false}, {"FAILED", "failed", figures.Count, 0, true},
			{"SENT", "bytesSent", figures.Number, 1, false}, {"RECEIVED", "bytesReceived", figures.Number, 1, false},
			{"TX BIT/S", "txBitsPerSecond", figures.Number, 2, false}, {"RX BIT/S", "rxBitsPerSecond", figures.Number, 2, false}, {"RETRANS", "retransmitted", figures.Count, 3, true},
		},
	},
	{
		name: "Latency", empty: "no run measures times: see measure.latency of a StatelessStream", rows: latencyRows,
		columns: []column{
			{"OF", "of", nil, 0, false}, {"TIME", "time", nil, 0, false}, {"COUNT", "count", figures.Number, 3, false}, {"MIN", "minNs", figures.Nanoseconds, 1, false},
			{"P50", "p50Ns", figures.Nanoseconds, 0, false}, {"P90", "p90Ns", figures.Nanoseconds, 2, false}, {"P95", "p95Ns", figures.Nanoseconds, 4, false},
			{"P99", "p99Ns", figures.Nanoseconds, 0, false}, {"P99.9", "p999Ns", figures.Nanoseconds, 1, false}, {"P99.99", "p9999Ns", figures.Nanoseconds, 4, false},
			{"MAX", "maxNs", figures.Nanoseconds, 0, false}, {"JITTER", "jitterNs", figures.Nanoseconds, 3, false},
		},
	},
	{
		name: "Workers", empty: "no worker is read: no run is active", rows: workerRows,
		columns: []column{
			{"WORKER", "worker", nil, 0, false}, {"PORTS", "ports", nil, 1, false}, {"CPU", "cpu", figures.Count, 2, false}, {"BUSY", "busy", figures.Percent, 0, false},
			{"TX PPS", "txPacketsPerSecond", figures.Number, 0, false}, {"RX PPS", "rxPacketsPerSecond", figures.Number, 0, false}, {"SLEEPS/S", "sleepsPerSecond", figures.Number, 3, false},
			{"HANDED/S", "handedOffPerSecond", figures.Number, 2, false}, {"LOST", "handoffLost", figures.Count, 2, true},
		},
	},
}

// portRows has a row for each port of each pod. Errors, missed and dropped packets are counted since the engine's start.
func portRows(b *counters.Board) (rows []*row) {
	for _, r := range b.Pods() {
		for _, p := range r.Current.GetPorts() {
			before := counters.ByName(r.Previous.GetPorts(), func(q *enginev1.PortStats) bool { return q.GetPort() == p.GetPort() })
			info := counters.ByName(r.Ports, func(i *enginev1.PortInfo) bool { return i.GetName() == p.GetPort() })
			tx, rx := r.PerSecond(before.GetTxPackets(), p.GetTxPackets()), r.PerSecond(before.GetRxPackets(), p.GetRxPackets())
			tx2, rx2 := 8*r.PerSecond(before.GetTxBytes(), p.GetTxBytes()), 8*r.PerSecond(before.GetRxBytes(), p.GetRxBytes())
			tx1, rx1 := tx2+8*counters.Overhead*tx, rx2+8*counters.Overhead*rx
			share := figures.Unknown
			if line := info.GetLineRateBps(); line > 0 {
				share = max(tx1, rx1) / float64(line)
			}
			link := "up"
			if !p.GetLinkUp() {
				link = "DOWN"
			}
			name := r.Pod + "/" + p.GetPort()
			rows = append(rows, &row{
				id: name, texts: []string{name, link},
				values: []float64{tx, rx, tx1, rx1, tx2, rx2, share, float64(p.GetRxErrors()), float64(p.GetRxMissed()), float64(p.GetTxDropped())},
				trend:  tx,
			})
		}
	}
	return rows
}

// stream is what all engines of a run counted of a stream.
type stream struct {
	tx, rx, txBits                 float64
	received, missing              float64
	p50, p99, most                 float64
	disorder, twice, late, dropped float64
}

// streamRows has a row for each stream of each run, over all engines that are read. Rates include the warm-up, all else is of the measured phase.
// Lost are the sequence numbers below the highest received that did not arrive: packets in flight are not lost, and what nothing followed is not
// either. Of several engines the greatest percentile is shown, which that of all together does not exceed.
func streamRows(b *counters.Board) []*row {
	var names []string
	all := map[string]*stream{}
	for _, r := range b.Sources {
		before := map[string]counted{}
		for _, s := range r.Previous.GetStreams() {
			before[s.GetName()] = countedOf(s)
		}
		for _, s := range r.Current.GetStreams() {
			name := b.Named(r, s.GetName())
			sum := all[name]
			if sum == nil {
				sum = &stream{p50: figures.Unknown, p99: figures.Unknown, most: figures.Unknown}
				all[name], names = sum, append(names, name)
			}
			last, now, m := before[s.GetName()], countedOf(s), s.GetMeasured()
			sum.tx += r.PerSecond(last.txPackets, now.txPackets)
			sum.rx += r.PerSecond(last.rxPackets, now.rxPackets)
			sum.txBits += 8 * r.PerSecond(last.txBytes, now.txBytes)
			sum.received += float64(m.GetRxPackets() - m.GetDuplicates())
			sum.missing += float64(m.GetMissing())
			sum.disorder += float64(m.GetOutOfOrder())
			sum.twice += float64(m.GetDuplicates())
			sum.late += float64(m.GetLate())
			sum.dropped += float64(m.GetTxDropped())
			sum.p50, sum.p99 = greater(sum.p50, quantile(m.GetLatency(), 500_000)), greater(sum.p99, quantile(m.GetLatency(), 990_000))
			sum.most = greater(sum.most, most(m.GetLatency()))
		}
	}
	var rows []*row
	for _, name := range names {
		s := all[name]
		lost := figures.Unknown // nothing arrived: the stream may not be measured on arrival
		if s.received > 0 {
			missing := max(s.missing, 0)
			lost = 1e6 * missing / (s.received + missing)
		}
		rows = append(rows, &row{id: name, texts: []string{name}, values: []float64{s.tx, s.rx, s.txBits, lost, s.p50, s.p99, s.most, s.disorder, s.twice, s.late, s.dropped}, trend: s.tx})
	}
	return rows
}

// most is the maximum of times, in nanoseconds; unknown without a measurement.
func most(times *enginev1.LatencyStats) float64 {
	if times.GetCount() == 0 {
		return figures.Unknown
	}
	return float64(times.GetMaxNs())
}

var sideNames = map[enginev1.Side]string{enginev1.Side_SIDE_CLIENT: "client", enginev1.Side_SIDE_SERVER: "server"}

// side is what all engines of a run counted on a side of a template.
type side struct {
	template, side                         string
	rate, open, failed, sent, received, tx float64
	rx, again                              float64
}

// templateRows has a row for each side of each template of each run. Counters are those since the run's start.
func templateRows(b *counters.Board) []*row {
	var all []*side
	for _, r := range b.Sources {
		for _, t := range r.Current.GetTemplates() {
			before := counters.ByName(r.Previous.GetTemplates(), func(o *enginev1.TemplateStats) bool {
				return o.GetTemplate() == t.GetTemplate() && o.GetSide() == t.GetSide()
			})
			of, where := b.Named(r, t.GetTemplate()), sideNames[t.GetSide()]
			sum := counters.ByName(all, func(s *side) bool { return s.template == of && s.side == where })
			if sum == nil {
				sum = &side{template: of, side: where}
				all = append(all, sum)
			}
			perSecond := func(names ...string) float64 { return r.PerSecond(counterOf(before, names...), counterOf(t, names...)) }
			sum.rate += perSecond("flows_established")
			sum.tx += 8 * perSecond(bytesSent...)
			sum.rx += 8 * perSecond(bytesReceived...)
			sum.open += float64(t.GetOpenFlows())
			sum.failed += float64(counterOf(t, failed[t.GetSide()]...))
			sum.sent += float64(counterOf(t, bytesSent...))
			sum.received += float64(counterOf(t, bytesReceived...))
			sum.again += float64(counterOf(t, "retransmitted_packets", "syn_timeouts"))
		}
	}
	var rows []*row
	for _, s := range all {
		rows = append(rows, &row{id: s.template + " " + s.side, texts: []string{s.template, s.side}, values: []float64{s.rate, s.open, s.failed, s.sent, s.received, s.tx, s.rx, s.again}, trend: s.rate})
	}
	return rows
}

var (
	bytesSent     = []string{"sent_data_bytes", "message_bytes_sent"}
	bytesReceived = []string{"received_data_bytes", "message_bytes_received"}
	// failed are the counters of flows that failed, as status.result has them. Servers end idle UDP flows in the normal course.
	failed = map[enginev1.Side][]string{
		enginev1.Side_SIDE_CLIENT: append([]string{"flows_idle_timeouts"}, failures...), enginev1.Side_SIDE_SERVER: failures,
	}
	failures = []string{
		"resets_received", "flows_refused", "timeout_drops", "connect_drops", "keepalive_drops", "flows_closed_early", "http_errors", "flows_aborted",
	}
)

// latencyRows has a row for each stream whose delay is measured, and for the times of each side of each template, of each engine.
func latencyRows(b *counters.Board) (rows []*row) {
	add := func(r *counters.Readings, of, what string, times *enginev1.LatencyStats) {
		if times.GetCount() == 0 {
			return
		}
		of = b.Named(r, of)
		if len(b.Sources) > 1 {
			of = r.Pod + " " + of
		}
		values := []float64{float64(times.GetCount()), float64(times.GetMinNs())}
		for _, q := range []uint32{500_000, 900_000, 950_000, 990_000, 999_000, 999_900} {
			values = append(values, quantile(times, q))
		}
		rows = append(rows, &row{id: of + " " + what, texts: []string{of, what}, values: append(values, most(times), float64(times.GetJitterNs())), trend: quantile(times, 990_000)})
	}
	for _, r := range b.Sources {
		for _, s := range r.Current.GetStreams() {
			add(r, s.GetName(), "delay", s.GetMeasured().GetLatency())
		}
		for _, t := range r.Current.GetTemplates() {
			add(r, t.GetTemplate(), sideNames[t.GetSide()]+" connect", t.GetConnectTime())
			add(r, t.GetTemplate(), sideNames[t.GetSide()]+" round trip", t.GetRoundTrip())
		}
	}
	return rows
}

// workerRows has a row for each worker of each pod.
func workerRows(b *counters.Board) (rows []*row) {
	for _, r := range b.Pods() {
		for _, w := range r.Current.GetWorkers() {
			before := counters.ByName(r.Previous.GetWorkers(), func(o *enginev1.WorkerStats) bool { return o.GetWorker() == w.GetWorker() })
			busy, idle := r.PerSecond(before.GetBusyNs(), w.GetBusyNs()), r.PerSecond(before.GetIdleNs(), w.GetIdleNs())
			share := busy / (busy + idle) // unknown of 0/0
			name := fmt.Sprintf("%s/%d", r.Pod, w.GetWorker())
			rows = append(rows, &row{
				id: name, texts: []string{name, portsOf(r.Ports, w.GetWorker())},
				values: []float64{
					float64(w.GetCpu()), share, r.PerSecond(before.GetTxPackets(), w.GetTxPackets()), r.PerSecond(before.GetRxPackets(), w.GetRxPackets()),
					r.PerSecond(before.GetSleeps(), w.GetSleeps()), r.PerSecond(before.GetFlows().GetHandedOff(), w.GetFlows().GetHandedOff()), float64(w.GetFlows().GetHandoffLost()),
				},
				trend: share,
			})
		}
	}
	return rows
}

// portsOf are the ports that a worker serves: `east`, or `east:rx` if it does not transmit there.
func portsOf(ports []*enginev1.PortInfo, worker uint32) string {
	var served []string
	for _, p := range ports {
		tx, rx := slices.Contains(p.GetTxWorkers(), worker), slices.Contains(p.GetRxWorkers(), worker)
		switch {
		case tx && rx:
			served = append(served, p.GetName())
		case tx:
			served = append(served, p.GetName()+":tx")
		case rx:
			served = append(served, p.GetName()+":rx")
		}
	}
	if served == nil {
		return "-"
	}
	return strings.Join(served, " ")
}
