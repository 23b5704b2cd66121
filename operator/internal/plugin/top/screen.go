// SPDX-License-Identifier: Apache-2.0

package top

// This file answers: how is the model drawn on a screen of any size?

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"spate.dev/operator/internal/plugin/figures"
	"spate.dev/operator/internal/plugin/progress"
)

// Styles repeat what the text says, which can be read without them.
var (
	strong = ansi.Style{}.Bold()
	alarm  = strong.ForegroundColor(ansi.Red)
	faint  = ansi.Style{}.Faint()
)

const (
	// maxRuns are shown with a line of their own.
	maxRuns = 4
	// minHistory is the least width of the history, and maxHistory its greatest.
	minHistory, maxHistory = 8, 60
	gap                    = 2
)

// keys is the last line.
const keys = "q quit  ? help  1-5 view  s sort  / filter  p pause  +/- rate  r rate  x stop"

const help = `Views     1 ports, 2 streams, 3 templates, 4 latency, 5 workers; Tab: the next
Rows      Up, Down, PgUp, PgDn scroll
s, S      sort by the next column; reverse the order
/         filter rows by a part of their names; Esc removes the filter
p, space  pause the display; the run goes on
[, ]      select the run that these change:
  +, -      10 % more or less of its rate
  r         set its rate: 2x, 1Mpps, 80%, +5%, as kubectl spate rate takes it
  x         stop it, after a confirmation
q         quit; runs go on

L1 is with preamble and gap of Ethernet, 20 bytes a packet; L2 is with the FCS.
UTIL is L1 of the busier direction. A counter with ! has grown in the last 3 s.
LOST PPM is of packets that later ones have overtaken: none in flight is lost.
Wider terminals show more columns.`

// View draws the screen.
func (m *model) View() tea.View {
	view := tea.NewView(strings.Join(m.lines(), "\n"))
	view.AltScreen = true
	return view
}

// lines of the screen, as many as it has.
func (m *model) lines() []string {
	lines := m.head()
	if m.mode == helping {
		lines = append(lines[:1], strings.Split("\n"+help, "\n")...)
	} else {
		lines = append(lines, m.table(max(m.height-len(lines)-2, 1))...)
	}
	lines = lines[:min(len(lines), max(m.height-2, 0))]
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	for i := range lines {
		lines[i] = m.cut(lines[i])
	}
	return append(lines, m.message(), m.cut(faint.Styled(keys)))
}

// cut ends a line at the right edge.
func (m *model) cut(line string) string { return ansi.Truncate(line, m.width, "") }

// room is the number of rows that fit.
func (m *model) room() int { return max(m.height-len(m.head())-3, 1) }

// head has the subject, the runs and the views.
func (m *model) head() []string {
	title := "spate top: " + m.subject
	if m.paused {
		title += "  DISPLAY PAUSED"
	}
	clock := ""
	if !m.now.IsZero() {
		clock = m.now.Format("15:04:05")
	}
	lines := []string{strong.Styled(figures.Fit(title, max(m.width-len(clock)-1, 1), false)) + " " + clock}
	if len(m.runs) == 0 {
		lines = append(lines, "No run is active.")
	}
	first := max(min(slices.Index(m.runNames(), m.selected)-maxRuns+1, len(m.runs)-maxRuns), 0) // the selected run is among them
	for i := first; i < min(len(m.runs), first+maxRuns); i++ {
		run, mark := &m.runs[i], "  "
		if run.Name == m.selected && len(m.runs) > 1 {
			mark = "> "
		}
		lines = append(lines, figures.Fit(mark+run.Name+"  "+oneLine(progress.Line(run, m.now)), m.width, false))
	}
	if more := len(m.runs) - maxRuns; more > 0 {
		lines = append(lines, faint.Styled(fmt.Sprintf("  and %d more: [ and ]", more)))
	}
	return append(lines, m.tabs())
}

// tabs has the views, with the sorting and the filter of the current one.
func (m *model) tabs() string {
	var tabs []string
	for i, v := range views {
		tab := fmt.Sprintf(" %d %s ", i+1, v.name)
		if i == m.view {
			tab = strong.Styled("[" + strings.TrimSpace(tab) + "]")
		}
		tabs = append(tabs, tab)
	}
	line := strings.Join(tabs, "")
	by, columns := m.sorts[m.view], views[m.view].columns
	line += "  by " + columns[by.column].title
	if by.reverse {
		line += ", reversed"
	}
	if m.filter != "" && m.mode != filtering {
		line += "  /" + m.filter
	}
	return line
}

// message is the line above the keys: what is typed, a question, or the last note.
func (m *model) message() string {
	switch m.mode {
	case filtering:
		return m.cut("filter: " + m.input + "_")
	case rating:
		return m.cut(fmt.Sprintf("rate of run %s (2x, 1Mpps, 80%%, +5%%): %s_", m.target, m.input))
	case confirming:
		return m.cut(fmt.Sprintf("stop run %s? It cannot be undone. y, or any other key", m.target))
	}
	text := oneLine(m.note.Text)
	if m.note.IsBad {
		return alarm.Styled(figures.Fit("! "+text, m.width, false))
	}
	if omitted := m.board.Omitted(); text == "" && omitted > 0 {
		text = fmt.Sprintf("%d streams and sides of templates are not shown: the operator sends 1000 of each", omitted)
	}
	return figures.Fit(text, m.width, false)
}

// oneLine puts the lines of a message behind each other.
func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }

// cell is a text in a column.
func (r *row) cell(columns []column, at int) string {
	if at < len(r.texts) {
		return r.texts[at]
	}
	return columns[at].format(r.values[at-len(r.texts)])
}

// table draws the current view in a number of lines.
func (m *model) table(height int) []string {
	v, rows := views[m.view], m.shown()
	if len(rows) == 0 {
		switch {
		case len(m.tables[m.view]) > 0:
			return []string{"", fmt.Sprintf("No row has %q: Esc removes the filter.", m.filter)}
		case len(m.board.Sources) == 0 && len(m.runs) > 0:
			return []string{"", "No counters yet."}
		}
		return []string{"", strings.ToUpper(v.empty[:1]) + v.empty[1:] + "."}
	}
	m.offset = max(min(m.offset, len(rows)-(height-1)), 0)
	chosen, widths, left := m.layout(v.columns, rows)
	history := min(left, maxHistory)
	var heading []string
	for i, at := range chosen {
		heading = append(heading, figures.Fit(v.columns[at].title, widths[i], v.columns[at].format != nil))
	}
	if history >= minHistory {
		heading = append(heading, "HISTORY")
	}
	lines := []string{strong.Styled(strings.Join(heading, "  "))}
	for _, r := range rows[m.offset:min(len(rows), m.offset+height-1)] {
		var cells []string
		for i, at := range chosen {
			text := r.cell(v.columns, at)
			if m.hasGrown(r.id, at-len(r.texts)) && v.columns[at].alarm {
				cells = append(cells, alarm.Styled(figures.Fit(text+"!", widths[i], true)))
				continue
			}
			cells = append(cells, figures.Fit(text, widths[i], v.columns[at].format != nil))
		}
		if history >= minHistory {
			cells = append(cells, sparkline(m.history[m.view][r.id], history))
		}
		lines = append(lines, strings.Join(cells, "  "))
	}
	return lines
}

func (m *model) hasGrown(id string, value int) bool {
	grown := m.grown[m.view][id]
	return value >= 0 && value < len(grown) && grown[value] > 0
}

// layout chooses the columns that fit, with the history at its least width, and returns the width that they leave.
func (m *model) layout(columns []column, rows []*row) (chosen, widths []int, left int) {
	all := make([]int, len(columns))
	for at, c := range columns {
		all[at] = len(c.title)
		for _, r := range rows {
			text := len([]rune(r.cell(columns, at)))
			if c.alarm {
				text++ // for the mark
			}
			all[at] = max(all[at], text)
		}
	}
	all[0] = min(all[0], max(m.width/3, 12))
	for rank := 5; rank >= 0; rank-- {
		chosen, widths, left = nil, nil, m.width
		for at, c := range columns {
			if c.rank <= rank {
				chosen, widths, left = append(chosen, at), append(widths, all[at]), left-all[at]-gap
			}
		}
		if left >= minHistory {
			break
		}
	}
	return chosen, widths, left
}
