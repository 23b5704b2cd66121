// SPDX-License-Identifier: Apache-2.0

package report

// This file answers: how is a report one HTML file that loads nothing? Texts come from users: the template escapes all of them, and the page
// executes and applies only the script and the style whose digests its policy names.

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate.dev/operator/internal/plugin/result"
)

var (
	//go:embed page.html
	pageSource string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string

	page = template.Must(template.New("report").Parse(pageSource))
)

// htmlPage is a document as the template takes it.
type htmlPage struct {
	document
	Sections     []htmlSection
	OutcomeClass string
	Policy       template.HTML
	Style        template.CSS
	Script       template.JS
}

type htmlSection struct {
	section
	Tables []htmlTable
}

type htmlTable struct {
	Heads    []cell
	Rows     [][]cell
	Sortable bool
}

// cell of a table. Key is a number by which it is sorted; empty for a text.
type cell struct{ Text, Key, Class string }

// writeHTML writes a document as HTML.
func writeHTML(w io.Writer, d document) error {
	p := htmlPage{document: d, OutcomeClass: strings.ToLower(d.Outcome), Policy: template.HTML(policy), Style: template.CSS(pageStyle), Script: template.JS(pageScript)}
	for _, s := range d.Sections {
		tables := make([]htmlTable, len(s.Tables))
		for i, t := range s.Tables {
			tables[i] = tableOf(t)
		}
		p.Sections = append(p.Sections, htmlSection{s, tables})
	}
	return page.Execute(w, p)
}

// identifiers are columns whose numbers are not quantities. So is the first column of each table.
var identifiers = []string{"NAME", "PORT", "SUBJECT", "VLAN", "UID"}

// tableOf finds out what the cells are. A column is aligned as its numbers are, if it has no other cells.
func tableOf(t result.Table) htmlTable {
	out := htmlTable{Sortable: len(t.Rows) > 1}
	for _, heading := range t.Headings {
		out.Heads = append(out.Heads, cell{Text: heading, Class: "number"})
	}
	for _, row := range t.Rows {
		cells := make([]cell, len(row))
		for i, text := range row {
			c := cellOf(text)
			switch {
			case i == 0 || slices.Contains(identifiers, t.Headings[i]):
				c.Class, out.Heads[i].Class = "", ""
			case c.Class == "number":
				c.Text = legible(text)
			default:
				out.Heads[i].Class = ""
			}
			cells[i] = c
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}

// legible writes a number of five digits or more with commas.
func legible(text string) string {
	whole, fraction, decimal := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || -10_000 < n && n < 10_000 {
		return text
	}
	if decimal {
		return grouped(n) + "." + fraction
	}
	return grouped(n)
}

// policy lets a browser load nothing, and apply this style and execute this script only.
var policy = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-` + digest(pageStyle) + `'; script-src 'sha256-` + digest(pageScript) +
	`'; base-uri 'none'; form-action 'none'">`

// digest is the hash of a text as a policy has it.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// cellOf finds out what a cell is by its text: a number, a time, a share, or a text.
func cellOf(text string) cell {
	switch text {
	case "yes":
		return cell{Text: text, Class: "yes"}
	case "NO", "no", "Error":
		return cell{Text: text, Class: "no"}
	case "Warning":
		return cell{Text: text, Class: "warning"}
	case "-":
		return cell{Text: text, Key: "-1", Class: "number"}
	}
	if value, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64); err == nil && text[0] != '+' && isNumber(text) {
		return cell{Text: text, Key: strconv.FormatFloat(value, 'g', -1, 64), Class: "number"}
	}
	if value, err := time.ParseDuration(text); err == nil {
		return cell{Text: text, Key: strconv.FormatInt(int64(value), 10), Class: "number"}
	}
	return cell{Text: text}
}

// isNumber reports whether a text is a decimal number, as a name such as "inf" or "0x1" is not.
func isNumber(text string) bool {
	return strings.Trim(text, "-0123456789.%") == ""
}
