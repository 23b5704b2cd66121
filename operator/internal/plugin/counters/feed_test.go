// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/plugintest"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func TestPodsOfARunAreChosen(t *testing.T) {
	t.Parallel()
	run := plugintest.Sending("a", "imix", noon)
	for _, name := range []string{"lab-1", "lab-2"} {
		run.Status.Resolved.Generator.Pods = append(run.Status.Resolved.Generator.Pods, spatev1.PodSnapshot{Name: name})
	}
	run.Status.LostPods = []spatev1.LostPod{{Name: "lab-1"}}
	for wanted, want := range map[string]string{"": "lab-0 lab-2", "lab-2 lab-7": "lab-2", "lab-1": ""} {
		if got := strings.Join(WantedPods(run, strings.Fields(wanted)), " "); got != want {
			t.Errorf("%q: %q, want %q", wanted, got, want)
		}
	}
}

func TestANameSelectsRuns(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	named := func(o kube.Object, name string) kube.Object {
		o.SetNamespace("tests")
		o.SetName(name)
		return o
	}
	first, second, other := plugintest.Sending("imix-1", "imix", noon), plugintest.Sending("imix-2", "imix", noon), plugintest.Sending("web-1", "web", noon)
	first.Status.Phase, first.CreationTimestamp.Time = spatev1.RunComplete, noon.Add(-time.Hour)
	other.Status.Resolved.Generator.Name = "spare"
	client := fake.NewClientBuilder().WithScheme(scheme).WithObjects(first, second, other, named(&spatev1.TrafficGenerator{}, "lab"), named(&spatev1.TrafficGenerator{}, "idle"),
		named(&spatev1.TrafficProfile{}, "new")).Build()
	for name, c := range map[string]struct{ subject, runs, err string }{
		"":       {"namespace tests", "imix-2 web-1", ""},
		"imix-1": {"run imix-1", "imix-1", ""},
		"imix":   {"profile imix", "imix-2", ""},
		"new":    {"profile new", "", ""},
		"lab":    {"generator lab", "imix-2", ""},
		"idle":   {"generator idle", "", ""},
		"none":   {"", "", `there is no TrafficRun, TrafficProfile or TrafficGenerator "none" in namespace tests`},
	} {
		subject, selected, err := Find(t.Context(), client, "tests", name)
		if err != nil {
			if err.Error() != c.err {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		found, err := selected(t.Context())
		var names []string
		for i := range found {
			names = append(names, found[i].Name)
		}
		if got := strings.Join(names, " "); err != nil || subject != c.subject || got != c.runs {
			t.Errorf("%s: %s: %s, %v", name, subject, got, err)
		}
	}
}

func TestRunsThatHaveEndedAreNotShown(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	one, two, three := plugintest.Sending("a", "imix", noon), plugintest.Sending("b", "imix", noon), plugintest.Sending("c", "imix", noon)
	client := fake.NewClientBuilder().WithScheme(scheme).WithObjects(one, two, three).Build()
	_, selected, err := Find(t.Context(), client, "tests", "")
	if err != nil {
		t.Fatal(err)
	}
	shown := func(want ...string) {
		t.Helper()
		found, err := selected(t.Context())
		var names []string
		for i := range found {
			names = append(names, found[i].Name)
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%v, want %v, %v", names, want, err)
		}
	}
	shown("a", "b", "c")
	if err := client.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	two.Status.Phase = spatev1.RunComplete
	if err := client.Update(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	shown("c")
}
