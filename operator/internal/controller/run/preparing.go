// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how do all engines get the plan, and start at one instant?

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
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/origin"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/storage"
)

const (
	// startMargin is the time from setting the instant of the start to the start, plus marginPerLook times the duration of querying
	// the engines: all of them must have received it by then.
	startMargin   = 500 * time.Millisecond
	marginPerLook = 4
	// maxExtraMargin is the maximum of what is added to startMargin.
	maxExtraMargin = 5 * time.Second
	// minStartLead is the minimum time before the start in which engines can still be armed.
	minStartLead = startMargin / 10
	// prepareLimit bounds the time to reach and prepare all engines.
	prepareLimit = 2 * time.Minute
)

// startLead is the time from now to the start, by how long the engines took to answer, and by how long an earlier instant was missed; 0 if none
// was. It grows with both: all writes and calls before the start may take as long again. An operator that takes over after a failover missed
// the instant by the time that no operator led, which says nothing about the next one: hence the maximum.
func startLead(queried, missed time.Duration) time.Duration {
	return startMargin + min(marginPerLook*(queried+missed), maxExtraMargin)
}

// engineState is what an engine reported while it was being prepared.
type engineState struct {
	// info of the run; nil if the engine does not have it.
	info  *enginev1.RunInfo
	ports []*enginev1.PortStats
	clock engine.Clock
	// sessions are those of each port that is a router, by its name; routing is how all of them are.
	sessions map[string][]*enginev1.RoutingSession
	routing  *enginev1.RoutingInfo
	// clients are the run's groups of emulated clients.
	clients []*enginev1.ClientGroupStats
	// others are the runs that it has instead.
	others []*enginev1.RunInfo
}

// preparing sends the plan to all engines, sets the instant of the start, and starts them. The instant is written before any engine
// receives it, so that another operator starts the remaining engines at the same one.
func (s *scope) preparing(ctx context.Context) (time.Duration, error) {
	if s.end.message != "" {
		s.stop(ctx, s.end.message)
		s.endUnstarted()
		return 0, nil
	}
	if len(s.lost) > 0 { // with any policy: nothing was sent yet
		s.endLost(ctx, messages(s.lost))
		return 0, nil
	}
	facts, err := s.r.Memory.Of(ctx, s.run)
	if err != nil {
		return s.refused(ctx, []error{err})
	}
	s.facts = facts
	holds, began := make([]engineState, len(s.pods)), time.Now()
	errs := s.each(ctx, func(i int, pod *corev1.Pod, c *engine.Client) (err error) {
		holds[i], err = s.inspect(ctx, pod, c)
		return err
	})
	if errors.Join(errs...) != nil {
		return s.refused(ctx, errs)
	}
	if slices.ContainsFunc(holds, func(h engineState) bool { return h.info == nil }) {
		return s.distribute(ctx, holds, facts)
	}
	if no := s.clocksContradict(holds, facts.ClockBound); no != nil {
		return s.refused(ctx, []error{no})
	}
	if s.run.Status.TrafficStartTime == nil {
		if ready, again := s.setUp(ctx, holds); !ready {
			return again, nil
		}
	}
	if s.run.Spec.Search != nil {
		return s.beginSearch(ctx, holds, facts)
	}
	instant, anyStarted := s.instant(holds)
	if instant == 0 {
		if deadline, known := s.prepareDeadline(); s.run.Status.TrafficStartTime != nil && known && time.Now().After(deadline) {
			return s.refused(ctx, []error{missedStart(s.run.Status.TrafficStartTime.Time, began, time.Now())})
		}
		s.run.Status.PortBaseline, s.run.Status.SessionBaseline = s.baseline(holds), s.sessionBaseline(holds)
		missed := time.Duration(0)
		if previous := s.run.Status.TrafficStartTime; previous != nil {
			missed = max(time.Since(previous.Time), startMargin)
		}
		at := metav1.NewMicroTime(time.Now().Add(startLead(time.Since(began), missed)))
		s.run.Status.TrafficStartTime = &at
		return time.Millisecond, nil
	}
	if err := s.startAll(ctx, holds, instant, facts.ClockBound > 0); err != nil {
		return s.notStarted(ctx, err, anyStarted)
	}
	if wait := time.Duration(instant - engine.Now()); wait > 0 {
		return wait, nil // nothing is sent yet
	}
	s.run.Status.Phase = s.firstPhase()
	return time.Millisecond, nil
}

// inspect returns whether an engine has the run, and if not, an error if it cannot take it.
func (s *scope) inspect(ctx context.Context, pod *corev1.Pod, c *engine.Client) (engineState, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return engineState{}, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	if !engine.Compatible(info) {
		return engineState{}, &refusal{spatev1.ReasonPrepareFailed, fmt.Sprintf("pod %s: engine %s has contract version 1.%d, the operator 1.%d; use an engine image of the operator's release (spec.image of the generator)", pod.Name, info.Version, info.ContractMinor, engine.ContractMinor)}
	}
	if err := s.emulates(pod, info); err != nil {
		return engineState{}, err
	}
	clock, err := clockOf(ctx, pod, c, info)
	if err != nil {
		return engineState{}, err
	}
	for _, known := range info.Runs {
		if known.RunId == s.run.Status.Resolved.RunID {
			stats, err := c.Stats(ctx, s.run.Status.Resolved.RunID)
			if err != nil {
				return engineState{}, fmt.Errorf("pod %s: %w", pod.Name, err)
			}
			state := engineState{info: stats.Run, ports: stats.Ports, clock: clock, sessions: map[string][]*enginev1.RoutingSession{}, routing: info.Routing, clients: stats.Clients}
			for _, port := range info.Ports {
				state.sessions[port.Name] = port.Sessions
			}
			return state, nil
		}
	}
	return engineState{others: info.Runs}, s.free(ctx, pod, info.Runs)
}

// turnPause is the time after which a run that waits for its turn retries.
const turnPause = 200 * time.Millisecond

// distribute sends the plan to the engines that do not have it. At most one large plan, including the bytes of its Secrets, is in
// memory at a time.
func (s *scope) distribute(ctx context.Context, holds []engineState, facts *storage.Facts) (time.Duration, error) {
	if s.run.Status.Resolved.Snapshot.Bytes+facts.SecretBytes > storage.Large {
		release, ok := s.r.Large.Enter(s.run.Namespace, s.run.UID)
		if !ok {
			return turnPause, nil
		}
		defer release()
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
		return s.prepare(ctx, i, pod, c, holds[i].others, planData{encoded, secrets, facts.Records, len(facts.Clients) > 0})
	})
	if errors.Join(errs...) != nil {
		return s.refused(ctx, errs)
	}
	return time.Millisecond, nil
}

// planData is what all engines of a run receive alike.
type planData struct {
	encoded []byte
	// secrets are the bytes of Secrets, to be appended to the plan.
	secrets []byte
	// records is the folder for connection records; empty if there are none.
	records string
	// clients is true if the plan has emulated clients.
	clients bool
}

// prepare sends one engine its share of the plan.
func (s *scope) prepare(ctx context.Context, index int, pod *corev1.Pod, c *engine.Client, others []*enginev1.RunInfo, all planData) error {
	share, err := plan.ForEngine(s.run.Status.Resolved.RunID, all.records, uint32(index), uint32(len(s.pods)))
	if err != nil {
		return err
	}
	if err := makeRoom(ctx, c, others, all.clients); err != nil {
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
	for _, note := range prepared.Warnings { // informational only
		s.r.Events.Eventf(s.run, pod, corev1.EventTypeNormal, "PlanNote", "Prepare", "pod %s: %s", pod.Name, s.origin(all.encoded).Line(note))
	}
	return nil
}

// orphanedError is the error of an engine that executes a run of which there is no TrafficRun; its generator stops it.
type orphanedError struct{ message string }

func (o *orphanedError) Error() string { return o.message }

// free returns an error if an engine executes a run that is not active.
func (s *scope) free(ctx context.Context, pod *corev1.Pod, others []*enginev1.RunInfo) error {
	active, err := runs.ActiveOn(ctx, s.r.Client, s.generator)
	if err != nil {
		return err
	}
	for _, known := range others {
		follows := func(r spatev1.TrafficRun) bool { return r.Status.Resolved.RunID == known.RunId }
		if !runs.Ended(known.State) && !slices.ContainsFunc(active, follows) {
			return &orphanedError{fmt.Sprintf("pod %s: the engine still executes run %s, which has ended or no longer exists; the operator is stopping it", pod.Name, known.RunId)}
		}
	}
	return nil
}

// maxHeldRuns is how many runs may stay on an engine, whose own limit is 64. Ended runs are kept only for their counters.
const maxHeldRuns = 48

// makeRoom removes the oldest ended runs from an engine that has many; all of them for a run with clients, whose MACs those of an ended run may
// still have.
func makeRoom(ctx context.Context, c *engine.Client, others []*enginev1.RunInfo, clients bool) error {
	var over []*enginev1.RunInfo
	for _, known := range others {
		if runs.Ended(known.State) {
			over = append(over, known)
		}
	}
	slices.SortFunc(over, func(a, b *enginev1.RunInfo) int { return cmp.Compare(a.StartedAtNs, b.StartedAtNs) })
	remove := min(max(len(others)-maxHeldRuns+1, 0), len(over))
	if clients {
		remove = len(over)
	}
	for _, old := range over[:remove] {
		if err := c.Remove(ctx, old.RunId); err != nil {
			return err
		}
	}
	return nil
}

// refusal is an error that a retry does not fix.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

// explain translates an engine's error about its plan into the fields that the plan was made of.
func (s *scope) explain(pod *corev1.Pod, encoded []byte, err error) error {
	var e *engine.Error
	if engine.Unreachable(err) || !errors.As(err, &e) {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	origin := s.origin(encoded)
	reported := []string{origin.Words(e.Message)}
	if len(e.Violations) > 0 {
		reported = nil
	}
	for _, violation := range e.Violations {
		reported = append(reported, origin.Refused(violation.Field, violation.Description).Error())
	}
	return &refusal{spatev1.ReasonPrepareFailed, fmt.Sprintf("pod %s: the engine refuses the plan: %s", pod.Name, strings.Join(reported, "; "))}
}

// origin of the run's plan; that of an empty plan if it cannot be read.
func (s *scope) origin(encoded []byte) origin.Origin {
	p, err := plan.ReadOutline(bytes.NewReader(encoded))
	if err != nil {
		p = nil
	}
	return origin.Of(p, s.run.Status.Resolved.Entries, s.run.Status.Resolved.Clients)
}

// remedy is what a user does about a run that could not be prepared. The profile is seldom at fault, so editing it starts no other run.
func (s *scope) remedy() string {
	if s.run.Spec.Search != nil {
		return "; fix this, then create another TrafficSearch"
	}
	return "; fix this, then create another TrafficRun or set a new spec.runID of the TrafficProfile"
}

// refused ends a run that cannot be prepared, or makes it retry while that may succeed.
func (s *scope) refused(ctx context.Context, errs []error) (time.Duration, error) {
	joined := errors.Join(errs...)
	var no *refusal
	var lost *storage.LostError
	deadline, known := s.prepareDeadline()
	switch {
	case errors.As(joined, &no):
		s.stop(ctx, no.message)
		s.invalid(no.reason, no.message+s.remedy(), "")
		return 0, nil
	case errors.As(joined, &lost):
		s.stop(ctx, lost.Message)
		s.invalid(spatev1.ReasonSnapshotLost, lost.Message+s.remedy(), "")
		return 0, nil
	case known && time.Now().After(deadline):
		s.stop(ctx, "the engines could not be prepared")
		s.invalid(spatev1.ReasonPrepareFailed, fmt.Sprintf("not prepared within %s: %v%s", prepareLimit, joined, s.remedy()), "")
		return 0, nil
	}
	var orphan *orphanedError
	if errors.As(joined, &orphan) {
		s.orphaned = orphan.message
		return tick, nil
	}
	s.unreachable = joined.Error()
	return tick, nil
}

// instant is when the run starts, by the operator's clock: as reported by an engine that has started, which has it by its own clock, else as
// set in the status; 0 if it is not set.
func (s *scope) instant(holds []engineState) (instant int64, anyStarted bool) {
	for _, h := range holds {
		if h.info.GetStartedAtNs() != 0 {
			instant := h.clock.Reference(h.info.StartedAtMonotonicNs)
			if s.run.Status.TrafficStartTime == nil {
				at := metav1.NewMicroTime(time.Now().Add(time.Duration(instant - engine.Now())))
				s.run.Status.TrafficStartTime = &at
			}
			return instant, true
		}
	}
	if s.run.Status.TrafficStartTime != nil && time.Until(s.run.Status.TrafficStartTime.Time) > minStartLead {
		return engine.Instant(s.run.Status.TrafficStartTime.Time), false
	}
	return 0, false
}

// missedStart explains why the instant passed before the engines could be armed, from when they were called and when they had answered.
func missedStart(instant, called, answered time.Time) error {
	if late := called.Sub(instant.Add(-minStartLead)); late > 0 {
		return fmt.Errorf("the operator was %s too late to start the engines at the set instant: the operator or the API server is overloaded",
			late.Round(time.Millisecond))
	}
	return fmt.Errorf("the engines answered too slowly (in %s) to be started at one instant", answered.Sub(called).Round(time.Millisecond))
}

// notStarted handles a start that failed on some engine.
func (s *scope) notStarted(ctx context.Context, err error, anyStarted bool) (time.Duration, error) {
	if (engine.Unreachable(err) || kstatus.Expected(err)) && time.Until(s.run.Status.TrafficStartTime.Time) > 0 {
		return 10 * time.Millisecond, nil // retry with the same instant
	}
	if !anyStarted && len(s.pods) == 1 && engine.TooLate(err) {
		s.run.Status.TrafficStartTime = nil
		return time.Millisecond, nil
	}
	s.stop(ctx, "not all engines could be started")
	s.invalid(spatev1.ReasonStartFailed, fmt.Sprintf("the engines could not be started at one instant: %v", err), "")
	return 0, nil
}

// baseline is what the run's ports had counted before it.
func (s *scope) baseline(holds []engineState) []spatev1.PortBaseline {
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
