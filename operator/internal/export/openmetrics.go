// SPDX-License-Identifier: Apache-2.0

package export

// This file answers: how are samples OpenMetrics text with time stamps, which `promtool tsdb create-blocks-from openmetrics` reads?

import (
	"bufio"
	"io"
	"iter"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"
)

// WriteOpenMetrics writes time series. Those of a metric must be together.
func WriteOpenMetrics(w io.Writer, all iter.Seq[Series]) error {
	out := bufio.NewWriter(w)
	var family *dto.MetricFamily
	write := func() error {
		if family == nil {
			return nil
		}
		_, err := expfmt.MetricFamilyToOpenMetrics(out, family)
		return err
	}
	for s := range all {
		if family.GetName() != s.Name {
			if err := write(); err != nil {
				return err
			}
			kind := dto.MetricType_GAUGE
			if s.Counter {
				kind = dto.MetricType_COUNTER
			}
			family = &dto.MetricFamily{Name: proto.String(s.Name), Help: proto.String(s.Help), Type: kind.Enum()}
		}
		labels := make([]*dto.LabelPair, 0, len(s.Labels))
		for _, label := range s.Labels {
			labels = append(labels, &dto.LabelPair{Name: proto.String(label.Name), Value: proto.String(label.Value)})
		}
		for _, p := range s.Points {
			m := &dto.Metric{Label: labels, TimestampMs: proto.Int64(p.At)}
			if s.Counter {
				m.Counter = &dto.Counter{Value: proto.Float64(p.Value)}
			} else {
				m.Gauge = &dto.Gauge{Value: proto.Float64(p.Value)}
			}
			family.Metric = append(family.Metric, m)
		}
	}
	if err := write(); err != nil {
		return err
	}
	if _, err := expfmt.FinalizeOpenMetrics(out); err != nil {
		return err
	}
	return out.Flush()
}
