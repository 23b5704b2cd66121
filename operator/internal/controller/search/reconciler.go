// SPDX-License-Identifier: Apache-2.0

// Package search executes TrafficSearches: a TrafficRun for each variant, one after the other, whose trials the run's controller executes. It
// computes its status from the runs alone.
package search

// This file answers: which run of a search is next, and when has the search ended?

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/metrics"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/runs"
)

// Reconciler executes searches.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
}

// +kubebuilder:rbac:groups=spate.dev,resources=trafficsearches,verbs=list;watch;delete
// +kubebuilder:rbac:groups=spate.dev,resources=trafficsearches/status,verbs=patch
// +kubebuilder:rbac:groups=spate.dev,resources=trafficsearches/finalizers,verbs=update

// SetupWithManager registers the reconciler and its watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&spatev1.TrafficSearch{}).Owns(&spatev1.TrafficRun{}).Complete(r)
}

// Reconcile brings a search one step forward.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	search := &spatev1.TrafficSearch{}
	if err := r.Client.Get(ctx, request.NamespacedName, search); err != nil || search.DeletionTimestamp != nil {
		if apierrors.IsNotFound(err) {
			metrics.SearchDeleted(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if search.Status.Phase == spatev1.SearchComplete {
		metrics.Search(search, "")
		return r.expire(ctx, search)
	}
	before := search.DeepCopy()
	search.Status.ObservedGeneration = search.Generation
	err := r.advance(ctx, search)
	if patchErr := kstatus.Patch(ctx, r.Client, search, before); patchErr != nil {
		return kstatus.Next(0, patchErr)
	}
	if search.Status.Phase == spatev1.SearchComplete {
		metrics.Search(search, "")
		passed := meta.FindStatusCondition(search.Status.Conditions, spatev1.ConditionPassed)
		kind := corev1.EventTypeNormal
		if search.Status.Outcome != spatev1.VerdictPassed {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(search, nil, kind, passed.Reason, "Search", "%s", kstatus.Shortened(passed.Message, kstatus.LongestNote))
		return r.expire(ctx, search)
	}
	return kstatus.Next(0, err)
}

// expire deletes a search whose time to live has passed.
func (r *Reconciler) expire(ctx context.Context, search *spatev1.TrafficSearch) (ctrl.Result, error) {
	ttl, end := search.Spec.TTLSecondsAfterFinished, search.Status.CompletionTime
	if ttl == nil || end == nil {
		return ctrl.Result{}, nil
	}
	if left := time.Until(end.Add(time.Duration(*ttl) * time.Second)); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Client.Delete(ctx, search, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// advance copies what the runs have found, and creates the next one.
func (r *Reconciler) advance(ctx context.Context, search *spatev1.TrafficSearch) error {
	if len(search.Status.Variants) == 0 {
		if wrong := plan.CheckSearch(&search.Spec); len(wrong) > 0 {
			refuse(search, wrong)
			return nil
		}
	}
	all, repeats, stopped := variantsOf(search), repeatsOf(search), false
	search.Status.Variants = nil
	for i, variant := range all {
		var own []*spatev1.TrafficRun
		for n := range repeats {
			run := &spatev1.TrafficRun{}
			err := r.Client.Get(ctx, client.ObjectKey{Namespace: search.Namespace, Name: runName(search, variant, n, repeats)}, run)
			switch {
			case apierrors.IsNotFound(err) && search.Spec.Stop:
				search.Status.Variants = withFound(search.Status.Variants, variant.name, own, repeats)
				conclude(search, true, len(all)*repeats-i*repeats-n)
				return nil
			case apierrors.IsNotFound(err):
				run, err = r.create(ctx, search, variant, n, repeats)
			case err == nil && !metav1.IsControlledBy(run, search):
				nameTaken(search, run)
				return nil
			}
			if err != nil {
				return err
			}
			if own = append(own, run); !runs.Active(run) {
				stopped = stoppedIn(search, run)
				continue
			}
			search.Status.Variants = withFound(search.Status.Variants, variant.name, own, repeats)
			report(search, run, progress{variant.name, n, repeats, i, len(all)})
			metrics.Search(search, loadOf(run))
			if search.Spec.Stop && !run.Spec.Stop {
				stopped := run.DeepCopy()
				stopped.Spec.Stop = true
				return client.IgnoreNotFound(r.Client.Update(ctx, stopped))
			}
			return nil
		}
		search.Status.Variants = withFound(search.Status.Variants, variant.name, own, repeats)
	}
	conclude(search, stopped, 0)
	return nil
}

func repeatsOf(search *spatev1.TrafficSearch) int {
	if search.Spec.Repeats == nil {
		return 1
	}
	return int(*search.Spec.Repeats)
}

// variant is a size of packets to search with.
type variant struct {
	name string
	size spatev1.FrameSize
}

func variantsOf(search *spatev1.TrafficSearch) []variant {
	if len(search.Spec.FrameSizes) == 0 {
		return []variant{{name: plan.VariantName(nil)}}
	}
	var all []variant
	for _, size := range search.Spec.FrameSizes {
		all = append(all, variant{plan.VariantName(&size), size})
	}
	return all
}

// longestName bounds the names of runs, which become values of labels.
const longestName = 63

// runName is the name of the run of a variant; of several repeats, with the number of the repeat, from 1.
func runName(search *spatev1.TrafficSearch, v variant, repeat, repeats int) string {
	name, suffix := search.Name, "-"+v.name
	if repeats > 1 {
		suffix += "-" + strconv.Itoa(repeat+1)
	}
	if most := longestName - len(suffix) - len(search.UID[:8]) - 1; len(name) > most {
		name = strings.TrimRight(name[:most], "-.") + "-" + string(search.UID[:8])
	}
	return name + suffix
}

// create creates the run of a variant.
func (r *Reconciler) create(ctx context.Context, search *spatev1.TrafficSearch, v variant, repeat, repeats int) (*spatev1.TrafficRun, error) {
	run := &spatev1.TrafficRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: search.Namespace, Name: runName(search, v, repeat, repeats)},
		Spec: spatev1.TrafficRunSpec{
			ProfileRef: search.Spec.ProfileRef.DeepCopy(), Search: search.Spec.SearchTests.DeepCopy(),
			Overrides: spatev1.RunOverrides{Size: v.size.Size, IMIX: v.size.IMIX},
		},
	}
	if err := controllerutil.SetControllerReference(search, run, r.Client.Scheme()); err != nil {
		return nil, err
	}
	err := r.Client.Create(ctx, run)
	if apierrors.IsAlreadyExists(err) { // the cache does not have it yet
		err = r.Client.Get(ctx, client.ObjectKeyFromObject(run), run)
	}
	return run, err
}

// longestMessage leaves room for the ellipsis in the 1024 characters of a message.
const longestMessage = 1021

// loadOf is the load of a run's current trial; empty without one.
func loadOf(run *spatev1.TrafficRun) string {
	if s := run.Status.Search; s != nil && s.Current != nil {
		return s.Current.Load
	}
	return ""
}

// progress is how far a search is: the repeat of the variant that is searched, and the variants done of all.
type progress struct {
	variant         string
	repeat, repeats int
	done, all       int
}

func (p progress) String() string { return fmt.Sprintf("%d/%d variants done", p.done, p.all) }

// of describes what is searched.
func (p progress) of() string {
	if p.repeats == 1 {
		return p.variant
	}
	return fmt.Sprintf("%s repeat %d/%d", p.variant, p.repeat+1, p.repeats)
}

// report sets the conditions of a search that has not ended.
func report(search *spatev1.TrafficSearch, run *spatev1.TrafficRun, now progress) {
	status := &search.Status
	status.Phase, status.Progress = spatev1.SearchPending, now.String()
	if now.repeat > 0 {
		status.Phase = spatev1.SearchSearching
	}
	reason, message := spatev1.ReasonProgressing, fmt.Sprintf("run %s is to start", run.Name)
	if ready := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		reason, message = ready.Reason, fmt.Sprintf("run %s: %s", run.Name, ready.Message)
	}
	if s := run.Status.Search; s != nil {
		status.Phase = spatev1.SearchSearching
		reason, message = spatev1.ReasonTransmitting, fmt.Sprintf("run %s: %d trials", run.Name, len(s.Trials))
		if s.Current != nil {
			status.Progress = fmt.Sprintf("%s: trial %d (%s), %s", now.of(), s.Current.Number, s.Current.Test, now)
			if s.Current.ResetDevice {
				status.Progress = fmt.Sprintf("%s: trial %d (%s): reset the device, %s", now.of(), s.Current.Number, s.Current.Test, now)
			}
		}
	}
	kstatus.Progressing(&status.Conditions, search.Generation, reason, message)
	kstatus.Set(&status.Conditions, spatev1.ConditionComplete, metav1.ConditionFalse, search.Generation, reason, "")
	kstatus.Set(&status.Conditions, spatev1.ConditionPassed, metav1.ConditionUnknown, search.Generation, spatev1.ReasonAwaitingResult, "the search has not ended")
}

// nameTaken reports that a run of another owner has the name of a variant's.
func nameTaken(search *spatev1.TrafficSearch, run *spatev1.TrafficRun) {
	message := fmt.Sprintf("TrafficRun %q exists and is not this search's: delete it, or create the search under another name", run.Name)
	search.Status.Phase = spatev1.SearchPending
	kstatus.Stalled(&search.Status.Conditions, search.Generation, spatev1.ReasonNameTaken, message)
}
