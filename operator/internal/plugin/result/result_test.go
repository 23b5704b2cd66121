// SPDX-License-Identifier: Apache-2.0

package result

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/runs/storage"
)

// ended returns a run that fills every table.
func ended() *spatev1.TrafficRun {
	run := plugintest.RunNamed("web-1a2b3-1", "web", time.Unix(1000, 0))
	run.Status.Phase = spatev1.RunComplete
	run.Status.Verdict = &spatev1.Verdict{
		Outcome:    spatev1.VerdictFailed,
		Reasons:    []spatev1.VerdictReason{{Reason: "ThresholdMissed", Message: "threshold fast: 7 is not less than 5"}},
		Thresholds: []spatev1.ThresholdResult{{Name: "none-failed", Met: true, Message: "holds"}, {Name: "fast", Message: "7 is not less than 5"}},
	}
	probe := spatev1.StreamCounters{Tx: 4000, Rx: 3999, Lost: 1, LossRatio: "0.00025"}
	client := &spatev1.TemplateSide{FlowCounters: spatev1.FlowCounters{Attempted: 100, Throttled: 7, Established: 99, Closed: 98, Failed: 1, TimedOut: 1, Open: 2, BytesSent: 1234, BytesReceived: 99000}}
	client.ConnectTime = &spatev1.Latency{Count: 99, P50: 31_530, P99: 1_204_000, Max: 2_500_000_000}
	server := &spatev1.TemplateSide{FlowCounters: spatev1.FlowCounters{Attempted: 99, Established: 99, Closed: 99}}
	group := spatev1.GroupResult{Client: &spatev1.GroupSide{FlowCounters: client.FlowCounters, ConnectTime: &spatev1.Moments{Count: 99, Mean: 45_000, Max: 2_500_000_000}}}
	all := client.FlowCounters
	all.Late = 5
	began, certain := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)), spatev1.MeasuredTime(2_000_000)
	server.Outage = &spatev1.Outage{Longest: 5_000_000, AtLeast: &certain}
	run.Status.Result = &spatev1.RunResult{
		StreamCounters: probe,
		Streams: map[string]spatev1.StreamResult{"probe": {StreamCounters: probe, Latency: &spatev1.Latency{Count: 1, P50: 900, P99: 5000, Max: 70_000}, Outage: &spatev1.Outage{Longest: 12_300_000, Offset: 1, At: &began},
			ByTag: map[string]spatev1.TagCounters{"other": {}, "10": {Packets: 7, Bytes: 448, Missing: 2, SequenceGaps: 1, OutOfOrder: 3}, "2-9": {}, "100/5": {Packets: 3, Bytes: 192, Duplicates: 1}, "untagged": {}}}},
		Templates: map[string]spatev1.TemplateResult{"web": {Client: client, Server: server}}, Flows: &all, Groups: map[string]spatev1.GroupResult{"sites": group},
		Receivers: map[string]spatev1.ReceiverResult{"tap": {Packets: 7, Bytes: 448}},
		Routing: &spatev1.RoutingResult{Sessions: map[string]spatev1.SessionResult{
			"east/dut": {Up: true, Configured: 1000, Sent: 1000, Received: 3, UpdatesReceived: 7}, "east/core": {Flaps: 2, Configured: 10, Sent: 9, UpdatesSent: 20},
		}},
		Records: &spatev1.RecordsResult{Pods: []spatev1.PodRecords{
			{Pod: "lab-0", File: "results/web-1-0.parquet", RecordCounters: spatev1.RecordCounters{Written: 150, Omitted: 3, Dropped: 2}},
			{Pod: "lab-1", File: "results/web-1-1.parquet", Problem: "no space left on device"},
		}},
	}
	return run
}

func TestResultsAsTables(t *testing.T) {
	var out bytes.Buffer
	if err := writeResult(&out, ended(), false); err != nil {
		t.Fatal(err)
	}
	want := `Run web-1a2b3-1 of profile web: Complete
Failed: threshold fast: 7 is not less than 5 (ThresholdMissed)

THRESHOLD    MET  VALUES
none-failed  yes  holds
fast         NO   7 is not less than 5

STREAM  TX    RX    LOST  LOSS RATIO  DUPLICATES  OUT OF ORDER  LATE  TX DROPPED  P50    P99  MAX
probe   4000  3999  1     0.00025     0           0             0     0           900ns  5µs  70µs

TEMPLATE   SIDE    ATTEMPTED  THROTTLED  ESTABLISHED  CLOSED  FAILED  RESET  TIMED OUT  CLOSED EARLY  HTTP ERRORS  ABORTED  IDLE TIMEOUTS  OPEN  BYTES SENT  BYTES RECEIVED  RETRANSMITTED
web        client  100        7          99           98      1       0      1          0             0            0        0              2     1234        99000           0
web        server  99         0          99           99      0       0      0          0             0            0        0              0     0           0               0
all, once          100        7          99           98      1       0      1          0             0            0        0              2     1234        99000           0

GROUP  SIDE    ATTEMPTED  THROTTLED  ESTABLISHED  CLOSED  FAILED  RESET  TIMED OUT  CLOSED EARLY  HTTP ERRORS  ABORTED  IDLE TIMEOUTS  OPEN  BYTES SENT  BYTES RECEIVED  RETRANSMITTED
sites  client  100        7          99           98      1       0      1          0             0            0        0              2     1234        99000           0

TIMES OF  SIDE    CONNECT P50  P99    MAX   ROUND TRIP P50  P99  MAX
web       client  31.53µs      1.2ms  2.5s  -               -    -

TIMES OF GROUP  SIDE    CONNECT MEAN  MAX   ROUND TRIP MEAN  MAX
sites           client  45µs          2.5s  -                -

OUTAGE OF  SIDE    LONGEST     BEGAN AT
probe      -       12.3ms      2026-01-02T03:04:05.678Z
web        server  2ms to 5ms  -

BY TAG OF  VLAN      PACKETS  BYTES  MISSING  GAPS  DUPLICATES  OUT OF ORDER
probe      2-9       0        0      0        0     0           0
probe      10        7        448    2        1     0           3
probe      100/5     3        192    0        0     1           0
probe      untagged  0        0      0        0     0           0
probe      other     0        0      0        0     0           0

THE GENERATOR'S OWN  LATE  NOT STARTED  EXHAUSTED
flows                5     0            0

RECEIVER  PACKETS  BYTES
tap       7        448

ROUTES OF SESSION  UP   FLAPS  CONFIGURED  SENT  RECEIVED  UPDATES SENT  UPDATES RECEIVED
east/core          NO   2      10          9     0         20            0
east/dut           yes  0      1000        1000  3         0             7

RECORDS OF POD  FILE                     WRITTEN  OMITTED  DROPPED  PROBLEM
lab-0           results/web-1-0.parquet  150      3        2        -
lab-1           results/web-1-1.parquet  0        0        0        no space left on device
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	live := ended()
	live.Status.Result.Records.Pods = []spatev1.PodRecords{{Pod: "lab-0", RecordCounters: spatev1.RecordCounters{Delivered: 150, Undelivered: 3}}, {Pod: "lab-1", RecordCounters: spatev1.RecordCounters{Dropped: 2}}}
	want, _, _ = strings.Cut(want, "RECORDS OF POD")
	want += `LIVE RECORDS OF POD  DELIVERED  UNDELIVERED  DROPPED
lab-0                150        3            0
lab-1                0          0            2
`
	out.Reset()
	if err := writeResult(&out, live, false); err != nil || out.String() != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, out.String(), want)
	}
	out.Reset()
	without := ended()
	without.Status.LostPods = []spatev1.LostPod{
		{Name: "lab-1", LostTime: metav1.Unix(1000, 0), Message: "pod lab-1 is being deleted", LastCounters: &spatev1.PodCounters{Tx: 70, Rx: 60, FlowsEstablished: 5}},
		{Name: "lab-2", LostTime: metav1.Unix(1001, 0), Message: "pod lab-2 no longer exists"},
	}
	lost := `LOST POD (NOT IN WHAT FOLLOWS)  AT                    LAST SEEN TX  RX  FLOWS  HOW
lab-1                           1970-01-01T00:16:40Z  70            60  5      pod lab-1 is being deleted
lab-2                           1970-01-01T00:16:41Z  -             -   -      pod lab-2 no longer exists

STREAM  TX    RX    LOST     LOSS RATIO  DUPLICATES  OUT OF ORDER  LATE  TX DROPPED  P50    P99  MAX
probe   4000  3999  unknown  -           0           0             0     0           900ns  5µs  70µs
`
	if err := writeResult(&out, without, false); err != nil || !strings.Contains(out.String(), lost) {
		t.Errorf("got %v\n%s\nwant\n%s", err, out.String(), lost)
	}
	out.Reset()
	own := ended()
	own.Spec = spatev1.TrafficRunSpec{Profile: &spatev1.TrafficDefinition{}}
	if err := writeResult(&out, own, false); err != nil || !strings.HasPrefix(out.String(), "Run web-1a2b3-1 of profile web-1a2b3-1: Complete\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	if err := writeResult(&out, plugintest.RunNamed("new", "web", time.Unix(0, 0)), false); err != nil || !strings.Contains(out.String(), "Nothing was measured yet.") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestWhetherDelaysByTwoClocksAreReportedIsShown(t *testing.T) {
	run := ended()
	run.Status.Result.Streams = map[string]spatev1.StreamResult{
		"far":  {Latency: &spatev1.Latency{Count: 1, P50: 900_000, ClockBound: 50_000}},
		"near": {Latency: &spatev1.Latency{OneWayUnknown: true, ClockBound: 250_000, Message: "the clocks of the pods may differ by 250us"}},
		"own":  {Latency: &spatev1.Latency{Count: 1, P50: 900}},
	}
	var out bytes.Buffer
	want := `
DELAYS BY TWO CLOCKS OF  CLOCK BOUND  REPORTED
far                      50µs         yes
near                     250µs        no: the clocks of the pods may differ by 250us

`
	if err := writeResult(&out, run, false); err != nil || !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestResultsForPrograms(t *testing.T) {
	for form, unmarshal := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": func(text []byte, into any) error { return yaml.Unmarshal(text, into) }} {
		var out bytes.Buffer
		if err := chosen(form).Write(&out, Shown(ended())); err != nil {
			t.Fatal(err)
		}
		var read Document
		if err := unmarshal(out.Bytes(), &read); err != nil {
			t.Fatal(err)
		}
		if isJSON := strings.HasPrefix(out.String(), "{"); isJSON != (form == "json") || read.Name != "web-1a2b3-1" || read.Profile != "web" || read.Verdict.Outcome != spatev1.VerdictFailed || read.Result.Flows.Established != 99 {
			t.Errorf("%s: got %s", form, out.String())
		}
	}
	var out bytes.Buffer
	if err := chosen("csv").Write(&out, Shown(ended())); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || !slices.Equal(rows[0], []string{"run", "profile", "phase", "outcome", "metric", "unit", "value"}) {
		t.Fatalf("%q %v", rows, err)
	}
	for _, want := range [][]string{{"web-1a2b3-1", "web", "Complete", "Failed", "flows.established", "", "99"}, {"web-1a2b3-1", "web", "Complete", "Failed", "duration", "ns", strconv.FormatInt(int64(ended().Status.Result.Duration), 10)}} {
		if !slices.ContainsFunc(rows, func(row []string) bool { return slices.Equal(row, want) }) {
			t.Errorf("no row %q in %q", want, rows)
		}
	}
	waiting := ended()
	waiting.Status.Result, waiting.Status.Verdict, waiting.Status.Phase = nil, nil, spatev1.RunPending
	if rows := Rows([]Document{Of(waiting)}); len(rows) != 1 || rows[0].Metric != "" || rows[0].Value != nil || rows[0].Phase != spatev1.RunPending {
		t.Errorf("%+v", rows)
	}
}

// chosen is the flag -o with a value.
func chosen(form string) *output.Flag {
	var f output.Flag
	f.Choose(form)
	return &f
}

func TestAWideResultHasRatesAndAllPercentiles(t *testing.T) {
	run := ended()
	run.Status.Result = &spatev1.RunResult{Duration: 2_000_000_000, Streams: map[string]spatev1.StreamResult{"voice": {
		StreamCounters: spatev1.StreamCounters{Tx: 2000, Rx: 1000, TxBytes: 128_000, RxBytes: 64_000, Lost: 1000, LossRatio: "0.5"},
		Latency:        &spatev1.Latency{Count: 1000, Min: 1000, Mean: 2000, P50: 3000, P90: 4000, P95: 5000, P99: 6000, P999: 7000, P9999: 8000, Max: 9000, Deviation: 100, Jitter: 200},
	}}}
	var out bytes.Buffer
	if err := chosen("wide").Write(&out, Shown(run)); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"STREAM TX RX LOST LOSS RATIO DUPLICATES OUT OF ORDER LATE TX DROPPED P50 P99 MAX TX PPS RX PPS TX BPS RX BPS MIN MEAN P90 P95 P99.9 P99.99 DEVIATION JITTER",
		"voice 2000 1000 1000 0.5 0 0 0 0 3µs 6µs 9µs 1000 500 512000 256000 1µs 2µs 4µs 5µs 7µs 8µs 100ns 200ns",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestTheBaselineIsNamed(t *testing.T) {
	run := ended()
	run.Status.Resolved = &spatev1.ResolvedRun{Baseline: &spatev1.BaselineSnapshot{
		Name: "web-1a2b3-0", UID: "before-uid", Profile: "web", CompletionTime: metav1.NewTime(time.Unix(1_700_000_000, 0)), Outcome: spatev1.VerdictPassed,
	}}
	var table, document bytes.Buffer
	if err := errors.Join(Show(t.Context(), &table, nil, run, chosen("")), Show(t.Context(), &document, nil, run, chosen("json"))); err != nil {
		t.Fatal(err)
	}
	if want := "\nBaseline: run web-1a2b3-0 of profile web, which ended at 2023-11-14T22:13:20Z (Passed)\n"; !strings.Contains(table.String(), want) {
		t.Errorf("%s\nwant %s", table.String(), want)
	}
	var got Document
	if err := json.Unmarshal(document.Bytes(), &got); err != nil || got.Baseline == nil || got.Baseline.UID != "before-uid" {
		t.Errorf("%v\n%s", err, document.String())
	}
}

func TestOfALargeResultTheWholeIsShown(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(spatev1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	run := ended()
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(run).Build()
	whole := run.Status.Result.DeepCopy()
	whole.Streams["second"] = spatev1.StreamResult{}
	details, err := storage.SaveResult(t.Context(), c, run, whole)
	if err != nil {
		t.Fatal(err)
	}
	details.Truncated = []spatev1.TruncatedList{{List: "streams", Kept: 1, Total: 2}}
	run.Status.Result.Details = details
	for _, form := range []string{"", "json"} {
		var out bytes.Buffer
		if err := Show(t.Context(), &out, c, run.DeepCopy(), chosen(form)); err != nil || !strings.Contains(out.String(), "second") {
			t.Errorf("%v\n%s", err, out.String())
		}
		out.Reset()
		nothing := fake.NewClientBuilder().WithScheme(scheme).Build()
		err := Show(t.Context(), &out, nothing, run.DeepCopy(), chosen(form))
		if err == nil || !strings.Contains(err.Error(), "shown is what the status has, 1 of 2 streams: ConfigMap web-1a2b3-1-result-0 with the run's result is gone") || !strings.Contains(out.String(), "probe") {
			t.Errorf("%v\n%s", err, out.String())
		}
	}
}
