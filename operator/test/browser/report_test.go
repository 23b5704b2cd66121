// SPDX-License-Identifier: Apache-2.0

// Package browser tests in a browser what users see: the pages of reports (docs/reports), which kubectl spate report writes. It draws dashboards, too.
package browser

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// folder has the reports; a test of kubectl spate report keeps them current.
const folder = "../../../docs/reports"

var (
	// faults lists what is wrong with how a report is shown.
	//go:embed report.js
	faults string

	browser context.Context
)

// Without a browser nothing is tested, which is a failure.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		program, err := exec.LookPath("chromium")
		if err != nil {
			fmt.Fprintln(os.Stderr, err, "(make test-report installs it)")
			return 1
		}
		// Chromium's sandbox refuses root, and the pages are our own.
		ctx, end := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(chromedp.ExecPath(program), chromedp.NoSandbox))
		defer end()
		if err := chromedp.Do(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "chromium does not start:", err)
			return 1
		}
		browser = ctx
		return m.Run()
	}())
}

// Widths of pages, in px.
const (
	phone, desktop = 390, 1280
	// paper is A4 between margins of 14 mm, at 96 px an inch.
	paper = 688
)

// tab is a page in a tab of its own.
type tab struct {
	*testing.T
	ctx      context.Context
	messages func(func(chromedp.ConsoleMessage, error) bool)
}

// open shows a report on a screen.
func open(t *testing.T, report string, width int64, media, scheme string) *tab {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(folder, report+".html"))
	if err != nil {
		t.Fatal(err)
	}
	return show(t, path, width, media, scheme)
}

// show opens a file, by its absolute path, on a screen.
func show(t *testing.T, path string, width int64, media, scheme string) *tab {
	t.Helper()
	limited, cancel := context.WithTimeout(browser, 2*time.Minute)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewContext(limited)
	t.Cleanup(end)
	p := &tab{T: t, ctx: ctx, messages: chromedp.Console(ctx)}
	p.do(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}), chromedp.Navigate("file://"+path))
	return p
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.Fatal(err)
	}
}

// value of an expression.
func value[T any](p *tab, expression string) T {
	p.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.Fatalf("%v in %s", err, expression)
	}
	return v
}

// quiet fails if the browser has reported anything: errors of the script, and what the page's policy does not allow.
func (p *tab) quiet() {
	p.Helper()
	const last = "end of the test"
	value[any](p, "console.log("+strconv.Quote(last)+")")
	for m, err := range p.messages {
		switch {
		case err != nil:
			p.Fatal(err)
		case m.Text == last:
			return
		default:
			p.Errorf("the browser reports %s (%s:%d)", m, m.URL, m.Line)
		}
	}
}

var reports = map[string]string{"passed": "Passed", "failed": "Failed", "invalid": "Invalid"}

func TestReportsAreShownWhole(t *testing.T) {
	t.Parallel()
	for report, outcome := range reports {
		for _, screen := range []struct {
			width         int64
			media, scheme string
		}{{phone, "screen", "light"}, {phone, "screen", "dark"}, {desktop, "screen", "light"}, {desktop, "screen", "dark"}, {paper, "print", "light"}, {paper, "print", "dark"}} {
			t.Run(fmt.Sprintf("%s, %d px, %s, %s", report, screen.width, screen.media, screen.scheme), func(t *testing.T) {
				t.Parallel()
				p := open(t, report, screen.width, screen.media, screen.scheme)
				for _, fault := range value[[]string](p, faults) {
					t.Error(fault)
				}
				if got := value[string](p, `document.querySelector(".outcome").textContent`); got != outcome {
					t.Errorf("the verdict is %q", got)
				}
				if bottom := value[float64](p, `document.querySelector(".outcome").getBoundingClientRect().bottom`); bottom > 200 {
					t.Errorf("the verdict ends %g px below the top", bottom)
				}
				dark := value[float64](p, `Number(getComputedStyle(document.body).backgroundColor.match(/\d+/)[0])`) < 128
				if want := screen.scheme == "dark" && screen.media == "screen"; dark != want {
					t.Errorf("the ground is dark: %t", dark)
				}
				p.quiet()
			})
		}
	}
}

// streams is the table of streams, an expression.
const streams = `Array.from(document.querySelectorAll("table")).find((t) => t.tHead.rows[0].cells[0].textContent.startsWith("STREAM"))`

// column returns the texts of a column of the table of streams, of rows that are shown.
func (p *tab) column(number int) []string {
	p.Helper()
	return value[[]string](p, fmt.Sprintf(`Array.from(%s.tBodies[0].rows).filter((row) => row.checkVisibility()).map((row) => row.cells[%d].textContent)`, streams, number))
}

func TestTablesSortByAClick(t *testing.T) {
	t.Parallel()
	p := open(t, "failed", desktop, "screen", "light")
	number := func(text string) int {
		n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	sent := func() (all []int) {
		for _, text := range p.column(1) {
			all = append(all, number(text))
		}
		return all
	}
	before := sent()
	value[any](p, streams+`.tHead.rows[0].cells[1].querySelector("button").id = "sort"`)
	p.do(chromedp.Click(chromedp.CSS("#sort")))
	up := sent()
	if len(up) != 11 || !slices.IsSorted(up) || slices.Equal(up, before) {
		t.Errorf("after a click: %v; before: %v", up, before)
	}
	p.do(chromedp.Click(chromedp.CSS("#sort")))
	slices.Reverse(up)
	if down := sent(); !slices.Equal(down, up) {
		t.Errorf("after two clicks: %v", down)
	}
	if order := value[string](p, `document.getElementById("sort").parentElement.getAttribute("aria-sort")`); order != "descending" {
		t.Errorf("a screen reader hears %q", order)
	}
	p.quiet()
}

func TestTablesAreSearched(t *testing.T) {
	t.Parallel()
	p := open(t, "failed", phone, "screen", "light")
	value[any](p, streams+`.parentElement.querySelector("input").id = "search"`)
	p.do(chromedp.SendKeys(chromedp.CSS("#search"), "VOICE"))
	if names := p.column(0); !slices.Equal(names, []string{"branch-voice-ef"}) {
		t.Errorf("%q", names)
	}
	value[any](p, `document.getElementById("search").select()`) // what is typed replaces it
	p.do(chromedp.SendKeys(chromedp.CSS("#search"), "no such stream"))
	if names := p.column(0); len(names) != 0 {
		t.Errorf("%q", names)
	}
	p.quiet()
}

// pages finds the pages of a PDF, whose objects Chromium does not compress.
var (
	pages = regexp.MustCompile(`/Type\s*/Page\b`)
	boxes = regexp.MustCompile(`/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]`)
)

func TestReportsPrintOnA4(t *testing.T) {
	t.Parallel()
	for report, most := range map[string]int{"passed": 5, "failed": 7, "invalid": 6} {
		t.Run(report, func(t *testing.T) {
			t.Parallel()
			p := open(t, report, desktop, "", "dark")
			document, err := chromedp.Run(p.ctx, chromedp.PrintToPDF(chromedp.PDFPreferCSSPageSize()))
			if err != nil {
				t.Fatal(err)
			}
			if n := len(pages.FindAll(document, -1)); n < 2 || n > most {
				t.Errorf("%d pages", n)
			}
			for _, box := range boxes.FindAllSubmatch(document, -1) {
				for i, want := range []float64{595, 842} { // points
					if got, _ := strconv.ParseFloat(string(box[i+1]), 64); got < want-1 || got > want+1 {
						t.Errorf("a page is %s by %s points", box[1], box[2])
					}
				}
			}
			p.quiet()
		})
	}
}

// The pictures of the documents are small. SPATE_PICTURES is the folder that keeps them.
func TestPictures(t *testing.T) {
	into := cmp.Or(os.Getenv("SPATE_PICTURES"), t.TempDir())
	for _, picture := range []struct {
		name, report  string
		width, height int64
		scheme        string
	}{
		{"report-passed", "passed", desktop, 1320, "light"}, {"report-failed", "failed", desktop, 1560, "light"}, {"report-invalid", "invalid", desktop, 1320, "dark"}, {"report-phone", "failed", phone, 1100, "dark"},
	} {
		p := open(t, picture.report, picture.width, "screen", picture.scheme)
		p.do(chromedp.EmulateViewport(picture.width, picture.height))
		quality := int64(82)
		r, err := chromedp.Call(p.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: &quality})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Data) > 150<<10 {
			t.Errorf("%s has %d KiB", picture.name, len(r.Data)>>10)
		}
		if err := os.WriteFile(filepath.Join(into, picture.name+".webp"), r.Data, 0o644); err != nil {
			t.Error(err)
		}
	}
}
