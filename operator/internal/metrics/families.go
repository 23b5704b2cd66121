// SPDX-License-Identifier: Apache-2.0

package metrics

// This file answers: which metrics does the operator have? It is for their reference.

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Family is a metric with its type (counter, gauge, histogram), what it means, and its labels.
type Family struct {
	Name, Type, Help string
	Labels           []string
}

// description is the text of a prometheus.Desc, which has no other way to be read.
var description = regexp.MustCompile(`fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), .*variableLabels: \{([^}]*)\}`)

// Families returns the operator's own metrics, in the order of their registration.
func Families() []Family {
	var families []Family
	for _, collector := range all {
		described := make(chan *prometheus.Desc, 16)
		collector.Describe(described)
		close(described)
		for desc := range described {
			parts := description.FindStringSubmatch(desc.String())
			name, _ := strconv.Unquote(parts[1])
			help, _ := strconv.Unquote(parts[2])
			family := Family{Name: name, Type: typeOf(collector, name), Help: help}
			if parts[3] != "" {
				family.Labels = strings.Split(parts[3], ",")
			}
			families = append(families, family)
		}
	}
	return families
}

func typeOf(collector prometheus.Collector, name string) string {
	switch collector.(type) {
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}
