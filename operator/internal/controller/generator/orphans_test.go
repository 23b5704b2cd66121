// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// server has one run, and notes by which name it is asked.
type server struct {
	client.Reader
	has   string
	asked []string
}

func (s *server) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	name := "everything"
	if o.FieldSelector != nil {
		name, _ = o.FieldSelector.RequiresExactMatch("metadata.name")
	}
	if s.asked = append(s.asked, name); name == s.has {
		into.(*metav1.PartialObjectMetadataList).Items = make([]metav1.PartialObjectMetadata, 1)
	}
	return nil
}

func TestRunsThatTheCacheHasNotAreLookedUpByName(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	known := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "known"}, Spec: spatev1.TrafficRunSpec{RunID: "known"}}
	cached := fake.NewClientBuilder().WithScheme(scheme).WithObjects(known).
		WithIndex(&spatev1.TrafficRun{}, "spec.generator", func(client.Object) []string { return []string{"n/lab"} }).Build()
	running := func(ids ...string) answer {
		info := &enginev1.GetInfoResponse{}
		for _, id := range ids {
			info.Runs = append(info.Runs, &enginev1.RunInfo{RunId: id, State: enginev1.RunState_RUN_STATE_RUNNING})
		}
		return answer{info: info}
	}
	live := &server{has: "of-another-leader"}
	r := &Reconciler{Client: cached, Live: live}
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "lab"}}
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "lab-0"}}, {ObjectMeta: metav1.ObjectMeta{Name: "lab-1"}}}
	found, err := r.orphans(t.Context(), g, pods, map[string]answer{
		"lab-0": running("known", "gone", "of-another-leader"), "lab-1": running("known", "gone", "of-another-leader"),
	})
	if err != nil || len(found) != 2 || found[0].id != "gone" || found[1].id != "gone" {
		t.Errorf("%+v, %v", found, err)
	}
	if !slices.Equal(live.asked, []string{"gone", "of-another-leader"}) {
		t.Errorf("the API server was asked for %q", live.asked)
	}
	live.asked = nil
	if found, err := r.orphans(t.Context(), g, pods, map[string]answer{"lab-0": running("known")}); err != nil || len(found) != 0 || len(live.asked) != 0 {
		t.Errorf("%+v, %v, asked for %q", found, err, live.asked)
	}
}
