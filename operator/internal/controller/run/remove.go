// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how is a run deleted?

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

// removeLimit bounds how long a deletion waits for traffic to end and its final counters to be scraped. For a run that had already
// ended, it counts from its end.
const removeLimit = 30 * time.Second

// remove stops the run's traffic, waits until its final counters were scraped, removes the run from the engines, and then its
// finalizer. An unreachable engine is retried until the limit; then its generator stops the orphaned run.
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
				"pod %s: %v; its traffic is stopped when the engine can be reached again, or when its lease expires", s.run.Status.Resolved.Generator.Pods[i].Name, err)
		}
	}
	s.r.forget(s.run.UID)
	controllerutil.RemoveFinalizer(s.run, Finalizer)
	err = client.IgnoreNotFound(s.r.Client.Update(ctx, s.run))
	return 0, err == nil, err
}

// dismiss takes the next step to remove the run from one engine.
func (s *scope) dismiss(ctx context.Context, pod *corev1.Pod, c *engine.Client, impatient bool) (done bool, err error) {
	info, err := c.Info(ctx)
	if err != nil {
		return false, err
	}
	var onEngine *enginev1.RunInfo
	for _, known := range info.Runs {
		if known.RunId == s.run.Status.Resolved.RunID {
			onEngine = known
		}
	}
	switch {
	case onEngine == nil:
		return true, nil
	case onEngine.State == enginev1.RunState_RUN_STATE_PREPARED:
		return true, c.Remove(ctx, onEngine.RunId) // nothing was sent
	case !runs.Ended(onEngine.State):
		_, err := c.Stop(ctx, onEngine.RunId, s.end.message)
		return false, err
	case !info.FinalCountersScraped && !impatient:
		return false, nil
	case !info.FinalCountersScraped:
		s.r.Events.Eventf(s.run, pod, corev1.EventTypeWarning, "CountersNotScraped", "Remove",
			"pod %s: the run's final counters were not scraped within %s; they are missing in Prometheus", pod.Name, removeLimit)
	}
	return true, c.Remove(ctx, onEngine.RunId)
}
