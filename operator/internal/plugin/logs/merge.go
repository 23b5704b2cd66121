// SPDX-License-Identifier: Apache-2.0

package logs

// This file answers: in which order are the lines of several logs written?

import (
	"container/heap"
	"context"
	"time"
)

// line of a log.
type line struct {
	// source is the log that it is from.
	source string
	at     time.Time
	text   string
	// arrived is when it was read.
	arrived time.Time
	// number is its place among all lines that were read, for those of one time.
	number int
}

// change is what happens to one of the logs that are merged: a line of it, or its end.
type change struct {
	line
	// opened and ended are true instead of a line.
	opened, ended bool
}

// waiting are lines, the earliest first.
type waiting []line

func (w waiting) Len() int { return len(w) }
func (w waiting) Less(i, j int) bool {
	if c := w[i].at.Compare(w[j].at); c != 0 {
		return c < 0
	}
	return w[i].number < w[j].number
}
func (w waiting) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w *waiting) Push(x any)   { *w = append(*w, x.(line)) }
func (w *waiting) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}

// merger writes lines of several logs in the order of their times. A line is written when each log that is open has one that is as late. With hold it is
// written after that time in any case, since logs that are followed may be silent for long: a line that is read later than that is out of order.
type merger struct {
	hold  time.Duration // 0 is without limit
	write func(line) error

	lines waiting
	// pending is the number of lines of each open log.
	pending map[string]int
	count   int
}

// merge takes changes until there are no more, or the context ends.
func (m *merger) merge(ctx context.Context, changes <-chan change) error {
	m.pending = map[string]int{}
	var tick <-chan time.Time
	if m.hold > 0 {
		ticker := time.NewTicker(m.hold / 4)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return m.flush(func(line) bool { return true })
		case c, more := <-changes:
			if !more {
				return m.flush(func(line) bool { return true })
			}
			m.take(c)
			if err := m.release(); err != nil {
				return err
			}
		case now := <-tick:
			if err := m.expire(now); err != nil {
				return err
			}
		}
	}
}

func (m *merger) take(c change) {
	switch {
	case c.opened:
		m.pending[c.source] = 0
	case c.ended:
		delete(m.pending, c.source)
	default:
		m.count++
		c.number = m.count
		heap.Push(&m.lines, c.line)
		if _, open := m.pending[c.source]; open {
			m.pending[c.source]++
		}
	}
}

// release writes lines while each open log has one that waits.
func (m *merger) release() error {
	return m.flush(func(line) bool {
		for _, n := range m.pending {
			if n == 0 {
				return false
			}
		}
		return true
	})
}

// expire writes the lines that have waited for long enough, and those before them.
func (m *merger) expire(now time.Time) error {
	var latest time.Time
	for _, l := range m.lines {
		if now.Sub(l.arrived) >= m.hold && l.at.After(latest) {
			latest = l.at
		}
	}
	return m.flush(func(l line) bool { return !l.at.After(latest) })
}

// flush writes the earliest lines while they may be.
func (m *merger) flush(may func(line) bool) error {
	for len(m.lines) > 0 && may(m.lines[0]) {
		l := heap.Pop(&m.lines).(line)
		if _, open := m.pending[l.source]; open {
			m.pending[l.source]--
		}
		if err := m.write(l); err != nil {
			return err
		}
	}
	return nil
}
