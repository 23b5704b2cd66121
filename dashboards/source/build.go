// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: what do all dashboards have in common? Variables, links, annotations, and the kinds of panels with their looks.

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// prometheusInput is the input of an import that names the data source.
const prometheusInput = "DS_PROMETHEUS"

// Selectors of what a dashboard's variables choose.
const (
	ofNamespaces = `profile_namespace=~"$namespace"`
	ofRun        = `profile_namespace="$namespace",profile="$profile",run=~"$run"`
	ofGenerators = `generator=~"$generator"`
)

// Labels by which runs are shown.
const (
	byRun     = "profile_namespace, profile, run"
	runLegend = "{{profile_namespace}}/{{run}}"
)

func ptr[T any](v T) *T { return &v }

// source is the data source that the variable `datasource` chooses.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: ptr("prometheus"), Uid: ptr("${datasource}")}
}

func text(s string) dashboard.StringOrArrayOfString {
	return dashboard.StringOrArrayOfString{String: &s}
}

// others are the titles of all dashboards by their uid, in the order of their links.
var others = [][2]string{
	{"spate-fleet", "Fleet"},
	{"spate-run", "Run"},
	{"spate-latency", "Streams and latency"},
	{"spate-applications", "Applications and TCP"},
	{"spate-ports", "Ports and workers"},
	{"spate-operator", "Operator"},
}

// page begins a dashboard: with the variable of the data source, and links to the others, which keep the variables and the time.
func page(uid, description string) *dashboard.DashboardBuilder {
	title := ""
	for _, other := range others {
		if other[0] == uid {
			title = other[1]
		}
	}
	d := dashboard.NewDashboardBuilder("Spate: "+title).
		Uid(uid).
		Description(description).
		Tags([]string{"spate"}).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Time("now-15m", "now").
		Refresh("5s").
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus").
			Current(dashboard.VariableOption{Text: text("Prometheus"), Value: text("${" + prometheusInput + "}")}))
	for _, other := range others {
		if other[0] != uid {
			d.Link(dashboard.NewDashboardLinkBuilder(other[1]).Type(dashboard.DashboardLinkTypeLink).Url("/d/" + other[0]).IncludeVars(true).KeepTime(true))
		}
	}
	return d
}

// variable has the values of a label. Those that choose several have all at first.
func variable(name, label, selector, of string, several bool) *dashboard.QueryVariableBuilder {
	query := fmt.Sprintf("label_values(%s, %s)", selector, of)
	v := dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(source()).
		Query(dashboard.StringOrMap{Map: map[string]any{"query": query, "refId": name}}).Definition(query).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortNaturalAsc)
	if several {
		v.Multi(true).IncludeAll(true).AllValue(".*").Current(dashboard.VariableOption{Text: text("All"), Value: text("$__all")})
	}
	return v
}

// oneProfile adds the variables of a namespace, a profile in it, and its runs.
func oneProfile(d *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return d.
		WithVariable(variable("namespace", "Namespace", "spate_run_state", "profile_namespace", false)).
		WithVariable(variable("profile", "Profile", `spate_run_state{profile_namespace="$namespace"}`, "profile", false)).
		WithVariable(variable("run", "Run", `spate_run_state{profile_namespace="$namespace",profile="$profile"}`, "run", true))
}

// annotated adds the starts of runs and their ends with the verdict.
func annotated(d *dashboard.DashboardBuilder, selector string) *dashboard.DashboardBuilder {
	at := func(name, color, expression, title, text string) {
		d.Annotation(dashboard.NewAnnotationQueryBuilder().Name(name).Datasource(source()).Enable(true).IconColor(color).
			Expr(expression + " * 1000").Step("5s").UseValueForTime(true).TitleFormat(title).TextFormat(text).TagKeys("profile_namespace,profile"))
	}
	at("Starts", "blue", "spate_run_start_timestamp_seconds{"+selector+"}", "{{run}} started", "on generator {{generator_namespace}}/{{generator}}")
	for _, outcome := range []struct{ name, color string }{{"Passed", "green"}, {"Failed", "red"}, {"Invalid", "orange"}} {
		at(outcome.name, outcome.color, fmt.Sprintf("spate_run_completion_timestamp_seconds{%s,outcome=%q}", selector, outcome.name), "{{run}}: {{outcome}}", "{{reason}}")
	}
	return d
}

// query is an expression of PromQL, and what its series are called.
type query struct{ expression, legend string }

// target is a query of a panel; the first has the name A.
func (q query) target(index int) *prometheus.DataqueryBuilder {
	t := prometheus.NewDataqueryBuilder().Expr(q.expression).RefId(string(rune('A' + index))).Datasource(source())
	if q.legend != "" {
		t.LegendFormat(q.legend)
	}
	return t
}

// steps are the colors from values on; the first holds below all of them.
func steps(first string, more ...dashboard.Threshold) *dashboard.ThresholdsConfigBuilder {
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(append([]dashboard.Threshold{{Color: first}}, more...))
}

func from(value float64, color string) dashboard.Threshold {
	return dashboard.Threshold{Value: &value, Color: color}
}

// bad is green at 0 and red above.
func bad() *dashboard.ThresholdsConfigBuilder { return steps("green", from(1e-9, "red")) }

// neutral has one color.
func neutral() *dashboard.ThresholdsConfigBuilder { return steps("green") }

// number is a panel with the last value of each series.
func number(title, description, unit string, width uint32, colors cog.Builder[dashboard.ThresholdsConfig], queries ...query) *stat.PanelBuilder {
	p := stat.NewPanelBuilder().Title(title).Description(description).Unit(unit).Height(4).Span(width).Datasource(source()).Thresholds(colors).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		ColorMode(common.BigValueColorModeValue).GraphMode(common.BigValueGraphModeNone)
	for i, q := range queries {
		p.WithTarget(q.target(i).Instant())
	}
	return p
}

// names is a panel with the names of series.
func names(title, description string, width uint32, q query) *stat.PanelBuilder {
	return number(title, description, "short", width, neutral(), q).TextMode(common.BigValueTextModeName)
}

// graph is a panel with series over time.
func graph(title, description, unit string, width uint32, queries ...query) *timeseries.PanelBuilder {
	p := timeseries.NewPanelBuilder().Title(title).Description(description).Unit(unit).Min(0).Height(8).Span(width).Datasource(source()).
		FillOpacity(8).LineWidth(1).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeTable).Placement(common.LegendPlacementBottom).
			Calcs([]string{"mean", "max", "lastNotNull"}).ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti))
	for i, q := range queries {
		p.WithTarget(q.target(i))
	}
	return p
}

// heat is a panel with the distribution of a classic histogram of seconds over time.
func heat(title, description string, width uint32, bucket string) *heatmap.PanelBuilder {
	return heatmap.NewPanelBuilder().Title(title).Description(description).Unit("s").Height(9).Span(width).Datasource(source()).
		Calculate(false).CellGap(1).
		Color(heatmap.NewHeatmapColorOptionsBuilder().Mode(heatmap.HeatmapColorModeScheme).Scheme("Oranges").Steps(64).Exponent(0.5).Scale(heatmap.HeatmapColorScaleExponential)).
		YAxis(heatmap.NewYAxisConfigBuilder().Unit("s")).
		FilterValues(heatmap.NewFilterValueRangeBuilder().Le(1e-9)).
		Tooltip(heatmap.NewHeatmapTooltipBuilder().Mode(common.TooltipDisplayModeSingle).YHistogram(false)).
		ShowLegend().
		WithTarget(query{fmt.Sprintf("sum by (le) (increase(%s[$__rate_interval]))", bucket), "{{le}}"}.target(0).Format(prometheus.PromQueryFormatHeatmap))
}

// column of a table: the label or the query (Value #A, Value #B ...) it shows, and its name and unit.
type column struct{ field, name, unit string }

// rows is a panel with a row for each set of labels, and a column for each query. Fields that no column names are hidden.
func rows(title, description string, width uint32, columns []column, queries ...query) *table.PanelBuilder {
	p := table.NewPanelBuilder().Title(title).Description(description).Height(8).Span(width).Datasource(source()).Filterable(true)
	for i, q := range queries {
		p.WithTarget(q.target(i).Instant().Format(prometheus.PromQueryFormatTable))
	}
	shown, order := make([]string, 0, len(columns)), map[string]int{}
	for i, c := range columns {
		shown = append(shown, "^"+strings.ReplaceAll(c.field, "#", "[#]")+"$")
		order[c.field] = i
		properties := []dashboard.DynamicConfigValue{{Id: "displayName", Value: c.name}}
		if c.unit != "" {
			properties = append(properties, dashboard.DynamicConfigValue{Id: "unit", Value: c.unit})
		}
		p.OverrideByName(c.field, properties)
	}
	return p.
		WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "filterFieldsByName", Options: map[string]any{"include": map[string]any{"pattern": strings.Join(shown, "|")}}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{"indexByName": order}})
}

func row(title string) *dashboard.RowBuilder { return dashboard.NewRowBuilder(title) }

// rate is the sum of a counter's rates, by labels.
func rate(by, counter, selector string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s{%s}[$__rate_interval]))", by, counter, selector)
}

// total is the sum of a metric, by labels.
func total(by, metric, selector string) string {
	return fmt.Sprintf("sum by (%s) (%s{%s})", by, metric, selector)
}

// share is a part of a whole, 0 where there is no whole.
func share(part, whole string) string { return fmt.Sprintf("(%s) / (%s > 0)", part, whole) }

// lossPPM is the loss of streams that are counted on arrival, so far, in packets of a million sent: those have an outage, if only of 0 s.
func lossPPM(by, selector string) string {
	counted := fmt.Sprintf(`(spate_stream_tx_packets_total{%[1]s,phase="measured"} and on (%[2]s, stream) spate_stream_outage_longest_seconds{%[1]s})`, selector, byRun)
	received := fmt.Sprintf(`(sum by (%[1]s) (spate_stream_rx_packets_total{%[2]s,phase="measured"}) - sum by (%[1]s) (spate_stream_duplicate_packets_total{%[2]s,phase="measured"}))`, by, selector)
	return fmt.Sprintf("1e6 * clamp_min(sum by (%[1]s) %[2]s - %[3]s, 0) / (sum by (%[1]s) %[2]s > 0)", by, counted, received)
}

// quantile of a classic histogram, by labels.
func quantile(of float64, by, bucket, selector string) string {
	labels := "le"
	if by != "" {
		labels = by + ", le"
	}
	return fmt.Sprintf("histogram_quantile(%g, %s)", of, rate(labels, bucket, selector))
}

// l1 is a rate at layer 1 in bits a second: each packet takes 20 bytes of the medium beside its frame (preamble, delimiter, gap).
func l1(by, direction, metrics, selector string) string {
	return fmt.Sprintf("8 * (%s + 20 * %s)", rate(by, metrics+"_"+direction+"_bytes_total", selector), rate(by, metrics+"_"+direction+"_packets_total", selector))
}
