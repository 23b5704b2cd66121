// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/runs/storage"
)

// runOf is a run whose streams have sent and received numbers of packets in 10 s, with a 99th percentile in nanoseconds.
func runOf(name string, streams map[string][3]int64) *spatev1.TrafficRun {
	run := plugintest.RunNamed(name, "imix", time.Unix(1000, 0))
	run.Status.Phase, run.Status.Verdict = spatev1.RunComplete, &spatev1.Verdict{Outcome: spatev1.VerdictPassed}
	r := &spatev1.RunResult{Duration: 10e9, Streams: map[string]spatev1.StreamResult{}, StreamCounters: spatev1.StreamCounters{LossRatio: "0"}}
	for name, s := range streams {
		c := spatev1.StreamCounters{Tx: s[0], TxBytes: 100 * s[0], Rx: s[1], RxBytes: 100 * s[1], Lost: s[0] - s[1], LossRatio: "0"}
		r.Streams[name] = spatev1.StreamResult{StreamCounters: c, Latency: &spatev1.Latency{Count: s[1], Min: 10, Mean: spatev1.MeasuredTime(s[2] / 2), P99: spatev1.MeasuredTime(s[2]), Max: spatev1.MeasuredTime(2 * s[2])}}
		r.Tx, r.Rx, r.Lost = r.Tx+c.Tx, r.Rx+c.Rx, r.Lost+c.Lost
	}
	run.Status.Result = r
	return run
}

func pair() (first, second *spatev1.TrafficRun) {
	first = runOf("imix-1", map[string][3]int64{"voice": {1000, 1000, 20_000}, "data": {9000, 9000, 40_000}, "old": {10, 10, 5000}})
	second = runOf("imix-2", map[string][3]int64{"voice": {1000, 990, 21_000}, "data": {9000, 9000, 40_000}, "new": {10, 10, 5000}})
	return first, second
}

// A condition holds if the change is beyond its amount, not if it is equal.
func TestConditionsAreExact(t *testing.T) {
	for text, want := range map[string]bool{
		"streams.voice.latency.p99>5%": false, "streams.voice.latency.p99>4.999999999%": true, "streams.voice.latency.p99 > 1us": false, "streams.voice.latency.p99>999ns": true, "streams.voice.latency.p99>0": true,
		"latency.p99>0%": false, "latency.p99<0%": false, "latency.max>-1ns": true, "lost>9": true, "lost>10": false, "lost>1000000%": true, "rx<-9": true, "rx<-10": false, "rxPps<-0.09%": true, "rxPps<-1%": false, "rxPps<-0.9": true,
		"streams.*.rx<-1": true, "streams.*.rx<-10": false, "streams.*.latency.p99>2%": true, "tx>0": false, "tx<+1": true, "duplicates>0%": false, "lossRatio>0": false,
	} {
		first, second := pair()
		c, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		err = compare(first, second).judge([]condition{c})
		if (err != nil) != want || want && (exit.Code(err) != exit.Failed || !strings.HasPrefix(err.Error(), `--fail-on "`+text+`" holds: `)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestConditionsThatAreNotValidNameTheFlagAndTheRemedy(t *testing.T) {
	for _, text := range []string{"", "latency.p99", "latency.p99>", ">5%", "latency.p99>=5%", "latency.p99>5 percent", "latency..p99>5%", "latency.p99>1e3", "latency.p99>.5%", "latency.p99>5%;", "a b>5", "voi*.rx>1"} {
		if _, err := parse(text); err == nil || !strings.HasPrefix(err.Error(), `--fail-on "`) || !strings.Contains(err.Error(), "'latency.p99>5%'") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := parseAll([]string{"lost>0", "x", "y"}); err == nil || strings.Count(err.Error(), "--fail-on") != 2 {
		t.Errorf("%v", err)
	}
}

func TestConditionsThatCannotBeJudgedAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		"latency.p97>5%": "there is no metric latency.p97", "streams.old.rx>1": "both runs must have measured it", "flows.failed>0": "both runs must have measured it", "lost>5us": "the metric is no time", "latency.p99>5": "a time such as 10us",
	} {
		first, second := pair()
		all, err := parseAll([]string{"lost>0", text})
		if err != nil {
			t.Fatal(err)
		}
		if err := compare(first, second).judge(all); exit.Code(err) != exit.Invalid || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"lost>0" holds`) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestRunsOfDifferentShapesAreComparedInWhatTheyHaveInCommon(t *testing.T) {
	first, second := pair()
	client := &spatev1.TemplateSide{FlowCounters: spatev1.FlowCounters{Attempted: 100, Established: 100}}
	second.Status.Result.Templates = map[string]spatev1.TemplateResult{"web": {Client: client}}
	second.Status.Result.Flows = &client.FlowCounters
	d := compare(first, second)
	if !slices.Equal(d.OnlyInFirst, []string{"streams.old"}) || !slices.Equal(d.OnlyInSecond, []string{"streams.new", "templates.web.client"}) {
		t.Errorf("%v, %v", d.OnlyInFirst, d.OnlyInSecond)
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		First, Second struct{ Name, Outcome string }
		Differences   []struct {
			Metric, Unit          string
			First, Second, Change float64
			RelativePercent       *float64
		}
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, diff := range read.Differences {
		seen[diff.Metric] = true
		switch diff.Metric {
		case "streams.voice.rxPps":
			if diff.First != 100 || diff.Second != 99 || diff.Change != -1 || diff.RelativePercent == nil || *diff.RelativePercent != -1 || diff.Unit != "/s" {
				t.Errorf("%+v", diff)
			}
		case "streams.voice.lost":
			if diff.Change != 10 || diff.RelativePercent != nil {
				t.Errorf("%+v", diff)
			}
		case "latency.count":
			if diff.First != 10_010 || diff.Second != 10_000 {
				t.Errorf("%+v", diff)
			}
		case "latency.mean": // (1000*10000 + 9000*20000 + 10*2500)/10010
			if diff.First != 18983 || diff.Unit != "ns" {
				t.Errorf("%+v", diff)
			}
		}
	}
	if !seen["streams.voice.rxPps"] || !seen["streams.voice.lost"] || !seen["latency.count"] || !seen["latency.mean"] || seen["streams.old.rx"] || seen["flows.failed"] || read.Second.Name != "imix-2" || read.First.Outcome != "Passed" {
		t.Errorf("%v", seen)
	}
}

// A run is compared with its baseline as that was, whether or not it still exists.
func TestASingleRunIsComparedWithItsBaseline(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(spatev1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	before, run := pair()
	if _, err := baselineOf(t.Context(), nil, run); err == nil || err.Error() != "run imix-2 has no baseline: name the run to compare it with" {
		t.Error(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(run).Build()
	before.Status.CompletionTime, before.Status.Resolved = &metav1.Time{Time: time.Unix(2000, 0)}, &spatev1.ResolvedRun{Profile: spatev1.ProfileSnapshot{Name: "imix"}}
	kept, err := storage.SaveBaseline(t.Context(), c, run, before, before.Status.Result)
	if err != nil {
		t.Fatal(err)
	}
	run.Status.Resolved = &spatev1.ResolvedRun{Baseline: kept}
	first, err := baselineOf(t.Context(), c, run)
	if err != nil {
		t.Fatal(err)
	}
	var out, want bytes.Buffer
	if err := errors.Join(compare(first.run, run).write(&out, false), compare(before, run).write(&want, false)); err != nil || out.String() != want.String() {
		t.Errorf("%v\ngot\n%s\nwant\n%s", err, out.String(), want.String())
	}
}

func TestDifferencesAsTables(t *testing.T) {
	first, second := pair()
	d := compare(first, second)
	all, err := parseAll([]string{"streams.*.latency.p99>4%", "lost<0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.judge(all); err == nil {
		t.Error("no condition holds")
	}
	var out bytes.Buffer
	if err := d.write(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"First: run imix-1 of profile imix: Passed", "Second: run imix-2 of profile imix: Passed", "METRIC FIRST SECOND CHANGE RELATIVE", "lost 0 10 +10 from 0", "streams.voice.rxPps 100 99 -1 -1.00%",
		"streams.voice.latency.p99 20us 21us +1us +5.00%", "Only in run imix-1: streams.old", "Only in run imix-2: streams.new", "FAIL ON METRIC HOLDS VALUES",
		"streams.*.latency.p99>4% streams.data.latency.p99 no 40us, then 40us: 0s (0.00%)", "streams.*.latency.p99>4% streams.voice.latency.p99 YES 20us, then 21us: +1us (+5.00%)", "lost<0 lost no 0, then 10: +10 (from 0)",
	} {
		found := false
		for line := range strings.Lines(out.String()) {
			found = found || strings.Join(strings.Fields(line), " ") == want
		}
		if !found {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "duplicates") {
		t.Errorf("what is 0 in both is omitted:\n%s", out.String())
	}
	out.Reset()
	if err := d.write(&out, true); err != nil || !strings.Contains(out.String(), "\nduplicates ") {
		t.Errorf("%v: what is 0 in both is in wide tables:\n%s", err, out.String())
	}
	out.Reset()
	var form output.Flag
	form.Choose(output.CSV)
	if err := form.Write(&out, d.shown()); err != nil || !strings.HasPrefix(out.String(), "metric,unit,first,second,change,relativePercent\nduration,ns,10000000000,10000000000,0,0\n") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestArchivedRunsAreComparedWithoutACluster(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	folders := map[string]string{}
	for name, rate := range map[string]int64{"imix-1": 1000, "imix-2": 1100} {
		s := sampledRun(name, rate, 20_000)
		s.run.UID = types.UID("00000000-0000-4000-8000-00000000000" + strings.TrimPrefix(name, "imix-"))
		encoded, err := s.samples.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := archive.Save(t.Context(), archive.Directory(root), s.run, encoded); err != nil {
			t.Fatal(err)
		}
		folders[name] = filepath.Join(root, filepath.FromSlash(archive.Folder(s.run)))
	}
	for _, c := range []struct {
		args []string
		code int
		want string // part of the output or of the error
	}{
		{[]string{"imix-1", "imix-2", "--from", root, "--other-from", root}, 0, "streams.voice.txPps"},
		{[]string{"--from", folders["imix-1"], "--other-from", folders["imix-2"]}, 0, "Second: run imix-2 of profile imix"},
		{[]string{"imix-1", "imix-2", "--from", root, "--other-from", folders["imix-2"], "--fail-on", "txPps>5%"}, 1, `--fail-on "txPps>5%" holds: txPps is 1000, then 1100`},
		{[]string{"imix-1", "imix-3", "--from", root, "--other-from", root}, 3, `--other-from ` + root + `: the archive has no run "imix-3"`},
		{[]string{"--from", root, "--other-from", root}, 3, "it is not the folder of one run: name a RUN"},
		{[]string{"imix-2", "--other-from", root}, 3, "--other-from reads the second of two runs: name the first one, too; an archive has no copies of baselines"},
		{[]string{"imix-2", "--from", root}, 3, "--from reads the first of two runs: name the other one, too"},
		{[]string{"--from", root}, 3, "name two runs, or one that has a baseline"},
		{nil, 3, "name two runs, or one that has a baseline"},
		{[]string{"imix-1", "imix-2", "--from", root, "--other-from", root, "--endpoint", "https://s3.example"}, 3, "--endpoint has no effect"},
	} {
		out, _, err := plugintest.Run("", append([]string{"compare", "-n", "tests", "--kubeconfig", os.DevNull}, c.args...), NewCommand())
		said := out
		if err != nil {
			said += err.Error()
		}
		if exit.Code(err) != c.code || !strings.Contains(said, c.want) || c.code <= exit.Failed && !strings.Contains(out, " <0.0001  yes") {
			t.Errorf("%q: exits with %d, want %d and %q:\n%s", c.args, exit.Code(err), c.code, c.want, said)
		}
	}
}
