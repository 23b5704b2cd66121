// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/junit"
)

// run runs `search` with arguments.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := NewCommand()
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

const sample = "../../../../config/samples/trafficsearch.yaml"

func TestTheSampleIsSimulated(t *testing.T) {
	out, err := run(t, "simulate", "-f", sample, "--device", "capacity=1Mpps", "--max", "14.88Mpps")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"(Throughput): 14880000.000 pps for 1s", "Throughput (RFC 2544 section 26.1, RFC 9971)", "all     ndr   99", "Found", "Frame loss (RFC 2544 section 26.3)",
		"Deviates from RFC 2544: goal pdr accepts a loss ratio of 0.5%",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestWhatCannotBeSimulatedIsRefused(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(wrong, bytes.Replace(text, []byte("0.5%"), []byte("half"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{sample, "--device", "capacity=1Mpps"}, `spec.load.max is "100%/port": which rate that is depends on the generator; set it with --max`},
		{[]string{sample, "--device", "buffer=5", "--max", "1Mpps"}, "capacity is missing"},
		{[]string{sample, "--device", "speed=1", "--max", "1Mpps"}, "must be capacity=RATE"},
		{[]string{sample, "--device", "capacity=1Mpps", "--max", "500pps"}, "spec: "},
		{[]string{wrong, "--device", "capacity=1Mpps", "--max", "1Mpps"}, "must be a share from 0% to 100%"},
		{[]string{"../../../../config/samples/imix.yaml", "--device", "capacity=1Mpps"}, "the files have 0 TrafficSearches"},
		{[]string{"--device", "capacity=1Mpps"}, "no files: name at least one FILE"},
		{[]string{"nonesuch.yaml", "--device", "capacity=1Mpps"}, "no such file"},
	} {
		if out, err := run(t, append([]string{"simulate"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q\n%s", c.args, err, c.want, out)
		}
	}
}

// ended is a search of two variants.
func ended() *spatev1.TrafficSearch {
	s := &spatev1.TrafficSearch{}
	s.Namespace, s.Name, s.Spec.ProfileRef.Name = "lab", "router", "forwarding"
	s.Spec.Load = spatev1.SearchLoad{Min: "1kpps", Max: "100%/port"}
	s.Spec.Throughput = &spatev1.ThroughputTest{Goals: []spatev1.SearchGoal{{Name: "ndr", Standard: spatev1.GoalRFC2544}}}
	s.Status.Phase, s.Status.Outcome, s.Status.Progress = spatev1.SearchComplete, spatev1.VerdictFailed, "2/2 variants done"
	s.Status.Variants = []spatev1.SearchVariant{
		{
			Name: "64", MaxLoad: "14880952.38", Trials: 7, Spent: 138500000000, Outcome: spatev1.VerdictPassed,
			Result: spatev1.SearchResult{
				Goals:      []spatev1.GoalResult{{Name: "ndr", Reason: "Found", Regular: true, Lower: "999392.19624", Upper: "1004412.154", Throughput: "999392.19624"}},
				Latency:    []spatev1.LatencyResult{{Percent: 50, Load: "499696.09812", Mean: 20000, Typical: 19000, WorstCase: 90000, DelayVariation: 80000}},
				FrameLoss:  []spatev1.FrameLossResult{{Percent: "100", Load: "14880952.38", LossRatio: "0.93"}},
				BackToBack: &spatev1.BackToBackResult{Frames: "666.5", BufferTime: 16650000, CorrectedBufferTime: 12500000},
			},
		},
		{Name: "1518", Trials: 2, Outcome: spatev1.VerdictFailed, Message: "goal ndr: MaxLoadPasses", Result: spatev1.SearchResult{Goals: []spatev1.GoalResult{{Name: "ndr", Reason: "MaxLoadPasses", Lower: "812743"}}}},
	}
	return s
}

// judged is a search with repeats, thresholds and a requirement, in connections a second.
func judged() *spatev1.TrafficSearch {
	s := ended()
	s.Status.Outcome = spatev1.VerdictFailed
	s.Spec.Throughput.Goals[0].Require = []string{"trial.flows.failed == 0"}
	s.Spec.Thresholds = []spatev1.SearchThreshold{{Name: "fast"}, {Name: "steady", Message: "too much spread"}}
	s.Status.Thresholds = []spatev1.ThresholdResult{{Name: "fast", Met: true, Message: "lower is 999392"}, {Name: "steady", Message: "deviation is 15"}}
	v := &s.Status.Variants[0]
	v.Unit, v.Result.Goals[0].BoundedBy = spatev1.UnitConnections, "trial.flows.failed == 0"
	v.Spread = []spatev1.GoalSpread{{Name: "ndr", Count: 6, Min: "990000", Median: "999392.19624", Max: "1000000", Deviation: "15.5", MedianLow: "990000", MedianHigh: "1000000"}}
	return s
}

func TestReportsHaveRepeatsThresholdsAndRequirements(t *testing.T) {
	for format, wants := range map[string][]string{
		"table": {
			"64      ndr   999392.196  1004412.154  999392.196  6.72%   Found (by a requirement)", "64      ndr   6        990000.000  999392.196  1000000.000  15.500     990000.000 to 1000000.000",
			"fast    yes    lower is 999392", "steady  no     deviation is 15", "64: goal ndr is bounded by a requirement, not by loss: trial.flows.failed == 0",
			"Loads are in connections a second of all applications", "Goal ndr requires of each trial: trial.flows.failed == 0.",
		},
		"csv":  {"throughput,64,ndr.lower_cps,999392.19624\n", "throughput,64,ndr.bounded_by,trial.flows.failed == 0\n", "repeats,64,ndr.median_low,990000\n", "thresholds,,steady,false\n"},
		"json": {`"boundedBy": "trial.flows.failed == 0"`, `"deviation": "15.5"`, `"thresholds": [`},
		"junit": {
			`<testsuite name="lab/router" tests="4" failures="1" errors="0">`, `<testcase name="threshold fast"`, `<failure message="too much spread"></failure>`, `<system-out>deviation is 15</system-out>`,
			`<system-out>goal ndr: MaxLoadPasses</system-out>`,
		},
	} {
		var out bytes.Buffer
		if err := formats[format](&out, judged()); err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", format, want, out.String())
			}
		}
	}
	// Thresholds that were not evaluated are errors.
	s := judged()
	s.Status.Thresholds = nil
	var out bytes.Buffer
	if err := writeJUnit(&out, s); err != nil || !strings.Contains(out.String(), `failures="0" errors="2"`) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestReportsNameWhatOfARecoveryDeviates(t *testing.T) {
	for _, c := range []struct {
		test *spatev1.RecoveryTest
		want string
	}{
		{nil, ""},
		{&spatev1.RecoveryTest{}, ""},
		{&spatev1.RecoveryTest{Duration: "60s", Overload: "110%"}, ""},
		{&spatev1.RecoveryTest{Duration: "2s"}, "Deviates from RFC 2544: the overload before a recovery lasts 2s; section 26.5 has 60s."},
		{&spatev1.RecoveryTest{Overload: "120%"}, "Deviates from RFC 2544: the overload before a recovery is 120% of the throughput; section 26.5 has 110%."},
	} {
		s := ended()
		s.Spec.Recovery = c.test
		var got []string
		for _, line := range deviations(s) {
			if strings.Contains(line, "recovery") {
				got = append(got, line)
			}
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%+v: %q, want %q", c.test, got, c.want)
		}
	}
}

func TestASearchOfConnectionsIsSimulated(t *testing.T) {
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cps.yaml")
	if err := os.WriteFile(file, bytes.Replace(text, []byte("min: 1kpps, max: 100%/port"), []byte("min: 10cps, max: 1kcps"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "simulate", file, "--device", "capacity=300cps")
	if err != nil || !strings.Contains(out, "connections a second of all applications, from 10cps to 1kcps") || !strings.Contains(out, "all     ndr   298.894  300.395") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run(t, "simulate", file, "--device", "capacity=1Mpps"); err == nil || !strings.Contains(err.Error(), "must be in cps, as the loads of the search") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestASearchForOpenConnectionsIsSimulated(t *testing.T) {
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "open.yaml")
	if err := os.WriteFile(file, bytes.Replace(text, []byte("min: 1kpps, max: 100%/port"), []byte("vary: OpenConnections, min: 1kconn, max: 1Mconn, ramp: 30s"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "simulate", file, "--device", "capacity=250kconn")
	for _, want := range []string{
		"open connections of all applications, from 1kconn to 1Mconn", "opens its connections in 30s, holds them for its duration", "1000000.000 connections for 1s: 1000000 sent of 1000000, 250000 received", "all     ndr   249", "Found",
	} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q: %v\n%s", want, err, out)
		}
	}
}

func TestReportsHaveEveryFigure(t *testing.T) {
	for format, wants := range map[string][]string{
		"table": {
			"Search router of profile forwarding: Complete (Failed), 2/2 variants done, 9 trials in 2m19s", "64      ndr   999392.196  1004412.154  999392.196  6.72%   Found",
			"1518    ndr   812743.000  -            -           -       MaxLoadPasses (irregular)", "64      499696.098  50%            20us  19us     90us        80us",
			"64      100%    14880952.380  0.93", "64      666.5  16.65ms      12.5ms", "1518: goal ndr: MaxLoadPasses",
		},
		"md":    {"| 64 | ndr | 999392.196 |", "## Back-to-back frames (RFC 9004)", "- Goal ndr: RFC2544, width 0.5%."},
		"csv":   {"throughput,64,ndr.lower_pps,999392.19624\n", "latency,64,50%.worst_case_ns,90000\n", "back_to_back,64,corrected_buffer_time_ns,12500000\n"},
		"json":  {`"lower": "999392.19624"`, `"correctedBufferTime": "12.5ms"`, `"method": [`},
		"yaml":  {`lower: "999392.19624"`, "correctedBufferTime: 12.5ms", "method:\n- Loads are"},
		"junit": {`<testsuite name="lab/router" tests="2" failures="1" errors="0">`, `<failure message="goal ndr: MaxLoadPasses">`},
	} {
		var out bytes.Buffer
		if err := formats[format](&out, ended()); err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", format, want, out.String())
			}
		}
		if format == "junit" {
			if err := xml.Unmarshal(out.Bytes(), new(junit.Suite)); err != nil {
				t.Error(err)
			}
		}
	}
}
