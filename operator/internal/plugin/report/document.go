// SPDX-License-Identifier: Apache-2.0

package report

// This file answers: what does a report say, in whatever format?

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/figures"
	"spate.dev/operator/internal/plugin/result"
	"spate.dev/operator/internal/runs/samples"
)

// subject is what a report is made of.
type subject struct {
	run *spatev1.TrafficRun // with its whole result, if that could be read
	// incomplete says which part of the result could not be read.
	incomplete string
	samples    *samples.Series // nil if there are none, or they could not be read
	// noSamples says why there are none.
	noSamples string
	generator *spatev1.TrafficGenerator // nil if it could not be read
	profile   *spatev1.TrafficProfile   // nil if the run has its own, or it could not be read
	// missing says which of these objects could not be read.
	missing []string
	at      time.Time // of the report
}

// document is a report.
type document struct {
	Title    string
	Profile  string
	Outcome  string // Passed, Failed, Invalid, or the phase of a run that has not ended
	Reasons  []string
	Facts    []fact
	Sections []section
	Made     string
}

// fact is a figure of the summary.
type fact struct{ Name, Value, Detail string }

// section of a report. Everything in it is optional, but for the title.
type section struct {
	ID, Title string
	Notes     []string
	Charts    []chart
	Tables    []result.Table
	Code      []code
}

// code is text that is shown as it is.
type code struct{ Language, Text string }

// documentOf writes a report.
func documentOf(s *subject) document {
	run := s.run
	d := document{Title: "Run " + run.Name, Profile: cluster.ProfileOf(run), Outcome: string(run.Status.Phase), Made: s.at.UTC().Format(time.RFC3339)}
	if v := run.Status.Verdict; v != nil {
		d.Outcome = string(v.Outcome)
		for _, reason := range v.Reasons {
			d.Reasons = append(d.Reasons, fmt.Sprintf("%s (%s)", reason.Message, reason.Reason))
		}
	} else {
		d.Reasons = []string{"the run has not ended: figures are those so far"}
	}
	if s.incomplete != "" {
		d.Reasons = append(d.Reasons, s.incomplete)
	}
	if run.Spec.Search != nil {
		d.Reasons = append(d.Reasons, "this is the run of a search: kubectl spate search report shows what was found")
	}
	d.Facts = factsOf(run)
	judged := section{ID: "verdict", Title: "Thresholds and stages", Tables: result.Judged(run)}
	if baseline := result.ComparedWith(run); baseline != "" {
		judged.Notes = []string{"The baseline is " + baseline + "."}
	}
	d.Sections = slices.DeleteFunc([]section{
		judged, overTime(s), delays(run), measured(run), tcp(run), own(run), environment(s), definition(s), again(run),
	}, func(s section) bool { return len(s.Notes)+len(s.Charts)+len(s.Tables)+len(s.Code) == 0 })
	return d
}

// factsOf are the figures that a reader looks for first.
func factsOf(run *spatev1.TrafficRun) (all []fact) {
	if at := run.Status.TrafficStartTime; at != nil {
		all = append(all, fact{"Start", at.UTC().Format(time.RFC3339), ""})
	}
	r := run.Status.Result
	if r == nil {
		return append(all, fact{"Result", "none", "nothing was measured"})
	}
	seconds := time.Duration(r.Duration).Seconds()
	if seconds > 0 {
		all = append(all, fact{"Measured for", time.Duration(r.Duration).Round(time.Millisecond).String(), ""})
	}
	mean := func(count int64, unit string) string {
		if seconds <= 0 {
			return ""
		}
		return "mean " + figures.WithUnit(float64(count)/seconds, unit)
	}
	if len(r.Streams) > 0 || r.Flows == nil {
		lost := fact{"Lost", grouped(r.Lost), "ratio " + r.LossRatio}
		if len(run.Status.LostPods) > 0 {
			lost = fact{"Lost", "unknown", "pods were lost"}
		}
		all = append(all, fact{"Sent", grouped(r.Tx), mean(r.Tx, "pps")}, fact{"Received", grouped(r.Rx), mean(r.Rx, "pps")}, lost)
	}
	if f := r.Flows; f != nil {
		all = append(all, fact{"Flows established", grouped(f.Established), mean(f.Established, "cps")}, fact{"Flows failed", grouped(f.Failed), ""})
	}
	if r.WorstLatency != "" {
		all = append(all, fact{"Greatest delays", r.WorstLatency, ""})
	}
	return all
}

// delays has all percentiles.
func delays(run *spatev1.TrafficRun) section {
	s := section{ID: "delays", Title: "Delays"}
	all := timesOf(run.Status.Result)
	if len(all) == 0 {
		return s
	}
	t := result.Table{Headings: strings.Split("TIMES OF,COUNT,MIN,MEAN,P50,P90,P95,P99,P99.9,P99.99,MAX,DEVIATION,JITTER", ",")}
	for _, d := range all {
		l := d.latency
		row := []string{d.name, strconv.FormatInt(l.Count, 10)}
		for _, value := range []spatev1.MeasuredTime{l.Min, l.Mean, l.P50, l.P90, l.P95, l.P99, l.P999, l.P9999, l.Max, l.Deviation, l.Jitter} {
			if l.Count == 0 && value == 0 {
				row = append(row, "-")
			} else {
				row = append(row, result.Span(value))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	s.Tables = []result.Table{t}
	if c, drawn := percentileChart(all); drawn {
		s.Charts = []chart{c}
	}
	return s
}

// timing is a distribution with its name.
type timing struct {
	name    string
	latency *spatev1.Latency
}

// timesOf are the delays of streams, and the connect times and round trips of templates, by name.
func timesOf(r *spatev1.RunResult) (all []timing) {
	if r == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.Streams)) {
		if l := r.Streams[name].Latency; l != nil {
			all = append(all, timing{name, l})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Templates)) {
		for _, side := range []struct {
			name string
			*spatev1.TemplateSide
		}{{"client", r.Templates[name].Client}, {"server", r.Templates[name].Server}} {
			if side.TemplateSide == nil {
				continue
			}
			if l := side.ConnectTime; l != nil {
				all = append(all, timing{name + " " + side.name + " connect", l})
			}
			if l := side.RoundTrip; l != nil {
				all = append(all, timing{name + " " + side.name + " round trip", l})
			}
		}
	}
	return all
}

// measured has the tables of kubectl spate result, and mean rates.
func measured(run *spatev1.TrafficRun) section {
	s := section{ID: "measured", Title: "Streams, templates and receivers", Tables: result.Measured(run)}
	r := run.Status.Result
	if r == nil || time.Duration(r.Duration) <= 0 || len(r.Streams) == 0 {
		return s
	}
	seconds := time.Duration(r.Duration).Seconds()
	perSecond := func(count int64) string {
		rate, decimals := float64(count)/seconds, 1
		if rate >= 1000 {
			decimals = 0
		}
		return strconv.FormatFloat(rate, 'f', decimals, 64)
	}
	rates := result.Table{Headings: strings.Split("MEAN RATES OF,TX PPS,RX PPS,TX BPS (L2),RX BPS (L2)", ",")}
	for _, name := range slices.Sorted(maps.Keys(r.Streams)) {
		c := r.Streams[name].StreamCounters
		rates.Rows = append(rates.Rows, []string{name, perSecond(c.Tx), perSecond(c.Rx), perSecond(8 * c.TxBytes), perSecond(8 * c.RxBytes)})
	}
	s.Tables = slices.Insert(s.Tables, min(1, len(s.Tables)), rates)
	if d := r.Details; d != nil && len(d.Truncated) > 0 {
		s.Notes = append(s.Notes, "Not all of the result is here: "+d.Has())
	}
	return s
}

// tcp says how flows fared.
func tcp(run *spatev1.TrafficRun) section {
	s := section{ID: "flows", Title: "Flows and TCP"}
	r := run.Status.Result
	if r == nil || r.Flows == nil {
		return s
	}
	share := func(part, whole int64) string {
		if whole == 0 {
			return "-"
		}
		return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 3, 64) + "%"
	}
	t := result.Table{Headings: strings.Split("FLOWS OF,SIDE,ESTABLISHED OF ATTEMPTED,FAILED OF ATTEMPTED,PACKETS SENT,PACKETS RECEIVED,RETRANSMITTED,OF PACKETS SENT,ERRORS", ",")}
	row := func(name, side string, c *spatev1.FlowCounters) {
		t.Rows = append(t.Rows, []string{
			name, side, share(c.Established, c.Attempted), share(c.Failed, c.Attempted), strconv.FormatInt(c.PacketsSent, 10), strconv.FormatInt(c.PacketsReceived, 10),
			strconv.FormatInt(c.Retransmitted, 10), share(c.Retransmitted, c.PacketsSent), strconv.FormatInt(c.Errors, 10),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Templates)) {
		if c := r.Templates[name].Client; c != nil {
			row(name, "client", &c.FlowCounters)
		}
		if c := r.Templates[name].Server; c != nil {
			row(name, "server", &c.FlowCounters)
		}
	}
	row("all, once", "", r.Flows)
	s.Tables = []result.Table{t}
	return s
}

// own says what of the result the generator itself did.
func own(run *spatev1.TrafficRun) section {
	s := section{ID: "generator", Title: "What the generator added"}
	r := run.Status.Result
	if r == nil {
		return s
	}
	tolerance := spatev1.GeneratorTolerance{}
	if resolved := run.Status.Resolved; resolved != nil {
		tolerance = resolved.GeneratorTolerance
	}
	t := result.Table{Headings: strings.Split("EFFECT,COUNT,TOLERANCE,MEANING", ",")}
	row := func(name string, count int64, tolerance spatev1.Tolerance, meaning string) {
		t.Rows = append(t.Rows, []string{name, strconv.FormatInt(count, 10), cmp.Or(string(tolerance), "-"), meaning})
	}
	row("late", r.Late, tolerance.Late, "packets that left later than they should have")
	row("tx dropped", r.TxDropped, tolerance.TxDropped, "packets that could not be sent")
	row("rx missed", r.RxMissed, tolerance.RxMissed, "packets that arrived and were lost before the engine read them")
	if f := r.Flows; f != nil {
		row("flows late", f.Late, tolerance.Late, "flows that started later than they were due")
		row("flows not started", f.NotStarted, tolerance.TxDropped, "flows that were due before the end and did not start")
		row("flows exhausted", f.Exhausted, tolerance.TxDropped, "flows for which there was no room in the flow table, or no free port")
	}
	row("throttled", r.Throttled, "", "packets that left late or not at all because of limits.maxRate")
	row("foreign", r.Foreign, "", "packets that arrived and belong to no run")
	row("other MAC", r.OtherMAC, "", "foreign packets for another station")
	row("not reflected", r.NotReflected, "", "packets on ports that reflect which were not sent back")
	if r.ClockBound > 0 {
		t.Rows = append(t.Rows, []string{"clock bound", result.Span(r.ClockBound), "-", "by which delays between pods may be wrong"})
	}
	s.Tables = []result.Table{t}
	if down := run.Status.PortsDown; len(down) > 0 {
		s.Notes = append(s.Notes, "Without a link for a time: "+strings.Join(down, ", "))
	}
	return s
}

// environment says what the run was executed on. Facts of the generator are those of the report's time.
func environment(s *subject) section {
	out := section{ID: "environment", Title: "Environment"}
	run := s.run
	if resolved := run.Status.Resolved; resolved != nil {
		t := result.Table{Headings: []string{"POD OF THE RUN", "UID"}}
		for _, pod := range resolved.Generator.Pods {
			t.Rows = append(t.Rows, []string{pod.Name, string(pod.UID)})
		}
		out.Notes = append(out.Notes, fmt.Sprintf("Generator %s/%s.", resolved.Generator.Namespace, resolved.Generator.Name))
		out.Tables = append(out.Tables, t)
	}
	out.Notes = append(out.Notes, s.missing...)
	g := s.generator
	if g == nil {
		return out
	}
	out.Notes = append(out.Notes, "What follows is the generator as it was at the time of the report, "+s.at.UTC().Format(time.RFC3339)+".")
	pods := result.Table{Headings: strings.Split("POD,NODE,READY,ENGINE,DPDK,TIME SOURCE,CLOCK OFFSET,CLOCK BOUND", ",")}
	ports := result.Table{Headings: strings.Split("PORT OF,PORT,KIND,DEVICE,DRIVER,LINK,LINE RATE,MTU,MAC,OFFLOADS,STAMPED BY", ",")}
	checks := result.Table{Headings: strings.Split("PREFLIGHT OF,CHECK,SUBJECT,STATE,OBSERVED,REMEDY", ",")}
	for _, pod := range g.Status.Pods {
		offset, bound := "-", "-"
		if c := pod.Clock; c != nil {
			offset, bound = c.Offset.String(), c.Bound.String()
		}
		pods.Rows = append(pods.Rows, []string{pod.Name, cmp.Or(pod.Node, "-"), yesOrNo(pod.Ready), cmp.Or(g.Status.EngineVersion, "-"), cmp.Or(pod.DPDKVersion, "-"), cmp.Or(pod.TimeSource, "-"), offset, bound})
		for _, p := range pod.Ports {
			ports.Rows = append(ports.Rows, []string{
				pod.Name, p.Name, cmp.Or(string(p.Kind), "-"), cmp.Or(p.Device, "-"), cmp.Or(p.Driver, "-"), map[bool]string{true: "up", false: "down"}[p.LinkUp], cmp.Or(p.LineRate, "-"),
				strconv.Itoa(int(p.MTU)), cmp.Or(p.MAC, "-"), cmp.Or(strings.Join(p.Offloads, " "), "-"), stampedBy(&p),
			})
		}
		for _, c := range pod.Preflight {
			checks.Rows = append(checks.Rows, []string{pod.Name, c.Check, c.Subject, string(c.State), c.Observed, cmp.Or(c.Remedy, "-")})
		}
	}
	for _, t := range []result.Table{pods, ports, checks} {
		if len(t.Rows) > 0 {
			out.Tables = append(out.Tables, t)
		}
	}
	return out
}

// stampedBy says what stamps the packets that a port receives, and how exactly.
func stampedBy(p *spatev1.GeneratorPortStatus) string {
	switch {
	case p.ReceiveTimestamps == spatev1.TimestampsCPU:
		return "CPU"
	case p.ReceiveTimestamps == spatev1.TimestampsDevice && p.TimestampBound > 0:
		return "device, to within " + result.Span(p.TimestampBound)
	case p.ReceiveTimestamps == spatev1.TimestampsDevice:
		return "device, whose clock is not known"
	}
	return "-"
}

func yesOrNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// manifest is an object as a file has it.
type manifest struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Metadata   manifestMetadata `json:"metadata"`
	Spec       any              `json:"spec"`
}

type manifestMetadata struct {
	Name         string `json:"name,omitempty"`
	GenerateName string `json:"generateName,omitempty"`
	Namespace    string `json:"namespace,omitempty"`
}

func (m manifest) text() string {
	m.APIVersion = spatev1.GroupVersion.String()
	text, err := yaml.Marshal(m)
	if err != nil { // a text has control characters, which YAML does not allow
		if text, err = json.MarshalIndent(m, "", "  "); err != nil {
			return "cannot be written: " + err.Error() + "\n"
		}
		text = append(text, '\n')
	}
	return string(text)
}

// definition is the profile.
func definition(s *subject) section {
	out := section{ID: "profile", Title: "Profile"}
	run, p := s.run, s.profile
	switch {
	case run.Spec.Profile != nil:
		out.Notes = append(out.Notes, "The run has a profile of its own, which is in its spec: see below.")
	case p != nil:
		resolved := run.Status.Resolved
		switch {
		case resolved != nil && resolved.Profile.UID != p.UID:
			out.Notes = append(out.Notes, "The run's profile no longer exists. This is a later one of the same name.")
		case resolved != nil && resolved.Profile.Generation != p.Generation:
			out.Notes = append(out.Notes, fmt.Sprintf("The run executed generation %d of the profile. This is generation %d, which differs.", resolved.Profile.Generation, p.Generation))
		}
		out.Code = []code{{"yaml", manifest{Kind: "TrafficProfile", Metadata: manifestMetadata{Name: p.Name, Namespace: p.Namespace}, Spec: p.Spec}.text()}}
	}
	return out
}

// again is how to run it again.
func again(run *spatev1.TrafficRun) section {
	out := section{ID: "again", Title: "Run it again"}
	spec := run.Spec.DeepCopy()
	spec.Stop, spec.Paused = false, false
	m := manifest{Kind: "TrafficRun", Metadata: manifestMetadata{GenerateName: cluster.ProfileOf(run) + "-", Namespace: run.Namespace}, Spec: spec}
	if o := run.Spec.Overrides; run.Spec.ProfileRef != nil && run.Spec.Search == nil && o.Size == nil && o.IMIX == "" && len(o.Thresholds) == 0 {
		command := []string{"kubectl spate run", quoted(string(run.Spec.ProfileRef.Name)), "-n", quoted(run.Namespace), "--wait"}
		for _, set := range []struct{ name, value string }{{"rate", string(o.Rate)}, {"duration", string(o.Duration)}, {"warmup", string(o.Warmup)}} {
			if set.value != "" {
				command = append(command, "--set", quoted(set.name+"="+set.value))
			}
		}
		if g := o.GeneratorRef; g != nil {
			name := string(g.Name)
			if g.Namespace != "" {
				name = g.Namespace + "/" + name
			}
			command = append(command, "--set", quoted("generator="+name))
		}
		if b := run.Spec.BaselineRef; b != nil {
			command = append(command, "--baseline", quoted(string(b.Name)))
		}
		out.Code = append(out.Code, code{"sh", strings.Join(command, " ") + "\n"})
		out.Notes = append(out.Notes, "By the plugin, or with this TrafficRun by kubectl create -f FILE:")
	} else {
		out.Notes = append(out.Notes, "With this TrafficRun in a file: kubectl create -f FILE, or kubectl spate run FILE --wait")
	}
	out.Code = append(out.Code, code{"yaml", m.text()})
	out.Notes = append(out.Notes, "The streams, templates and data that the profile refers to are those of the namespace at that time.")
	return out
}

var plain = regexp.MustCompile(`^[A-Za-z0-9._/%:=+-]+$`)

// quoted is a word of a shell.
func quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// grouped writes a number with commas.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}
