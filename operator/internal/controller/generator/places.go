// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: which of the workers may a generator have?

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/controller/turn"
)

// workers deal with generators at a time. They mostly wait for engines: for seconds, where one is frozen or cut off. A namespace never has
// all of them.
const (
	workers            = 16
	perNamespace       = 4
	silentPerNamespace = 2
	// mostSilent are the places of all namespaces together whose engines do not answer.
	mostSilent = workers / 2
)

// share the workers out; who finds no place is called by the controller's queue.
func (r *Reconciler) share(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.answering.Each, r.silent.Each, r.silent.Most = perNamespace, silentPerNamespace, mostSilent
	r.answering.Call, r.silent.Call = queue.Add, queue.Add
	return nil
}

// place is the share that a generator has its worker from.
func (r *Reconciler) place(g *spatev1.TrafficGenerator) *turn.Share {
	if kstatus.Silent(g.Status.Conditions) {
		return &r.silent
	}
	return &r.answering
}
