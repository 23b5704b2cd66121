// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: are the metrics that engines and the operator serve those of docs/reference/metrics.md, do they keep the rules of Prometheus, and does the operator
// report a run?

import (
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	spatev1 "spate.dev/api/v1alpha1"
)

// series is a line of a page of metrics: the name, and the labels with their values.
var series = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? \S+$`)

// served are the labels of each metric of a page, and its type, by the name of the metric.
func served(t *testing.T, url string) map[string][2]string {
	t.Helper()
	response, err := http.Get(url)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	all, kind := map[string][2]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if declared, ok := strings.CutPrefix(line, "# TYPE spate_"); ok {
			_, kind, _ = strings.Cut(declared, " ")
		}
		match := series.FindStringSubmatch(line)
		if match == nil || !strings.HasPrefix(line, "spate_") {
			continue
		}
		var labels []string
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(match[2], -1) {
			if label[1] != "le" {
				labels = append(labels, label[1])
			}
		}
		slices.Sort(labels)
		name := match[1]
		if kind == "histogram" {
			name = name[:strings.LastIndexByte(name, '_')]
		}
		all[name] = [2]string{kind, strings.Join(labels, " ")}
	}
	return all
}

// referenced are the same of the reference.
func referenced(t *testing.T) map[string][2]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/metrics.md")
	must(t, err)
	all := map[string][2]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, " | "); len(cells) == 6 && strings.HasPrefix(line, "| `spate_") {
			labels := strings.Split(strings.ReplaceAll(cells[3], "`", ""), ", ")
			slices.Sort(labels)
			all[strings.Trim(cells[0], "| `")] = [2]string{cells[1], strings.Join(labels, " ")}
		}
	}
	return all
}

// linted returns what promlint, the linter of Prometheus, finds in our metrics of a page, each with its metric.
func linted(t *testing.T, url string) []string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	// In OpenMetrics the name of a counter has no suffix `_total`, which the linter would look for.
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	var families []*dto.MetricFamily
	for decoder := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header)); ; {
		family := &dto.MetricFamily{}
		err := decoder.Decode(family)
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if strings.HasPrefix(family.GetName(), "spate_") {
			families = append(families, family)
		}
	}
	if len(families) < 10 {
		t.Errorf("%s has only %d of our metrics", url, len(families))
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	must(t, err)
	var found []string
	for _, p := range problems {
		if problem := "| `" + p.Metric + "` | " + p.Text + " | "; !slices.Contains(found, problem) {
			found = append(found, problem)
		}
	}
	return found
}

const everyKindOfTraffic = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: all}
spec:
  generatorRef: {name: loop}
  traffic:
  - {name: small, stream: {ref: {name: small}}, transmitPort: loop, receivePort: loop}
  - {name: hello, application: {templateRef: {name: greeting}}, transmitPort: loop, receivePort: loop}
  receive: [{name: rest, port: loop}]
  duration: 8s
  drain: 1s
  generatorTolerance: {late: 100%, txDropped: 50%}
  thresholds: [{name: answered, expression: result.flows.established > 0}]
`

func TestWhatIsServedIsInTheReferenceOfMetrics(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, strings.Replace(loopbackStream, "measure: {flow: true}", "measure: {flow: true, latency: true}", 1))
	mustApply(t, ns, loopbackTemplate)
	mustApply(t, ns, everyKindOfTraffic)
	p := profileNamed(ns, "all")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	ofRun, o := `profile_namespace="`+ns+`"`, cluster.operator
	for metric, want := range map[string]float64{"spate_run_target_packets_per_second": 1600, "spate_run_target_connections_per_second": 100} {
		until(t, runLimit, "the operator reports what the run requests", func() (bool, string) {
			return o.metric(metric, ofRun, `profile="all"`, `generator="loop"`) == want, metric
		})
	}
	complete(t, runLimit, p)
	until(t, 10*time.Second, "the operator reports how the run has ended", func() (bool, string) {
		ended := o.metric("spate_run_completion_timestamp_seconds", ofRun, `outcome="Passed"`, `reason="ThresholdsMet"`)
		return ended > 1.7e9 && o.metric("spate_run_start_timestamp_seconds", ofRun) < ended && o.metric("spate_run_threshold_met", ofRun, `threshold="answered"`) == 1 &&
			o.metric("spate_run_target_packets_per_second", ofRun) == 0, "not all of it"
	})
	certificate := `certificate="loop.` + ns + `.engine.spate.dev"`
	if end := o.metric("spate_operator_certificate_expiry_timestamp_seconds", certificate); end < float64(time.Now().Unix()) {
		t.Errorf("the certificate of the engines ends at %v", end)
	}

	reference, seen := referenced(t), 0
	text, err := os.ReadFile("../../docs/reference/metrics.md")
	must(t, err)
	for _, url := range []string{"http://" + enginePods(t, ns)[0].Status.PodIP + ":7471/metrics", "http://" + o.metrics + "/metrics"} {
		for _, problem := range linted(t, url) {
			if !strings.Contains(string(text), "\n"+problem) {
				t.Errorf("promlint finds %s which is not among the exceptions of the reference", problem)
			}
		}
		for name, got := range served(t, url) {
			seen++
			want, there := reference[name]
			if !there && strings.HasPrefix(name, "spate_template_") {
				want, there = reference["spate_template_NAME_total"]
			}
			if !there || got != want {
				t.Errorf("%s is served as %q, the reference has %q", name, got, want)
			}
		}
	}
	if seen < 80 {
		t.Errorf("only %d metrics are served", seen)
	}

	must(t, cluster.kube.Delete(t.Context(), generatorNamed(ns, "loop")))
	until(t, runLimit, "a certificate that is gone is reported no more", func() (bool, string) {
		return o.metric("spate_operator_certificate_expiry_timestamp_seconds", certificate) == 0, "it still is"
	})
}
