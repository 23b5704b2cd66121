// SPDX-License-Identifier: Apache-2.0

package runs_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/runstest"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// run returns a run of profile p, created a number of seconds after the epoch.
func run(name string, second int, change ...func(*spatev1.TrafficRun)) *spatev1.TrafficRun {
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: name, UID: types.UID(name + "-uid"), CreationTimestamp: metav1.NewTime(epoch.Add(time.Duration(second) * time.Second)),
	}}
	r.Spec.ProfileRef = &spatev1.LocalReference{Name: "p"}
	for _, c := range change {
		c(r)
	}
	return r
}

func ownedBy(apiVersion, kind string, uid types.UID) func(*spatev1.TrafficRun) {
	yes := true
	return func(r *spatev1.TrafficRun) {
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "p", UID: uid, Controller: &yes}}
	}
}

func startedBy(profile types.UID) func(*spatev1.TrafficRun) {
	return ownedBy("spate.dev/v1alpha1", "TrafficProfile", profile)
}

func waitsFor(generator string) func(*spatev1.TrafficRun) {
	return func(r *spatev1.TrafficRun) { r.Status.Generator = generator }
}

func admitted(profile types.UID) func(*spatev1.TrafficRun) {
	return func(r *spatev1.TrafficRun) {
		r.Status.Generator, r.Status.Phase = "n/g", spatev1.RunRunning
		r.Status.Resolved = &spatev1.ResolvedRun{Profile: spatev1.ProfileSnapshot{UID: profile}, Generator: spatev1.GeneratorSnapshot{Namespace: "n", Name: "g"}}
	}
}

func ended(r *spatev1.TrafficRun) { r.Status.Phase = spatev1.RunComplete }

func elsewhere(r *spatev1.TrafficRun) { r.Namespace = "other" }

func names(of []spatev1.TrafficRun) []string {
	var all []string
	for i := range of {
		all = append(all, of[i].Name)
	}
	return all
}

func TestRunsOfAProfileAreThoseThatNameItAndExecuteIt(t *testing.T) {
	p := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "now"}}
	described := run("described", 7)
	described.Spec.ProfileRef = nil
	c := runstest.Builder(t).WithObjects(
		run("p-10", 5, startedBy("now")), run("p-9", 5, startedBy("now")), run("p-8", 5, startedBy("earlier")),
		run("mine", 1), run("mine-of-earlier", 2, admitted("earlier")), run("mine-too", 3, admitted("now"), ended),
		run("of-a-workflow", 9, ownedBy("argoproj.io/v1alpha1", "Workflow", "w")), run("of-another-kind", 11, ownedBy("spate.dev/v1alpha1", "TrafficGenerator", "g")), run("of-another-group", 10, ownedBy("example.org/v1", "TrafficProfile", "x")),
		run("elsewhere", 4, elsewhere), described,
	).Build()
	all, err := runs.OfProfile(t.Context(), c, p)
	if want := []string{"mine", "mine-too", "p-9", "p-10", "of-a-workflow", "of-another-group", "of-another-kind"}; err != nil || !slices.Equal(names(all), want) {
		t.Errorf("got %v, %v, want %v", names(all), err, want)
	}
}

func TestRunsOnAGeneratorAreThoseItHasAndThoseThatWaitForIt(t *testing.T) {
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "g"}}
	c := runstest.Builder(t).WithObjects(
		run("second", 2, waitsFor("n/g")), run("first", 1, waitsFor("n/g"), elsewhere), run("gave-up", 0, waitsFor("n/g"), ended),
		run("active", 3, admitted("u")), run("ended", 4, admitted("u"), ended),
		run("for-any", 5, waitsFor("n/*")), run("for-another", 6, waitsFor("n/g2")), run("new", 7),
	).Build()
	for what, s := range map[string]struct {
		selection func() ([]spatev1.TrafficRun, error)
		want      []string
	}{
		"all":    {func() ([]spatev1.TrafficRun, error) { return runs.On(t.Context(), c, g) }, []string{"active", "ended", "first", "gave-up", "second"}},
		"active": {func() ([]spatev1.TrafficRun, error) { return runs.ActiveOn(t.Context(), c, g) }, []string{"active"}},
	} {
		got, err := s.selection()
		if what == "all" {
			slices.SortFunc(got, func(a, b spatev1.TrafficRun) int { return slices.Compare([]string{a.Name}, []string{b.Name}) })
		}
		if err != nil || !slices.Equal(names(got), s.want) {
			t.Errorf("%s: %v, %v, want %v", what, names(got), err, s.want)
		}
	}
}

func TestTheNumberOfARunIsTheEndOfItsName(t *testing.T) {
	for name, want := range map[string]int{"p-1a2b3-1": 1, "p-1a2b3-120": 120, "p-1a2b3-7x": 0, "p": 0, "7": 7, "": 0} {
		if got := runs.Number(name); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}

func TestTheIDOfARunHasItsNameAndTellsRunsOfOneNameApart(t *testing.T) {
	one, other := run("imix", 0), run("imix", 1, elsewhere)
	one.UID, other.UID = "0a1b2c3d-0000", "f0000000-0000"
	if id := runs.ID(one); id != "imix-0a1b2c3d" || id == runs.ID(other) || runs.NameOf(id) != "imix" {
		t.Errorf("%s, %s, of %s", id, runs.ID(other), runs.NameOf(id))
	}
	if name := runs.NameOf("x"); name != "" {
		t.Errorf("an ID of no run is that of %q", name)
	}
}

func TestARunSaysWhatAProfileStartedItFor(t *testing.T) {
	p := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{UID: "now"}}
	trigger := spatev1.RunTrigger{Generation: 7, Digest: "d", RunID: "nightly", Number: 12}
	at := time.Date(2026, 3, 1, 2, 0, 0, 0, time.FixedZone("x", 3600))
	r := run("p-1a2b3-12", 0, startedBy("now"))
	runs.Annotate(r, spatev1.RunOnSchedule, trigger, at)
	if got := runs.TriggerOf(r); got != trigger || runs.PolicyOf(r) != spatev1.RunOnSchedule || !runs.ScheduledTime(r).Equal(at) || !runs.StartedBy(r, p) {
		t.Errorf("%+v by %s for %s", got, runs.PolicyOf(r), runs.ScheduledTime(r))
	}
	trigger.RunID = ""
	runs.Annotate(r, spatev1.RunOnChange, trigger, time.Time{})
	if got := runs.TriggerOf(r); got != trigger || !runs.ScheduledTime(r).IsZero() || len(r.Annotations) != 3 {
		t.Errorf("%+v, %v", got, r.Annotations)
	}
	for name, created := range map[string]*spatev1.TrafficRun{
		"by people": run("r", 0), "by a workflow": run("r", 0, ownedBy("argoproj.io/v1alpha1", "Workflow", "now")), "by an earlier profile": run("r", 0, startedBy("earlier")),
	} {
		if runs.StartedBy(created, p) {
			t.Errorf("created %s, and taken for the profile's own", name)
		}
	}
}
