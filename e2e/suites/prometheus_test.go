// SPDX-License-Identifier: Apache-2.0

// Queries of the real Prometheus, which scraped the real pods.

package suites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	spate "spate.dev/api/v1alpha1"
)

const prometheusURL = "http://127.0.0.1:9090"

// sample is one series of a response.
type sample struct {
	labels map[string]string
	value  float64
}

// ask requests an endpoint of Prometheus' API, and decodes its data.
func ask(ctx context.Context, endpoint string, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, prometheusURL+"/api/v1/"+endpoint, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status string
		Error  string
		Data   any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return nil
}

// query requests an instant vector of now.
func query(ctx context.Context, expression string) ([]sample, error) {
	return queryAt(ctx, expression, time.Now())
}

// queryAt requests an instant vector of a time. The value of a native histogram is its count.
func queryAt(ctx context.Context, expression string, at time.Time) ([]sample, error) {
	var data struct {
		Result []struct {
			Metric    map[string]string
			Value     [2]any
			Histogram [2]any
		}
	}
	if err := ask(ctx, fmt.Sprintf("query?time=%d.%03d&query=%s", at.Unix(), at.Nanosecond()/1e6, url.QueryEscape(expression)), &data); err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	samples := make([]sample, 0, len(data.Result))
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		if native, is := r.Histogram[1].(map[string]any); is {
			text, _ = native["count"].(string)
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expression, err)
		}
		samples = append(samples, sample{labels: r.Metric, value: value})
	}
	return samples, nil
}

// counted returns a metric of a complete run's measured phase by stream, from a scrape after the run's end.
func counted(t *testing.T, metric string, run *spate.TrafficRun) map[string]int64 {
	t.Helper()
	return countedBy(t, "stream", metric, `phase="measured"`, run)
}

// countedBy returns a metric of a complete run, where labels match, by a label, from a scrape after the run's end.
func countedBy(t *testing.T, label, metric, matching string, run *spate.TrafficRun) map[string]int64 {
	t.Helper()
	selector := fmt.Sprintf(`%s{profile_namespace=%q,profile=%q,run=%q,%s}`, metric, run.Namespace, run.Status.Resolved.Profile.Name, run.Name, matching)
	// The run's end is without its fraction of a second, and an engine answers scrapes with a page that is up to a second old.
	end := float64(run.Status.CompletionTime.Unix()) + 2
	until(t, 15*time.Second, "a scrape of "+metric+" after the run's end", func(ctx context.Context) (bool, string) {
		samples, err := query(ctx, "min(timestamp("+selector+"))")
		return err == nil && len(samples) == 1 && samples[0].value > end, fmt.Sprint(samples, err)
	})
	samples, err := query(t.Context(), "sum by ("+label+") ("+selector+")")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, s := range samples {
		values[s.labels[label]] = int64(s.value)
	}
	return values
}

// agree fails unless Prometheus has exactly the run's numbers.
func agree(t *testing.T, run *spate.TrafficRun) {
	t.Run("Prometheus has the same", func(t *testing.T) {
		needsRig(t, thePrometheus)
		agrees(t, run)
	})
}

func agrees(t *testing.T, run *spate.TrafficRun) {
	t.Helper()
	tx := counted(t, "spate_stream_tx_packets_total", run)
	rx := counted(t, "spate_stream_rx_packets_total", run)
	for name, s := range run.Status.Result.Streams {
		if tx[name] != s.Tx || rx[name] != s.Rx {
			t.Errorf("stream %s: the run has tx %d, rx %d; Prometheus has tx %d, rx %d", name, s.Tx, s.Rx, tx[name], rx[name])
		}
	}
}

// histogramsAgree fails unless Prometheus, with PodMonitors for native histograms, has each latency of the run's streams in both kinds of histogram.
func histogramsAgree(t *testing.T, run *spate.TrafficRun) {
	t.Helper()
	measured := 0
	for name, s := range run.Status.Result.Streams {
		if s.Latency == nil {
			continue
		}
		measured++
		of := fmt.Sprintf("{profile_namespace=%q,profile=%q,run=%q,stream=%q}", run.Namespace, run.Status.Resolved.Profile.Name, run.Name, name)
		for _, expression := range []string{"spate_stream_latency_seconds_count" + of, "histogram_count(spate_stream_latency_seconds" + of + ")"} {
			until(t, 15*time.Second, fmt.Sprintf("%s is %d", expression, s.Latency.Count), func(ctx context.Context) (bool, string) {
				samples, err := query(ctx, expression)
				return err == nil && len(samples) == 1 && int64(samples[0].value) == s.Latency.Count, fmt.Sprint(samples, err)
			})
		}
	}
	if measured == 0 {
		t.Error("no stream has measured latencies")
	}
}
