// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: does an object that a generator needs have the name of somebody else's?

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
)

// taken tells whose the object is that has the name of one that the generator needs; nil where it is the generator's own, which the
// cache does not have yet, or gone by now. It reads past the cache, which has only what the operator made.
func (r *Reconciler) taken(ctx context.Context, g *spatev1.TrafficGenerator, wanted client.Object) (*trouble, error) {
	have := wanted.DeepCopyObject().(client.Object)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), have); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if metav1.IsControlledBy(have, g) {
		return nil, nil
	}
	kinds, _, err := r.Client.Scheme().ObjectKinds(wanted)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%s %s", kinds[0].Kind, have.GetName())
	owner := metav1.GetControllerOf(have)
	switch {
	case owner == nil:
		return &trouble{spatev1.ReasonNameTaken, fmt.Sprintf("%s exists and belongs to nobody: the generator needs that name; rename the generator, or delete the %s", what, kinds[0].Kind)}, nil
	case owner.Kind == "TrafficGenerator" && owner.Name == g.Name: // of one deleted before: its end wakes this one
		return &trouble{spatev1.ReasonPodsPending, fmt.Sprintf("waits for %s of the TrafficGenerator that had this name before to go", what)}, nil
	}
	return &trouble{spatev1.ReasonNameTaken, fmt.Sprintf("%s exists and belongs to %s %s: the generator needs that name; rename the generator, or the %s", what, owner.Kind, owner.Name, owner.Kind)}, nil
}

// nameTaken says so, and does nothing else meanwhile. Nothing tells when a foreign object goes.
func (r *Reconciler) nameTaken(ctx context.Context, g *spatev1.TrafficGenerator, pods []*corev1.Pod, heard heard, taken *trouble) time.Duration {
	r.report(ctx, g, pods, nil, heard)
	if taken.reason == spatev1.ReasonPodsPending {
		kstatus.Progressing(&g.Status.Conditions, g.Generation, taken.reason, taken.message)
		return soon
	}
	kstatus.Stalled(&g.Status.Conditions, g.Generation, taken.reason, taken.message)
	return watchful
}
