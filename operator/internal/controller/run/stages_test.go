// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
)

// staged is a run within the second of three stages of a second each, whose first has ended with 1,000 packets. A threshold of the second
// is that it loses nothing.
func staged() (*scope, *events.FakeRecorder) {
	run, recorder := admitted("a", "b"), events.NewFakeRecorder(9)
	run.Status.Resolved.Timing = spatev1.RunTiming{Duration: "3s", Drain: "500ms"}
	run.Status.PortBaseline = []spatev1.PortBaseline{{}}
	for _, name := range []string{"one", "two", "three"} {
		run.Status.Resolved.Stages = append(run.Status.Resolved.Stages, spatev1.ResolvedStage{Name: name, Duration: "1s"})
	}
	run.Status.Resolved.Stages[1].Thresholds = []spatev1.Threshold{{Name: "lossless", Expression: "result.lost == 0", Abort: true}}
	run.Status.Stages = []spatev1.StageStatus{
		{Name: "one", Phase: spatev1.StagePassed}, {Name: "two", Phase: spatev1.StageRunning}, {Name: "three", Phase: spatev1.StagePending},
	}
	return &scope{
		r:   &Reconciler{Memory: &storage.Memory{}, Events: recorder, supervisor: newSupervisor(nil)},
		run: run, pods: []*corev1.Pod{{}, {}},
		found: &findings{stageStats: at(1e9, 1000, 990, 0, 980), stageNumber: 1},
	}, recorder
}

func TestAStageWithinWhichTheRunEndsHasItsCountersUntilThen(t *testing.T) {
	facts := &storage.Facts{Flow: map[string]bool{"s": true}}
	for _, c := range []struct {
		what, reason string
		phase        spatev1.StagePhase
	}{
		{"its own threshold", "aborted: stage two: threshold lossless: result.lost == 0 does not hold: result.lost is 90", spatev1.StageAborted},
		{"a threshold of the run", "aborted: threshold few: result.tx < 10 does not hold: result.tx is 1400", spatev1.StageIncomplete},
		{"abortOnFail of the stage before", "aborted: stage one: threshold none: result.tx == 0 does not hold: result.tx is 1000", spatev1.StageIncomplete},
		{"a stop", "spec.stop is true", spatev1.StageIncomplete},
	} {
		s, recorder := staged()
		// Read 0.5 s and the drain after the stage began.
		stats := at(2e9, 1400, 1300, 90, 0)
		for _, st := range stats {
			st.Run = &enginev1.RunInfo{State: enginev1.RunState_RUN_STATE_STOPPED, EndReason: c.reason}
		}
		must(t, s.finish(t.Context(), stats, facts))
		var got []string
		for _, stage := range s.run.Status.Stages {
			got = append(got, string(stage.Phase))
		}
		if want := []string{"Passed", string(c.phase), "NotRun"}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", c.what, got, want)
		}
		two := s.run.Status.Stages[1]
		// 10 of the first stage's packets were in flight at its end, and have arrived in the second.
		if r := two.Result; r == nil || r.Tx != 400 || r.Rx != 310 || r.Lost != 100 || r.Duration != 5e8 {
			t.Errorf("%s: %+v", c.what, r)
		}
		if len(two.Thresholds) != 1 || two.Thresholds[0].Met {
			t.Errorf("%s: thresholds %+v", c.what, two.Thresholds)
		}
		if event, want := <-recorder.Events, fmt.Sprintf("Normal Stage%s stage two: ", c.phase); !strings.HasPrefix(event, want) {
			t.Errorf("%s: event %q, want %q", c.what, event, want)
		}
		reasons := s.run.Status.Verdict.Reasons
		if failed := slices.ContainsFunc(reasons, func(r spatev1.VerdictReason) bool { return r.Reason == spatev1.ReasonStageFailed }); failed {
			t.Errorf("%s: the stage that was not sent whole has failed too: %+v", c.what, reasons)
		}
	}
}

func TestTheLastStageIsAsLongAsItsTrafficAndNotItsDrain(t *testing.T) {
	s, recorder := staged()
	s.run.Status.Stages[1].Phase, s.run.Status.Stages[2].Phase = spatev1.StagePassed, spatev1.StageRunning
	s.found.stageNumber = 2
	stats := at(2.6e9, 1400, 1400, 0, 0)
	for _, st := range stats {
		st.Run = &enginev1.RunInfo{State: enginev1.RunState_RUN_STATE_COMPLETE}
	}
	must(t, s.finish(t.Context(), stats, &storage.Facts{Flow: map[string]bool{"s": true}}))
	three := s.run.Status.Stages[2]
	if three.Phase != spatev1.StagePassed || three.Result.Duration != 1e9 || three.Result.Tx != 400 {
		t.Errorf("%+v %+v", three, three.Result)
	}
	if event := <-recorder.Events; !strings.HasPrefix(event, "Normal StagePassed stage three: ") {
		t.Error(event)
	}
}
