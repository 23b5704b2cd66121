// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how is progress shown, on a terminal and elsewhere?

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// plainInterval is the time between two lines of a run in the same phase where there is no terminal.
const plainInterval = 10 * time.Second

// line is the progress of one run.
type line struct {
	key string
	// state is what makes a new line where there is no terminal, when it changes.
	state string
	text  string
}

// printed is the last line of a run.
type printed struct {
	state string
	at    time.Time
}

// screen shows progress: on a terminal lines that are written over, elsewhere a line when something changes, and every plainInterval.
type screen struct {
	to io.Writer
	// width of the terminal in columns; nil where there is none.
	width func() int
	now   func() time.Time
	// drawn is the number of lines that are written over next.
	drawn int
	last  map[string]printed
}

// newScreen returns a screen for a writer, which is a terminal if it is a file that is one.
func newScreen(to io.Writer) *screen {
	s := &screen{to: to, now: time.Now, last: map[string]printed{}}
	if file, ok := to.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		s.width = func() int {
			width, _, err := term.GetSize(int(file.Fd()))
			if err != nil || width <= 0 {
				return 80
			}
			return width
		}
	}
	return s
}

// show shows the lines of all runs.
func (s *screen) show(lines []line) {
	if s.width == nil {
		s.plain(lines)
		return
	}
	s.clear()
	width := s.width() - 1 // a full line may wrap
	for _, l := range lines {
		text := []rune(l.text)
		if len(text) > width {
			text = append(text[:max(width-3, 0)], []rune("...")...)
		}
		fmt.Fprintln(s.to, string(text))
	}
	s.drawn = len(lines)
}

func (s *screen) plain(lines []line) {
	for _, l := range lines {
		last, now := s.last[l.key], s.now()
		if last.state == l.state && now.Sub(last.at) < plainInterval {
			continue
		}
		s.last[l.key] = printed{l.state, now}
		fmt.Fprintln(s.to, l.text)
	}
}

// note writes a line that stays.
func (s *screen) note(format string, args ...any) {
	s.clear()
	fmt.Fprintf(s.to, format+"\n", args...)
}

// clear removes the lines that are written over.
func (s *screen) clear() {
	if s.drawn > 0 {
		fmt.Fprint(s.to, strings.Repeat("\x1b[1A\x1b[2K", s.drawn))
	}
	s.drawn = 0
}

// close leaves the last lines as they are.
func (s *screen) close() { s.drawn = 0 }
