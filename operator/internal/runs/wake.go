// SPDX-License-Identifier: Apache-2.0

package runs

// This file answers: which changes of an object trigger a reconcile?

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	spatev1 "spate.dev/api/v1alpha1"
)

// SpecChanged passes changes that users make: of a spec, or a deletion. A controller's own status writes trigger no reconcile: an
// active run's counters are written up to once a second.
func SpecChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return specChanged(e.ObjectOld, e.ObjectNew) }}
}

// Relabeled passes what SpecChanged does, and changes of labels, by which selectors select.
func Relabeled() predicate.Predicate {
	return predicate.Or(SpecChanged(), predicate.LabelChangedPredicate{})
}

func specChanged(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
}

// Steps passes the changes of a run that matter to others: its phase, its verdict and its conditions, but not its
// counters.
func Steps() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*spatev1.TrafficRun), e.ObjectNew.(*spatev1.TrafficRun)
		return specChanged(before, after) || before.Status.Phase != after.Status.Phase ||
			GeneratorOf(before) != GeneratorOf(after) ||
			!equality.Semantic.DeepEqual(before.Status.Verdict, after.Status.Verdict) || !sameConditions(before.Status.Conditions, after.Status.Conditions)
	}}
}

// Moves passes the changes of what a run in line waits for, such as its place, beside its steps.
func Moves() predicate.Predicate {
	return predicate.Or(Steps(), predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*spatev1.TrafficRun), e.ObjectNew.(*spatev1.TrafficRun)
			return InLine(after) && waitsFor(before) != waitsFor(after)
		},
	})
}

func waitsFor(run *spatev1.TrafficRun) string {
	if ready := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionReady); ready != nil {
		return ready.Message
	}
	return ""
}

// Capable passes the changes of a generator that matter to its users: of its capabilities and its readiness.
func Capable() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*spatev1.TrafficGenerator), e.ObjectNew.(*spatev1.TrafficGenerator)
		return specChanged(before, after) || !sameConditions(before.Status.Conditions, after.Status.Conditions) ||
			!equality.Semantic.DeepEqual(before.Status.Pods, after.Status.Pods)
	}}
}

// Ends passes what ends the runs of a pod: its deletion, and the end of its containers.
func Ends() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return specChanged(e.ObjectOld, e.ObjectNew) || e.ObjectOld.(*corev1.Pod).Status.Phase != e.ObjectNew.(*corev1.Pod).Status.Phase
		},
	}
}

// sameConditions compares conditions without their times and messages, which may contain changing numbers.
func sameConditions(before, after []metav1.Condition) bool {
	return slices.EqualFunc(before, after, func(a, b metav1.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.ObservedGeneration == b.ObservedGeneration
	})
}
