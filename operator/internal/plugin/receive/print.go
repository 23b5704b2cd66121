// SPDX-License-Identifier: Apache-2.0

package receive

// This file answers: how are rows printed for people, and for programs?

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"spate.dev/operator/internal/plugin/figures"
)

// printer writes rows, in the same form each time.
type printer struct {
	to       io.Writer
	output   string // table, wide, json or csv
	byWorker bool
	// isStream is true if more rows follow: each line has its time.
	isStream bool

	// widths of columns, which only grow.
	widths []int
	// wrote is true when there is a heading.
	wrote bool
}

func (p *printer) print(rows []*row) error {
	switch p.output {
	case "json":
		return p.json(rows)
	case "csv":
		return p.csv(rows)
	}
	return p.table(rows)
}

// json writes an object a line.
func (p *printer) json(rows []*row) error {
	var text bytes.Buffer
	for _, r := range rows {
		for i := range fields {
			value, err := json.Marshal(fields[i].value(r))
			if err != nil {
				return err
			}
			separator := ","
			if i == 0 {
				separator = "{"
			}
			fmt.Fprintf(&text, "%s%q:%s", separator, fields[i].name, value)
		}
		text.WriteString("}\n")
	}
	_, err := p.to.Write(text.Bytes())
	return err
}

// csv writes the names of the fields first.
func (p *printer) csv(rows []*row) error {
	out := csv.NewWriter(p.to)
	var names []string
	for i := range fields {
		names = append(names, fields[i].name)
	}
	if !p.wrote {
		_ = out.Write(names) // errors are those of Flush
	}
	p.wrote = true
	for _, r := range rows {
		var cells []string
		for i := range fields {
			cells = append(cells, fields[i].cell(r))
		}
		_ = out.Write(cells)
	}
	out.Flush()
	return out.Error()
}

// table writes the heading first, and again when a column has become wider.
func (p *printer) table(rows []*row) error {
	most := wideRank - 1
	if p.output == "wide" {
		most = maxRank
	}
	chosen := columnsOf(p.byWorker, most)
	if p.isStream {
		chosen = append([]column{timeColumn}, chosen...)
	}
	isWider := p.widen(chosen, rows)
	var text strings.Builder
	if isWider || !p.wrote {
		text.WriteString(heading(chosen, p.widths) + "\n")
	}
	p.wrote = true
	for _, r := range rows {
		text.WriteString(line(chosen, p.widths, r) + "\n")
	}
	_, err := io.WriteString(p.to, text.String())
	return err
}

// widen makes the columns wide enough for rows. In a stream numbers have room for any.
func (p *printer) widen(chosen []column, rows []*row) (isWider bool) {
	now := widthsOf(chosen, rows)
	for i, c := range chosen {
		if c.number != nil && p.isStream {
			now[i] = max(now[i], numberWidth)
		}
	}
	if p.widths == nil {
		p.widths = now
		return true
	}
	for i := range now {
		isWider = isWider || now[i] > p.widths[i]
		p.widths[i] = max(now[i], p.widths[i])
	}
	return isWider
}

const (
	// numberWidth is that of the longest number, such as 999.9k or 99.9us.
	numberWidth = 6
	// maxRank of columns.
	maxRank = 6
)

// widthsOf columns with their titles.
func widthsOf(chosen []column, rows []*row) (widths []int) {
	for i := range chosen {
		width := len(chosen[i].title)
		for _, r := range rows {
			width = max(width, utf8.RuneCountInString(chosen[i].cell(r)))
		}
		widths = append(widths, width)
	}
	return widths
}

func heading(chosen []column, widths []int) string {
	var cells []string
	for i := range chosen {
		cells = append(cells, figures.Fit(chosen[i].title, widths[i], chosen[i].number != nil))
	}
	return strings.TrimRight(strings.Join(cells, gap), " ")
}

func line(chosen []column, widths []int, r *row) string {
	var cells []string
	for i := range chosen {
		cells = append(cells, figures.Fit(chosen[i].cell(r), widths[i], chosen[i].number != nil))
	}
	return strings.TrimRight(strings.Join(cells, gap), " ")
}

// gap is between columns.
const gap = "  "
