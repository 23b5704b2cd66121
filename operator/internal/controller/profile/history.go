// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: which of the runs that a profile started are kept, and how does a deleted profile go?

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/runs"
)

// defaultHistory is the API's default of spec.runHistoryLimit.
const defaultHistory = 5

// trim deletes the oldest ended runs beyond the limit.
func (s *scope) trim(ctx context.Context) error {
	limit := defaultHistory
	if l := s.profile.Spec.RunHistoryLimit; l != nil {
		limit = int(*l)
	}
	var ended []*spatev1.TrafficRun
	for i := range s.runs {
		if old := &s.runs[i]; runs.StartedBy(old, s.profile) && !runs.Active(old) && old.DeletionTimestamp == nil {
			ended = append(ended, old)
		}
	}
	for _, old := range ended[:max(len(ended)-limit, 0)] {
		// The status must have the result first, for the run is where it comes from.
		if last := s.profile.Status.LastResult; old == s.latest() && (last == nil || last.Run != old.Name) {
			continue
		}
		if err := s.r.Client.Delete(ctx, old); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// stopLimit bounds the time a deletion waits for the profile's traffic to stop.
const stopLimit = 30 * time.Second

// remove lets a profile go when its traffic has stopped. Runs that it started stop by themselves when it is deleted, and are deleted after
// it; those that others created go on.
func (s *scope) remove(ctx context.Context) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.profile, Finalizer) {
		return ctrl.Result{}, nil
	}
	for i := range s.runs {
		if runs.StartedBy(&s.runs[i], s.profile) && runs.Active(&s.runs[i]) && time.Since(s.profile.DeletionTimestamp.Time) < stopLimit {
			return ctrl.Result{RequeueAfter: 500 * time.Millisecond}, nil // its end wakes us, too
		}
	}
	controllerutil.RemoveFinalizer(s.profile, Finalizer)
	return kstatus.Next(0, client.IgnoreNotFound(s.r.Client.Update(ctx, s.profile)))
}
