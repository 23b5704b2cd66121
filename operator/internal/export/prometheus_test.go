// SPDX-License-Identifier: Apache-2.0

package export

// This file answers: does a real Prometheus have the samples, with their times, however they came there?

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func pemOf(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// prometheusBinary is SPATE_PROMETHEUS, which `make operator-test` sets, or that of the machine.
func prometheusBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("SPATE_PROMETHEUS"); path != "" {
		return path
	}
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("NO PROMETHEUS: install it, or set SPATE_PROMETHEUS to its path")
	}
	return path
}

// startPrometheus returns the URL of one that is ready.
func startPrometheus(t *testing.T, binary string, arguments ...string) string {
	t.Helper()
	folder := t.TempDir()
	config := filepath.Join(folder, "prometheus.yml")
	must(t, os.WriteFile(config, []byte("storage: {tsdb: {out_of_order_time_window: 2h}}\n"), 0o600))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	var said bytes.Buffer
	process := exec.Command(binary, append([]string{"--config.file=" + config, "--storage.tsdb.path=" + folder, "--web.listen-address=" + address}, arguments...)...)
	process.Stdout, process.Stderr = &said, &said
	must(t, process.Start())
	ended := make(chan struct{})
	go func() { _ = process.Wait(); close(ended) }()
	t.Cleanup(func() { _ = process.Process.Kill(); <-ended })
	for range 300 {
		response, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
		select {
		case <-ended:
			t.Fatalf("Prometheus ended: %s", said.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatalf("Prometheus is not ready: %s", said.String())
	return ""
}

// stored returns all samples of a run that Prometheus has, by series.
func stored(t *testing.T, prometheus string, from time.Time, ignored ...string) map[string][]Point {
	t.Helper()
	query := url.Values{"query": {`{run="imix-1"}[10m]`}, "time": {strconv.FormatInt(from.Add(5*time.Minute).Unix(), 10)}}
	response, err := http.Get(prometheus + "/api/v1/query?" + query.Encode())
	must(t, err)
	defer response.Body.Close()
	var got struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	must(t, json.NewDecoder(response.Body).Decode(&got))
	all := map[string][]Point{}
	for _, r := range got.Data.Result {
		s := Series{Name: r.Metric[nameLabel]}
		for _, name := range append(ignored, nameLabel) {
			delete(r.Metric, name)
		}
		s.Labels = sorted(r.Metric)
		for _, v := range r.Values {
			value, err := strconv.ParseFloat(v[1].(string), 64)
			must(t, err)
			s.Points = append(s.Points, Point{int64(v[0].(float64)*1000 + 0.5), value})
		}
		all[s.key()] = s.Points
	}
	return all
}

func differences(got, want map[string][]Point) string {
	var text strings.Builder
	for key, points := range want {
		if !slices.Equal(got[key], points) {
			fmt.Fprintf(&text, "%s: %v, want %v\n", key, got[key], points)
		}
	}
	for key := range got {
		if want[key] == nil {
			fmt.Fprintf(&text, "%s is not expected\n", key)
		}
	}
	return text.String()
}

func TestPrometheusHasWhatWasWritten(t *testing.T) {
	t.Parallel()
	prometheus := startPrometheus(t, prometheusBinary(t), "--web.enable-remote-write-receiver")
	begin := time.Now().Add(-10 * time.Minute).Truncate(time.Millisecond)
	run, sampled := sampledRun(begin, 60)
	want := together(slices.Collect(Of(run, sampled, map[string]string{"site": "north"})))
	target := Target{Protocol: RemoteWrite, URL: prometheus + "/api/v1/write", Labels: map[string]string{"site": "north"}}
	for range 2 { // sent once more, they are the same
		if sent, err := target.Send(t.Context(), run, sampled); err != nil || sent != 60*len(want) {
			t.Fatalf("%d samples, %v", sent, err)
		}
		if problems := differences(stored(t, prometheus, begin), want); problems != "" {
			t.Error(problems)
		}
	}
}

func TestPrometheusHasWhatWasSentByOTLP(t *testing.T) {
	t.Parallel()
	binary := prometheusBinary(t)
	if help, _ := exec.Command(binary, "--help").CombinedOutput(); !strings.Contains(string(help), "web.enable-otlp-receiver") {
		t.Skipf("PROMETHEUS TOO OLD for OTLP (before 3.0): set SPATE_PROMETHEUS to the path of another than %s", binary)
	}
	prometheus := startPrometheus(t, binary, "--web.enable-otlp-receiver")
	begin := time.Now().Add(-10 * time.Minute).Truncate(time.Millisecond)
	run, sampled := sampledRun(begin, 60)
	want := together(slices.Collect(Of(run, sampled, nil)))
	target := Target{Protocol: OTLP, URL: prometheus + "/api/v1/otlp/v1/metrics"}
	if sent, err := target.Send(t.Context(), run, sampled); err != nil || sent != 60*len(want) {
		t.Fatalf("%d samples, %v", sent, err)
	}
	got := stored(t, prometheus, begin, "job", "otel_scope_name", "otel_scope_version", "otel_scope_schema_url")
	if problems := differences(got, want); problems != "" {
		t.Error(problems)
	}
}

func TestPromtoolMakesBlocksOfOpenMetrics(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("NO PROMTOOL: install prometheus")
	}
	run, sampled := sampledRun(start, 60)
	var text bytes.Buffer
	must(t, WriteOpenMetrics(&text, Of(run, sampled, nil)))
	folder := t.TempDir()
	file := filepath.Join(folder, "imix.om")
	must(t, os.WriteFile(file, text.Bytes(), 0o600))
	if said, err := exec.Command(promtool, "tsdb", "create-blocks-from", "openmetrics", file, folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	must(t, os.Mkdir(filepath.Join(folder, "wal"), 0o755)) // which a dump requires
	dump, err := exec.Command(promtool, "tsdb", "dump", folder).Output()
	must(t, err)
	want := 0
	for s := range Of(run, sampled, nil) {
		want += len(s.Points)
	}
	if got := bytes.Count(dump, []byte("\n")); got != want || !strings.Contains(string(dump), `__name__="spate_run_tx_packets_total"`) || !strings.Contains(string(dump), " 59000 1800000059250\n") {
		t.Errorf("%d samples, want %d\n%.500s", got, want, dump)
	}
}
