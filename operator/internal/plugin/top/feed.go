// SPDX-License-Identifier: Apache-2.0

package top

// This file answers: how does what is read reach the screen?

import (
	"time"

	tea "charm.land/bubbletea/v2"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/plugin/counters"
)

// interval from one reading of counters to the next.
const interval = time.Second

// screenFeed makes messages of what is read.
type screenFeed func(tea.Msg)

// Found implements counters.Listener.
func (s screenFeed) Found(runs []spatev1.TrafficRun, err error) { s(runsMsg{runs, err}) }

// Counted implements counters.Listener.
func (s screenFeed) Counted(from counters.Source, answer *livev1.WatchStatsResponse) {
	s(statsMsg{from, answer})
}

// Noted implements counters.Listener.
func (s screenFeed) Noted(text string, isBad bool) { s(noteMsg{text, isBad}) }

// Ticked implements counters.Listener.
func (s screenFeed) Ticked(now time.Time) { s(tickMsg{now}) }
