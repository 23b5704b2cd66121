// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what does a real Prometheus that scrapes native histograms of a real engine make of them?

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

// scraping starts a Prometheus with a scrape configuration, and returns its URL. It need not be ready yet.
func scraping(t *testing.T, scrape string) string {
	t.Helper()
	binary := os.Getenv("SPATE_PROMETHEUS")
	if binary == "" {
		var err error
		if binary, err = exec.LookPath("prometheus"); err != nil {
			t.Skip("NO PROMETHEUS: install it, or set SPATE_PROMETHEUS to its path")
		}
	}
	folder, address := t.TempDir(), freeAddress()
	config := filepath.Join(folder, "prometheus.yml")
	must(t, os.WriteFile(config, []byte(scrape), 0o600))
	if said, err := exec.Command(binary, "--version").CombinedOutput(); err != nil || !strings.Contains(string(said), "version 3.") {
		t.Skipf("PROMETHEUS TOO OLD for scrape_native_histograms (before 3.8): set SPATE_PROMETHEUS to the path of another than %s", binary)
	}
	var said bytes.Buffer
	process := exec.Command(binary, "--config.file="+config, "--storage.tsdb.path="+folder, "--web.listen-address="+address)
	process.Stdout, process.Stderr = &said, &said
	must(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
		if t.Failed() {
			t.Logf("Prometheus: %s", said.String())
		}
	})
	return "http://" + address
}

// nativeHistogram is that of a series: its buckets have the kind of their bounds, the bounds and the count.
type nativeHistogram struct {
	Count   string
	Buckets [][4]any
}

// element is one of an instant vector.
type element struct {
	Metric    map[string]string
	Value     [2]any
	Histogram [2]json.RawMessage
}

func (a element) number() float64 {
	text, _ := a.Value[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return value
}

// query returns the instant vector of an expression; none while Prometheus does not answer.
func query(prometheus, expression string) ([]element, error) {
	response, err := http.Get(prometheus + "/api/v1/query?" + url.Values{"query": {expression}}.Encode())
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var got struct {
		Error string
		Data  struct{ Result []element }
	}
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		return nil, err
	}
	if got.Error != "" {
		return nil, fmt.Errorf("%s: %s", expression, got.Error)
	}
	return got.Data.Result, nil
}

// one is the only number of an expression.
func one(t *testing.T, prometheus, expression string) float64 {
	t.Helper()
	got, err := query(prometheus, expression)
	must(t, err)
	if len(got) != 1 {
		t.Fatalf("%s has %d results", expression, len(got))
	}
	return got[0].number()
}

func TestPrometheusHasQuantilesOfNativeHistogramsAndTheClassicOnes(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, strings.Replace(loopbackStream, "measure: {flow: true}", "measure: {flow: true, latency: true}", 1))
	mustApply(t, ns, loopbackTemplate)
	engine := enginePods(t, ns)[0].Status.PodIP + ":7471"
	prometheus := scraping(t, `
scrape_configs:
- {job_name: engines, scrape_interval: 1s, scrape_native_histograms: true, always_scrape_classic_histograms: true, static_configs: [{targets: ["`+engine+`"]}]}
`)
	mustApply(t, ns, strings.Replace(everyKindOfTraffic, "duration: 8s", "duration: 3s", 1))
	p := profileNamed(ns, "all")
	run := complete(t, runLimit, p)
	measured := run.Status.Result.Streams["small"].Latency
	if measured == nil {
		t.Fatalf("no latency: %+v", run.Status.Result)
	}
	of := `{profile_namespace="` + ns + `",stream="small"}`
	var native nativeHistogram
	until(t, runLimit, "Prometheus has the final native histogram", func() (bool, string) {
		got, err := query(prometheus, "spate_stream_latency_seconds"+of)
		if err != nil || len(got) != 1 || got[0].Histogram[1] == nil {
			return false, fmt.Sprintf("%v, %v", got, err)
		}
		native = nativeHistogram{}
		must(t, json.Unmarshal(got[0].Histogram[1], &native))
		return native.Count == strconv.FormatInt(run.Status.Result.Streams["small"].Rx, 10), native.Count
	})
	number := func(value any) float64 {
		parsed, err := strconv.ParseFloat(fmt.Sprint(value), 64)
		must(t, err)
		return parsed
	}
	sum, width := 0.0, 0.0
	for _, bucket := range native.Buckets {
		sum += number(bucket[3])
		if lower := number(bucket[1]); lower > 0 {
			width = max(width, number(bucket[2])/lower)
		}
	}
	if sum != number(native.Count) || width <= 1 || width > 1.1 {
		t.Errorf("%d buckets with %v of %s, each at most %.4f wide", len(native.Buckets), sum, native.Count, width)
	}
	for _, quantile := range []string{"0.5", "0.99"} {
		found := one(t, prometheus, "histogram_quantile("+quantile+", spate_stream_latency_seconds"+of+")")
		want := one(t, prometheus, "spate_stream_latency_quantile_seconds"+strings.Replace(of, "}", `,quantile="`+quantile+`"}`, 1))
		// The engine's are to a thousandth. A ratio that is no number is wrong, too.
		if ratio := max(found/want, want/found); !(ratio <= width*1.001) {
			t.Errorf("the quantile %s is %v by native buckets of a width of %.4f, the engine has %v", quantile, found, width, want)
		}
	}
	classic := strings.Replace(of, "{", "_bucket{", 1)
	if count := one(t, prometheus, "count(spate_stream_latency_seconds"+classic+")"); count != 23 {
		t.Errorf("%v classic buckets", count)
	}
	if all := one(t, prometheus, "spate_stream_latency_seconds"+strings.Replace(classic, "}", `,le="+Inf"}`, 1)); all != sum {
		t.Errorf("classic buckets have %v, native ones %v", all, sum)
	}
	client := `{profile_namespace="` + ns + `",role="client"}`
	connected := one(t, prometheus, "histogram_count(spate_template_connect_seconds"+client+")")
	if classic := one(t, prometheus, "spate_template_connect_seconds_count"+client); connected != classic || connected == 0 {
		t.Errorf("%v connection times in native buckets, %v in classic ones", connected, classic)
	}
	if run.Status.Verdict.Outcome != spatev1.VerdictPassed {
		t.Errorf("%+v", run.Status.Verdict)
	}
}
