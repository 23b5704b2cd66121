// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestTheReferenceIsCurrent(t *testing.T) {
	want, err := reference("../../..")
	if err != nil {
		t.Fatal(err)
	}
	there, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(there) != want {
		t.Error("docs/reference/metrics.md is not what the code says: run make generate-docs")
	}
}

func TestEachFormOfTheSourceIsRead(t *testing.T) {
	families, err := engineFamilies("../../..")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, family := range families {
		if types[family.Name] != "" {
			t.Errorf("%s is there twice", family.Name)
		}
		types[family.Name] = family.Type
	}
	for name, want := range map[string]string{
		"spate_engine_info":                         "gauge",     // literals
		"spate_run_state":                           "gauge",     // help in a variable
		"spate_stream_tx_packets_total":             "counter",   // in a list
		"spate_stream_latency_quantile_seconds":     "gauge",     // name and help in variables
		"spate_stream_tag_sequence_gaps_total":      "counter",   // of another file
		"spate_port_throttled_packets_total":        "counter",   // on several lines
		"spate_receiver_inter_arrival_mean_seconds": "gauge",     // formed of two lists
		"spate_template_connect_seconds":            "histogram", // formed of one
		"spate_template_NAME_total":                 "counter",
		"spate_worker_flow_packets_total":           "counter", // help on several lines
		"spate_worker_idle_seconds_total":           "counter",
	} {
		if types[name] != want {
			t.Errorf("%s is %q, want %s", name, types[name], want)
		}
	}
	if len(types) < 70 {
		t.Errorf("only %d metrics", len(types))
	}
	for _, unknown := range []string{
		`encoder.family(&other, "help", MetricType::Gauge)`,
		`encoder.family(name, help, MetricType::Gauge)`,
	} {
		if _, err := familiesIn(unknown); err == nil {
			t.Errorf("no error of %s", unknown)
		}
	}
}

func TestLabelsAreDescribedOnceAndInOrder(t *testing.T) {
	var known []string
	for _, label := range labels {
		known = append(known, label.name)
	}
	if !slices.IsSorted(known) || len(slices.Compact(slices.Clone(known))) != len(known) {
		t.Error("labels are not in order, or some are there twice")
	}
	page, err := reference("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page) {
		cells := strings.Split(line, " | ")
		if len(cells) < columns-1 || !strings.HasPrefix(line, "| `") { // libraries' have no version
			continue
		}
		for label := range strings.SplitSeq(cells[3], ", ") {
			if label = strings.Trim(label, "`"); label != "" && !slices.Contains(known, label) {
				t.Errorf("%s: the label %s has no meaning", cells[0], label)
			}
		}
	}
}
