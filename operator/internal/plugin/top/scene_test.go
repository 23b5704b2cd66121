// SPDX-License-Identifier: Apache-2.0

package top

// This file answers: what do the tests show? A run on a pod with two ports, whose engine is read every second.

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/plugin/counters"
	"spate.dev/operator/internal/plugin/plugintest"
)

var update = flag.Bool("update", false, "write the screens of testdata again")

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// imix is a run in its measured phase.
func imix(name string) spatev1.TrafficRun {
	run := plugintest.Sending(name, "imix", noon)
	run.Status.Progress = &spatev1.RunProgress{TxRate: "1.49Mpps", RxRate: "1.49Mpps", LossRatio: "0.000012"}
	return *run
}

// stats is the reading of an engine n seconds after its start.
func stats(n uint64, change func(*enginev1.WatchStatsResponse)) *livev1.WatchStatsResponse {
	times := func(scale uint64) *enginev1.LatencyStats {
		return &enginev1.LatencyStats{Count: 1000 * n, MinNs: 4_120 * scale, MaxNs: 912_000 * scale, JitterNs: 310 * scale, Quantiles: []*enginev1.Quantile{
			{PartsPerMillion: 500_000, Ns: 9_870 * scale}, {PartsPerMillion: 900_000, Ns: 15_400 * scale}, {PartsPerMillion: 950_000, Ns: 18_000 * scale},
			{PartsPerMillion: 990_000, Ns: 31_500 * scale}, {PartsPerMillion: 999_000, Ns: 120_000 * scale}, {PartsPerMillion: 999_900, Ns: 640_000 * scale},
		}}
	}
	counters := func(values ...any) (all []*enginev1.NamedCounter) {
		for i := 0; i < len(values); i += 2 {
			all = append(all, &enginev1.NamedCounter{Name: values[i].(string), Value: uint64(values[i+1].(int)) * n})
		}
		return all
	}
	answer := &enginev1.WatchStatsResponse{
		ReadAtNs: noon.Add(time.Duration(n) * time.Second).UnixNano(),
		Ports: []*enginev1.PortStats{
			{Port: "east", LinkUp: true, TxPackets: 1_000_000 * n, TxBytes: 512_000_000 * n, RxPackets: 500_000 * n, RxBytes: 32_000_000 * n, RxMissed: 3},
			{Port: "west", LinkUp: true, TxPackets: 500_000 * n, TxBytes: 32_000_000 * n, RxPackets: 999_988 * n, RxBytes: 511_993_856 * n, RxErrors: 7},
		},
		Streams: []*enginev1.StreamStats{
			{
				Name: "imix-64", Warmup: &enginev1.StreamCounters{TxPackets: 100},
				Measured: &enginev1.StreamCounters{TxPackets: 1_000_000 * n, TxBytes: 512_000_000 * n, RxPackets: 999_988 * n, Missing: int64(12 * n), OutOfOrder: 2, Latency: times(1)},
			},
			{Name: "flood", Measured: &enginev1.StreamCounters{TxPackets: 500_000 * n, TxBytes: 32_000_000 * n, Late: 4}},
		},
		Templates: []*enginev1.TemplateStats{
			{
				Template: "web", Side: enginev1.Side_SIDE_CLIENT, OpenFlows: 240, ConnectTime: times(10), RoundTrip: times(20),
				Counters: counters("flows_established", 12_000, "connect_drops", 1, "flows_idle_timeouts", 2, "sent_data_bytes", 1_200_000, "received_data_bytes", 96_000_000, "retransmitted_packets", 5),
			},
			{Template: "web", Side: enginev1.Side_SIDE_SERVER, OpenFlows: 238, Counters: counters("flows_established", 12_000, "flows_idle_timeouts", 2, "sent_data_bytes", 96_000_000, "received_data_bytes", 1_200_000)},
		},
		Workers: []*enginev1.WorkerStats{
			{Worker: 0, Cpu: 4, BusyNs: 812_000_000 * n, IdleNs: 188_000_000 * n, TxPackets: 1_000_000 * n, RxPackets: 500_000 * n},
			{Worker: 1, Cpu: 6, BusyNs: 330_000_000 * n, IdleNs: 670_000_000 * n, TxPackets: 500_000 * n, RxPackets: 999_988 * n, Sleeps: 50 * n, Flows: &enginev1.FlowSteering{HandedOff: 1200 * n}},
		},
	}
	if change != nil {
		change(answer)
	}
	return &livev1.WatchStatsResponse{Engine: answer, Ports: []*enginev1.PortInfo{
		{Name: "east", LineRateBps: 10_000_000_000, TxWorkers: []uint32{0}, RxWorkers: []uint32{0, 1}}, {Name: "west", LineRateBps: 10_000_000_000, TxWorkers: []uint32{0, 1}, RxWorkers: []uint32{1}},
	}}
}

// scene is a display of run imix after some readings, at 80 columns and 24 lines.
func scene(a actions) *model {
	m := newModel("profile imix", a)
	m.Update(counters.Found{Runs: []spatev1.TrafficRun{imix("imix-1a2b3-4")}})
	for n := uint64(1); n <= 12; n++ {
		m.Update(counters.Counted{From: counters.Source{Run: "imix-1a2b3-4", Pod: "lab-0"}, Answer: stats(n, func(s *enginev1.WatchStatsResponse) {
			for later := n + 1; later <= 12; later++ { // the rate rises to a million in eight seconds
				s.Ports[0].TxPackets += 1_000_000 - 125_000*min(later-1, 8)
				s.Streams[0].Measured.TxPackets += 1_000_000 - 125_000*min(later-1, 8)
			}
		})})
		m.Update(counters.Ticked{Now: noon.Add(time.Duration(n) * time.Second)})
	}
	return m
}

// press keys: names such as enter, or what is typed.
func press(m *model, keys ...string) {
	named := map[string]tea.KeyPressMsg{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "backspace": {Code: tea.KeyBackspace},
		"down": {Code: tea.KeyDown}, "up": {Code: tea.KeyUp}, "pgdown": {Code: tea.KeyPgDown}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
	}
	for _, key := range keys {
		all := []tea.KeyPressMsg{named[key]}
		if _, is := named[key]; !is {
			all = nil
			for _, typed := range key {
				all = append(all, tea.KeyPressMsg{Code: typed, Text: string(typed)})
			}
		}
		for _, pressed := range all {
			for _, command := m.Update(pressed); command != nil; {
				message := command()
				_, command = m.Update(message)
				if _, quits := message.(tea.QuitMsg); quits {
					m.note = counters.Note{Text: "quit"}
				}
			}
		}
	}
}

// screen is what a terminal shows, without styles and without spaces at the ends of lines.
func screen(m *model) string {
	lines := strings.Split(ansi.Strip(m.View().Content), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// same fails unless a text is that of a file of testdata.
func same(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s: go test ./internal/plugin/top -update writes it again; got\n%s\nwant\n%s", path, text, want)
	}
}
