// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how is a run supervised while it sends and drains?

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
)

// underWay reads all counters, applies changes, and updates the result. Phases are the engines': they advance by their own clocks, even
// while no operator runs.
func (s *scope) underWay(ctx context.Context) (time.Duration, error) {
	if s.lose(ctx, s.lost) {
		return 0, nil
	}
	if s.run.Spec.Search != nil {
		return s.searching(ctx)
	}
	facts, err := s.factsUnderWay(ctx)
	if facts == nil {
		return 0, err
	}
	if s.end.message != "" {
		s.stop(ctx, s.end.message) // the statistics below reflect it
	}
	s.limitAll(ctx)
	stats, errs := s.readAll(ctx)
	if errors.Join(errs...) != nil {
		return s.unanswered(ctx, errs)
	}
	s.answered(stats)
	if s.checkRouters(stats); s.end.reason == spatev1.ReasonRoutingFailed {
		s.stop(ctx, s.end.message)
	}
	alone := s.endedAlone(stats)
	if s.end.message == "" && s.continues() && s.othersGoOn(stats, alone) {
		s.lose(ctx, alone)
		return time.Millisecond, nil
	}
	if facts.ClockBound == 0 {
		s.followClocks(ctx, stats)
	}
	s.measure(ctx, stats, facts)
	phase, ended := phaseOf(stats)
	if ended {
		return 0, s.finish(ctx, stats, facts)
	}
	if s.run.Status.Phase = phase; phase == spatev1.RunWarmingUp {
		s.run.Status.Phase = s.firstPhase()
	}
	if len(alone) > 0 && s.end.message == "" {
		s.stop(ctx, messages(alone)) // the others would continue without it
		return s.next(), nil
	}
	if s.end.message == "" && phase == spatev1.RunRunning {
		why, err := s.followStages(ctx, stats, facts)
		if err != nil {
			return 0, err
		}
		if why != "" {
			s.stop(ctx, abortedBy+why)
			return time.Millisecond, nil
		}
	}
	if s.end.message == "" && s.definition != nil {
		if err := s.applyRate(ctx, stats); err != nil {
			return 0, err
		}
	}
	return s.next(), nil
}

// factsUnderWay returns the facts of the run's plan. They are nil if they cannot be had: then the run has ended, or there is an error.
func (s *scope) factsUnderWay(ctx context.Context) (*storage.Facts, error) {
	facts, err := s.r.Memory.Of(ctx, s.run)
	var gone *storage.LostError
	if errors.As(err, &gone) {
		s.stop(ctx, gone.Message)
		s.invalid(spatev1.ReasonSnapshotLost, gone.Message, "")
		return nil, nil
	}
	return facts, err
}

// readAll reads the counters of all engines, and returns the errors by pod.
func (s *scope) readAll(ctx context.Context) (stats []*enginev1.WatchStatsResponse, errs []error) {
	stats = make([]*enginev1.WatchStatsResponse, len(s.pods))
	errs = s.each(ctx, func(i int, pod *corev1.Pod, c *engine.Client) (err error) {
		if stats[i], err = c.Stats(ctx, s.run.Status.Resolved.RunID); err != nil {
			err = fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		return err
	})
	return stats, errs
}

// phaseOf returns the phase of the engine that is furthest behind.
func phaseOf(stats []*enginev1.WatchStatsResponse) (phase spatev1.RunPhase, ended bool) {
	rank := map[enginev1.RunState]int{
		enginev1.RunState_RUN_STATE_PREPARED: 0, enginev1.RunState_RUN_STATE_ARMED: 0, enginev1.RunState_RUN_STATE_WARMING_UP: 0,
		enginev1.RunState_RUN_STATE_RUNNING: 1, enginev1.RunState_RUN_STATE_PAUSED: 1, enginev1.RunState_RUN_STATE_DRAINING: 2,
		enginev1.RunState_RUN_STATE_COMPLETE: 3, enginev1.RunState_RUN_STATE_STOPPED: 3,
	}
	least := 3
	for _, st := range present(stats) {
		least = min(least, rank[st.GetRun().GetState()])
	}
	return []spatev1.RunPhase{spatev1.RunWarmingUp, spatev1.RunRunning, spatev1.RunDraining, spatev1.RunComplete}[least], least == 3
}

// firstPhase of a run that has started.
func (s *scope) firstPhase() spatev1.RunPhase {
	if s.warmup() > 0 {
		return spatev1.RunWarmingUp
	}
	return spatev1.RunRunning
}

// next is the time until the next iteration: a tick, or the end of the phase if that is sooner.
func (s *scope) next() time.Duration {
	start := s.run.Status.TrafficStartTime
	if start == nil {
		return tick
	}
	at := start.Add(s.warmup())
	ends := []time.Time{start.Time, at}
	if d := s.duration(); d > 0 {
		ends = append(ends, at.Add(d), at.Add(d).Add(s.drain()))
	}
	for i := range s.run.Status.Resolved.Stages {
		ends = append(ends, s.stageEnd(i))
	}
	again := tick
	for _, end := range ends {
		// Slightly later, since the engine may check its clock later.
		if wait := time.Until(end) + 20*time.Millisecond; wait > 0 && wait < again {
			again = wait
		}
	}
	if s.run.Status.Phase == spatev1.RunDraining {
		again = min(again, 100*time.Millisecond)
	}
	return again
}

func (s *scope) warmup() time.Duration   { return parsed(s.run.Status.Resolved.Timing.Warmup) }
func (s *scope) duration() time.Duration { return parsed(s.run.Status.Resolved.Timing.Duration) }
func (s *scope) drain() time.Duration    { return parsed(s.run.Status.Resolved.Timing.Drain) }

func parsed(d spatev1.Duration) time.Duration {
	value, err := d.Parse()
	if err != nil {
		return 0 // absent; anything else is rejected at admission
	}
	return value
}

// timeLeft until the end of the measured phase.
func (s *scope) timeLeft() string {
	if s.duration() == 0 || s.run.Status.TrafficStartTime == nil {
		return ""
	}
	left := time.Until(s.run.Status.TrafficStartTime.Add(s.warmup() + s.duration())).Round(time.Second)
	return max(left, 0).String()
}

var now = metav1.Now
