// SPDX-License-Identifier: Apache-2.0

package export

// This file answers: what is a request of OTLP/HTTP (OpenTelemetry Protocol, binary protobuf)?

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

// service is service.name of the resource, which Prometheus has as the label `job`.
const service = "spate"

// otlpRequest returns the encoder of a run; start is when its counters started. Names are without the suffix `_total`, which belongs to
// Prometheus: it is added there.
func otlpRequest(start time.Time) encoder {
	return func(batch []Series) ([]byte, http.Header, error) {
		var all []*otlp.Metric
		for _, s := range batch {
			points := make([]*otlp.NumberDataPoint, 0, len(s.Points))
			attributes := make([]*common.KeyValue, 0, len(s.Labels))
			for _, label := range s.Labels {
				attributes = append(attributes, attribute(label.Name, label.Value))
			}
			for _, p := range s.Points {
				point := &otlp.NumberDataPoint{Attributes: attributes, TimeUnixNano: uint64(time.UnixMilli(p.At).UnixNano()), Value: &otlp.NumberDataPoint_AsDouble{AsDouble: p.Value}}
				if s.Counter {
					point.StartTimeUnixNano = uint64(start.UnixNano())
				}
				points = append(points, point)
			}
			m := &otlp.Metric{Name: strings.TrimSuffix(s.Name, "_total"), Description: s.Help, Unit: unitOf(s.Name)}
			if s.Counter {
				m.Data = &otlp.Metric_Sum{Sum: &otlp.Sum{DataPoints: points, IsMonotonic: true, AggregationTemporality: otlp.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE}}
			} else {
				m.Data = &otlp.Metric_Gauge{Gauge: &otlp.Gauge{DataPoints: points}}
			}
			all = append(all, m)
		}
		request := &collector.ExportMetricsServiceRequest{ResourceMetrics: []*otlp.ResourceMetrics{{
			Resource:     &resource.Resource{Attributes: []*common.KeyValue{attribute("service.name", service)}},
			ScopeMetrics: []*otlp.ScopeMetrics{{Scope: &common.InstrumentationScope{Name: "spate.dev/samples"}, Metrics: all}},
		}}}
		encoded, err := proto.Marshal(request)
		if err != nil {
			return nil, nil, err
		}
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err = w.Write(encoded)
		err = errors.Join(err, w.Close())
		return packed.Bytes(), http.Header{"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"gzip"}}, err
	}
}

func attribute(name, value string) *common.KeyValue {
	return &common.KeyValue{Key: name, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

// unitOf returns the unit in a metric's name as UCUM has it, as OTLP requires.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	switch {
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	case strings.HasSuffix(name, "_bytes"):
		return "By"
	case strings.HasSuffix(name, "_packets"):
		return "{packet}"
	}
	return ""
}

// rejected returns an error if a receiver has not taken all that it answers to have received (OTLP, partial success).
func rejected(body []byte) error {
	answer := &collector.ExportMetricsServiceResponse{}
	if err := proto.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("the answer is none of OTLP: %w", err)
	}
	if n := answer.GetPartialSuccess().GetRejectedDataPoints(); n > 0 {
		return fmt.Errorf("%d samples were rejected: %s", n, oneLine(answer.GetPartialSuccess().GetErrorMessage()))
	}
	return nil
}
