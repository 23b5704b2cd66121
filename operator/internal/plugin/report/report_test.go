// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/archive/s3test"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/plugin/result"
	"spate.dev/operator/internal/runs/samples"
)

// subjectOf is a run with this outcome, in all whose parts that users write a name is found, a message in all that the operator writes.
func subjectOf(outcome spatev1.VerdictOutcome, name, message string) *subject {
	run := plugintest.RunNamed(name, name, time.Unix(1_800_000_000, 0))
	started := metav1.NewMicroTime(time.Unix(1_800_000_100, 0))
	run.Status.Phase, run.Status.TrafficStartTime = spatev1.RunComplete, &started
	run.Spec.Overrides.Rate, run.Spec.Overrides.GeneratorRef = "2x", &spatev1.GeneratorReference{Name: "lab", Namespace: "infra"}
	run.Status.Resolved = &spatev1.ResolvedRun{
		Profile: spatev1.ProfileSnapshot{Name: spatev1.ObjectName(name), UID: "p", Generation: 3}, GeneratorTolerance: spatev1.GeneratorTolerance{Late: "0.1%", TxDropped: "0", RxMissed: "0"},
		Generator: spatev1.GeneratorSnapshot{Name: "lab", Namespace: "infra", Pods: []spatev1.PodSnapshot{{Name: "lab-0", UID: "u"}}}, Thresholds: []spatev1.Threshold{{Name: "no-loss", Expression: "result.lost == 0"}},
	}
	run.Status.Verdict = &spatev1.Verdict{
		Outcome: outcome, Reasons: []spatev1.VerdictReason{{Reason: map[spatev1.VerdictOutcome]string{spatev1.VerdictPassed: "ThresholdsMet", spatev1.VerdictFailed: "ThresholdMissed", spatev1.VerdictInvalid: "GeneratorLimited"}[outcome], Message: message}},
		Thresholds: []spatev1.ThresholdResult{{Name: "no-loss", Met: outcome != spatev1.VerdictFailed, Message: message}},
	}
	run.Status.Stages = []spatev1.StageStatus{{Name: name, Phase: spatev1.StagePassed, Result: &spatev1.StageResult{Duration: 30e9, Tx: 30_000, Rx: 30_000, LossRatio: "0"}}}
	series := samples.New()
	for second := range int64(61) {
		packets, flows := 1000*second, 50*second
		voice := spatev1.StreamCounters{Tx: packets, TxBytes: 128 * packets, Rx: packets - min(second, 30), RxBytes: 128 * (packets - min(second, 30)), Lost: min(second, 30), LossRatio: "0.0005"}
		delay := &spatev1.Latency{
			Count: voice.Rx, Min: 8_000, Mean: 12_345, Max: 2_500_000, Deviation: 700, P50: 11_000, P90: 15_000, P95: 18_000, P99: 31_500, P999: 120_000, P9999: 900_000, Jitter: 300, JitterMean: 250, JitterMax: 9000,
		}
		client := &spatev1.TemplateSide{FlowCounters: spatev1.FlowCounters{
			Attempted: flows, Established: flows - min(flows, 1), Closed: flows - min(flows, 3), Failed: min(flows, 1), TimedOut: min(flows, 1), Open: min(flows, 2), BytesSent: 100 * flows, BytesReceived: 40_000 * flows, PacketsSent: 30 * flows,
			PacketsReceived: 40 * flows, Retransmitted: flows / 10, Late: flows / 100,
		}, ConnectTime: &spatev1.Latency{Count: flows, Min: 20_000, P50: 31_530, P99: 1_204_000, P999: 2_000_000, P9999: 2_100_000, Max: 2_500_000_000}}
		if voice.Rx == 0 {
			delay, client.ConnectTime = nil, nil
		}
		all := client.FlowCounters
		r := &spatev1.RunResult{
			StreamCounters: voice, Duration: spatev1.MeasuredTime(second * 1e9), Streams: map[string]spatev1.StreamResult{name: {StreamCounters: voice, Latency: delay}},
			Templates: map[string]spatev1.TemplateResult{name: {Client: client}}, Flows: &all, WorstLatency: name + ": p50 11us, p99 31.5us, max 2.5ms", Foreign: 7,
			Receivers: map[string]spatev1.ReceiverResult{name: {Packets: 7, Bytes: 448}},
		}
		series.Add(samples.Reading{
			At: time.Duration(second) * time.Second, Result: r, Delays: map[string]samples.Times{name: {Count: voice.Rx, Sum: voice.Rx * (12_000 + second)}}, ConnectTimes: map[string]samples.Times{name: {Count: flows, Sum: 35_000 * flows}},
		}, samples.Most)
		run.Status.Result = r
	}
	g := &spatev1.TrafficGenerator{}
	g.Status.EngineVersion = "v1.2.3"
	g.Status.Pods = []spatev1.GeneratorPodStatus{{
		Name: "lab-0", Node: name, Ready: true, DPDKVersion: "24.11.1", TimeSource: "TSC", Clock: &spatev1.PodClock{Offset: 1200, Bound: 5000},
		Ports:     []spatev1.GeneratorPortStatus{{Name: name, Kind: spatev1.PortPCI, Device: "0000:3b:02.1", Driver: "net_iavf", LinkUp: true, LineRate: "25Gbps", MTU: 1500, MAC: "02:00:00:00:00:01"}},
		Preflight: []spatev1.PreflightCheck{{Check: "DeviceOnOtherNUMANode", Subject: name, State: spatev1.PreflightWarning, Observed: message, Remedy: message}, {Check: "CPUIsolation", Subject: "CPUs 2-5", State: spatev1.PreflightOk, Observed: "isolated"}},
	}}
	p := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: name, UID: "p", Generation: 4}}
	p.Spec.Traffic = []spatev1.TrafficEntry{{Name: spatev1.EntryName(name), TransmitPort: "east"}}
	p.Spec.Thresholds = []spatev1.Threshold{{Name: "no-loss", Expression: "result.lost == 0", Message: message}}
	return &subject{run: run, samples: series, generator: g, profile: p, at: time.Unix(1_800_000_200, 0)}
}

// bare is an invalid run of which neither samples nor the generator can be read.
func bare() *subject {
	s := subjectOf(spatev1.VerdictInvalid, "imix", "700 packets were sent late; generatorTolerance.late of 0.1% allows 60 of 60000 sent")
	s.samples, s.noSamples = nil, "There are no values over time: the run has no samples."
	s.generator, s.missing = nil, []string{"The generator cannot be read: forbidden"}
	s.run.Spec.Overrides.Thresholds = s.run.Status.Resolved.Thresholds
	return s
}

// little is a run with one of everything.
func little() *subject {
	return subjectOf(spatev1.VerdictFailed, "imix", "result.lost == 0 does not hold: result.lost is 30")
}

// examples is the folder with the pages that the documents show.
const examples = "../../../../docs/reports"

// Reports of the examples are in the documents, those of other runs beside this test. SPATE_GOLDEN=renew writes the files again.
func TestReportsAreThoseOfTheFiles(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		*subject
		formats []string
	}{
		"passed": {passedExample(), []string{"html", "md"}}, "failed": {failedExample(), []string{"html", "md"}}, "invalid": {invalidExample(), []string{"html", "md"}},
		"bare": {bare(), []string{"html", "md"}}, "small": {little(), []string{"md", "csv", "junit"}},
	} {
		for _, format := range of.formats {
			var got bytes.Buffer
			if err := formats[format](&got, of.subject); err != nil {
				t.Fatal(err)
			}
			folder := "testdata"
			if format == "html" && name != "bare" {
				folder = examples
			}
			file := filepath.Join(folder, name+"."+strings.Replace(format, "junit", "xml", 1))
			if os.Getenv("SPATE_GOLDEN") == "renew" {
				if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(file, got.Bytes(), 0o644)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v: SPATE_GOLDEN=renew writes it", err)
			}
			theirs, ours := strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")
			for i := range max(len(theirs), len(ours)) {
				if i >= len(theirs) || i >= len(ours) || theirs[i] != ours[i] {
					t.Errorf("%s differs from line %d on; SPATE_GOLDEN=renew writes it again\n got %.300s\nwant %.300s", file, i+1, strings.Join(ours[min(i, len(ours)):], "\n"), strings.Join(theirs[min(i, len(theirs)):], "\n"))
					break
				}
			}
		}
	}
}

// What is archived in a bucket of a real server is reported as what is archived in a directory.
func TestTheReportOfABucketIsThatOfADirectory(t *testing.T) {
	server, directory, s := s3test.Start(t), t.TempDir(), subjectOf(spatev1.VerdictFailed, "imix", "result.lost is 30")
	s3test.Setenv(t, s3test.AccessKey, s3test.SecretKey)
	s.run.UID = "00000000-0000-4000-8000-000000000001"
	encoded, err := s.samples.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const place = "s3://" + s3test.Bucket + "/spate"
	bucket, err := archive.NewBucket(t.Context(), archive.BucketConfig{Location: place, Endpoint: server.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(archive.Save(t.Context(), bucket, s.run, encoded), archive.Save(t.Context(), archive.Directory(directory), s.run, encoded)); err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`) // of the report, which is that of the clock
	reported := func(format, from string, args ...string) string {
		args = append([]string{"report", "-n", s.run.Namespace, "--kubeconfig", os.DevNull, "-o", format, "--from", from}, args...)
		output, _, err := plugintest.Run("", args, NewCommand())
		if err != nil || output == "" {
			t.Errorf("%q: %v", args, err)
		}
		return made.ReplaceAllString(output, "")
	}
	for _, format := range names {
		want := reported(format, directory, s.run.Name)
		for _, got := range []string{
			reported(format, place, s.run.Name, "--endpoint", server.Endpoint), reported(format, place+"/"+archive.Folder(s.run), "--endpoint", server.Endpoint),
		} {
			if got != want {
				t.Errorf("%s: of the bucket\n%.2000s\nof the directory\n%.2000s", format, got, want)
			}
		}
	}
}

// skeleton lists the elements of a page with the names of their attributes, and its texts. Style and script are compared by policyOf.
func skeleton(t *testing.T, text []byte) (elements []string, texts string) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for node := range root.Descendants() {
		switch node.Type {
		case html.ElementNode:
			element := []string{node.Data}
			for _, a := range node.Attr {
				if node.Data == "td" || node.Data == "th" { // what they are depends on the text: a number, a time
					if !slices.Contains([]string{"class", "data-key", "scope"}, a.Key) {
						t.Errorf("attribute %s of a cell", a.Key)
					}
					continue
				}
				element = append(element, a.Key)
				if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
					t.Errorf("<%s %s=%q>", node.Data, a.Key, a.Val)
				}
			}
			elements = append(elements, strings.Join(element, " "))
		case html.TextNode:
			b.WriteString(node.Data)
		}
	}
	return elements, b.String()
}

// escapes fails if a name or a message becomes anything but text.
func escapes(t *testing.T, name, message string) {
	t.Helper()
	page := func(name, message string) (elements []string, texts string) {
		var b bytes.Buffer
		if err := writeHTML(&b, documentOf(subjectOf(spatev1.VerdictFailed, name, message))); err != nil {
			t.Fatal(err)
		}
		return skeleton(t, b.Bytes())
	}
	want, _ := page("name", "message")
	got, texts := page(name, message)
	if !slices.Equal(got, want) {
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("%q, %q: element %d is <%s>, not <%s>", name, message, i, got[i], want[i])
			}
		}
		t.Fatalf("%q, %q: %d elements, not %d", name, message, len(got), len(want))
	}
	if !strings.ContainsAny(name, "\r\x00") && strings.ToValidUTF8(name, "") == name && !strings.Contains(texts, "Run "+name) {
		t.Errorf("no %q among the texts", name)
	}
}

var hostile = []string{
	`<script>alert(1)</script>`, `</script><img src=x onerror=alert(1)>`, `"><svg onload=alert(1)>`, `' onmouseover='alert(1)`, `</title></style><b>`, `--><!--`, `]]>`, `{{.}}`, "`${alert(1)}`", `</svg><p>`, `</pre></code><h1>`,
	`&lt;script&gt;`, "a\nb\tc", `javascript:alert(1)`, "\u2028\u202e", `</text></td></table>`, `%3Cscript%3E`, `= cmd|' /C calc'!A0`,
}

func TestNoNameBecomesMarkup(t *testing.T) {
	t.Parallel()
	for _, text := range hostile {
		escapes(t, text, text)
	}
}

func FuzzNamesInHTML(f *testing.F) {
	for _, text := range hostile {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, name, message string) { escapes(t, "n"+name, message) })
}

// The page's policy names the digests of its script and style as a browser computes them, and nothing else may be loaded or executed.
func TestThePolicyAllowsThisScriptAndStyleOnly(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := writeHTML(&b, documentOf(little())); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	var allowed string
	var inline []string
	for node := range root.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		switch node.Data {
		case "meta":
			if len(node.Attr) == 2 && node.Attr[0].Val == "Content-Security-Policy" {
				allowed = node.Attr[1].Val
			}
		case "script", "style":
			inline = append(inline, fmt.Sprintf("%s-src 'sha256-%s'", node.Data, digest(node.FirstChild.Data)))
		case "link", "img", "iframe", "object", "embed", "base", "form":
			t.Errorf("<%s>", node.Data)
		}
		for _, a := range node.Attr {
			if a.Key == "style" {
				t.Errorf("<%s style=%q> is not applied", node.Data, a.Val)
			}
		}
	}
	if len(inline) != 2 || !strings.HasPrefix(allowed, "default-src 'none'; "+inline[0]+"; "+inline[1]+";") {
		t.Errorf("%s\n%v", allowed, inline)
	}
}

func TestMarkdownTakesTextsAsTexts(t *testing.T) {
	t.Parallel()
	for _, text := range hostile {
		var b bytes.Buffer
		if err := writeMarkdown(&b, documentOf(subjectOf(spatev1.VerdictFailed, text, text+" ```\n# x | y"))); err != nil {
			t.Fatal(err)
		}
		fence := ""
		for line := range strings.Lines(b.String()) {
			if mark := strings.TrimRight(line, "\n"); fence == "" && strings.HasPrefix(mark, "```") {
				fence = strings.TrimRight(mark, "yamlsh")
				continue
			} else if fence != "" {
				if mark == fence {
					fence = ""
				}
				continue
			}
			if strings.ContainsAny(line, "<>") {
				t.Errorf("%q", line)
			}
			if strings.HasPrefix(line, "| THRESHOLD |") || strings.HasPrefix(line, "| no-loss |") {
				if cells := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); cells != 4 {
					t.Errorf("%d bars in %q", cells, line)
				}
			}
		}
		if fence != "" {
			t.Errorf("%q ends a code block early, or never", text)
		}
	}
}

// What is drawn is what was counted: the sum of the rates, each times its interval, is the counter at the end.
func TestABaselineIsInTheReportAndInTheCommand(t *testing.T) {
	t.Parallel()
	s := subjectOf(spatev1.VerdictPassed, "imix", "the threshold holds")
	s.run.Spec.BaselineRef = &spatev1.LocalReference{Name: "before"}
	s.run.Status.Resolved.Baseline = &spatev1.BaselineSnapshot{Name: "before", Profile: "imix", CompletionTime: metav1.NewTime(time.Unix(1_700_000_000, 0)), Outcome: spatev1.VerdictFailed}
	var text bytes.Buffer
	if err := writeMarkdown(&text, documentOf(s)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"The baseline is run before of profile imix, which ended at 2023-11-14T22:13:20Z (Failed).", "--baseline before"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestAReportOfAnArchivedRunNeedsNoCluster(t *testing.T) {
	t.Parallel()
	root, s := t.TempDir(), subjectOf(spatev1.VerdictPassed, "imix", "the threshold holds")
	s.run.UID = "00000000-0000-4000-8000-000000000001"
	encoded, err := s.samples.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := archive.Save(t.Context(), archive.Directory(root), s.run, encoded); err != nil {
		t.Fatal(err)
	}
	text, said, err := plugintest.Run("", []string{"report", "imix", "-n", "tests", "-o", "html", "--from", root, "--kubeconfig", os.DevNull}, NewCommand())
	for _, want := range []string{`<span class="outcome passed">Passed</span>`, "The generator and the profile are not in an archive.", "60,000"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s%s: %v", want, text, said, err)
		}
	}
	if _, _, err := plugintest.Run("", []string{"report"}, NewCommand()); err == nil || err.Error() != "name a RUN, or a TrafficProfile, of which the latest run is used" {
		t.Error(err)
	}
}

func TestCSVHasEachSampleAndEachStream(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	s := little()
	if err := writeCSV(&b, s); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, row := range rows {
		count[row[0]]++
	}
	if want := map[string]int{"row": 1, "sample": 61, "sample-flows": 61, "sample-stream": 61, "sample-template": 61, "stream": 1, "template-client": 1, "total": 1}; fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("%v", count)
	}
	column := slices.Index(rows[0], samples.Rx)
	if last := rows[len(rows)-1]; last[column] != "59970" || rows[slices.IndexFunc(rows, func(row []string) bool { return row[0] == "sample" && row[2] == "60000000000" })][column] != "59970" {
		t.Errorf("%v", last)
	}
}

func TestWhatStampsThePacketsOfAPortIsShown(t *testing.T) {
	for want, port := range map[string]spatev1.GeneratorPortStatus{
		"-":                                {},
		"CPU":                              {ReceiveTimestamps: spatev1.TimestampsCPU},
		"device, to within 2µs":            {ReceiveTimestamps: spatev1.TimestampsDevice, TimestampBound: 2000},
		"device, whose clock is not known": {ReceiveTimestamps: spatev1.TimestampsDevice},
	} {
		if got := stampedBy(&port); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	of := passedExample()
	of.generator.Status.Pods[0].Ports[0].ReceiveTimestamps, of.generator.Status.Pods[0].Ports[0].TimestampBound = spatev1.TimestampsDevice, 2000
	var got bytes.Buffer
	if err := formats["html"](&got, of); err != nil || !strings.Contains(got.String(), "STAMPED BY") || !strings.Contains(got.String(), "device, to within 2µs") {
		t.Errorf("%v: a report without what stamps the packets of a port", err)
	}
}

func TestARunThatWasNeverResolvedHasAReport(t *testing.T) {
	t.Parallel()
	run := plugintest.RunNamed("early", "imix", time.Unix(0, 0))
	run.Status.Phase = spatev1.RunPending
	for _, format := range names {
		var b bytes.Buffer
		if err := formats[format](&b, &subject{run: run, noSamples: "none"}); err != nil || b.Len() == 0 {
			t.Errorf("%s: %v, %d bytes", format, err, b.Len())
		}
	}
}

// A stage begins where the one before ends, the first after the warm-up.
func TestChartsMarkStages(t *testing.T) {
	t.Parallel()
	run := little().run
	run.Status.Resolved.Timing.Warmup = "5s"
	stage := func(name string, result *spatev1.StageResult) spatev1.StageStatus {
		return spatev1.StageStatus{Name: name, Result: result}
	}
	run.Status.Stages = []spatev1.StageStatus{stage("ramp", &spatev1.StageResult{Duration: 30e9}), stage("soak", &spatev1.StageResult{Duration: 60e9}), stage("spike", nil)}
	if got := marks(run); !slices.Equal(got, []mark{{5 * time.Second, "ramp"}, {35 * time.Second, "soak"}}) {
		t.Errorf("%v", got)
	}
	run.Status.Stages = nil
	if got := marks(run); !slices.Equal(got, []mark{{5 * time.Second, "measured"}}) {
		t.Errorf("%v", got)
	}
	run.Status.Resolved.Timing.Warmup = ""
	if got := marks(run); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for room, want := range map[float64]string{10: "", 30: "rec…", 60: "recovery"} {
		if got := within(room, "recovery"); got != want {
			t.Errorf("%g: %q, not %q", room, got, want)
		}
	}
}

func TestAReportCountsWhatItOmits(t *testing.T) {
	t.Parallel()
	s := little()
	s.samples.StreamsNotSampled, s.samples.TemplatesNotSampled = 12, 3
	s.run.Status.Result.Details = &spatev1.ResultDetails{Truncated: []spatev1.TruncatedList{{List: "streams", Kept: 1, Total: 13}, {List: "receivers.workers", Kept: 2, Total: 64}}}
	notes := slices.Concat(overTime(s).Notes, measured(s.run).Notes)
	for _, want := range []string{
		"Streams by themselves are the first 1 by name; 12 more are in the sums only.", "Templates by themselves are the first 1 by name; 3 more are in the sums only.",
		"Not all of the result is here: 1 of 13 streams, 2 of 64 receivers.workers",
	} {
		if !slices.Contains(notes, want) {
			t.Errorf("no note %q in %q", want, notes)
		}
	}
	distributions := slices.Repeat([]timing{{"voice", s.run.Status.Result.Streams["imix"].Latency}}, mostInPicture+4)
	if c, drawn := percentileChart(distributions); !drawn || !strings.HasSuffix(c.Title, " (the first 8; 4 more are in the table)") || len(c.Legend) != mostInPicture {
		t.Errorf("drawn %v, %q, %d lines", drawn, c.Title, len(c.Legend))
	}
}

// Quantities have commas, identifiers have not; both are sorted by their value.
func TestCellsAreNumbersOrNames(t *testing.T) {
	t.Parallel()
	got := tableOf(result.Table{Headings: []string{"STREAM", "VLAN", "TX", "RATE", "MET"}, Rows: [][]string{{"12345", "40000", "1234567", "-12345.5", "yes"}, {"a", "7", "9999", "0x11", "NO"}}})
	if want := []cell{{Text: "STREAM"}, {Text: "VLAN"}, {Text: "TX", Class: "number"}, {Text: "RATE"}, {Text: "MET"}}; !slices.Equal(got.Heads, want) {
		t.Errorf("%v", got.Heads)
	}
	want := []cell{{"12345", "12345", ""}, {"40000", "40000", ""}, {"1,234,567", "1.234567e+06", "number"}, {"-12,345.5", "-12345.5", "number"}, {"yes", "", "yes"}}
	if !slices.Equal(got.Rows[0], want) || got.Rows[1][2].Text != "9999" || got.Rows[1][3] != (cell{Text: "0x11"}) || got.Rows[1][4].Class != "no" {
		t.Errorf("%v", got.Rows)
	}
}

func TestDigitsAreGroupedByThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -12: "-12"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestAxesHaveFewTicks(t *testing.T) {
	t.Parallel()
	for _, span := range []time.Duration{time.Nanosecond, time.Millisecond, 700 * time.Millisecond, time.Second, 61 * time.Second, time.Hour, 9 * 24 * time.Hour, 400 * 24 * time.Hour} {
		if n := span / timeStep(span); n > 8 {
			t.Errorf("%s: %d", span, n)
		}
	}
	for _, greatest := range []float64{1e-9, 0.3, 1, 7, 1000, 14_880_952, 1e12} {
		if n := math.Ceil(greatest / niceStep(greatest/4)); n < 2 || n > 4 {
			t.Errorf("%g: %g", greatest, n)
		}
	}
}
