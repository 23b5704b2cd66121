// SPDX-License-Identifier: Apache-2.0

package export

// This file answers: what is a request of Prometheus' remote write? It is version 1.0 of the protocol (a prometheus.WriteRequest, compressed by
// snappy), which Prometheus, Mimir, Thanos, Cortex and VictoriaMetrics all accept. Its message has three levels, and is written without a library
// that would bring all of Prometheus along.

import (
	"math"
	"net/http"
	"slices"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of the messages (prompb/remote.proto and types.proto of Prometheus).
const (
	fieldTimeSeries protowire.Number = 1 // of WriteRequest
	fieldLabels     protowire.Number = 1 // of TimeSeries
	fieldSamples    protowire.Number = 2
	fieldName       protowire.Number = 1 // of Label
	fieldText       protowire.Number = 2
	fieldValue      protowire.Number = 1 // of Sample
	fieldTimestamp  protowire.Number = 2
)

// nameLabel is the label that has a series' name.
const nameLabel = "__name__"

// remoteWrite encodes a batch, and returns the headers that go with it.
func remoteWrite(batch []Series) ([]byte, http.Header) {
	var request, series, part []byte
	for _, s := range batch {
		series = series[:0]
		labels := append([]Label{{nameLabel, s.Name}}, s.Labels...)
		slices.SortFunc(labels, byName) // receivers require it
		for _, label := range labels {
			part = protowire.AppendString(protowire.AppendTag(part[:0], fieldName, protowire.BytesType), label.Name)
			part = protowire.AppendString(protowire.AppendTag(part, fieldText, protowire.BytesType), label.Value)
			series = protowire.AppendBytes(protowire.AppendTag(series, fieldLabels, protowire.BytesType), part)
		}
		for _, p := range s.Points {
			part = protowire.AppendFixed64(protowire.AppendTag(part[:0], fieldValue, protowire.Fixed64Type), math.Float64bits(p.Value))
			part = protowire.AppendVarint(protowire.AppendTag(part, fieldTimestamp, protowire.VarintType), uint64(p.At))
			series = protowire.AppendBytes(protowire.AppendTag(series, fieldSamples, protowire.BytesType), part)
		}
		request = protowire.AppendBytes(protowire.AppendTag(request, fieldTimeSeries, protowire.BytesType), series)
	}
	return snappy.Encode(nil, request), http.Header{
		"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"snappy"}, "X-Prometheus-Remote-Write-Version": {"0.1.0"},
	}
}
