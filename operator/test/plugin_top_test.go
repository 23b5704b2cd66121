// SPDX-License-Identifier: Apache-2.0

package test

// People watch runs with `kubectl spate top` in a terminal, by the rights of a viewer, and change them by keys with those of an editor. The engines
// are simulated; the terminal is emulated.

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"

	spatev1 "spate.dev/api/v1alpha1"
)

// noStyles is the variable that turns styles off (no-color.org); empty they are on.
const noStyles = "NO_COLOR="

// terminal runs a program, and shows what it draws.
type terminal struct {
	t       *testing.T
	command *exec.Cmd
	pty     *os.File
	drawn   vt10x.Terminal

	mu    sync.Mutex
	bytes []byte
	ended chan struct{}
}

// inTerminal starts a command of the plugin in a terminal, with more variables in its environment.
func inTerminal(t *testing.T, columns, lines int, command *exec.Cmd, variables ...string) *terminal {
	t.Helper()
	command.Env = append(append(os.Environ(), "TERM=xterm-256color", "CI=", noStyles), variables...)
	file, err := pty.StartWithSize(command, &pty.Winsize{Cols: uint16(columns), Rows: uint16(lines)})
	must(t, err)
	s := &terminal{t: t, command: command, pty: file, drawn: vt10x.New(vt10x.WithSize(columns, lines), vt10x.WithWriter(file)), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		part, drawn := make([]byte, 4096), 0
		for {
			n, err := file.Read(part)
			s.mu.Lock()
			s.bytes = append(s.bytes, part[:n]...)
			more, _ := s.drawn.Write(s.bytes[drawn:]) // all but the beginning of a character
			s.mu.Unlock()
			drawn += more
			if err != nil { // the program has ended
				return
			}
		}
	}()
	t.Cleanup(func() { _ = file.Close() })
	return s
}

// press writes keys.
func (s *terminal) press(keys string) {
	s.t.Helper()
	_, err := s.pty.WriteString(keys)
	must(s.t, err)
}

// shows waits until the screen matches an expression, and returns it.
func (s *terminal) shows(expression string) (screen string) {
	s.t.Helper()
	match := regexp.MustCompile(expression)
	until(s.t, runLimit, expression, func() (bool, string) { // the plugin is a process, which starts slowly where all CPUs are busy
		screen = s.drawn.String()
		return match.MatchString(screen), screen
	})
	return screen
}

// resize changes the size of the terminal.
func (s *terminal) resize(columns, lines int) {
	s.t.Helper()
	s.drawn.Resize(columns, lines)
	must(s.t, pty.Setsize(s.pty, &pty.Winsize{Cols: uint16(columns), Rows: uint16(lines)}))
}

// ends waits for the end of the program, and returns its exit code and all it wrote.
func (s *terminal) ends() (code int, written string) {
	s.t.Helper()
	<-s.ended
	_ = s.command.Wait() // the exit code says more
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.command.ProcessState.ExitCode(), string(s.bytes)
}

func TestARunIsWatchedAndChangedInATerminal(t *testing.T) {
	t.Parallel()
	reachable(t)
	ns := simulatedReady(t, startSimulatedNode(t), loopbackGenerator)
	editor, viewer := userOf(t, ns, "spate-editor"), userOf(t, ns, "spate-viewer")
	mustApply(t, ns, loopbackProfile("watched", lenient))
	p := profileNamed(ns, "watched")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	name := p.Status.CurrentRun.Name

	t.Run("by a viewer, who changes nothing", func(t *testing.T) {
		s := inTerminal(t, 80, 24, plugin(t, ns, viewer, "top", "watched"))
		s.shows(`spate top: profile watched .* \d\d:\d\d:\d\d`)
		s.shows(`(?m)^  ` + name + `  Running `)
		s.shows(`(?m)^loop-0/loop  +up `)
		s.press("2")
		s.shows(`(?m)^small +1\.00k +1\.00k +0 .*[▁▂▃▄▅▆▇█]`)
		s.press("+")
		s.shows(`(?m)^! .*trafficruns.*forbidden`)
		s.press("/no")
		s.shows(`No row has "no": Esc removes the filter`)
		s.press("\x1b")
		s.shows(`(?m)^small `)
		s.press("?")
		s.shows(`set its rate: 2x, 1Mpps`)
		s.press(" ")
		s.resize(120, 12)
		s.shows(`DISORDER +DUP +LATE +DROPPED`)
		s.press("q")
		code, written := s.ends()
		if code != 0 || !strings.Contains(written, "\x1b[?1049l") || !strings.Contains(written, "\x1b[1m") {
			t.Errorf("exits with %d\n%q", code, written)
		}
		noneLeft(t, ns)
	})
	t.Run("by an editor, without styles", func(t *testing.T) {
		s := inTerminal(t, 80, 24, plugin(t, ns, editor, "top", name, "--view", "streams"), noStyles+"1")
		s.shows(`(?m)^small +1\.00k `)
		s.press("r2x\r")
		s.shows("run " + name + ": rate set to 2x")
		s.shows(`(?m)^small +2\.00k +2\.00k `)
		s.press("x")
		s.shows("stop run " + name + `\? It cannot be undone`)
		s.press("y")
		s.shows(name + `  Complete: `)
		s.press("\x03")
		code, written := s.ends()
		if code != 0 || regexp.MustCompile(`\x1b\[[0-9;]*m`).MatchString(strings.ReplaceAll(written, "\x1b[m", "")) {
			t.Errorf("exits with %d\n%q", code, written)
		}
	})
	t.Run("once, for scripts", func(t *testing.T) {
		if done := executedWith(t, ns, viewer, "", "top", "--once"); done.code != 0 || done.output != "No run is active.\n" {
			t.Errorf("%+v", done)
		}
		mustApply(t, ns, loopbackProfile("again", lenient))
		phase(t, runLimit, profileNamed(ns, "again"), spatev1.ProfileRunning)
		done := executedWith(t, ns, viewer, "", "top", "loop", "--once", "-o", "json")
		var read struct {
			Runs    []struct{ Name string }
			Streams []struct {
				Stream string
				Rate   float64 `json:"txPacketsPerSecond"`
			}
		}
		if err := json.Unmarshal([]byte(done.output), &read); err != nil || len(read.Runs) != 1 || len(read.Streams) != 1 || read.Streams[0].Stream != "small" || read.Streams[0].Rate < 990 || read.Streams[0].Rate > 1010 {
			t.Errorf("%v, %+v", err, done)
		}
		if done := executedWith(t, ns, viewer, "", "top", "none", "--once"); done.code != 1 || !strings.Contains(done.said, `there is no TrafficRun, TrafficProfile or TrafficGenerator "none"`) {
			t.Errorf("%+v", done)
		}
	})
}
