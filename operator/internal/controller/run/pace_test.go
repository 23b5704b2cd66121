// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strconv"
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestCountersOfAllRunsTakeHalfOfTheClientsRateAtMost(t *testing.T) {
	for _, c := range []struct {
		runs int
		rate float32
		want time.Duration
	}{
		{0, 200, time.Second},
		{1, 200, time.Second},
		{100, 200, time.Second},
		{101, 200, 1010 * time.Millisecond},
		{128, 50, 5120 * time.Millisecond},
		{1000, 200, 10 * time.Second},
		{1000, 0, time.Second},
		{1000, -1, time.Second},
	} {
		if got := pace(c.runs, c.rate); got.Round(time.Microsecond) != c.want {
			t.Errorf("%d runs at %g requests a second: every %s, want %s", c.runs, c.rate, got, c.want)
		}
	}
}

// Its lease is renewed by reading its counters, and changes of its phase are waited for.
func TestARunBesideManyIsLookedAtAsOftenAndWrittenMoreSeldom(t *testing.T) {
	e := &fakeEngine{}
	s := underWayOn(t, "", e)
	s.r.requests = 200
	for i := range 1001 { // including its own
		s.r.supervisor.tasks[named("n", strconv.Itoa(i))] = make(chan struct{})
	}
	look := func() {
		t.Helper()
		if again, err := s.underWay(t.Context()); err != nil || again <= 0 || again > tick {
			t.Errorf("again in %s, %v", again, err)
		}
	}
	written := func(ago time.Duration) {
		s.found.sample.written = time.Now().Add(-ago)
	}
	look()
	if s.run.Status.Result == nil {
		t.Fatal("the first counters are not written")
	}
	s.run.Status.Result, s.run.Status.Phase = nil, spatev1.RunWarmingUp
	written(9 * time.Second)
	look()
	if s.run.Status.Result != nil {
		t.Error("counters are written after 9 s beside 1000 other runs, want 10 s")
	}
	if s.run.Status.Phase != spatev1.RunRunning {
		t.Errorf("the phase is %s", s.run.Status.Phase)
	}
	written(11 * time.Second)
	look()
	if s.run.Status.Result == nil {
		t.Error("no counters are written after 11 s")
	}
	if e.read != 3 {
		t.Errorf("the engine's counters were read %d times", e.read)
	}
}
