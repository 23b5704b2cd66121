// SPDX-License-Identifier: Apache-2.0

// Answers of Prometheus to the queries of dashboards, of which the dashboards' pictures are drawn (make dashboard-pictures).

package suites

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// answersFolder keeps the answers, in a file for each dashboard. Without it none are requested.
var answersFolder = os.Getenv("SPATE_ANSWERS")

// writing is held while a file of answers is read and written: tests run concurrently.
var writing sync.Mutex

// recording is what a dashboard shows of the time of a test.
type recording struct {
	Test      string            `json:"test"`
	Variables map[string]string `json:"variables"` // of the dashboard, that do not have all values
	// Seconds since 1970.
	Start   int64    `json:"start"`
	End     int64    `json:"end"`
	Step    int64    `json:"step"`
	Answers []answer `json:"answers"`
}

// answer is the data of one query.
type answer struct {
	Query   string          `json:"query"` // as the dashboard has it
	Instant bool            `json:"instant"`
	Data    json.RawMessage `json:"data"` // as Prometheus returns it: a vector at the end if the query is instant, else a matrix
}

// recordAnswers keeps the answers to the dashboards' queries about such traffic, from shortly before its start until some seconds after its end.
// Like Grafana, it has a time step that fits the range, and rates of four scrape intervals, or of one step and one scrape interval.
func recordAnswers(t *testing.T, about traffic, namespace, profile string, start, end time.Time) {
	t.Helper()
	if answersFolder == "" {
		return
	}
	const scrapeInterval, before, after, mostSteps = time.Second, 4 * time.Second, 8 * time.Second, 200
	if wait := time.Until(end.Add(after)); wait > 0 {
		time.Sleep(wait)
	}
	start, end = start.Add(-before), end.Add(after)
	step := max(time.Second, (end.Sub(start) / mostSteps).Round(time.Second))
	start, end = start.Truncate(step), end.Truncate(step)
	variables := chosen(namespace, profile, max(4*scrapeInterval, step+scrapeInterval))
	seconds := func(n int64) string { return strconv.FormatInt(n, 10) }
	byDashboard := map[string][]asked{}
	for _, q := range dashboardQueries(t) {
		if q.shown != "" {
			byDashboard[q.dashboard] = append(byDashboard[q.dashboard], q)
		}
	}
	for dashboard, queries := range byDashboard {
		// What is annotated belongs to all panels.
		annotates := func(q asked) bool { return strings.HasPrefix(q.panel, ofAnnotation) }
		shows := func(q asked) bool { return !annotates(q) && trafficOf(q.expression) == about }
		if !slices.ContainsFunc(queries, shows) {
			continue
		}
		r := recording{
			Test: t.Name(), Variables: map[string]string{"namespace": namespace, "generator_namespace": namespace, "profile": profile},
			Start: start.Unix(), End: end.Unix(), Step: int64(step.Seconds()),
		}
		for _, q := range queries {
			if !shows(q) && !annotates(q) {
				continue
			}
			parameters := url.Values{"query": {variables.Replace(q.shown)}}
			endpoint := "query_range?"
			if q.instant {
				endpoint = "query?"
				parameters.Set("time", seconds(r.End))
			} else {
				parameters.Set("start", seconds(r.Start))
				parameters.Set("end", seconds(r.End))
				parameters.Set("step", seconds(r.Step))
			}
			a := answer{Query: q.shown, Instant: q.instant}
			if err := ask(t.Context(), endpoint+parameters.Encode(), &a.Data); err != nil {
				t.Fatalf("%s, %s: %v", q.dashboard, q.panel, err)
			}
			r.Answers = append(r.Answers, a)
		}
		if err := addRecording(filepath.Join(answersFolder, dashboard+".json"), r); err != nil {
			t.Fatal(err)
		}
	}
}

// addRecording adds a recording to a file, in the place of an earlier one of the same test.
func addRecording(file string, r recording) error {
	writing.Lock()
	defer writing.Unlock()
	var all []recording
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	all = append(slices.DeleteFunc(all, func(earlier recording) bool { return earlier.Test == r.Test }), r)
	slices.SortFunc(all, func(a, b recording) int { return strings.Compare(a.Test, b.Test) })
	if text, err = json.Marshal(all); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
