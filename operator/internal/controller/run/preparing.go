// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how do all engines come to hold the plan, and to start at one instant?

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/origin"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/storage"
)

const (
	// startMargin is the time from the decision to start to the start, beside that of some looks at the engines: all of them must have
	// heard of it by then.
	startMargin   = 500 * time.Millisecond
	marginPerLook = 4
	// leastLeft is the least time before the start in which the engines can still be asked for it.
	leastLeft = startMargin / 10
	// clockTolerance is how far an engine's clock may be from the operator's. More, and the start would have passed
	// there, or be far off. Between engines it shifts what they send against each other, and spoils no count.
	clockTolerance = 200 * time.Millisecond
	// prepareLimit bounds the time for all engines to be reached and prepared.
	prepareLimit = 2 * time.Minute
)

// held is what an engine answered while it was being prepared.
type held struct {
	// info of the run; nil if the engine does not hold it.
	info  *enginev1.RunInfo
	ports []*enginev1.PortStats
	// others are the runs that it holds instead.
	others []*enginev1.RunInfo
}

// preparing sends the plan to all engines, settles the instant of the start, and starts them. The instant is written
// before any engine hears of it, so that another operator starts the rest at the same one.
func (s *scope) preparing(ctx context.Context) (time.Duration, error) {
	if s.end.message != "" {
		s.stop(ctx, s.end.message)
		s.endUnstarted()
		return 0, nil
	}
	if s.lost != "" {
		s.stop(ctx, s.lost)
		s.invalid(spatev1.ReasonPodLost, s.lost, "")
		return 0, nil
	}
	facts, err := s.r.Memory.Of(ctx, s.run)
	if err != nil {
		return s.refused(ctx, []error{err})
	}
	holds, began := make([]held, len(s.pods)), time.Now()
	errs := s.each(ctx, func(i int, pod *corev1.Pod, c *engine.Client) (err error) {
		holds[i], err = s.look(ctx, pod, c)
		return err
	})
	if errors.Join(errs...) != nil {
		return s.refused(ctx, errs)
	}
	if slices.ContainsFunc(holds, func(h held) bool { return h.info == nil }) {
		return s.hand(ctx, holds, facts)
	}
	instant, anyStarted := s.instant(holds)
	if instant.IsZero() {
		if s.run.Status.TrafficStartTime != nil && s.run.Status.PrepareTime != nil && time.Since(s.run.Status.PrepareTime.Time) > prepareLimit {
			return s.refused(ctx, []error{missed(s.run.Status.TrafficStartTime.Time, began, time.Now())})
		}
		s.run.Status.PortBaseline = s.baseline(holds)
		at := metav1.NewMicroTime(time.Now().Add(startMargin + marginPerLook*time.Since(began)))
		s.run.Status.TrafficStartTime = &at
		return time.Millisecond, nil
	}
	errs = s.each(ctx, func(i int, _ *corev1.Pod, c *engine.Client) error {
		if holds[i].info.StartedAtNs != 0 {
			return nil
		}
		info, err := c.Start(ctx, s.run.Status.Resolved.RunID, instant)
		if err == nil {
			holds[i].info = info
		}
		return err
	})
	if err := errors.Join(errs...); err != nil {
		return s.notStarted(ctx, err, anyStarted)
	}
	at := metav1.NewMicroTime(instant)
	s.run.Status.TrafficStartTime = &at
	if wait := time.Until(instant); wait > 0 {
		return wait, nil // nothing is sent yet
	}
	s.run.Status.Phase = s.firstPhase()
	return time.Millisecond, nil
}

// look finds out whether an engine holds the run, and if not, whether it can take it.
func (s *scope) look(ctx context.Context, pod *corev1.Pod, c *engine.Client) (held, error) {
	ahead, margin, info, err := c.Clock(ctx)
	if err != nil {
		return held{}, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	if !engine.Compatible(info) {
		return held{}, &refusal{spatev1.ReasonPrepareFailed, fmt.Sprintf("pod %s: engine %s speaks contract 1.%d, the operator 1.%d", pod.Name, info.Version, info.ContractMinor, engine.ContractMinor)}
	}
	if off := ahead.Abs() - margin; off > clockTolerance {
		return held{}, &refusal{spatev1.ReasonStartFailed, fmt.Sprintf("pod %s: the clock of its node differs from the operator's by %s, more than %s; synchronise the clocks", pod.Name, ahead.Round(time.Millisecond), clockTolerance)}
	}
	for _, known := range info.Runs {
		if known.RunId == s.run.Status.Resolved.RunID {
			stats, err := c.Stats(ctx, s.run.Status.Resolved.RunID)
			if err != nil {
				return held{}, fmt.Errorf("pod %s: %w", pod.Name, err)
			}
			return held{info: stats.Run, ports: stats.Ports}, nil
		}
	}
	return held{others: info.Runs}, s.free(ctx, pod, info.Runs)
}

// turnPause is when a run whose turn it is not asks again.
const turnPause = 200 * time.Millisecond

// hand gives the plan to the engines that do not hold it. Of large plans there is one in memory at a time, with the bytes of its Secrets,
// for all its engines.
func (s *scope) hand(ctx context.Context, holds []held, facts *storage.Facts) (time.Duration, error) {
	if s.run.Status.Resolved.Snapshot.Bytes+facts.SecretBytes > storage.Large {
		leave, ok := s.r.Large.Enter(s.run.Namespace, s.run.UID)
		if !ok {
			return turnPause, nil
		}
		defer leave()
	}
	encoded, err := storage.Load(ctx, s.r.Memory.Reader, s.run)
	if err != nil {
		return s.refused(ctx, []error{err})
	}
	secrets, err := s.r.Memory.Secrets(ctx, s.run)
	if err != nil {
		return s.refused(ctx, []error{err})
	}
	errs := s.each(ctx, func(i int, pod *corev1.Pod, c *engine.Client) error {
		if holds[i].info != nil {
			return nil
		}
		return s.prepare(ctx, i, pod, c, holds[i].others, handed{encoded, secrets, facts.Records})
	})
	if errors.Join(errs...) != nil {
		return s.refused(ctx, errs)
	}
	return time.Millisecond, nil
}

// handed is what all engines of a run are given alike.
type handed struct {
	encoded []byte
	// secrets are the bytes of Secrets, to be appended to the plan.
	secrets []byte
	// records is the folder for connection records; empty if there are none.
	records string
}

// prepare makes one engine hold its share of the plan.
func (s *scope) prepare(ctx context.Context, index int, pod *corev1.Pod, c *engine.Client, others []*enginev1.RunInfo, all handed) error {
	share, err := plan.ForEngine(s.run.Status.Resolved.RunID, all.records, uint32(index), uint32(len(s.pods)))
	if err != nil {
		return err
	}
	if err := makeRoom(ctx, c, others); err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	if err := s.limit(ctx, c); engine.Unimplemented(err) {
		return s.outdated(ctx, pod, c)
	} else if err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	prepared, err := c.Prepare(ctx, s.run.Status.Resolved.RunID, all.encoded, share, all.secrets)
	if err != nil {
		return s.explain(pod, all.encoded, err)
	}
	for _, note := range prepared.Warnings { // worth knowing; what would spoil the run is refused
		s.r.Events.Eventf(s.run, pod, corev1.EventTypeNormal, "PlanNote", "Prepare", "pod %s: %s", pod.Name, s.origin(all.encoded).Line(note))
	}
	return nil
}

// occupied is the error of an engine that executes a run which nobody follows; its generator stops it.
type occupied struct{ message string }

func (o *occupied) Error() string { return o.message }

// free tells whether an engine executes nothing but runs that are under way.
func (s *scope) free(ctx context.Context, pod *corev1.Pod, held []*enginev1.RunInfo) error {
	active, err := runs.ActiveOn(ctx, s.r.Client, s.generator)
	if err != nil {
		return err
	}
	for _, known := range held {
		follows := func(r spatev1.TrafficRun) bool { return r.Status.Resolved.RunID == known.RunId }
		if !runs.Ended(known.State) && !slices.ContainsFunc(active, follows) {
			return &occupied{fmt.Sprintf("pod %s: the engine still executes run %s, which has ended or is gone, and is being stopped", pod.Name, known.RunId)}
		}
	}
	return nil
}

// mostHeld is how many runs an engine is left with; it takes 64 at most. Ended ones are held for their counters only.
const mostHeld = 48

// makeRoom makes an engine forget the runs that ended first, if it holds many.
func makeRoom(ctx context.Context, c *engine.Client, held []*enginev1.RunInfo) error {
	var over []*enginev1.RunInfo
	for _, known := range held {
		if runs.Ended(known.State) {
			over = append(over, known)
		}
	}
	slices.SortFunc(over, func(a, b *enginev1.RunInfo) int { return cmp.Compare(a.StartedAtNs, b.StartedAtNs) })
	for _, old := range over[:min(max(len(held)-mostHeld+1, 0), len(over))] {
		if err := c.Remove(ctx, old.RunId); err != nil {
			return err
		}
	}
	return nil
}

// refusal is an error that a repetition does not mend.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

// explain tells an engine's complaint about its plan by the fields that the plan was made of.
func (s *scope) explain(pod *corev1.Pod, encoded []byte, err error) error {
	var e *engine.Error
	if engine.Unreachable(err) || !errors.As(err, &e) {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	origin := s.origin(encoded)
	told := []string{origin.Words(e.Message)}
	if len(e.Violations) > 0 {
		told = nil
	}
	for _, violation := range e.Violations {
		told = append(told, origin.Refused(violation.Field, violation.Description).Error())
	}
	return &refusal{spatev1.ReasonPrepareFailed, fmt.Sprintf("pod %s: the engine refuses the plan: %s", pod.Name, strings.Join(told, "; "))}
}

// origin of the run's plan; that of an empty one where it cannot be read.
func (s *scope) origin(encoded []byte) origin.Origin {
	p, err := plan.ReadOutline(bytes.NewReader(encoded))
	if err != nil {
		p = nil
	}
	return origin.Of(p, s.run.Status.Resolved.Entries)
}

// anew is how a run that could not be prepared is tried again: what was at fault is seldom in the profile, which stays as it is then.
const anew = "; once that is mended, create another run, or set a new spec.runID of the profile"

// refused ends a run that cannot be prepared, or has it tried again while there is hope.
func (s *scope) refused(ctx context.Context, errs []error) (time.Duration, error) {
	joined := errors.Join(errs...)
	var no *refusal
	var lost *storage.LostError
	switch {
	case errors.As(joined, &no):
		s.stop(ctx, no.message)
		s.invalid(no.reason, no.message+anew, "")
		return 0, nil
	case errors.As(joined, &lost):
		s.stop(ctx, lost.Message)
		s.invalid(spatev1.ReasonSnapshotLost, lost.Message+anew, "")
		return 0, nil
	case s.run.Status.PrepareTime != nil && time.Since(s.run.Status.PrepareTime.Time) > prepareLimit:
		s.stop(ctx, "the engines could not be prepared")
		s.invalid(spatev1.ReasonPrepareFailed, fmt.Sprintf("not prepared within %s: %v%s", prepareLimit, joined, anew), "")
		return 0, nil
	}
	var taken *occupied
	if errors.As(joined, &taken) {
		s.occupied = taken.message
		return tick, nil
	}
	s.unreachable = joined.Error()
	return tick, nil
}

// instant is when the run starts: as an engine that has started says, else as it was decided; zero if it was not.
func (s *scope) instant(holds []held) (at time.Time, anyStarted bool) {
	for _, h := range holds {
		if h.info.GetStartedAtNs() != 0 {
			return time.Unix(0, h.info.StartedAtNs), true
		}
	}
	if s.run.Status.TrafficStartTime != nil && time.Until(s.run.Status.TrafficStartTime.Time) > leastLeft {
		return s.run.Status.TrafficStartTime.Time, false
	}
	return time.Time{}, false
}

// missed says why an instant passed before the engines could be asked to start at it, by when they were asked and had answered.
func missed(instant, asked, answered time.Time) error {
	if late := asked.Sub(instant.Add(-leastLeft)); late > 0 {
		return fmt.Errorf("the operator came %s too late to start the engines at the instant that it had settled: it has too much to do, or the API server answers it too slowly",
			late.Round(time.Millisecond))
	}
	return fmt.Errorf("the engines answer too slowly (within %s) to be started at one instant", answered.Sub(asked).Round(time.Millisecond))
}

// notStarted handles a start that not all engines have made.
func (s *scope) notStarted(ctx context.Context, err error, anyStarted bool) (time.Duration, error) {
	if engine.Unreachable(err) && time.Until(s.run.Status.TrafficStartTime.Time) > 0 {
		return 10 * time.Millisecond, nil // the same instant again
	}
	if !anyStarted && len(s.pods) == 1 && engine.TooLate(err) {
		s.run.Status.TrafficStartTime = nil
		return time.Millisecond, nil
	}
	s.stop(ctx, "not all engines could be started")
	s.invalid(spatev1.ReasonStartFailed, fmt.Sprintf("the engines could not be started at one instant: %v", err), "")
	return 0, nil
}

// baseline notes what the run's ports had counted before it.
func (s *scope) baseline(holds []held) []spatev1.PortBaseline {
	var all []spatev1.PortBaseline
	for i, h := range holds {
		for _, p := range h.ports {
			all = append(all, spatev1.PortBaseline{
				Pod: s.pods[i].Name, Port: p.Port, RxMissed: int64(p.RxMissed), Foreign: int64(p.ForeignPackets), OtherMAC: int64(p.OtherMacPackets),
				NotReflected: int64(p.NotReflectedPackets), Throttled: int64(p.ThrottledPackets),
			})
		}
	}
	return all
}
