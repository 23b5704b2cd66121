// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	otlp "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs/samples"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sampledRun is a run that started at a time, with n samples of the sums, two streams and a template.
func sampledRun(start time.Time, n int) (*spatev1.TrafficRun, *samples.Series) {
	run := &spatev1.TrafficRun{}
	run.Namespace, run.Name = "tests", "imix-1"
	run.Spec.ProfileRef = &spatev1.LocalReference{Name: "imix"}
	started := metav1.NewMicroTime(start)
	run.Status.TrafficStartTime, run.Status.Generator = &started, "infra/lab"
	series := samples.New()
	for i := range int64(n) {
		voice := spatev1.StreamCounters{Tx: 1000 * i, TxBytes: 128_000 * i, Rx: 999 * i, RxBytes: 127_872 * i, Lost: i}
		flows := spatev1.FlowCounters{Attempted: 10 * i, Established: 9 * i, Open: 3}
		series.Add(samples.Reading{
			At: time.Duration(i) * time.Second,
			Result: &spatev1.RunResult{
				StreamCounters: voice, RxMissed: 7 * i, Flows: &flows,
				Streams:   map[string]spatev1.StreamResult{"voice": {StreamCounters: voice, Latency: &spatev1.Latency{P50: 11_000, P99: 31_500, Max: 2_500_000}}, "data": {StreamCounters: spatev1.StreamCounters{Tx: i}}},
				Templates: map[string]spatev1.TemplateResult{"web": {Client: &spatev1.TemplateSide{FlowCounters: flows, ConnectTime: &spatev1.Latency{P99: 420_000}}}},
			},
			Delays: map[string]samples.Times{"voice": {Count: 999 * i, Sum: 12_345 * 999 * i}}, ConnectTimes: map[string]samples.Times{"web": {Count: 9 * i, Sum: 9 * i * 300_000}},
		}, samples.Most)
	}
	return run, series
}

// key is a series as Prometheus writes it.
func (s Series) key() string {
	labels := make([]string, 0, len(s.Labels))
	for _, l := range s.Labels {
		labels = append(labels, fmt.Sprintf("%s=%q", l.Name, l.Value))
	}
	return s.Name + "{" + strings.Join(labels, ",") + "}"
}

// together has the points of each series of batches.
func together(all ...[]Series) map[string][]Point {
	points := map[string][]Point{}
	for _, batch := range all {
		for _, s := range batch {
			points[s.key()] = append(points[s.key()], s.Points...)
		}
	}
	return points
}

var start = time.UnixMilli(1_800_000_000_250)

const ofTheRun = `generator="lab",generator_namespace="infra",profile="imix",profile_namespace="tests",run="imix-1"`

func TestEachCounterIsASeriesWithTheRunsOwnTimes(t *testing.T) {
	run, sampled := sampledRun(start, 3)
	all := together(slices.Collect(Of(run, sampled, map[string]string{"site": "north", "run": "another"})))
	points := func(values ...float64) (p []Point) {
		for i, v := range values {
			p = append(p, Point{start.UnixMilli() + int64(i)*1000, v})
		}
		return p
	}
	for key, want := range map[string][]Point{
		`spate_run_tx_packets_total{` + ofTheRun + `,site="north"}`:                                points(0, 1000, 2000),
		`spate_run_rx_missed_packets_total{` + ofTheRun + `,site="north"}`:                         points(0, 7, 14),
		`spate_run_open_flows{` + ofTheRun + `,site="north"}`:                                      points(3, 3, 3),
		`spate_run_stream_lost_packets{` + ofTheRun + `,site="north",stream="voice"}`:              points(0, 1, 2),
		`spate_run_stream_tx_packets_total{` + ofTheRun + `,site="north",stream="data"}`:           points(0, 1, 2),
		`spate_run_stream_latency_seconds_total{` + ofTheRun + `,site="north",stream="voice"}`:     points(0, 0.012332655, 0.02466531),
		`spate_run_template_flows_established_total{` + ofTheRun + `,site="north",template="web"}`: points(0, 9, 18),
	} {
		if !reflect.DeepEqual(all[key], want) {
			t.Errorf("%s: %v, want %v", key, all[key], want)
		}
	}
	q := `spate_run_stream_latency_quantile_seconds{generator="lab",generator_namespace="infra",profile="imix",profile_namespace="tests",quantile="0.99",run="imix-1",site="north",stream="voice"}`
	if got := all[q]; !reflect.DeepEqual(got, points(31.5e-6, 31.5e-6, 31.5e-6)) {
		t.Errorf("%v of\n%v", got, all)
	}
	for _, absent := range []string{"spate_run_late_packets_total", "spate_run_stream_rx_missed_packets_total"} {
		for key := range all {
			if strings.HasPrefix(key, absent) {
				t.Errorf("%s, which was always 0", key)
			}
		}
	}
	known := map[string]bool{}
	for _, f := range Families() {
		if known[f.Name] {
			t.Errorf("%s is there twice", f.Name)
		}
		known[f.Name] = true
	}
	for key := range all {
		if name, _, _ := strings.Cut(key, "{"); !known[name] {
			t.Errorf("%s is in no reference", name)
		}
	}
	run.Status.TrafficStartTime = nil
	for s := range Of(run, sampled, nil) {
		t.Errorf("%s of a run that has not started", s.key())
	}
}

func TestOfTwoSamplesWithinAMillisecondTheLaterStays(t *testing.T) {
	got := points(start, []int64{0, 1e9, 1e9 + 400_000, 2e9}, []int64{1, 2, 3, 4}, 1)
	if want := []Point{{start.UnixMilli(), 1}, {start.UnixMilli() + 1000, 3}, {start.UnixMilli() + 2000, 4}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

func TestBatchesAreBoundedAndHaveEverything(t *testing.T) {
	run, sampled := sampledRun(start, 50)
	want := together(slices.Collect(Of(run, sampled, nil)))
	var all [][]Series
	for batch := range batches(Of(run, sampled, nil), 7) {
		n := 0
		for _, s := range batch {
			n += len(s.Points)
		}
		if n > 7 || n == 0 {
			t.Fatalf("%d samples in a batch", n)
		}
		all = append(all, batch)
	}
	if got := together(all...); !reflect.DeepEqual(got, want) {
		t.Errorf("%d series, want %d", len(got), len(want))
	}
}

func TestOpenMetricsHasTimesAndTypes(t *testing.T) {
	run, sampled := sampledRun(start, 2)
	var text bytes.Buffer
	must(t, WriteOpenMetrics(&text, Of(run, sampled, nil)))
	for _, want := range []string{
		"# HELP spate_run_tx_packets Packets sent\n# TYPE spate_run_tx_packets counter\n",
		"spate_run_tx_packets_total{" + ofTheRun + "} 1000.0 1.80000000125e+09\n",
		"# TYPE spate_run_stream_latency_quantile_seconds gauge\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if !strings.HasSuffix(text.String(), "\n# EOF\n") || strings.Count(text.String(), "# TYPE spate_run_stream_latency_quantile_seconds ") != 1 {
		t.Error(text.String())
	}
}

// decodeRemoteWrite reads a request by the definition of its message.
func decodeRemoteWrite(t *testing.T, body []byte) (all []Series) {
	t.Helper()
	raw, err := snappy.Decode(nil, body)
	must(t, err)
	for _, series := range fields(t, raw)[fieldTimeSeries] {
		s := Series{}
		parts := fields(t, series)
		for _, label := range parts[fieldLabels] {
			pair := fields(t, label)
			if l := (Label{string(pair[fieldName][0]), string(pair[fieldText][0])}); l.Name == nameLabel {
				s.Name = l.Value
			} else {
				s.Labels = append(s.Labels, l)
			}
		}
		for _, sample := range parts[fieldSamples] {
			values := fields(t, sample)
			bits, _ := protowire.ConsumeFixed64(values[fieldValue][0])
			at, _ := protowire.ConsumeVarint(values[fieldTimestamp][0])
			s.Points = append(s.Points, Point{int64(at), math.Float64frombits(bits)})
		}
		all = append(all, s)
	}
	return all
}

// fields returns the values of a message by their numbers.
func fields(t *testing.T, message []byte) map[protowire.Number][][]byte {
	t.Helper()
	all := map[protowire.Number][][]byte{}
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(number, kind, message)
		if size < 0 {
			t.Fatal(protowire.ParseError(size))
		}
		value := message[:size]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		all[number], message = append(all[number], value), message[size:]
	}
	return all
}

// decodeOTLP reads a request, with names as Prometheus has them.
func decodeOTLP(t *testing.T, body []byte) (all []Series) {
	t.Helper()
	unpacked, err := gzip.NewReader(bytes.NewReader(body))
	must(t, err)
	raw, err := io.ReadAll(unpacked)
	must(t, err)
	request := &collector.ExportMetricsServiceRequest{}
	must(t, proto.Unmarshal(raw, request))
	for _, m := range request.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		s, points := Series{Name: m.Name}, m.GetGauge().GetDataPoints()
		if sum := m.GetSum(); sum != nil {
			if points, s.Name = sum.DataPoints, s.Name+"_total"; !sum.IsMonotonic || sum.AggregationTemporality != otlp.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE || points[0].StartTimeUnixNano != uint64(start.UnixNano()) {
				t.Errorf("%s: %v", m.Name, sum)
			}
		}
		for _, a := range points[0].Attributes {
			s.Labels = append(s.Labels, Label{a.Key, a.Value.GetStringValue()})
		}
		for _, p := range points {
			s.Points = append(s.Points, Point{int64(p.TimeUnixNano / 1e6), p.GetAsDouble()})
		}
		all = append(all, s)
	}
	return all
}

// receiver answers requests in turn, and the last answer to all that follow.
func receiver(t *testing.T, answers ...http.HandlerFunc) (url string, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers[min(int(requests.Add(1)), len(answers))-1](w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/push?key=s3cret", requests
}

func answer(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, code) }
}

func TestAReceiverGetsEverythingOnce(t *testing.T) {
	t.Parallel()
	run, sampled := sampledRun(start, 600)
	for protocol, decode := range map[Protocol]func(*testing.T, []byte) []Series{RemoteWrite: decodeRemoteWrite, OTLP: decodeOTLP} {
		var got [][]Series
		url, requests := receiver(t, answer(http.StatusServiceUnavailable, "starting"), func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Method != http.MethodPost {
				t.Errorf("%s: %s %v, %v", protocol, r.Method, r.Header, err)
			}
			got = append(got, decode(t, body))
		})
		want := together(slices.Collect(Of(run, sampled, map[string]string{"site": "north"})))
		sent, err := Target{Protocol: protocol, URL: url, Labels: map[string]string{"site": "north"}}.Send(t.Context(), run, sampled)
		if err != nil || sent != 600*len(want) || int(requests.Load()) != 2+sent/mostPoints {
			t.Errorf("%s: %d samples in %d requests, %v", protocol, sent, requests.Load(), err)
		}
		if have := together(got...); !reflect.DeepEqual(have, want) {
			t.Errorf("%s: %d series, want %d", protocol, len(have), len(want))
		}
	}
}

func TestAFailureSaysWhatIsWrongWithoutSecrets(t *testing.T) {
	t.Parallel()
	run, sampled := sampledRun(start, 2)
	slow := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	partial := func(w http.ResponseWriter, _ *http.Request) {
		body, err := proto.Marshal(&collector.ExportMetricsServiceResponse{PartialSuccess: &collector.ExportMetricsPartialSuccess{RejectedDataPoints: 3, ErrorMessage: "too\nold"}})
		must(t, err)
		_, _ = w.Write(body)
	}
	for name, c := range map[string]struct {
		protocol Protocol
		answers  []http.HandlerFunc
		want     string
		requests int32
		refused  bool
	}{
		"wrong token":          {RemoteWrite, []http.HandlerFunc{answer(http.StatusUnauthorized, "no such token")}, ": no such token", 1, false},
		"refused":              {RemoteWrite, []http.HandlerFunc{answer(http.StatusBadRequest, "out of order\n sample")}, "HTTP status 400 Bad Request: out of order sample", 1, true},
		"broken, but not long": {OTLP, []http.HandlerFunc{answer(http.StatusBadGateway, "a"), answer(http.StatusTooManyRequests, "b"), func(http.ResponseWriter, *http.Request) {}}, "", 3, false},
		"broken":               {OTLP, []http.HandlerFunc{answer(http.StatusBadGateway, strings.Repeat("no backend, ", 1000))}, "HTTP status 502 Bad Gateway: no backend, ", 4, false},
		"rejected in part":     {OTLP, []http.HandlerFunc{partial}, "3 samples were rejected: too old", 1, true},
		"slow":                 {OTLP, []http.HandlerFunc{slow}, "no answer in time", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, requests := receiver(t, c.answers...)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if name == "slow" {
				ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
			}
			defer cancel()
			_, err := Target{Protocol: c.protocol, URL: url}.Send(ctx, run, sampled)
			if c.want == "" {
				must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), string(c.protocol)+" to http://127.0.0.1:") || strings.Contains(err.Error(), "s3cret") || len(err.Error()) > 500 {
				t.Errorf("%v", err)
			}
			var refused *RefusedError
			if errors.As(err, &refused) != c.refused || requests.Load() != c.requests {
				t.Errorf("%d requests, %v", requests.Load(), err)
			}
		})
	}
	t.Run("away", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(nil)
		server.Close()
		if _, err := (Target{Protocol: RemoteWrite, URL: server.URL + "?key=s3cret"}).Send(t.Context(), run, sampled); err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v", err)
		}
	})
}

func TestTheHTTPConfigurationIsPrometheus(t *testing.T) {
	t.Parallel()
	run, sampled := sampledRun(start, 2)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" || r.Header.Get("X-Scope-OrgID") != "lab" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	write := func(name, text string) { must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600)) }
	write("ca.crt", pemOf(server))
	write("token", "wrong")
	write("http.yaml", "authorization: {credentials_file: token}\ntls_config: {ca_file: ca.crt}\nhttp_headers: {X-Scope-OrgID: {values: [lab]}}\n")
	target := Target{Protocol: RemoteWrite, URL: server.URL, HTTPConfig: filepath.Join(folder, "http.yaml")}
	if _, err := target.Send(t.Context(), run, sampled); err == nil || !strings.Contains(err.Error(), "HTTP status 401") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("%v", err)
	}
	write("token", "t0ken\n") // it is read again
	if _, err := target.Send(t.Context(), run, sampled); err != nil {
		t.Error(err)
	}
	plain := target
	plain.HTTPConfig = ""
	if _, err := plain.Send(t.Context(), run, sampled); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
	write("http.yaml", "s3cret\n")
	if _, err := target.Send(t.Context(), run, sampled); err == nil || !strings.Contains(err.Error(), "http.yaml cannot be used: ") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
	write("http.yaml", "authorisation: {}\n")
	if _, err := target.Send(t.Context(), run, sampled); err == nil || !strings.Contains(err.Error(), "field authorisation not found") {
		t.Errorf("%v", err)
	}
}

func TestTargetsAndLabelsAreChecked(t *testing.T) {
	for url, want := range map[string]string{
		"https://metrics.example/api/v1/write": "", "metrics.example:9090": "a complete http or https URL", "https://": "a complete http or https URL",
		"https://u:s3cret@metrics.example/": "a user and a password do not belong into it", "http://a b:s3cret@/": "it is no URL",
	} {
		if err := (Target{URL: url}).Check(); (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if got, err := ParseLabels("cluster=lab,site=a=b"); err != nil || !reflect.DeepEqual(got, map[string]string{"cluster": "lab", "site": "a=b"}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"lab", "1a=b", "__name__=x", "a=", "a=b,", "a-b=c"} {
		if _, err := ParseLabels(wrong); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
