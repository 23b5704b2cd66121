// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/runs/storage"
)

// An upgrade may add a field with a default to the kind: every profile has another digest then, and no run under way ends for it.
func TestAnUpgradeEndsNoRunUnderWay(t *testing.T) {
	p := &spatev1.TrafficProfile{Spec: spatev1.TrafficProfileSpec{Duration: "10s"}}
	same := plan.ProfileDigest(p)
	for name, c := range map[string]struct {
		generation int64
		digest     string
		want       string
	}{
		"the same":                    {3, same, ""},
		"another digest, not edited":  {3, "of an earlier version", ""},
		"edited, and means the same":  {4, same, ""},
		"edited, and means otherwise": {4, "of an earlier version", "the profile has changed"},
	} {
		p.Generation = c.generation
		r := &spatev1.TrafficRun{}
		r.Spec.Profile.Generation, r.Spec.Profile.Digest = 3, c.digest
		s := &scope{run: r, profile: p, generator: &spatev1.TrafficGenerator{}}
		if why := s.unwanted(); why != c.want {
			t.Errorf("%s: %q, want %q", name, why, c.want)
		}
	}
}

// A large plan is judged by limits that have changed when no other large plan is in memory, and until then not at all.
func TestALargePlanWaitsForItsTurnToBeJudged(t *testing.T) {
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, spatev1.AddToScheme(scheme))
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "lab", Generation: 2}}
	g.Spec.Limits = &spatev1.Limits{AllowedPorts: []spatev1.PortRange{"7"}}
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r", UID: "r"}}
	r.Status.Resolved.Snapshot.Bytes = storage.Large + 1
	r.Status.Resolved.Snapshot.Chunks = []spatev1.DataReference{{ConfigMapName: "gone", Key: "plan"}}
	reconciler := &Reconciler{judged: map[types.UID]judged{}, Large: &turn.Lane{}, Memory: &storage.Memory{Reader: fake.NewClientBuilder().WithScheme(scheme).Build()}}
	leave, _ := reconciler.Large.Enter("another", "other")
	s := &scope{r: reconciler, run: r, generator: g}
	if end, err := s.forbidden(t.Context()); err != nil || end.message != "" || reconciler.judged["r"].known {
		t.Errorf("it was judged beside another: %+v, %v", end, err)
	}
	leave()
	if end, err := s.forbidden(t.Context()); err != nil || end.reason != spatev1.ReasonSnapshotLost { // now it is read, and it is not there
		t.Errorf("it was not read: %+v, %v", end, err)
	}
	if _, ok := reconciler.Large.Enter("another", "other"); !ok {
		t.Error("the lane is still taken")
	}
}
