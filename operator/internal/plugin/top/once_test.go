// SPDX-License-Identifier: Apache-2.0

package top

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/counters"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/plugintest"
)

func TestTablesArePrintedForScripts(t *testing.T) {
	m := scene(actions{})
	var all, streams bytes.Buffer
	if err := m.print(&all, -1); err != nil {
		t.Fatal(err)
	}
	same(t, "once.txt", all.String())
	if err := m.print(&streams, 1); err != nil || strings.Contains(streams.String(), "PORT") || !strings.Contains(streams.String(), "\nSTREAM ") {
		t.Errorf("%v\n%s", err, streams.String())
	}
	var document bytes.Buffer
	if err := output.WriteDocument(&document, output.JSON, m.document(-1)); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Runs    []struct{ Name, Phase string }
		Streams []struct {
			Stream       string
			TxPackets    float64  `json:"txPacketsPerSecond"`
			LostPPM      *float64 `json:"lostPPM"`
			LatencyP99Ns *float64 `json:"latencyP99Ns"`
		}
		Ports, Templates, Latency, Workers []map[string]any
	}
	if err := json.Unmarshal(document.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if len(read.Runs) != 1 || read.Runs[0].Phase != "Running" || len(read.Ports) != 2 || len(read.Templates) != 2 || len(read.Latency) != 3 || len(read.Workers) != 2 || len(read.Streams) != 2 {
		t.Fatalf("%+v", read)
	}
	if flood, imix := read.Streams[0], read.Streams[1]; flood.LostPPM != nil || flood.LatencyP99Ns != nil || flood.TxPackets != 500_000 || *imix.LostPPM != 12 || *imix.LatencyP99Ns != 31_500 {
		t.Errorf("%+v", read.Streams)
	}
	var form output.Flag
	form.Choose(output.CSV)
	var table bytes.Buffer
	if err := form.Write(&table, m.printed(1)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&table).ReadAll()
	if err != nil || len(rows) != 4 || rows[0][0] != "row" || rows[1][0] != "run" || rows[2][0] != "stream" {
		t.Fatalf("%q %v", rows, err)
	}
	if at := slices.Index(rows[0], "lostPPM"); at < 0 || rows[2][at] != "" || rows[3][at] != "12" {
		t.Errorf("%q", rows)
	}
}

func TestReadingOnceEndsWhenAllRatesAreKnown(t *testing.T) {
	readable, run := imix("a"), imix("b")
	run.Status.Phase = spatev1.RunPreparing
	of := counters.Source{Run: "a", Pod: "lab-0"}
	shown := counters.Found{Runs: []spatev1.TrafficRun{readable, run}}
	for name, c := range map[string]struct {
		messages []tea.Msg
		want     string // part of the error
	}{
		"two readings":            {[]tea.Msg{shown, counters.Ticked{}, counters.Counted{From: of, Answer: stats(1, nil)}, counters.Ticked{}, counters.Counted{From: of, Answer: stats(2, nil)}, counters.Ticked{}}, ""},
		"nothing to read":         {[]tea.Msg{counters.Found{Runs: []spatev1.TrafficRun{run}}, counters.Ticked{}}, ""},
		"no run":                  {[]tea.Msg{counters.Found{}, counters.Ticked{}}, ""},
		"runs cannot be read":     {[]tea.Msg{counters.Found{Err: cause("forbidden")}}, "forbidden"},
		"counters cannot be read": {[]tea.Msg{shown, counters.Note{Text: "bind the ClusterRole", IsBad: true}}, "bind the ClusterRole"},
		"it lasts too long":       {[]tea.Msg{shown, counters.Note{Text: "waiting: for pods"}, counters.Ticked{}}, "not all counters were read in 30s: waiting: for pods"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			messages := make(chan any, len(c.messages))
			for _, message := range c.messages {
				messages <- message
			}
			err := newModel("", actions{}).collect(ctx, messages, nil)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || len(messages) > 0 {
				t.Errorf("%v, want %q; %d messages are left", err, c.want, len(messages))
			}
		})
	}
}

type cause string

func (c cause) Error() string { return string(c) }

func TestTheCommandRefusesWhatItCannotShow(t *testing.T) {
	for arguments, want := range map[string]string{
		"top":                      "standard output is not a terminal: --once prints the tables",
		"top --once --view queues": `--view "queues": must be one of ports, streams, templates, latency, workers`,
		"top -o json":              "--output: takes --once",
		"top --once -o html":       "-o html: must be one of table, wide, json, yaml, csv",
	} {
		if _, _, err := plugintest.Run("", strings.Fields(arguments), NewCommand()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arguments, err, want)
		}
	}
}
