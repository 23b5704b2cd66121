// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: is the name of an object that a generator needs already in use?

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/podspec"
)

// taken reports which object has the name of one that the generator needs; nil if it is the generator's own, which the cache does not
// have yet, or if it no longer exists. It reads past the cache, which has only objects with the operator's labels. An object of the
// generator that has lost its labels gets them again; a pod is replaced.
func (r *Reconciler) taken(ctx context.Context, g *spatev1.TrafficGenerator, wanted client.Object) (*problem, error) {
	have := wanted.DeepCopyObject().(client.Object)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), have); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if metav1.IsControlledBy(have, g) {
		return r.restore(ctx, g, have)
	}
	kinds, _, err := r.Client.Scheme().ObjectKinds(wanted)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%s %s", kinds[0].Kind, have.GetName())
	owner := metav1.GetControllerOf(have)
	switch {
	case owner == nil:
		return &problem{spatev1.ReasonNameTaken, fmt.Sprintf("%s exists and has no owner: the generator needs that name; rename the generator, or delete the %s", what, kinds[0].Kind)}, nil
	case owner.Kind == "TrafficGenerator" && owner.Name == g.Name: // of a deleted one: its deletion triggers this one
		return &problem{spatev1.ReasonPodsPending, fmt.Sprintf("waits for the deletion of %s of an earlier TrafficGenerator with this name", what)}, nil
	}
	return &problem{spatev1.ReasonNameTaken, fmt.Sprintf("%s exists and belongs to %s %s: the generator needs that name; rename the generator, or the %s", what, owner.Kind, owner.Name, owner.Kind)}, nil
}

// restore gives an object of the generator the labels again by which the operator finds it. A pod without them is no longer known to be an
// engine: it is deleted.
func (r *Reconciler) restore(ctx context.Context, g *spatev1.TrafficGenerator, have client.Object) (*problem, error) {
	if !relabel(have, podspec.Labels(g)) {
		return nil, nil
	}
	pod, is := have.(*corev1.Pod)
	if !is {
		return nil, r.Client.Update(ctx, have)
	}
	if pod.DeletionTimestamp == nil {
		if err := r.Client.Delete(ctx, pod); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	return &problem{spatev1.ReasonPodsPending, fmt.Sprintf("pod %s has lost its labels, and is replaced", pod.Name)}, nil
}

// nameTaken reports a taken name and does nothing else. Deletions of the other object are not watched.
func (r *Reconciler) nameTaken(ctx context.Context, g *spatev1.TrafficGenerator, pods []*corev1.Pod, reports engineReports, taken *problem) time.Duration {
	r.report(ctx, g, pods, nil, reports)
	if taken.reason == spatev1.ReasonPodsPending {
		kstatus.Progressing(&g.Status.Conditions, g.Generation, taken.reason, taken.message)
		return soon
	}
	kstatus.Stalled(&g.Status.Conditions, g.Generation, taken.reason, taken.message)
	return readyInterval
}
