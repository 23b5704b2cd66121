// SPDX-License-Identifier: Apache-2.0

// Package run executes TrafficRuns: it prepares the engines, starts them at one instant, follows them and evaluates the result. What is
// not in the run's status is queried from the engines, so the operator may restart at any time.
package run

// This file answers: which phase handles a run, and what wakes it up?

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/metrics"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/admission"
	"spate.dev/operator/internal/runs/storage"
)

// Finalizer makes a run stop its traffic before it is deleted.
const Finalizer = "spate.dev/stop-traffic"

// tick is the interval at which an active run is reconciled. Its counters may be written less often.
const tick = time.Second

// Reconciler executes runs.
type Reconciler struct {
	Client  client.Client
	Events  events.EventRecorder
	Engines *engine.Pool
	Memory  *storage.Memory
	// Resolver resolves and admits runs.
	Resolver *admission.Resolver

	// Large admits one large plan into memory at a time, including those of profiles that are being resolved.
	Large *turn.Lane

	// requests per second that the client may make for runs.
	requests   float32
	supervisor *supervisor
	preparing  turn.Places
}

// +kubebuilder:rbac:groups=spate.dev,resources=trafficruns,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=spate.dev,resources=trafficruns/status,verbs=patch
// +kubebuilder:rbac:groups=spate.dev,resources=trafficruns/finalizers,verbs=update

// SetupWithManager registers the reconciler and its watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.requests = mgr.GetConfig().QPS
	r.supervisor = newSupervisor(r.follow)
	r.preparing.Each, r.preparing.Max = preparingPerNamespace, maxPreparing
	if err := errors.Join(mgr.Add(manager.RunnableFunc(r.count)), mgr.Add(r.supervisor)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&spatev1.TrafficRun{}, builder.WithPredicates(runs.SpecChanged())).
		Watches(&spatev1.TrafficProfile{}, handler.EnqueueRequestsFromMapFunc(r.ofProfile), builder.WithPredicates(runs.SpecChanged())).
		Watches(&spatev1.TrafficGenerator{}, handler.EnqueueRequestsFromMapFunc(r.ofGenerator), builder.WithPredicates(runs.Capable())).
		Watches(&spatev1.TrafficRun{}, handler.EnqueueRequestsFromMapFunc(r.freed), builder.WithPredicates(runs.Steps())).
		Watches(&spatev1.StatelessStream{}, handler.EnqueueRequestsFromMapFunc(r.unresolved), builder.WithPredicates(runs.Relabeled())).
		Watches(&spatev1.ASTFTemplate{}, handler.EnqueueRequestsFromMapFunc(r.unresolved), builder.WithPredicates(runs.SpecChanged())).
		Watches(&spatev1.ClientGroup{}, handler.EnqueueRequestsFromMapFunc(r.unresolved), builder.WithPredicates(runs.SpecChanged())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod), builder.WithPredicates(runs.Ends())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// countEvery is the interval at which runs are counted for the operator's metrics.
const countEvery = 5 * time.Second

// count records how many runs are active and how many wait, until the operator stops.
func (r *Reconciler) count(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(countEvery):
		}
		var list spatev1.TrafficRunList
		if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // read only
			continue // retried at the next interval
		}
		active, waiting := 0, map[string]int{}
		for i := range list.Items {
			run := &list.Items[i]
			switch ready := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionReady); {
			case runs.Admitted(run):
				active++
			case runs.Active(run) && ready != nil:
				waiting[ready.Reason]++
			}
		}
		metrics.Runs(active, waiting)
		metrics.RunList(list.Items, r.target)
	}
}

// target returns what an active run requests; nil while its plan is not known.
func (r *Reconciler) target(run *spatev1.TrafficRun) *metrics.Target {
	if !runs.Admitted(run) {
		return nil
	}
	packets, connections, known := r.Memory.Target(run)
	if !known {
		return nil
	}
	target, rate := &metrics.Target{}, 0.0
	if !run.Status.Paused {
		target.Packets, _ = packets.Float64()
	}
	if connections != nil {
		if !run.Status.Paused {
			rate, _ = connections.Float64()
		}
		target.Connections = &rate
	}
	return target
}

func requests(of []spatev1.TrafficRun) []reconcile.Request {
	var all []reconcile.Request
	for i := range of {
		if runs.Active(&of[i]) {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&of[i])})
		}
	}
	return all
}

// ofProfile returns the active runs of a profile, and its latest run, whose verdict depends on the profile's thresholds.
func (r *Reconciler) ofProfile(ctx context.Context, object client.Object) []reconcile.Request {
	all, _ := runs.OfProfile(ctx, r.Client, object.(*spatev1.TrafficProfile))
	requests := requests(all)
	if len(all) > 0 && !runs.Active(&all[len(all)-1]) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all[len(all)-1])})
	}
	return requests
}

// ofGenerator returns the active runs of a generator, and those that wait for it or for any generator of its namespace.
func (r *Reconciler) ofGenerator(ctx context.Context, object client.Object) []reconcile.Request {
	g, any := &spatev1.TrafficGenerator{}, &spatev1.TrafficGenerator{}
	g.Namespace, g.Name = object.GetNamespace(), object.GetName()
	any.Namespace, any.Name = g.Namespace, admission.AnyGenerator
	all, _ := runs.On(ctx, r.Client, g)
	more, _ := runs.On(ctx, r.Client, any)
	return requests(append(all, more...))
}

func (r *Reconciler) ofPod(ctx context.Context, object client.Object) []reconcile.Request {
	g := &spatev1.TrafficGenerator{}
	g.Namespace, g.Name = object.GetNamespace(), object.GetLabels()[podspec.LabelGenerator]
	all, _ := runs.ActiveOn(ctx, r.Client, g)
	return requests(all)
}

// wokenInLine is the number of runs at the head of a line that are reconciled when it moves. Only the first can be admitted, and wakes
// the next then; the others report their place. Those behind them report it when they are reconciled by themselves, at most a minute later.
const wokenInLine = 10

// freed returns the runs that are first in line for a run's generator when that run has ended, was admitted (those behind it may fit
// beside it) or has left the line, and, if it has ended, those that are compared with it, and the run itself, to schedule its deletion.
func (r *Reconciler) freed(ctx context.Context, object client.Object) []reconcile.Request {
	run := object.(*spatev1.TrafficRun)
	ended := !runs.Active(run) || run.DeletionTimestamp != nil
	if !ended && (run.Status.Phase != spatev1.RunPending || runs.InLine(run)) && run.Status.Phase != spatev1.RunPreparing {
		return nil
	}
	var all []reconcile.Request
	if ended {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(run)})
		waiting, _ := runs.AwaitingBaseline(ctx, r.Client, client.ObjectKeyFromObject(run))
		all = append(all, requests(waiting)...)
	}
	generator, _ := runs.GeneratorKey(run)
	first, _ := runs.FirstInLine(ctx, r.Client, generator, wokenInLine)
	for _, key := range first {
		all = append(all, reconcile.Request{NamespacedName: key})
	}
	return all
}

// unresolved returns the runs of a namespace that wait for an object they refer to.
func (r *Reconciler) unresolved(ctx context.Context, object client.Object) []reconcile.Request {
	var list spatev1.TrafficRunList
	if err := r.Client.List(ctx, &list, client.InNamespace(object.GetNamespace())); err != nil {
		return nil
	}
	return requests(slices.DeleteFunc(list.Items, func(run spatev1.TrafficRun) bool { return run.Status.Resolved != nil }))
}

// workers is the number of concurrent reconciles of runs that are not admitted or have ended; tasks of the supervisor handle the
// others.
const workers = 16

// Reconcile hands an admitted run to the supervisor, and advances any other run by one step.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	run := &spatev1.TrafficRun{}
	if err := r.Client.Get(ctx, request.NamespacedName, run); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case supervised(run):
		r.supervisor.ensure(ctx, request.NamespacedName, nil)
		return ctrl.Result{}, nil
	case runs.Active(run) && r.supervisor.has(request.NamespacedName):
		// The cached copy is older than the admission. Admitting the run again would replace its stored plan.
		return ctrl.Result{RequeueAfter: cacheLag}, nil
	}
	again, _, err := r.advance(ctx, run, &findings{})
	if err == nil && supervised(run) {
		r.supervisor.ensure(ctx, request.NamespacedName, run)
		return ctrl.Result{}, nil
	}
	return kstatus.Next(again, err)
}

// cacheLag is the time after which a run is reconciled again if the cache does not have its last write yet.
const cacheLag = 20 * time.Millisecond

// latest returns the run as last written if the cached copy is older: updates based on that copy would be rejected as conflicts.
func (f *findings) latest(cached *spatev1.TrafficRun) *spatev1.TrafficRun {
	if f.run != cached.UID { // the first call, or another run of the same name
		*f = findings{run: cached.UID}
	}
	if f.written == nil {
		return cached
	}
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, f.written.ResourceVersion)
	if err != nil || order >= 0 {
		f.written = nil
		return cached
	}
	return f.written.DeepCopy()
}

// follow is one iteration of a run's task.
func (r *Reconciler) follow(ctx context.Context, name types.NamespacedName, found *findings) (again time.Duration, done bool, err error) {
	run := &spatev1.TrafficRun{}
	if err := r.Client.Get(ctx, name, run); err != nil {
		return 0, apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	read := run.ResourceVersion
	if run = found.latest(run); !supervised(run) {
		// The task ends when the cache has the end, too: an older copy would start another task.
		return cacheLag, run.ResourceVersion == read, nil
	}
	if run.Status.Phase == spatev1.RunPreparing && !armed(run) {
		release, ok := r.preparing.Take(run.Namespace)
		if !ok {
			return preparePause, false, nil
		}
		defer release()
	}
	again, done, err = r.advance(ctx, run, found)
	if err == nil && run.ResourceVersion != read {
		found.written = run
	}
	if done {
		again = cacheLag
	}
	result, err := kstatus.Next(again, err)
	return result.RequeueAfter, false, err
}

// The number of runs prepared at a time is limited, so that runs whose start is set reach their engines before that instant. The limit
// per namespace keeps unresponsive engines of one namespace from blocking others.
const (
	maxPreparing          = 64
	preparingPerNamespace = 8
	preparePause          = 50 * time.Millisecond
)

// armed reports whether the run's start is set and still ahead.
func armed(run *spatev1.TrafficRun) bool {
	at := run.Status.TrafficStartTime
	return at != nil && time.Until(at.Time) > 0
}

// advance advances a run by one step. done is true if it has ended or no longer exists.
func (r *Reconciler) advance(ctx context.Context, run *spatev1.TrafficRun, found *findings) (again time.Duration, done bool, err error) {
	s := &scope{r: r, run: run, found: found}
	deleted := run.DeletionTimestamp != nil
	switch {
	case deleted && !controllerutil.ContainsFinalizer(run, Finalizer):
		r.forget(run.UID)
		return 0, true, nil
	case !deleted && !runs.Active(run):
		r.forget(run.UID)
		again, err = s.settled(ctx)
		return again, true, err
	case !deleted && controllerutil.AddFinalizer(run, Finalizer):
		if err := r.Client.Update(ctx, run); err != nil {
			return 0, false, client.IgnoreNotFound(err)
		}
	}
	if err := s.gather(ctx); err != nil {
		return 0, false, err
	}
	if deleted {
		return s.remove(ctx)
	}
	s.before = run.DeepCopy()
	run.Status.ObservedGeneration = run.Generation
	again, err = s.step(ctx)
	if !runs.Active(run) {
		s.saveLastSamples(ctx)
	}
	s.conditions()
	if patchErr := kstatus.Patch(ctx, r.Client, run, s.before); patchErr != nil {
		return 0, false, patchErr
	}
	s.recordPhase(s.before)
	if !runs.Active(run) {
		metrics.RunCompleted(run.Status.Verdict)
		r.forget(run.UID)
		again, err = s.settled(ctx)
		return again, true, err
	}
	return again, false, err
}

func (s *scope) step(ctx context.Context) (time.Duration, error) {
	if s.run.Status.Resolved == nil { // regardless of the phase
		return s.pending(ctx)
	}
	switch s.run.Status.Phase {
	case spatev1.RunPreparing, spatev1.RunSettingUp:
		return s.preparing(ctx)
	case spatev1.RunWarmingUp, spatev1.RunRunning, spatev1.RunDraining:
		return s.underWay(ctx)
	}
	return 0, nil
}

func (r *Reconciler) forget(uid types.UID) {
	r.Memory.Forget(uid)
	r.Resolver.Forget(uid)
}
