// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	s := &scope{r: &Reconciler{Client: objects.Build()}, generator: g}
	pods, err := s.podSnapshots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, pod := range pods {
		if want := fmt.Sprintf("lab-%d", i); pod.Name != want || pod.UID != types.UID("uid-"+want) {
			t.Errorf("share %d is that of %s, want %s", i, pod.Name, want)
		}
	}
	g.Status.Pods[3].Ready = false
	if _, err := s.podSnapshots(t.Context()); err == nil {
		t.Error("a run starts without one of the pods")
	}
}

// An upgrade may add a field with a default to the kind: every profile has another digest then, and nobody has edited one.
func TestAnUpgradeStartsNoRuns(t *testing.T) {
	complete := []metav1.Condition{{Type: spatev1.ConditionComplete, Status: metav1.ConditionTrue, Reason: spatev1.ReasonFinished}}
	for name, c := range map[string]struct {
		generation int64
		digest     string
		due        bool
	}{
		"the same":                    {3, "a", false},
		"another digest, not edited":  {3, "b", false},
		"edited, and means the same":  {4, "a", false},
		"edited, and means otherwise": {4, "b", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Generation: c.generation}}
			p.Status.CurrentRun, p.Status.Conditions = &spatev1.RunReference{Name: "p-1", ProfileGeneration: 3, Digest: "a"}, complete
			s := &scope{profile: p, digest: c.digest}
			if s.due() != c.due {
				t.Errorf("a run is due: %v", !c.due)
			}
			// The same where the run itself is there.
			r := spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Name: "p-1"}}
			r.Spec.Profile.Generation, r.Spec.Profile.Digest, r.Status.Conditions = 3, "a", complete
			s.runs = []spatev1.TrafficRun{r}
			if s.due() != c.due {
				t.Errorf("beside its run, a run is due: %v", !c.due)
			}
		})
	}
}

func TestWhatTheAPIServerRefusesToMakeKeepsAProfileFromBeingRun(t *testing.T) {
	maps := schema.GroupResource{Resource: "configmaps"}
	going := apierrors.NewForbidden(maps, "p-1-plan-0", nil)
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		err    error
		reason string
		words  string
	}{
		"a quota":                          {fmt.Errorf("make run p-1: %w", apierrors.NewForbidden(maps, "p-1-plan-0", errors.New("exceeded quota: q"))), spatev1.ReasonAdmissionFailed, "exceeded quota: q"},
		"a run of that name":               {&takenError{"p-1"}, spatev1.ReasonNameTaken, "TrafficRun p-1 exists"},
		"a namespace that is going":        {going, "", ""},
		"an API server that is away":       {errors.New("connection refused"), "", ""},
		"a run that the cache has not yet": {apierrors.NewAlreadyExists(maps, "p-1"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := refused(c.err)
			if (err == nil) != (c.reason != "") || d.reason != c.reason || !strings.Contains(d.message, c.words) || (c.reason != "") != (d.again == refusedPause) {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}
