// SPDX-License-Identifier: Apache-2.0

package report

// This file answers: how are samples and streams of a run a table for other programs?

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs/samples"
)

// csvColumns are the counters of a row. A cell is empty where the row's subject has no such counter; times are in nanoseconds.
var csvColumns = []string{
	samples.Tx, samples.TxBytes, samples.Rx, samples.RxBytes, samples.Lost, samples.Duplicates, samples.OutOfOrder, samples.Late, samples.TxDropped, samples.RxMissed, samples.Foreign, samples.Throttled,
	samples.DelayCount, samples.DelaySum, samples.DelayP50, samples.DelayP99, samples.DelayGreatest,
	samples.Attempted, samples.Established, samples.Closed, samples.Failed, samples.Open, samples.BytesSent, samples.BytesReceived, samples.PacketsSent, samples.PacketsReceived,
	samples.Retransmitted, samples.FlowsLate, samples.NotStarted, samples.Exhausted, samples.ConnectCount, samples.ConnectSum, samples.ConnectP99,
}

var (
	packetColumns  = csvColumns[:9]
	portColumns    = csvColumns[:12]
	streamColumns  = slices.Concat(csvColumns[:9], csvColumns[12:17])
	flowColumns    = csvColumns[17:30]
	clientsColumns = csvColumns[17:]
)

// writeCSV writes the samples of a run, if it has any, and then what its streams and templates came to. Counters of samples are sums since the
// end of the warm-up.
func writeCSV(w io.Writer, s *subject) error {
	out := csv.NewWriter(w)
	_ = out.Write(slices.Concat([]string{"row", "name", "at_ns"}, csvColumns)) // errors are those of Flush
	row := func(kind, name, at string, values map[string]int64, known []string) {
		cells := []string{kind, name, at}
		for _, column := range csvColumns {
			if slices.Contains(known, column) {
				cells = append(cells, strconv.FormatInt(values[column], 10))
			} else {
				cells = append(cells, "")
			}
		}
		_ = out.Write(cells)
	}
	if all := s.samples; all != nil {
		for i, at := range all.Times {
			time := strconv.FormatInt(at, 10)
			row("sample", "", time, valuesAt(all.Total, i), portColumns)
			if len(all.Flows) > 0 {
				row("sample-flows", "", time, valuesAt(all.Flows, i), flowColumns)
			}
			for _, name := range slices.Sorted(maps.Keys(all.Streams)) {
				row("sample-stream", name, time, valuesAt(all.Streams[name], i), streamColumns)
			}
			for _, name := range slices.Sorted(maps.Keys(all.Templates)) {
				row("sample-template", name, time, valuesAt(all.Templates[name], i), clientsColumns)
			}
		}
	}
	if r := s.run.Status.Result; r != nil {
		for _, name := range slices.Sorted(maps.Keys(r.Streams)) {
			stream := r.Streams[name]
			values, known := samples.PacketsOf(&stream.StreamCounters), packetColumns
			if l := stream.Latency; l != nil {
				values[samples.DelayCount], values[samples.DelayP50], values[samples.DelayP99], values[samples.DelayGreatest] = l.Count, int64(l.P50), int64(l.P99), int64(l.Max)
				known = slices.Concat(known, []string{samples.DelayCount, samples.DelayP50, samples.DelayP99, samples.DelayGreatest})
			}
			row("stream", name, "", values, known)
		}
		for _, name := range slices.Sorted(maps.Keys(r.Templates)) {
			for _, side := range []struct {
				kind string
				*spatev1.TemplateSide
			}{{"template-client", r.Templates[name].Client}, {"template-server", r.Templates[name].Server}} {
				if side.TemplateSide != nil {
					row(side.kind, name, "", samples.FlowsOf(&side.FlowCounters), flowColumns)
				}
			}
		}
		values := samples.PacketsOf(&r.StreamCounters)
		values[samples.RxMissed], values[samples.Foreign], values[samples.Throttled] = r.RxMissed, r.Foreign, r.Throttled
		row("total", "", "", values, portColumns)
	}
	out.Flush()
	return out.Error()
}

// valuesAt are the counters of a table at a sample.
func valuesAt(t samples.Table, i int) map[string]int64 {
	values := make(map[string]int64, len(t))
	for name, column := range t {
		values[name] = column[i]
	}
	return values
}
