// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how does a run that is deleted go?

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs"
)

// removeLimit bounds the time a deletion waits for traffic to end and its final counters to be scraped. For a run that
// had ended before, it counts from its end.
const removeLimit = 30 * time.Second

// remove stops the run's traffic, waits until its final counters were scraped, makes the engines forget it, and lets it
// go. An engine that cannot be reached is tried until the limit, and then left to its generator, which stops what nobody follows.
func (s *scope) remove(ctx context.Context) (again time.Duration, done bool, err error) {
	since := s.run.DeletionTimestamp.Time
	if end := s.run.Status.CompletionTime; end != nil {
		since = end.Time
	}
	unfinished := make([]bool, len(s.pods))
	errs := s.each(ctx, func(i int, pod *corev1.Pod, c *engine.Client) error {
		done, err := s.dismiss(ctx, pod, c, time.Since(since) > removeLimit)
		unfinished[i] = err == nil && !done || engine.Unreachable(err)
		return err
	})
	if slices.Contains(unfinished, true) && time.Since(s.run.DeletionTimestamp.Time) < removeLimit {
		return 300 * time.Millisecond, false, nil
	}
	for i, err := range errs {
		if err != nil {
			s.r.Events.Eventf(s.run, nil, corev1.EventTypeWarning, "EngineUnreachable", "Remove",
				"pod %s: %v; its traffic is stopped as soon as the engine can be reached, or by its lease", s.run.Status.Resolved.Generator.Pods[i].Name, err)
		}
	}
	s.r.forget(s.run.UID)
	controllerutil.RemoveFinalizer(s.run, Finalizer)
	err = client.IgnoreNotFound(s.r.Client.Update(ctx, s.run))
	return 0, err == nil, err
}

// dismiss takes one engine a step towards forgetting the run.
func (s *scope) dismiss(ctx context.Context, pod *corev1.Pod, c *engine.Client, impatient bool) (done bool, err error) {
	info, err := c.Info(ctx)
	if err != nil {
		return false, err
	}
	var held *enginev1.RunInfo
	for _, known := range info.Runs {
		if known.RunId == s.run.Status.Resolved.RunID {
			held = known
		}
	}
	switch {
	case held == nil:
		return true, nil
	case held.State == enginev1.RunState_RUN_STATE_PREPARED:
		return true, c.Remove(ctx, held.RunId) // nothing was sent
	case !runs.Ended(held.State):
		_, err := c.Stop(ctx, held.RunId, s.end.message)
		return false, err
	case !info.FinalCountersScraped && !impatient:
		return false, nil
	case !info.FinalCountersScraped:
		s.r.Events.Eventf(s.run, pod, corev1.EventTypeWarning, "CountersNotScraped", "Remove",
			"pod %s: no one has scraped the run's final counters within %s; Prometheus lacks them", pod.Name, removeLimit)
	}
	return true, c.Remove(ctx, held.RunId)
}
