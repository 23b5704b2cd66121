// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: does the generator still allow what a run sends, and do the engines enforce limits.maxRate?

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

// labelsLast is how long the labels of a namespace that a generator selects are cached.
const labelsLast = 5 * time.Second

// permission caches the result of the check against the generator. It is lost with a restart.
type permission struct {
	// granted is whether the namespace's labels, read at a time, match the generator's spec of a generation.
	at         time.Time
	granted    bool
	generation int64
	// refused is why the limits of that generation end the run; empty if the plan meets them.
	refused ending
	known   bool
}

// appliedLimit is the limits.maxRate that the run's engines were given.
type appliedLimit struct {
	// generation of the generator's spec with that rate; 0 if the engines were given none since the operator's start.
	generation int64
	rate       spatev1.AbsoluteRate
	// pending is true if a later attempt failed: some engines may already have the new rate.
	pending bool
	// failure of a later attempt, as last reported; unreachable engines do not count.
	failure string
}

// forbidden returns why the generator no longer allows the run: its grant was revoked, or a destination is no longer allowed. A
// lowered maxRate ends no run: the engines enforce it.
func (s *scope) forbidden(ctx context.Context) (ending, error) {
	if s.generator == nil {
		return ending{}, nil
	}
	j := s.found.permission
	granted, err := s.granted(ctx, &j)
	if err != nil {
		return ending{}, err
	}
	if !granted {
		return ending{spatev1.ReasonReferenceNotAllowed, fmt.Sprintf("TrafficGenerator %s no longer grants its use to namespace %s (its spec.allowedNamespaces)", s.generator.Name, s.run.Namespace)}, nil
	}
	if !j.known || j.generation != s.generator.Generation {
		if j.refused, j.known, err = s.exceeds(ctx); err != nil {
			return ending{}, err
		}
		j.generation = s.generator.Generation
	}
	s.found.permission = j
	return j.refused, nil
}

// limit sets an engine's share of limits.maxRate. An engine without support for limits is accepted if there is none.
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

// outdated refuses a run under limits.maxRate on an engine without support for limits.
func (s *scope) outdated(ctx context.Context, pod *corev1.Pod, c *engine.Client) error {
	info, err := c.Info(ctx)
	if err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	return &refusal{spatev1.ReasonPrepareFailed, fmt.Sprintf(
		"pod %s: engine %s is too old to enforce limits.maxRate of TrafficGenerator %s; use an engine image of the operator's release (spec.image of the generator)",
		pod.Name, info.Version, s.generator.Name)}
}

// maxRate is the generator's limits.maxRate; empty if there is none.
func (s *scope) maxRate() spatev1.AbsoluteRate {
	if s.generator.Spec.Limits == nil {
		return ""
	}
	return s.generator.Spec.Limits.MaxRate
}

// limitAll sets the current limits.maxRate on all engines, unless they have it. A failed attempt is retried in the next iteration and
// reported by an event; supervision of the run continues.
func (s *scope) limitAll(ctx context.Context) {
	if s.generator == nil {
		return
	}
	given := s.found.appliedLimit
	if given.generation == s.generator.Generation && !given.pending {
		return
	}
	next := appliedLimit{generation: s.generator.Generation, rate: s.maxRate()}
	if given.generation == 0 || given.pending || given.rate != next.rate {
		unsupported := make([]bool, len(s.pods)) // such a run was admitted without limits, and continues
		errs := s.each(ctx, func(i int, _ *corev1.Pod, c *engine.Client) error {
			err := s.limit(ctx, c)
			if unsupported[i] = engine.Unimplemented(err); unsupported[i] {
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
			s.reportLimit(unsupported, given.generation != 0 && given.rate != next.rate)
		}
	}
	s.found.appliedLimit = next
}

// notLimited explains why engines that answer do not have limits.maxRate; empty if all of those have it. The status reports unreachable
// engines.
func (s *scope) notLimited(errs []error) string {
	var texts []string
	for i, err := range errs {
		var no *refusal
		switch {
		case err == nil || engine.Unreachable(err):
		case errors.As(err, &no): // the same for all
			return no.message + "; the engines keep the previous limit"
		default:
			texts = append(texts, fmt.Sprintf("pod %s: %v", s.pods[i].Name, err))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return strings.Join(texts, "; ") + "; retrying, and until then the engines keep the previous limit"
}

// reportLimit emits events about how engines apply limits.maxRate; `unsupported` are those without support for limits.
func (s *scope) reportLimit(unsupported []bool, changed bool) {
	var keep []string
	for i, pod := range s.pods {
		switch {
		case pod == nil:
		case unsupported[i]:
			s.r.Events.Eventf(s.run, pod, corev1.EventTypeWarning, "LimitNotKept", "Update", "pod %s: this version of the engine does not support limits.maxRate of a generator; the run continues at its current rate", pod.Name)
		default:
			keep = append(keep, pod.Name)
		}
	}
	if !changed || len(keep) == 0 {
		return
	}
	which := "its engines throttle"
	if slices.Contains(unsupported, true) {
		which = fmt.Sprintf("of its engines, those of %s throttle", strings.Join(keep, ", "))
	}
	rate, what := s.maxRate(), "packets beyond it"
	if rate == "" {
		rate, what = "unset", "no more packets"
	}
	s.r.Events.Eventf(s.run, nil, corev1.EventTypeNormal, "LimitChanged", "Update", "%s",
		kstatus.Shortened(fmt.Sprintf("limits.maxRate of TrafficGenerator %s is %s now: %s %s", s.generator.Name, rate, which, what), kstatus.LongestNote))
}

func (s *scope) granted(ctx context.Context, j *permission) (bool, error) {
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

// exceeds returns why the run must end: it exceeds a limit that was narrowed after its admission. known is false while a large plan
// waits for its turn to be checked. A lost plan ends the run; otherwise deleting one of its chunks would disable the new limits.
func (s *scope) exceeds(ctx context.Context) (refused ending, known bool, err error) {
	narrowed := limits.Narrowed(s.generator.Spec.Limits, s.run.Status.Resolved.Generator.Limits)
	if narrowed == nil {
		return ending{}, true, nil
	}
	if s.run.Status.Resolved.Snapshot.Bytes > storage.Large {
		release, ok := s.r.Large.Enter(s.run.Namespace, s.run.UID)
		if !ok {
			return ending{}, false, nil
		}
		defer release()
	}
	p, err := s.r.Memory.Whole(ctx, s.run)
	var lost *storage.LostError
	if errors.As(err, &lost) {
		return ending{spatev1.ReasonSnapshotLost, fmt.Sprintf(
			"%s, so the run was ended: its plan cannot be checked against the new spec.limits of TrafficGenerator %s (create another run, or set a new spec.runID of the profile)",
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
