// SPDX-License-Identifier: Apache-2.0

package receive

// This file answers: how are rows printed for people, and for programs?

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"spate.dev/operator/internal/plugin/figures"
	"spate.dev/operator/internal/plugin/output"
)

// printer writes rows, in the same form each time.
type printer struct {
	to       io.Writer
	form     string // of the flag -o
	byWorker bool
	// isStream is true if more rows follow: each line has its time.
	isStream bool

	// widths of columns, which only grow.
	widths []int
	// wrote is true when there is a heading.
	wrote bool
	// csv is nil before the first rows.
	csv *output.Rows
}

func (p *printer) print(rows []*row) error {
	switch p.form {
	case output.JSON, output.YAML:
		return p.documents(rows)
	case output.CSV:
		if p.csv == nil {
			p.csv = output.NewRows(p.to)
		}
		return p.csv.Write(output.List{Name: "port", Objects: objects(rows)})
	}
	return p.table(rows)
}

// objects have all fields, those that are not known as null.
func objects(rows []*row) []output.Object {
	all := make([]output.Object, 0, len(rows))
	for _, r := range rows {
		var object output.Object
		for i := range fields {
			object = append(object, output.Field{Name: fields[i].name, Value: fields[i].value(r)})
		}
		all = append(all, object)
	}
	return all
}

// documents writes an object a line, or a document of YAML for each.
func (p *printer) documents(rows []*row) error {
	var text bytes.Buffer
	for _, object := range objects(rows) {
		if p.form == output.YAML {
			text.WriteString("---\n")
			if err := output.WriteDocument(&text, output.YAML, object); err != nil {
				return err
			}
			continue
		}
		line, err := object.MarshalJSON()
		if err != nil {
			return err
		}
		text.Write(line)
		text.WriteByte('\n')
	}
	_, err := p.to.Write(text.Bytes())
	return err
}

// table writes the heading first, and again when a column has become wider.
func (p *printer) table(rows []*row) error {
	most := wideRank - 1
	if p.form == output.Wide {
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
