// SPDX-License-Identifier: Apache-2.0

package status

// This file answers: how is the overview written as tables?

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/output"
)

// shown is the overview in every form. Namespaces are shown in tables where there may be several.
func (o *overview) shown(namespaces bool) output.Shown {
	return output.Shown{
		Document: o,
		Lists: []output.List{
			{Name: "run", Objects: o.Runs}, {Name: "waiting", Objects: o.Waiting}, {Name: "generator", Objects: o.Generators}, {Name: "search", Objects: o.Searches},
		},
		Tables: func(w io.Writer, wide bool) error { return o.write(w, namespaces, wide) },
	}
}

// write writes a table for each part that is not empty. Namespaces are shown where there may be several.
func (o *overview) write(w io.Writer, namespaces, wide bool) error {
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	tables := 0
	table := func(headings string, rows [][]string) {
		if len(rows) == 0 {
			return
		}
		if tables++; tables > 1 {
			fmt.Fprintln(out)
		}
		if namespaces {
			headings = "NAMESPACE," + headings
		}
		fmt.Fprintln(out, strings.ReplaceAll(headings, ",", "\t"))
		for _, row := range rows {
			if !namespaces {
				row = row[1:]
			}
			fmt.Fprintln(out, strings.Join(row, "\t"))
		}
		out.Flush() // an error is reported by the last call
	}
	if len(o.Runs)+len(o.Waiting) == 0 {
		fmt.Fprintln(out, "No run is active, and nothing waits.")
		tables++
	}
	headings := "RUN,PROFILE,GENERATOR,PHASE,ELAPSED,TX,RX,LOSS"
	if wide {
		headings += ",CONNECTIONS,STAGE,LEFT,FACTOR"
	}
	table(headings, o.runRows(wide))
	table("WAITS,NAME,REASON,MESSAGE", o.waitingRows())
	headings = "GENERATOR,READY,PODS,PORTS,RUNS,REASON"
	if wide {
		headings += ",MEASUREMENT,MACHINE,PORTS DOWN,ENGINE"
	}
	table(headings, o.generatorRows(wide))
	table("SEARCH,PROFILE,PHASE,PROGRESS", o.searchRows())
	return out.Flush()
}

// orDash stands for what is not known or not there.
func orDash(text string) string { return cmp.Or(text, "-") }

func (o *overview) runRows(wide bool) (rows [][]string) {
	for _, r := range o.Runs {
		p := cmp.Or(r.Progress, &spatev1.RunProgress{})
		phase := string(r.Phase)
		if r.Paused {
			phase += " (paused)"
		}
		row := []string{r.Namespace, r.Name, r.Profile, inNamespace(r.Generator, r.Namespace), phase, orDash(r.Elapsed), orDash(p.TxRate), orDash(p.RxRate), orDash(p.LossRatio)}
		if wide {
			row = append(row, orDash(p.ConnectionRate), orDash(p.Stage), orDash(p.TimeLeft), orDash(r.Factor))
		}
		rows = append(rows, row)
	}
	return rows
}

// inNamespace omits the namespace of an object where it is the namespace of what refers to it.
func inNamespace(key, namespace string) string { return strings.TrimPrefix(key, namespace+"/") }

func (o *overview) waitingRows() (rows [][]string) {
	for _, w := range o.Waiting {
		rows = append(rows, []string{w.Namespace, w.Kind, w.Name, w.Reason, orDash(w.Message)})
	}
	return rows
}

func (o *overview) generatorRows(wide bool) (rows [][]string) {
	for _, g := range o.Generators {
		held := make([]string, len(g.Runs))
		for i, run := range g.Runs {
			held[i] = inNamespace(run, g.Namespace)
		}
		row := []string{
			g.Namespace, g.Name, g.Ready, fmt.Sprintf("%d/%d", g.ReadyPods, g.Pods), fmt.Sprintf("%d/%d", g.ReadyPorts, g.Ports), orDash(strings.Join(held, " ")), orDash(g.Reason),
		}
		if wide {
			row = append(row, g.Measurement, g.Machine, orDash(strings.Join(g.Down, " ")), orDash(g.EngineVersion))
		}
		rows = append(rows, row)
	}
	return rows
}

func (o *overview) searchRows() (rows [][]string) {
	for _, s := range o.Searches {
		rows = append(rows, []string{s.Namespace, s.Name, s.Profile, orDash(string(s.Phase)), orDash(s.Progress)})
	}
	return rows
}
