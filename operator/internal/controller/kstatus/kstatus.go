// SPDX-License-Identifier: Apache-2.0

// Package kstatus sets the conditions all kinds have, so that kubectl wait, Argo CD and Flux read them alike, and
// writes a status only when it differs.
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

// longest is what the API server accepts as a condition's message.
const longest = 32 << 10

// LongestNote is what fits into an event, less a few words before it (the API server accepts 1024 bytes).
const LongestNote = 1000

// Shortened cuts a text at the end of a character.
func Shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// Set gives a condition a value. The time of transition changes with the status only.
func Set(conditions *[]metav1.Condition, kind string, status metav1.ConditionStatus, generation int64, reason, message string) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: generation, Reason: reason, Message: Shortened(message, longest-3),
	})
}

// Ready says that the object can do its work.
func Ready(conditions *[]metav1.Condition, generation int64, reason, message string) {
	Set(conditions, spatev1.ConditionReady, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, spatev1.ConditionReconciling)
	meta.RemoveStatusCondition(conditions, spatev1.ConditionStalled)
}

// Progressing says that the object cannot do its work yet, and that it may come right by itself.
func Progressing(conditions *[]metav1.Condition, generation int64, reason, message string) {
	Set(conditions, spatev1.ConditionReady, metav1.ConditionFalse, generation, reason, message)
	Set(conditions, spatev1.ConditionReconciling, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, spatev1.ConditionStalled)
}

// Stalled says that the object cannot do its work until somebody changes something.
func Stalled(conditions *[]metav1.Condition, generation int64, reason, message string) {
	Set(conditions, spatev1.ConditionReady, metav1.ConditionFalse, generation, reason, message)
	Set(conditions, spatev1.ConditionStalled, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, spatev1.ConditionReconciling)
}

// Idle says that the object does no work because it was asked not to.
func Idle(conditions *[]metav1.Condition, generation int64, reason, message string) {
	Set(conditions, spatev1.ConditionReady, metav1.ConditionFalse, generation, reason, message)
	meta.RemoveStatusCondition(conditions, spatev1.ConditionReconciling)
	meta.RemoveStatusCondition(conditions, spatev1.ConditionStalled)
}

// Silent tells whether an object's engine did not answer when it was asked last.
func Silent(conditions []metav1.Condition) bool {
	ready := meta.FindStatusCondition(conditions, spatev1.ConditionReady)
	return ready != nil && ready.Reason == spatev1.ReasonEngineUnreachable
}

// Patch writes the status of an object if it differs from what it was. A status worked out from an outdated copy is
// refused as a conflict.
func Patch(ctx context.Context, c client.Client, object, before client.Object) error {
	if equality.Semantic.DeepEqual(object, before) {
		return nil
	}
	return client.IgnoreNotFound(c.Status().Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// retry is how soon a write is repeated that was refused because the cache was behind.
const retry = 50 * time.Millisecond

// Next is what a reconciler returns: it looks again after a time, 0 if it is woken. An expected error is not returned: it would be
// logged as a failure.
func Next(again time.Duration, err error) (reconcile.Result, error) {
	switch {
	case namespaceGoes(err):
		return reconcile.Result{}, nil
	case Expected(err):
		return reconcile.Result{RequeueAfter: retry}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// RefusedPause is when something that the API server refuses to store is tried again: a quota may have been raised meanwhile.
const RefusedPause = 30 * time.Second

// PollPause is when an object is reconciled again that no event may trigger: after a quarter of the time that it has not been ready, from 5 s to a
// minute. To reconcile it may be to read all data that it names.
func PollPause(conditions []metav1.Condition) time.Duration {
	var waited time.Duration
	if ready := meta.FindStatusCondition(conditions, spatev1.ConditionReady); ready != nil && ready.Status == metav1.ConditionFalse {
		waited = time.Since(ready.LastTransitionTime.Time)
	}
	return min(max(waited/4, 5*time.Second), time.Minute)
}

// Expected says that a write was refused because the cache was behind, or because the object's namespace is being deleted.
func Expected(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || namespaceGoes(err)
}

func namespaceGoes(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
