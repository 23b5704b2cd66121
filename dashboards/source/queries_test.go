// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: is everything that dashboards, recording rules and alerts ask of Prometheus valid, and does it ask of metrics and labels that
// there are (docs/reference/metrics.md)?

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const root = "../../"

// asked is an expression, where it is, and the labels that the names of its series have.
type asked struct {
	where, expression string
	legend            []string
}

// written is what the tests read of a dashboard.
type written struct {
	UID, Title  string
	Inputs      []struct{ Name, Type, PluginID string } `json:"__inputs"`
	Panels      []panel
	Annotations struct {
		List []struct{ Name, Expr, TitleFormat, TextFormat string }
	}
	Templating struct {
		List []struct {
			Name, Type, Definition string
			Current                struct{ Value any }
		}
	}
	Links []struct {
		URL                   string
		IncludeVars, KeepTime bool
	}
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Targets                  []struct{ Expr, LegendFormat, RefID string }
	Panels                   []panel
	FieldConfig              struct {
		Defaults struct{ Unit string }
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(root + file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func dashboards(t *testing.T) map[string]written {
	t.Helper()
	dashboards := map[string]written{}
	for _, d := range all {
		var w written
		if err := json.Unmarshal(read(t, "dashboards/"+d.file+".json"), &w); err != nil {
			t.Fatalf("%s: %v", d.file, err)
		}
		dashboards[d.file] = w
	}
	return dashboards
}

var braces = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

func labelsIn(text string) []string {
	var found []string
	for _, match := range braces.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// everything returns what dashboards ask, with values for Grafana's own variables.
func everything(t *testing.T) []asked {
	t.Helper()
	var found []asked
	add := func(where, expression string, legend []string) {
		found = append(found, asked{where, strings.NewReplacer("$__rate_interval", "1m").Replace(expression), legend})
	}
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				add(file+": "+p.Title+" "+target.RefID, target.Expr, labelsIn(target.LegendFormat))
			}
		}
		for _, a := range d.Annotations.List {
			add(file+": annotation "+a.Name, a.Expr, labelsIn(a.TitleFormat+a.TextFormat))
		}
		for _, v := range d.Templating.List {
			if selector, ok := strings.CutPrefix(v.Definition, "label_values("); ok {
				at := strings.LastIndex(selector, ", ")
				add(file+": variable "+v.Name, selector[:at], []string{strings.TrimSuffix(selector[at+2:], ")")})
			}
		}
	}
	return found
}

// rule of dashboards/rules.yaml.
type rule struct {
	Record, Alert, Expr string
	Annotations         map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(read(t, "dashboards/rules.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// catalogue has the labels of each series that there is, by its name: of the reference of metrics and counters, and of what rules record.
func catalogue(t *testing.T) map[string][]string {
	t.Helper()
	target := []string{"namespace", "pod", "container", "endpoint", "job", "instance"}
	known := map[string][]string{}
	var counters []string
	for line := range strings.Lines(string(read(t, "docs/reference/counters.md"))) {
		if cells := strings.Split(line, " | "); len(cells) == 3 && strings.HasPrefix(line, "| `") {
			counters = append(counters, strings.Trim(cells[0], "| `"))
		}
	}
	section := ""
	for line := range strings.Lines(string(read(t, "docs/reference/metrics.md"))) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		cells := strings.Split(line, " | ")
		if len(cells) < 5 || !strings.HasPrefix(line, "| `") {
			continue
		}
		name, kind := strings.Trim(cells[0], "| `"), cells[1]
		of := slices.Clone(target)
		if section == "Engines" || name == "up" {
			of = append(of, "generator")
		}
		for label := range strings.SplitSeq(cells[3], ", ") {
			if label = strings.Trim(label, "`"); label != "" {
				of = append(of, label)
			}
		}
		switch {
		case kind == "histogram":
			known[name+"_bucket"] = append(slices.Clone(of), "le")
			known[name+"_sum"], known[name+"_count"] = of, of
		case name == "spate_template_NAME_total":
			for _, counter := range counters {
				known["spate_template_"+counter+"_total"] = of
			}
		default:
			known[name] = of
		}
	}
	for _, r := range rules(t) {
		if r.Record == "" {
			continue
		}
		expression, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Fatalf("%s: %v", r.Record, err)
		}
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			if by, ok := node.(*parser.AggregateExpr); ok && known[r.Record] == nil {
				known[r.Record] = by.Grouping
			}
			return nil
		})
	}
	return known
}

// problems returns what is wrong with an expression: its syntax, or metrics and labels that there are not.
func problems(known map[string][]string, expression string, legend []string) []string {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	of := func(node parser.Node) []string {
		var labels []string
		parser.Inspect(node, func(node parser.Node, _ []parser.Node) error {
			if v, ok := node.(*parser.VectorSelector); ok {
				labels = append(labels, known[v.Name]...)
			}
			return nil
		})
		return labels
	}
	require := func(wanted, has []string, what string) {
		for _, label := range wanted {
			if !slices.Contains(has, label) {
				found = append(found, what+" have no label "+label)
			}
		}
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			has, there := known[node.Name]
			if !there {
				found = append(found, "there is no metric "+node.Name)
			}
			for _, matcher := range node.LabelMatchers {
				if matcher.Name != model.MetricNameLabel {
					require([]string{matcher.Name}, has, node.Name+": its series")
				}
			}
		case *parser.AggregateExpr:
			require(node.Grouping, of(node.Expr), "what is aggregated: its series")
		case *parser.BinaryExpr:
			if node.VectorMatching != nil && node.VectorMatching.On {
				require(node.VectorMatching.MatchingLabels, of(node.LHS), "the left side: its series")
				require(node.VectorMatching.MatchingLabels, of(node.RHS), "the right side: its series")
			}
		}
		return nil
	})
	require(legend, of(parsed), "the names of series: they")
	return found
}

func TestEveryQueryIsValid(t *testing.T) {
	known := catalogue(t)
	if len(known) < 180 {
		t.Fatalf("only %d series in the reference of metrics", len(known))
	}
	queries := everything(t)
	if len(queries) < 150 {
		t.Errorf("only %d queries", len(queries))
	}
	for _, q := range queries {
		for _, problem := range problems(known, q.expression, q.legend) {
			t.Errorf("%s: %s\n\t%s", q.where, problem, q.expression)
		}
	}
	for _, r := range rules(t) {
		for _, problem := range problems(known, r.Expr, nil) {
			t.Errorf("%s%s: %s\n\t%s", r.Record, r.Alert, problem, r.Expr)
		}
	}
}

// Ports, their queues and workers have a dashboard of their own, which leaves nothing out.
func TestEveryMetricOfPortsHasAPanel(t *testing.T) {
	queries := everything(t)
	count := 0
	for name := range catalogue(t) {
		if !strings.HasPrefix(name, "spate_port_") && !strings.HasPrefix(name, "spate_queue_") && !strings.HasPrefix(name, "spate_worker_") {
			continue
		}
		count++
		of := regexp.MustCompile(`\b` + name + `\b`)
		if !slices.ContainsFunc(queries, func(q asked) bool { return of.MatchString(q.expression) }) {
			t.Errorf("%s is in no panel", name)
		}
	}
	if count < 25 {
		t.Errorf("only %d metrics of ports, queues and workers", count)
	}
}

func TestAWrongQueryIsFound(t *testing.T) {
	known := catalogue(t)
	for expression, want := range map[string]string{
		`sum(rate(spate_port_tx_packets_total[1m])`:                                    "unclosed left parenthesis",
		`sum(rate(spate_port_tx_packet_total[1m]))`:                                    "there is no metric spate_port_tx_packet_total",
		`spate_template_flows_opened_total`:                                            "there is no metric",
		`spate_port_tx_packets_total{run="a"}`:                                         "have no label run",
		`sum by (worker) (spate_port_tx_packets_total)`:                                "have no label worker",
		`spate_port_link_up and on (pod, stream) spate_stream_jitter_seconds`:          "the left side: its series have no label stream",
		`histogram_quantile(0.5, sum by (le) (rate(spate_stream_jitter_seconds[1m])))`: "have no label le",
		`spate:worker_busy:ratio_rate1m{cpu="1"}`:                                      "have no label cpu",
	} {
		if found := strings.Join(problems(known, expression, nil), "; "); !strings.Contains(found, want) {
			t.Errorf("%s: %q, want %q", expression, found, want)
		}
	}
	if found := problems(known, "spate_port_link_up", []string{"stream"}); len(found) != 1 {
		t.Errorf("a legend with a label that there is not: %q", found)
	}
}

func TestTheFilesAreCurrent(t *testing.T) {
	for _, d := range all {
		want, err := encoded(d.make())
		if err != nil {
			t.Fatalf("%s: %v", d.file, err)
		}
		if string(read(t, "dashboards/"+d.file+".json")) != string(want) {
			t.Errorf("dashboards/%s.json is not what the source says: run make generate-dashboards", d.file)
		}
	}
}

// Panels can be understood without their queries, and dashboards lead to each other.
func TestDashboardsAreComplete(t *testing.T) {
	uids := map[string]bool{}
	for _, d := range dashboards(t) {
		uids["/d/"+d.UID] = true
	}
	for file, d := range dashboards(t) {
		titles, ids := map[string]bool{}, map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.ID == 0 {
				t.Errorf("%s: %q has no number of its own: %d", file, p.Title, p.ID)
			}
			ids[p.ID] = true
			if len(p.Panels) > 0 {
				t.Errorf("%s: the collapsed row %q hides panels from tests", file, p.Title)
			}
			if p.Type == "row" {
				continue
			}
			if titles[p.Title] {
				t.Errorf("%s: two panels are %q", file, p.Title)
			}
			titles[p.Title] = true
			if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "" && p.Type != "table" {
				t.Errorf("%s: the panel %q has no title, description, query or unit", file, p.Title)
			}
		}
		leads := map[string]bool{}
		for _, link := range d.Links {
			leads[link.URL] = true
			if !link.IncludeVars || !link.KeepTime || !uids[link.URL] {
				t.Errorf("%s: link %+v", file, link)
			}
		}
		if len(leads) != len(all)-1 || leads["/d/"+d.UID] {
			t.Errorf("%s leads to %v", file, leads)
		}
		if len(d.Annotations.List) != 4 {
			t.Errorf("%s: annotations %+v", file, d.Annotations.List)
		}
		if len(d.Inputs) != 1 || d.Inputs[0].PluginID != "prometheus" || d.Templating.List[0].Type != "datasource" ||
			d.Templating.List[0].Current.Value != "${"+d.Inputs[0].Name+"}" {
			t.Errorf("%s: an import asks for %+v, the variable is %+v", file, d.Inputs, d.Templating.List[0])
		}
	}
}

func TestEachAlertHasARunbook(t *testing.T) {
	page := string(read(t, "docs/runbooks.md"))
	alerts := 0
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		alerts++
		if want := "https://spate.dev/docs/runbooks.html#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want || !strings.Contains(page, "\n## "+r.Alert+"\n") {
			t.Errorf("%s: runbook_url %q, want %q and its section in docs/runbooks.md", r.Alert, r.Annotations["runbook_url"], want)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: annotations %q", r.Alert, r.Annotations)
		}
	}
	if sections := strings.Count(page, "\n## Spate"); sections != alerts {
		t.Errorf("%d sections of %d alerts", sections, alerts)
	}
}

func TestEachRecordedRateIsDocumented(t *testing.T) {
	page := string(read(t, "docs/dashboards.md"))
	for _, r := range rules(t) {
		if r.Record != "" && !strings.Contains(page, "| `"+r.Record+"` |") {
			t.Errorf("%s is not in docs/dashboards.md", r.Record)
		}
	}
}
