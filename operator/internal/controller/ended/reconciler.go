// SPDX-License-Identifier: Apache-2.0

// Package ended answers: how is something done with every run that has ended, until it has succeeded? A run's verdict does not depend on it: what
// became of it is a condition of the run.
package ended

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/runs"
)

// Task is what is done with a run.
type Task struct {
	// Name of the controller, Action of its events.
	Name, Action string
	// Condition is True with the reason Done, or False with the reason Failed.
	Condition, Done, Failed string
	// Do does it, and returns the condition's message.
	Do func(context.Context, *spatev1.TrafficRun) (message string, err error)
	// Final reports whether it is of no use to do it again after an error, before the operator starts again; nil if it always is of use.
	Final func(error) bool
	// Count records an attempt.
	Count func(failed error)
}

// Reconciler does the task, with one run at a time.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
	Task   Task
}

const (
	// attemptLimit bounds the time of one attempt.
	attemptLimit = 2 * time.Minute
	// firstPause and longestPause are those between attempts.
	firstPause   = time.Second
	longestPause = 10 * time.Minute
)

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	becomesDue := predicate.NewPredicateFuncs(func(o client.Object) bool { return r.due(o.(*spatev1.TrafficRun)) })
	becomesDue.UpdateFunc = func(e event.UpdateEvent) bool { // a failure is repeated after its pause, not since it was written
		return r.due(e.ObjectNew.(*spatev1.TrafficRun)) && !r.due(e.ObjectOld.(*spatev1.TrafficRun))
	}
	return ctrl.NewControllerManagedBy(mgr).Named(r.Task.Name).
		For(&spatev1.TrafficRun{}, builder.WithPredicates(becomesDue)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstPause, longestPause),
		}).
		Complete(r)
}

// due reports whether a run has ended and the task is not done with it.
func (r *Reconciler) due(run *spatev1.TrafficRun) bool {
	return !runs.Active(run) && run.Status.Verdict != nil && run.DeletionTimestamp == nil && !meta.IsStatusConditionTrue(run.Status.Conditions, r.Task.Condition)
}

// Reconcile does the task with a run. It is repeated after longer and longer pauses while that fails.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	run := &spatev1.TrafficRun{}
	if err := r.Client.Get(ctx, request.NamespacedName, run); err != nil || !r.due(run) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	limited, cancel := context.WithTimeout(ctx, attemptLimit)
	message, failed := r.Task.Do(limited, run)
	cancel()
	r.Task.Count(failed)
	changed, err := r.record(ctx, run, message, failed)
	switch {
	case err != nil:
		return kstatus.Next(0, err)
	case changed:
		return ctrl.Result{RequeueAfter: firstPause}, nil
	case failed != nil && r.Task.Final != nil && r.Task.Final(failed):
		return ctrl.Result{}, reconcile.TerminalError(failed)
	}
	return ctrl.Result{}, failed
}

// conflicts are the pauses after which the condition is written again if others were faster to write another part of the status. The task is not
// done again for that.
var conflicts = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Steps: 6}

// record writes the condition, unless the verdict has changed since the task was done.
func (r *Reconciler) record(ctx context.Context, done *spatev1.TrafficRun, message string, failed error) (changed bool, err error) {
	value, reason := metav1.ConditionTrue, r.Task.Done
	if failed != nil {
		value, reason, message = metav1.ConditionFalse, r.Task.Failed, kstatus.Shortened(failed.Error(), kstatus.LongestNote)
		if meta.FindStatusCondition(done.Status.Conditions, r.Task.Condition) == nil {
			r.Events.Eventf(done, nil, corev1.EventTypeWarning, r.Task.Failed, r.Task.Action, "%s", message)
		}
	}
	run := done.DeepCopy()
	err = retry.RetryOnConflict(conflicts, func() error {
		before := run.DeepCopy()
		kstatus.Set(&run.Status.Conditions, r.Task.Condition, value, run.Generation, reason, message)
		err := kstatus.Patch(ctx, r.Client, run, before)
		if !apierrors.IsConflict(err) {
			return err
		}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(done), run); err != nil {
			return client.IgnoreNotFound(err)
		}
		if changed = run.UID != done.UID || !equality.Semantic.DeepEqual(run.Status.Verdict, done.Status.Verdict); changed {
			return nil
		}
		return err
	})
	return changed, err
}
