// SPDX-License-Identifier: Apache-2.0

package browser

// This file tests how dashboards are drawn, and draws the pictures of docs/dashboards.md, of what Prometheus answered in the suites in the cluster.

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var (
	//go:embed board.js
	boardScript string
	//go:embed board.css
	boardStyle string
	// boardFaults lists what is wrong with how a dashboard is drawn.
	//go:embed board_faults.js
	boardFaults string
)

// boards are the dashboards by the names of their files.
func boards(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../../dashboards/*.json")
	if err != nil || len(files) < 6 {
		t.Fatalf("dashboards %q: %v", files, err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".json")
	}
	return files
}

// board shows a dashboard with the answers of a file, or with none if it is "".
func board(t *testing.T, name, answers string) *tab {
	t.Helper()
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	recordings := "[]"
	if answers != "" {
		recordings = read(answers)
	}
	charts := os.Getenv("SPATE_UPLOT")
	if charts == "" {
		t.Fatal("SPATE_UPLOT, the folder of uPlot, is not set (make test-report does so)")
	}
	var constants bytes.Buffer
	for _, c := range [][2]string{{"dashboard", read("../../../dashboards/" + name + ".json")}, {"recordings", recordings}} {
		fmt.Fprintf(&constants, "const %s = ", c[0])
		json.HTMLEscape(&constants, []byte(c[1]))
		constants.WriteString(";\n")
	}
	file := filepath.Join(t.TempDir(), name+".html")
	text := "<!doctype html>\n<meta charset=\"utf-8\">\n<title>" + name + "</title>\n<link rel=\"icon\" href=\"data:,\">\n" +
		"<style>\n" + read(filepath.Join(charts, "uplot.min.css")) + boardStyle + "</style>\n<body>\n" +
		"<script>\n" + read(filepath.Join(charts, "uplot.iife.min.js")) + "</script>\n" +
		"<script>\n" + constants.String() + "</script>\n<script>\n" + boardScript + "</script>\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return show(t, file, desktop, "screen", "dark")
}

func TestDashboardsAreDrawnAsTheyAreLaidOut(t *testing.T) {
	t.Parallel()
	for _, name := range boards(t) {
		// Of two of them, which have all kinds of panels, answers are kept, of a Prometheus with composed series. The others have no data.
		answers := filepath.Join("testdata", name+".json")
		if _, err := os.Stat(answers); err != nil {
			answers = ""
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := board(t, name, answers)
			for _, fault := range value[[]string](p, boardFaults) {
				t.Error(fault)
			}
			p.quiet()
		})
	}
}

// texts of elements of the panel with a title.
func (p *tab) texts(title, selector string) []string {
	p.Helper()
	return value[[]string](p, fmt.Sprintf(`Array.from(Array.from(document.querySelectorAll("section:not(.row)")).find((s) => s.querySelector("h2").textContent === %q).querySelectorAll(%q), (e) => e.textContent)`, title, selector))
}

func TestDashboardsShowTheNumbersOfTheAnswers(t *testing.T) {
	t.Parallel()
	p := board(t, "run", "testdata/run.json")
	for _, want := range []struct {
		title, selector string
		texts           []string
	}{
		{"State", "strong", []string{"Complete"}},
		{"Verdict", "strong", []string{"Passed: ThresholdsMet"}},
		{"Sent", "strong", []string{"264 K"}},
		{"Duplicates, out of order", "small", []string{"duplicates", "out of order"}},
		{"Thresholds", "tbody tr:first-child td", []string{"imix-60fa7-1", "in-order", "Yes"}},
		{"Packet rate", "thead th", []string{"Name", "Mean", "Max", "Last *"}},
		{"Packet rate", "tbody tr:first-child td", []string{"requested", "24 kp/s", "24 kp/s", "24 kp/s"}},
		{"Foreign packets by receiver", "p", []string{"No data"}},
	} {
		if got := p.texts(want.title, want.selector); !slices.Equal(got, want.texts) {
			t.Errorf("%s, %s: %q, want %q", want.title, want.selector, got, want.texts)
		}
	}
	p.quiet()
}

func TestNumbersAreShownInGrafanasUnits(t *testing.T) {
	t.Parallel()
	p := board(t, "run", "")
	for expression, want := range map[string]string{
		`units.short(999)`: "999", `units.short(1234.5)`: "1.23 K", `units.short(2.5e9)`: "2.50 Bil", `units.short(0.0123)`: "0.0123", `units.short(-1500)`: "-1.50 K",
		`units.pps(24000)`: "24 kp/s", `units.pps(0)`: "0 p/s", `units.pps(0.25)`: "250 mp/s", `units.bps(9.87e9)`: "9.87 Gb/s",
		`units.cps(312.4)`: "312 c/s", `units.reqps(1250)`: "1.25K req/s", `units.bytes(1536)`: "1.50 KiB",
		`units.s(0)`: "0 s", `units.s(8.1234e-5)`: "81.2 µs", `units.s(0.0025)`: "2.50 ms", `units.s(90)`: "1.50 mins", `units.s(7776000)`: "12.9 weeks",
		`units.percentunit(0.1234)`: "12.3%", `units.percentunit(1)`: "100%", `units.percentunit(0.07)`: "7%", `units.bool_yes_no(0)`: "No", `units.bool_on_off(1)`: "On",
		`units.dateTimeFromNow(0, 8000)`: "a few seconds ago", `units.dateTimeFromNow(7776000000, 0)`: "in 3 months", `units.dateTimeFromNow(0, 600000)`: "10 minutes ago",
		`onAxis("0.500 s")`: "0.5 s", `onAxis("20 kp/s")`: "20 kp/s", `onAxis("1.00 K")`: "1 K", `onAxis("12.50%")`: "12.5%",
	} {
		if got := value[string](p, expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
	p.quiet()
}

// The pictures of docs/dashboards.md are small. SPATE_ANSWERS is the folder of what was recorded, SPATE_PICTURES that of the pictures.
func TestPicturesOfDashboards(t *testing.T) {
	answers, into := os.Getenv("SPATE_ANSWERS"), cmp.Or(os.Getenv("SPATE_PICTURES"), t.TempDir())
	if answers == "" {
		t.Skip("SPATE_ANSWERS is not set (make dashboard-pictures)")
	}
	const most = 200_000 // bytes
	for _, name := range boards(t) {
		p := board(t, name, filepath.Join(answers, name+".json"))
		for _, fault := range value[[]string](p, boardFaults) {
			t.Errorf("%s: %s", name, fault)
		}
		if empty := value[[]string](p, `Array.from(document.querySelectorAll("section.empty h2"), (h) => h.textContent)`); len(empty) > 0 {
			t.Logf("%s: no data in %q", name, empty)
		}
		p.do(chromedp.EmulateViewport(desktop, value[int64](p, "document.documentElement.scrollHeight")))
		var picture []byte
		for quality := int64(82); quality >= 30 && (picture == nil || len(picture) > most); quality -= 8 {
			r, err := chromedp.Call(p.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: &quality})
			if err != nil {
				t.Fatal(err)
			}
			picture = r.Data
		}
		if len(picture) > most {
			t.Errorf("%s has %d bytes", name, len(picture))
		}
		if err := os.WriteFile(filepath.Join(into, "dashboard-"+name+".webp"), picture, 0o644); err != nil {
			t.Error(err)
		}
		t.Logf("%s: %d bytes", name, len(picture))
		p.quiet()
	}
}
