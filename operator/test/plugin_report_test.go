// SPDX-License-Identifier: Apache-2.0

package test

// A run has a report in every format, with its samples over time, and is compared with another one. The engines are simulated.

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestThePluginReportsAndComparesRuns(t *testing.T) {
	t.Parallel()
	ns := simulatedReady(t, startSimulatedNode(t), loopbackGenerator)
	editor, viewer := userOf(t, ns, "spate-editor"), userOf(t, ns, "spate-viewer")
	mayReadConfigMaps(t, ns, "spate-editor")
	mustApply(t, ns, loopbackProfile("sampled", lenient+"  duration: 3s\n  runPolicy: Manual\n  thresholds: [{name: no-loss, expression: result.lost == 0}]\n"))
	ran := executedWith(t, ns, editor, "", "run", "sampled", "--wait", "-o", "json")
	again := executedWith(t, ns, editor, "", "run", "sampled", "--set", "rate=2x", "--wait", "-o", "json")
	var first, second struct{ Runs []struct{ Name string } }
	if err := json.Unmarshal([]byte(ran.output), &first); err != nil || ran.code != 0 || len(first.Runs) != 1 {
		t.Fatalf("%v %+v", err, ran)
	}
	if err := json.Unmarshal([]byte(again.output), &second); err != nil || again.code != 0 || len(second.Runs) != 1 {
		t.Fatalf("%v %+v", err, again)
	}
	name, other := first.Runs[0].Name, second.Runs[0].Name
	r := &spatev1.TrafficRun{}
	must(t, cluster.kube.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, r))

	t.Run("samples beside the run", func(t *testing.T) {
		kept := &corev1.ConfigMap{}
		must(t, cluster.kube.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name + "-samples-0"}, kept))
		if !metav1.IsControlledBy(kept, r) {
			t.Errorf("%+v", kept.OwnerReferences)
		}
	})
	t.Run("html", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "report.html")
		if done := executedWith(t, ns, editor, "", "report", name, "--output-file", file); done.code != 0 || done.output != "" {
			t.Fatalf("%+v", done)
		}
		text, err := os.ReadFile(file)
		must(t, err)
		for _, want := range []string{"<!DOCTYPE html>", `<span class="outcome passed">Passed</span>`, "result.lost == 0 holds", "Packet rate", "<polyline", "small", "kind: TrafficProfile", "kubectl spate run sampled -n " + ns + " --wait", "loop-0"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("no %q in %d bytes", want, len(text))
			}
		}
	})
	t.Run("csv", func(t *testing.T) {
		rows, err := csv.NewReader(strings.NewReader(executedWith(t, ns, editor, "", "report", name, "-o", "csv").output)).ReadAll()
		must(t, err)
		tx, at, sampled, before := slices.Index(rows[0], "tx"), int64(-1), 0, int64(0)
		for _, row := range rows {
			if row[0] != "sample" {
				continue
			}
			time, err := strconv.ParseInt(row[2], 10, 64)
			must(t, err)
			value, err := strconv.ParseInt(row[tx], 10, 64)
			must(t, err)
			if time <= at || value < before {
				t.Errorf("%d packets at %d, after %d at %d", value, time, before, at)
			}
			sampled, at, before = sampled+1, time, value
		}
		// One a second, and the last when the run has drained.
		if last := rows[len(rows)-1]; sampled < 3 || before != 3000 || last[0] != "total" || last[tx] != "3000" {
			t.Errorf("%d samples, the last of %d packets; %v", sampled, before, last)
		}
	})
	t.Run("md and junit", func(t *testing.T) {
		if done := executedWith(t, ns, editor, "", "report", "sampled", "-o", "md"); done.code != 0 || !strings.HasPrefix(done.output, "# Run "+other+": Passed\n") || !strings.Contains(done.output, "| small | 6000 | 6000 | 0 |") {
			t.Errorf("%+v", done)
		}
		var suites struct {
			Suites []struct {
				Name  string `xml:"name,attr"`
				Tests int    `xml:"tests,attr"`
			} `xml:"testsuite"`
		}
		must(t, xml.Unmarshal([]byte(executedWith(t, ns, editor, "", "report", name, "-o", "junit").output), &suites))
		if len(suites.Suites) != 1 || suites.Suites[0].Name != ns+"/"+name || suites.Suites[0].Tests != 2 {
			t.Errorf("%+v", suites)
		}
	})
	t.Run("without the right to get ConfigMaps", func(t *testing.T) {
		if done := executedWith(t, ns, viewer, "", "report", name); done.code != 0 || !strings.Contains(done.output, "There are no values over time: the samples of the run cannot be read: ") || !strings.Contains(done.output, "forbidden") {
			t.Errorf("%d %s", done.code, done.said)
		}
	})
	t.Run("of a run without samples", func(t *testing.T) {
		must(t, cluster.kube.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: other + "-samples-0"}}))
		if done := executedWith(t, ns, editor, "", "report", other); done.code != 0 || !strings.Contains(done.output, "the run has no samples") || strings.Contains(done.output, "Packet rate") {
			t.Errorf("%d %s", done.code, done.said)
		}
	})
	t.Run("compared", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			code int
			want []string
		}{
			{nil, 0, []string{"First: run " + name + " of profile sampled: Passed", "streams.small.rx ", "+3000", "+100.00%", "Whether differences are more than chance is not known: the samples of run " + name + " cannot be read: "}},
			{[]string{"--fail-on", "lost>0", "--fail-on", "streams.*.rx<0%"}, 0, []string{"FAIL ON", "lost>0"}},
			{[]string{"--fail-on", "lost>0", "--fail-on", "rx>5%"}, 1, []string{"YES", `error: --fail-on "rx>5%" holds: rx is 3000, then 6000: +3000 (+100.00%)`}},
			{[]string{"--fail-on", "latency.p99>5%"}, 2, []string{"there is no metric latency.p99"}},
			{[]string{"--fail-on", "rx=5"}, 2, []string{`error: --fail-on "rx=5": must be a metric, > or <, and an amount`}},
			{[]string{"--failon", "rx>5"}, 2, []string{"unknown flag: --failon"}},
		} {
			done := executedWith(t, ns, viewer, "", append([]string{"compare", name, other}, c.args...)...)
			for _, word := range c.want {
				if !strings.Contains(done.output+done.said, word) {
					t.Errorf("%v: no %q", c.args, word)
				}
			}
			if done.code != c.code {
				t.Errorf("%v: exits with %d, not %d", c.args, done.code, c.code)
			}
		}
		if done := executedWith(t, ns, viewer, "", "compare", name, "none"); done.code != 3 {
			t.Errorf("%+v", done)
		}
		var read struct {
			Differences []struct {
				Metric string
				Change float64
			}
		}
		done := executedWith(t, ns, viewer, "", "compare", name, other, "-o", "json")
		must(t, json.Unmarshal([]byte(done.output), &read))
		if at := slices.IndexFunc(read.Differences, func(d struct {
			Metric string
			Change float64
		}) bool {
			return d.Metric == "streams.small.rx"
		}); at < 0 || read.Differences[at].Change != 3000 {
			t.Errorf("%s", done.output)
		}
	})
}
