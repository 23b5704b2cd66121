// SPDX-License-Identifier: Apache-2.0

package compare

// This file answers: which metrics do two results have, and how do they differ? Numbers are exact.

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
)

// unit of a metric.
type unit string

const (
	number unit = ""
	rate   unit = "/s" // of packets, bits or flows
	times  unit = "ns"
)

// metric is a value of a result.
type metric struct {
	name  string
	unit  unit
	value *big.Rat
}

// metrics collects values, in the order in which they are shown.
type metrics struct{ all []metric }

func (m *metrics) add(name string, u unit, value *big.Rat) {
	m.all = append(m.all, metric{name, u, value})
}

func (m *metrics) count(name string, value int64) { m.add(name, number, new(big.Rat).SetInt64(value)) }

func (m *metrics) time(name string, value spatev1.MeasuredTime) {
	m.add(name, times, new(big.Rat).SetInt64(int64(value)))
}

// perSecond adds a mean rate, if the result says for how long it was measured.
func (m *metrics) perSecond(name string, value int64, measured spatev1.MeasuredTime) {
	if measured > 0 {
		nanoseconds := new(big.Int).Mul(big.NewInt(value), big.NewInt(int64(time.Second)))
		m.add(name, rate, new(big.Rat).SetFrac(nanoseconds, big.NewInt(int64(measured))))
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
		m.add(prefix+"lossRatio", number, ratio)
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

// metricsOf a result.
func metricsOf(r *spatev1.RunResult) []metric {
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
	return m.all
}

// difference of a metric that both runs have.
type difference struct {
	metric        string
	unit          unit
	first, second *big.Rat
}

func (d *difference) change() *big.Rat { return new(big.Rat).Sub(d.second, d.first) }

// relative change in percent of the first value; nil if that is 0.
func (d *difference) relative() *big.Rat {
	if d.first.Sign() == 0 {
		return nil
	}
	change := new(big.Rat).Mul(d.change(), big.NewRat(100, 1))
	return change.Quo(change, new(big.Rat).Abs(d.first))
}

func (d *difference) isZero() bool { return d.first.Sign() == 0 && d.second.Sign() == 0 }

// MarshalJSON writes numbers with at most nine decimal places. relativePercent is absent where the first value is 0.
func (d difference) MarshalJSON() ([]byte, error) {
	out := struct {
		Metric   string      `json:"metric"`
		Unit     unit        `json:"unit,omitempty"`
		First    json.Number `json:"first"`
		Second   json.Number `json:"second"`
		Change   json.Number `json:"change"`
		Relative json.Number `json:"relativePercent,omitempty"`
	}{d.metric, d.unit, decimal(d.first, 9), decimal(d.second, 9), decimal(d.change(), 9), ""}
	if relative := d.relative(); relative != nil {
		out.Relative = decimal(relative, 9)
	}
	return json.Marshal(out)
}

// decimal writes a number with at most some decimal places.
func decimal(value *big.Rat, places int) json.Number {
	text := value.FloatString(places)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		text = "0"
	}
	return json.Number(text)
}

// cells of the row of a table.
func (d *difference) cells() []string {
	return []string{d.metric, show(d.first, d.unit), show(d.second, d.unit), signed(d.change(), d.unit), d.percent()}
}

// percent is the relative change with two decimal places.
func (d *difference) percent() string {
	relative := d.relative()
	switch {
	case relative == nil && d.second.Sign() == 0:
		return "0%"
	case relative == nil:
		return "from 0"
	case relative.Sign() > 0:
		return "+" + relative.FloatString(2) + "%"
	}
	return relative.FloatString(2) + "%"
}

// show writes a value of a unit.
func show(value *big.Rat, u unit) string {
	switch {
	case u == times && value.IsInt() && value.Num().IsInt64():
		return spatev1.MeasuredTime(value.Num().Int64()).String()
	case u == rate:
		return string(decimal(value, 1))
	}
	return string(decimal(value, 9))
}

// signed writes a change.
func signed(value *big.Rat, u unit) string {
	if value.Sign() > 0 {
		return "+" + show(value, u)
	}
	return show(value, u)
}

// compare compares the results of two runs.
func compare(first, second *spatev1.TrafficRun) *document {
	d := &document{First: comparedOf(first), Second: comparedOf(second), Differences: []difference{}}
	others := map[string]metric{}
	for _, m := range metricsOf(second.Status.Result) {
		others[m.name] = m
	}
	for _, m := range metricsOf(first.Status.Result) {
		if other, both := others[m.name]; both {
			d.Differences = append(d.Differences, difference{m.name, m.unit, m.value, other.value})
		}
	}
	d.OnlyInFirst, d.OnlyInSecond = only(first.Status.Result, second.Status.Result), only(second.Status.Result, first.Status.Result)
	return d
}

// only lists the streams and the sides of templates that a result has and another has not.
func only(r, other *spatev1.RunResult) []string {
	names := func(r *spatev1.RunResult) (all []string) {
		for name := range r.Streams {
			all = append(all, "streams."+name)
		}
		for name, t := range r.Templates {
			if t.Client != nil {
				all = append(all, "templates."+name+".client")
			}
			if t.Server != nil {
				all = append(all, "templates."+name+".server")
			}
		}
		slices.Sort(all)
		return all
	}
	others := names(other)
	all := slices.DeleteFunc(names(r), func(name string) bool {
		_, there := slices.BinarySearch(others, name)
		return there
	})
	if all == nil {
		all = []string{} // a list for programs
	}
	return all
}
