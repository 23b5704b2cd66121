// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: which runs are started, and how?

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/progress"
	"spate.dev/operator/internal/runs"
)

// fieldManager is the plugin's name in the managed fields of what it applies.
const fieldManager = "kubectl-spate"

// session is one command's access to the cluster.
type session struct {
	client    kube.Client
	namespace string // of objects that name none
	set       spatev1.RunOverrides
	baseline  kube.ObjectKey // of the run that runs are compared with; without a name if with none
	force     bool
	screen    *screen
}

// subject is a run that is wanted.
type subject struct {
	// profile is the TrafficProfile that is run; without a name for a TrafficRun of the files.
	profile kube.ObjectKey
	// started is the number of the last run that the profile had started before it was applied. It is awaited that it starts another.
	started int64
	// run is nil until there is one.
	run *spatev1.TrafficRun
	// waits is what a profile without a run waits for.
	waits string
	// err is why no run could be started or followed, with its exit code.
	err error
	// absent is since when the API server has not answered; zero if it has.
	absent time.Time
	// endless is true when it was said that the run has no duration.
	endless bool
}

// name of the subject for people.
func (s *subject) name() string {
	if s.run != nil {
		return "run " + s.run.Name
	}
	return "profile " + s.profile.Name
}

func isKind(object *unstructured.Unstructured, kind string) bool {
	gvk := object.GroupVersionKind()
	return gvk.Group == spatev1.GroupVersion.Group && gvk.Kind == kind
}

// canRun reports whether a TrafficRun is among the objects, or a TrafficProfile whose runs no TrafficSearch among them creates.
func canRun(objects []*unstructured.Unstructured) bool {
	searched := profilesOf(objects, "", "TrafficSearch")
	for _, object := range objects {
		if isKind(object, "TrafficProfile") && !searched[kube.ObjectKeyFromObject(object)] || isKind(object, "TrafficRun") {
			return true
		}
	}
	return false
}

// profilesOf are the profiles that objects of the kinds name. Those that have no namespace are in the given one.
func profilesOf(objects []*unstructured.Unstructured, namespace string, kinds ...string) map[kube.ObjectKey]bool {
	all := map[kube.ObjectKey]bool{}
	for _, object := range objects {
		if slices.ContainsFunc(kinds, func(kind string) bool { return isKind(object, kind) }) {
			name, _, _ := unstructured.NestedString(object.Object, "spec", "profileRef", "name")
			all[kube.ObjectKey{Namespace: cmp.Or(object.GetNamespace(), namespace), Name: name}] = true
		}
	}
	return all
}

// start applies the objects, and starts a run of each profile that is named or among them. Subjects may still have no run: profiles that start it by
// themselves.
func (s *session) start(ctx context.Context, objects []*unstructured.Unstructured, names []string) (all []*subject, err error) {
	var toCreate []*subject
	for _, name := range names {
		profile := &spatev1.TrafficProfile{}
		key := kube.ObjectKey{Namespace: s.namespace, Name: name}
		if err := s.client.Get(ctx, key, profile); apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("there is no TrafficProfile %q in namespace %s; a file is named with -f", name, s.namespace)
		} else if err != nil {
			return nil, err
		}
		sub := &subject{profile: key}
		all, toCreate = append(all, sub), append(toCreate, sub)
	}
	executed := profilesOf(objects, s.namespace, "TrafficRun", "TrafficSearch") // a search creates the runs of its profile
	for _, object := range objects {
		sub, create, err := s.apply(ctx, object, executed)
		if err != nil {
			return all, coded(fmt.Errorf("%s %s: %w", object.GetKind(), cmp.Or(object.GetName(), object.GetGenerateName()), err))
		}
		if sub != nil {
			all = append(all, sub)
		}
		if create {
			toCreate = append(toCreate, sub)
		}
	}
	for i, sub := range toCreate {
		overrides := spatev1.RunOverrides{} // profiles of files have them already
		if i < len(names) {
			overrides = s.set
		}
		if err := s.create(ctx, sub, overrides); err != nil {
			return all, coded(fmt.Errorf("%s: %w", sub.name(), err))
		}
	}
	return all, nil
}

// coded gives an error of the API server its exit code: Invalid for an object that it does not accept as it is.
func coded(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return exit.With(exit.Invalid, err)
	}
	return exit.With(exit.NotRun, err)
}

// apply applies one object. It returns a subject for a profile or a run that is to be followed; create is true if a TrafficRun of the profile must be
// created when all objects are there.
func (s *session) apply(ctx context.Context, object *unstructured.Unstructured, executed map[kube.ObjectKey]bool) (sub *subject, create bool, err error) {
	namespaced, err := s.client.IsObjectNamespaced(object)
	if err != nil {
		return nil, false, err
	}
	if namespaced && object.GetNamespace() == "" {
		object.SetNamespace(s.namespace)
	}
	object.SetManagedFields(nil) // which an object has that was read from a cluster
	switch {
	case isKind(object, "TrafficProfile"):
		return s.applyProfile(ctx, object, executed)
	case isKind(object, "TrafficRun"):
		sub, err = s.applyRun(ctx, object)
		return sub, false, err
	}
	return nil, false, s.write(ctx, object)
}

// write applies an object on the server's side.
func (s *session) write(ctx context.Context, object *unstructured.Unstructured) error {
	options := []kube.ApplyOption{kube.FieldOwner(fieldManager)}
	if s.force {
		options = append(options, kube.ForceOwnership)
	}
	err := s.client.Apply(ctx, kube.ApplyConfigurationFromUnstructured(object), options...)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w; --force-conflicts takes the fields over", err)
	}
	if err == nil {
		s.screen.note("%s/%s applied", strings.ToLower(object.GetKind()), object.GetName())
	}
	return err
}

func (s *session) applyProfile(ctx context.Context, object *unstructured.Unstructured, executed map[kube.ObjectKey]bool) (sub *subject, create bool, err error) {
	if err := setIn(object, s.set, "spec"); err != nil {
		return nil, false, err
	}
	key := kube.ObjectKeyFromObject(object)
	before, after := &spatev1.TrafficProfile{}, &spatev1.TrafficProfile{}
	if err := s.client.Get(ctx, key, before); kube.IgnoreNotFound(err) != nil {
		return nil, false, err
	}
	if err := s.write(ctx, object); err != nil {
		return nil, false, err
	}
	if err := s.client.Get(ctx, key, after); err != nil {
		return nil, false, err
	}
	last, starts := startsItself(before, after)
	if !starts && executed[key] {
		return nil, false, nil
	}
	return &subject{profile: key, started: last}, !starts, nil
}

// startsItself reports whether a profile starts a run because it was applied, and the number of the last run that it had started before. That is decided
// by the operator, and by the same rules: it may still find that the traffic of a changed profile is what it was.
func startsItself(before, after *spatev1.TrafficProfile) (last int64, starts bool) {
	trigger := &spatev1.RunTrigger{Generation: -1}
	if before.UID == after.UID && before.Status.LastTrigger != nil {
		trigger = before.Status.LastTrigger
	}
	switch {
	case after.Spec.Suspend:
	case after.Spec.RunPolicy == spatev1.RunOnChange:
		starts = trigger.Generation < after.Generation
	default:
		starts = after.Spec.RunID != "" && after.Spec.RunID != trigger.RunID
	}
	return trigger.Number, starts
}

// applyRun creates a TrafficRun of the files. One that has ended is not repeated.
func (s *session) applyRun(ctx context.Context, object *unstructured.Unstructured) (*subject, error) {
	if err := errors.Join(setIn(object, s.set, "spec", "overrides"), s.setBaseline(object)); err != nil {
		return nil, err
	}
	if object.GetName() == "" {
		strict := kube.WithFieldValidation(s.client, metav1.FieldValidationStrict)
		if err := strict.Create(ctx, object, kube.FieldOwner(fieldManager)); err != nil {
			return nil, err
		}
		s.screen.note("trafficrun/%s created", object.GetName())
	} else {
		there := &spatev1.TrafficRun{}
		if err := s.client.Get(ctx, kube.ObjectKeyFromObject(object), there); kube.IgnoreNotFound(err) != nil {
			return nil, err
		} else if err == nil && !runs.Active(there) {
			return nil, errors.New("has ended before, and a TrafficRun is executed once; use generateName instead of name, or delete it")
		}
		if err := s.write(ctx, object); err != nil {
			return nil, err
		}
	}
	run := &spatev1.TrafficRun{}
	return &subject{run: run}, s.client.Get(ctx, kube.ObjectKeyFromObject(object), run)
}

// create creates a TrafficRun of a profile. It is kept as long as the runs that the profile starts.
func (s *session) create(ctx context.Context, sub *subject, overrides spatev1.RunOverrides) error {
	profile := &spatev1.TrafficProfile{}
	if err := s.client.Get(ctx, sub.profile, profile); err != nil {
		return err
	}
	baseline, err := s.baselineFor(sub.profile.Namespace)
	if err != nil {
		return err
	}
	run := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: sub.profile.Namespace, GenerateName: sub.profile.Name + "-"}}
	run.Spec.ProfileRef = &spatev1.LocalReference{Name: spatev1.ObjectName(sub.profile.Name)}
	run.Spec.BaselineRef = baseline
	run.Spec.Overrides, run.Spec.TTLSecondsAfterFinished = overrides, profile.Spec.TTLSecondsAfterFinished
	if err := s.client.Create(ctx, run, kube.FieldOwner(fieldManager)); err != nil {
		return err
	}
	s.screen.note("trafficrun/%s created", run.Name)
	sub.run = run
	return nil
}

// find looks for the run that a profile starts by itself. If it starts none, since its traffic is what it was, one is created.
func (s *session) find(ctx context.Context, sub *subject) error {
	profile := &spatev1.TrafficProfile{}
	if err := s.client.Get(ctx, sub.profile, profile); err != nil {
		return err
	}
	last := profile.Status.LastTrigger
	ready := meta.FindStatusCondition(profile.Status.Conditions, spatev1.ConditionReady)
	current := ready != nil && ready.ObservedGeneration == profile.Generation
	switch {
	case last != nil && last.Number > sub.started:
		return s.adopt(ctx, sub, profile, last.Number)
	case last != nil && last.Generation >= profile.Generation:
		return s.create(ctx, sub, spatev1.RunOverrides{})
	case current && meta.IsStatusConditionTrue(profile.Status.Conditions, spatev1.ConditionStalled):
		return exit.With(codeOf(ready.Reason), fmt.Errorf("%s: %s", ready.Reason, ready.Message))
	case current:
		if reason, message := progress.Waiting(profile.Status.Conditions); reason != "" {
			sub.waits = strings.TrimSuffix(reason+": "+message, ": ")
		}
	}
	return nil
}

// adopt makes a run that the profile has started the subject's.
func (s *session) adopt(ctx context.Context, sub *subject, profile *spatev1.TrafficProfile, number int64) error {
	var list spatev1.TrafficRunList
	if err := s.client.List(ctx, &list, kube.InNamespace(profile.Namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		if run := &list.Items[i]; runs.StartedBy(run, profile) && int64(runs.Number(run.Name)) == number {
			sub.run = run
			return nil
		}
	}
	return exit.With(exit.NotRun, fmt.Errorf("its run number %d was deleted", number))
}
