// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
)

// losing is a run of three pods, g-0 to g-2, that sends, with thresholds t0, t1 and so on. No engine of the pods exists.
func losing(policy spatev1.PodLossPolicy, expressions ...string) *scope {
	r := admitted("g-0", "g-1", "g-2")
	r.Status.Phase, r.Status.Resolved.WhenPodLost = spatev1.RunRunning, policy
	for i, e := range expressions {
		r.Status.Resolved.Thresholds = append(r.Status.Resolved.Thresholds, spatev1.Threshold{Name: spatev1.EntryName(fmt.Sprint("t", i)), Expression: e})
	}
	return &scope{
		r:   &Reconciler{Events: events.NewFakeRecorder(20), Engines: engine.NewPool(nil), Memory: &storage.Memory{}},
		run: r, found: &findings{}, pods: make([]*corev1.Pod, 3),
	}
}

// seen are the counters of an engine that has sent tx and received rx packets of stream `a`.
func seen(tx, rx uint64) *enginev1.WatchStatsResponse {
	return &enginev1.WatchStatsResponse{
		ReadAtNs: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano(), Run: &enginev1.RunInfo{State: enginev1.RunState_RUN_STATE_COMPLETE},
		Streams: []*enginev1.StreamStats{{Name: "a", Measured: &enginev1.StreamCounters{TxPackets: tx, RxPackets: rx}}},
		Ports:   []*enginev1.PortStats{{Port: "east", LinkUp: true, ForeignPackets: 5}},
	}
}

func TestALostPodEndsTheRunUnlessItContinues(t *testing.T) {
	for _, policy := range []spatev1.PodLossPolicy{"", spatev1.PodLossAbort} {
		s := losing(policy)
		if ends := s.lose(t.Context(), []loss{{1, "pod g-1 is gone"}}); !ends || s.run.Status.Verdict.Reasons[0] != (spatev1.VerdictReason{Reason: spatev1.ReasonPodLost, Message: "pod g-1 is gone"}) || s.run.Status.LostPods != nil {
			t.Errorf("policy %q: %t, %+v", policy, ends, s.run.Status)
		}
	}
	s := losing(spatev1.PodLossContinue)
	s.answered([]*enginev1.WatchStatsResponse{seen(100, 90), seen(70, 60), seen(50, 40)})
	if s.lose(t.Context(), nil) || s.run.Status.LostPods != nil {
		t.Errorf("nothing was lost: %+v", s.run.Status)
	}
	if ends := s.lose(t.Context(), []loss{{1, "pod g-1 is gone"}}); ends || s.run.Status.Phase != spatev1.RunRunning {
		t.Fatalf("%t, %+v", ends, s.run.Status)
	}
	if l := s.run.Status.LostPods; len(l) != 1 || l[0].Name != "g-1" || l[0].Message != "pod g-1 is gone" || l[0].LastCounters == nil || l[0].LastCounters.Tx != 70 || l[0].LastCounters.Rx != 60 {
		t.Errorf("%+v", l)
	}
	// A new operator has read no counters of this pod.
	s.found = &findings{}
	if ends := s.lose(t.Context(), []loss{{0, "pod g-0 is gone"}}); ends || s.run.Status.LostPods[1].LastCounters != nil {
		t.Errorf("%t, %+v", ends, s.run.Status.LostPods)
	}
	s.conditions()
	if ready := meta.FindStatusCondition(s.run.Status.Conditions, spatev1.ConditionReady); ready.Message != "1 of 3 engines execute the run, which has lost g-1, g-0" {
		t.Errorf("%+v", ready)
	}
	if ends := s.lose(t.Context(), []loss{{2, "pod g-2 is gone"}}); !ends || len(s.run.Status.LostPods) != 3 || s.run.Status.Phase != spatev1.RunComplete {
		t.Errorf("%t, %+v", ends, s.run.Status)
	}
	if v := s.run.Status.Verdict; v.Outcome != spatev1.VerdictInvalid || v.Reasons[0].Reason != spatev1.ReasonPodLost || v.Reasons[0].Message != "all 3 pods are lost: pod g-2 is gone" {
		t.Errorf("%+v", v)
	}
}

func TestAVerdictWithoutALostPodIsOnWhatIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		thresholds []string
		outcome    spatev1.VerdictOutcome
		reason     string
		words      []string
	}{
		"no thresholds": {nil, spatev1.VerdictPassed, spatev1.ReasonThresholdsMet, []string{"150 packets sent, 131 received; there are no thresholds", "the result is what g-0, g-2 did", "nor what the lost pods did later"}},
		"known":         {[]string{"result.tx == 150", "result.late == 0"}, spatev1.VerdictPassed, spatev1.ReasonThresholdsMet, []string{"of that, thresholds t0, t1 hold", "pod g-1 was lost at 2026-01-02T03:04:06Z (pod g-1 is gone), last seen at 2026-01-02T03:04:05Z with 70 packets sent and 60 received"}},
		"unknown":       {[]string{"result.lost == 19", "result.tx == 150"}, spatev1.VerdictInvalid, spatev1.ReasonThresholdUnmeasured, []string{"threshold t0: result.lost == 19 cannot be evaluated: lost not known", "g-1", "of that, thresholds t1 hold"}},
		"missed":        {[]string{"result.rx > 0", "result.tx == 220"}, spatev1.VerdictFailed, spatev1.ReasonThresholdMissed, []string{"threshold t1", "result.tx is 150", "threshold t0: result.rx > 0 cannot be evaluated"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := losing(spatev1.PodLossContinue, c.thresholds...)
			s.run.Status.PortBaseline = []spatev1.PortBaseline{{Pod: "g-1", Port: "east", Foreign: 1000}, {Pod: "g-2", Port: "east", Foreign: 3}}
			s.run.Status.LostPods = []spatev1.LostPod{{
				Name: "g-1", LostTime: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)), Message: "pod g-1 is gone", LastCounters: podCounters(seen(70, 60)),
			}}
			// g-2 has received what the lost pod has sent: what seems lost means nothing.
			must(t, s.finish(t.Context(), []*enginev1.WatchStatsResponse{seen(100, 40), nil, seen(50, 91)}, &storage.Facts{Flow: map[string]bool{"a": true}, Ports: map[string]bool{"east": true}}))
			s.conditions()
			v := s.run.Status.Verdict
			reason, message := primary(v)
			if v.Outcome != c.outcome || reason != c.reason || v.Reasons[len(v.Reasons)-1].Reason != spatev1.ReasonPodLost {
				t.Errorf("%s %s: %s", v.Outcome, reason, message)
			}
			for _, words := range c.words {
				if !strings.Contains(message, words) {
					t.Errorf("no %q in %q", words, message)
				}
			}
			if res := s.run.Status.Result; res.Tx != 150 || res.Rx != 131 || res.Foreign != 5+5-3 {
				t.Errorf("the result has counters of the lost pod: %+v", res)
			}
			if ended := meta.FindStatusCondition(s.run.Status.Conditions, spatev1.ConditionComplete); ended.Reason != spatev1.ReasonFinished {
				t.Errorf("it was not cut short: %s", ended.Reason)
			}
			// Other thresholds afterwards change nothing of it: what is unknown stays unknown.
			s.run.Status.Resolved.Thresholds = []spatev1.Threshold{{Name: "later", Expression: "result.lossRatio < 1.0"}}
			if !judgeable(v) {
				t.Errorf("%+v cannot be evaluated again", v)
			}
			if again := judge(s.run, *s.run.Status.Result, compared{}, nil, nil, ""); again.Outcome != spatev1.VerdictInvalid || again.Reasons[0].Reason != spatev1.ReasonThresholdUnmeasured {
				t.Errorf("judged again: %+v", again)
			}
		})
	}
}

func TestFilesOfLostPodsAreNotComplete(t *testing.T) {
	s := losing(spatev1.PodLossContinue)
	s.run.Status.LostPods = []spatev1.LostPod{{Name: "g-1", Message: "pod g-1 is gone"}}
	recorded := seen(1, 1)
	recorded.Records = &enginev1.RecordStats{Path: "/var/spate/volumes/v/r-0.parquet", Written: 7}
	must(t, s.finish(t.Context(), []*enginev1.WatchStatsResponse{recorded, nil, recorded}, &storage.Facts{}))
	if all := s.run.Status.Result.Records; all.Written != 14 || len(all.Pods) != 3 || all.Pods[2].Pod != "g-1" {
		t.Errorf("%+v", all)
	}
	if _, message := lostRecords(s.run.Status.Result.Records); !strings.Contains(message, "pod g-1: its file is not complete: the pod was lost: pod g-1 is gone") {
		t.Error(message)
	}
	recorded.Records = &enginev1.RecordStats{Delivered: 3} // live only: there is no file to miss
	must(t, s.finish(t.Context(), []*enginev1.WatchStatsResponse{recorded, nil, recorded}, &storage.Facts{}))
	if all := s.run.Status.Result.Records; len(all.Pods) != 2 {
		t.Errorf("%+v", all)
	}
}

func TestAPodIsLostAfterAMinuteOfSilenceOrWithoutItsRun(t *testing.T) {
	silent := func(pod string) error {
		return fmt.Errorf("pod %s: %w", pod, &engine.Error{Code: codes.Unavailable, Message: "no route"})
	}
	s := losing(spatev1.PodLossContinue)
	// One does not answer: the run waits, and nothing is lost yet.
	if _, err := s.unanswered(t.Context(), []error{nil, silent("g-1"), nil}); err != nil || s.unreachable != "pod g-1: no route" || s.run.Status.LostPods != nil {
		t.Fatalf("%v, %q, %+v", err, s.unreachable, s.run.Status.LostPods)
	}
	// After a minute that one is lost; another that has just become silent is not.
	s.found.silent[1] = time.Now().Add(-lostAfter - time.Second)
	s.unreachable = ""
	if _, err := s.unanswered(t.Context(), []error{silent("g-0"), silent("g-1"), nil}); err != nil || s.unreachable != "pod g-0: no route" || strings.Join(podNames(s.run.Status.LostPods), " ") != "g-1" {
		t.Fatalf("%v, %q, %+v", err, s.unreachable, s.run.Status.LostPods)
	}
	// One that has been restarted in place is lost at once; the run goes on immediately.
	s.unreachable = ""
	unknown := fmt.Errorf("pod g-2: %w", &engine.Error{Code: codes.NotFound, Message: "no such run"})
	if again, err := s.unanswered(t.Context(), []error{nil, nil, unknown}); err != nil || again != time.Millisecond || s.unreachable != "" || len(s.run.Status.LostPods) != 2 {
		t.Fatalf("%s, %v, %+v", again, err, s.run.Status.LostPods)
	}
	// Any other error loses none.
	odd := errors.New("odd")
	if again, err := s.unanswered(t.Context(), []error{odd, nil, nil}); !errors.Is(err, odd) || again != tick || len(s.run.Status.LostPods) != 2 {
		t.Fatalf("%s, %v, %+v", again, err, s.run.Status.LostPods)
	}
	// An operator that takes over counts from what the run's condition says.
	s = losing(spatev1.PodLossAbort)
	s.run.Status.Conditions = []metav1.Condition{{
		Type: spatev1.ConditionReady, Status: metav1.ConditionFalse, Reason: spatev1.ReasonEngineUnreachable, LastTransitionTime: metav1.NewTime(time.Now().Add(-2 * lostAfter)),
	}}
	if _, err := s.unanswered(t.Context(), []error{silent("g-0"), nil, nil}); err != nil || s.run.Status.Verdict == nil || s.run.Status.Verdict.Reasons[0].Reason != spatev1.ReasonPodLost {
		t.Errorf("%v, %+v", err, s.run.Status.Verdict)
	}
}

func TestAnEngineThatEndsAloneIsLost(t *testing.T) {
	s := losing(spatev1.PodLossContinue)
	for i := range s.pods {
		s.pods[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("g-", i)}}
	}
	ended := seen(5, 5)
	ended.Run.EndReason = "its lease has expired"
	stats := []*enginev1.WatchStatsResponse{seen(9, 9), nil, ended}
	alone := s.endedAlone(stats)
	if len(alone) != 1 || alone[0] != (loss{2, "pod g-2: its lease has expired"}) || !s.othersGoOn(stats, alone) {
		t.Errorf("%+v", alone)
	}
	// If all have ended so, the run was cut short.
	if stats = []*enginev1.WatchStatsResponse{nil, nil, ended}; s.othersGoOn(stats, s.endedAlone(stats)) {
		t.Error("no engine goes on")
	}
}
