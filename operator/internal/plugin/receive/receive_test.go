// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
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
	"spate.dev/operator/internal/plugin/figures"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/plugintest"
)

var update = flag.Bool("update", false, "write the files of testdata again")

// noon is when the run started. Times are printed in the zone of the terminal.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.Local)

// momentsOf are what an engine reports of durations.
func momentsOf(all ...float64) *enginev1.Moments {
	m := &enginev1.Moments{}
	for _, ns := range all {
		if m.Count == 0 || uint64(ns) < m.MinNs {
			m.MinNs = uint64(ns)
		}
		m.MaxNs, m.Count = max(m.MaxNs, uint64(ns)), m.Count+1
		m.MeanNs += (ns - m.MeanNs) / float64(m.Count)
	}
	for _, ns := range all {
		m.VarianceNs2 += (ns - m.MeanNs) * (ns - m.MeanNs) / float64(len(all))
	}
	return m
}

var of = counters.Source{Run: "tap-1a2b3-1", Pod: "lab-0"}

// reading is that of an engine n seconds after the start of a run with a receiver on west, on which worker 0 receives 750,000 packets a second
// and worker 1 250,000. On east, which has no receiver, 10 packets have arrived in the third second.
func reading(n uint64) *livev1.WatchStatsResponse {
	moments := func(count uint64, mean, deviation float64, least, greatest uint64) *enginev1.Moments {
		return &enginev1.Moments{Count: count, MeanNs: mean, VarianceNs2: deviation * deviation, MinNs: least, MaxNs: greatest}
	}
	east := uint64(0)
	if n >= 3 {
		east = 10
	}
	packets := 1_000_000 * n
	return &livev1.WatchStatsResponse{Engine: &enginev1.WatchStatsResponse{
		ReadAtNs: noon.Add(time.Duration(n) * time.Second).UnixNano(),
		Ports:    []*enginev1.PortStats{{Port: "east", ForeignPackets: east, OtherMacPackets: east / 2}, {Port: "west", ForeignPackets: packets}},
		Receivers: []*enginev1.ReceiverStats{{
			Name: "tap", Port: "west", Packets: packets, Bytes: 64 * packets, SinceNs: noon.UnixNano(),
			InterArrival: moments(packets-2, 2000, 250, 0, 40_000+n), Jitter: moments(packets-4, 120, 30, 0, 40_000+n), Latency: moments(0, 0, 0, 0, 0),
			Workers: []*enginev1.WorkerReceived{
				{Worker: 0, Packets: packets / 4 * 3, Bytes: 48 * packets, InterArrival: moments(packets/4*3-1, 1333, 200, 0, 9000), Jitter: moments(packets/4*3-2, 100, 20, 0, 9000)},
				{Worker: 1, Packets: packets / 4, Bytes: 16 * packets, InterArrival: moments(packets/4-1, 4000, 100, 900, 40_000+n), Jitter: moments(packets/4-2, 180, 40, 0, 40_000+n)},
			},
		}},
	}}
}

// after is a state of run tap after this many readings.
func after(readings uint64, arguments flags) *state {
	if arguments.by == "" {
		arguments.by = byPort
	}
	run := plugintest.Sending(of.Run, "tap", noon)
	run.Status.Progress = &spatev1.RunProgress{RxRate: "1Mpps"}
	s := newState("profile tap", &arguments)
	s.apply(counters.Found{Runs: []spatev1.TrafficRun{*run}})
	for n := uint64(1); n <= readings; n++ {
		s.apply(counters.Counted{From: of, Answer: reading(n)})
		s.apply(counters.Ticked{Now: noon.Add(time.Duration(n) * time.Second)})
	}
	return s
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
		t.Errorf("%s: go test ./internal/plugin/receive -update writes it again; got\n%s\nwant\n%s", path, text, want)
	}
}

// formed is the flag -o with a value.
func formed(form string) (f output.Flag) {
	f.Choose(form)
	return f
}

func TestTables(t *testing.T) {
	t.Parallel()
	for file, arguments := range map[string]flags{
		"table.txt":  {output: formed("table")},
		"wide.txt":   {output: formed("wide"), by: byWorker},
		"reset.txt":  {output: formed("table"), fromReset: true},
		"stream.txt": {output: formed("table"), watch: true},
	} {
		var text bytes.Buffer
		s := after(0, arguments)
		out := &printer{to: &text, form: arguments.output.Form(), byWorker: s.byWorker, isStream: arguments.watch}
		for n := uint64(1); n <= 5; n++ {
			event := counters.Counted{From: of, Answer: reading(n)}
			s.apply(event)
			if arguments.watch {
				if err := s.printReading(event.From, out); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !arguments.watch {
			if err := out.print(s.tally.rows(s.byWorker)); err != nil {
				t.Fatal(err)
			}
		}
		same(t, file, text.String())
	}
}

// The documentation shows what the command does.
func TestTheDocumentationIsTrue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/receive.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"screen.txt", "wide.txt", "stream.txt"} {
		want, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), strings.ReplaceAll(string(want), "\n\n\n", "\n\n")) {
			t.Errorf("docs/receive.md lacks testdata/%s:\n%s", file, want)
		}
	}
	if !strings.Contains(string(page), meaning) {
		t.Errorf("docs/receive.md lacks the meaning of the columns")
	}
}

func TestProgramsReadTheSameFromJSONAndCSV(t *testing.T) {
	t.Parallel()
	var asJSON, asCSV, asYAML bytes.Buffer
	rows := after(5, flags{}).tally.rows(true)
	for form, to := range map[string]*bytes.Buffer{"json": &asJSON, "csv": &asCSV, "yaml": &asYAML} {
		out := &printer{to: to, form: form}
		for range 2 { // the names of the columns are there once
			if err := out.print(rows); err != nil {
				t.Fatal(err)
			}
		}
	}
	if text := asYAML.String(); strings.Count(text, "---\n") != 2*len(rows) || !strings.Contains(text, "\npacketsPerSecond: 250000\n") {
		t.Errorf("%s", text)
	}
	table, err := csv.NewReader(&asCSV).ReadAll()
	if err != nil || len(table) != 1+2*len(rows) || len(rows) != 3 {
		t.Fatalf("%d lines, %v", len(table), err)
	}
	decoder := json.NewDecoder(&asJSON)
	decoder.UseNumber()
	for i := range 2 * len(rows) {
		var object map[string]any
		if err := decoder.Decode(&object); err != nil {
			t.Fatal(err)
		}
		if len(object) != len(table[0]) {
			t.Errorf("%d fields, %d columns", len(object), len(table[0]))
		}
		for column, name := range table[0] {
			want := ""
			switch value := object[name].(type) {
			case string:
				want = value
			case json.Number:
				want = value.String()
			}
			if table[1+i][column] != want {
				t.Errorf("%s: %q in CSV, %q in JSON", name, table[1+i][column], want)
			}
		}
		if i == 2 && (object["worker"] != "1" || object["packetsPerSecond"] != json.Number("250000") || object["l1BitsPerSecond"] != json.Number("168000000") || object["jitterMeanNs"] != json.Number("180") ||
			object["latencyMeanNs"] != nil || object["lastSeen"] != noon.Add(5*time.Second).UTC().Format(time.RFC3339) || object["since"] != noon.UTC().Format(time.RFC3339)) {
			t.Errorf("%v", object)
		}
		if i == 0 && (object["receiver"] != nil || object["packets"] != json.Number("10") || object["bytes"] != nil || object["otherMACPackets"] != json.Number("5") || object["since"] != nil ||
			object["lastSeen"] != noon.Add(3*time.Second).UTC().Format(time.RFC3339)) {
			t.Errorf("%v", object)
		}
	}
}

func TestTimesSinceAReadingAreThoseMeasuredAfterIt(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var before, later []float64
		for range random.IntN(50) {
			before = append(before, float64(random.IntN(1_000_000)))
		}
		for range 1 + random.IntN(50) {
			later = append(later, float64(random.IntN(1_000_000)))
		}
		want, got := momentsOf(later...), since(momentsOf(before...), momentsOf(append(before, later...)...))
		if got.count != float64(want.Count) || math.Abs(got.mean-want.MeanNs) > 1e-3 || math.Abs(got.deviation-math.Sqrt(want.VarianceNs2)) > 1e-2 {
			t.Fatalf("%+v, want %v", got, want)
		}
		earlier := momentsOf(before...)
		if known := len(before) == 0 || want.MinNs < earlier.MinNs; known && got.least != float64(want.MinNs) || !known && !math.IsNaN(got.least) {
			t.Fatalf("the least is %v of %v after %v", got.least, want, earlier)
		}
		if known := len(before) == 0 || want.MaxNs > earlier.MaxNs; known && got.greatest != float64(want.MaxNs) || !known && !math.IsNaN(got.greatest) {
			t.Fatalf("the greatest is %v of %v after %v", got.greatest, want, earlier)
		}
	}
	one := momentsOf(7)
	if got := since(one, one); got.count != 0 || !math.IsNaN(got.mean) {
		t.Errorf("nothing was measured: %+v", got)
	}
	if got := since(momentsOf(1, 2, 3), momentsOf(9)); got.count != 1 || got.mean != 9 {
		t.Errorf("the engine counts again: %+v", got)
	}
	if got := since(nil, nil); !math.IsNaN(got.count) {
		t.Errorf("an engine that does not report it: %+v", got)
	}
}

func TestCountingBeginsAnewWithAReset(t *testing.T) {
	t.Parallel()
	s := after(3, flags{})
	s.tally.reset()
	s.apply(counters.Counted{From: of, Answer: reading(4)})
	east, west := s.tally.rows(false)[0], s.tally.rows(false)[1]
	if east.packets != 0 || west.packets != 1_000_000 || west.interArrival.count != 1_000_000 || !west.began.Equal(noon.Add(3*time.Second)) {
		t.Errorf("%+v\n%+v", east, west)
	}
	if !math.IsNaN(west.interArrival.least) || west.interArrival.greatest != 40_004 {
		t.Errorf("the least may be of before, the greatest was exceeded: %+v", west.interArrival)
	}
	again := reading(5)
	again.Engine.Receivers[0].Packets, again.Engine.Receivers[0].SinceNs = 100, noon.Add(4500*time.Millisecond).UnixNano() // the receiver was reset
	s.apply(counters.Counted{From: of, Answer: again})
	if west := s.tally.rows(false)[1]; west.packets != 100 || !math.IsNaN(west.packetRate) || !west.began.Equal(noon.Add(4500*time.Millisecond)) {
		t.Errorf("%+v", west)
	}
}

func TestARunOfAnOlderEngineHasNoPortsOfReceiversAndNoTimesByWorker(t *testing.T) {
	t.Parallel()
	s := after(1, flags{})
	older := reading(2)
	older.Engine.Receivers[0].Port = ""
	for _, w := range older.Engine.Receivers[0].Workers {
		w.InterArrival, w.Jitter, w.Latency = nil, nil, nil
	}
	s.apply(counters.Counted{From: of, Answer: older})
	rows := s.tally.rows(true)
	if len(rows) != 4 || rows[0].port != "" || rows[0].packetRate != 750_000 || !math.IsNaN(rows[0].jitter.mean) {
		t.Errorf("%d rows, %+v", len(rows), rows[0])
	}
}

func TestRowsOfSeveralRunsAndPods(t *testing.T) {
	t.Parallel()
	s := after(2, flags{})
	s.runs = append(s.runs, *plugintest.Sending("web-1", "web", noon))
	for n := uint64(1); n <= 2; n++ {
		other := reading(n)
		other.Engine.ReadAtNs++ // it is read later
		other.Engine.Receivers = nil
		s.apply(counters.Counted{From: counters.Source{Run: "web-1", Pod: "lab-0"}, Answer: other})
		s.apply(counters.Counted{From: counters.Source{Run: "web-1", Pod: "lab-1"}, Answer: other})
	}
	var got []string
	for _, r := range s.tally.rows(false) {
		got = append(got, r.pod+"/"+r.port+" "+orDash(r.name))
	}
	if want := "lab-0/east -, lab-0/west tap-1a2b3-1/tap, lab-1/east -, lab-1/west -"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	if hint := s.hint(); hint != "" {
		t.Errorf("a run has a receiver: %q", hint)
	}
}

// shown is what a terminal shows, without styles and without spaces at the ends of lines.
func shown(s *screen) string {
	lines := strings.Split(ansi.Strip(s.View().Content), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func press(s *screen, keys string) (last tea.Cmd) {
	for _, key := range keys {
		_, last = s.Update(tea.KeyPressMsg{Code: key, Text: string(key)})
	}
	return last
}

func TestTheScreen(t *testing.T) {
	t.Parallel()
	s := newScreen(after(5, flags{output: formed("table")}))
	s.height = 9
	same(t, "screen.txt", shown(s))
	s.width = 140
	press(s, "bw")
	if text := shown(s); !strings.Contains(text, "WORKER") || !strings.Contains(text, "JIT MAX") {
		t.Error(text)
	}
	press(s, "r")
	if text := shown(s); !strings.Contains(text, "counting from now on") {
		t.Error(text)
	}
	s.apply(counters.Note{Text: "forbidden", IsBad: true})
	if text := shown(s); !strings.Contains(text, "\n! forbidden\n") {
		t.Error(text)
	}
	if quit := press(s, "q"); quit == nil || quit() != tea.Quit() {
		t.Error("q does not quit")
	}
	empty := newScreen(newState("generator lab", &flags{by: byPort}))
	if text := shown(empty); !strings.Contains(text, "No run is active") {
		t.Error(text)
	}
}

func TestScreensOfAnySizeFit(t *testing.T) {
	t.Parallel()
	s := newScreen(after(5, flags{output: formed("wide")}))
	for width := 1; width < 200; width += 7 {
		for _, height := range []int{1, 2, 3, 5, 8, 24} {
			s.Update(tea.WindowSizeMsg{Width: width, Height: height})
			press(s, "bj")
			lines := strings.Split(s.View().Content, "\n")
			if len(lines) != height {
				t.Fatalf("%d x %d: %d lines\n%s", width, height, len(lines), shown(s))
			}
			for _, line := range lines {
				if ansi.StringWidth(line) > width {
					t.Fatalf("%d x %d: %q", width, height, line)
				}
			}
		}
	}
}

func TestReadingEndsWhenThereIsNothingToRead(t *testing.T) {
	t.Parallel()
	ended := plugintest.Sending("tap-1", "tap", noon)
	ended.Status.Phase = spatev1.RunComplete
	pending := plugintest.RunNamed("tap-2", "tap", noon)
	for name, c := range map[string]struct {
		state *state
		want  string
	}{
		"it has ended":        {after(0, flags{}), "run tap-1 of profile tap has ended: kubectl spate result tap-1"},
		"there is none":       {after(0, flags{}), "no run of profile tap is active"},
		"it waits":            {after(0, flags{}), ""},
		"one reading":         {after(1, flags{}), ""},
		"all rates are known": {after(2, flags{}), errEnough.Error()},
	} {
		switch name {
		case "it has ended":
			c.state.apply(counters.Found{Runs: []spatev1.TrafficRun{*ended}})
		case "there is none":
			c.state.apply(counters.Found{})
		case "it waits":
			c.state.apply(counters.Found{Runs: []spatev1.TrafficRun{*pending}})
			if waiting := c.state.waiting(); waiting != "run tap-2: Pending" {
				t.Error(waiting)
			}
		}
		var out, notes bytes.Buffer
		err := c.state.printOnce(counters.Ticked{Now: noon}, &printer{to: &out, form: "table"}, &notes)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) || errors.Is(err, errEnough) != (out.Len() > 0) {
			t.Errorf("%s: %v, want %q\n%s", name, err, c.want, out.String())
		}
	}
}

func TestTheCommandRefusesWhatItCannotShow(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		"receive":                               "accepts 1 arg(s), received 0",
		"receive tap --by stream":               `--by "stream": must be port or worker`,
		"receive tap -o html":                   "-o html: must be one of table, wide, json, yaml, csv",
		"receive tap --interval 100ms":          "--interval 100ms: must be from 1s to 1m0s",
		"receive tap --duration -1s":            "--duration: must not be negative",
		"receive tap --once --watch":            "none of the others can be",
		"receive tap --once --duration=1s":      "none of the others can be",
		"receive tap --kubeconfig /nonexistent": "nonexistent",
	} {
		if _, _, err := plugintest.Run("", strings.Fields(arguments), NewCommand()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arguments, err, want)
		}
	}
}

func TestUnknownNumbersAreDashes(t *testing.T) {
	t.Parallel()
	r := &row{packetRate: figures.Unknown, bitRate: figures.Unknown, packets: figures.Unknown, bytes: figures.Unknown, otherMAC: figures.Unknown, interArrival: noTimes, jitter: noTimes, latency: noTimes}
	for i := range columns {
		if c := &columns[i]; c.number != nil && c.cell(r) != "-" {
			t.Errorf("%s: %s", c.title, c.cell(r))
		}
	}
}
