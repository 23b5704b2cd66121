// SPDX-License-Identifier: Apache-2.0

package metrics

// This file answers: what is reported of TrafficSearches? It is computed from their status, so that it is the same after a restart of the operator,
// and is removed with them.

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// A label `namespace` would be that of the operator's pod in what a PodMonitor scrapes.
var (
	searchLoad = prometheus.NewDesc("spate_search_load", "Load of the trial under way of a TrafficSearch, in packets a second of the busiest transmitting port, "+
		"or connections a second of all applications.", []string{"search_namespace", "search", "variant"}, nil)
	searchBound = prometheus.NewDesc("spate_search_bound", "Relevant bounds that a TrafficSearch has found so far, in the unit of its loads.",
		[]string{"search_namespace", "search", "variant", "goal", "side"}, nil)
	searchTrials = prometheus.NewDesc("spate_search_trials_total", "Trials of a TrafficSearch that have ended.", []string{"search_namespace", "search", "variant"}, nil)
)

// searches are the samples of all TrafficSearches.
var searches = &searchCollector{of: map[client.ObjectKey][]prometheus.Metric{}}

type searchCollector struct {
	mu sync.Mutex
	of map[client.ObjectKey][]prometheus.Metric
}

// Describe implements prometheus.Collector.
func (c *searchCollector) Describe(all chan<- *prometheus.Desc) {
	all <- searchLoad
	all <- searchBound
	all <- searchTrials
}

// Collect implements prometheus.Collector.
func (c *searchCollector) Collect(all chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, samples := range c.of {
		for _, sample := range samples {
			all <- sample
		}
	}
}

// Search records how far a search is. load is that of the trial under way in its last variant; empty without one.
func Search(search *spatev1.TrafficSearch, load string) {
	var samples []prometheus.Metric
	gauge := func(desc *prometheus.Desc, text string, labels ...string) {
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			samples = append(samples, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{search.Namespace, search.Name}, labels...)...))
		}
	}
	for i, v := range search.Status.Variants {
		samples = append(samples, prometheus.MustNewConstMetric(searchTrials, prometheus.CounterValue, float64(v.Trials), search.Namespace, search.Name, v.Name))
		for _, goal := range v.Result.Goals {
			gauge(searchBound, goal.Lower, v.Name, string(goal.Name), "lower")
			gauge(searchBound, goal.Upper, v.Name, string(goal.Name), "upper")
		}
		if i == len(search.Status.Variants)-1 {
			gauge(searchLoad, load, v.Name)
		}
	}
	searches.mu.Lock()
	defer searches.mu.Unlock()
	searches.of[client.ObjectKeyFromObject(search)] = samples
}

// SearchDeleted removes what was recorded of a search.
func SearchDeleted(search client.ObjectKey) {
	searches.mu.Lock()
	defer searches.mu.Unlock()
	delete(searches.of, search)
}
