// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: how is the operator removed, so that nothing sends any more, results are kept, and every object can be deleted without it?

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/generator"
	"spate.dev/operator/internal/controller/profile"
	runcontroller "spate.dev/operator/internal/controller/run"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/runs"
)

const (
	// rightsLimit bounds how long it may take until roles that are created with the job are in effect.
	rightsLimit = 10 * time.Second
	// podLimit bounds how long the operator's pods and engine pods may take to end, and finalizers to be removed.
	podLimit = time.Minute
	// pageSize is how many objects are read at once: a run's status may have hundreds of KB.
	pageSize = 50
)

// uninstaller prepares the removal of an operator. Each step is bounded, and may be repeated.
type uninstaller struct {
	client.Client
	namespaces []string         // of the objects: those that the operator watches, or metav1.NamespaceAll
	operator   client.ObjectKey // its Deployment
	limit      time.Duration    // for runs to end
	interval   time.Duration    // between two looks
	out        io.Writer
}

// uninstall executes the command of that name.
func uninstall(ctx context.Context, args []string) error {
	u, err := parseUninstall(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctrl.SetLogger(logr.Discard()) // it prints what it does
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	if u.Client, err = client.New(config, client.Options{Scheme: newScheme()}); err != nil {
		return err
	}
	return u.run(ctx)
}

func parseUninstall(args []string) (*uninstaller, error) {
	u := &uninstaller{interval: time.Second, out: os.Stdout}
	f := flag.NewFlagSet("spate-operator uninstall", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprint(f.Output(), `Prepares the removal of the operator: ends runs and searches, stops the operator, deletes engine pods, and removes the operator's finalizers, so
that all objects can be deleted without it. Profiles, generators and runs with their results are kept. It acts on the namespaces that the operator watches, by
--watch-namespaces of its Deployment. Without that Deployment it does nothing.

  spate-operator uninstall --namespace=spate-system --deployment=spate-operator --timeout=60s

`)
		f.PrintDefaults()
	}
	f.StringVar(&u.operator.Namespace, "namespace", env("POD_NAMESPACE", "spate-system"), "the operator's namespace (env POD_NAMESPACE)")
	f.StringVar(&u.operator.Name, "deployment", "spate-operator", "the operator's Deployment, which has the watched namespaces among its arguments, and is scaled to 0")
	f.DurationVar(&u.limit, "timeout", time.Minute, "time for runs and searches to end; those that are active then end with their engine pods, without results")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if u.limit < 0 {
		return nil, fmt.Errorf("--timeout %s: must not be negative", u.limit)
	}
	return u, nil
}

func (u *uninstaller) run(ctx context.Context) error {
	if there, err := u.watched(ctx); err != nil || !there {
		return err
	}
	if err := u.omit(ctx); err != nil {
		return err
	}
	refused := map[types.UID]bool{}
	for _, step := range []struct {
		what  string
		limit time.Duration
		look  func(context.Context) ([]string, error)
	}{
		{"active runs and searches", u.limit, func(ctx context.Context) ([]string, error) { return u.stop(ctx, refused) }},
		{"pods of the operator", podLimit, u.stopOperator},
		{"engine pods", podLimit, u.deleteEngines},
		{"objects with a finalizer of the operator", podLimit, u.release},
	} {
		left, err := u.until(ctx, step.limit, step.look)
		if err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		if len(left) > 0 {
			fmt.Fprintf(u.out, "%d %s are left after %s: %s\n", len(left), step.what, step.limit, strings.Join(left, ", "))
		} else {
			fmt.Fprintf(u.out, "no %s are left\n", step.what)
		}
	}
	return nil
}

// watched takes over the namespaces of the operator's Deployment: objects in others may be those of other operators. It reports whether there is the
// Deployment. Without it, as after an installation that failed, no operator has done anything, or nothing shows where.
func (u *uninstaller) watched(ctx context.Context) (there bool, err error) {
	var deployment appsv1.Deployment
	var refused error
	_, err = u.until(ctx, rightsLimit, func(ctx context.Context) ([]string, error) {
		err := u.Get(ctx, u.operator, &deployment)
		if refused = nil; apierrors.IsForbidden(err) {
			refused = err
			return []string{u.operator.Name}, nil
		}
		return nil, err
	})
	switch {
	case apierrors.IsNotFound(err):
		fmt.Fprintf(u.out, "Deployment %s does not exist: nothing is done. If its operator was removed before, install it again, or remove the finalizers of its objects, as docs/install.md describes in Remove\n", u.operator)
		return false, nil
	case refused != nil:
		return false, fmt.Errorf("the namespaces that the operator watches are not known: %w; give the job the right to get that Deployment (config/uninstall/roles.yaml)", refused)
	case err != nil:
		return false, fmt.Errorf("get Deployment %s: %w", u.operator, err)
	}
	u.namespaces = []string{metav1.NamespaceAll}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if list := watchList(slices.Concat(container.Command, container.Args)); list != "" {
			if u.namespaces, err = namespaces("watch-namespaces", list); err != nil {
				return false, fmt.Errorf("arguments of Deployment %s: %w", u.operator, err)
			}
		}
	}
	return true, nil
}

// watchList returns the value of --watch-namespaces among the arguments of an operator, of this or another version. As for package flag, a name has one or
// two dashes, a value is in the same argument or the next, and the last value counts.
func watchList(args []string) (list string) {
	for i, arg := range args {
		name, value, same := strings.Cut(arg, "=")
		switch {
		case name != "-watch-namespaces" && name != "--watch-namespaces":
		case same:
			list = value
		case i+1 < len(args):
			list = args[i+1]
		}
	}
	return list
}

// omit takes the namespaces out of the list that must not be read. Nothing can be done in them, and they must not prevent the removal.
func (u *uninstaller) omit(ctx context.Context) error {
	omitted, err := u.until(ctx, rightsLimit, u.forbidden)
	if err != nil {
		return err
	}
	for _, namespace := range omitted {
		fmt.Fprintf(u.out, "namespace %s is omitted: it does not exist, or has no Role of this job; objects in it keep the operator's finalizers\n", namespace)
	}
	u.namespaces = slices.DeleteFunc(u.namespaces, func(namespace string) bool { return slices.Contains(omitted, namespace) })
	return nil
}

// forbidden returns the namespaces that must not be read: as a rule since they do not exist, and the roles in them do not either.
func (u *uninstaller) forbidden(ctx context.Context) (names []string, err error) {
	for _, namespace := range u.namespaces {
		var pods metav1.PartialObjectMetadataList
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		err := u.List(ctx, &pods, client.InNamespace(namespace), client.Limit(1))
		if apierrors.IsForbidden(err) && namespace != metav1.NamespaceAll {
			names = append(names, namespace)
		} else if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// until looks until nothing is left, at most until the limit, and returns what is left.
func (u *uninstaller) until(ctx context.Context, limit time.Duration, look func(context.Context) ([]string, error)) (left []string, err error) {
	for end := time.Now().Add(limit); ; {
		if left, err = look(ctx); err != nil || len(left) == 0 || !time.Now().Before(end) {
			return left, err
		}
		select {
		case <-ctx.Done():
			return left, ctx.Err()
		case <-time.After(u.interval):
		}
	}
}

// stop asks active runs and searches to end, and returns those that have not. Searches are first: each run that ends lets them start another.
// A refusal is reported once: an admission policy may want rights of who changes a run.
func (u *uninstaller) stop(ctx context.Context, refused map[types.UID]bool) (active []string, err error) {
	end := func(kind string, object client.Object, ask func()) error {
		active = append(active, fmt.Sprintf("%s %s/%s", kind, object.GetNamespace(), object.GetName()))
		if ask == nil || refused[object.GetUID()] {
			return nil
		}
		before := object.DeepCopyObject().(client.Object)
		ask()
		err := client.IgnoreNotFound(u.Patch(ctx, object, client.MergeFrom(before)))
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			refused[object.GetUID()] = true
			fmt.Fprintf(u.out, "%s %s/%s cannot be stopped: %v\n", kind, object.GetNamespace(), object.GetName(), err)
			return nil
		}
		return err
	}
	err = pages(ctx, u, func() *spatev1.TrafficSearchList { return &spatev1.TrafficSearchList{} }, func(list *spatev1.TrafficSearchList) error {
		for i := range list.Items {
			search := &list.Items[i]
			ask := func() { search.Spec.Stop = true }
			if search.Spec.Stop {
				ask = nil
			}
			if search.Status.Phase != spatev1.SearchComplete {
				if err := end("TrafficSearch", search, ask); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = pages(ctx, u, func() *spatev1.TrafficRunList { return &spatev1.TrafficRunList{} }, func(list *spatev1.TrafficRunList) error {
		for i := range list.Items {
			run := &list.Items[i]
			ask := func() { run.Spec.Stop = true }
			if run.Spec.Stop {
				ask = nil
			}
			if runs.Active(run) {
				if err := end("TrafficRun", run, ask); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return active, err
}

// stopOperator scales the operator to 0, and returns its pods that still exist. While one runs, it puts finalizers back.
func (u *uninstaller) stopOperator(ctx context.Context) ([]string, error) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: u.operator.Namespace, Name: u.operator.Name}}
	err := u.SubResource("scale").Patch(ctx, deployment, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`)),
		client.WithSubResourceBody(&autoscalingv1.Scale{}))
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	var pods corev1.PodList
	if err := u.List(ctx, &pods, client.InNamespace(u.operator.Namespace), client.MatchingLabels{podspec.LabelName: podspec.OperatorName}); err != nil {
		return nil, err
	}
	return podNames(pods.Items), nil
}

// deleteEngines deletes the engine pods, and returns those that still exist.
func (u *uninstaller) deleteEngines(ctx context.Context) (left []string, err error) {
	for _, namespace := range u.namespaces {
		var pods corev1.PodList
		if err := u.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{
			podspec.LabelName: podspec.EngineName, podspec.LabelManagedBy: podspec.ManagedBy,
		}); err != nil {
			return nil, err
		}
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp == nil {
				if err := u.Delete(ctx, &pods.Items[i]); client.IgnoreNotFound(err) != nil {
					return nil, err
				}
			}
		}
		left = append(left, podNames(pods.Items)...)
	}
	return left, nil
}

func podNames(pods []corev1.Pod) (names []string) {
	for i := range pods {
		names = append(names, pods[i].Namespace+"/"+pods[i].Name)
	}
	return names
}

// release removes the operator's finalizers, and returns the objects that changed meanwhile and still have theirs.
func (u *uninstaller) release(ctx context.Context) (left []string, err error) {
	for _, held := range []struct{ kind, finalizer string }{
		{"TrafficRun", runcontroller.Finalizer}, {"TrafficProfile", profile.Finalizer}, {"TrafficGenerator", generator.Finalizer},
	} {
		kind := spatev1.GroupVersion.WithKind(held.kind)
		fresh := func() *metav1.PartialObjectMetadataList {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(spatev1.GroupVersion.WithKind(held.kind + "List"))
			return list
		}
		if err := pages(ctx, u, fresh, func(list *metav1.PartialObjectMetadataList) error {
			for i := range list.Items {
				object := &list.Items[i]
				object.SetGroupVersionKind(kind)
				before := object.DeepCopy()
				if !controllerutil.RemoveFinalizer(object, held.finalizer) {
					continue
				}
				err := u.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
				if apierrors.IsConflict(err) {
					left = append(left, fmt.Sprintf("%s %s/%s", held.kind, object.Namespace, object.Name))
				} else if client.IgnoreNotFound(err) != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// pages calls each for every page of the lists of the namespaces. Without the kind there are no objects.
func pages[L client.ObjectList](ctx context.Context, u *uninstaller, fresh func() L, each func(L) error) error {
	for _, namespace := range u.namespaces {
		for next := ""; ; {
			list := fresh()
			err := u.List(ctx, list, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next))
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				break
			}
			if err == nil {
				err = each(list)
			}
			if err != nil {
				return err
			}
			if next = list.GetContinue(); next == "" {
				break
			}
		}
	}
	return nil
}
