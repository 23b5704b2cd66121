// SPDX-License-Identifier: Apache-2.0

// Package export brings the samples of a run to systems that keep metrics: by Prometheus' remote write, by OTLP, or as OpenMetrics text.
package export

// This file answers: which time series are the samples of a run?

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/metrics"
	"spate.dev/operator/internal/runs/samples"
)

// quantile is the label of quantiles, as engines' metrics have it.
const quantile = "quantile"

// family is a metric, and the counter of samples that it is made of.
type family struct {
	metrics.Family

	counter string
	// per is how many of the sample's units are one of the metric's: 1e9 of nanoseconds to seconds.
	per float64
	// quantile of a distribution; empty if the metric is none.
	quantile string
}

// subjects are what is sampled, each with the start of its metrics' names, the label that names it, and its counters.
var subjects = []struct {
	prefix, label string
	families      []family
	tables        func(*samples.Series) map[string]samples.Table
}{
	{"spate_run_", "", slices.Concat(ofPackets, ofPorts), func(s *samples.Series) map[string]samples.Table { return map[string]samples.Table{"": s.Total} }},
	{"spate_run_", "", ofFlows, func(s *samples.Series) map[string]samples.Table { return map[string]samples.Table{"": s.Flows} }},
	{"spate_run_stream_", "stream", slices.Concat(ofPackets, ofLatency), func(s *samples.Series) map[string]samples.Table { return s.Streams }},
	{"spate_run_template_", "template", slices.Concat(ofFlows, ofConnects), func(s *samples.Series) map[string]samples.Table { return s.Templates }},
}

var (
	ofPackets = []family{
		counter(samples.Tx, "tx_packets", "Packets sent"),
		counter(samples.TxBytes, "tx_bytes", "Bytes sent, FCS included"),
		counter(samples.Rx, "rx_packets", "Packets received"),
		counter(samples.RxBytes, "rx_bytes", "Bytes received, FCS included"),
		gauge(samples.Lost, "lost_packets", "Packets sent and not received so far, those in flight included"),
		counter(samples.Duplicates, "duplicate_packets", "Packets received before"),
		counter(samples.OutOfOrder, "out_of_order_packets", "Packets received after one sent later"),
		counter(samples.Late, "late_packets", "Packets that left later than they should have"),
		counter(samples.TxDropped, "tx_dropped_packets", "Packets that could not be sent"),
	}
	ofPorts = []family{
		counter(samples.RxMissed, "rx_missed_packets", "Packets lost before engines could read them"),
		counter(samples.Foreign, "foreign_packets", "Packets without a trailer of any run"),
		counter(samples.Throttled, "throttled_packets", "Packets that the generator's maximum rate delayed"),
	}
	ofLatency = []family{
		counter(samples.DelayCount, "latency_packets", "Packets whose latency was measured"),
		seconds(counter(samples.DelaySum, "latency_seconds", "Sum of their latencies: by the packets, the mean")),
		of("0.5", seconds(gauge(samples.DelayP50, "latency_quantile_seconds", "Quantiles of the latency of the run so far"))),
		of("0.99", seconds(gauge(samples.DelayP99, "latency_quantile_seconds", "Quantiles of the latency of the run so far"))),
		seconds(gauge(samples.DelayGreatest, "latency_max_seconds", "Maximum of the latency of the run so far")),
	}
	ofFlows = []family{
		counter(samples.Attempted, "flows_attempted", "Flows that clients started"),
		counter(samples.Established, "flows_established", "Flows established"),
		counter(samples.Closed, "flows_closed", "Flows ended, in whatever way"),
		counter(samples.Failed, "flows_failed", "Flows that were not established, or ended by an error"),
		gauge(samples.Open, "open_flows", "Flows that are open"),
		counter(samples.BytesSent, "flow_sent_bytes", "Bytes of data that flows sent"),
		counter(samples.BytesReceived, "flow_received_bytes", "Bytes of data that flows received"),
		counter(samples.PacketsSent, "flow_sent_packets", "Packets of flows sent"),
		counter(samples.PacketsReceived, "flow_received_packets", "Packets of flows received"),
		counter(samples.Retransmitted, "flow_retransmitted_packets", "Segments with data sent again"),
		counter(samples.FlowsLate, "flows_late", "Flows that started later than they were due"),
		counter(samples.NotStarted, "flows_not_started", "Flows that were due and did not start"),
		counter(samples.Exhausted, "flows_exhausted", "Flows for which there was no room in the flow table, or no free port"),
	}
	ofConnects = []family{
		counter(samples.ConnectCount, "connects", "Connections whose connect time was measured"),
		seconds(counter(samples.ConnectSum, "connect_seconds", "Sum of their connect times: by the connections, the mean")),
		of("0.99", seconds(gauge(samples.ConnectP99, "connect_quantile_seconds", "Quantiles of the connect time of the run so far"))),
	}
)

func counter(name, metric, help string) family {
	return family{Family: metrics.Family{Name: metric + "_total", Type: "counter", Help: help}, counter: name, per: 1}
}

func gauge(name, metric, help string) family {
	return family{Family: metrics.Family{Name: metric, Type: "gauge", Help: help}, counter: name, per: 1}
}

func seconds(f family) family {
	f.per = 1e9
	return f
}

func of(q string, f family) family {
	f.quantile = q
	return f
}

// Families returns the metrics that samples become, for their reference.
func Families() []metrics.Family {
	var all []metrics.Family
	for _, subject := range subjects {
		for _, f := range subject.families {
			listed := metrics.Family{Name: subject.prefix + f.Name, Type: f.Type, Help: f.Help, Labels: slices.Clone(metrics.LabelsOfRuns())}
			if subject.label != "" {
				listed.Labels = append(listed.Labels, subject.label)
			}
			if f.quantile != "" {
				listed.Labels = append(listed.Labels, quantile)
			}
			if last := len(all) - 1; last < 0 || all[last].Name != listed.Name {
				all = append(all, listed)
			}
		}
	}
	return all
}

// Label of a time series.
type Label struct{ Name, Value string }

// Point is a sample with its own time.
type Point struct {
	// At is in milliseconds since 1970, the resolution of Prometheus.
	At    int64
	Value float64
}

// Series is a time series, or successive points of one.
type Series struct {
	Name, Help string
	// Counter says whether it is a sum since the start of the traffic, in which what was counted before the end of the warm-up is 0; else it is a
	// gauge.
	Counter bool
	// Labels without the name, sorted by their names.
	Labels []Label
	// Points by time, ascending, no two of the same time.
	Points []Point
}

// Of yields the time series of a run's samples, those of a metric one after the other. More labels are added to each; one that a series has itself
// stays. Counters that were always 0 have no series, since samples do not have them. A run without the time of its start has no series.
func Of(run *spatev1.TrafficRun, sampled *samples.Series, more map[string]string) iter.Seq[Series] {
	return func(yield func(Series) bool) {
		if run.Status.TrafficStartTime == nil || sampled == nil {
			return
		}
		start := run.Status.TrafficStartTime.Time
		own := maps.Clone(more)
		if own == nil {
			own = map[string]string{}
		}
		for i, value := range metrics.LabelValuesOf(run) {
			own[metrics.LabelsOfRuns()[i]] = value
		}
		for _, subject := range subjects {
			tables := subject.tables(sampled)
			for _, f := range subject.families {
				for _, name := range slices.Sorted(maps.Keys(tables)) {
					column, there := tables[name][f.counter]
					if !there {
						continue
					}
					labels := maps.Clone(own)
					if subject.label != "" {
						labels[subject.label] = name
					}
					if f.quantile != "" {
						labels[quantile] = f.quantile
					}
					s := Series{Name: subject.prefix + f.Name, Help: f.Help, Counter: f.Type == "counter", Labels: sorted(labels), Points: points(start, sampled.Times, column, f.per)}
					if !yield(s) {
						return
					}
				}
			}
		}
	}
}

// sorted returns the labels that have a value: remote write knows no others.
func sorted(labels map[string]string) []Label {
	all := make([]Label, 0, len(labels))
	for name, value := range labels {
		if value != "" {
			all = append(all, Label{name, value})
		}
	}
	slices.SortFunc(all, byName)
	return all
}

func byName(a, b Label) int { return cmp.Compare(a.Name, b.Name) }

// points returns a column of samples with its times. Of two within a millisecond the later stays.
func points(start time.Time, times, column []int64, per float64) []Point {
	all := make([]Point, 0, len(column))
	for i, value := range column {
		p := Point{At: start.Add(time.Duration(times[i])).UnixMilli(), Value: float64(value) / per}
		if last := len(all) - 1; last >= 0 && all[last].At == p.At {
			all[last] = p
			continue
		}
		all = append(all, p)
	}
	return all
}

// batches yields all points in batches of a number of them: no series is longer than a batch has room for.
func batches(all iter.Seq[Series], most int) iter.Seq[[]Series] {
	return func(yield func([]Series) bool) {
		var batch []Series
		room := most
		for s := range all {
			for len(s.Points) > 0 {
				part := s
				n := min(room, len(s.Points))
				part.Points, s.Points = s.Points[:n], s.Points[n:]
				batch = append(batch, part)
				if room -= n; room > 0 {
					continue
				}
				if !yield(batch) {
					return
				}
				batch, room = nil, most
			}
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}
