// SPDX-License-Identifier: Apache-2.0

// Package live publishes to readers of packets, records and counters where they are served, and deletes readers that are no longer used.
package live

// This file answers: how is a reader's object reconciled?

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/live"
	"spate.dev/operator/internal/pki"
	"spate.dev/operator/internal/podspec"
)

const (
	// unreadAfter is the time after which an object is deleted that is not read. The server records reads once a minute.
	unreadAfter = 3 * time.Minute
	// awaitPods is the interval at which pods are looked up again.
	awaitPods = time.Second
)

// Reconciler reconciles TrafficCaptures, TrafficPings, TrafficRecordsReaders and TrafficStatsReaders.
type Reconciler struct {
	Client       client.Client
	Certificates *pki.Store
	Clock        clock.PassiveClock
	// Endpoint is where readers are served; its trust bundle is set from the authority.
	Endpoint spatev1.LiveEndpoint
}

// +kubebuilder:rbac:groups=spate.dev,resources=trafficcaptures;trafficpings;trafficrecordsreaders;trafficstatsreaders,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=spate.dev,resources=trafficcaptures/status;trafficpings/status;trafficrecordsreaders/status;trafficstatsreaders/status,verbs=patch

// SetupWithManager registers a reconciler for each of the kinds.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.ResourceVersionChangedPredicate{}) // status too: with each time of reading, the pods are found again
	err := ctrl.NewControllerManagedBy(mgr).For(&spatev1.TrafficCapture{}, changed).Complete(reconcile.Func(r.capture))
	if err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(mgr).For(&spatev1.TrafficPing{}, changed).Complete(reconcile.Func(r.ping)); err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(mgr).For(&spatev1.TrafficRecordsReader{}, changed).Complete(reconcile.Func(r.records)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).For(&spatev1.TrafficStatsReader{}, changed).Complete(reconcile.Func(r.stats))
}

// found is what a reader's object refers to.
type found struct {
	pods []string
	// problem that a user must fix; empty if there is none.
	reason, problem string
	// waiting is what is not ready yet; empty if all is.
	waiting string
}

func (r *Reconciler) capture(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &spatev1.TrafficCapture{}
	return r.reconcile(ctx, request, object, func() (found, error) { return r.portsOf(ctx, object) })
}

func (r *Reconciler) ping(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &spatev1.TrafficPing{}
	return r.reconcile(ctx, request, object, func() (found, error) {
		return r.podsFor(ctx, object.Namespace, object.Spec.GeneratorRef.Name, object.Spec.Pods, func(g *spatev1.TrafficGenerator) string {
			return live.PingProblem(g, &object.Spec)
		})
	})
}

func (r *Reconciler) records(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &spatev1.TrafficRecordsReader{}
	return r.reconcile(ctx, request, object, func() (found, error) { return r.runOf(ctx, object.Namespace, object.Spec.RunRef.Name) })
}

func (r *Reconciler) stats(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &spatev1.TrafficStatsReader{}
	return r.reconcile(ctx, request, object, func() (found, error) { return r.runOf(ctx, object.Namespace, object.Spec.RunRef.Name) })
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request, object spatev1.LiveReader, resolve func() (found, error)) (ctrl.Result, error) {
	if err := r.Client.Get(ctx, request.NamespacedName, object); err != nil || object.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	status := object.Live()
	read := object.GetCreationTimestamp().Time
	if status.LastReadTime != nil && status.LastReadTime.After(read) {
		read = status.LastReadTime.Time
	}
	left := unreadAfter - r.Clock.Since(read)
	if left <= 0 {
		return ctrl.Result{}, client.IgnoreNotFound(r.Client.Delete(ctx, object))
	}
	have, err := resolve()
	if err != nil {
		return ctrl.Result{}, err
	}
	before := object.DeepCopyObject().(spatev1.LiveReader)
	status.Pods, status.Endpoint = have.pods, nil
	again := left
	switch {
	case have.problem != "":
		kstatus.Stalled(&status.Conditions, object.GetGeneration(), have.reason, have.problem)
	case have.waiting != "":
		kstatus.Progressing(&status.Conditions, object.GetGeneration(), spatev1.ReasonPodsPending, have.waiting)
		again = awaitPods
	default:
		authority, err := r.Certificates.Authority(ctx)
		if err != nil {
			return ctrl.Result{}, err
		}
		endpoint := r.Endpoint
		endpoint.TrustBundle = string(authority.Bundle())
		status.Endpoint = &endpoint
		kstatus.Ready(&status.Conditions, object.GetGeneration(), spatev1.ReasonAvailable, "the holder of spec.readerKey may read")
	}
	return kstatus.Next(again, kstatus.Patch(ctx, r.Client, object, before))
}

// portsOf finds the pods whose ports a capture names.
func (r *Reconciler) portsOf(ctx context.Context, c *spatev1.TrafficCapture) (found, error) {
	return r.podsFor(ctx, c.Namespace, c.Spec.GeneratorRef.Name, c.Spec.Pods, func(g *spatev1.TrafficGenerator) string {
		var names []string
		for _, port := range g.Spec.Ports {
			names = append(names, string(port.Name))
		}
		for _, port := range c.Spec.Ports {
			if !slices.Contains(names, string(port)) {
				return fmt.Sprintf("spec.ports: %q must be a port of TrafficGenerator %s: one of %s", port, g.Name, strings.Join(names, ", "))
			}
		}
		return ""
	})
}

// podsFor finds the pods of a generator that spec.pods names, or all, unless the spec has a problem with the generator.
func (r *Reconciler) podsFor(ctx context.Context, namespace string, name spatev1.ObjectName, wanted []string, problem func(*spatev1.TrafficGenerator) string) (found, error) {
	g := &spatev1.TrafficGenerator{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: string(name)}, g)
	if apierrors.IsNotFound(err) {
		return found{reason: spatev1.ReasonReferenceNotFound, problem: fmt.Sprintf("spec.generatorRef: TrafficGenerator %q does not exist in namespace %s", name, namespace)}, nil
	}
	if err != nil {
		return found{}, err
	}
	if text := problem(g); text != "" {
		return found{reason: spatev1.ReasonInvalidSpec, problem: text}, nil
	}
	pods, err := r.podsOf(ctx, g)
	if err != nil {
		return found{}, err
	}
	if len(pods) == 0 {
		return found{waiting: fmt.Sprintf("TrafficGenerator %s has no running engine pod; see kubectl get tg %[1]s -n %s", g.Name, g.Namespace)}, nil
	}
	for _, pod := range wanted {
		if !slices.Contains(pods, pod) {
			return found{reason: spatev1.ReasonInvalidSpec, problem: fmt.Sprintf("spec.pods: %q must be a running pod of TrafficGenerator %s: one of %s", pod, g.Name, strings.Join(pods, ", "))}, nil
		}
	}
	if len(wanted) > 0 {
		pods = wanted
	}
	return found{pods: pods}, nil
}

// podsOf returns the names of a generator's running pods, by their index.
func (r *Reconciler) podsOf(ctx context.Context, g *spatev1.TrafficGenerator) ([]string, error) {
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.InNamespace(g.Namespace), client.MatchingLabels(podspec.Labels(g))); err != nil {
		return nil, err
	}
	running := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil
	})
	slices.SortFunc(running, func(a, b corev1.Pod) int { return cmp.Compare(podspec.Index(&a), podspec.Index(&b)) })
	var names []string
	for i := range running {
		names = append(names, running[i].Name)
	}
	return names, nil
}

// runOf finds the pods of a run.
func (r *Reconciler) runOf(ctx context.Context, namespace string, name spatev1.ObjectName) (found, error) {
	run := &spatev1.TrafficRun{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: string(name)}, run)
	if apierrors.IsNotFound(err) {
		return found{reason: spatev1.ReasonReferenceNotFound, problem: fmt.Sprintf("spec.runRef: TrafficRun %q does not exist in namespace %s", name, namespace)}, nil
	}
	if err != nil {
		return found{}, err
	}
	var pods []string
	if resolved := run.Status.Resolved; resolved != nil { // none before the run is admitted
		for _, pod := range resolved.Generator.Pods {
			pods = append(pods, pod.Name)
		}
	}
	return found{pods: pods}, nil
}
