// SPDX-License-Identifier: Apache-2.0

package runs_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/runstest"
)

// waits gives a run a reason and a message to wait for a generator.
func waits(generator, reason, message string) func(*spatev1.TrafficRun) {
	return func(r *spatev1.TrafficRun) {
		r.Status.Generator, r.Status.Phase = generator, spatev1.RunPending
		kstatus.Progressing(&r.Status.Conditions, r.Generation, reason, message)
	}
}

func inLine(generator, message string) func(*spatev1.TrafficRun) {
	return waits(generator, spatev1.ReasonGeneratorBusy, message)
}

// going is a run that is being deleted.
func going(r *spatev1.TrafficRun) {
	now := metav1.NewTime(epoch)
	r.DeletionTimestamp, r.Finalizers = &now, []string{"spate.dev/stop-traffic"}
}

func stopped(r *spatev1.TrafficRun) { r.Spec.Stop = true }

func TestARunHasAPlaceBehindOlderRunsThatWaitForTheSameGenerator(t *testing.T) {
	busy, notReady := inLine("n/g", ""), waits("n/g", spatev1.ReasonGeneratorNotReady, "")
	young := run("young", 9)
	for name, c := range map[string]struct {
		others []client.Object
		want   runs.Place
	}{
		"nobody waits":            {nil, runs.Place{}},
		"the oldest is next":      {[]client.Object{run("b", 2, busy), run("a", 1, busy), run("c", 3, notReady)}, runs.Place{Ahead: 3, Next: "n/a", Busy: true}},
		"of another namespace":    {[]client.Object{run("a", 1, busy, elsewhere)}, runs.Place{Ahead: 1, Next: "other/a", Busy: true}},
		"until it is ready":       {[]client.Object{run("a", 1, notReady)}, runs.Place{Ahead: 1, Next: "n/a"}},
		"younger ones":            {[]client.Object{run("z", 10, busy)}, runs.Place{}},
		"itself":                  {[]client.Object{run("young", 9, busy)}, runs.Place{}},
		"of the same second":      {[]client.Object{run("xavier", 9, busy), run("zoe", 9, busy)}, runs.Place{Ahead: 1, Next: "n/xavier", Busy: true}},
		"for another generator":   {[]client.Object{run("a", 1, inLine("n/g2", ""))}, runs.Place{}},
		"for a stream":            {[]client.Object{run("a", 1, waits("n/g", spatev1.ReasonReferenceNotFound, ""))}, runs.Place{}},
		"refused by the engines":  {[]client.Object{run("a", 1, waits("n/g", spatev1.ReasonCheckFailed, ""))}, runs.Place{}},
		"refused by a quota":      {[]client.Object{run("a", 1, waits("n/g", spatev1.ReasonAdmissionFailed, ""))}, runs.Place{}},
		"not resolved yet":        {[]client.Object{run("a", 1, waits("n/g", spatev1.ReasonProgressing, "")), run("b", 2)}, runs.Place{}},
		"being deleted":           {[]client.Object{run("a", 1, busy, going)}, runs.Place{}},
		"being stopped":           {[]client.Object{run("a", 1, busy, stopped)}, runs.Place{}},
		"ended":                   {[]client.Object{run("a", 1, busy, ended)}, runs.Place{}},
		"admitted":                {[]client.Object{run("a", 1, busy, admitted("u"))}, runs.Place{}},
		"a schedule's, by number": {[]client.Object{run("young-2", 9, busy)}, runs.Place{}},
	} {
		c1 := runstest.Builder(t).WithObjects(c.others...).Build()
		got, err := runs.PlaceOf(t.Context(), c1, client.ObjectKey{Namespace: "n", Name: "g"}, young)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	for place, want := range map[runs.Place]string{{Ahead: 1, Next: "n/a"}: "behind 1 run, next: n/a", {Ahead: 7, Next: "n/a"}: "behind 7 runs, next: n/a"} {
		if got := place.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTheOldestOfALineAreNext(t *testing.T) {
	var all []client.Object
	for i := range 25 {
		all = append(all, run(fmt.Sprintf("r%d", i), 100-i, inLine("n/g", "")))
	}
	c := runstest.Builder(t).WithObjects(all...).Build()
	first, err := runs.FirstInLine(t.Context(), c, client.ObjectKey{Namespace: "n", Name: "g"}, 3)
	want := []client.ObjectKey{{Namespace: "n", Name: "r24"}, {Namespace: "n", Name: "r23"}, {Namespace: "n", Name: "r22"}}
	if err != nil || !slices.Equal(first, want) {
		t.Errorf("%v, %v", first, err)
	}
	if first, err = runs.FirstInLine(t.Context(), c, client.ObjectKey{Namespace: "n", Name: "h"}, 3); err != nil || len(first) > 0 {
		t.Errorf("%v, %v", first, err)
	}
}
