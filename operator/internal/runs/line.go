// SPDX-License-Identifier: Apache-2.0

package runs

// This file answers: in which order are the runs admitted that wait for a generator?

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// InLine reports whether a run has a place in the line for its generator: its plan was accepted, and all that it waits for is the
// generator's room or readiness. A run that waits for anything else has no place: others do not wait for it.
func InLine(run *spatev1.TrafficRun) bool {
	if !Active(run) || run.Status.Resolved != nil || run.DeletionTimestamp != nil || run.Spec.Stop {
		return false
	}
	ready := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionReady)
	return ready != nil && (ready.Reason == spatev1.ReasonGeneratorBusy || ready.Reason == spatev1.ReasonGeneratorNotReady)
}

// Place is a run's place in the line for a generator.
type Place struct {
	// Ahead is the number of older runs in the line.
	Ahead int
	// Next is the oldest of them, `namespace/name`.
	Next string
	// Busy is true if the generator had no room for one of them when it was last checked.
	Busy bool
}

// String describes the place. The text changes only with the place.
func (p Place) String() string {
	if p.Ahead == 1 {
		return "behind 1 run, next: " + p.Next
	}
	return fmt.Sprintf("behind %d runs, next: %s", p.Ahead, p.Next)
}

// PlaceOf returns the place that a run has in the line for a generator, or would have.
func PlaceOf(ctx context.Context, c client.Reader, generator client.ObjectKey, run *spatev1.TrafficRun) (Place, error) {
	line, err := lineOf(ctx, c, generator)
	var place Place
	var next *spatev1.TrafficRun
	for i := range line {
		other := &line[i]
		if other.UID == run.UID || !Older(other, run) {
			continue
		}
		place.Ahead++
		if next == nil || Older(other, next) {
			next = other
		}
		place.Busy = place.Busy || meta.FindStatusCondition(other.Status.Conditions, spatev1.ConditionReady).Reason == spatev1.ReasonGeneratorBusy
	}
	if next != nil {
		place.Next = next.Namespace + "/" + next.Name
	}
	return place, err
}

// FirstInLine returns the keys of the runs that are admitted next to a generator, the oldest first, at most `most` of them.
func FirstInLine(ctx context.Context, c client.Reader, generator client.ObjectKey, most int) ([]client.ObjectKey, error) {
	line, err := lineOf(ctx, c, generator)
	slices.SortFunc(line, byAge)
	var keys []client.ObjectKey
	for i := range line[:min(most, len(line))] {
		keys = append(keys, client.ObjectKeyFromObject(&line[i]))
	}
	return keys, err
}

// lineOf returns the runs in the line for a generator, in no order. They share memory with the cache: they are only read.
func lineOf(ctx context.Context, c client.Reader, generator client.ObjectKey) ([]spatev1.TrafficRun, error) {
	var list spatev1.TrafficRunList
	err := c.List(ctx, &list, client.MatchingFields{byLine: generator.String()}, client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// Older reports whether a run was created before the other.
func Older(run, other *spatev1.TrafficRun) bool { return age(run, other) < 0 }

func byAge(a, b spatev1.TrafficRun) int { return age(&a, &b) }

// age orders runs by creation. Timestamps have seconds: the runs of one profile within a second are ordered by their numbers, others by
// name and namespace.
func age(a, b *spatev1.TrafficRun) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), Number(a.Name)-Number(b.Name), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
}
