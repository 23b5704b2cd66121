// SPDX-License-Identifier: Apache-2.0

package report

// This file answers: how is a report text for the summary of a pipeline? It has no pictures, and of each table the first rows only.

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// mostRows of a table are in the text: summaries of pipelines are limited to about 1 MiB.
const mostRows = 100

// inSummary are the sections that the text has.
var inSummary = []string{"verdict", "delays", "measured", "flows", "generator", "again"}

// writeMarkdown writes a document as Markdown with tables, as GitHub and GitLab have them.
func writeMarkdown(w io.Writer, d document) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n\nof profile %s\n\n", escaped(d.Title), escaped(d.Outcome), escaped(d.Profile))
	for _, reason := range d.Reasons {
		fmt.Fprintf(&b, "- %s\n", escaped(reason))
	}
	b.WriteString("\n| | |\n|---|---|\n")
	for _, f := range d.Facts {
		value := f.Value
		if f.Detail != "" {
			value += " (" + f.Detail + ")"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", escaped(f.Name), escaped(value))
	}
	for _, s := range d.Sections {
		if !slices.Contains(inSummary, s.ID) {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n", escaped(s.Title))
		for _, note := range s.Notes {
			fmt.Fprintf(&b, "\n%s\n", escaped(note))
		}
		for _, t := range s.Tables {
			b.WriteByte('\n')
			writeRow(&b, t.Headings)
			b.WriteString(strings.Repeat("|---", len(t.Headings)) + "|\n")
			for _, row := range t.Rows[:min(len(t.Rows), mostRows)] {
				writeRow(&b, row)
			}
			if more := len(t.Rows) - mostRows; more > 0 {
				fmt.Fprintf(&b, "\n%d more rows: kubectl spate report -o html, or -o csv.\n", more)
			}
		}
		for _, c := range s.Code {
			// The fence is longer than any in the text.
			fence := "```"
			for strings.Contains(c.Text, fence) {
				fence += "`"
			}
			fmt.Fprintf(&b, "\n%s%s\n%s%s\n", fence, c.Language, c.Text, fence)
		}
	}
	fmt.Fprintf(&b, "\nMade by kubectl spate report at %s.\n", d.Made)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeRow(b *strings.Builder, cells []string) {
	for _, text := range cells {
		b.WriteString("| " + escaped(text) + " ")
	}
	b.WriteString("|\n")
}

// escaper makes text of what Markdown and HTML would take for something else.
var escaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "#", `\#`, "~", `\~`, "$", `\$`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "\r", " ", "\n", " ", "@", "@\u200b",
)

// escaped is a text on one line as Markdown shows it.
func escaped(text string) string { return escaper.Replace(text) }
