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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/runs/runstest"
)

// docs/stateful.md: address n of a pool belongs to pod n mod P. Sorted by name, lab-10 would precede lab-2.
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

// Packets of an earlier run may still be in flight.
func TestATagIsUsedAgainAsLateAsPossible(t *testing.T) {
	run := func(name string, second int, tag int32) client.Object {
		r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, CreationTimestamp: metav1.Unix(int64(second), 0)}}
		if tag != 0 {
			r.Status.Resolved = &spatev1.ResolvedRun{Tag: tag}
		}
		return r
	}
	for name, c := range map[string]struct {
		runs []client.Object
		want []uint16
	}{
		"none":                               {nil, []uint16{1, 2, 3}},
		"behind the newest, after a restart": {[]client.Object{run("a", 1, 900), run("b", 3, 40), run("c", 2, 7), run("waits", 9, 0)}, []uint16{41, 42}},
		"of one second":                      {[]client.Object{run("a", 1, 40), run("b", 1, 50)}, []uint16{51}},
		"past those in use":                  {[]client.Object{run("a", 1, 6), run("b", 1, 7), run("c", 0, 8), run("d", 0, 10)}, []uint16{9, 11}},
		"from the last to the first":         {[]client.Object{run("a", 2, 65535), run("b", 1, 1)}, []uint16{2}},
	} {
		var all tags
		cluster := runstest.Builder(t).WithObjects(c.runs...).Build()
		for _, want := range c.want {
			if got, err := all.next(t.Context(), cluster); err != nil || got != want {
				t.Errorf("%s: %d, %v, want %d", name, got, err, want)
			}
		}
	}
}
