// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
)

func TestResultSumsOverEngines(t *testing.T) {
	facts := &storage.Facts{Flow: map[string]bool{"a": true}, Ports: map[string]bool{"p": true}}
	r := admitted("g-0", "g-1")
	r.Status.PortBaseline = []spatev1.PortBaseline{{Pod: "g-0", Port: "p", RxMissed: 5, Foreign: 1, OtherMAC: 4, NotReflected: 2, Throttled: 7}, {Pod: "g-0", Port: "q", RxMissed: 100}}
	stats := []*enginev1.WatchStatsResponse{
		{
			Streams: []*enginev1.StreamStats{
				{Name: "b", Measured: &enginev1.StreamCounters{TxPackets: 7}},
				{Name: "a", Measured: &enginev1.StreamCounters{TxPackets: 60, RxPackets: 30, Duplicates: 1}, Warmup: &enginev1.StreamCounters{TxPackets: 1000}},
			},
			Ports: []*enginev1.PortStats{{Port: "p", RxMissed: 8, ForeignPackets: 3, OtherMacPackets: 9, NotReflectedPackets: 8, ThrottledPackets: 10}, {Port: "q", RxMissed: 200}},
		},
		{Streams: []*enginev1.StreamStats{{Name: "a", Measured: &enginev1.StreamCounters{TxPackets: 40, RxPackets: 69}}}},
	}
	got := resultOf(stats, facts, r)
	if got.Tx != 107 || got.Rx != 99 || got.Lost != 2 || got.LossRatio != "0.02" || got.RxMissed != 3 || got.Foreign != 2 || got.OtherMAC != 5 || got.NotReflected != 6 || got.Throttled != 3 {
		t.Errorf("%+v", got)
	}
	if len(got.Streams) != 2 || got.Streams["a"].Tx != 100 || got.Streams["a"].Lost != 2 || got.Streams["b"].Tx != 7 || got.Streams["b"].Lost != 0 {
		t.Errorf("streams %+v", got.Streams)
	}
}

// Engines count received packets of all streams with one mark under the name of the first stream.
func TestStreamsThatShareAMarkAreLostTogether(t *testing.T) {
	facts := &storage.Facts{Flow: map[string]bool{"a": true, "b": true, "c": true}, CountedAs: map[string]string{"a": "b"}}
	counted := func(name string, tx, rx uint64) *enginev1.StreamStats {
		return &enginev1.StreamStats{Name: name, Measured: &enginev1.StreamCounters{TxPackets: tx, RxPackets: rx}}
	}
	got := resultOf([]*enginev1.WatchStatsResponse{{Streams: []*enginev1.StreamStats{counted("a", 60, 0), counted("b", 40, 95), counted("c", 100, 100)}}}, facts, &spatev1.TrafficRun{})
	lost := map[string]string{}
	for name, s := range got.Streams {
		lost[name] = fmt.Sprintf("%d, %s", s.Lost, s.LossRatio)
	}
	if want := map[string]string{"a": "0, 0", "b": "5, 0.05", "c": "0, 0"}; !maps.Equal(lost, want) || got.Lost != 5 || got.LossRatio != "0.025" {
		t.Errorf("of streams %v, of all %d, %s", lost, got.Lost, got.LossRatio)
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		result      spatev1.StreamCounters
		missedStart int64
		thresholds  []string
		outcome     spatev1.VerdictOutcome
		reason      string
		words       []string
	}{
		"no thresholds":       {spatev1.StreamCounters{Tx: 10}, 0, nil, spatev1.VerdictPassed, spatev1.ReasonThresholdsMet, []string{"10 packets sent"}},
		"held":                {spatev1.StreamCounters{Tx: 10}, 0, []string{"result.lost == 0"}, spatev1.VerdictPassed, spatev1.ReasonThresholdsMet, nil},
		"missed":              {spatev1.StreamCounters{Tx: 10, Lost: 3}, 0, []string{"result.tx > 0", "result.lost == 0"}, spatev1.VerdictFailed, spatev1.ReasonThresholdMissed, []string{"result.lost == 0", "is 3"}},
		"late within":         {spatev1.StreamCounters{Tx: 1000, Late: 1}, 0, nil, spatev1.VerdictPassed, spatev1.ReasonThresholdsMet, nil},
		"late beyond":         {spatev1.StreamCounters{Tx: 1000, Late: 2}, 0, nil, spatev1.VerdictInvalid, spatev1.ReasonGeneratorLimited, []string{"2 packets were sent late", "0.1%", "allows 1"}},
		"dropped":             {spatev1.StreamCounters{Tx: 1000, TxDropped: 1}, 0, nil, spatev1.VerdictInvalid, spatev1.ReasonGeneratorLimited, []string{"could not be sent"}},
		"missed on receive":   {spatev1.StreamCounters{Tx: 1000, Lost: 4}, 4, []string{"result.lost == 0"}, spatev1.VerdictInvalid, spatev1.ReasonGeneratorLimited, []string{"4 packets arrived"}},
		"nothing was sent":    {spatev1.StreamCounters{}, 0, []string{"result.lossRatio == 0.0"}, spatev1.VerdictPassed, spatev1.ReasonThresholdsMet, nil},
		"cannot be evaluated": {spatev1.StreamCounters{Tx: 1}, 0, []string{"1 / result.lost == 0"}, spatev1.VerdictFailed, spatev1.ReasonThresholdError, []string{"division by zero"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := admitted()
			r.Status.Resolved.GeneratorTolerance = spatev1.GeneratorTolerance{Late: "0.1%", TxDropped: "0", RxMissed: "0"}
			for _, e := range c.thresholds {
				r.Status.Resolved.Thresholds = append(r.Status.Resolved.Thresholds, spatev1.Threshold{Name: "t", Expression: e})
			}
			v := judge(r, spatev1.RunResult{StreamCounters: c.result, RxMissed: c.missedStart, Duration: spatev1.MeasuredTime(time.Second)}, compared{}, nil, nil, "")
			reason, message := primary(&v)
			if v.Outcome != c.outcome || reason != c.reason {
				t.Errorf("%s %s: %s", v.Outcome, reason, message)
			}
			for _, w := range c.words {
				if !strings.Contains(message, w) {
					t.Errorf("no %q in %q", w, message)
				}
			}
		})
	}
}

func TestADrainThatTimedOutMakesTheRunInvalid(t *testing.T) {
	stats := []*enginev1.WatchStatsResponse{
		{Run: &enginev1.RunInfo{State: enginev1.RunState_RUN_STATE_COMPLETE}},
		{Run: &enginev1.RunInfo{
			State: enginev1.RunState_RUN_STATE_COMPLETE, DrainTimedOut: "worker 0 still had packets to read", Contradictions: []string{"servers: 9 accepts"},
		}},
	}
	run := admitted("g-0", "g-1")
	s := &scope{r: &Reconciler{Memory: &storage.Memory{}}, run: run, found: &findings{}}
	must(t, s.finish(t.Context(), stats, &storage.Facts{}))
	s.conditions()
	if v := run.Status.Verdict; v.Outcome != spatev1.VerdictInvalid || len(v.Reasons) != 2 {
		t.Errorf("%+v", v)
	}
	passed := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionPassed)
	const want = "the drain timed out: pod g-1: worker 0 still had packets to read; counters contradict each other: pod g-1: servers: 9 accepts"
	if passed.Status != metav1.ConditionUnknown || passed.Reason != spatev1.ReasonDrainTimedOut || passed.Message != want {
		t.Errorf("%s %s: %s", passed.Status, passed.Reason, passed.Message)
	}
	if ended := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionComplete); ended.Reason != spatev1.ReasonFinished {
		t.Errorf("it was not cut short: %s", ended.Reason)
	}
}

// The numbers of such a run would meet the threshold.
func TestCountersThatContradictEachOtherMakeTheRunInvalid(t *testing.T) {
	stats := []*enginev1.WatchStatsResponse{
		{Run: &enginev1.RunInfo{State: enginev1.RunState_RUN_STATE_COMPLETE}},
		{Run: &enginev1.RunInfo{State: enginev1.RunState_RUN_STATE_COMPLETE, Contradictions: []string{
			"web: 9 flows_attempted, but 8 closed and 0 open", "servers: 9 accepts, but 7 closed and 0 open", "third", "fourth", "fifth",
		}}},
	}
	run := admitted("g-0", "g-1")
	run.Status.Resolved.Thresholds = []spatev1.Threshold{{Name: "t", Expression: "result.lost == 0"}}
	s := &scope{r: &Reconciler{Memory: &storage.Memory{}}, run: run, found: &findings{}}
	must(t, s.finish(t.Context(), stats, &storage.Facts{}))
	s.conditions()
	if v := run.Status.Verdict; v.Outcome != spatev1.VerdictInvalid || len(v.Thresholds) != 1 || !v.Thresholds[0].Met {
		t.Errorf("%+v", v)
	}
	passed := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionPassed)
	const want = "counters contradict each other: pod g-1: web: 9 flows_attempted, but 8 closed and 0 open; servers: 9 accepts, but 7 closed and 0 open; third; and 2 more"
	if passed.Status != metav1.ConditionUnknown || passed.Reason != spatev1.ReasonCountersContradict || passed.Message != want {
		t.Errorf("%s %s: %s", passed.Status, passed.Reason, passed.Message)
	}
	if ended := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionComplete); ended.Reason != spatev1.ReasonFinished {
		t.Errorf("it was not cut short: %s", ended.Reason)
	}
}

// Packets lost while a port had no link say nothing about the device under test: the verdict names the port, even if its link is up
// again.
func TestALinkThatWasDownIsReportedOnceAndInTheVerdict(t *testing.T) {
	run, recorder := admitted("g-0"), events.NewFakeRecorder(9)
	run.Status.Resolved.Thresholds = []spatev1.Threshold{{Name: "no-loss", Expression: "result.lost == 0"}}
	s := &scope{
		r:   &Reconciler{Memory: &storage.Memory{}, Events: recorder, supervisor: newSupervisor(nil)},
		run: run, found: &findings{}, pods: []*corev1.Pod{{}},
	}
	facts := &storage.Facts{Flow: map[string]bool{"a": true}, Ports: map[string]bool{"east": true, "west": true}}
	var stats []*enginev1.WatchStatsResponse
	for at, up := range []bool{true, false, false, true} {
		stats = []*enginev1.WatchStatsResponse{{
			ReadAtNs: int64(at) * 1e9, Run: &enginev1.RunInfo{State: enginev1.RunState_RUN_STATE_COMPLETE},
			Streams: []*enginev1.StreamStats{{Name: "a", Measured: &enginev1.StreamCounters{TxPackets: 10, RxPackets: 7}}},
			Ports:   []*enginev1.PortStats{{Port: "east", LinkUp: true}, {Port: "west", LinkUp: up}, {Port: "of-others"}},
		}}
		s.measure(t.Context(), stats, facts)
	}
	s.r = &Reconciler{Memory: &storage.Memory{}, Events: recorder, supervisor: newSupervisor(nil)} // another operator takes over
	s.found = &findings{}
	must(t, s.finish(t.Context(), stats, facts))
	if reported := len(recorder.Events); reported != 1 {
		t.Errorf("%d events", reported)
	}
	reason, message := primary(run.Status.Verdict)
	const want = "threshold no-loss: result.lost == 0 does not hold: result.lost is 3; port west of pod g-0 had no link for a time"
	if reason != spatev1.ReasonThresholdMissed || message != want {
		t.Errorf("%s: %s", reason, message)
	}
}

func TestPhaseIsThatOfTheEngineFurthestBehind(t *testing.T) {
	of := func(states ...enginev1.RunState) []*enginev1.WatchStatsResponse {
		var all []*enginev1.WatchStatsResponse
		for _, s := range states {
			all = append(all, &enginev1.WatchStatsResponse{Run: &enginev1.RunInfo{State: s}})
		}
		return all
	}
	const complete, draining, runningState = enginev1.RunState_RUN_STATE_COMPLETE, enginev1.RunState_RUN_STATE_DRAINING, enginev1.RunState_RUN_STATE_RUNNING
	if p, ended := phaseOf(of(complete, draining)); p != spatev1.RunDraining || ended {
		t.Errorf("%s %v", p, ended)
	}
	if p, ended := phaseOf(of(runningState, draining)); p != spatev1.RunRunning || ended {
		t.Errorf("%s %v", p, ended)
	}
	if _, ended := phaseOf(of(complete, enginev1.RunState_RUN_STATE_STOPPED)); !ended {
		t.Error("not ended")
	}
}
