// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what came of each stage of a run, and does a stage or a threshold end the run before its time?

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
)

const (
	// abortedBy precedes what aborted a run in its engines' end reasons, by which an operator that takes over finds it.
	abortedBy = "aborted: "
	// settleTime is after how long a packet of an active run that was not received counts as lost.
	settleTime = 900 * time.Millisecond
)

// abortReason returns what aborted a run; empty if it was not aborted.
func abortReason(stats []*enginev1.WatchStatsResponse) string {
	for _, st := range present(stats) {
		if why, aborted := strings.CutPrefix(st.GetRun().GetEndReason(), abortedBy); aborted {
			return why
		}
	}
	return ""
}

// followStages records stages that have ended, and returns why the run must be aborted, if it must.
func (s *scope) followStages(ctx context.Context, stats []*enginev1.WatchStatsResponse, facts *storage.Facts) (string, error) {
	all := s.run.Status.Resolved.Stages
	if len(all) > 0 || canAbort(s.run.Status.Resolved) {
		if err := s.compare(ctx); err != nil {
			return "", err
		}
	}
	if len(all) > 0 && s.run.Status.Stages == nil {
		for _, stage := range all {
			s.run.Status.Stages = append(s.run.Status.Stages, spatev1.StageStatus{Name: stage.Name, Phase: spatev1.StagePending})
		}
	}
	for i := range s.run.Status.Stages {
		status := &s.run.Status.Stages[i]
		if status.Phase == spatev1.StagePending && time.Until(s.stageEnd(i-1)) <= 0 {
			status.Phase = spatev1.StageRunning
			s.r.Events.Eventf(s.run, nil, corev1.EventTypeNormal, "StageStarted", "Run", "stage %s (%d of %d) for %s", status.Name, i+1, len(all), all[i].Duration)
		}
		if status.Phase != spatev1.StageRunning || i == len(all)-1 || time.Until(s.stageEnd(i)) > 0 {
			continue
		}
		begin, err := s.stageReading(ctx, i)
		if err != nil {
			return "", err
		}
		end, err := s.stageReading(ctx, i+1)
		if err != nil || end == nil {
			return "", err
		}
		if why := s.endStage(i, begin, end, facts); why != "" {
			return why, nil
		}
	}
	return s.abortedByThreshold(ctx, stats, facts)
}

// stageEnd is when a stage ends: of -1, when the measured phase begins.
func (s *scope) stageEnd(stage int) time.Time {
	at := s.run.Status.TrafficStartTime.Add(s.warmup())
	for i := 0; i <= stage; i++ {
		at = at.Add(parsed(s.run.Status.Resolved.Stages[i].Duration))
	}
	return at
}

// stageReading returns the counters at the end of a stage (1, 2, ...); nil at the beginning of the first, and if the stage has not ended on all
// engines.
func (s *scope) stageReading(ctx context.Context, stage int) ([]*enginev1.WatchStatsResponse, error) {
	if stage == 0 {
		return nil, nil
	}
	if s.found.stageStats == nil || s.found.stageNumber != stage {
		stats, known, err := s.countersAt(ctx, stage)
		if err != nil {
			return nil, fmt.Errorf("the counters at the end of stage %d: %w", stage, err)
		} else if !known {
			return nil, nil
		}
		s.found.stageStats, s.found.stageNumber = stats, stage
	}
	return s.found.stageStats, nil
}

// countersAt returns what all engines had counted at the end of a stage of a run or trial (1, 2, ...; not the last). They are not known if an engine
// does not have them: the stage has not ended, or the engine was too busy to read its counters before the run had ended.
func (s *scope) countersAt(ctx context.Context, stage int) (stats []*enginev1.WatchStatsResponse, known bool, err error) {
	stats = make([]*enginev1.WatchStatsResponse, len(s.pods))
	err = errors.Join(s.each(ctx, func(i int, _ *corev1.Pod, c *engine.Client) (err error) {
		stats[i], err = c.StageEnd(ctx, s.run.Status.Resolved.RunID, stage)
		return err
	})...)
	if e := (*engine.Error)(nil); errors.As(err, &e) && e.Code == codes.FailedPrecondition {
		return nil, false, nil
	}
	return stats, err == nil, err
}

// inStage precedes the message about a threshold of a stage.
func inStage(name string) string { return "stage " + name + ": " }

// endStage records what came of a stage that has ended. It returns why the run must be aborted, if it must.
func (s *scope) endStage(stage int, begin, end []*enginev1.WatchStatsResponse, facts *storage.Facts) string {
	settled, last := settledTx(end), stage == len(s.run.Status.Resolved.Stages)-1
	if last {
		settled = nil // all packets were awaited
	}
	result := stageResult(begin, end, settled, facts, s.run)
	if last {
		result.Duration = s.sentFor(stage, result.Duration)
	}
	missed := s.recordStage(stage, spatev1.StagePassed, result)
	if !s.run.Status.Resolved.Stages[stage].AbortOnFail {
		return ""
	}
	return missed
}

// sentFor is how long a stage was sent whose counters were read after the run's transmission had ended, as long after its beginning.
func (s *scope) sentFor(stage int, read spatev1.MeasuredTime) spatev1.MeasuredTime {
	return min(max(read, spatev1.MeasuredTime(time.Millisecond)), spatev1.MeasuredTime(parsed(s.run.Status.Resolved.Stages[stage].Duration)))
}

// recordStage records the result of a stage and whether its thresholds hold, and ends it in a phase: if that is Passed, in Failed where one
// does not hold. It returns the first that does not.
func (s *scope) recordStage(stage int, phase spatev1.StagePhase, result spatev1.RunResult) (missed string) {
	resolved, status := &s.run.Status.Resolved.Stages[stage], &s.run.Status.Stages[stage]
	status.Result = &spatev1.StageResult{
		Duration: result.Duration, Tx: result.Tx, Rx: result.Rx, Lost: result.Lost, LossRatio: result.LossRatio, WorstLatency: result.WorstLatency,
	}
	if flows := result.Flows; flows != nil {
		status.Result.FlowsAttempted, status.Result.FlowsEstablished, status.Result.FlowsFailed = flows.Attempted, flows.Established, flows.Failed
	}
	status.Thresholds = nil
	for _, t := range thresholds(resolved.Thresholds, result, s.compared, podNames(s.run.Status.LostPods)) {
		status.Thresholds = append(status.Thresholds, t.ThresholdResult)
		if !t.Met && missed == "" {
			missed = fmt.Sprintf("%sthreshold %s: %s", inStage(status.Name), t.Name, t.Message)
		}
	}
	status.Phase = phase
	if phase == spatev1.StagePassed && missed != "" {
		status.Phase = spatev1.StageFailed
	}
	s.r.Events.Eventf(s.run, nil, corev1.EventTypeNormal, "Stage"+string(status.Phase), "Run", "stage %s: %s", status.Name, summary(result, false))
	return missed
}

// endStages records the last stage, or the one within which the run ended, and those that were not run. `aborted` is what aborted the run.
func (s *scope) endStages(ctx context.Context, stats []*enginev1.WatchStatsResponse, facts *storage.Facts, early bool, aborted string) error {
	for i := range s.run.Status.Stages {
		status := &s.run.Status.Stages[i]
		switch {
		case status.Phase == spatev1.StagePending && early:
			status.Phase = spatev1.StageNotRun
		case status.Phase == spatev1.StageRunning || status.Phase == spatev1.StagePending:
			begin, err := s.stageReading(ctx, i)
			if err != nil {
				return err
			}
			end := stats
			if i < len(s.run.Status.Stages)-1 && !early { // no operator ran when it ended
				if end, err = s.stageReading(ctx, i+1); err != nil {
					return err
				}
			}
			within := endedWithin(status.Name, aborted)
			switch {
			case end == nil || begin == nil && i > 0: // an engine has not kept them
				status.Phase = within
			case early: // all packets that were sent until then were awaited
				result := stageResult(begin, end, nil, facts, s.run)
				result.Duration = s.sentFor(i, result.Duration-spatev1.MeasuredTime(s.drain()))
				s.recordStage(i, within, result)
			default:
				s.endStage(i, begin, end, facts)
			}
		}
	}
	return nil
}

// endedWithin is the phase of a stage within which the run ended, or whose counters are not known. `aborted` is what aborted the run.
func endedWithin(stage, aborted string) spatev1.StagePhase {
	if strings.HasPrefix(aborted, inStage(stage)) {
		return spatev1.StageAborted
	}
	return spatev1.StageIncomplete
}

// abortedByThreshold evaluates the thresholds that abort the run on what was counted so far.
func (s *scope) abortedByThreshold(ctx context.Context, stats []*enginev1.WatchStatsResponse, facts *storage.Facts) (string, error) {
	if !canAbort(s.run.Status.Resolved) {
		return "", nil
	}
	settled, known := s.settledBefore(stats)
	if !known {
		return "", nil
	}
	if ofRun := aborting(s.run.Status.Resolved.Thresholds, time.Since(s.stageEnd(-1))); len(ofRun) > 0 {
		result := stageResult(nil, stats, settled, facts, s.run)
		result.Routing = s.routing(stats)
		if why := s.firstMissed(ofRun, result); why != "" {
			return why, nil
		}
	}
	current := s.currentStage()
	if current < 0 {
		return "", nil
	}
	ofStage := aborting(s.run.Status.Resolved.Stages[current].Thresholds, time.Since(s.stageEnd(current-1)))
	if len(ofStage) == 0 {
		return "", nil
	}
	begin, err := s.stageReading(ctx, current)
	if err != nil || begin == nil && current > 0 {
		return "", err
	}
	if why := s.firstMissed(ofStage, stageResult(begin, stats, settled, facts, s.run)); why != "" {
		return inStage(s.run.Status.Stages[current].Name) + why, nil
	}
	return "", nil
}

// currentStage is the one that is under way; -1 if there is none.
func (s *scope) currentStage() int {
	return slices.IndexFunc(s.run.Status.Stages, func(stage spatev1.StageStatus) bool { return stage.Phase == spatev1.StageRunning })
}

// stageText names the stage that is under way.
func (s *scope) stageText() string {
	if at := s.currentStage(); at >= 0 {
		return fmt.Sprintf("%s (%d/%d)", s.run.Status.Stages[at].Name, at+1, len(s.run.Status.Stages))
	}
	return ""
}

// canAbort reports whether a threshold of a run can abort it.
func canAbort(resolved *spatev1.ResolvedRun) bool {
	some := func(all []spatev1.Threshold) bool {
		return slices.ContainsFunc(all, func(t spatev1.Threshold) bool { return t.Abort })
	}
	return some(resolved.Thresholds) || slices.ContainsFunc(resolved.Stages, func(stage spatev1.ResolvedStage) bool { return some(stage.Thresholds) })
}

// aborting are the thresholds that abort a run or stage that has been measured for a time.
func aborting(all []spatev1.Threshold, after time.Duration) (some []spatev1.Threshold) {
	for _, t := range all {
		if t.Abort && after >= max(parsed(t.AbortAfter), settleTime) {
			some = append(some, t)
		}
	}
	return some
}

// firstMissed describes the first threshold that a result does not meet.
func (s *scope) firstMissed(all []spatev1.Threshold, result spatev1.RunResult) string {
	for _, t := range thresholds(all, result, s.compared, nil) {
		if !t.Met && t.reason == spatev1.ReasonThresholdMissed {
			return fmt.Sprintf("threshold %s: %s", t.Name, t.Message)
		}
	}
	return ""
}

// earlier is how many packets each stream had sent at a time, warm-up not included.
type earlier struct {
	at   time.Time
	sent map[string]int64
}

// settledBefore returns what each stream had sent slightly less than a second ago or before that, and keeps what it has sent now.
func (s *scope) settledBefore(stats []*enginev1.WatchStatsResponse) (settled map[string]int64, known bool) {
	now := earlier{at: time.Now(), sent: byStream(stats, (*enginev1.StreamCounters).GetTxPackets)}
	s.found.earlier = append(s.found.earlier, now)
	readings := s.found.earlier
	for len(readings) > 1 && now.at.Sub(readings[1].at) >= settleTime {
		readings = readings[1:]
	}
	s.found.earlier = readings
	return readings[0].sent, now.at.Sub(readings[0].at) >= settleTime
}

// settledTx returns the packets of each stream that were sent some time before the end of a stage.
func settledTx(end []*enginev1.WatchStatsResponse) map[string]int64 {
	return byStream(end, (*enginev1.StreamCounters).GetSettledTxPackets)
}

// byStream sums a counter of the measured phase up over all engines.
func byStream(stats []*enginev1.WatchStatsResponse, counter func(*enginev1.StreamCounters) uint64) map[string]int64 {
	sums := map[string]int64{}
	for _, st := range present(stats) {
		for _, stream := range st.Streams {
			sums[stream.Name] += int64(counter(stream.GetMeasured()))
		}
	}
	return sums
}
