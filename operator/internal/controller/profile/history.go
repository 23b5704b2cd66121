// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: which of a profile's runs are kept, and how is a profile deleted?

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
		// The profile's status must first have the result of the run.
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

// remove removes the finalizer when the profile's traffic has stopped. Runs that it started stop when it is deleted, and are garbage
// collected; runs that others created continue.
func (s *scope) remove(ctx context.Context) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.profile, Finalizer) {
		return ctrl.Result{}, nil
	}
	for i := range s.runs {
		if runs.StartedBy(&s.runs[i], s.profile) && runs.Active(&s.runs[i]) && time.Since(s.profile.DeletionTimestamp.Time) < stopLimit {
			return ctrl.Result{RequeueAfter: 500 * time.Millisecond}, nil // the end of the run also triggers a reconcile
		}
	}
	controllerutil.RemoveFinalizer(s.profile, Finalizer)
	return kstatus.Next(0, client.IgnoreNotFound(s.r.Client.Update(ctx, s.profile)))
}
