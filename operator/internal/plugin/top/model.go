// SPDX-License-Identifier: Apache-2.0

package top

// This file answers: what do messages and keys change on the screen?

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/counters"
	"spate.dev/operator/internal/runs"
)

// actions change a run, with the user's own rights.
type actions struct {
	// setRate takes what `kubectl spate rate` takes.
	setRate func(run, rate string) (string, error)
	stop    func(run string) (string, error)
}

// mode is what keys mean.
type mode int

const (
	browsing mode = iota
	filtering
	rating
	confirming
	helping
)

// sorting of a table: by a column, numbers descending and texts ascending, or the reverse.
type sorting struct {
	column  int
	reverse bool
}

const (
	// historyLength is the number of values that are kept of a row: one a second.
	historyLength = 120
	// markLength is the number of ticks for which a counter that has grown is marked.
	markLength = 3
)

// model is all that is shown. It changes by messages alone.
type model struct {
	// subject is what is shown, such as `profile imix`.
	subject string
	actions actions

	now   time.Time
	runs  []spatev1.TrafficRun
	board counters.Board
	// tables are drawn from the board with each tick, unless the display is paused.
	tables [][]*row
	// history of rows by view and id, their values one tick before, and for how many ticks a value is marked as grown.
	history []map[string][]float64
	before  []map[string]*row
	grown   []map[string][]int

	view     int
	sorts    []sorting
	filter   string
	selected string // run that is changed next
	target   string // run that a rate is typed for, or the stop of which is to be confirmed
	offset   int    // first row that is shown
	paused   bool
	mode     mode
	input    string
	note     counters.Note

	width, height int
}

func newModel(subject string, a actions) *model {
	m := &model{subject: subject, actions: a, width: 80, height: 24, sorts: make([]sorting, len(views)), tables: make([][]*row, len(views))}
	for range views {
		m.history = append(m.history, map[string][]float64{})
		m.before = append(m.before, map[string]*row{})
		m.grown = append(m.grown, map[string][]int{})
	}
	return m
}

// Init does nothing: the edge sends messages.
func (m *model) Init() tea.Cmd { return nil }

// Update applies a message.
func (m *model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case tea.KeyPressMsg:
		return m, m.key(message)
	case tea.PasteMsg:
		m.paste(message.Content)
	case counters.Found:
		m.setRuns(message)
	case counters.Counted:
		m.board.Add(message.From, message.Answer)
	case counters.Note:
		m.note = message
	case counters.Ticked:
		m.now = message.Now
		m.board.Tick()
		if !m.paused {
			m.draw()
		}
	}
	return m, nil
}

func (m *model) setRuns(message counters.Found) {
	if message.Err != nil {
		m.note = counters.Note{Text: message.Err.Error(), IsBad: true}
		return
	}
	m.runs = message.Runs
	names := m.runNames()
	m.board.Keep(names)
	if !slices.Contains(names, m.selected) {
		m.selected = ""
		if len(names) > 0 {
			m.selected = names[0]
		}
	}
}

func (m *model) runNames() (names []string) {
	for i := range m.runs {
		names = append(names, m.runs[i].Name)
	}
	return names
}

// draw makes the tables again, and adds to the history.
func (m *model) draw() {
	for i := range views {
		m.tables[i] = views[i].rows(&m.board)
		history, before, grown := map[string][]float64{}, map[string]*row{}, map[string][]int{}
		for _, r := range m.tables[i] {
			past := m.history[i][r.id]
			past = append(past, r.trend)
			history[r.id], before[r.id] = past[max(len(past)-historyLength, 0):], r
			if last := m.before[i][r.id]; last != nil {
				grown[r.id] = marks(m.grown[i][r.id], last.values, r.values)
			}
		}
		m.history[i], m.before[i], m.grown[i] = history, before, grown
	}
}

// marks counts the ticks down for which values are marked, from markLength where a value has grown.
func marks(left []int, before, now []float64) []int {
	next := make([]int, len(now))
	copy(next, left)
	for i := range now {
		next[i] = max(next[i]-1, 0)
		if now[i] > before[i] {
			next[i] = markLength
		}
	}
	return next
}

// shown are the rows of the current view that the filter leaves, sorted.
func (m *model) shown() []*row {
	rows := slices.DeleteFunc(slices.Clone(m.tables[m.view]), func(r *row) bool {
		return !strings.Contains(strings.ToLower(strings.Join(r.texts, " ")), strings.ToLower(m.filter))
	})
	by := m.sorts[m.view]
	slices.SortStableFunc(rows, func(a, b *row) int {
		order := cmp.Compare(a.id, b.id)
		if texts := len(a.texts); by.column < texts {
			order = cmp.Compare(a.texts[by.column], b.texts[by.column])
		} else {
			order = cmp.Or(cmp.Compare(ranked(b.values[by.column-texts]), ranked(a.values[by.column-texts])), order)
		}
		if by.reverse {
			return -order
		}
		return order
	})
	return rows
}

// ranked puts what is unknown behind all values.
func ranked(value float64) float64 {
	if math.IsNaN(value) {
		return math.Inf(-1)
	}
	return value
}

// paste appends a text to the line that is typed, without control characters. Elsewhere what is pasted means nothing: it is text, not keys.
func (m *model) paste(text string) {
	if m.mode == filtering || m.mode == rating {
		m.typed(m.input + strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, text))
	}
}

// key applies a key.
func (m *model) key(key tea.KeyPressMsg) tea.Cmd {
	pressed := key.String()
	if pressed == "ctrl+c" {
		return tea.Quit
	}
	switch m.mode {
	case filtering, rating:
		return m.edit(key)
	case confirming:
		m.mode = browsing
		if pressed != "y" {
			m.note = counters.Note{Text: "not stopped"}
			return nil
		}
		return m.act(m.actions.stop)
	case helping:
		m.mode = browsing
		return nil
	}
	switch pressed {
	case "q":
		return tea.Quit
	case "?":
		m.mode = helping
	case "1", "2", "3", "4", "5":
		m.turn(int(pressed[0] - '1'))
	case "tab", "right":
		m.turn((m.view + 1) % len(views))
	case "shift+tab", "left":
		m.turn((m.view + len(views) - 1) % len(views))
	case "s":
		m.sorts[m.view] = sorting{column: (m.sorts[m.view].column + 1) % len(views[m.view].columns)}
	case "S":
		m.sorts[m.view].reverse = !m.sorts[m.view].reverse
	case "/":
		m.mode, m.input = filtering, m.filter
	case "esc":
		m.filter, m.note = "", counters.Note{}
	case "p", "space":
		m.paused = !m.paused
	case "down", "j":
		m.scroll(1)
	case "up", "k":
		m.scroll(-1)
	case "pgdown":
		m.scroll(m.room())
	case "pgup":
		m.scroll(-m.room())
	case "[", "]":
		m.choose(map[string]int{"[": -1, "]": 1}[pressed])
	case "+", "=", "-":
		if m.hasRun() {
			return m.setRate(map[bool]string{true: "-10%", false: "+10%"}[pressed == "-"])
		}
	case "r":
		if m.hasRun() {
			m.mode, m.input = rating, ""
		}
	case "x":
		if m.hasRun() {
			m.mode = confirming
		}
	}
	return nil
}

// edit applies a key to the line that is typed.
func (m *model) edit(key tea.KeyPressMsg) tea.Cmd {
	switch key.Code {
	case tea.KeyBackspace:
		line := []rune(m.input)
		m.typed(string(line[:max(len(line)-1, 0)]))
	case tea.KeyEscape:
		if m.mode == filtering {
			m.filter = ""
		}
		m.mode = browsing
	case tea.KeyEnter, tea.KeyKpEnter:
		done := m.mode
		m.mode = browsing
		if done == rating && m.input != "" {
			return m.setRate(strings.TrimSpace(m.input))
		}
	default:
		m.typed(m.input + key.Text) // none of a key that is no character
	}
	return nil
}

// typed puts a line in place of the one that is typed. Rows are filtered by it at once.
func (m *model) typed(line string) {
	m.input = line
	if m.mode == filtering {
		m.filter, m.offset = line, 0
	}
}

func (m *model) turn(view int) { m.view, m.offset = view, 0 }

func (m *model) scroll(by int) {
	m.offset = max(min(m.offset+by, len(m.shown())-m.room()), 0)
}

// choose another run to set the rate of.
func (m *model) choose(by int) {
	if names := m.runNames(); len(names) > 0 {
		m.selected = names[(slices.Index(names, m.selected)+by+len(names))%len(names)]
	}
}

// run that is selected; nil if there is none.
func (m *model) run() *spatev1.TrafficRun {
	for i := range m.runs {
		if m.runs[i].Name == m.selected {
			return &m.runs[i]
		}
	}
	return nil
}

// hasRun reports whether the selected run, which is the target then, can be changed, and says why if it cannot.
func (m *model) hasRun() bool {
	switch run := m.run(); {
	case run == nil:
		m.note = counters.Note{Text: "there is no run", IsBad: true}
	case !runs.Active(run):
		m.note = counters.Note{Text: fmt.Sprintf("run %s has ended", run.Name), IsBad: true}
	default:
		m.target = run.Name
		return true
	}
	return false
}

func (m *model) setRate(rate string) tea.Cmd {
	return m.act(func(run string) (string, error) { return m.actions.setRate(run, rate) })
}

// act changes the target beside the display; the answer, or the refusal, is written below the table.
func (m *model) act(do func(run string) (string, error)) tea.Cmd {
	run := m.target
	m.note = counters.Note{Text: fmt.Sprintf("run %s: ...", run)}
	return func() tea.Msg {
		text, err := do(run)
		if err != nil {
			return counters.Note{Text: err.Error(), IsBad: true}
		}
		return counters.Note{Text: text}
	}
}
