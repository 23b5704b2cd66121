// SPDX-License-Identifier: Apache-2.0

// Do the dashboards show something? Each of their queries is asked of the Prometheus that scraped engines under traffic and the operator, and what
// Prometheus has is compared with the reference of metrics.

package suites

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	spate "spate.dev/api/v1alpha1"
)

// traffic is what a query is about, by which a test is chosen that has data for it.
type traffic int

const (
	ofStreams traffic = iota // and of generators and the operator; their ports are interfaces of which the kernel reports a speed (veth(4): 10 Gbit/s)
	ofTemplates
	ofSearches
	ofTags      // streams that are counted by VLAN tag
	ofReceivers // of foreign packets
	ofPrograms  // with counters of their own
	ofSessions  // of routing protocols
	ofClients   // that are emulated
)

func trafficOf(expression string) traffic {
	about := func(some ...string) bool {
		return slices.ContainsFunc(some, func(part string) bool { return strings.Contains(expression, part) })
	}
	switch {
	case about("spate_search_"):
		return ofSearches
	case about("spate_stream_tag_"):
		return ofTags
	case about("spate_receiver_"):
		return ofReceivers
	case about("spate_routing_"):
		return ofSessions
	case about("spate_client"):
		return ofClients
	case about("spate_template_program_counter_"):
		return ofPrograms
	case about("spate_template_", "spate_worker_flow_", "spate_run_target_connections", "spate:run_flows_"):
		return ofTemplates
	}
	return ofStreams
}

// withoutData are parts of queries that may have no data here, and why.
var withoutData = map[string]string{
	"spate_port_timestamp_bound_seconds": "no device here stamps packets",
	"spate_clients_failed":               "all clients of the test are bound",
}

// asked is a query of a dashboard.
type asked struct {
	dashboard, panel, expression string
	shown                        string // the query as the dashboard has it, if it shows the answer
	instant                      bool   // of one time, not of a range
}

// ofAnnotation is the prefix of the panel name of a query that is an annotation's: Grafana draws annotations in every panel.
const ofAnnotation = "annotation "

// dashboardQueries returns the queries of all dashboards: of panels, annotations and variables.
func dashboardQueries(t *testing.T) []asked {
	t.Helper()
	type panel struct {
		Title   string
		Targets []struct {
			Expr    string
			Instant bool
		}
		Panels []json.RawMessage
	}
	var dashboard struct {
		Panels      []panel
		Annotations struct{ List []struct{ Name, Expr string } }
		Templating  struct {
			List []struct{ Name, Definition string }
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "dashboards/*.json"))
	if err != nil || len(files) < 6 {
		t.Fatalf("dashboards %q: %v", files, err)
	}
	var queries []asked
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		dashboard.Panels, dashboard.Annotations.List, dashboard.Templating.List = nil, nil, nil
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, p := range dashboard.Panels {
			if len(p.Panels) > 0 {
				t.Fatalf("%s: collapsed rows hide panels from this test", file)
			}
			for _, target := range p.Targets {
				queries = append(queries, asked{name, p.Title, target.Expr, target.Expr, target.Instant})
			}
		}
		for _, a := range dashboard.Annotations.List {
			// Which verdict a run has is not what is tested.
			expression := a.Expr
			for _, outcome := range []string{"Passed", "Failed", "Invalid"} {
				expression = strings.ReplaceAll(expression, `,outcome="`+outcome+`"`, "")
			}
			queries = append(queries, asked{name, ofAnnotation + a.Name, expression, a.Expr, false})
		}
		for _, v := range dashboard.Templating.List {
			// label_values(SELECTOR, label): the selector must select something.
			if selector, ok := strings.CutPrefix(v.Definition, "label_values("); ok {
				queries = append(queries, asked{dashboard: name, panel: "variable " + v.Name, expression: selector[:strings.LastIndex(selector, ",")]})
			}
		}
	}
	return queries
}

// chosen replaces the variables of dashboards, as Grafana does when a profile is chosen. Rates are of the interval.
func chosen(namespace, profile string, interval time.Duration) *strings.Replacer {
	return strings.NewReplacer("$__rate_interval", interval.String(), "$generator_namespace", namespace, "$namespace", namespace, "$profile", profile,
		"$run", ".*", "$generator", ".*", "$stream", ".*", "$template", ".*", "$pod", ".*", "$port", ".*")
}

// hasData reports whether an expression has a number at a time.
func hasData(ctx context.Context, expression string, at time.Time) (bool, error) {
	samples, err := queryAt(ctx, expression, at)
	return slices.ContainsFunc(samples, func(s sample) bool { return !math.IsNaN(s.value) }), err
}

// queriesHaveData fails unless every query about such traffic has data for a run that is complete: while it was active, at its end, or since. Then it
// compares what Prometheus has with the reference.
func queriesHaveData(t *testing.T, run *spate.TrafficRun, about traffic) {
	t.Helper()
	start, lasted := run.Status.TrafficStartTime.Time, run.Status.CompletionTime.Sub(run.Status.TrafficStartTime.Time)
	profile := string(run.Status.Resolved.Profile.Name)
	variables := chosen(run.Namespace, profile, 30*time.Second)
	left := slices.DeleteFunc(dashboardQueries(t), func(q asked) bool { return trafficOf(q.expression) != about })
	count := len(left)
	excused := func(q asked) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(withoutData)), func(part string) bool { return strings.Contains(q.expression, part) })
	}
	unanswered := func(q asked) bool {
		for _, at := range []time.Time{start.Add(lasted / 2), start.Add(lasted * 8 / 10), time.Now()} {
			if some, err := hasData(t.Context(), variables.Replace(q.expression), at); err != nil {
				t.Fatalf("%s, %s: %v", q.dashboard, q.panel, err)
			} else if some {
				return false
			}
		}
		return true
	}
	// What the operator counts at the end of the run is there some seconds later.
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(time.Second) {
		left = slices.DeleteFunc(left, func(q asked) bool { return !unanswered(q) })
		if !slices.ContainsFunc(left, func(q asked) bool { return !excused(q) }) || time.Now().After(deadline) {
			break
		}
	}
	for _, q := range left {
		if !excused(q) {
			t.Errorf("%s, %s: no data for %s", q.dashboard, q.panel, variables.Replace(q.expression))
		}
	}
	if want := map[traffic]int{ofStreams: 120, ofTemplates: 40, ofTags: 7, ofReceivers: 7, ofPrograms: 1, ofSessions: 8, ofClients: 5}[about]; count < want {
		t.Errorf("only %d queries", count)
	}
	t.Logf("%d queries, %d of them without data", count, len(left))
	everyMetricIsInTheReference(t, run.Namespace)
	recordAnswers(t, about, run.Namespace, profile, start, start.Add(lasted))
}

// searchQueriesHaveData executes the queries of the dashboards about searches, and returns one without data.
func searchQueriesHaveData(ctx context.Context, t *testing.T, ns string) (all bool, without string) {
	t.Helper()
	queries := 0
	for _, q := range dashboardQueries(t) {
		if trafficOf(q.expression) != ofSearches {
			continue
		}
		queries++
		if some, err := hasData(ctx, chosen(ns, "", 30*time.Second).Replace(q.expression), time.Now()); err != nil || !some {
			return false, fmt.Sprintf("%s: %v", q.expression, err)
		}
	}
	return queries >= 3, fmt.Sprintf("%d queries", queries)
}

// everyMetricIsInTheReference fails if engines of a namespace, or the operator, have a metric or a label that docs/reference/metrics.md does not.
func everyMetricIsInTheReference(t *testing.T, ns string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if len(cells) != 6 || !strings.HasPrefix(line, "| `spate_") {
			continue
		}
		name, labels := strings.Trim(cells[0], "| `"), strings.Split(strings.ReplaceAll(cells[3], "`", ""), ", ")
		if cells[1] == "histogram" {
			known[name+"_bucket"] = append(slices.Clone(labels), "le")
			known[name+"_sum"], known[name+"_count"] = labels, labels
		}
		known[name] = labels
	}
	samples, err := query(t.Context(), fmt.Sprintf(`{__name__=~"spate_.+",namespace=~"%s|%s"}`, ns, operatorNamespace))
	if err != nil || len(samples) < 100 {
		t.Fatalf("%d series: %v", len(samples), err)
	}
	wrong := map[string]bool{}
	for _, s := range samples {
		name := s.labels["__name__"]
		labels, there := known[name]
		if !there && strings.HasPrefix(name, "spate_template_") {
			labels, there = known["spate_template_NAME_total"]
		}
		if !there {
			wrong["the metric "+name] = true
			continue
		}
		for label := range s.labels {
			if !slices.Contains(labels, label) && !slices.Contains([]string{"__name__", "namespace", "pod", "container", "endpoint", "job", "instance", "generator"}, label) {
				wrong["the label "+label+" of "+name] = true
			}
		}
		for _, label := range labels {
			// A label without a value is none to Prometheus.
			if _, has := s.labels[label]; !has && label != "" && !slices.Contains([]string{"group", "rx_port", "outer_vlan", "generator", "generator_namespace"}, label) {
				wrong["the missing label "+label+" of "+name] = true
			}
		}
	}
	for what := range wrong {
		t.Errorf("docs/reference/metrics.md differs by %s", what)
	}
}
