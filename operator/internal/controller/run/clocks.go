// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how do the engines of a run start at one instant and stamp packets by one clock, although each has its own?

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/verdict"
)

const (
	// exchangesToStart is the number of exchanges of time stamps with each engine before a start.
	exchangesToStart = 8
	// exchangesUnderWay is the number of exchanges with each engine at a tick: the earlier ones are not forgotten.
	exchangesUnderWay = 4
	// maxStartBound is how well a clock must be known for a start: with a greater bound it is not known whether engines start together.
	maxStartBound = 100 * time.Millisecond
	// boundShare is the part of a measured delay that the bound of the clocks must not exceed for the delay to be reported.
	boundShare = 10
)

// clockOf measures the clock of an engine before a start.
func clockOf(ctx context.Context, pod *corev1.Pod, c *engine.Client, info *enginev1.GetInfoResponse) (engine.Clock, error) {
	measured, err := c.Clock(ctx, exchangesToStart)
	switch {
	case engine.Unimplemented(err):
		return measured, &refusal{spatev1.ReasonPrepareFailed, fmt.Sprintf(
			"pod %s: engine %s is too old to compare clocks; use an engine image of the operator's release (spec.image of the generator)", pod.Name, info.Version)}
	case err != nil:
		return measured, fmt.Errorf("pod %s: %w", pod.Name, err)
	case measured.Bound() > maxStartBound:
		return measured, fmt.Errorf("pod %s: its clock is known to %s only, which must be %s at most: calls of the engine take too long", pod.Name, measured.Bound().Round(time.Millisecond), maxStartBound)
	}
	return measured, nil
}

// startAll starts the engines that have not started, at an instant of the operator's clock. The first engine's clock is what the time stamps
// of all are by, so that it starts first: its start is their common instant 0. If their wall clocks are known to agree, all start at one
// instant of these.
func (s *scope) startAll(ctx context.Context, holds []engineState, instant int64, byWall bool) error {
	id := s.run.Status.Resolved.RunID
	if byWall && len(holds) > 1 {
		return s.startByWall(ctx, holds, instant)
	}
	start := func(i int, c *engine.Client, reference *enginev1.ReferenceClock) error {
		if holds[i].info.StartedAtNs != 0 {
			return nil
		}
		info, err := c.Start(ctx, id, holds[i].clock.Monotonic(instant), reference)
		if err == nil {
			holds[i].info = info
		}
		return err
	}
	only := func(first bool) []error {
		return s.each(ctx, func(i int, _ *corev1.Pod, c *engine.Client) error {
			if (i == 0) != first {
				return nil
			}
			if len(holds) == 1 {
				return start(i, c, nil)
			}
			if first {
				return start(i, c, s.ownReference(holds[0].clock.Monotonic(instant)))
			}
			return start(i, c, s.reference(holds[0].clock, holds[i].clock, holds[0].info.StartedAtMonotonicNs))
		})
	}
	if err := errors.Join(only(true)...); err != nil {
		return err
	}
	return errors.Join(only(false)...)
}

func (s *scope) startByWall(ctx context.Context, holds []engineState, instant int64) error {
	at := holds[0].clock.WallAt(instant)
	for _, h := range holds {
		if h.info.StartedAtNs != 0 {
			at = h.info.StartedAtNs
		}
	}
	return errors.Join(s.each(ctx, func(i int, _ *corev1.Pod, c *engine.Client) error {
		if holds[i].info.StartedAtNs != 0 {
			return nil
		}
		_, err := c.StartByWall(ctx, s.run.Status.Resolved.RunID, at)
		return err
	})...)
}

// clocksContradict returns a refusal if the wall clocks of two engines differ by more than the generator states. nil if none do, or if
// it states nothing.
func (s *scope) clocksContradict(holds []engineState, stated time.Duration) *refusal {
	if stated == 0 {
		return nil
	}
	least := holds[0].clock.WallFromMonotonic()
	greatest := least
	var behind, ahead int
	for i, h := range holds {
		wall := h.clock.WallFromMonotonic()
		if wall.Greatest < least.Greatest {
			least, behind = wall, i
		}
		if wall.Least > greatest.Least {
			greatest, ahead = wall, i
		}
	}
	apart := time.Duration(greatest.Least - least.Greatest)
	if apart <= stated {
		return nil
	}
	return &refusal{spatev1.ReasonStartFailed, fmt.Sprintf("the wall clock of pod %s is at least %s ahead of that of pod %s, and spec.clockBound of TrafficGenerator %s is %s: synchronise the nodes' clocks (PTP), or leave spec.clockBound out to have clocks compared by the operator",
		s.podName(ahead), apart.Round(time.Microsecond), s.podName(behind), s.run.Status.Resolved.Generator.Name, stated)}
}

// podName returns the name of a pod that the run was admitted to, by its index.
func (s *scope) podName(i int) string { return s.run.Status.Resolved.Generator.Pods[i].Name }

// ownReference is the reference clock of a run by the first engine's own clock, which starts the run at an instant of it. Another leader of the
// operator finds the same: the status has the run's start, and the engine reports when that was by its clock.
func (s *scope) ownReference(startedAt int64) *enginev1.ReferenceClock {
	return &enginev1.ReferenceClock{OffsetNs: s.run.Status.TrafficStartTime.UnixNano() - startedAt, MeasuredAtNs: startedAt}
}

// reference is the reference clock of a run by another engine's clock. Its error is that of both clocks against the operator's.
func (s *scope) reference(first, other engine.Clock, startedAt int64) *enginev1.ReferenceClock {
	now := max(first.Offset.At, other.Offset.At)
	first, other = first.At(now), other.At(now)
	return &enginev1.ReferenceClock{
		OffsetNs:     s.ownReference(startedAt).OffsetNs + first.Middle() - other.Middle(),
		BoundNs:      uint64(first.Bound() + other.Bound()),
		MeasuredAtNs: now + other.Middle(),
		DriftPpb:     uint32(first.Tolerance + other.Tolerance + 1),
	}
}

// followClocks corrects the clock of a run's time stamps on all engines but the first, if delays are measured between them.
func (s *scope) followClocks(ctx context.Context, stats []*enginev1.WatchStatsResponse) {
	if len(s.pods) == 1 || s.pods[0] == nil || s.run.Status.TrafficStartTime == nil || !slices.ContainsFunc(stats, measuresLatency) {
		return
	}
	clocks := make([]engine.Clock, len(s.pods))
	measured := s.each(ctx, func(i int, _ *corev1.Pod, c *engine.Client) (err error) {
		clocks[i], err = c.Clock(ctx, exchangesUnderWay)
		return err
	})
	// Without the first engine, the others continue unchanged. An engine that cannot be reached continues by its own clock, and reports the
	// bound of its error; the next tick reports that the engine is unreachable.
	s.each(ctx, func(i int, _ *corev1.Pod, c *engine.Client) error {
		if known := measured[0] == nil && measured[i] == nil; i > 0 && known {
			return c.SetReference(ctx, s.run.Status.Resolved.RunID, s.reference(clocks[0], clocks[i], stats[0].GetRun().GetStartedAtMonotonicNs()))
		}
		return nil
	})
}

func measuresLatency(st *enginev1.WatchStatsResponse) bool {
	return slices.ContainsFunc(st.GetStreams(), func(stream *enginev1.StreamStats) bool { return stream.GetMeasured().GetLatency() != nil })
}

// clockBound is the greatest difference that the clocks of two engines of a run may have had: what the generator states, else the sum of the
// two greatest errors against the reference; 0 if that is not known, as when a pod was lost with its engine's clock.
func clockBound(stats []*enginev1.WatchStatsResponse, stated time.Duration) spatev1.MeasuredTime {
	if stated > 0 {
		return spatev1.MeasuredTime(stated)
	}
	var all []uint64
	for _, st := range stats {
		if st == nil {
			return 0
		}
		all = append(all, st.GetRun().GetReferenceBoundNs())
	}
	slices.Sort(all)
	if len(all) < 2 {
		return 0
	}
	return nanoseconds(all[len(all)-1] + all[len(all)-2])
}

// oneWay decides whether a stream's delays between pods are reported: if the clocks' bound is small against them, or if a threshold reads
// them. between is how many packets went from one pod to another. The error of a device's clock that stamped packets, which the delays have
// already as their bound, adds to that of the pods' clocks.
func oneWay(l *spatev1.Latency, between uint64, bound spatev1.MeasuredTime, read bool) *spatev1.Latency {
	switch {
	case l == nil:
	case l.OneWayUnknown:
		l.Message = "the engines' clocks were not compared before the start"
	case between > 0 && bound == 0:
		return onlyJitter(l, 0, "a pod of the run was lost, and with it by how much its clock may have differed")
	case between > 0:
		bound += l.ClockBound
		l.ClockBound = bound
		if bound*boundShare <= l.P50 || read {
			return l
		}
		return onlyJitter(l, bound, fmt.Sprintf("the clocks of the pods may differ by %s, more than a tenth of the median delay, %s; the bound is about half the round trip of the operator's calls: see docs/clocks.md, or use the stream's latency in a threshold to have it reported with this bound",
			humanReadable(bound), humanReadable(l.P50)))
	}
	return l
}

// onlyJitter leaves delays out, and says why.
func onlyJitter(l *spatev1.Latency, bound spatev1.MeasuredTime, why string) *spatev1.Latency {
	return &spatev1.Latency{Jitter: l.Jitter, JitterMean: l.JitterMean, JitterMax: l.JitterMax, ClockBound: bound, OneWayUnknown: true, Message: why}
}

// readers are the thresholds of a run, to find out which of them read a stream's latency.
type readers []*verdict.Threshold

func readersOf(all []spatev1.Threshold) readers {
	var compiled readers
	for _, t := range all {
		if threshold, err := verdict.Compile(t.Expression); err == nil { // others are reported by the verdict
			compiled = append(compiled, threshold)
		}
	}
	return compiled
}

func (r readers) read(stream string) bool {
	return slices.ContainsFunc(r, func(t *verdict.Threshold) bool { return t.ReadsLatency(stream) })
}

// boundOf is the error of the delays that a threshold reads.
func boundOf(result spatev1.RunResult, t *verdict.Threshold) spatev1.MeasuredTime {
	bound := spatev1.MeasuredTime(0)
	for name, s := range result.Streams {
		if s.Latency != nil && t.ReadsLatency(name) {
			bound = max(bound, s.Latency.ClockBound)
		}
	}
	return bound
}
