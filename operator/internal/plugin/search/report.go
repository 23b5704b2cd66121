// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: how is what a search found written?

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/junit"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/search/sequence"
)

// formats write a search.
var formats = map[string]func(io.Writer, *spatev1.TrafficSearch) error{
	output.Table: writeTable, output.Wide: writeTable, output.JSON: documentIn(output.JSON), output.YAML: documentIn(output.YAML), output.CSV: writeCSV,
	"md": writeMarkdown, "junit": writeJUnit,
}

// table is a test's results of all variants.
type table struct {
	title, standard string
	headings        []string
	rows            [][]string
}

// The tables of a search, in their order.
const (
	throughputTable = iota
	latencyTable
	frameLossTable
	backToBackTable
	recoveryTable
	resetTable
	repeatsTable
	thresholdsTable
)

// tables of a search: one for each test with results.
func tables(search *spatev1.TrafficSearch) []table {
	all := []table{
		throughputTable: {title: "Throughput", standard: "RFC 2544 section 26.1, RFC 9971", headings: []string{"FRAMES", "GOAL", "LOWER", "UPPER", "THROUGHPUT", "OF MAX", "RESULT"}},
		latencyTable:    {title: "Latency", standard: "RFC 2544 section 26.2, RFC 8219 section 7", headings: []string{"FRAMES", "LOAD", "OF THROUGHPUT", "MEAN", "TYPICAL", "WORST CASE", "PDV"}},
		frameLossTable:  {title: "Frame loss", standard: "RFC 2544 section 26.3", headings: []string{"FRAMES", "OF MAX", "LOAD", "LOSS RATIO"}},
		backToBackTable: {title: "Back-to-back frames", standard: "RFC 9004", headings: []string{"FRAMES", "BURST", "BUFFER TIME", "CORRECTED"}},
		recoveryTable:   {title: "Recovery from an overload", standard: "RFC 2544 section 26.5", headings: []string{"FRAMES", "OVERLOAD", "MEAN", "GREATEST"}},
		resetTable:      {title: "Reset of the device", standard: "RFC 2544 section 26.6, RFC 6201", headings: []string{"FRAMES", "LOAD", "MEAN", "GREATEST", "BY LOSS", "RESULT"}},
		repeatsTable:    {title: "Lower bounds of the repeats", standard: "95 % confidence interval of the median by order statistics, from 6 repeats on", headings: []string{"FRAMES", "GOAL", "REPEATS", "MIN", "MEDIAN", "MAX", "DEVIATION", "INTERVAL"}},
		thresholdsTable: {title: "Thresholds", standard: "all must hold", headings: []string{"NAME", "HOLDS", "VALUES"}},
	}
	if ofApplications(search) {
		all[throughputTable].standard = "RFC 9411 section 7, RFC 9971"
	}
	for _, v := range search.Status.Variants {
		for _, g := range v.Result.Goals {
			result := g.Reason
			if !g.Regular {
				result += " (irregular)"
			}
			if g.BoundedBy != "" {
				result += " (by a requirement)"
			}
			all[throughputTable].rows = append(all[throughputTable].rows, []string{v.Name, string(g.Name), loadText(g.Lower), loadText(g.Upper), loadText(g.Throughput), percentOf(g.Lower, v.MaxLoad), result})
		}
		for _, l := range v.Result.Latency {
			all[latencyTable].rows = append(all[latencyTable].rows, []string{v.Name, loadText(l.Load), fmt.Sprintf("%d%%", l.Percent), l.Mean.String(), l.Typical.String(), l.WorstCase.String(), l.DelayVariation.String()})
		}
		for _, f := range v.Result.FrameLoss {
			all[frameLossTable].rows = append(all[frameLossTable].rows, []string{v.Name, f.Percent + "%", loadText(f.Load), f.LossRatio})
		}
		if b := v.Result.BackToBack; b != nil {
			all[backToBackTable].rows = append(all[backToBackTable].rows, []string{v.Name, b.Frames, b.BufferTime.String(), b.CorrectedBufferTime.String()})
		}
		if r := v.Result.Recovery; r != nil {
			all[recoveryTable].rows = append(all[recoveryTable].rows, []string{v.Name, loadText(r.Load), r.Mean.String(), r.Greatest.String()})
		}
		if r := v.Result.Reset; r != nil {
			all[resetTable].rows = append(all[resetTable].rows, []string{v.Name, loadText(r.Load), r.Mean.String(), r.Greatest.String(), r.ByLoss.String(), r.Reason})
		}
		for _, s := range v.Spread {
			interval := "-"
			if s.MedianLow != "" {
				interval = loadText(s.MedianLow) + " to " + loadText(s.MedianHigh)
			}
			all[repeatsTable].rows = append(all[repeatsTable].rows, []string{v.Name, string(s.Name), strconv.Itoa(int(s.Count)), loadText(s.Min), loadText(s.Median), loadText(s.Max), loadText(s.Deviation), interval})
		}
	}
	for _, t := range search.Status.Thresholds {
		holds := "no"
		if t.Met {
			holds = "yes"
		}
		all[thresholdsTable].rows = append(all[thresholdsTable].rows, []string{t.Name, holds, t.Message})
	}
	var some []table
	for _, t := range all {
		if len(t.rows) > 0 {
			some = append(some, t)
		}
	}
	return some
}

// loadText writes a load with three decimal places.
func loadText(load string) string {
	value, err := strconv.ParseFloat(load, 64)
	if err != nil {
		return "-"
	}
	return strconv.FormatFloat(value, 'f', 3, 64)
}

func percentOf(part, whole string) string {
	a, err := strconv.ParseFloat(part, 64)
	b, other := strconv.ParseFloat(whole, 64)
	if err != nil || other != nil || b == 0 {
		return "-"
	}
	return strconv.FormatFloat(100*a/b, 'f', 2, 64) + "%"
}

// method says how a search was done, and in what that differs from RFC 2544.
func method(search *spatev1.TrafficSearch) []string {
	trial, spec := search.Spec.Trial, search.Spec
	lines := []string{
		fmt.Sprintf("Loads are in %s, from %s to %s; entries of the profile keep their proportions.", unitOf(search), spec.Load.Min, cmp.Or(spec.Load.Max, "100%/port")),
		fmt.Sprintf("A trial settles for %s, ramps up for %s (counted apart), drains for %s and pauses for %s.", cmp.Or(trial.Settle, "2s"), cmp.Or(trial.RampUp, "0s"), cmp.Or(trial.Drain, "2s"), cmp.Or(trial.Pause, "5s")),
	}
	if ofApplications(search) {
		lines[1] = fmt.Sprintf("A trial settles for %s, ramps up linearly in %s (counted apart), sustains its load for its duration, drains for %s and pauses for %s.", cmp.Or(trial.Settle, "2s"), cmp.Or(trial.RampUp, "0s"), cmp.Or(trial.Drain, "2s"), cmp.Or(trial.Pause, "5s"))
	}
	if spec.Load.Vary == spatev1.VaryOpenConnections {
		lines[1] = fmt.Sprintf("A trial settles for %s, opens its connections in %s, holds them for its duration, and pauses for %s.", cmp.Or(trial.Settle, "2s"), spec.Load.Ramp, cmp.Or(trial.Pause, "5s"))
	}
	if t := spec.Throughput; t != nil {
		lines = append(lines, fmt.Sprintf("Loads are chosen by %s.", cmp.Or(t.Method, spatev1.MethodMLRsearch)))
		for _, g := range t.Goals {
			if g.Standard != "" {
				lines = append(lines, fmt.Sprintf("Goal %s: %s, width %s.", g.Name, g.Standard, cmp.Or(g.Width, "0.5%")))
				continue
			}
			lines = append(lines, fmt.Sprintf("Goal %s: loss ratio %s, exceed ratio %s, final trials of %s, duration sum %s, width %s.", g.Name, g.LossRatio,
				cmp.Or(g.ExceedRatio, "0%"), g.FinalTrialDuration, cmp.Or(g.DurationSum, g.FinalTrialDuration), cmp.Or(g.Width, "0.5%")))
		}
		for _, g := range t.Goals {
			for _, requirement := range sequence.Requirements(&g) {
				lines = append(lines, fmt.Sprintf("Goal %s requires of each trial: %s.", g.Name, requirement.Text))
			}
		}
	}
	return append(lines, deviations(search)...)
}

// unitOf describes the unit of a search's loads.
func unitOf(search *spatev1.TrafficSearch) string {
	for _, v := range search.Status.Variants {
		switch v.Unit {
		case spatev1.UnitConnections:
			return "connections a second of all applications"
		case spatev1.UnitTransactions:
			return "transactions a second of all applications"
		case spatev1.UnitOpen:
			return "open connections of all applications"
		}
	}
	return "packets a second of the busiest transmitting port"
}

// ofApplications reports whether loads are those of applications.
func ofApplications(search *spatev1.TrafficSearch) bool {
	return slices.ContainsFunc(search.Status.Variants, func(v spatev1.SearchVariant) bool {
		return v.Unit != "" && v.Unit != spatev1.UnitPackets
	})
}

// deviations from the standard that the parameters make.
func deviations(search *spatev1.TrafficSearch) []string {
	if ofApplications(search) {
		return fromRFC9411(search)
	}
	return fromRFC2544(search)
}

// fromRFC9411 are the deviations from the tests of connections and transactions.
func fromRFC9411(search *spatev1.TrafficSearch) (lines []string) {
	deviate := func(format string, values ...any) {
		lines = append(lines, "Deviates from RFC 9411: "+fmt.Sprintf(format, values...))
	}
	if search.Spec.Load.Vary != spatev1.VaryOpenConnections && seconds(cmp.Or(search.Spec.Trial.RampUp, "0s")) == 0 {
		deviate("a trial has no ramp up phase (section 4.3.4): set trial.rampUp.")
	}
	if t := search.Spec.Throughput; t != nil {
		for _, g := range t.Goals {
			if g.Standard != spatev1.GoalRFC9411 {
				given := fmt.Sprintf("a loss ratio of %s in trials of %s", g.LossRatio, g.FinalTrialDuration)
				if g.Standard != "" {
					given = "what " + string(g.Standard) + " accepts"
				}
				deviate("goal %s accepts %s; sections 4.3.4 and 7.2.3 have 0.001%% in 300s (standard: RFC9411).", g.Name, given)
			}
		}
	}
	deviate("whether the number of concurrent connections is constant is not examined (section 7.2.3).")
	return lines
}

// fromRFC2544 are the deviations from the tests of frames.
func fromRFC2544(search *spatev1.TrafficSearch) (lines []string) {
	deviate := func(format string, values ...any) {
		lines = append(lines, "Deviates from RFC 2544: "+fmt.Sprintf(format, values...))
	}
	trial := search.Spec.Trial
	for _, part := range []struct {
		name        string
		given, rule spatev1.Duration
	}{{"settles", cmp.Or(trial.Settle, "2s"), "2s"}, {"drains", cmp.Or(trial.Drain, "2s"), "2s"}, {"pauses", cmp.Or(trial.Pause, "5s"), "5s"}} {
		if seconds(part.given) < seconds(part.rule) {
			deviate("a trial %s for %s; section 23 has %s.", part.name, part.given, part.rule)
		}
	}
	if t := search.Spec.Throughput; t != nil {
		for _, g := range t.Goals {
			if g.Standard == "" && (g.LossRatio != "0%" || seconds(g.FinalTrialDuration) < 60) {
				deviate("goal %s accepts a loss ratio of %s in trials of %s; sections 24 and 26.1 have none in 60s.", g.Name, g.LossRatio, g.FinalTrialDuration)
			}
			if g.Standard == spatev1.GoalTST009 {
				deviate("goal %s repeats a trial with loss once (ETSI GS NFV-TST 009).", g.Name)
			}
		}
	}
	if l := search.Spec.Latency; l != nil && (seconds(cmp.Or(l.Duration, "120s")) < 120 || l.Repeats != nil && *l.Repeats < 20) {
		deviate("latency is the mean over %d trials of %s; section 26.2 has 20 of 120s.", value(l.Repeats, 20), cmp.Or(l.Duration, "120s"))
	}
	if l := search.Spec.Latency; l != nil {
		deviate("latency is that of all packets of the stream with the greatest 99th percentile, not of one tagged frame (section 26.2).")
	}
	if f := search.Spec.FrameLoss; f != nil && seconds(cmp.Or(f.Duration, "60s")) < 60 {
		deviate("frame loss is measured in trials of %s; section 24 has 60s.", f.Duration)
	}
	if b := search.Spec.BackToBack; b != nil && b.Repeats != nil && *b.Repeats < 50 {
		deviate("back-to-back frames are the mean of %d searches; section 26.4 has 50.", *b.Repeats)
	}
	if r := search.Spec.Recovery; r != nil && seconds(cmp.Or(r.Duration, "60s")) < 60 {
		deviate("the overload before a recovery lasts %s; section 26.5 has 60s.", r.Duration)
	}
	if r := search.Spec.Recovery; r != nil && cmp.Or(r.Overload, "110%") != "110%" {
		deviate("the overload before a recovery is %s of the throughput; section 26.5 has 110%%.", r.Overload)
	}
	if r := search.Spec.Reset; r != nil {
		deviate("the device is reset by others during a trial of %s (section 26.6).", cmp.Or(r.Duration, "120s"))
	}
	return lines
}

func value[T any](given *T, absent T) T {
	if given == nil {
		return absent
	}
	return *given
}

func seconds(d spatev1.Duration) float64 {
	value, _ := d.Parse()
	return value.Seconds()
}

// heading says in a line how far a search is.
func heading(search *spatev1.TrafficSearch) string {
	trials, spent := int32(0), time.Duration(0)
	for _, v := range search.Status.Variants {
		trials += v.Trials
		spent += time.Duration(v.Spent)
	}
	return fmt.Sprintf("Search %s of profile %s: %s%s, %s, %d trials in %s", search.Name, search.Spec.ProfileRef.Name, cmp.Or(search.Status.Phase, spatev1.SearchPending),
		outcome(search.Status.Outcome), search.Status.Progress, trials, spent.Round(time.Second))
}

func outcome(o spatev1.VerdictOutcome) string {
	if o == "" {
		return ""
	}
	return " (" + string(o) + ")"
}

func writeTable(w io.Writer, search *spatev1.TrafficSearch) error {
	fmt.Fprintln(w, heading(search))
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, t := range tables(search) {
		fmt.Fprintf(out, "\n%s (%s)\n%s\n", t.title, t.standard, strings.Join(t.headings, "\t"))
		for _, row := range t.rows {
			fmt.Fprintln(out, strings.Join(row, "\t"))
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	for _, line := range method(search) {
		fmt.Fprintln(w, line)
	}
	return messages(w, search)
}

// messages writes which requirements bounded goals, and why variants are not as they should be.
func messages(w io.Writer, search *spatev1.TrafficSearch) (err error) {
	for _, v := range search.Status.Variants {
		for _, g := range v.Result.Goals {
			if g.BoundedBy != "" {
				_, err = fmt.Fprintf(w, "%s: goal %s is bounded by a requirement, not by loss: %s\n", v.Name, g.Name, g.BoundedBy)
			}
		}
		if v.Outcome != spatev1.VerdictPassed && v.Message != "" {
			_, err = fmt.Fprintf(w, "%s: %s\n", v.Name, v.Message)
		}
	}
	return err
}

func writeMarkdown(w io.Writer, search *spatev1.TrafficSearch) error {
	fmt.Fprintf(w, "# %s\n", heading(search))
	for _, t := range tables(search) {
		fmt.Fprintf(w, "\n## %s (%s)\n\n| %s |\n|%s\n", t.title, t.standard, strings.Join(t.headings, " | "), strings.Repeat("---|", len(t.headings)))
		for _, row := range t.rows {
			fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		}
	}
	fmt.Fprintln(w)
	for _, line := range method(search) {
		fmt.Fprintln(w, "- "+line)
	}
	return messages(w, search)
}

// writeCSV writes a row for each figure: test, frames, load, what it is and its value.
func writeCSV(w io.Writer, search *spatev1.TrafficSearch) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"test", "frames", "name", "value"}) // errors are reported at the end
	row := func(test, frames, name, value string) { _ = out.Write([]string{test, frames, name, value}) }
	for _, v := range search.Status.Variants {
		for _, g := range v.Result.Goals {
			unit := string(cmp.Or(v.Unit, spatev1.UnitPackets))
			row("throughput", v.Name, string(g.Name)+".lower_"+unit, g.Lower)
			row("throughput", v.Name, string(g.Name)+".upper_"+unit, g.Upper)
			row("throughput", v.Name, string(g.Name)+".throughput_"+unit, g.Throughput)
			row("throughput", v.Name, string(g.Name)+".reason", g.Reason)
			if g.BoundedBy != "" {
				row("throughput", v.Name, string(g.Name)+".bounded_by", g.BoundedBy)
			}
		}
		for _, s := range v.Spread {
			for _, figure := range []struct{ name, value string }{
				{"repeats", strconv.Itoa(int(s.Count))}, {"min", s.Min}, {"median", s.Median}, {"max", s.Max}, {"deviation", s.Deviation}, {"median_low", s.MedianLow}, {"median_high", s.MedianHigh},
			} {
				row("repeats", v.Name, string(s.Name)+"."+figure.name, figure.value)
			}
		}
		for _, l := range v.Result.Latency {
			at := fmt.Sprintf("%d%%.", l.Percent)
			for _, figure := range []struct {
				name string
				time spatev1.MeasuredTime
			}{{"mean_ns", l.Mean}, {"typical_ns", l.Typical}, {"worst_case_ns", l.WorstCase}, {"delay_variation_ns", l.DelayVariation}} {
				row("latency", v.Name, at+figure.name, strconv.FormatInt(int64(figure.time), 10))
			}
		}
		for _, f := range v.Result.FrameLoss {
			row("frame_loss", v.Name, f.Percent+"%.loss_ratio", f.LossRatio)
		}
		if b := v.Result.BackToBack; b != nil {
			row("back_to_back", v.Name, "frames", b.Frames)
			row("back_to_back", v.Name, "buffer_time_ns", strconv.FormatInt(int64(b.BufferTime), 10))
			row("back_to_back", v.Name, "corrected_buffer_time_ns", strconv.FormatInt(int64(b.CorrectedBufferTime), 10))
		}
		if r := v.Result.Recovery; r != nil {
			row("recovery", v.Name, "mean_ns", strconv.FormatInt(int64(r.Mean), 10))
			row("recovery", v.Name, "greatest_ns", strconv.FormatInt(int64(r.Greatest), 10))
		}
		if r := v.Result.Reset; r != nil {
			row("reset", v.Name, "mean_ns", strconv.FormatInt(int64(r.Mean), 10))
			row("reset", v.Name, "greatest_ns", strconv.FormatInt(int64(r.Greatest), 10))
			row("reset", v.Name, "by_loss_ns", strconv.FormatInt(int64(r.ByLoss), 10))
			row("reset", v.Name, "reason", r.Reason)
		}
	}
	for _, t := range search.Status.Thresholds {
		row("thresholds", "", t.Name, strconv.FormatBool(t.Met))
	}
	out.Flush()
	return out.Error()
}

// documentIn writes a search for programs, in a form.
func documentIn(form string) func(io.Writer, *spatev1.TrafficSearch) error {
	return func(w io.Writer, search *spatev1.TrafficSearch) error {
		return output.WriteDocument(w, form, struct {
			Name      string                  `json:"name"`
			Namespace string                  `json:"namespace"`
			Phase     spatev1.SearchPhase     `json:"phase"`
			Outcome   spatev1.VerdictOutcome  `json:"outcome,omitempty"`
			Variants  []spatev1.SearchVariant `json:"variants"`

			Thresholds []spatev1.ThresholdResult `json:"thresholds,omitempty"`
			Method     []string                  `json:"method"`
		}{search.Name, search.Namespace, search.Status.Phase, search.Status.Outcome, search.Status.Variants, search.Status.Thresholds, method(search)})
	}
}

// passedMessage says what came of a search.
func passedMessage(search *spatev1.TrafficSearch) string {
	if passed := meta.FindStatusCondition(search.Status.Conditions, spatev1.ConditionPassed); passed != nil {
		return passed.Message
	}
	return ""
}

// writeJUnit writes a test case for each variant: irregular results are failures, searches that could not be done errors. With thresholds each of
// them is a test case too, and decides instead of whether results are regular.
func writeJUnit(w io.Writer, search *spatev1.TrafficSearch) error {
	s := junit.Suite{Name: search.Namespace + "/" + search.Name}
	for _, v := range search.Status.Variants {
		c := junit.Case{Name: v.Name, Time: junit.Seconds(time.Duration(v.Spent)), Output: v.Message}
		switch v.Outcome {
		case spatev1.VerdictPassed:
		case spatev1.VerdictFailed:
			if len(search.Spec.Thresholds) == 0 {
				c.Failure = &junit.Message{Text: v.Message}
			}
		default:
			c.Error = &junit.Message{Text: cmp.Or(v.Message, "the search has not ended")}
		}
		s.Add(c)
	}
	judged := map[string]spatev1.ThresholdResult{}
	for _, t := range search.Status.Thresholds {
		judged[t.Name] = t
	}
	for _, t := range search.Spec.Thresholds {
		c, result := junit.Case{Name: "threshold " + string(t.Name), Time: "0"}, judged[string(t.Name)]
		switch {
		case result.Met:
			c.Output = result.Message
		case result.Name == "":
			c.Error = &junit.Message{Text: cmp.Or(passedMessage(search), "the search has not ended")}
		default:
			c.Failure = &junit.Message{Text: cmp.Or(t.Message, result.Message)}
			c.Output = result.Message
		}
		s.Add(c)
	}
	return s.Write(w)
}
