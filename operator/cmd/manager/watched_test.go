// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
)

func names(namespaces map[string]cache.Config) []string {
	return slices.Sorted(maps.Keys(namespaces))
}

// The operator may watch what its controllers do: its role is made of their markers.
func TestTheKindsOfWatchedNamespacesAreThoseThatTheRoleLetsItWatch(t *testing.T) {
	file, err := os.Open("../../../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var role rbacv1.ClusterRole
	if err := yaml.NewYAMLOrJSONDecoder(file, 4096).Decode(&role); err != nil {
		t.Fatal(err)
	}
	var may, does []string
	for _, rule := range role.Rules {
		if slices.Contains(rule.Verbs, "watch") {
			may = append(may, rule.Resources...)
		}
	}
	for _, kind := range watchedKinds() {
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		does = append(does, strings.ReplaceAll(resource.Resource, "search"+"s", "searches")) // a plural that is not guessed
	}
	slices.Sort(may)
	slices.Sort(does)
	if !slices.Equal(may, does) {
		t.Errorf("watchedKinds has %q, the role %q", does, may)
	}
}

func TestOnlyWatchedNamespacesAreCachedAndTheAuthorityOfTheOperators(t *testing.T) {
	for _, c := range []struct{ watched, objects, secrets []string }{
		{nil, nil, nil},
		{[]string{"lab", "test"}, []string{"lab", "test"}, []string{"lab", "system", "test"}},
		{[]string{"system"}, []string{"system"}, []string{"system"}},
	} {
		options := cached("system", c.watched)
		if got := names(options.DefaultNamespaces); !slices.Equal(got, c.objects) {
			t.Errorf("%q: objects of %q", c.watched, got)
		}
		for object, by := range options.ByObject {
			if by.Label == nil || by.Label.Empty() {
				t.Errorf("%T: all of the cluster", object)
			}
			want := []string(nil) // DefaultNamespaces
			if _, secret := object.(*corev1.Secret); secret {
				want = c.secrets
			}
			if got := names(by.Namespaces); !slices.Equal(got, want) {
				t.Errorf("%q: %T of %q, want %q", c.watched, object, got, want)
			}
		}
	}
}

func TestObjectsOfOtherNamespacesDoNotExist(t *testing.T) {
	generator := func(namespace string) *spatev1.TrafficGenerator {
		return &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"}}
	}
	c := &confined{namespaces: []string{"lab", "system"}, Client: fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(
		generator("lab"), generator("system"), generator("other"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}).Build()}
	for _, namespace := range []string{"lab", "system"} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(generator(namespace)), &spatev1.TrafficGenerator{}); err != nil {
			t.Errorf("%s: %v", namespace, err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(generator("other")), &spatev1.TrafficGenerator{}); !apierrors.IsNotFound(err) {
		t.Errorf("of another namespace: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "lab"}, &corev1.Namespace{}); err != nil {
		t.Errorf("a namespace: %v", err)
	}
}

func TestAnOperatorOfAllNamespacesHasTheDefaultClient(t *testing.T) {
	if clientOf("system", nil) != nil {
		t.Error("its client is confined")
	}
}
