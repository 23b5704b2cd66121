// SPDX-License-Identifier: Apache-2.0

package top

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plugin/counters"
)

func TestScreens(t *testing.T) {
	for file, c := range map[string]struct {
		keys          []string
		width, height int
	}{
		"ports.txt":     {nil, 80, 24},
		"wide.txt":      {nil, 160, 12},
		"streams.txt":   {[]string{"2"}, 80, 24},
		"templates.txt": {[]string{"3"}, 80, 24},
		"latency.txt":   {[]string{"4"}, 80, 24},
		"workers.txt":   {[]string{"5"}, 80, 24},
		"help.txt":      {[]string{"?"}, 80, 24},
		"sorted.txt":    {[]string{"2", "s", "S", "/", "i", "m", "enter"}, 80, 24},
		"narrow.txt":    {nil, 40, 10},
	} {
		t.Run(file, func(t *testing.T) {
			m := scene(actions{})
			m.Update(tea.WindowSizeMsg{Width: c.width, Height: c.height})
			press(m, c.keys...)
			same(t, file, screen(m))
		})
	}
}

// The documentation shows what the command does.
func TestTheScreenInTheDocumentationIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/top.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"ports.txt", "streams.txt"} {
		want, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		empty := regexp.MustCompile(`\n{3,}`) // the page omits empty lines
		if shown := empty.ReplaceAllString(string(want), "\n\n"); !strings.Contains(string(page), "```text\n"+shown+"```\n") {
			t.Errorf("docs/top.md lacks the screen of testdata/%s:\n%s", file, shown)
		}
	}
	if !strings.Contains(string(page), help) {
		t.Error("docs/top.md lacks the help")
	}
}

func TestScreensOfAnySizeFit(t *testing.T) {
	m := scene(actions{})
	m.Update(counters.Note{Text: strings.Repeat("a long refusal ", 20), IsBad: true})
	for width := 1; width < 200; width += 3 {
		for _, height := range []int{3, 5, 8, 24, 60} {
			m.Update(tea.WindowSizeMsg{Width: width, Height: height})
			for _, key := range []string{"1", "2", "3", "4", "5", "?", "r", "esc", "/", "enter", "x", "n"} {
				press(m, key)
				lines := strings.Split(m.View().Content, "\n")
				if len(lines) != height {
					t.Fatalf("%d x %d, %s: %d lines\n%s", width, height, key, len(lines), screen(m))
				}
				for _, line := range lines {
					if ansi.StringWidth(line) > width {
						t.Fatalf("%d x %d, %s: %q has %d columns", width, height, key, line, ansi.StringWidth(line))
					}
				}
			}
			press(m, "esc")
		}
	}
}

func TestRowsAreSortedAndFiltered(t *testing.T) {
	m := scene(actions{})
	first := func() string { return m.shown()[0].id }
	press(m, "2")
	if first() != "flood" {
		t.Errorf("by name: %s is first", first())
	}
	press(m, "s") // TX PPS
	if first() != "imix-64" {
		t.Errorf("by rate: %s is first", first())
	}
	press(m, "S")
	if first() != "flood" {
		t.Errorf("by rate, reversed: %s is first", first())
	}
	press(m, "S", "s", "s", "s") // LOST PPM, which is unknown of one
	if first() != "imix-64" {
		t.Errorf("by loss: %s is first", first())
	}
	press(m, "/", "F", "L")
	if rows := m.shown(); len(rows) != 1 || first() != "flood" {
		t.Errorf("while typing: %d rows", len(rows))
	}
	press(m, "x", "enter")
	if text := screen(m); !strings.Contains(text, `No row has "FLx": Esc removes the filter.`) {
		t.Error(text)
	}
	press(m, "/", "backspace", "enter")
	if len(m.shown()) != 1 {
		t.Errorf("%d rows", len(m.shown()))
	}
	press(m, "esc")
	if len(m.shown()) != 2 {
		t.Errorf("without a filter: %d rows", len(m.shown()))
	}
}

func TestTheDisplayPausesAndTheReadingDoesNot(t *testing.T) {
	m := scene(actions{})
	next := func(n uint64) {
		m.Update(counters.Counted{From: counters.Source{Run: "imix-1a2b3-4", Pod: "lab-0"}, Answer: stats(n, func(s *enginev1.WatchStatsResponse) { s.Ports[0].TxPackets += 1_000_000 })})
		m.Update(counters.Ticked{Now: noon.Add(time.Duration(n) * time.Second)})
	}
	press(m, "p")
	next(13)
	if text := screen(m); !strings.Contains(text, "DISPLAY PAUSED") || strings.Contains(text, "2.00M") {
		t.Error(text)
	}
	press(m, " ")
	m.Update(counters.Ticked{Now: noon.Add(13 * time.Second)})
	if text := screen(m); strings.Contains(text, "PAUSED") || !strings.Contains(text, "2.00M") {
		t.Error(text)
	}
}

func TestRatesAreUnknownWhenReadingsStayAway(t *testing.T) {
	m := scene(actions{})
	for n := range counters.StaleAfter {
		if !strings.Contains(screen(m), "1.00M") {
			t.Errorf("after %d s:\n%s", n, screen(m))
		}
		m.Update(counters.Ticked{Now: noon})
	}
	if text := screen(m); strings.Contains(text, "1.00M") || !strings.Contains(text, "lab-0/east") {
		t.Error(text)
	}
}

func TestACounterThatGrowsIsMarkedForAWhile(t *testing.T) {
	m := scene(actions{})
	marked := func() bool { return strings.Contains(screen(m), "9!") }
	for n := uint64(13); n <= 17; n++ {
		m.Update(counters.Counted{From: counters.Source{Run: "imix-1a2b3-4", Pod: "lab-0"}, Answer: stats(n, func(s *enginev1.WatchStatsResponse) { s.Ports[0].RxMissed = 9 })})
		m.Update(counters.Ticked{Now: noon.Add(time.Duration(n) * time.Second)})
		if want := n < 13+markLength; marked() != want {
			t.Errorf("after %d s: marked %v\n%s", n-12, marked(), screen(m))
		}
	}
}

func TestRunsAreChangedByKeys(t *testing.T) {
	var done []string
	m := scene(actions{
		setRate: func(run, rate string) (string, error) {
			done = append(done, run+" "+rate)
			if rate == "much" {
				return "", errors.New("RATE much: must be a factor such as 2x\nor a rate")
			}
			return "run " + run + ": rate set to " + rate + "\n", nil
		},
		stop: func(run string) (string, error) {
			done = append(done, "stop "+run)
			return "run " + run + " is being stopped", nil
		},
	})
	for _, c := range []struct {
		keys       []string
		done, says string
	}{
		{[]string{"+"}, "imix-1a2b3-4 +10%", "rate set to +10%"},
		{[]string{"-"}, "imix-1a2b3-4 -10%", "rate set to -10%"},
		{[]string{"r", "2"}, "", "rate of run imix-1a2b3-4 (2x, 1Mpps, 80%, +5%): 2_"},
		{[]string{"x", "enter"}, "imix-1a2b3-4 2x", "rate set to 2x"},
		{[]string{"r", "3", "x", "esc"}, "", "rate set to 2x"},
		{[]string{"r", "much", "enter"}, "imix-1a2b3-4 much", "! RATE much: must be a factor such as 2x; or a rate"},
		{[]string{"x"}, "", "stop run imix-1a2b3-4? It cannot be undone. y, or any other key"},
		{[]string{"n"}, "", "not stopped"},
		{[]string{"x", "y"}, "stop imix-1a2b3-4", "run imix-1a2b3-4 is being stopped"},
	} {
		done = nil
		press(m, c.keys...)
		if got := strings.Join(done, ", "); got != c.done || !strings.Contains(screen(m), c.says) {
			t.Errorf("%q: %q, want %q\n%s", c.keys, got, c.done, screen(m))
		}
	}

	t.Run("the run that was confirmed, although another is selected now", func(t *testing.T) {
		done = nil
		press(m, "x")
		m.Update(counters.Found{Runs: []spatev1.TrafficRun{imix("other")}})
		press(m, "y")
		if got := strings.Join(done, ", "); got != "stop imix-1a2b3-4" {
			t.Errorf("%q", got)
		}
	})
	t.Run("one of several", func(t *testing.T) {
		done = nil
		m.Update(counters.Found{Runs: []spatev1.TrafficRun{imix("a"), imix("b"), imix("c"), imix("d"), imix("e"), imix("f")}})
		press(m, "[", "+", "]", "]", "+")
		if got := strings.Join(done, ", "); got != "f +10%, b +10%" || !strings.Contains(screen(m), "> b  Running") || !strings.Contains(screen(m), "and 2 more") {
			t.Errorf("%q\n%s", got, screen(m))
		}
	})
	t.Run("none that has ended", func(t *testing.T) {
		done = nil
		ended := imix("a")
		ended.Status.Phase, ended.Status.Verdict = spatev1.RunComplete, &spatev1.Verdict{Outcome: spatev1.VerdictPassed}
		m.Update(counters.Found{Runs: []spatev1.TrafficRun{ended}})
		press(m, "+", "x", "y")
		if text := screen(m); len(done) != 0 || !strings.Contains(text, "! run a has ended") || !strings.Contains(text, "a  Complete: Passed") {
			t.Errorf("%q\n%s", done, text)
		}
		m.Update(counters.Found{})
		press(m, "r")
		if text := screen(m); !strings.Contains(text, "! there is no run") || !strings.Contains(text, "No run is active.") {
			t.Error(text)
		}
	})
	m.Update(tea.PasteMsg{Content: "q2"})
	if m.view != 0 {
		t.Error("what is pasted is no key")
	}
	press(m, "/", "i")
	m.Update(tea.PasteMsg{Content: "mi\r\n\tx\x1b"})
	if press(m, "enter"); m.filter != "imix" {
		t.Errorf("what is pasted is text of the filter: %q", m.filter)
	}
	for _, key := range []string{"q", "ctrl+c"} {
		m.note = counters.Note{}
		if press(m, key); m.note.Text != "quit" {
			t.Errorf("%s does not quit", key)
		}
	}
}

func TestManyRowsScroll(t *testing.T) {
	m := newModel("run big", actions{})
	m.Update(counters.Found{Runs: []spatev1.TrafficRun{imix("big")}})
	answer := stats(1, func(s *enginev1.WatchStatsResponse) {
		s.Streams = nil
		for i := range 100 {
			s.Streams = append(s.Streams, &enginev1.StreamStats{Name: fmt.Sprintf("s%02d", i)})
		}
	})
	answer.Omitted = 500
	m.Update(counters.Counted{From: counters.Source{Run: "big", Pod: "lab-0"}, Answer: answer})
	m.Update(counters.Ticked{Now: noon})
	press(m, "2")
	if text := screen(m); !strings.Contains(text, "\ns00 ") || strings.Contains(text, "\ns18 ") || !strings.Contains(text, "500 streams and sides of templates are not shown") {
		t.Error(text)
	}
	press(m, "down", "down", "up", "pgdown")
	if text := screen(m); !strings.Contains(text, "\ns19 ") || strings.Contains(text, "\ns18 ") {
		t.Error(text)
	}
	press(m, "pgdown", "pgdown", "pgdown", "pgdown", "pgdown", "pgdown")
	if text := screen(m); !strings.Contains(text, "\ns82 ") || !strings.Contains(text, "\ns99 ") {
		t.Error(text)
	}
}
