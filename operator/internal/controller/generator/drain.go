// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: how is a generator deleted?

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/metrics"
	"spate.dev/operator/internal/pki"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/runs"
)

// drainLimit bounds each of the two waits of a deletion: for the traffic to end and its final counters to be scraped, and for the pods
// to be deleted.
const drainLimit = 30 * time.Second

// drain stops the traffic, waits for a scrape of the final counters, deletes the pods and removes the finalizer. It does not wait for
// unreachable pods: their engines stop sending when the kubelet ends them.
func (r *Reconciler) drain(ctx context.Context, g *spatev1.TrafficGenerator, pods []*corev1.Pod, active []spatev1.TrafficRun) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(g, Finalizer) {
		return ctrl.Result{}, nil
	}
	since := time.Since(g.DeletionTimestamp.Time)
	if since < drainLimit {
		if waiting := r.undrained(ctx, pods, active); waiting != "" {
			before := g.DeepCopy()
			kstatus.Progressing(&g.Status.Conditions, g.Generation, spatev1.ReasonDeleting, waiting)
			return kstatus.Next(500*time.Millisecond, kstatus.Patch(ctx, r.Client, g, before))
		}
	}
	if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil }) {
		if waiting := r.undrained(ctx, pods, active); waiting != "" {
			r.Events.Eventf(g, nil, corev1.EventTypeWarning, "NotDrained", "Delete", "the pods are deleted after %s, although the generator %s", drainLimit, waiting)
		}
	}
	left := 0
	for _, pod := range pods {
		left++
		if pod.DeletionTimestamp == nil {
			if err := r.Client.Delete(ctx, pod); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
		}
	}
	if left > 0 && since < 2*drainLimit {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	r.mu.Lock()
	delete(r.monitors, g.UID)
	delete(r.unscraped, g.UID)
	r.mu.Unlock()
	metrics.CertificateDeleted(pki.ServerName(g.Namespace, g.Name))
	controllerutil.RemoveFinalizer(g, Finalizer)
	return kstatus.Next(0, client.IgnoreNotFound(r.Client.Update(ctx, g)))
}

// undrained returns what a deletion still waits for.
func (r *Reconciler) undrained(ctx context.Context, pods []*corev1.Pod, active []spatev1.TrafficRun) string {
	if len(active) > 0 {
		return "waits for the traffic to end"
	}
	waiting := ""
	answers := r.query(ctx, pods)
	for _, pod := range pods {
		info := answers[pod.Name].info
		if info == nil {
			continue
		}
		for _, run := range info.Runs {
			if !runs.Ended(run.State) { // an orphaned run
				waiting = "stops the traffic"
				if c, err := r.Engines.Client(ctx, podspec.EngineOf(pod)); err == nil {
					_, _ = c.Stop(ctx, run.RunId, "its generator is deleted")
				}
			}
		}
		if waiting == "" && !info.FinalCountersScraped {
			waiting = "waits for the final counters to be scraped, at most " + drainLimit.String()
		}
	}
	return waiting
}
