// SPDX-License-Identifier: Apache-2.0

// Package generator reconciles the engine pods of TrafficGenerators.
package generator

// This file answers: in which order is a generator reconciled, and what triggers that?

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/pki"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/admission"
)

// Finalizer lets a generator stop its traffic and have its final counters scraped before its pods are deleted.
const Finalizer = "spate.dev/drain"

const (
	// soon is the interval at which a generator that is not ready is reconciled, besides events of its pods.
	soon = time.Second
	// readyInterval is the interval at which the engines of a ready generator are queried for the state of their ports.
	readyInterval = 10 * time.Second
	// monitorInterval is the interval at which PodMonitors are read, which are not watched.
	monitorInterval = time.Minute
	// refusedPause is the time between attempts to create a pod that the API server refuses.
	refusedPause = 5 * time.Second
)

// Reconciler reconciles generators.
type Reconciler struct {
	Client client.Client
	// Live reads events and objects of others, which are not cached.
	Live         client.Reader
	Events       events.EventRecorder
	Engines      *engine.Pool
	Certificates *pki.Store
	// Access says who may connect to engine pods.
	Access podspec.Access
	// Images that engine pods may run.
	Images     Images
	PullPolicy corev1.PullPolicy
	// Architecture of engine images: engine pods are scheduled on such nodes only. Empty: on nodes of any.
	Architecture string
	// PodMonitors are created if the cluster has the kind.
	PodMonitors bool
	// Scrapes are what PodMonitors have.
	Scrapes podspec.Scrapes
	// Namespaces are those that are watched; none for all.
	Namespaces []string
	// Resolver admits runs to generators, not while pods are deleted.
	Resolver *admission.Resolver

	// Shares of the workers: for generators whose engines answer, and for those whose engines do not.
	answering, unreachable turn.Share

	mu       sync.Mutex
	monitors map[types.UID]monitored
	// unscraped has, by generator, since when ended runs without a TrafficRun wait for a scrape.
	unscraped map[types.UID]map[string]time.Time
}

// monitored is when a generator's PodMonitor was last found or made as the generator's generation requires.
type monitored struct {
	generation int64
	at         time.Time
}

// +kubebuilder:rbac:groups=spate.dev,resources=trafficgenerators,verbs=list;watch;update
// +kubebuilder:rbac:groups=spate.dev,resources=trafficgenerators/status,verbs=patch
// +kubebuilder:rbac:groups=spate.dev,resources=trafficgenerators/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,verbs=get;create;update
// +kubebuilder:rbac:groups=k8s.cni.cncf.io,resources=network-attachment-definitions,verbs=get

// SetupWithManager registers the reconciler and its watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.monitors, r.unscraped = map[types.UID]monitored{}, map[types.UID]map[string]time.Time{}
	changed := builder.WithPredicates(predicate.ResourceVersionChangedPredicate{}) // by users or the kubelet; not by a new list of the cache
	return ctrl.NewControllerManagedBy(mgr).
		For(&spatev1.TrafficGenerator{}, builder.WithPredicates(runs.SpecChanged())).
		Owns(&corev1.Pod{}, changed).
		Owns(&corev1.Secret{}, changed).
		Owns(&networkingv1.NetworkPolicy{}, changed).
		Watches(&spatev1.TrafficRun{}, handler.EnqueueRequestsFromMapFunc(ofRun), builder.WithPredicates(runs.Steps())).
		WatchesRawSource(source.Func(r.share)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			// A failing generator is reconciled at least as often as a ready one.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, readyInterval),
		}).
		Complete(r)
}

func ofRun(_ context.Context, object client.Object) []reconcile.Request {
	key, known := runs.GeneratorKey(object.(*spatev1.TrafficRun))
	if !known || key.Name == admission.AnyGenerator {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// Reconcile reconciles one generator.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	g := &spatev1.TrafficGenerator{}
	if err := r.Client.Get(ctx, request.NamespacedName, g); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	release, ok := r.place(g).Take(request)
	if !ok {
		return ctrl.Result{RequeueAfter: soon}, nil // usually queued earlier, when a place is free
	}
	defer release()
	pods, err := r.pods(ctx, g)
	if err != nil {
		return ctrl.Result{}, err
	}
	active, err := runs.ActiveOn(ctx, r.Client, g)
	if err != nil {
		return ctrl.Result{}, err
	}
	if g.DeletionTimestamp != nil {
		return r.drain(ctx, g, pods, active)
	}
	if controllerutil.AddFinalizer(g, Finalizer) {
		return kstatus.Next(time.Millisecond, client.IgnoreNotFound(r.Client.Update(ctx, g)))
	}
	before := g.DeepCopy()
	again, err := r.reconcile(ctx, g, pods, active)
	r.announce(before, g)
	if patchErr := kstatus.Patch(ctx, r.Client, g, before); err == nil {
		err = patchErr
	}
	return kstatus.Next(again, err)
}

// pods returns the pods that this generator controls, not those of a deleted one with the same name.
func (r *Reconciler) pods(ctx context.Context, g *spatev1.TrafficGenerator) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.Client.List(ctx, &list, client.InNamespace(g.Namespace), client.MatchingLabels{podspec.LabelGenerator: g.Name})
	var own []*corev1.Pod
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], g) {
			own = append(own, &list.Items[i])
		}
	}
	return own, err
}

// reconcile creates and deletes pods, and updates the status. It returns when to reconcile again.
func (r *Reconciler) reconcile(ctx context.Context, g *spatev1.TrafficGenerator, pods []*corev1.Pod, active []spatev1.TrafficRun) (again time.Duration, err error) {
	g.Status.ObservedGeneration = g.Generation
	g.Status.Selector = labels.SelectorFromSet(podspec.Labels(g)).String()
	sessionsSet := false
	defer func() {
		measurementReady(g)
		machineReady(g)
		if !sessionsSet && err == nil {
			routingReady(g, []string{"the sessions are not set; the condition Ready says why"})
		}
	}()
	g.Status.Runs = runs.Names(active)
	reports, err := r.queryEngines(ctx, g, pods) // first: orphaned runs are stopped even if the generator has other problems
	if err != nil {
		return 0, err
	}
	if problems := plan.CheckGenerator(&g.Spec); len(problems) > 0 {
		kstatus.Stalled(&g.Status.Conditions, g.Generation, problems.Reason(), problems.Message())
		return readyInterval, nil
	}
	if g.Spec.Suspend {
		return r.suspend(ctx, g, pods, active, reports)
	}
	if image := r.image(g); !r.Images.allow(image) {
		again, err := r.free(ctx, g, pods, active, reports)
		kstatus.Stalled(&g.Status.Conditions, g.Generation, spatev1.ReasonNotAllowed, r.Images.refusal(image))
		return again, err
	}
	renew, taken, err := r.children(ctx, g)
	if err != nil {
		return 0, err
	}
	if taken != nil {
		return r.nameTaken(ctx, g, pods, reports, taken), nil
	}
	networks, missing, err := r.attachments(ctx, g)
	if err != nil {
		return 0, err
	}
	if missing == nil {
		if missing, err = r.claimTemplates(ctx, g); err != nil {
			return 0, err
		}
	}
	if missing != nil && len(active) == 0 {
		r.report(ctx, g, pods, make([]*corev1.Pod, g.Spec.Replicas), reports)
		kstatus.Progressing(&g.Status.Conditions, g.Generation, missing.reason, missing.message)
		return 2 * soon, nil
	}
	template := podspec.Template{Generator: g, Image: r.image(g), PullPolicy: r.PullPolicy, Attachments: networks, Architecture: r.Architecture}
	digests := make([]string, size(g, active))
	for index := range digests {
		if digests[index], err = template.Digest(index); err != nil {
			return 0, err
		}
	}
	f := decide(g.Name, pods, digests, len(active) == 0, time.Now())
	maps.DeleteFunc(f.create, func(index, _ int) bool { return index >= int(g.Spec.Replicas) }) // it would be deleted when the runs have ended
	if missing != nil {
		f.create, f.remove = nil, nil // do not disturb active runs
	}
	if len(f.remove) > 0 {
		release, free, err := r.reserve(ctx, g, active)
		if err != nil || !free {
			return soon, err
		}
		defer release()
	}
	for _, pod := range f.remove {
		if err := r.Client.Delete(ctx, pod); client.IgnoreNotFound(err) != nil {
			return 0, err
		}
	}
	for index, attempt := range f.create {
		pod, err := r.newPod(template, digests[index], index, attempt)
		if err != nil {
			return 0, err
		}
		err = r.Client.Create(ctx, pod)
		if apierrors.IsAlreadyExists(err) {
			taken, liveErr := r.taken(ctx, g, pod)
			if liveErr != nil {
				return 0, liveErr
			}
			if taken != nil {
				return r.nameTaken(ctx, g, pods, reports, taken), nil
			}
		}
		if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return 0, err
		} else if err != nil { // such as a quota, or Pod Security admission
			r.report(ctx, g, pods, f.live, reports)
			kstatus.Progressing(&g.Status.Conditions, g.Generation, spatev1.ReasonAdmissionFailed, err.Error())
			return refusedPause, nil
		}
		r.Events.Eventf(g, pod, corev1.EventTypeNormal, "PodCreated", "Create", "created pod %s", pod.Name)
		f.live[index] = pod
	}
	if reports.devices, err = r.reportDevices(ctx, g, f.live, reports.answers); err != nil {
		return 0, err
	}
	refused := r.configureRouting(ctx, g, f.live, reports.answers)
	problems := r.report(ctx, g, pods, f.live, reports)
	awaited := routingReady(g, refused)
	sessionsSet = true
	again = r.settle(ctx, g, f, resizing(g, active), problems)
	if reports.unscraped {
		again = min(again, soon)
	}
	if awaited {
		again = min(again, 2*soon)
	}
	if until := time.Until(renew); until < again {
		again = max(until, soon)
	}
	return again, nil
}

// reserve keeps runs from being admitted to a generator until release is called. free is false if one is being admitted, or was admitted
// since the active runs were listed: such a run keeps its pods.
func (r *Reconciler) reserve(ctx context.Context, g *spatev1.TrafficGenerator, active []spatev1.TrafficRun) (release func(), free bool, err error) {
	release, free = r.Resolver.Enter(client.ObjectKeyFromObject(g))
	if !free {
		return nil, false, nil
	}
	now, err := runs.ActiveOn(ctx, r.Client, g)
	if err != nil || len(now) > 0 && len(active) == 0 {
		release()
		return nil, false, err
	}
	return release, true, nil
}

func (r *Reconciler) image(g *spatev1.TrafficGenerator) string {
	if g.Spec.Image != "" {
		return g.Spec.Image
	}
	return r.Images.Own
}

// suspend deletes the pods once no run uses them; runs end when their generator is suspended.
func (r *Reconciler) suspend(ctx context.Context, g *spatev1.TrafficGenerator, pods []*corev1.Pod, active []spatev1.TrafficRun, reports engineReports) (time.Duration, error) {
	again, err := r.free(ctx, g, pods, active, reports)
	if err != nil {
		return again, err
	}
	if len(active) > 0 {
		kstatus.Progressing(&g.Status.Conditions, g.Generation, spatev1.ReasonSuspended, fmt.Sprintf("waits for %d runs to end", len(active)))
		return again, nil
	}
	kstatus.Idle(&g.Status.Conditions, g.Generation, spatev1.ReasonSuspended, "spec.suspend is true: the pods are deleted")
	return again, nil
}

// free deletes the pods once no run uses them.
func (r *Reconciler) free(ctx context.Context, g *spatev1.TrafficGenerator, pods []*corev1.Pod, active []spatev1.TrafficRun, reports engineReports) (time.Duration, error) {
	r.report(ctx, g, pods, nil, reports)
	if len(active) > 0 {
		return soon, nil
	}
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			if err := r.Client.Delete(ctx, pod); client.IgnoreNotFound(err) != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

func (r *Reconciler) monitored(g *spatev1.TrafficGenerator) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.monitors[g.UID]
	return last.generation == g.Generation && time.Since(last.at) < monitorInterval
}

func (r *Reconciler) setMonitored(g *spatev1.TrafficGenerator) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.monitors[g.UID] = monitored{g.Generation, time.Now()}
}

// sandboxFailure returns why a pod's networks or claimed devices cannot be attached; nil if nothing is known.
func (r *Reconciler) sandboxFailure(ctx context.Context, pod *corev1.Pod) *problem {
	reasons := []string{"FailedCreatePodSandBox"}
	if len(pod.Spec.ResourceClaims) > 0 {
		reasons = append(reasons, "FailedPrepareDynamicResources")
	}
	if message := r.lastEvent(ctx, pod, reasons...); message != "" {
		return &problem{spatev1.ReasonAttachmentFailed, fmt.Sprintf("pod %s: %s", pod.Name, message)}
	}
	return nil
}

// detachFailure returns why a pod that is being deleted has not ended in time, such as since a plugin cannot detach its networks; nil if
// nothing is known.
func (r *Reconciler) detachFailure(ctx context.Context, pod *corev1.Pod) *problem {
	// The grace period is within the timestamp.
	if pod.DeletionTimestamp == nil || time.Since(pod.DeletionTimestamp.Time) < patience {
		return nil
	}
	return notDeleted(pod, r.lastEvent(ctx, pod, "FailedKillPod"), time.Now())
}

// notDeleted returns why a pod that is being deleted has not ended, by the kubelet's event. A kubelet drops events of a pod that has had 25 within
// minutes: without one, after a minute, the problem says where the reason is. Nil before.
func notDeleted(pod *corev1.Pod, event string, now time.Time) *problem {
	switch {
	case event != "":
		return &problem{spatev1.ReasonAttachmentFailed, fmt.Sprintf("pod %s cannot be deleted: %s", pod.Name, event)}
	case now.Sub(pod.DeletionTimestamp.Time) >= time.Minute:
		return &problem{spatev1.ReasonPodsPending, fmt.Sprintf("pod %s has not ended a minute after its grace period: the kubelet's log on node %s has the reason, "+
			"such as a network that cannot be detached", pod.Name, pod.Spec.NodeName)}
	}
	return nil
}

// lastEvent returns the message of a pod's last event with one of the reasons: what the kubelet reports in events only. Empty if there is
// none.
func (r *Reconciler) lastEvent(ctx context.Context, pod *corev1.Pod, reasons ...string) string {
	for _, reason := range reasons {
		var list corev1.EventList
		selector := fields.Set{"involvedObject.uid": string(pod.UID), "reason": reason}
		if err := r.Live.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingFieldsSelector{Selector: selector.AsSelector()}); err != nil {
			return ""
		}
		if len(list.Items) > 0 {
			return list.Items[len(list.Items)-1].Message
		}
	}
	return ""
}
