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
	"spate.dev/operator/internal/runs"
)

// Reconciler executes searches.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
}

// +kubebuilder:rbac:groups=spate.dev,resources=trafficsearches,verbs=get;list;watch;delete
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
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if search.Status.Phase == spatev1.SearchComplete {
		return r.expire(ctx, search)
	}
	before := search.DeepCopy()
	search.Status.ObservedGeneration = search.Generation
	err := r.advance(ctx, search)
	if patchErr := kstatus.Patch(ctx, r.Client, search, before); patchErr != nil {
		return kstatus.Next(0, patchErr)
	}
	if search.Status.Phase == spatev1.SearchComplete {
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
	all := variantsOf(search)
	search.Status.Variants = nil
	for i, variant := range all {
		run := &spatev1.TrafficRun{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: search.Namespace, Name: runName(search, variant.name)}, run)
		switch {
		case apierrors.IsNotFound(err) && search.Spec.Stop:
			conclude(search, len(all))
			return nil
		case apierrors.IsNotFound(err):
			run, err = r.create(ctx, search, variant)
		case err == nil && !metav1.IsControlledBy(run, search):
			nameTaken(search, run)
			return nil
		}
		if err != nil {
			return err
		}
		search.Status.Variants = append(search.Status.Variants, found(variant.name, run))
		if !runs.Active(run) {
			continue
		}
		report(search, run, variant.name, i, len(all))
		if search.Spec.Stop && !run.Spec.Stop {
			stopped := run.DeepCopy()
			stopped.Spec.Stop = true
			return client.IgnoreNotFound(r.Client.Update(ctx, stopped))
		}
		return nil
	}
	conclude(search, len(all))
	return nil
}

// variant is a size of packets to search with.
type variant struct {
	name string
	size spatev1.FrameSize
}

func variantsOf(search *spatev1.TrafficSearch) []variant {
	if len(search.Spec.FrameSizes) == 0 {
		return []variant{{name: "all"}}
	}
	var all []variant
	for _, size := range search.Spec.FrameSizes {
		name := "imix-" + strings.ToLower(string(size.IMIX))
		if size.Size != nil {
			name = strconv.Itoa(int(*size.Size))
		}
		all = append(all, variant{name, size})
	}
	return all
}

// longestName bounds the names of runs, which become values of labels.
const longestName = 63

func runName(search *spatev1.TrafficSearch, variant string) string {
	name := search.Name
	if most := longestName - len(variant) - 1 - len(search.UID[:8]) - 1; len(name) > most {
		name = strings.TrimRight(name[:most], "-.") + "-" + string(search.UID[:8])
	}
	return name + "-" + variant
}

// create creates the run of a variant.
func (r *Reconciler) create(ctx context.Context, search *spatev1.TrafficSearch, v variant) (*spatev1.TrafficRun, error) {
	run := &spatev1.TrafficRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: search.Namespace, Name: runName(search, v.name)},
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

// found is what a run has found.
func found(name string, run *spatev1.TrafficRun) spatev1.SearchVariant {
	v := spatev1.SearchVariant{Name: name, Run: run.Name, Phase: run.Status.Phase}
	if s := run.Status.Search; s != nil {
		v.MaxLoad, v.Trials, v.Spent, v.Result = s.MaxLoad, int32(len(s.Trials)), s.Spent, s.Result
	}
	if verdict := run.Status.Verdict; verdict != nil {
		v.Outcome = verdict.Outcome
	}
	if passed := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionPassed); passed != nil {
		v.Message = kstatus.Shortened(passed.Message, longestMessage)
	}
	return v
}

// longestMessage leaves room for the ellipsis in the 1024 characters of a message.
const longestMessage = 1021

// report sets the conditions of a search that has not ended.
func report(search *spatev1.TrafficSearch, run *spatev1.TrafficRun, variant string, done, all int) {
	status := &search.Status
	status.Phase, status.Progress = spatev1.SearchPending, fmt.Sprintf("%d/%d variants done", done, all)
	reason, message := spatev1.ReasonProgressing, fmt.Sprintf("run %s is to start", run.Name)
	if ready := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		reason, message = ready.Reason, fmt.Sprintf("run %s: %s", run.Name, ready.Message)
	}
	if s := run.Status.Search; s != nil {
		status.Phase = spatev1.SearchSearching
		reason, message = spatev1.ReasonTransmitting, fmt.Sprintf("run %s: %d trials", run.Name, len(s.Trials))
		if s.Current != nil {
			status.Progress = fmt.Sprintf("%s: trial %d (%s), %d/%d variants done", variant, s.Current.Number, s.Current.Test, done, all)
		}
	}
	kstatus.Progressing(&status.Conditions, search.Generation, reason, message)
	kstatus.Set(&status.Conditions, spatev1.ConditionComplete, metav1.ConditionFalse, search.Generation, reason, "")
	kstatus.Set(&status.Conditions, spatev1.ConditionPassed, metav1.ConditionUnknown, search.Generation, spatev1.ReasonAwaitingResult, "the search has not ended")
}

// conclude ends a search with the worst outcome of its variants.
func conclude(search *spatev1.TrafficSearch, all int) {
	status := &search.Status
	at := metav1.Now()
	status.Phase, status.CompletionTime, status.Progress = spatev1.SearchComplete, &at, fmt.Sprintf("%d/%d variants done", len(status.Variants), all)
	status.Outcome = spatev1.VerdictPassed
	complete, reason := spatev1.ReasonFinished, spatev1.ReasonSearchRegular
	var messages []string
	for _, v := range status.Variants {
		messages = append(messages, v.Name+": "+v.Message)
		switch {
		case v.Outcome == spatev1.VerdictInvalid:
			status.Outcome, reason = spatev1.VerdictInvalid, spatev1.ReasonSearchInvalid
		case v.Outcome == spatev1.VerdictFailed && status.Outcome == spatev1.VerdictPassed:
			status.Outcome, reason = spatev1.VerdictFailed, spatev1.ReasonSearchIrregular
		}
	}
	if search.Spec.Stop && len(status.Variants) < all {
		status.Outcome, reason, complete = spatev1.VerdictInvalid, spatev1.ReasonIncomplete, spatev1.ReasonStopped
		messages = append(messages, fmt.Sprintf("spec.stop is true: %d variants were not begun", all-len(status.Variants)))
	}
	passed := map[spatev1.VerdictOutcome]metav1.ConditionStatus{spatev1.VerdictPassed: metav1.ConditionTrue, spatev1.VerdictFailed: metav1.ConditionFalse}[status.Outcome]
	if passed == "" {
		passed = metav1.ConditionUnknown
	}
	message := kstatus.Shortened(strings.Join(messages, "; "), longestMessage)
	kstatus.Set(&status.Conditions, spatev1.ConditionPassed, passed, search.Generation, reason, message)
	kstatus.Set(&status.Conditions, spatev1.ConditionComplete, metav1.ConditionTrue, search.Generation, complete, "")
	kstatus.Ready(&status.Conditions, search.Generation, complete, "the search has ended")
}

// nameTaken reports that a run of somebody else has the name of a variant's.
func nameTaken(search *spatev1.TrafficSearch, run *spatev1.TrafficRun) {
	message := fmt.Sprintf("TrafficRun %q exists and is not this search's: delete it, or create the search under another name", run.Name)
	search.Status.Phase = spatev1.SearchPending
	kstatus.Stalled(&search.Status.Conditions, search.Generation, spatev1.ReasonNameTaken, message)
}
