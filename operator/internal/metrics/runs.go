// SPDX-License-Identifier: Apache-2.0

package metrics

// This file answers: what is reported of each TrafficRun? It is computed from the runs that there are, so that it is the same after a restart of
// the operator, and a run that is deleted is reported no more.

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	spatev1 "spate.dev/api/v1alpha1"
)

// Labels of a run are those of engines' metrics, and its generator's.
var ofRun = []string{"profile_namespace", "profile", "run", "generator_namespace", "generator"}

var (
	runStart = prometheus.NewDesc("spate_run_start_timestamp_seconds", "When the engines of a TrafficRun started to send.", ofRun, nil)
	runEnd   = prometheus.NewDesc("spate_run_completion_timestamp_seconds", "When a TrafficRun ended, with the outcome of its verdict and its first reason.",
		append([]string{"outcome", "reason"}, ofRun...), nil)
	runThreshold = prometheus.NewDesc("spate_run_threshold_met", "1 if a threshold of a TrafficRun that has ended is met, else 0.", append([]string{"threshold"}, ofRun...), nil)
	runPackets   = prometheus.NewDesc("spate_run_target_packets_per_second",
		"Packets that an active TrafficRun requests, of its streams and, as planned, of its templates, at the rate factor in force, without factors of stages and trials; 0 while it is paused.", ofRun, nil)
	runConnections = prometheus.NewDesc("spate_run_target_connections_per_second",
		"Connections that the clients of an active TrafficRun request, at the rate factor in force, without factors of stages and trials; 0 while it is paused.", ofRun, nil)
)

// Target is what an active run requests, a second.
type Target struct {
	Packets float64
	// Connections of templates' clients; nil without templates.
	Connections *float64
}

// existing are the samples of all TrafficRuns.
var existing = &runCollector{}

type runCollector struct {
	mu      sync.Mutex
	samples []prometheus.Metric
}

// Describe implements prometheus.Collector.
func (c *runCollector) Describe(all chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{runStart, runEnd, runThreshold, runPackets, runConnections} {
		all <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *runCollector) Collect(all chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sample := range c.samples {
		all <- sample
	}
}

// RunList records all TrafficRuns. target returns what an active run requests; nil if that is not known.
func RunList(list []spatev1.TrafficRun, target func(*spatev1.TrafficRun) *Target) {
	var samples []prometheus.Metric
	for i := range list {
		run := &list[i]
		labels := LabelValuesOf(run)
		gauge := func(desc *prometheus.Desc, value float64, more ...string) {
			samples = append(samples, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append(more, labels...)...))
		}
		if start := run.Status.TrafficStartTime; start != nil {
			gauge(runStart, float64(start.UnixMilli())/1e3)
		}
		if end, verdict := run.Status.CompletionTime, run.Status.Verdict; end != nil && verdict != nil {
			gauge(runEnd, float64(end.Unix()), string(verdict.Outcome), verdict.Reasons[0].Reason)
			for _, threshold := range verdict.Thresholds {
				met := 0.0
				if threshold.Met {
					met = 1
				}
				gauge(runThreshold, met, threshold.Name)
			}
		}
		if requested := target(run); requested != nil {
			gauge(runPackets, requested.Packets)
			if requested.Connections != nil {
				gauge(runConnections, *requested.Connections)
			}
		}
	}
	existing.mu.Lock()
	defer existing.mu.Unlock()
	existing.samples = samples
}

// LabelsOfRuns are the names of the labels that a run's metrics have.
func LabelsOfRuns() []string { return ofRun }

// LabelValuesOf returns the values of LabelsOfRuns. A run that describes its traffic itself is its own profile, as in metrics of engines.
func LabelValuesOf(run *spatev1.TrafficRun) []string {
	profile := run.Name
	namespace, generator, _ := strings.Cut(run.Status.Generator, "/")
	switch resolved := run.Status.Resolved; {
	case resolved != nil:
		profile, namespace, generator = string(resolved.Profile.Name), resolved.Generator.Namespace, string(resolved.Generator.Name)
	case run.Spec.ProfileRef != nil:
		profile = string(run.Spec.ProfileRef.Name)
	}
	return []string{run.Namespace, profile, run.Name, namespace, generator}
}
