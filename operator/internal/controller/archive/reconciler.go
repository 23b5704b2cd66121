// SPDX-License-Identifier: Apache-2.0

// Package archive writes runs that have ended into the operator's archive. A run's verdict does not depend on it.
package archive

// This file answers: which runs are archived, and what becomes of it?

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/metrics"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/storage"
)

// Reconciler archives runs, one at a time: a whole result may take many megabytes.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
	Store  archive.Store
	Keep   archive.Retention
}

const (
	// writeLimit bounds the time for writing one run.
	writeLimit = 2 * time.Minute
	// firstPause and longestPause are those between attempts to write a run.
	firstPause   = time.Second
	longestPause = 10 * time.Minute
	// retainEvery is the interval at which runs are deleted that are kept no longer.
	retainEvery = time.Hour
	// retainLimit bounds the time for that.
	retainLimit = 30 * time.Minute
)

// SetupWithManager registers the reconciler, and the deletion of runs that are kept no longer.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	becomesDue := predicate.NewPredicateFuncs(func(o client.Object) bool { return due(o.(*spatev1.TrafficRun)) })
	becomesDue.UpdateFunc = func(e event.UpdateEvent) bool { // a failure is repeated after its pause, not since it was written
		return due(e.ObjectNew.(*spatev1.TrafficRun)) && !due(e.ObjectOld.(*spatev1.TrafficRun))
	}
	return errors.Join(
		mgr.Add(manager.RunnableFunc(r.retain)),
		ctrl.NewControllerManagedBy(mgr).Named("archive").
			For(&spatev1.TrafficRun{}, builder.WithPredicates(becomesDue)).
			WithOptions(controller.Options{
				MaxConcurrentReconciles: 1,
				RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstPause, longestPause),
			}).
			Complete(r),
	)
}

// due reports whether a run has ended and is not archived as it is.
func due(run *spatev1.TrafficRun) bool {
	return !runs.Active(run) && run.Status.Verdict != nil && run.DeletionTimestamp == nil && !meta.IsStatusConditionTrue(run.Status.Conditions, spatev1.ConditionArchived)
}

// Reconcile archives a run. It is repeated after longer and longer pauses while that fails.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	run := &spatev1.TrafficRun{}
	if err := r.Client.Get(ctx, request.NamespacedName, run); err != nil || !due(run) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	failed := r.save(ctx, run)
	before := run.DeepCopy()
	was := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionArchived)
	value, reason, message := metav1.ConditionTrue, spatev1.ReasonArchived, "in "+archive.Folder(run)
	if failed != nil {
		value, reason, message = metav1.ConditionFalse, spatev1.ReasonArchiveFailed, kstatus.Shortened(failed.Error(), kstatus.LongestNote)
		if was == nil {
			r.Events.Eventf(run, nil, corev1.EventTypeWarning, spatev1.ReasonArchiveFailed, "Archive", "%s", message)
		}
	}
	metrics.RunArchived(failed)
	kstatus.Set(&run.Status.Conditions, spatev1.ConditionArchived, value, run.Generation, reason, message)
	if err := kstatus.Patch(ctx, r.Client, run, before); err != nil {
		return kstatus.Next(0, err)
	}
	return ctrl.Result{}, failed
}

// save writes a run with its whole result and its samples. Of a result that is lost, it writes what the status has.
func (r *Reconciler) save(ctx context.Context, run *spatev1.TrafficRun) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	var lost *storage.LostError
	whole, err := storage.LoadResult(ctx, r.Client, run)
	if err != nil && !errors.As(err, &lost) {
		return err
	}
	encoded, err := storage.EncodedSamples(ctx, r.Client, run)
	if err != nil {
		return err
	}
	kept := *run
	if whole != nil {
		kept.Status.Result = whole
	}
	return archive.Save(ctx, r.Store, &kept, encoded)
}

// retain deletes runs that are kept no longer, until the operator stops.
func (r *Reconciler) retain(ctx context.Context) error {
	if r.Keep.IsUnlimited() {
		return nil
	}
	for {
		within, cancel := context.WithTimeout(ctx, retainLimit)
		deleted, err := r.Keep.Apply(within, r.Store, time.Now())
		cancel()
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "archived runs could not be deleted; retried", "in", retainEvery.String())
		} else if deleted > 0 {
			log.FromContext(ctx).Info("archived runs were deleted that are kept no longer", "runs", deleted)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retainEvery):
		}
	}
}
