// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/ptr"
)

// Metrics that no test serves are among them.
func TestAllMetricsKeepTheRulesOfPrometheusButForTheExceptions(t *testing.T) {
	ours, err := sections("../../..")
	if err != nil {
		t.Fatal(err)
	}
	var families []*dto.MetricFamily
	for _, section := range ours {
		for _, f := range section.families {
			metric := &dto.Metric{}
			for _, label := range f.Labels {
				metric.Label = append(metric.Label, &dto.LabelPair{Name: ptr.To(label), Value: ptr.To("")})
			}
			families = append(families, &dto.MetricFamily{
				Name: ptr.To(f.Name), Help: ptr.To(f.Help), Type: dto.MetricType(dto.MetricType_value[strings.ToUpper(f.Type)]).Enum(), Metric: []*dto.Metric{metric},
			})
		}
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	excepted := map[string]bool{}
	for _, e := range exceptions {
		excepted[e.metric+": "+e.rule] = false
	}
	for _, p := range problems {
		problem := fmt.Sprintf("%s: %s", p.Metric, p.Text)
		if _, meant := excepted[problem]; !meant {
			t.Errorf("%s: rename it, or list the exception with its reason (operator/hack/metrics/lint.go)", problem)
		}
		excepted[problem] = true
	}
	for exception, occurs := range excepted {
		if !occurs {
			t.Errorf("%s: the exception is not needed", exception)
		}
	}
}
