// SPDX-License-Identifier: Apache-2.0

// Package profile starts runs of TrafficProfiles by their policies, and reports on the latest of each. The controller of runs resolves
// and admits them; here, a profile is resolved only to report problems before a run is started.
package profile

// This file answers: in which order is a profile reconciled, and what triggers that?

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/stream"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/admission"
)

// Finalizer lets a profile's traffic stop before the profile is deleted.
const Finalizer = "spate.dev/stop-runs"

// Reconciler reconciles profiles.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
	Clock  clock.Clock
	// Resolver finds the problems of a profile.
	Resolver *admission.Resolver
	// Inline restricts generators within profiles.
	Inline admission.InlineAllowed

	mu      sync.Mutex
	started map[types.UID]started // the latest run of each profile, which the cache may not have yet
}

// +kubebuilder:rbac:groups=spate.dev,resources=trafficprofiles,verbs=list;watch;update
// +kubebuilder:rbac:groups=spate.dev,resources=trafficprofiles/status,verbs=patch
// +kubebuilder:rbac:groups=spate.dev,resources=trafficprofiles/finalizers,verbs=update
// +kubebuilder:rbac:groups=spate.dev,resources=trafficgenerators,verbs=create
// +kubebuilder:rbac:groups=spate.dev,resources=statelessstreams;astftemplates;clientgroups,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// SetupWithManager registers the reconciler and its watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.started = map[types.UID]started{}
	if err := index(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&spatev1.TrafficProfile{}, builder.WithPredicates(runs.SpecChanged())).
		Watches(&spatev1.TrafficRun{}, handler.EnqueueRequestsFromMapFunc(ofRun), builder.WithPredicates(runs.Moves())).
		Watches(&spatev1.TrafficGenerator{}, handler.EnqueueRequestsFromMapFunc(r.ofGenerator), builder.WithPredicates(runs.Capable())).
		Watches(&spatev1.StatelessStream{}, handler.EnqueueRequestsFromMapFunc(r.ofStream), builder.WithPredicates(runs.Relabeled())).
		Watches(&spatev1.ASTFTemplate{}, handler.EnqueueRequestsFromMapFunc(r.using(byTemplate)), builder.WithPredicates(runs.SpecChanged())).
		Watches(&spatev1.ClientGroup{}, handler.EnqueueRequestsFromMapFunc(r.using(byClients)), builder.WithPredicates(runs.SpecChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: admission.Workers}).
		Complete(r)
}

// Indexes of profiles in the cache, by references.
const (
	byGenerator = "generator"
	byStream    = "stream"
	byTemplate  = "template"
	byClients   = "clients"
	// bySelection has the profiles with selectors.
	bySelection = "selection"
)

// anyStream is the key of bySelection in each namespace.
const anyStream = "*"

func index(ctx context.Context, indexer client.FieldIndexer) error {
	for name, keys := range map[string]func(*spatev1.TrafficProfile) []string{
		byGenerator: func(p *spatev1.TrafficProfile) []string { return []string{admission.GeneratorKey(p).String()} },
		byStream: func(p *spatev1.TrafficProfile) (keys []string) {
			for i := range p.Spec.Traffic {
				if ref := stream.Ref(&p.Spec.Traffic[i]); ref != nil {
					keys = append(keys, p.Namespace+"/"+string(ref.Name))
				}
			}
			return keys
		},
		bySelection: func(p *spatev1.TrafficProfile) (keys []string) {
			if plan.Selecting(p) {
				keys = append(keys, p.Namespace+"/"+anyStream)
			}
			return keys
		},
		byClients: func(p *spatev1.TrafficProfile) (keys []string) {
			for i := range p.Spec.Clients {
				keys = append(keys, p.Namespace+"/"+string(p.Spec.Clients[i].GroupRef.Name))
			}
			return keys
		},
		byTemplate: func(p *spatev1.TrafficProfile) (keys []string) {
			for i := range p.Spec.Traffic {
				if ref := application.Ref(&p.Spec.Traffic[i]); ref != nil {
					keys = append(keys, p.Namespace+"/"+string(ref.Name))
				}
			}
			return keys
		},
	} {
		extract := func(o client.Object) []string { return keys(o.(*spatev1.TrafficProfile)) }
		if err := indexer.IndexField(ctx, &spatev1.TrafficProfile{}, name, extract); err != nil {
			return err
		}
	}
	return nil
}

func ofRun(_ context.Context, object client.Object) []reconcile.Request {
	ref := object.(*spatev1.TrafficRun).Spec.ProfileRef
	if ref == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: string(ref.Name)}}}
}

func (r *Reconciler) using(field string) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		return r.with(ctx, field, object.GetNamespace(), object.GetName())
	}
}

// ofStream returns the profiles that name a stream, and those that select it. Of a change of its labels it is called with
// the old ones, too.
func (r *Reconciler) ofStream(ctx context.Context, object client.Object) []reconcile.Request {
	all := r.with(ctx, byStream, object.GetNamespace(), object.GetName())
	var list spatev1.TrafficProfileList
	if err := r.Client.List(ctx, &list, client.MatchingFields{bySelection: object.GetNamespace() + "/" + anyStream}, client.UnsafeDisableDeepCopy); err != nil {
		return all
	}
	changed := map[string]*spatev1.StatelessStream{object.GetName(): object.(*spatev1.StatelessStream)}
	for i := range list.Items {
		selects := func(e spatev1.TrafficEntry) bool {
			selector := stream.Selector(&e)
			return selector != nil && len(plan.SelectedBy(selector, changed)) > 0
		}
		if slices.ContainsFunc(list.Items[i].Spec.Traffic, selects) {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return all
}

func (r *Reconciler) ofGenerator(ctx context.Context, object client.Object) []reconcile.Request {
	return append(r.with(ctx, byGenerator, object.GetNamespace(), object.GetName()), r.with(ctx, byGenerator, object.GetNamespace(), admission.AnyGenerator)...)
}

func (r *Reconciler) with(ctx context.Context, field, namespace, name string) []reconcile.Request {
	var list spatev1.TrafficProfileList
	if err := r.Client.List(ctx, &list, client.MatchingFields{field: namespace + "/" + name}); err != nil {
		return nil
	}
	var all []reconcile.Request
	for i := range list.Items {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return all
}

// scope is a profile with the objects it depends on, as the cache has them.
type scope struct {
	r        *Reconciler
	profile  *spatev1.TrafficProfile
	runs     []spatev1.TrafficRun // all runs of the profile, the oldest first
	digest   string               // of what the profile sends
	seen     bool                 // the profile was reconciled before
	problems problem.Problems
	retry    time.Duration // when to resolve the profile again; 0 if it was resolved
	waits    string        // why it could not be resolved yet; empty if it was
}

// latest run, regardless of who created it; nil if there is none.
func (s *scope) latest() *spatev1.TrafficRun {
	if len(s.runs) == 0 {
		return nil
	}
	return &s.runs[len(s.runs)-1]
}

// own is the latest run that the profile started; nil if there is none.
func (s *scope) own() *spatev1.TrafficRun {
	for i := len(s.runs) - 1; i >= 0; i-- {
		if runs.StartedBy(&s.runs[i], s.profile) {
			return &s.runs[i]
		}
	}
	return nil
}

// Reconcile reconciles one profile.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s := &scope{r: r, profile: &spatev1.TrafficProfile{}}
	if err := r.Client.Get(ctx, request.NamespacedName, s.profile); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var err error
	if s.runs, err = runs.OfProfile(ctx, r.Client, s.profile); err != nil {
		return ctrl.Result{}, err
	}
	if s.profile.DeletionTimestamp != nil {
		r.mu.Lock()
		delete(r.started, s.profile.UID)
		r.mu.Unlock()
		r.Resolver.Forget(s.profile.UID)
		return s.remove(ctx)
	}
	if controllerutil.AddFinalizer(s.profile, Finalizer) {
		return kstatus.Next(time.Millisecond, client.IgnoreNotFound(r.Client.Update(ctx, s.profile)))
	}
	before := s.profile.DeepCopy()
	again, err := s.step(ctx)
	patchErr := kstatus.Patch(ctx, r.Client, s.profile, before)
	if err == nil {
		err = patchErr
	}
	if !kstatus.Expected(err) {
		s.report(before)
	}
	return kstatus.Next(again, err)
}

// step starts a run if one is due, deletes old runs, and updates the status.
func (s *scope) step(ctx context.Context) (time.Duration, error) {
	s.digest, s.seen = plan.ProfileDigest(s.profile), s.profile.Status.ObservedGeneration > 0
	s.refreshTrigger()
	if err := s.ensureGenerator(ctx); err != nil {
		return s.refused(ctx, err)
	}
	if err := s.check(ctx); err != nil {
		return 0, err
	}
	if s.waits == "" {
		s.profile.Status.ObservedGeneration = s.profile.Generation
	}
	if err := s.trim(ctx); err != nil {
		return 0, err
	}
	d := s.decide()
	if d.start {
		if err := s.start(ctx, d.scheduled); err != nil {
			return s.refused(ctx, err)
		}
	}
	if d.replace != nil {
		if err := s.stop(ctx, d.replace); err != nil {
			return 0, err
		}
	}
	s.status(ctx, d)
	return d.again, nil
}

// refused reports in the status what the API server refuses to create, and returns when to retry.
func (s *scope) refused(ctx context.Context, err error) (time.Duration, error) {
	d, err := refused(err)
	if err != nil {
		return 0, err
	}
	s.profile.Status.ObservedGeneration = s.profile.Generation
	s.status(ctx, d)
	return d.again, nil
}

// needsCheck reports whether problems of the profile must be known: a run is due, the profile was changed or had a problem, or users
// may create runs of it at any time.
func (s *scope) needsCheck(due bool) bool {
	if s.profile.Spec.Suspend {
		return false
	}
	ready := meta.FindStatusCondition(s.profile.Status.Conditions, spatev1.ConditionReady)
	return due || s.profile.Status.ObservedGeneration != s.profile.Generation ||
		ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason != spatev1.ReasonSuspended ||
		s.profile.Spec.RunPolicy != spatev1.RunOnChange && s.active() == nil
}

// check finds the problems of the profile. A run resolves it again: referenced objects may have changed meanwhile.
func (s *scope) check(ctx context.Context) error {
	due := s.due()
	if !s.needsCheck(due) || len(s.problems) > 0 { // problems of the generator within the profile
		return nil
	}
	resolution, release, ok, err := s.r.Resolver.Resolve(ctx, admission.Subject{Definition: s.profile, Key: s.profile.UID, Check: due})
	if err != nil {
		return err
	}
	if !ok {
		s.waits, s.retry = "the profile "+admission.WaitsForTurn, admission.Pause
		return nil
	}
	defer release()
	s.problems, s.retry = resolution.Problems, resolution.Retry
	if reason := s.problems.Reason(); s.retry == 0 && len(s.problems) > 0 &&
		(reason == spatev1.ReasonReferenceNotAllowed || reason == spatev1.ReasonReferenceNotFound || resolution.ReadsData()) {
		s.retry = kstatus.PollPause(s.profile.Status.Conditions) // labels of namespaces and data referenced by streams are not watched
	}
	return nil
}

// report emits events about changes of the status.
func (s *scope) report(before *spatev1.TrafficProfile) {
	is := s.profile.Status
	if last := is.LastResult; last != nil && (before.Status.LastResult == nil || before.Status.LastResult.Run != last.Run) {
		kind := corev1.EventTypeNormal
		if last.Verdict != spatev1.VerdictPassed {
			kind = corev1.EventTypeWarning
		}
		s.r.Events.Eventf(s.profile, s.latest(), kind, last.Reason, "Run", "%s", kstatus.Shortened(fmt.Sprintf("run %s: %s: %s", last.Run, last.Verdict, last.Message), kstatus.LongestNote))
	}
	if is.Reason == before.Status.Reason && is.Phase == before.Status.Phase || is.Reason == "" {
		return
	}
	if is.Phase == spatev1.ProfileStalled || is.Phase == spatev1.ProfileQueued || is.Phase == spatev1.ProfilePending {
		kind := corev1.EventTypeWarning
		if is.Reason == spatev1.ReasonProgressing {
			kind = corev1.EventTypeNormal
		}
		s.r.Events.Eventf(s.profile, nil, kind, is.Reason, "Reconcile", "%s", kstatus.Shortened(s.readyMessage(), kstatus.LongestNote))
	}
}
