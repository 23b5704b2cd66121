// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestOpenConnectionsAreThoseLeftAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		flows                    *spatev1.FlowCounters
		intended, sent, received int64
		ratio                    string
	}{
		"all are held":       {&spatev1.FlowCounters{Attempted: 100, Established: 100, Aborted: 100}, 100, 100, 100, "0"},
		"some are lost":      {&spatev1.FlowCounters{Attempted: 100, Established: 95, Aborted: 90, Closed: 100}, 100, 100, 90, "0.1"},
		"some never started": {&spatev1.FlowCounters{Attempted: 80, NotStarted: 5, Exhausted: 10, Throttled: 5, Aborted: 80}, 100, 80, 80, "0.2"},
		"none":               {nil, 0, 0, 0, "0"},
	} {
		if got := countOpen(c.flows); got.Intended != c.intended || got.Sent != c.sent || got.Received != c.received || got.LossRatio != c.ratio {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestATrialOfOpenConnectionsOpensThemBeforeItsDuration(t *testing.T) {
	run := &spatev1.TrafficRun{}
	run.Spec.Search = &spatev1.SearchTests{Load: spatev1.SearchLoad{Vary: spatev1.VaryOpenConnections, Ramp: "3s"}}
	run.Status.Resolved = &spatev1.ResolvedRun{Timing: spatev1.RunTiming{Warmup: "1s", Drain: "2s"}}
	trial, s := &spatev1.TrialInput{Duration: spatev1.MeasuredTime(time.Minute)}, &scope{run: run}
	if got := s.phasesOf(trial); got != (trialPhases{0, 3 * time.Second, time.Minute}) {
		t.Errorf("%+v", got)
	}
	run.Spec.Search.Load.Vary = spatev1.VaryRate
	if got := s.phasesOf(trial); got != (trialPhases{time.Second, time.Minute, 2 * time.Second}) {
		t.Errorf("%+v", got)
	}
}
