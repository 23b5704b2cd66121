// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs/admission"
	"spate.dev/operator/internal/runs/runstest"
)

// using is a run that was admitted to this number of pods of generator n/g.
func using(name string, pods int) spatev1.TrafficRun {
	r := spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
	r.Status.Phase = spatev1.RunRunning
	r.Status.Resolved = &spatev1.ResolvedRun{Generator: spatev1.GeneratorSnapshot{Namespace: "n", Name: "g", Pods: make([]spatev1.PodSnapshot, pods)}}
	return r
}

func TestReplicasTakeEffectWhenNoRunUsesTheGenerator(t *testing.T) {
	for _, c := range []struct {
		replicas int32
		active   []spatev1.TrafficRun
		size     int
		message  string
	}{
		{2, nil, 2, ""},
		{2, []spatev1.TrafficRun{using("r", 2)}, 2, ""},
		{3, []spatev1.TrafficRun{using("r", 2)}, 2, "spec.replicas is 3 and takes effect when run n/r has ended: until then the generator has 2 pods, and no other run is admitted"},
		{2, []spatev1.TrafficRun{using("r", 1)}, 1, "spec.replicas is 2 and takes effect when run n/r has ended: until then the generator has 1 pod, and no other run is admitted"},
		{1, []spatev1.TrafficRun{using("r", 3), using("s", 3)}, 3, "spec.replicas is 1 and takes effect when the 2 runs that use the generator have ended: until then the generator has 3 pods, and no other run is admitted"},
	} {
		g := &spatev1.TrafficGenerator{Spec: spatev1.TrafficGeneratorSpec{Replicas: c.replicas}}
		if got, message := size(g, c.active), resizing(g, c.active); got != c.size || message != c.message {
			t.Errorf("%d replicas, %d runs: %d, %q, want %d, %q", c.replicas, len(c.active), got, message, c.size, c.message)
		}
	}
}

// A run that is admitted while pods are about to be deleted keeps them.
func TestNoPodIsDeletedWhileARunIsBeingAdmitted(t *testing.T) {
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "g"}}
	admitted := using("r", 1)
	for name, c := range map[string]struct {
		enters bool
		runs   []client.Object
		listed []spatev1.TrafficRun
		free   bool
	}{
		"no run":               {free: true},
		"one is being":         {enters: true},
		"one was, since":       {runs: []client.Object{&admitted}},
		"one that was listed":  {runs: []client.Object{&admitted}, listed: []spatev1.TrafficRun{admitted}, free: true}, // ended pods and those without a use are deleted
		"one that has ended":   {listed: []spatev1.TrafficRun{admitted}, free: true},
		"one is being, listed": {enters: true, listed: []spatev1.TrafficRun{admitted}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Client: runstest.Builder(t).WithObjects(c.runs...).Build(), Resolver: (&admission.Resolver{}).Init()}
			if c.enters {
				if _, ok := r.Resolver.Enter(client.ObjectKeyFromObject(g)); !ok {
					t.Fatal("the generator is reserved")
				}
			}
			release, free, err := r.reserve(t.Context(), g, c.listed)
			if err != nil || free != c.free {
				t.Fatalf("free %v, %v", free, err)
			}
			if free {
				if _, ok := r.Resolver.Enter(client.ObjectKeyFromObject(g)); ok {
					t.Error("a run is admitted meanwhile")
				}
				release()
			}
			if _, ok := r.Resolver.Enter(client.ObjectKeyFromObject(g)); ok == c.enters {
				t.Error(fmt.Sprint("reserved afterwards: ", !ok))
			}
		})
	}
}
