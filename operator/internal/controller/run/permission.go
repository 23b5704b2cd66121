// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: does its generator still allow what a run sends, and do its engines keep to the greatest rate?

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/limits"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/runs/storage"
)

// labelsLast is how long the labels of a namespace that a generator selects are taken to be as they were read.
const labelsLast = 5 * time.Second

// judged is what was found of a run, so that it is not worked out at each look. It is worked out anew after a restart.
type judged struct {
	// granted, as the namespace's labels said at an instant, by the generator's spec of a generation.
	at         time.Time
	granted    bool
	generation int64
	// refused ends the run for the limits of that generation; none if the plan keeps to all.
	refused ending
	known   bool
}

// limited is what a run's engines were given as the greatest rate.
type limited struct {
	// generation of the generator's spec that the rate is of; 0 if the engines were given none since the operator's start.
	generation int64
	rate       spatev1.AbsoluteRate
	// pending is true if a later attempt failed: some engines may have its rate.
	pending bool
	// failure of a later attempt, as last reported; engines that are merely unreachable are none.
	failure string
}

// forbidden tells why the generator does not allow the run (any more): its grant was revoked, or packets may not go where they go. A
// lower greatest rate ends nothing: engines keep to it.
func (s *scope) forbidden(ctx context.Context) (ending, error) {
	if s.generator == nil {
		return ending{}, nil
	}
	s.r.mu.Lock()
	j := s.r.judged[s.run.UID]
	s.r.mu.Unlock()
	granted, err := s.granted(ctx, &j)
	if err != nil {
		return ending{}, err
	}
	if !granted {
		return ending{spatev1.ReasonReferenceNotAllowed, fmt.Sprintf("TrafficGenerator %s no longer grants its use to namespace %s (its spec.allowedNamespaces)", s.generator.Name, s.run.Namespace)}, nil
	}
	if !j.known || j.generation != s.generator.Generation {
		if j.refused, j.known, err = s.beyond(ctx); err != nil {
			return ending{}, err
		}
		j.generation = s.generator.Generation
	}
	s.r.mu.Lock()
	s.r.judged[s.run.UID] = j
	s.r.mu.Unlock()
	return j.refused, nil
}

// limit has an engine keep to its part of the generator's greatest rate. One that knows no limits is none to worry about if there is none.
func (s *scope) limit(ctx context.Context, c *engine.Client) error {
	if s.generator == nil {
		return nil
	}
	rate, err := load.EngineRate(s.generator.Spec.Limits, len(s.pods))
	if err != nil {
		return &refusal{spatev1.ReasonInvalidSpec, fmt.Sprintf("spec.limits.maxRate of TrafficGenerator %s, %q: %v", s.generator.Name, s.maxRate(), err)}
	}
	if err := c.SetMaxRate(ctx, rate); err != nil && (rate != nil || !engine.Unimplemented(err)) {
		return fmt.Errorf("set limits.maxRate: %w", err)
	}
	return nil
}

// outdated refuses a run under limits.maxRate on an engine that does not know limits.
func (s *scope) outdated(ctx context.Context, pod *corev1.Pod, c *engine.Client) error {
	info, err := c.Info(ctx)
	if err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	return &refusal{spatev1.ReasonPrepareFailed, fmt.Sprintf(
		"pod %s: engine %s is too old to keep to limits.maxRate of TrafficGenerator %s; use an engine image of the operator's release (spec.image of the generator)",
		pod.Name, info.Version, s.generator.Name)}
}

// maxRate is the generator's greatest rate; empty if it has none.
func (s *scope) maxRate() spatev1.AbsoluteRate {
	if s.generator.Spec.Limits == nil {
		return ""
	}
	return s.generator.Spec.Limits.MaxRate
}

// limitAll has all engines keep to the generator's greatest rate as it is now, if they were not given it yet. An attempt that fails is
// repeated at the next look, and its reason becomes an event: the run is followed all the same.
func (s *scope) limitAll(ctx context.Context) {
	if s.generator == nil {
		return
	}
	s.r.mu.Lock()
	given := s.r.limited[s.run.UID]
	s.r.mu.Unlock()
	if given.generation == s.generator.Generation && !given.pending {
		return
	}
	next := limited{generation: s.generator.Generation, rate: s.maxRate()}
	if given.generation == 0 || given.pending || given.rate != next.rate {
		ignorant := make([]bool, len(s.pods)) // of limits: such a run was admitted without any, and goes on
		errs := s.each(ctx, func(i int, _ *corev1.Pod, c *engine.Client) error {
			err := s.limit(ctx, c)
			if ignorant[i] = engine.Unimplemented(err); ignorant[i] {
				return nil
			}
			return err
		})
		if errors.Join(errs...) != nil {
			next = given
			next.pending = true
			if failure := s.notLimited(errs); failure != "" && failure != given.failure {
				s.r.Events.Eventf(s.run, nil, corev1.EventTypeWarning, "LimitNotKept", "Update", "%s", kstatus.Shortened(failure, kstatus.LongestNote))
				next.failure = failure
			}
		} else {
			s.tellLimit(ignorant, given.generation != 0 && given.rate != next.rate)
		}
	}
	s.r.mu.Lock()
	s.r.limited[s.run.UID] = next
	s.r.mu.Unlock()
}

// notLimited says why engines that answer do not have the greatest rate; empty if all of those have it. Of the others the status says that
// they cannot be reached.
func (s *scope) notLimited(errs []error) string {
	var texts []string
	for i, err := range errs {
		var no *refusal
		switch {
		case err == nil || engine.Unreachable(err):
		case errors.As(err, &no): // the same for all
			return no.message + "; the engines keep to what they were given before"
		default:
			texts = append(texts, fmt.Sprintf("pod %s: %v", s.pods[i].Name, err))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return strings.Join(texts, "; ") + "; it is tried again, and until then the engines keep to what they were given before"
}

// tellLimit makes events of what engines do about the greatest rate; `ignorant` are those that know no limits.
func (s *scope) tellLimit(ignorant []bool, changed bool) {
	var keep []string
	for i, pod := range s.pods {
		switch {
		case pod == nil:
		case ignorant[i]:
			s.r.Events.Eventf(s.run, pod, corev1.EventTypeWarning, "LimitNotKept", "Update", "pod %s: its engine is of a version that keeps to no limits.maxRate; the run goes on at the rate it has", pod.Name)
		default:
			keep = append(keep, pod.Name)
		}
	}
	if !changed || len(keep) == 0 {
		return
	}
	which := "its engines hold"
	if slices.Contains(ignorant, true) {
		which = fmt.Sprintf("of its engines, those of %s hold", strings.Join(keep, ", "))
	}
	rate, what := s.maxRate(), "back what is beyond it"
	if rate == "" {
		rate, what = "unset", "nothing back any more"
	}
	s.r.Events.Eventf(s.run, nil, corev1.EventTypeNormal, "LimitChanged", "Update", "%s",
		kstatus.Shortened(fmt.Sprintf("limits.maxRate of TrafficGenerator %s is %s now: %s %s", s.generator.Name, rate, which, what), kstatus.LongestNote))
}

func (s *scope) granted(ctx context.Context, j *judged) (bool, error) {
	g := s.generator
	if g.Namespace == s.run.Namespace {
		return true, nil
	}
	if g.Spec.AllowedNamespaces.From != spatev1.NamespacesSelector {
		return plan.Granted(g, s.run.Namespace, nil)
	}
	if j.known && j.generation == g.Generation && time.Since(j.at) < labelsLast {
		return j.granted, nil
	}
	namespace := &corev1.Namespace{}
	if err := s.r.Client.Get(ctx, client.ObjectKey{Name: s.run.Namespace}, namespace); err != nil { // namespaces are not cached
		return false, client.IgnoreNotFound(err)
	}
	granted, err := plan.Granted(g, s.run.Namespace, namespace.Labels)
	j.at, j.granted = time.Now(), granted
	return granted, err
}

// beyond returns why the run has to end: it exceeds a limit that was narrowed after its admission. known is false while a large plan
// waits for its turn to be checked. A lost plan ends the run; otherwise deleting one of its chunks would switch the new limits off.
func (s *scope) beyond(ctx context.Context) (refused ending, known bool, err error) {
	narrowed := limits.Narrowed(s.generator.Spec.Limits, s.run.Status.Resolved.Generator.Limits)
	if narrowed == nil {
		return ending{}, true, nil
	}
	if s.run.Status.Resolved.Snapshot.Bytes > storage.Large {
		leave, ok := s.r.Large.Enter(s.run.Namespace, s.run.UID)
		if !ok {
			return ending{}, false, nil
		}
		defer leave()
	}
	p, err := s.r.Memory.Whole(ctx, s.run)
	var lost *storage.LostError
	if errors.As(err, &lost) {
		return ending{spatev1.ReasonSnapshotLost, fmt.Sprintf(
			"%s, so the run was ended: its plan can no longer be judged by the new spec.limits of TrafficGenerator %s (create another run, or set a new spec.runID of the profile)",
			lost.Message, s.generator.Name)}, true, nil
	}
	if err != nil {
		return ending{}, false, err
	}
	if problems := limits.Permits(p, s.generator.Name, narrowed); len(problems) > 0 {
		return ending{spatev1.ReasonLimitExceeded, problems.Message()}, true, nil
	}
	return ending{}, true, nil
}
