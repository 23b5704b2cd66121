// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/generator"
	"spate.dev/operator/internal/controller/profile"
	runcontroller "spate.dev/operator/internal/controller/run"
	"spate.dev/operator/internal/podspec"
)

const others = "other/finalizer"

func named(namespace, name string, finalizers ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), Finalizers: finalizers}
}

func pod(namespace, name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

func runIn(namespace, name string, phase spatev1.RunPhase) *spatev1.TrafficRun {
	return &spatev1.TrafficRun{ObjectMeta: named(namespace, name, runcontroller.Finalizer), Status: spatev1.TrafficRunStatus{Phase: phase}}
}

// installation is a cluster with an operator and objects of two namespaces. Its operator ends runs and searches that are to stop, except those
// named stuck, and its pod ends when it is scaled to 0.
type installation struct {
	client.Client
	scaled []string // what was patched at the subresource
	out    bytes.Buffer
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	engine := map[string]string{podspec.LabelName: podspec.EngineName, podspec.LabelManagedBy: podspec.ManagedBy}
	i := &installation{}
	i.Client = fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(
		runIn("lab", "active", spatev1.RunRunning), runIn("lab", "ended", spatev1.RunComplete), runIn("other", "active", spatev1.RunRunning),
		&spatev1.TrafficSearch{ObjectMeta: named("lab", "search"), Status: spatev1.TrafficSearchStatus{Phase: spatev1.SearchSearching}},
		&spatev1.TrafficProfile{ObjectMeta: named("lab", "profile", profile.Finalizer, others)},
		&spatev1.TrafficGenerator{ObjectMeta: named("lab", "generator", generator.Finalizer)},
		&spatev1.TrafficGenerator{ObjectMeta: named("other", "generator", generator.Finalizer)},
		&appsv1.Deployment{ObjectMeta: named("system", "spate-operator")},
		pod("system", "operator", map[string]string{podspec.LabelName: podspec.OperatorName}),
		pod("lab", "engine", engine), pod("other", "engine", engine), pod("lab", "another", map[string]string{podspec.LabelName: podspec.EngineName}),
	).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := c.Patch(ctx, object, patch, options...); err != nil {
				return err
			}
			switch object := object.(type) {
			case *spatev1.TrafficRun:
				if object.Spec.Stop && object.Name != "stuck" {
					object.Status.Phase = spatev1.RunComplete
					return c.Update(ctx, object)
				}
			case *spatev1.TrafficSearch:
				object.Status.Phase = spatev1.SearchComplete
				return c.Update(ctx, object)
			}
			return nil
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, resource string, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
			data, err := patch.Data(object)
			if err != nil {
				return err
			}
			i.scaled = append(i.scaled, resource+" of "+object.GetNamespace()+"/"+object.GetName()+" "+string(data))
			return client.IgnoreNotFound(c.Delete(ctx, pod("system", "operator", nil)))
		},
	}).Build()
	return i
}

// uninstall runs the command with these arguments, without waiting long.
func (i *installation) uninstall(t *testing.T, args ...string) {
	t.Helper()
	u, err := parseUninstall(append([]string{"--namespace=system"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	u.Client, u.interval, u.out = i.Client, time.Millisecond, &i.out
	if err := u.run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// has gets an object, which must exist.
func has[T client.Object](t *testing.T, i *installation, namespace, name string, object T) T {
	t.Helper()
	if err := i.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		t.Fatal(err)
	}
	return object
}

func (i *installation) pods(t *testing.T) (names []string) {
	t.Helper()
	var pods corev1.PodList
	if err := i.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	names = podNames(pods.Items)
	slices.Sort(names)
	return names
}

func TestAnUninstallEndsRunsStopsTheOperatorAndKeepsObjectsWithoutItsFinalizers(t *testing.T) {
	i := newInstallation(t)
	i.uninstall(t)
	for _, run := range []*spatev1.TrafficRun{
		has(t, i, "lab", "active", &spatev1.TrafficRun{}), has(t, i, "lab", "ended", &spatev1.TrafficRun{}), has(t, i, "other", "active", &spatev1.TrafficRun{}),
	} {
		if run.Spec.Stop != (run.Name == "active") || run.Status.Phase != spatev1.RunComplete || len(run.Finalizers) > 0 {
			t.Errorf("%s/%s: stop %v, %s, finalizers %q", run.Namespace, run.Name, run.Spec.Stop, run.Status.Phase, run.Finalizers)
		}
	}
	if search := has(t, i, "lab", "search", &spatev1.TrafficSearch{}); !search.Spec.Stop {
		t.Error("the search goes on")
	}
	if p := has(t, i, "lab", "profile", &spatev1.TrafficProfile{}); !slices.Equal(p.Finalizers, []string{others}) {
		t.Errorf("the profile has %q", p.Finalizers)
	}
	for _, namespace := range []string{"lab", "other"} {
		if g := has(t, i, namespace, "generator", &spatev1.TrafficGenerator{}); len(g.Finalizers) > 0 {
			t.Errorf("the generator of %s has %q", namespace, g.Finalizers)
		}
	}
	if want := `scale of system/spate-operator {"spec":{"replicas":0}}`; len(i.scaled) == 0 || i.scaled[0] != want {
		t.Errorf("patched: %q, want %q", i.scaled, want)
	}
	if left := i.pods(t); !slices.Equal(left, []string{"lab/another"}) {
		t.Errorf("pods that are left: %q", left)
	}
}

func TestAnUninstallDoesNotWaitForeverForARun(t *testing.T) {
	i := newInstallation(t)
	if err := i.Create(t.Context(), runIn("lab", "stuck", spatev1.RunRunning)); err != nil {
		t.Fatal(err)
	}
	i.uninstall(t, "--timeout=200ms")
	if run := has(t, i, "lab", "stuck", &spatev1.TrafficRun{}); !run.Spec.Stop || len(run.Finalizers) > 0 {
		t.Errorf("stop %v, finalizers %q", run.Spec.Stop, run.Finalizers)
	}
	for _, want := range []string{"active runs and searches are left after 200ms: ", "TrafficRun lab/stuck", "no objects with a finalizer of the operator are left\n"} {
		if !strings.Contains(i.out.String(), want) {
			t.Errorf("printed:\n%swant: %s", i.out.String(), want)
		}
	}
}

func TestAnUninstallLeavesNamespacesThatAreNotWatched(t *testing.T) {
	i := newInstallation(t)
	i.uninstall(t, "--watch-namespaces=lab")
	if run := has(t, i, "other", "active", &spatev1.TrafficRun{}); run.Spec.Stop || len(run.Finalizers) == 0 {
		t.Errorf("stop %v, finalizers %q", run.Spec.Stop, run.Finalizers)
	}
	if g := has(t, i, "lab", "generator", &spatev1.TrafficGenerator{}); len(g.Finalizers) > 0 {
		t.Errorf("the generator has %q", g.Finalizers)
	}
	if left := i.pods(t); !slices.Equal(left, []string{"lab/another", "other/engine"}) {
		t.Errorf("pods that are left: %q", left)
	}
}

// mustNotList makes lists of a namespace forbidden until a time.
func (i *installation) mustNotList(namespace string, until time.Time) {
	i.Client = interceptor.NewClient(i.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			var o client.ListOptions
			if o.ApplyOptions(options); o.Namespace == namespace && time.Now().Before(until) {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
			}
			return c.List(ctx, list, options...)
		},
	})
}

func TestAnUninstallGoesOnWithoutANamespaceThatDoesNotExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstallation(t)
		i.mustNotList("gone", time.Now().Add(time.Hour))
		i.uninstall(t, "--watch-namespaces=gone,lab")
		if run := has(t, i, "lab", "active", &spatev1.TrafficRun{}); !run.Spec.Stop || len(run.Finalizers) > 0 {
			t.Errorf("stop %v, finalizers %q", run.Spec.Stop, run.Finalizers)
		}
		if left := i.pods(t); !slices.Equal(left, []string{"lab/another", "other/engine"}) {
			t.Errorf("pods that are left: %q", left)
		}
		if want := "namespace gone is omitted: "; !strings.HasPrefix(i.out.String(), want) {
			t.Errorf("printed:\n%swant: %s", i.out.String(), want)
		}
	})
}

func TestAnUninstallOfNamespacesThatDoNotExistLeavesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstallation(t)
		i.mustNotList("gone", time.Now().Add(time.Hour))
		i.uninstall(t, "--watch-namespaces=gone")
		if run := has(t, i, "lab", "active", &spatev1.TrafficRun{}); run.Spec.Stop || len(run.Finalizers) == 0 {
			t.Errorf("stop %v, finalizers %q", run.Spec.Stop, run.Finalizers)
		}
		if left := i.pods(t); !slices.Equal(left, []string{"lab/another", "lab/engine", "other/engine"}) {
			t.Errorf("pods that are left: %q", left)
		}
	})
}

func TestAnUninstallWaitsForRolesThatWereCreatedWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstallation(t)
		i.mustNotList("lab", time.Now().Add(rightsLimit/2))
		i.uninstall(t, "--watch-namespaces=lab")
		if run := has(t, i, "lab", "active", &spatev1.TrafficRun{}); !run.Spec.Stop || len(run.Finalizers) > 0 {
			t.Errorf("stop %v, finalizers %q", run.Spec.Stop, run.Finalizers)
		}
		if strings.Contains(i.out.String(), "omitted") {
			t.Error(i.out.String())
		}
	})
}

// A policy may refuse who may not read the Secrets that a run names.
func TestAnUninstallGoesOnWhereARunMustNotBeChanged(t *testing.T) {
	i := newInstallation(t)
	refusals := 0
	i.Client = interceptor.NewClient(i.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if run, ok := object.(*spatev1.TrafficRun); ok && run.Namespace == "lab" {
				refusals++
				return apierrors.NewForbidden(schema.GroupResource{Resource: "trafficruns"}, run.Name, nil)
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	i.uninstall(t, "--timeout=20ms")
	if refusals != 1 {
		t.Errorf("%d tries", refusals)
	}
	if run := has(t, i, "lab", "active", &spatev1.TrafficRun{}); run.Spec.Stop || len(run.Finalizers) > 0 {
		t.Errorf("stop %v, finalizers %q", run.Spec.Stop, run.Finalizers)
	}
}

func TestWrongArgumentsOfUninstallAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"--timeout=-1s": "--timeout", "--watch-namespaces=Lab": "--watch-namespaces", "now": `unexpected argument "now"`, "--force": "force",
	} {
		if _, err := parseUninstall([]string{args}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
