// SPDX-License-Identifier: Apache-2.0

// Package kstatus sets the conditions that all kinds have, so that kubectl wait, Argo CD and Flux read them alike, and writes a status
// only if it differs.
package kstatus

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
)

// longest is the API server's limit for a condition's message.
const longest = 32 << 10

// LongestNote is the maximum length of an event's note, less a few words before it (the API server accepts 1024 bytes).
const LongestNote = 1000

// Shortened truncates a text without splitting a character.
func Shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// Set sets a condition. The transition time changes only with the status.
func Set(conditions *[]metav1.Condition, kind string, status metav1.ConditionStatus, generation int64, reason, message string) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: generation, Reason: reason, Message: Shortened(message, longest-3),
	})
}

// Ready reports that the object can do its work.
func Ready(conditions *[]metav1.Condition, generation int64, reason, message string) {
	Set(conditions, spatev1.ConditionReady, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, spatev1.ConditionReconciling)
	meta.RemoveStatusCondition(conditions, spatev1.ConditionStalled)
}

// Progressing reports that the object cannot do its work yet, but may become ready without a change by a user.
func Progressing(conditions *[]metav1.Condition, generation int64, reason, message string) {
	Set(conditions, spatev1.ConditionReady, metav1.ConditionFalse, generation, reason, message)
	Set(conditions, spatev1.ConditionReconciling, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, spatev1.ConditionStalled)
}

// Stalled reports that the object cannot do its work until a user changes something.
func Stalled(conditions *[]metav1.Condition, generation int64, reason, message string) {
	Set(conditions, spatev1.ConditionReady, metav1.ConditionFalse, generation, reason, message)
	Set(conditions, spatev1.ConditionStalled, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, spatev1.ConditionReconciling)
}

// Idle reports that the object does no work because that is specified.
func Idle(conditions *[]metav1.Condition, generation int64, reason, message string) {
	Set(conditions, spatev1.ConditionReady, metav1.ConditionFalse, generation, reason, message)
	meta.RemoveStatusCondition(conditions, spatev1.ConditionReconciling)
	meta.RemoveStatusCondition(conditions, spatev1.ConditionStalled)
}

// Unreachable reports whether an object's engine did not answer the last query.
func Unreachable(conditions []metav1.Condition) bool {
	ready := meta.FindStatusCondition(conditions, spatev1.ConditionReady)
	return ready != nil && ready.Reason == spatev1.ReasonEngineUnreachable
}

// Patch writes the status of an object if it differs from before. A status based on an outdated copy is rejected as a conflict.
func Patch(ctx context.Context, c client.Client, object, before client.Object) error {
	if equality.Semantic.DeepEqual(object, before) {
		return nil
	}
	return client.IgnoreNotFound(c.Status().Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// retry is the time after which a write that was rejected because the cache was outdated is repeated.
const retry = 50 * time.Millisecond

// Next returns the result of a reconcile: again is the time until the next one, 0 if only events trigger it. An expected error is not
// returned: it would be logged as a failure.
func Next(again time.Duration, err error) (reconcile.Result, error) {
	switch {
	case namespaceTerminating(err):
		return reconcile.Result{}, nil
	case Expected(err):
		return reconcile.Result{RequeueAfter: retry}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// RefusedPause is the time after which a write that the API server refuses is retried: a quota may have been raised meanwhile.
const RefusedPause = 30 * time.Second

// PollPause is the time after which an object is reconciled that no event may trigger: a quarter of the time for which it has not been
// ready, from 5 s to a minute, since reconciling may read all data that it references.
func PollPause(conditions []metav1.Condition) time.Duration {
	var waited time.Duration
	if ready := meta.FindStatusCondition(conditions, spatev1.ConditionReady); ready != nil && ready.Status == metav1.ConditionFalse {
		waited = time.Since(ready.LastTransitionTime.Time)
	}
	return min(max(waited/4, 5*time.Second), time.Minute)
}

// Expected reports whether a write was rejected because the cache was outdated, or because the object's namespace is being deleted.
func Expected(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || namespaceTerminating(err)
}

func namespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
