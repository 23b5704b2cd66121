// SPDX-License-Identifier: Apache-2.0

// Package measured answers: which metrics does a result have, with which names and units? Numbers are exact.
package measured

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
)

// Unit of a metric.
type Unit string

// Units.
const (
	Number Unit = ""
	Rate   Unit = "/s" // of packets, bits or flows
	Time   Unit = "ns"
)

// Metric is a value of a result.
type Metric struct {
	Name  string
	Unit  Unit
	Value *big.Rat
}

// metrics collects values, in the order in which they are shown.
type metrics struct{ all []Metric }

func (m *metrics) add(name string, u Unit, value *big.Rat) {
	m.all = append(m.all, Metric{name, u, value})
}

func (m *metrics) count(name string, value int64) { m.add(name, Number, new(big.Rat).SetInt64(value)) }

func (m *metrics) time(name string, value spatev1.MeasuredTime) {
	m.add(name, Time, new(big.Rat).SetInt64(int64(value)))
}

// perSecond adds a mean rate, if the result says for how long it was measured.
func (m *metrics) perSecond(name string, value int64, measured spatev1.MeasuredTime) {
	if measured > 0 {
		nanoseconds := new(big.Int).Mul(big.NewInt(value), big.NewInt(int64(time.Second)))
		m.add(name, Rate, new(big.Rat).SetFrac(nanoseconds, big.NewInt(int64(measured))))
	}
}

// packets adds what is counted of a stream, or of all.
func (m *metrics) packets(prefix string, c *spatev1.StreamCounters, measured spatev1.MeasuredTime) {
	m.count(prefix+"tx", c.Tx)
	m.count(prefix+"rx", c.Rx)
	m.perSecond(prefix+"txPps", c.Tx, measured)
	m.perSecond(prefix+"rxPps", c.Rx, measured)
	m.perSecond(prefix+"txBps", 8*c.TxBytes, measured)
	m.perSecond(prefix+"rxBps", 8*c.RxBytes, measured)
	m.count(prefix+"lost", c.Lost)
	if ratio, ok := new(big.Rat).SetString(c.LossRatio); ok {
		m.add(prefix+"lossRatio", Number, ratio)
	}
	m.count(prefix+"duplicates", c.Duplicates)
	m.count(prefix+"outOfOrder", c.OutOfOrder)
	m.count(prefix+"misdirected", c.Misdirected)
	m.count(prefix+"late", c.Late)
	m.count(prefix+"txDropped", c.TxDropped)
}

func (m *metrics) flows(prefix string, c *spatev1.FlowCounters, measured spatev1.MeasuredTime) {
	for _, counter := range []struct {
		name  string
		value int64
	}{
		{"attempted", c.Attempted}, {"established", c.Established}, {"closed", c.Closed}, {"failed", c.Failed}, {"reset", c.Reset}, {"timedOut", c.TimedOut}, {"closedEarly", c.ClosedEarly},
		{"httpErrors", c.HTTPErrors}, {"aborted", c.Aborted}, {"idleTimeouts", c.IdleTimeouts}, {"bytesSent", c.BytesSent}, {"bytesReceived", c.BytesReceived},
		{"packetsSent", c.PacketsSent}, {"packetsReceived", c.PacketsReceived}, {"retransmitted", c.Retransmitted}, {"errors", c.Errors}, {"late", c.Late}, {"notStarted", c.NotStarted},
		{"throttled", c.Throttled}, {"exhausted", c.Exhausted},
	} {
		m.count(prefix+counter.name, counter.value)
	}
	m.perSecond(prefix+"cps", c.Established, measured)
}

// latency adds a distribution, if something was measured.
func (m *metrics) latency(prefix string, l *spatev1.Latency) {
	if l == nil || l.Count == 0 {
		return
	}
	m.count(prefix+"count", l.Count)
	for _, at := range []struct {
		name  string
		value spatev1.MeasuredTime
	}{
		{"min", l.Min}, {"mean", l.Mean}, {"p50", l.P50}, {"p90", l.P90}, {"p95", l.P95}, {"p99", l.P99}, {"p999", l.P999}, {"p9999", l.P9999}, {"max", l.Max}, {"deviation", l.Deviation}, {"jitter", l.Jitter},
	} {
		m.time(prefix+at.name, at.value)
	}
}

// allStreams is the latency of all streams: the sum of the counts, the least of the minima, the mean of all packets, the greatest of all else.
func allStreams(r *spatev1.RunResult) *spatev1.Latency {
	var all *spatev1.Latency
	sum := new(big.Int)
	for _, s := range r.Streams {
		l := s.Latency
		if l == nil || l.Count == 0 {
			continue
		}
		if all == nil {
			all = &spatev1.Latency{Min: l.Min}
		}
		all.Count += l.Count
		sum.Add(sum, new(big.Int).Mul(big.NewInt(l.Count), big.NewInt(int64(l.Mean))))
		all.Min, all.Max = min(all.Min, l.Min), max(all.Max, l.Max)
		all.P50, all.P90, all.P95, all.P99 = max(all.P50, l.P50), max(all.P90, l.P90), max(all.P95, l.P95), max(all.P99, l.P99)
		all.P999, all.P9999 = max(all.P999, l.P999), max(all.P9999, l.P9999)
		all.Deviation, all.Jitter = max(all.Deviation, l.Deviation), max(all.Jitter, l.Jitter)
	}
	if all != nil {
		all.Mean = spatev1.MeasuredTime(sum.Quo(sum, big.NewInt(all.Count)).Int64())
	}
	return all
}

// Of returns the metrics of a result, in the order in which they are shown.
func Of(r *spatev1.RunResult) []Metric {
	m := &metrics{}
	m.time("duration", r.Duration)
	if r.Flows == nil || len(r.Streams) > 0 {
		m.packets("", &r.StreamCounters, r.Duration)
	}
	m.count("rxMissed", r.RxMissed)
	m.count("foreign", r.Foreign)
	m.count("otherMAC", r.OtherMAC)
	m.count("notReflected", r.NotReflected)
	m.count("throttled", r.Throttled)
	m.latency("latency.", allStreams(r))
	if r.Flows != nil {
		m.flows("flows.", r.Flows, r.Duration)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Streams)) {
		s := r.Streams[name]
		m.packets("streams."+name+".", &s.StreamCounters, r.Duration)
		m.latency("streams."+name+".latency.", s.Latency)
		if o := s.Outage; o != nil {
			m.time("streams."+name+".outage.longest", o.Longest)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Templates)) {
		for _, side := range []struct {
			name string
			*spatev1.TemplateSide
		}{{"client", r.Templates[name].Client}, {"server", r.Templates[name].Server}} {
			if side.TemplateSide == nil {
				continue
			}
			prefix := "templates." + name + "." + side.name + "."
			m.flows(prefix, &side.FlowCounters, r.Duration)
			m.latency(prefix+"connectTime.", side.ConnectTime)
			m.latency(prefix+"roundTrip.", side.RoundTrip)
			if o := side.Outage; o != nil {
				m.time(prefix+"outage.longest", o.Longest)
			}
		}
	}
	if r.Routing != nil {
		m.sessions(r.Routing.Sessions)
	}
	return m.all
}

// sessions adds what sessions did that advertised routes.
func (m *metrics) sessions(all map[string]spatev1.SessionResult) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s, prefix := all[name], "routing.sessions."+name+"."
		m.count(prefix+"flaps", s.Flaps)
		m.count(prefix+"configured", s.Configured)
		m.count(prefix+"sent", s.Sent)
		m.count(prefix+"received", s.Received)
		m.count(prefix+"updatesSent", s.UpdatesSent)
		m.count(prefix+"updatesReceived", s.UpdatesReceived)
	}
}

// Decimal writes a number with at most some decimal places.
func Decimal(value *big.Rat, places int) json.Number {
	text := value.FloatString(places)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		text = "0"
	}
	return json.Number(text)
}
