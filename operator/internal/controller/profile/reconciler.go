// SPDX-License-Identifier: Apache-2.0

// Package profile turns TrafficProfiles into runs, one after the other, and mirrors what becomes of them.
package profile

// This file answers: in which order is a profile dealt with, and what wakes it up?

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/controller/run"
	"spate.dev/operator/internal/controller/snapshot"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/plan"
)

// Finalizer lets a profile's traffic stop before the profile goes.
const Finalizer = "spate.dev/stop-runs"

// Reconciler deals with profiles.
type Reconciler struct {
	Client client.Client
	// Live reads past the cache: labels of namespaces, which are needed rarely.
	Live   client.Reader
	Events events.EventRecorder
	Memory *snapshot.Memory
	// Compiler tries a plan before a run is made of it.
	Compiler engine.Compiler
	// Bound on the bytes of plans.
	Bound plan.Bound
	// Large lets one large plan into memory at a time, those of runs that are prepared among them.
	Large *turn.Lane
	// Inline is what generators within profiles may have.
	Inline InlineAllowed

	tags   tags
	places turn.Places // of the workers, for profiles that are resolved
	slow   turn.Places // of the workers, for those of namespaces with plans that took long to be tried

	mu       sync.Mutex
	made     map[types.UID]types.UID   // the latest run made of each profile, which the cached profile may not name yet
	tried    map[types.UID]tried       // what became of trying the plan of each profile
	late     map[string]time.Time      // when a plan took long to be tried last, by namespace
	starting map[client.ObjectKey]bool // generators that a run is being admitted to
	chosen   map[types.UID]plan.Marks  // marks of runs that are being made, by profile
}

// workers deal with profiles at a time; a namespace has a part of them for profiles that are resolved and tried, which may take long.
const (
	workers      = 8
	perNamespace = 2
	// mostSlow are the places of all namespaces together whose plans took long to be tried, so that workers are left for the others.
	mostSlow = workers / 2
	// turnPause is when a profile whose turn it is not asks again.
	turnPause = 200 * time.Millisecond
)

// +kubebuilder:rbac:groups=spate.dev,resources=trafficprofiles,verbs=get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=spate.dev,resources=trafficprofiles/status,verbs=update;patch
// +kubebuilder:rbac:groups=spate.dev,resources=trafficprofiles/finalizers,verbs=update
// +kubebuilder:rbac:groups=spate.dev,resources=trafficgenerators,verbs=create
// +kubebuilder:rbac:groups=spate.dev,resources=statelessstreams;astftemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// SetupWithManager registers the reconciler and what wakes it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.tried, r.made = map[types.UID]tried{}, map[types.UID]types.UID{}
	r.starting, r.chosen, r.late = map[client.ObjectKey]bool{}, map[types.UID]plan.Marks{}, map[string]time.Time{}
	r.places.Each, r.slow.Each, r.slow.Most = perNamespace, 1, mostSlow
	if err := index(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&spatev1.TrafficProfile{}, builder.WithPredicates(run.Asked())).
		Owns(&spatev1.TrafficRun{}, builder.WithPredicates(run.Steps())).
		Watches(&spatev1.TrafficGenerator{}, handler.EnqueueRequestsFromMapFunc(r.using(byGenerator)), builder.WithPredicates(run.Capable())).
		Watches(&spatev1.StatelessStream{}, handler.EnqueueRequestsFromMapFunc(r.using(byStream)), builder.WithPredicates(run.Asked())).
		Watches(&spatev1.ASTFTemplate{}, handler.EnqueueRequestsFromMapFunc(r.using(byTemplate)), builder.WithPredicates(run.Asked())).
		// Runs of others may free the generator a profile waits for.
		Watches(&spatev1.TrafficRun{}, handler.EnqueueRequestsFromMapFunc(r.waiting), builder.WithPredicates(run.Steps())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// scope is a profile with all it depends on, as the cache has it.
type scope struct {
	r         *Reconciler
	profile   *spatev1.TrafficProfile
	generator *spatev1.TrafficGenerator // nil if there is none
	resolved  *plan.Resolved            // nil if there are problems
	problems  plan.Problems
	looked    bool                                          // its streams or templates name ConfigMaps or Secrets
	secrets   map[spatev1.ObjectName]spatev1.SecretSnapshot // those that were read, without keys
	runs      []spatev1.TrafficRun                          // the oldest first
	strangers []spatev1.TrafficRun                          // that name the profile, which did not make them
	digest    string                                        // of what starts a new run when it changes
	read      []string                                      // versions of the ConfigMaps and Secrets that were read
	untried   time.Duration                                 // when the plan is tried again that could not be; 0 if it could
	closed    bool                                          // another profile is being admitted to the generator
	slow      bool                                          // it has the place of one whose plan takes long to be tried
}

// latest run, nil if there is none.
func (s *scope) latest() *spatev1.TrafficRun {
	if len(s.runs) == 0 {
		return nil
	}
	return &s.runs[len(s.runs)-1]
}

// ownOf splits runs into those that the profile made and others: a newer one than it has recorded is not its own, unless it was made just
// now. Older ones were recorded in their time.
func (s *scope) ownOf(all []spatev1.TrafficRun) (own, strangers []spatev1.TrafficRun) {
	s.r.mu.Lock()
	made := s.r.made[s.profile.UID]
	s.r.mu.Unlock()
	recorded := s.profile.Status.CurrentRun
	for _, r := range all {
		switch {
		case r.UID == made, recorded != nil && r.UID == recorded.UID:
		case recorded != nil && (run.Number(r.Name) < run.Number(recorded.Name) || recorded.UID == "" && r.Name == recorded.Name):
		default:
			strangers = append(strangers, r)
			continue
		}
		own = append(own, r)
	}
	return own, strangers
}

// Reconcile takes one profile a step further.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s := &scope{r: r, profile: &spatev1.TrafficProfile{}}
	if err := r.Client.Get(ctx, request.NamespacedName, s.profile); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	all, err := run.OfProfile(ctx, r.Client, s.profile)
	if err != nil {
		return ctrl.Result{}, err
	}
	s.runs, s.strangers = s.ownOf(all)
	if s.profile.DeletionTimestamp != nil {
		r.mu.Lock()
		delete(r.tried, s.profile.UID)
		delete(r.made, s.profile.UID)
		r.mu.Unlock()
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
		s.tell(before)
	}
	return kstatus.Next(again, err)
}

// step resolves the profile, starts a run if one is due, keeps the history, and works the status out.
func (s *scope) step(ctx context.Context) (time.Duration, error) {
	s.digest = plan.ProfileDigest(s.profile)
	if err := s.keepGenerator(ctx); err != nil {
		return s.unmade(ctx, err)
	}
	if s.inQuestion() {
		leave, ok := s.place()
		if !ok {
			return turnPause, nil
		}
		defer leave()
		leave, ok, err := s.resolve(ctx)
		if err != nil {
			return 0, err
		}
		if !ok {
			s.waits("waits for its turn to be resolved: large plans are one at a time, those that take long to be tried a few")
			return turnPause, nil
		}
		defer leave()
	}
	s.profile.Status.ObservedGeneration = s.profile.Generation
	if err := s.trim(ctx); err != nil {
		return 0, err
	}
	decision, err := s.decideAndStart(ctx)
	if err != nil {
		return s.unmade(ctx, err)
	}
	s.status(ctx, decision)
	if left, due := s.expiry(); due {
		if left <= 0 {
			return 0, client.IgnoreNotFound(s.r.Client.Delete(ctx, s.profile))
		}
		return left, nil
	}
	return decision.again, nil
}

// unmade puts into the status what the API server refuses to make, and gives when to try again.
func (s *scope) unmade(ctx context.Context, err error) (time.Duration, error) {
	d, err := refused(err)
	if err != nil {
		return 0, err
	}
	s.profile.Status.ObservedGeneration = s.profile.Generation
	s.status(ctx, d)
	return d.again, nil
}

// inQuestion tells whether it matters if the profile can be run: a run is due, or what applies to the run under way was changed.
func (s *scope) inQuestion() bool {
	if s.profile.Spec.Suspend {
		return false
	}
	latest := s.latest()
	return s.due() || latest != nil && run.Active(latest) && s.profile.Generation > latest.Spec.Profile.Generation
}

// waits says so of a profile whose turn it is not, unless it says how a run does.
func (s *scope) waits(message string) {
	if latest := s.latest(); latest == nil || !run.Active(latest) {
		s.profile.Status.ObservedGeneration = s.profile.Generation
		s.profile.Status.Phase, s.profile.Status.Reason = spatev1.ProfilePending, spatev1.ReasonProgressing
		kstatus.Progressing(&s.profile.Status.Conditions, s.profile.Generation, spatev1.ReasonProgressing, message)
	}
}

// decideAndStart decides what is to be done, and starts a run if that is it. Admission to a generator looks at all that was admitted
// before, so it is one profile's at a time.
func (s *scope) decideAndStart(ctx context.Context) (decision, error) {
	key := generatorKey(s.profile)
	s.r.mu.Lock()
	free := !s.r.starting[key]
	s.r.starting[key] = true
	s.r.mu.Unlock()
	if !free {
		return s.unadmitted(ctx)
	}
	defer func() {
		s.r.mu.Lock()
		defer s.r.mu.Unlock()
		delete(s.r.starting, key)
	}()
	d, err := s.decide(ctx)
	if err == nil && d.start {
		err = s.start(ctx)
	}
	return d, err
}

// unadmitted is the decision while another profile is being admitted to the generator: nothing that needs admission.
func (s *scope) unadmitted(ctx context.Context) (decision, error) {
	s.closed = true
	return s.decide(ctx)
}

func (r *Reconciler) using(field string) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		var list spatev1.TrafficProfileList
		if err := r.Client.List(ctx, &list, client.MatchingFields{field: object.GetNamespace() + "/" + object.GetName()}); err != nil {
			return nil
		}
		return requests(list.Items)
	}
}

// waiting gives the queued profiles of a generator when a run on it has ended.
func (r *Reconciler) waiting(ctx context.Context, object client.Object) []reconcile.Request {
	ended := object.(*spatev1.TrafficRun)
	if run.Active(ended) && ended.DeletionTimestamp == nil {
		return nil
	}
	g := &spatev1.TrafficGenerator{}
	g.Namespace, g.Name = ended.Spec.Generator.Namespace, string(ended.Spec.Generator.Name)
	var queued []reconcile.Request
	for _, request := range r.using(byGenerator)(ctx, g) {
		p := &spatev1.TrafficProfile{}
		if r.Client.Get(ctx, request.NamespacedName, p) == nil && p.Status.Phase == spatev1.ProfileQueued {
			queued = append(queued, request)
		}
	}
	return queued
}

func requests(profiles []spatev1.TrafficProfile) []reconcile.Request {
	var all []reconcile.Request
	for i := range profiles {
		all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: profiles[i].Namespace, Name: profiles[i].Name}})
	}
	return all
}

// tell makes events of what people should know about.
func (s *scope) tell(before *spatev1.TrafficProfile) {
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
