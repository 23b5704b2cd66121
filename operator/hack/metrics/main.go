// SPDX-License-Identifier: Apache-2.0

// metrics writes the reference of metrics (docs/reference/metrics.md): those of engines from their source in Rust, those of the operator from the
// metrics that it registers. A metric without known labels is an error.
package main

import (
	"fmt"
	"os"
	"strings"

	"spate.dev/operator/internal/export"
	"spate.dev/operator/internal/metrics"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: metrics CHECKOUT  (writes Markdown to standard output)")
		os.Exit(2)
	}
	page, err := reference(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
	fmt.Print(page)
}

const head = `# Metrics

<!-- Written by ` + "`make generate-docs`" + ` (operator/hack/metrics) from engine/engine/src/metrics and operator/internal/metrics: change those. -->

Engines serve their metrics at ` + "`:7471/metrics`" + ` of each pod, as OpenMetrics text or as Prometheus' protobuf with [native histograms](../monitoring.md#native-histograms), the operator its own at ` + "`--metrics-bind-address`" + `. Names have the unit; counters have the
suffix ` + "`_total`" + `, and a classic histogram has the series ` + "`_bucket`, `_sum` and `_count`" + `. Counters of runs count from the run's start, those of ports and workers from the
engine's. Prometheus adds the labels of the target, for a PodMonitor ` + "`namespace`, `pod`, `container`, `endpoint`, `job` and `instance`" + `; those of engines have ` + "`generator`" + `,
too. [Dashboards](../dashboards.md) show these metrics, and [alerts](../runbooks.md) watch them. ` + "`since`" + ` is the version of Spate that had the metric first.
`

const engines = `
## Engines

A stream is a group of streams that a run counts as one. Metrics of a run are there until its engines forget it, which is when the TrafficRun is deleted or another needs
the room.

`

const templateCounters = "Each counter of the [counters of templates](counters.md) that has counted something: `spate_template_flows_established_total`, and so on"

const operators = `
## Operator

No label has the name of an object, but for those of TrafficRuns, TrafficSearches and certificates: their metrics are removed with the object.

`

const samplesOfRuns = `
## Samples of runs

What [samples](../report.md#samples) become where they are [sent](../monitoring.md#samples-of-a-run-sent), with their own time stamps. They are served nowhere. Counters count since the end of the warm-up; a counter that was always 0 is not sent. Labels that
are set for all samples come on top.

`

const others = `
## Of libraries

The operator serves those of controller-runtime, client-go and Go, too, and Prometheus has one of each target. The dashboards use these:

`

const (
	table            = "| metric | type | unit | labels | since | meaning |\n|---|---|---|---|---|---|\n"
	tableOfLibraries = "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n"
)

// ofLibraries are the metrics of others that the dashboards and alerts use.
var ofLibraries = []metrics.Family{
	{Name: "up", Type: "gauge", Help: "1 if the last scrape of the target succeeded"},
	{Name: "controller_runtime_reconcile_total", Type: "counter", Labels: []string{"controller", "result"}, Help: "Reconciliations"},
	{Name: "controller_runtime_reconcile_time_seconds", Type: "histogram", Labels: []string{"controller"}, Help: "Duration of reconciliations"},
	{Name: "workqueue_depth", Type: "gauge", Labels: []string{"name", "controller", "priority"}, Help: "Objects that wait to be reconciled"},
	{Name: "rest_client_requests_total", Type: "counter", Labels: []string{"code", "host", "method"}, Help: "Requests to the API server"},
	{Name: "leader_election_master_status", Type: "gauge", Labels: []string{"name"}, Help: "1 if the operator leads"},
	{Name: "process_resident_memory_bytes", Type: "gauge", Help: "Resident memory"},
	{Name: "process_cpu_seconds_total", Type: "counter", Help: "CPU time"},
}

// section is a part of the page.
type section struct {
	head     string
	families []metrics.Family
}

// sections are those of our own metrics.
func sections(root string) ([]section, error) {
	ofEngines, err := engineFamilies(root)
	return []section{{engines, ofEngines}, {operators, metrics.Families()}, {samplesOfRuns, export.Families()}}, err
}

// reference renders the page of a checkout.
func reference(root string) (string, error) {
	page := &strings.Builder{}
	page.WriteString(head)
	ours, err := sections(root)
	if err != nil {
		return "", err
	}
	since, err := readVersions(root)
	if err != nil {
		return "", err
	}
	for _, section := range ours {
		page.WriteString(section.head + table)
		for _, family := range section.families {
			version, err := since.of(family.Name)
			if err != nil {
				return "", err
			}
			row(page, family, version+" | ")
		}
	}
	page.WriteString(others + tableOfLibraries)
	for _, family := range ofLibraries {
		row(page, family, "")
	}
	page.WriteString(exceptionsHead)
	for _, e := range exceptions {
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", e.metric, e.rule, e.why)
	}
	page.WriteString("\n## Labels\n\n| label | meaning |\n|---|---|\n")
	for _, label := range labels {
		fmt.Fprintf(page, "| `%s` | %s |\n", label.name, label.meaning)
	}
	return page.String(), nil
}

// row renders a metric. Cells beside its meaning are those that not all tables have.
func row(page *strings.Builder, f metrics.Family, cells string) {
	names := make([]string, 0, len(f.Labels))
	for _, label := range f.Labels {
		names = append(names, "`"+label+"`")
	}
	fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s%s |\n", f.Name, f.Type, unit(f.Name), strings.Join(names, ", "), cells, strings.ReplaceAll(strings.TrimSuffix(f.Help, "."), "|", `\|`))
}

// unit is that in a metric's name; empty for plain numbers.
func unit(name string) string {
	name = strings.TrimSuffix(name, "_total")
	for _, of := range [][2]string{
		{"_timestamp_seconds", "s since 1970"}, {"_seconds_squared", "s²"}, {"_bits_per_second", "bit/s"}, {"_packets_per_second", "packets/s"}, {"_connections_per_second", "connections/s"},
		{"_seconds", "s"}, {"_bytes", "bytes"}, {"_packets", "packets"}, {"_frames", "frames"},
	} {
		if strings.HasSuffix(name, of[0]) {
			return of[1]
		}
	}
	return ""
}
