// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/data"
	"spate.dev/operator/internal/runs/storage"
)

// recording returns the statistics of two engines at the end of a run, with both sides of a template each; the first dropped that many
// records.
func recording(dropped uint64, first, second *enginev1.RecordStats) []*enginev1.WatchStatsResponse {
	client := side("web", clientSide, 0, map[string]uint64{"flows_attempted": 60, "flows_established": 60, "flows_closed": 60, recordsDropped: dropped})
	client.Warmup = client.Counters // records dropped in the warm-up are lost as well
	engine := func(records *enginev1.RecordStats, templates ...*enginev1.TemplateStats) *enginev1.WatchStatsResponse {
		return &enginev1.WatchStatsResponse{Run: &enginev1.RunInfo{State: enginev1.RunState_RUN_STATE_COMPLETE}, Templates: templates, Records: records}
	}
	return []*enginev1.WatchStatsResponse{
		engine(first, client, side("web", serverSide, 0, map[string]uint64{"flows_accepted": 60, recordsDropped: dropped})), engine(second, side("web", clientSide, 0, nil)),
	}
}

func file(name string, written, omitted uint64, problem string) *enginev1.RecordStats {
	return &enginev1.RecordStats{Path: data.VolumesDir + "/results/" + name, Written: written, Omitted: omitted, Problem: problem}
}

// noFile are the records of an engine that writes no file.
func noFile(delivered, undelivered uint64) *enginev1.RecordStats {
	return &enginev1.RecordStats{Delivered: delivered, Undelivered: undelivered}
}

func recordingRun() *spatev1.TrafficRun {
	return admitted("g-0", "g-1")
}

func TestRecordsThatAreLostAreNamedAndChangeNoVerdict(t *testing.T) {
	const full = "results/r-1.parquet.partial: no space left on device"
	for name, c := range map[string]struct {
		stats     []*enginev1.WatchStatsResponse
		status    metav1.ConditionStatus
		reason    string
		message   string // of Recorded; Passed has it too where records were lost
		eventKind string
	}{
		"all written": {
			recording(0, file("r-0.parquet", 100, 0, ""), file("r-1.parquet", 20, 0, "")),
			metav1.ConditionTrue, spatev1.ReasonRecordsWritten, "120 records are written", "Normal",
		},
		"more than were asked for": {
			recording(0, file("r-0.parquet", 100, 7, ""), file("r-1.parquet", 20, 0, "")),
			metav1.ConditionTrue, spatev1.ReasonRecordsOmitted, "120 records are written, 7 are omitted because spec.records.maxRecords of the profile was reached", "Normal",
		},
		"live only": {
			recording(0, noFile(100, 7), noFile(20, 0)),
			metav1.ConditionTrue, spatev1.ReasonRecordsLiveOnly, "no records are stored, since spec.records of the profile names no volume: 120 were delivered to readers, 7 were not", "Normal",
		},
		"live only and dropped": {
			recording(4, noFile(100, 7), noFile(20, 0)),
			metav1.ConditionFalse, spatev1.ReasonRecordsDropped, "connection records are lost: pod g-0: 8 were dropped because the engine did not keep up", "Warning",
		},
		"dropped": {
			recording(4, file("r-0.parquet", 100, 7, ""), file("r-1.parquet", 20, 0, "")),
			metav1.ConditionFalse, spatev1.ReasonRecordsDropped, "connection records are lost: pod g-0: 8 of results/r-0.parquet were dropped because the engine did not keep up", "Warning",
		},
		"not written": {
			recording(4, file("r-0.parquet", 100, 0, ""), file("r-1.parquet", 0, 0, full)),
			metav1.ConditionFalse, spatev1.ReasonRecordsNotWritten,
			"connection records are lost: pod g-0: 8 of results/r-0.parquet were dropped because the engine did not keep up; pod g-1: results/r-1.parquet is not complete: " + full, "Warning",
		},
	} {
		t.Run(name, func(t *testing.T) {
			run, recorder := recordingRun(), events.NewFakeRecorder(1)
			s := &scope{r: &Reconciler{Memory: &storage.Memory{}, Events: recorder}, run: run, found: &findings{}}
			must(t, s.finish(t.Context(), c.stats, &storage.Facts{}))
			s.conditions()
			recorded := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionRecorded)
			if recorded.Status != c.status || recorded.Reason != c.reason || recorded.Message != c.message {
				t.Errorf("%s %s: %s", recorded.Status, recorded.Reason, recorded.Message)
			}
			passed := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionPassed)
			if passed.Status != metav1.ConditionTrue || passed.Reason != spatev1.ReasonThresholdsMet || strings.Contains(passed.Message, c.message) != (c.status == metav1.ConditionFalse) {
				t.Errorf("%s %s: %s", passed.Status, passed.Reason, passed.Message)
			}
			s.recordPhase(&spatev1.TrafficRun{})
			if event := <-recorder.Events; !strings.HasPrefix(event, c.eventKind+" "+spatev1.ReasonThresholdsMet) {
				t.Errorf("event %q", event)
			}
		})
	}
}

func TestRecordsOfAllEnginesAreSummedTheWarmupIncluded(t *testing.T) {
	stats := recording(4, file("r-0.parquet", 100, 7, ""), file("r-1.parquet", 20, 1, ""))
	got := recordsOf(stats, recordingRun())
	if want := (spatev1.RecordCounters{Written: 120, Omitted: 8, Dropped: 8}); got.RecordCounters != want {
		t.Errorf("got %+v, want %+v", got.RecordCounters, want)
	}
	want := spatev1.PodRecords{Pod: "g-0", File: "results/r-0.parquet", RecordCounters: spatev1.RecordCounters{Written: 100, Omitted: 7, Dropped: 8}}
	if len(got.Pods) != 2 || got.Pods[0] != want {
		t.Errorf("got %+v, want %+v first", got.Pods, want)
	}
	got = recordsOf(recording(4, noFile(100, 7), noFile(20, 1)), recordingRun())
	if want := (spatev1.RecordCounters{Delivered: 120, Undelivered: 8, Dropped: 8}); got.RecordCounters != want || got.Pods[0].File != "" {
		t.Errorf("got %+v, want %+v and no file", got, want)
	}
	if got := recordsOf(recording(0, nil, nil), recordingRun()); got != nil {
		t.Errorf("nothing is recorded: %+v", got)
	}
}

func TestThresholdsMayAskForRecords(t *testing.T) {
	run := recordingRun()
	run.Status.Resolved.Thresholds = []spatev1.Threshold{{Name: "recorded", Expression: "result.records.filesNotWritten == 0"}, {Name: "none-dropped", Expression: "result.records.dropped == 0 && result.records.written == 100"}}
	s := &scope{r: &Reconciler{Memory: &storage.Memory{}}, run: run, found: &findings{}}
	must(t, s.finish(t.Context(), recording(0, file("r-0.parquet", 100, 0, ""), file("r-1.parquet", 0, 0, "read-only file system")), &storage.Facts{}))
	v := run.Status.Verdict
	if v.Outcome != spatev1.VerdictFailed || v.Thresholds[0].Met || !v.Thresholds[1].Met || v.Reasons[0].Reason != spatev1.ReasonThresholdMissed || v.Reasons[1].Reason != spatev1.ReasonRecordsNotWritten {
		t.Errorf("%+v", v)
	}
}

func TestThresholdsMayAskThatSomebodyReads(t *testing.T) {
	run := recordingRun()
	run.Status.Resolved.Thresholds = []spatev1.Threshold{{Name: "read", Expression: "result.records.undelivered == 0"}, {Name: "some", Expression: "result.records.delivered == 120"}}
	s := &scope{r: &Reconciler{Memory: &storage.Memory{}}, run: run, found: &findings{}}
	must(t, s.finish(t.Context(), recording(0, noFile(100, 7), noFile(20, 0)), &storage.Facts{}))
	if v := run.Status.Verdict; v.Outcome != spatev1.VerdictFailed || v.Thresholds[0].Met || !v.Thresholds[1].Met {
		t.Errorf("%+v", v)
	}
}

func TestRecordsOfARunUnderWayAndOfALostEngineAreNotKnown(t *testing.T) {
	run := recordingRun()
	s := &scope{r: &Reconciler{Memory: &storage.Memory{}}, run: run, found: &findings{}}
	recorded := func() *metav1.Condition {
		s.conditions()
		return meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionRecorded)
	}
	run.Status.Phase = spatev1.RunRunning
	if c := recorded(); c != nil {
		t.Errorf("nothing is recorded: %+v", c)
	}
	run.Status.Result = &spatev1.RunResult{Records: recordsOf(recording(0, file("r-0.parquet", 100, 0, ""), nil), run)}
	if c := recorded(); c.Status != metav1.ConditionUnknown || c.Reason != spatev1.ReasonAwaitingResult {
		t.Errorf("it may yet fail: %+v", c)
	}
	s.invalid(spatev1.ReasonPodLost, "pod g-0 is gone", "")
	if c := recorded(); c.Status != metav1.ConditionUnknown || c.Reason != spatev1.ReasonPodLost {
		t.Errorf("what its engine did at the end is not known: %+v", c)
	}
	run.Status.Phase = spatev1.RunRunning
	run.Status.Result.Records.Pods[0].Problem = "no space left on device"
	if c := recorded(); c.Status != metav1.ConditionFalse || c.Reason != spatev1.ReasonRecordsNotWritten {
		t.Errorf("it is reported at once: %+v", c)
	}
}
