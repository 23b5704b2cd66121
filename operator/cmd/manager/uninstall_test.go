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
	if err := i.tryUninstall(t, args...); err != nil {
		t.Fatal(err)
	}
}

func (i *installation) tryUninstall(t *testing.T, args ...string) error {
	t.Helper()
	u, err := parseUninstall(append([]string{"--namespace=system"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	u.Client, u.interval, u.out = i.Client, time.Millisecond, &i.out
	return u.run(t.Context())
}

// runsWith gives the operator's Deployment arguments.
func (i *installation) runsWith(t *testing.T, args ...string) {
	t.Helper()
	deployment := has(t, i, "system", "spate-operator", &appsv1.Deployment{})
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "operator", Args: args}, {Name: "proxy", Args: []string{"--verbose"}}}
	if err := i.Update(t.Context(), deployment); err != nil {
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

func TestAnUninstallLeavesNamespacesThatTheOperatorDoesNotWatch(t *testing.T) {
	for _, args := range [][]string{
		{"--engine-image=engine", "--watch-namespaces=lab", "--log-level=debug"},
		{"-watch-namespaces", "lab", "--flag-of-another-version"},
		{"--watch-namespaces=other", "--watch-namespaces=lab"}, // the last value counts
	} {
		i := newInstallation(t)
		i.runsWith(t, args...)
		i.uninstall(t)
		if run := has(t, i, "other", "active", &spatev1.TrafficRun{}); run.Spec.Stop || len(run.Finalizers) == 0 {
			t.Errorf("%q: stop %v, finalizers %q", args, run.Spec.Stop, run.Finalizers)
		}
		if g := has(t, i, "lab", "generator", &spatev1.TrafficGenerator{}); len(g.Finalizers) > 0 {
			t.Errorf("%q: the generator has %q", args, g.Finalizers)
		}
		if left := i.pods(t); !slices.Equal(left, []string{"lab/another", "other/engine"}) {
			t.Errorf("%q: pods that are left: %q", args, left)
		}
	}
}

// For instance after an installation that failed, beside other operators.
func TestAnUninstallWithoutTheDeploymentOfItsOperatorDoesNothing(t *testing.T) {
	i := newInstallation(t)
	i.uninstall(t, "--deployment=another-operator")
	if run := has(t, i, "lab", "active", &spatev1.TrafficRun{}); run.Spec.Stop || len(run.Finalizers) == 0 {
		t.Errorf("stop %v, finalizers %q", run.Spec.Stop, run.Finalizers)
	}
	if left := i.pods(t); len(left) != 4 {
		t.Errorf("pods that are left: %q", left)
	}
	if want := "Deployment system/another-operator does not exist: nothing is done. "; !strings.HasPrefix(i.out.String(), want) || len(i.scaled) > 0 {
		t.Errorf("scaled: %q, printed:\n%swant: %s", i.scaled, i.out.String(), want)
	}
}

func TestAnUninstallThatCannotKnowTheNamespacesOfItsOperatorIsAnErrorAndDoesNothing(t *testing.T) {
	for want, prepare := range map[string]func(*testing.T, *installation){
		`arguments of Deployment system/spate-operator: --watch-namespaces: "Lab" is not a name`: func(t *testing.T, i *installation) { i.runsWith(t, "--watch-namespaces=Lab") },
		"give the job the right to get that Deployment":                                          func(_ *testing.T, i *installation) { i.mustNotGetTheDeployment(time.Now().Add(time.Hour)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			i := newInstallation(t)
			prepare(t, i)
			if err := i.tryUninstall(t); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
			if left := i.pods(t); len(left) != 4 || len(i.scaled) > 0 {
				t.Errorf("pods that are left: %q; scaled: %q", left, i.scaled)
			}
		})
	}
}

// mustNotGetTheDeployment makes that forbidden until a time.
func (i *installation) mustNotGetTheDeployment(until time.Time) {
	i.Client = interceptor.NewClient(i.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, ok := object.(*appsv1.Deployment); ok && time.Now().Before(until) {
				return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, key.Name, nil)
			}
			return c.Get(ctx, key, object, options...)
		},
	})
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
		i.runsWith(t, "--watch-namespaces=gone,lab")
		i.mustNotList("gone", time.Now().Add(time.Hour))
		i.uninstall(t)
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
		i.runsWith(t, "--watch-namespaces=gone")
		i.mustNotList("gone", time.Now().Add(time.Hour))
		i.uninstall(t)
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
		i.runsWith(t, "--watch-namespaces=lab")
		i.mustNotGetTheDeployment(time.Now().Add(rightsLimit / 2))
		i.mustNotList("lab", time.Now().Add(rightsLimit))
		i.uninstall(t)
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
		"--timeout=-1s": "--timeout", "now": `unexpected argument "now"`, "--force": "force",
	} {
		if _, err := parseUninstall([]string{args}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
