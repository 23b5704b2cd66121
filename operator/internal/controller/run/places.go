// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: which of the workers may a run have?

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/controller/turn"
)

// workers deal with runs at a time. They are many, for they mostly wait for engines: for seconds, where one is frozen or cut off. A
// namespace never has all of them.
const (
	workers            = 32
	perNamespace       = 8
	silentPerNamespace = 4
	// mostSilent are the places of all namespaces together whose engines do not answer.
	mostSilent        = workers / 2
	armedPerNamespace = 8
)

// share the workers out; who finds no place is called by the controller's queue.
func (r *Reconciler) share(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.answering.Each, r.silent.Each, r.silent.Most, r.armed.Each = perNamespace, silentPerNamespace, mostSilent, armedPerNamespace
	r.answering.Call, r.silent.Call, r.armed.Call = queue.Add, queue.Add, queue.Add
	return nil
}

// place is the share that a run has its worker from: a start at an instant does not wait for what takes others of its namespace long.
func (s *scope) place() *turn.Share {
	status := &s.run.Status
	switch {
	case status.Phase == spatev1.RunPreparing && status.TrafficStartTime != nil && time.Until(status.TrafficStartTime.Time) > 0:
		return &s.r.armed
	case kstatus.Silent(status.Conditions):
		return &s.r.silent
	}
	return &s.r.answering
}
