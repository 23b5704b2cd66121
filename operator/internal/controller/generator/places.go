// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: how are the workers shared between generators?

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/controller/turn"
)

// workers is the number of concurrent reconciles. They mostly wait for engines: for seconds if an engine is frozen or unreachable. The
// limits per namespace keep one namespace from using all of them.
const (
	workers                 = 16
	perNamespace            = 4
	unreachablePerNamespace = 2
	// maxUnreachable is the limit over all namespaces for generators whose engines do not answer.
	maxUnreachable = workers / 2
)

// share sets the limits. A generator that is refused a place is queued again when one is free.
func (r *Reconciler) share(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.answering.Each, r.unreachable.Each, r.unreachable.Max = perNamespace, unreachablePerNamespace, maxUnreachable
	r.answering.Call, r.unreachable.Call = queue.Add, queue.Add
	return nil
}

// place is the share of the workers that a generator uses.
func (r *Reconciler) place(g *spatev1.TrafficGenerator) *turn.Share {
	if kstatus.Unreachable(g.Status.Conditions) {
		return &r.unreachable
	}
	return &r.answering
}
