// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

// docs/stateful.md: address n of a pool belongs to pod n mod P. By name lab-10 comes before lab-2.
func TestSharesFollowTheIndexOfPods(t *testing.T) {
	const replicas = 12
	objects := fake.NewClientBuilder()
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "lab"}, Spec: spatev1.TrafficGeneratorSpec{Replicas: replicas}}
	for i := range replicas {
		name := fmt.Sprintf("lab-%d", i)
		objects = objects.WithObjects(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{podspec.LabelIndex: strconv.Itoa(i)},
		}})
		g.Status.Pods = append(g.Status.Pods, spatev1.GeneratorPodStatus{Name: name, Ready: true})
	}
	slices.SortFunc(g.Status.Pods, func(a, b spatev1.GeneratorPodStatus) int { return -slices.Compare([]string{a.Name}, []string{b.Name}) })
	s := &Resolution{r: &Resolver{Client: objects.Build()}, Generator: g}
	pods, err := s.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, pod := range pods {
		if want := fmt.Sprintf("lab-%d", i); pod.Name != want || pod.UID != types.UID("uid-"+want) {
			t.Errorf("share %d is that of %s, want %s", i, pod.Name, want)
		}
	}
	g.Status.Pods[3].Ready = false
	if _, err := s.pods(t.Context()); err == nil {
		t.Error("a run starts without one of the pods")
	}
}
