// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/runstest"
)

// server has one run, in whatever namespace is listed, and records the names it is queried for.
type server struct {
	client.Reader
	has       *spatev1.TrafficRun
	forbidden []string // namespaces
	asked     []string
}

func (s *server) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	if slices.Contains(s.forbidden, o.Namespace) {
		return apierrors.NewForbidden(schema.GroupResource{Group: spatev1.GroupVersion.Group, Resource: "trafficruns"}, "", errors.New("in the namespace "+o.Namespace))
	}
	name := "everything"
	if o.FieldSelector != nil {
		name, _ = o.FieldSelector.RequiresExactMatch("metadata.name")
	}
	if s.asked = append(s.asked, name); name == s.has.Name {
		into.(*metav1.PartialObjectMetadataList).Items = []metav1.PartialObjectMetadata{{ObjectMeta: s.has.ObjectMeta}}
	}
	return nil
}

func TestRunsThatTheCacheHasNotAreLookedUpByName(t *testing.T) {
	run := func(name string, uid types.UID) *spatev1.TrafficRun {
		return &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: uid}}
	}
	known, other, gone := run("known", "11111111-a"), run("of-another-leader", "22222222-a"), run("gone", "33333333-a")
	earlier := run(other.Name, "44444444-a") // an earlier run of the same name
	known.Status.Resolved = &spatev1.ResolvedRun{RunID: runs.ID(known), Generator: spatev1.GeneratorSnapshot{Namespace: "n", Name: "lab"}}
	cached := runstest.Builder(t).WithObjects(known).Build()
	running := func(all ...*spatev1.TrafficRun) answer {
		info := &enginev1.GetInfoResponse{}
		for _, r := range all {
			info.Runs = append(info.Runs, &enginev1.RunInfo{RunId: runs.ID(r), State: enginev1.RunState_RUN_STATE_RUNNING})
		}
		return answer{info: info}
	}
	live := &server{has: other}
	r := &Reconciler{Client: cached, Live: live}
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "lab"}}
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "lab-0"}}, {ObjectMeta: metav1.ObjectMeta{Name: "lab-1"}}}
	found, err := r.orphans(t.Context(), g, pods, map[string]answer{"lab-0": running(known, gone, other), "lab-1": running(known, gone, other, earlier)})
	ids := map[string]int{}
	for _, o := range found {
		ids[o.id]++
	}
	if want := map[string]int{runs.ID(gone): 2, runs.ID(earlier): 1}; err != nil || !maps.Equal(ids, want) {
		t.Errorf("%v, %v", ids, err)
	}
	if !slices.Equal(live.asked, []string{"gone", "of-another-leader", "of-another-leader"}) {
		t.Errorf("the API server was asked for %q", live.asked)
	}
	live.asked = nil
	if found, err := r.orphans(t.Context(), g, pods, map[string]answer{"lab-0": running(known)}); err != nil || len(found) != 0 || len(live.asked) != 0 {
		t.Errorf("%+v, %v, asked for %q", found, err, live.asked)
	}
}

// The pod did not answer, so that its run has gone on without it; now it answers again.
func TestARunIsStoppedOnAPodThatItHasLost(t *testing.T) {
	run := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r", UID: "11111111-a"}}
	run.Status.Resolved = &spatev1.ResolvedRun{RunID: runs.ID(run), Generator: spatev1.GeneratorSnapshot{Namespace: "n", Name: "lab"}}
	run.Status.Phase, run.Status.LostPods = spatev1.RunRunning, []spatev1.LostPod{{Name: "lab-1"}}
	r := &Reconciler{Client: runstest.Builder(t).WithObjects(run).WithStatusSubresource().Build(), Live: &server{has: run}}
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "lab"}}
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "lab-0"}}, {ObjectMeta: metav1.ObjectMeta{Name: "lab-1"}}}
	for state, want := range map[enginev1.RunState][]string{
		enginev1.RunState_RUN_STATE_RUNNING:  {"pod lab-1: the engine still executes run r-11111111, whose TrafficRun goes on without this pod, which did not answer"},
		enginev1.RunState_RUN_STATE_COMPLETE: nil, // its counters may be read
	} {
		held := answer{info: &enginev1.GetInfoResponse{Runs: []*enginev1.RunInfo{{RunId: runs.ID(run), State: state}}}}
		found, err := r.orphans(t.Context(), g, pods, map[string]answer{"lab-0": held, "lab-1": held})
		var got []string
		for _, o := range found {
			got = append(got, o.message())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", state, got, err, want)
		}
	}
}

func TestARunThatMayExistWhereTheOperatorCannotReadIsNotStopped(t *testing.T) {
	run := func(name string, uid types.UID) *spatev1.TrafficRun {
		return &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: uid}}
	}
	gone, elsewhere := run("gone", "11111111-a"), run("of-another-leader", "22222222-a")
	info := &enginev1.GetInfoResponse{}
	for _, r := range []*spatev1.TrafficRun{gone, elsewhere} {
		info.Runs = append(info.Runs, &enginev1.RunInfo{RunId: runs.ID(r), State: enginev1.RunState_RUN_STATE_RUNNING})
	}
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "lab-0"}}}
	for _, c := range []struct {
		from      spatev1.NamespaceSource
		forbidden string
		doubted   bool
	}{
		{"", "missing", false},
		{spatev1.NamespacesSame, "missing", false},
		{spatev1.NamespacesAll, "missing", true},
		{spatev1.NamespacesSelector, "missing", true},
		{spatev1.NamespacesSame, "n", true},
	} {
		r := &Reconciler{
			Client: runstest.Builder(t).Build(), Live: &server{has: elsewhere, forbidden: []string{c.forbidden}},
			Namespaces: []string{"missing", "n", "others"}, unscraped: map[types.UID]map[string]time.Time{},
		}
		g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "lab"}}
		g.Spec.AllowedNamespaces.From = c.from
		found, err := r.orphans(t.Context(), g, pods, map[string]answer{"lab-0": {info: info}})
		if err != nil || len(found) != 1 || found[0].id != runs.ID(gone) || (found[0].doubt != nil) != c.doubted {
			t.Errorf("from %q, %s cannot be listed: %+v, %v", c.from, c.forbidden, found, err)
			continue
		}
		if !c.doubted {
			continue
		}
		// There are no engines: none is called.
		if waiting, unscraped := r.dismiss(t.Context(), g, found, nil); len(waiting) != 1 || waiting[0].reason != spatev1.ReasonOrphanedRun ||
			!strings.Contains(waiting[0].message, "in the namespace "+c.forbidden) || unscraped {
			t.Errorf("from %q: %+v, %t", c.from, waiting, unscraped)
		}
	}
}
