// SPDX-License-Identifier: Apache-2.0

package report

// This file answers: which pictures are drawn of a run's samples?

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/figures"
	"spate.dev/operator/internal/runs/samples"
)

// overTime has the charts of the samples.
func overTime(s *subject) section {
	out := section{ID: "time", Title: "Over time"}
	all := s.samples
	if all == nil || len(all.Times) < 2 {
		why := s.noSamples
		if why == "" {
			why = "The run has too few samples for a chart."
		}
		out.Notes = []string{why}
		return out
	}
	out.Notes = []string{fmt.Sprintf("%d samples, %s or more apart, from the run's own ConfigMap. Times are since the start of the traffic; the warm-up counts nothing.", len(all.Times), all.Interval)}
	if n := all.StreamsNotSampled; n > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("Streams by themselves are the first %d by name; %d more are in the sums only.", len(all.Streams), n))
	}
	if n := all.TemplatesNotSampled; n > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("Templates by themselves are the first %d by name; %d more are in the sums only.", len(all.Templates), n))
	}
	begins := marks(s.run)
	draw := func(title, unit string, lines ...line) {
		if c, drawn := lineChart(title, unit, all.Times, begins, lines); drawn {
			out.Charts = append(out.Charts, c)
		}
	}
	total, flows := all.Total, all.Flows
	draw("Packet rate", "pps", line{"sent", all.Rates(total[samples.Tx], 1)}, line{"received", all.Rates(total[samples.Rx], 1)})
	draw("Bit rate, layer 2", "bps", line{"sent", all.Rates(total[samples.TxBytes], 8)}, line{"received", all.Rates(total[samples.RxBytes], 8)})
	draw("Packets lost so far, those in flight included", "", line{"lost", values(total[samples.Lost])})
	draw("Packets received, by stream", "pps", byName(all.Streams, func(t samples.Table) []float64 { return all.Rates(t[samples.Rx], 1) })...)
	draw("Mean delay, by stream", "s", byName(all.Streams, func(t samples.Table) []float64 { return samples.Means(t[samples.DelaySum], t[samples.DelayCount]) })...)
	draw("99th percentile of delays so far, by stream", "s", byName(all.Streams, func(t samples.Table) []float64 { return seconds(t[samples.DelayP99]) })...)
	draw("Flows", "cps", line{"established", all.Rates(flows[samples.Established], 1)}, line{"failed", all.Rates(flows[samples.Failed], 1)})
	draw("Open flows", "", line{"open", values(flows[samples.Open])})
	draw("Bytes of applications", "bps", line{"sent", all.Rates(flows[samples.BytesSent], 8)}, line{"received", all.Rates(flows[samples.BytesReceived], 8)})
	draw("Segments retransmitted", "pps", line{"retransmitted", all.Rates(flows[samples.Retransmitted], 1)})
	draw("Flows established, by template", "cps", byName(all.Templates, func(t samples.Table) []float64 { return all.Rates(t[samples.Established], 1) })...)
	draw("Mean connect time, by template", "s", byName(all.Templates, func(t samples.Table) []float64 { return samples.Means(t[samples.ConnectSum], t[samples.ConnectCount]) })...)
	draw("What the generator added so far", "", line{"late", values(total[samples.Late])}, line{"not sent", values(total[samples.TxDropped])}, line{"missed", values(total[samples.RxMissed])},
		line{"flows late", values(flows[samples.FlowsLate])}, line{"flows not started", values(flows[samples.NotStarted])}, line{"flows exhausted", values(flows[samples.Exhausted])})
	return out
}

// marks are the ends of the warm-up and of stages: what is measured from then on.
func marks(run *spatev1.TrafficRun) (all []mark) {
	at := time.Duration(0)
	if resolved := run.Status.Resolved; resolved != nil {
		if warmup, err := resolved.Timing.Warmup.Parse(); err == nil { // absent is an error, too
			at = warmup
		}
	}
	if at > 0 && len(run.Status.Stages) == 0 {
		all = append(all, mark{at, "measured"})
	}
	for _, stage := range run.Status.Stages {
		if stage.Result == nil {
			break
		}
		all = append(all, mark{at, stage.Name})
		at += time.Duration(stage.Result.Duration)
	}
	return all
}

// line of a chart. A value that is not a number leaves a gap; a line without values is not drawn.
type line struct {
	name   string
	values []float64
}

// byName makes a line of each table.
func byName(tables map[string]samples.Table, of func(samples.Table) []float64) (lines []line) {
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		lines = append(lines, line{name, of(tables[name])})
	}
	return lines
}

// values of a column as they are.
func values(column []int64) []float64 {
	out := make([]float64, len(column))
	for i, value := range column {
		out[i] = float64(value)
	}
	return out
}

// seconds of times in nanoseconds; 0 is no time yet.
func seconds(column []int64) []float64 {
	out := make([]float64, len(column))
	for i, value := range column {
		if out[i] = float64(value) / float64(time.Second); value == 0 {
			out[i] = math.NaN()
		}
	}
	return out
}

// mostInPicture is how many distributions are in one picture.
const mostInPicture = 8

// percentileChart draws the distribution of times: the inverse of the cumulative distribution function, whose upper end is stretched.
func percentileChart(all []timing) (chart, bool) {
	c := chart{Title: "Times by percentile (inverse of the cumulative distribution)"}
	var shown []timing
	for _, d := range all {
		if d.latency.Count > 0 && d.latency.Max > 0 {
			shown = append(shown, d)
		}
	}
	if len(shown) == 0 {
		return c, false
	}
	if more := len(shown) - mostInPicture; more > 0 {
		c.Title += fmt.Sprintf(" (the first %d; %d more are in the table)", mostInPicture, more)
		shown = shown[:mostInPicture]
	}
	marks := []struct {
		name string
		at   func(*spatev1.Latency) spatev1.MeasuredTime
	}{
		{"min", func(l *spatev1.Latency) spatev1.MeasuredTime { return l.Min }}, {"50", func(l *spatev1.Latency) spatev1.MeasuredTime { return l.P50 }},
		{"90", func(l *spatev1.Latency) spatev1.MeasuredTime { return l.P90 }}, {"95", func(l *spatev1.Latency) spatev1.MeasuredTime { return l.P95 }},
		{"99", func(l *spatev1.Latency) spatev1.MeasuredTime { return l.P99 }}, {"99.9", func(l *spatev1.Latency) spatev1.MeasuredTime { return l.P999 }},
		{"99.99", func(l *spatev1.Latency) spatev1.MeasuredTime { return l.P9999 }}, {"max", func(l *spatev1.Latency) spatev1.MeasuredTime { return l.Max }},
	}
	// The distance of a percentile is by the number of nines: -log10(1-q).
	positions := []float64{0, 0.301, 1, 1.301, 2, 3, 4, 5}
	a := axes{}
	for i, m := range marks {
		a.xTicks = append(a.xTicks, tick{positions[i] / 5, m.name})
	}
	least, greatest := math.Inf(1), math.Inf(-1)
	points := make([][]float64, len(shown))
	for i, d := range shown {
		for _, m := range marks {
			value := math.Log10(max(float64(m.at(d.latency)), 1) / float64(time.Second)) // 1 ns is the least that is measured
			points[i] = append(points[i], value)
			least, greatest = min(least, value), max(greatest, value)
		}
	}
	least, greatest = math.Floor(least), math.Ceil(greatest)
	if greatest <= least {
		greatest = least + 1
	}
	for decade := least; decade <= greatest; decade++ {
		a.yTicks = append(a.yTicks, tick{(decade - least) / (greatest - least), figures.WithUnit(math.Pow(10, decade), "s")})
	}
	for i, d := range shown {
		path := polyline{class: i}
		for k, value := range points[i] {
			path.points = append(path.points, point{positions[k] / 5, (value - least) / (greatest - least)})
		}
		a.lines = append(a.lines, path)
		c.Legend = append(c.Legend, key{i, d.name})
	}
	for k, m := range marks {
		hint := []string{"percentile " + m.name}
		for i, d := range shown {
			hint = append(hint, d.name+": "+figures.WithUnit(math.Pow(10, points[i][k]), "s"))
		}
		a.hints = append(a.hints, tick{positions[k] / 5, strings.Join(hint, "\n")})
	}
	c.SVG = a.draw(c.Title)
	return c, true
}
