// SPDX-License-Identifier: Apache-2.0

package top

// This file answers: how are the tables printed once, for scripts?

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"spate.dev/operator/internal/plugin/counters"
	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/progress"
)

// onceLimit is how long two readings of each pod may take.
const onceLimit = 30 * time.Second

// once takes two readings of each pod, and prints the tables, or only that of a view (-1: all).
func once(ctx context.Context, m *model, source *counters.Feed, to io.Writer, form *output.Flag, view int) error {
	reading, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	messages, end := source.Events(reading)
	err := m.collect(reading, messages, source.Pods)
	end()
	switch {
	case ctx.Err() != nil:
		return exit.With(exit.Interrupted, errors.New("interrupted"))
	case err != nil:
		return err
	}
	m.draw()
	return form.Write(to, m.printed(view))
}

// printed is what is printed, in every form: tables show all columns in any case.
func (m *model) printed(view int) output.Shown {
	document := m.document(view)
	var lists []output.List
	for _, part := range document {
		lists = append(lists, output.List{Name: strings.TrimSuffix(part.Name, "s"), Objects: part.Value})
	}
	return output.Shown{Document: document, Lists: lists, Tables: func(w io.Writer, _ bool) error { return m.print(w, view) }}
}

// collect applies messages until all rates are known, or nothing can be read.
func (m *model) collect(ctx context.Context, messages <-chan any, pods []string) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("not all counters were read in %s: %s", onceLimit, cmp.Or(m.note.Text, "engines do not answer"))
		case message := <-messages:
			switch message := message.(type) {
			case counters.Found:
				if message.Err != nil {
					return message.Err
				}
			case counters.Note:
				if message.IsBad {
					return errors.New(message.Text)
				}
			}
			m.Update(message)
			if _, isTick := message.(counters.Ticked); isTick && m.board.AreComplete(m.runs, pods) {
				return nil
			}
		}
	}
}

// print writes a line for each run, and the tables that have rows.
func (m *model) print(to io.Writer, only int) error {
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	if len(m.runs) == 0 {
		fmt.Fprintln(out, "No run is active.")
	}
	for i := range m.runs {
		fmt.Fprintln(out, m.runs[i].Name+"  "+progress.Line(&m.runs[i], m.now))
	}
	out.Flush() // an error is reported by the last call
	for i, v := range views {
		m.view = i
		rows := m.shown()
		if len(rows) == 0 || only >= 0 && only != i {
			continue
		}
		var titles []string
		for _, c := range v.columns {
			titles = append(titles, c.title)
		}
		fmt.Fprintln(out)
		fmt.Fprintln(out, strings.Join(titles, "\t"))
		for _, r := range rows {
			var cells []string
			for at := range v.columns {
				cells = append(cells, r.cell(v.columns, at))
			}
			fmt.Fprintln(out, strings.Join(cells, "\t"))
		}
		out.Flush()
	}
	return out.Flush()
}

// document has the runs, and the rows of each view, or of only one (-1: all), by the names of fields. What was not measured is null.
func (m *model) document(only int) output.Object {
	shown := []output.Object{}
	for i := range m.runs {
		run := &m.runs[i]
		shown = append(shown, output.Object{
			{Name: "name", Value: run.Name}, {Name: "phase", Value: run.Status.Phase}, {Name: "paused", Value: run.Status.Paused},
			{Name: "rateFactor", Value: run.Status.RateFactor}, {Name: "progress", Value: run.Status.Progress},
		})
	}
	document := output.Object{{Name: "runs", Value: shown}}
	for i, v := range views {
		if only >= 0 && only != i {
			continue
		}
		m.view = i
		list := []output.Object{}
		for _, r := range m.shown() {
			var item output.Object
			for at, c := range v.columns {
				field := output.Field{Name: c.field}
				switch {
				case at < len(r.texts):
					field.Value = r.texts[at]
				case !math.IsNaN(r.values[at-len(r.texts)]):
					field.Value = r.values[at-len(r.texts)]
				}
				item = append(item, field)
			}
			list = append(list, item)
		}
		document = append(document, output.Field{Name: strings.ToLower(v.name), Value: list})
	}
	return document
}
