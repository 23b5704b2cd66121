// SPDX-License-Identifier: Apache-2.0

// Is what a generator owns as specified again after it was changed? The cases are those of operator/test (gitops_test.go) that take
// rights which the operator needs for nothing else: e2e/rbac compares its rights with its requests. By the file's name it starts early among those
// that run in parallel, which Go starts from the last to the first: it waits for longest.

package suites

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

func TestDriftOfWhatAGeneratorOwnsIsCorrected(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator)
	g := generatorNamed(ns, "loop")
	condition(t, 45*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
	owned := func(group, version, kind string) client.Object {
		t.Helper()
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind + "List"})
		err := kube.List(t.Context(), list, client.InNamespace(ns), client.MatchingLabels{"spate.dev/generator": "loop"})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%d objects of kind %s, %v", len(list.Items), kind, err)
		}
		return &list.Items[0]
	}
	policy, secret, pod := owned("networking.k8s.io", "v1", "NetworkPolicy"), owned("", "v1", "Secret"), owned("", "v1", "Pod")
	monitor := owned("monitoring.coreos.com", "v1", "PodMonitor")
	for _, c := range []struct {
		name, patch string
		object      client.Object
		replaced    bool
		limit       time.Duration
	}{
		{"a NetworkPolicy without its labels", `{"metadata":{"labels":null}}`, policy, false, answerLimit},
		{"an edited NetworkPolicy", `{"spec":{"ingress":[{}]}}`, policy, false, answerLimit},
		{"a Secret without its labels", `{"metadata":{"labels":null}}`, secret, false, answerLimit},
		{"a Secret with another certificate", `{"data":{"tls.crt":"AAAA"}}`, secret, false, answerLimit},
		{"an edited PodMonitor", `{"spec":{"podMetricsEndpoints":[]}}`, monitor, false, 90 * time.Second},
		{"a pod without its labels", `{"metadata":{"labels":null}}`, pod, true, 60 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.object
			if err := get(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			now := before.DeepCopyObject().(client.Object)
			changed := before.DeepCopyObject().(client.Object)
			if err := kube.Patch(t.Context(), changed, client.RawPatch(types.MergePatchType, []byte(c.patch))); err != nil {
				t.Fatal(err)
			}
			until(t, c.limit, "it is as it was", func(ctx context.Context) (bool, string) {
				err := get(ctx, now)
				same := now.GetUID() == before.GetUID() && now.GetResourceVersion() != changed.GetResourceVersion()
				return err == nil && (c.replaced && now.GetUID() != before.GetUID() || !c.replaced && same) && len(now.GetLabels()) > 0, fmt.Sprint(err, now.GetLabels())
			})
		})
	}
	condition(t, 60*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
}
