// SPDX-License-Identifier: Apache-2.0

package receive

// This file answers: what does the live table look like, and which keys does it have?

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"spate.dev/operator/internal/plugin/counters"
	"spate.dev/operator/internal/plugin/figures"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/progress"
)

// keys is the last line.
const keys = "q quit  r reset  b by port or worker  w all columns  Up, Down scroll"

// maxRuns are shown with a line of their own.
const maxRuns = 4

var (
	strong = ansi.Style{}.Bold()
	alarm  = strong.ForegroundColor(ansi.Red)
	faint  = ansi.Style{}.Faint()
)

// screen shows a state in a terminal. It changes by messages alone.
type screen struct {
	*state
	isWide        bool
	offset        int // first row that is shown
	width, height int
}

func newScreen(s *state) *screen {
	return &screen{state: s, isWide: s.flags.output.Form() == output.Wide, width: 80, height: 24}
}

// Init does nothing: the feed sends messages.
func (s *screen) Init() tea.Cmd { return nil }

// Update applies a message.
func (s *screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = message.Width, message.Height
	case tea.KeyPressMsg:
		return s, s.key(message.String())
	default:
		s.apply(message)
	}
	return s, nil
}

// key applies a key.
func (s *screen) key(pressed string) tea.Cmd {
	switch pressed {
	case "q", "ctrl+c":
		return tea.Quit
	case "r":
		s.tally.reset()
		s.note = counters.Note{Text: "counting from now on: only minima and maxima that are exceeded are known"}
	case "b":
		s.byWorker = !s.byWorker
	case "w":
		s.isWide = !s.isWide
	case "esc":
		s.note = counters.Note{}
	case "down", "j":
		s.offset++
	case "up", "k":
		s.offset = max(s.offset-1, 0)
	}
	return nil
}

// View draws the screen.
func (s *screen) View() tea.View {
	view := tea.NewView(strings.Join(s.lines(), "\n"))
	view.AltScreen = true
	return view
}

// lines of the screen, as many as it has.
func (s *screen) lines() []string {
	lines := s.head()
	lines = append(lines, s.table(max(s.height-len(lines)-2, 1))...)
	lines = lines[:min(len(lines), max(s.height-2, 0))]
	for len(lines) < s.height-2 {
		lines = append(lines, "")
	}
	lines = append(lines, s.message(), faint.Styled(keys))
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], s.width, "")
	}
	return lines[max(len(lines)-s.height, 0):]
}

// head has the subject and the runs.
func (s *screen) head() []string {
	at := clock(s.now)
	lines := []string{strong.Styled(figures.Fit("spate receive: "+s.subject, max(s.width-len(at)-1, 1), false)) + " " + at}
	if len(s.runs) == 0 {
		lines = append(lines, "No run is active: foreign traffic is read while a run is active.")
	}
	for i := range s.runs[:min(len(s.runs), maxRuns)] {
		lines = append(lines, "  "+s.runs[i].Name+"  "+oneLine(progress.Line(&s.runs[i], s.now)))
	}
	if more := len(s.runs) - maxRuns; more > 0 {
		lines = append(lines, faint.Styled(fmt.Sprintf("  and %d more", more)))
	}
	return append(lines, "")
}

// table draws the rows that fit in a number of lines.
func (s *screen) table(height int) []string {
	rows := s.tally.rows(s.byWorker)
	if len(rows) == 0 {
		return []string{"No counters yet."}
	}
	chosen, widths := s.layout(rows)
	s.offset = max(min(s.offset, len(rows)-(height-1)), 0)
	lines := []string{strong.Styled(heading(chosen, widths))}
	for _, r := range rows[s.offset:min(len(rows), s.offset+height-1)] {
		lines = append(lines, line(chosen, widths, r))
	}
	return lines
}

// layout chooses the columns that fit.
func (s *screen) layout(rows []*row) (chosen []column, widths []int) {
	most := wideRank - 1
	if s.isWide {
		most = maxRank
	}
	for ; ; most-- {
		chosen = columnsOf(s.byWorker, most)
		widths = widthsOf(chosen, rows)
		sum := len(gap) * (len(widths) - 1)
		for _, width := range widths {
			sum += width
		}
		if sum <= s.width || most == 0 {
			return chosen, widths
		}
	}
}

// message is the line above the keys: the last note, or what is missing.
func (s *screen) message() string {
	if s.note.IsBad {
		return alarm.Styled("! " + oneLine(s.note.Text))
	}
	if s.note.Text != "" {
		return oneLine(s.note.Text)
	}
	return s.hint()
}

// oneLine puts the lines of a message behind each other.
func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }
