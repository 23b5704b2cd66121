// SPDX-License-Identifier: Apache-2.0

// Package result answers: what did a run measure, and what is its verdict?
package result

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/tags"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/measured"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/runs/storage"
)

// resultFlags select a run and the form of its result.
type resultFlags struct {
	cluster.Flags
	output output.Flag
}

// NewCommand returns `result`.
func NewCommand() *cobra.Command {
	var flags resultFlags
	c := &cobra.Command{
		Use:   "result RUN",
		Short: "Show what a run measured, and its verdict",
		Long: `Shows what a TrafficRun measured after the warm-up, and its verdict: thresholds, streams, templates and their groups by side,
receivers, sessions that advertised routes, records of connections. Times are the 50th and 99th percentile and the greatest, of groups the mean and the greatest. While the run lasts only its sums are there. RUN may be the name of a TrafficProfile:
its latest run is used then. A result that is too large for the status is read whole from
ConfigMaps of the run, which takes the right to get them.

-o wide adds rates and all percentiles. -o csv has a row for each metric, named as kubectl spate compare has them, with times in ns.`,
		Example: `  kubectl spate result web-1a2b3-1
  kubectl spate result web -o wide
  kubectl spate result web -n tests -o json | jq .result.flows
  kubectl spate result web -o csv | mlr --icsv --opprint filter '$metric =~ "p99$"'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: flags.Complete(1, cluster.Runs, cluster.Profiles),
		RunE: func(c *cobra.Command, args []string) error {
			if err := flags.output.Check(); err != nil {
				return err
			}
			connection, err := flags.Connect()
			if err != nil {
				return err
			}
			run, err := cluster.FindRun(c.Context(), connection.Client, connection.Namespace, args[0])
			if err != nil {
				return err
			}
			return Show(c.Context(), c.OutOrStdout(), connection.Client, run, &flags.output)
		},
	}
	flags.Add(c)
	flags.output.Add(c)
	return c
}

// Show prints the whole result of a run in the form that was chosen. If the whole cannot be read, it prints what the status has, and returns what
// that lacks as an error.
func Show(ctx context.Context, w io.Writer, reader kube.Reader, run *spatev1.TrafficRun, form *output.Flag) error {
	incomplete := Load(ctx, reader, run)
	return errors.Join(form.Write(w, Shown(run)), incomplete)
}

// Shown is the result of a run in every form.
func Shown(run *spatev1.TrafficRun) output.Shown {
	document := Of(run)
	return output.Shown{
		Document: document, Lists: []output.List{{Name: "metric", Objects: Rows([]Document{document})}},
		Tables: func(w io.Writer, wide bool) error { return writeResult(w, run, wide) },
	}
}

// Load reads the whole result of a run into its status. If that cannot be read, the error says what the status has of it.
func Load(ctx context.Context, reader kube.Reader, run *spatev1.TrafficRun) error {
	whole, err := storage.LoadResult(ctx, reader, run)
	if err != nil {
		return fmt.Errorf("shown is what the status has, %s: %w", run.Status.Result.Details.Has(), err)
	}
	run.Status.Result = whole
	return nil
}

// Document is a run's result for programs.
type Document struct {
	Name      string                `json:"name"`
	Namespace string                `json:"namespace"`
	Profile   string                `json:"profile"`
	Phase     spatev1.RunPhase      `json:"phase"`
	Verdict   *spatev1.Verdict      `json:"verdict,omitempty"`
	Stages    []spatev1.StageStatus `json:"stages,omitempty"`
	LostPods  []spatev1.LostPod     `json:"lostPods,omitempty"`
	// Baseline is the run that the result was compared with.
	Baseline *spatev1.BaselineSnapshot `json:"baseline,omitempty"`
	Result   *spatev1.RunResult        `json:"result,omitempty"`
}

// Of returns the result of a run for programs.
func Of(run *spatev1.TrafficRun) Document {
	d := Document{
		Name: run.Name, Namespace: run.Namespace, Profile: cluster.ProfileOf(run), Phase: run.Status.Phase, Verdict: run.Status.Verdict,
		Stages: run.Status.Stages, LostPods: run.Status.LostPods, Result: run.Status.Result,
	}
	if resolved := run.Status.Resolved; resolved != nil {
		d.Baseline = resolved.Baseline
	}
	return d
}

// Row is a metric of a result, for CSV.
type Row struct {
	Run     string                 `json:"run"`
	Profile string                 `json:"profile"`
	Phase   spatev1.RunPhase       `json:"phase"`
	Outcome spatev1.VerdictOutcome `json:"outcome"` // empty before the end
	Metric  string                 `json:"metric"`
	Unit    measured.Unit          `json:"unit"`
	Value   *json.Number           `json:"value"`
}

// Rows are the metrics of results. A run without a result has one row, without a metric.
func Rows(documents []Document) []Row {
	all := []Row{}
	for i := range documents {
		d := &documents[i]
		row := Row{Run: d.Name, Profile: d.Profile, Phase: d.Phase}
		if d.Verdict != nil {
			row.Outcome = d.Verdict.Outcome
		}
		if d.Result == nil {
			all = append(all, row)
			continue
		}
		for _, m := range measured.Of(d.Result) {
			value := measured.Decimal(m.Value, 9)
			row.Metric, row.Unit, row.Value = m.Name, m.Unit, &value
			all = append(all, row)
		}
	}
	return all
}

// ComparedWith describes the run that a run was compared with; empty if it was compared with none.
func ComparedWith(run *spatev1.TrafficRun) string {
	if run.Status.Resolved == nil || run.Status.Resolved.Baseline == nil {
		return ""
	}
	b := run.Status.Resolved.Baseline
	return fmt.Sprintf("run %s of profile %s, which ended at %s (%s)", b.Name, b.Profile, b.CompletionTime.UTC().Format(time.RFC3339), b.Outcome)
}

// writeResult writes a run's verdict and tables of what it has measured.
func writeResult(w io.Writer, run *spatev1.TrafficRun, wide bool) error {
	fmt.Fprintf(w, "Run %s of profile %s: %s\n", run.Name, cluster.ProfileOf(run), run.Status.Phase)
	if baseline := ComparedWith(run); baseline != "" {
		fmt.Fprintf(w, "Baseline: %s\n", baseline)
	}
	if v := run.Status.Verdict; v != nil {
		for i, reason := range v.Reasons {
			if i == 0 {
				fmt.Fprintf(w, "%s: ", v.Outcome)
			}
			fmt.Fprintf(w, "%s (%s)\n", reason.Message, reason.Reason)
		}
	}
	tables := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, t := range slices.Concat(Judged(run), tablesOf(run, wide)) {
		fmt.Fprintf(tables, "\n%s\n", strings.Join(t.Headings, "\t"))
		for _, row := range t.Rows {
			fmt.Fprintln(tables, strings.Join(row, "\t"))
		}
		tables.Flush() // an error is reported by the last call
	}
	if run.Status.Result == nil {
		fmt.Fprintln(tables, "\nNothing was measured yet.")
	}
	return tables.Flush()
}

// Table is a part of a result. The first heading says what it is of.
type Table struct {
	Headings []string
	Rows     [][]string
}

// withRows returns the tables that have rows.
func withRows(tables ...Table) []Table {
	return slices.DeleteFunc(tables, func(t Table) bool { return len(t.Rows) == 0 })
}

func table(headings string, rows [][]string) Table { return Table{strings.Split(headings, ","), rows} }

// Judged returns tables of a run's thresholds, of its stages, and of the pods that it has lost; those that are not empty.
func Judged(run *spatev1.TrafficRun) []Table {
	return withRows(
		table("THRESHOLD,MET,VALUES", thresholdRows(run.Status.Verdict)),
		table("STAGE,PHASE,DURATION,TX,RX,LOST,LOSS RATIO,FLOWS,FAILED", stageRows(run.Status.Stages)),
		table("THRESHOLD OF STAGE,NAME,MET,VALUES", stageThresholdRows(run.Status.Stages)),
		table("LOST POD (NOT IN WHAT FOLLOWS),AT,LAST SEEN TX,RX,FLOWS,HOW", lostRows(run.Status.LostPods)),
	)
}

// Measured returns tables of what a run has measured; those that are not empty.
func Measured(run *spatev1.TrafficRun) []Table { return tablesOf(run, false) }

// tablesOf are the tables of Measured. Wide ones have more columns at their end.
func tablesOf(run *spatev1.TrafficRun, wide bool) []Table {
	result := run.Status.Result
	if result == nil {
		return nil
	}
	more := func(headings, wider string) string {
		if wide {
			return headings + "," + wider
		}
		return headings
	}
	return withRows(
		table(more("STREAM,TX,RX,LOST,LOSS RATIO,DUPLICATES,OUT OF ORDER,LATE,TX DROPPED,P50,P99,MAX", "TX PPS,RX PPS,TX BPS,RX BPS,"+moreTimes), streamRows(result, run.Status.LostPods, wide)),
		table("DELAYS BY TWO CLOCKS OF,CLOCK BOUND,REPORTED", clockRows(result)),
		table("TEMPLATE,"+sideColumns, templateRows(result)),
		table("GROUP,"+sideColumns, groupRows(result)),
		table("COUNTER OF,SIDE,NAME,COUNT", counterRows(result)),
		table(more("TIMES OF,SIDE,CONNECT P50,P99,MAX,ROUND TRIP P50,P99,MAX", "CONNECT "+moreTimes+",ROUND TRIP "+moreTimes), timeRows(result, wide)),
		table("TIMES OF GROUP,SIDE,CONNECT MEAN,MAX,ROUND TRIP MEAN,MAX", groupTimeRows(result)),
		table("OUTAGE OF,SIDE,LONGEST,BEGAN AT", outageRows(result)),
		table("BY TAG OF,VLAN,PACKETS,BYTES,MISSING,GAPS,DUPLICATES,OUT OF ORDER", tagRows(result)),
		table("THE GENERATOR'S OWN,LATE,NOT STARTED,EXHAUSTED", generatorRows(result)),
		table("RECEIVER,PACKETS,BYTES", receiverRows(result)),
		table("ROUTES OF SESSION,UP,FLAPS,CONFIGURED,SENT,RECEIVED,UPDATES SENT,UPDATES RECEIVED", sessionRows(result)),
		table("RECORDS OF POD,FILE,WRITTEN,OMITTED,DROPPED,PROBLEM", fileRows(result)),
		table("LIVE RECORDS OF POD,DELIVERED,UNDELIVERED,DROPPED", liveRows(result)),
	)
}

func lostRows(lost []spatev1.LostPod) (rows [][]string) {
	for _, l := range lost {
		tx, rx, flows := "-", "-", "-"
		if c := l.LastCounters; c != nil {
			tx, rx, flows = number(c.Tx), number(c.Rx), number(c.FlowsEstablished)
		}
		rows = append(rows, []string{l.Name, l.LostTime.UTC().Format(time.RFC3339), tx, rx, flows, l.Message})
	}
	return rows
}

func stageRows(stages []spatev1.StageStatus) (rows [][]string) {
	for _, stage := range stages {
		row := []string{stage.Name, string(stage.Phase), "-", "-", "-", "-", "-", "-", "-"}
		if r := stage.Result; r != nil {
			row = []string{
				stage.Name, string(stage.Phase), Span(r.Duration), number(r.Tx), number(r.Rx), number(r.Lost), r.LossRatio, number(r.FlowsEstablished), number(r.FlowsFailed),
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func stageThresholdRows(stages []spatev1.StageStatus) (rows [][]string) {
	for _, stage := range stages {
		for _, t := range stage.Thresholds {
			rows = append(rows, []string{stage.Name, t.Name, yesOrNo(t.Met), t.Message})
		}
	}
	return rows
}

func yesOrNo(met bool) string {
	if met {
		return "yes"
	}
	return "NO"
}

func thresholdRows(v *spatev1.Verdict) (rows [][]string) {
	if v == nil {
		return nil
	}
	for _, t := range v.Thresholds {
		rows = append(rows, []string{t.Name, yesOrNo(t.Met), t.Message})
	}
	return rows
}

// streamRows has no loss when pods were lost, which may have sent or received some of the packets.
func streamRows(r *spatev1.RunResult, lostPods []spatev1.LostPod, wide bool) (rows [][]string) {
	row := func(name string, c *spatev1.StreamCounters, l *spatev1.Latency) {
		lost, ratio := number(c.Lost), c.LossRatio
		if len(lostPods) > 0 {
			lost, ratio = "unknown", "-"
		}
		rows = append(rows, slices.Concat([]string{name, number(c.Tx), number(c.Rx), lost, ratio, number(c.Duplicates), number(c.OutOfOrder), number(c.Late), number(c.TxDropped)}, times(l)))
		if wide {
			last := &rows[len(rows)-1]
			for _, n := range []int64{c.Tx, c.Rx, 8 * c.TxBytes, 8 * c.RxBytes} {
				*last = append(*last, perSecond(n, r.Duration))
			}
			*last = append(*last, timesBesides(l)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Streams)) {
		stream := r.Streams[name]
		row(name, &stream.StreamCounters, stream.Latency)
	}
	if len(rows) != 1 && (r.Tx > 0 || len(rows) > 0) {
		row("all", &r.StreamCounters, nil)
	}
	return rows
}

// clockRows returns the streams whose delays are by two clocks, of two pods or of a pod and the device that stamps packets on arrival, and why
// they are not reported.
func clockRows(r *spatev1.RunResult) (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(r.Streams)) {
		l := r.Streams[name].Latency
		switch {
		case l == nil || l.ClockBound == 0 && !l.OneWayUnknown:
		case l.OneWayUnknown:
			rows = append(rows, []string{name, Span(l.ClockBound), "no: " + l.Message})
		default:
			rows = append(rows, []string{name, Span(l.ClockBound), "yes"})
		}
	}
	return rows
}

// sides calls each for the templates' sides that the run emulates.
func sides(r *spatev1.RunResult, each func(name, side string, s *spatev1.TemplateSide)) {
	for _, name := range slices.Sorted(maps.Keys(r.Templates)) {
		bySide(name, r.Templates[name].Client, r.Templates[name].Server, each)
	}
}

// bySide calls each for the sides that exist.
func bySide[S any](name string, client, server *S, each func(name, side string, s *S)) {
	if client != nil {
		each(name, "client", client)
	}
	if server != nil {
		each(name, "server", server)
	}
}

// counterRows returns the counters that programs define (`count`).
func counterRows(r *spatev1.RunResult) (rows [][]string) {
	sides(r, func(name, side string, s *spatev1.TemplateSide) {
		for _, counter := range slices.Sorted(maps.Keys(s.Counters)) {
			rows = append(rows, []string{name, side, counter, number(s.Counters[counter])})
		}
	})
	return rows
}

// groupSides calls each for the sides of groups.
func groupSides(r *spatev1.RunResult, each func(name, side string, s *spatev1.GroupSide)) {
	for _, name := range slices.Sorted(maps.Keys(r.Groups)) {
		bySide(name, r.Groups[name].Client, r.Groups[name].Server, each)
	}
}

// sideColumns are the columns of sideRow.
const sideColumns = "SIDE,ATTEMPTED,THROTTLED,ESTABLISHED,CLOSED,FAILED,RESET,TIMED OUT,CLOSED EARLY,HTTP ERRORS,ABORTED,IDLE TIMEOUTS,OPEN,BYTES SENT,BYTES RECEIVED,RETRANSMITTED"

func sideRow(name, side string, c *spatev1.FlowCounters) []string {
	cells := []string{name, side}
	for _, n := range []int64{c.Attempted, c.Throttled, c.Established, c.Closed, c.Failed, c.Reset, c.TimedOut, c.ClosedEarly, c.HTTPErrors, c.Aborted, c.IdleTimeouts, c.Open, c.BytesSent, c.BytesReceived, c.Retransmitted} {
		cells = append(cells, number(n))
	}
	return cells
}

func templateRows(r *spatev1.RunResult) (rows [][]string) {
	sides(r, func(name, side string, s *spatev1.TemplateSide) {
		rows = append(rows, sideRow(name, side, &s.FlowCounters))
	})
	if r.Flows != nil {
		rows = append(rows, sideRow("all, once", "", r.Flows))
	}
	return rows
}

func groupRows(r *spatev1.RunResult) (rows [][]string) {
	groupSides(r, func(name, side string, s *spatev1.GroupSide) {
		rows = append(rows, sideRow(name, side, &s.FlowCounters))
	})
	return rows
}

func groupTimeRows(r *spatev1.RunResult) (rows [][]string) {
	cells := func(m *spatev1.Moments) []string {
		if m == nil {
			return []string{"-", "-"}
		}
		return []string{Span(m.Mean), Span(m.Max)}
	}
	groupSides(r, func(name, side string, s *spatev1.GroupSide) {
		if s.ConnectTime != nil || s.RoundTrip != nil {
			rows = append(rows, slices.Concat([]string{name, side}, cells(s.ConnectTime), cells(s.RoundTrip)))
		}
	})
	return rows
}

func timeRows(r *spatev1.RunResult, wide bool) (rows [][]string) {
	sides(r, func(name, side string, s *spatev1.TemplateSide) {
		if s.ConnectTime == nil && s.RoundTrip == nil {
			return
		}
		row := slices.Concat([]string{name, side}, times(s.ConnectTime), times(s.RoundTrip))
		if wide {
			row = slices.Concat(row, timesBesides(s.ConnectTime), timesBesides(s.RoundTrip))
		}
		rows = append(rows, row)
	})
	return rows
}

// outageRows returns the outages of streams and of sides of templates.
func outageRows(r *spatev1.RunResult) (rows [][]string) {
	row := func(name, side string, o *spatev1.Outage) {
		if o == nil || o.Longest == 0 {
			return
		}
		length, at := Span(o.Longest), "-"
		if o.AtLeast != nil {
			length = fmt.Sprintf("%s to %s", Span(*o.AtLeast), length)
		}
		if o.At != nil {
			at = o.At.UTC().Format("2006-01-02T15:04:05.000Z07:00")
		}
		rows = append(rows, []string{name, side, length, at})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Streams)) {
		row(name, "-", r.Streams[name].Outage)
	}
	sides(r, func(name, side string, s *spatev1.TemplateSide) { row(name, side, s.Outage) })
	return rows
}

// tagRows returns what streams received by VLAN tag.
func tagRows(r *spatev1.RunResult) (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(r.Streams)) {
		byTag := r.Streams[name].ByTag
		for _, tag := range slices.SortedFunc(maps.Keys(byTag), tags.Compare) {
			c := byTag[tag]
			rows = append(rows, []string{name, tag, number(c.Packets), number(c.Bytes), number(c.Missing), number(c.SequenceGaps), number(c.Duplicates), number(c.OutOfOrder)})
		}
	}
	return rows
}

// generatorRows returns the flow counters that may have made the run invalid.
func generatorRows(r *spatev1.RunResult) [][]string {
	if r.Flows == nil || r.Flows.Late+r.Flows.NotStarted+r.Flows.Exhausted == 0 {
		return nil
	}
	return [][]string{{"flows", number(r.Flows.Late), number(r.Flows.NotStarted), number(r.Flows.Exhausted)}}
}

func receiverRows(r *spatev1.RunResult) (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(r.Receivers)) {
		rows = append(rows, []string{name, number(r.Receivers[name].Packets), number(r.Receivers[name].Bytes)})
	}
	return rows
}

// sessionRows returns what sessions did that advertised routes.
func sessionRows(r *spatev1.RunResult) (rows [][]string) {
	if r.Routing == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.Routing.Sessions)) {
		s := r.Routing.Sessions[name]
		rows = append(rows, []string{name, yesOrNo(s.Up), number(s.Flaps), number(s.Configured), number(s.Sent), number(s.Received), number(s.UpdatesSent), number(s.UpdatesReceived)})
	}
	return rows
}

func fileRows(r *spatev1.RunResult) (rows [][]string) {
	if r.Records == nil {
		return nil
	}
	for _, pod := range r.Records.Pods {
		if pod.File != "" {
			rows = append(rows, []string{pod.Pod, pod.File, number(pod.Written), number(pod.Omitted), number(pod.Dropped), cmp.Or(pod.Problem, "-")})
		}
	}
	return rows
}

func liveRows(r *spatev1.RunResult) (rows [][]string) {
	if r.Records == nil {
		return nil
	}
	for _, pod := range r.Records.Pods {
		if pod.File == "" {
			rows = append(rows, []string{pod.Pod, number(pod.Delivered), number(pod.Undelivered), number(pod.Dropped)})
		}
	}
	return rows
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// times returns percentiles of a distribution: 50th, 99th, maximum. Dashes where nothing was measured.
func times(l *spatev1.Latency) []string {
	if l == nil || l.Count == 0 {
		return []string{"-", "-", "-"}
	}
	return []string{Span(l.P50), Span(l.P99), Span(l.Max)}
}

// moreTimes are the columns of timesBesides.
const moreTimes = "MIN,MEAN,P90,P95,P99.9,P99.99,DEVIATION,JITTER"

// timesBesides returns what a distribution has besides times. Dashes where nothing was measured.
func timesBesides(l *spatev1.Latency) (cells []string) {
	if l == nil || l.Count == 0 {
		return slices.Repeat([]string{"-"}, strings.Count(moreTimes, ",")+1)
	}
	for _, t := range []spatev1.MeasuredTime{l.Min, l.Mean, l.P90, l.P95, l.P999, l.P9999, l.Deviation, l.Jitter} {
		cells = append(cells, Span(t))
	}
	return cells
}

// perSecond is a mean rate to the unit; a dash if nothing was measured for any time.
func perSecond(n int64, measuredFor spatev1.MeasuredTime) string {
	if measuredFor <= 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(n)/time.Duration(measuredFor).Seconds(), 'f', 0, 64)
}

// Span formats a time with two decimal places.
func Span(measured spatev1.MeasuredTime) string {
	d := time.Duration(measured)
	for _, step := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= step {
			return d.Round(step / 100).String()
		}
	}
	return d.String()
}
