// SPDX-License-Identifier: Apache-2.0

// Package kstatus sets the conditions all kinds have, so that kubectl wait, Argo CD and Flux read them alike, and
// writes a status only when it differs.
package kstatus

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/operator/api/v1alpha1"
)

// longest is what the API server accepts as a condition's message.
const longest = 32 << 10

// Set gives a condition a value. The time of transition changes with the status only.
func Set(conditions *[]metav1.Condition, kind string, status metav1.ConditionStatus, generation int64, reason, message string) {
	if len(message) > longest {
		message = message[:longest-3] + "..."
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: generation, Reason: reason, Message: message,
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

// Patch writes the status of an object if it differs from what it was. A status worked out from an outdated copy is
// refused as a conflict.
func Patch(ctx context.Context, c client.Client, object, before client.Object) error {
	if equality.Semantic.DeepEqual(object, before) {
		return nil
	}
	return client.IgnoreNotFound(c.Status().Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}
