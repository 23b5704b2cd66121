// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: which runs are kept, when does a finished profile go, and how does a deleted one?

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/controller/run"
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
	for _, runs := range [][]spatev1.TrafficRun{s.strangers, s.runs} {
		for i := range runs {
			if !run.Active(&runs[i]) && runs[i].DeletionTimestamp == nil {
				ended = append(ended, &runs[i])
			}
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

// expiry tells how long a profile whose run has ended is still kept.
func (s *scope) expiry() (left time.Duration, due bool) {
	ttl, last, current := s.profile.Spec.TTLSecondsAfterFinished, s.profile.Status.LastResult, s.profile.Status.CurrentRun
	if ttl == nil || last == nil || current == nil || last.Run != current.Name || last.CompletionTime == nil || s.due() {
		return 0, false
	}
	return time.Until(last.CompletionTime.Add(time.Duration(*ttl) * time.Second)), true
}

// stopLimit bounds the time a deletion waits for the profile's traffic to stop.
const stopLimit = 30 * time.Second

// remove lets a profile go when its traffic has stopped. Runs stop by themselves when their profile is deleted, and are
// deleted after it.
func (s *scope) remove(ctx context.Context) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.profile, Finalizer) {
		return ctrl.Result{}, nil
	}
	for i := range s.runs {
		if run.Active(&s.runs[i]) && time.Since(s.profile.DeletionTimestamp.Time) < stopLimit {
			return ctrl.Result{RequeueAfter: 500 * time.Millisecond}, nil // its end wakes us, too
		}
	}
	controllerutil.RemoveFinalizer(s.profile, Finalizer)
	return kstatus.Next(0, client.IgnoreNotFound(s.r.Client.Update(ctx, s.profile)))
}
