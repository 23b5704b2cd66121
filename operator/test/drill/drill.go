// SPDX-License-Identifier: Apache-2.0

// Package drill records what tests that inject a fault have measured: how long until it was detected, what the API
// reported, and what was kept. `make drills` prints one table of them.
package drill

// This file answers: what is a row of the table, and how does a test fill it in?

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ResultsVariable names the file that rows are appended to, one JSON object a line. Unset: they are only logged.
	ResultsVariable = "DRILLS_RESULTS"
	// WholeVariable, if set to "all", runs the drills that take longer than `make test` has time for.
	WholeVariable = "DRILLS"
)

// Row is what a drill has shown.
type Row struct {
	Fault string `json:"fault"`
	// Detected is the time from the fault until the API, or whatever else a user looks at, showed it.
	Detected time.Duration `json:"detectedNs"`
	// Seen is false for a fault that need not be reported: nothing was lost by it.
	Seen bool `json:"seen"`
	// Reported are conditions and events with their reasons, as the API had them.
	Reported []string `json:"reported"`
	// Kept is what was not lost, each with the number that shows it.
	Kept []string `json:"kept"`
	// Missed is the promise that was not held; empty if all were.
	Missed string `json:"missed,omitempty"`
}

// Drill is one fault that is being drilled.
type Drill struct {
	t     *testing.T
	limit time.Duration

	mu     sync.Mutex
	row    Row
	struck time.Time
}

// Long skips a drill that is run by `make drills`, `make drills-cluster` and `make drills-sriov` only.
func Long(t *testing.T) {
	t.Helper()
	if os.Getenv(WholeVariable) != "all" {
		t.Skip("takes longer than `make test` has time for: `make drills`, `make drills-cluster` or `make drills-sriov` runs it")
	}
}

// New begins a row. A drill that takes longer than its limit ends the whole test program, with the stacks of all it waits for.
func New(t *testing.T, fault string, limit time.Duration) *Drill {
	t.Helper()
	d := &Drill{t: t, limit: limit, row: Row{Fault: fault}}
	watchdog := time.AfterFunc(limit, func() {
		d.write(fmt.Sprintf("hangs: not over after %s", limit))
		panic(fmt.Sprintf("drill %q: not over after %s", fault, limit))
	})
	t.Cleanup(func() {
		watchdog.Stop()
		missed := ""
		switch {
		case t.Failed():
			missed = "see the log of " + t.Name()
		case t.Skipped():
			missed = "not run: this machine lacks what the log of " + t.Name() + " names"
		}
		d.write(missed)
	})
	return d
}

// Strike notes that the fault happens now.
func (d *Drill) Strike() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.struck = time.Now()
}

// Detected notes that the fault shows now, where a user looks. The first call counts; it must come within the promised time.
func (d *Drill) Detected(within time.Duration) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.row.Seen {
		return
	}
	d.row.Seen, d.row.Detected = true, time.Since(d.struck)
	if d.row.Detected > within {
		d.t.Errorf("detected after %s, promised within %s", d.row.Detected, within)
	}
}

// Reports notes a condition that the API has.
func (d *Drill) Reports(kind string, c *metav1.Condition) {
	if c == nil {
		return
	}
	d.ReportsText(fmt.Sprintf("%s %s=%s %s", kind, c.Type, c.Status, c.Reason))
}

// ReportsText notes what else reports the fault: an event, a refusal, an end.
func (d *Drill) ReportsText(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.row.Reported, text) {
		d.row.Reported = append(d.row.Reported, text)
	}
}

// Kept notes what was not lost.
func (d *Drill) Kept(format string, values ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.row.Kept = append(d.row.Kept, fmt.Sprintf(format, values...))
}

func (d *Drill) write(missed string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.row.Missed = missed
	text, err := json.Marshal(d.row)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	d.t.Logf("drill: %s", text)
	path := os.Getenv(ResultsVariable)
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = file.Write(append(text, '\n'))
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		d.t.Errorf("%s: %v", ResultsVariable, err)
	}
}

// header is the first line of the table.
var header = []string{"fault", "detected after", "condition and reason", "what was kept", ""}

// cells are those of the row in the table.
func (r *Row) cells() []string {
	detected := "nothing to detect"
	if r.Seen {
		detected = fmt.Sprintf("%.1f s", r.Detected.Seconds())
	}
	held := "held"
	if r.Missed != "" {
		held = "MISSED: " + r.Missed
	}
	return []string{r.Fault, detected, strings.Join(r.Reported, "; "), strings.Join(r.Kept, "; "), held}
}

// line returns a line of a Markdown table without padding.
func line(cells []string) string {
	var out strings.Builder
	for _, cell := range cells {
		out.WriteString(strings.TrimRight("| "+cell, " ") + " ")
	}
	return out.String() + "|"
}

// Faults returns the faults of the rows of a document's table, in its order.
func Faults(document string) []string {
	var faults []string
	within := false
	for text := range strings.Lines(document) {
		switch text = strings.TrimSpace(text); {
		case text == line(header):
			within = true
		case !strings.HasPrefix(text, "| "):
			within = within && strings.HasPrefix(text, "|--")
		case within:
			fault, _, _ := strings.Cut(strings.TrimPrefix(text, "| "), " | ")
			faults = append(faults, fault)
		}
	}
	return faults
}

// Renew returns a document with rows in place of those of the same faults in its table, and those of other faults at the table's end.
func Renew(document string, rows []Row) (string, error) {
	lines := strings.Split(document, "\n")
	begin := slices.Index(lines, line(header)) + 2
	if begin < 2 {
		return "", fmt.Errorf("the document has no table that begins with %s", line(header))
	}
	end := begin
	for end < len(lines) && strings.HasPrefix(lines[end], "| ") {
		end++
	}
	for _, row := range rows {
		renewed := line(row.cells())
		if at := slices.IndexFunc(lines[begin:end], func(old string) bool { return strings.HasPrefix(old, "| "+row.Fault+" | ") }); at >= 0 {
			lines[begin+at] = renewed
			continue
		}
		lines = slices.Insert(lines, end, renewed)
		end++
	}
	return strings.Join(lines, "\n"), nil
}

// Table prints rows as Markdown.
func Table(rows []Row) string {
	cells := [][]string{header}
	for _, r := range rows {
		cells = append(cells, r.cells())
	}
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var out strings.Builder
	for n, line := range cells {
		for i, cell := range line {
			fmt.Fprintf(&out, "| %-*s ", widths[i], cell)
		}
		out.WriteString("|\n")
		if n == 0 {
			for _, width := range widths {
				out.WriteString("|" + strings.Repeat("-", width+2))
			}
			out.WriteString("|\n")
		}
	}
	return out.String()
}
