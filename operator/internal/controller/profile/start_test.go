// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/controller/run"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/runstest"
)

// starter is an operator that is about to start a run of a profile, with objects in the API server.
func starter(t *testing.T, p *spatev1.TrafficProfile, there ...client.Object) *scope {
	t.Helper()
	c := runstest.Builder(t).WithObjects(there...).Build()
	return &scope{r: &Reconciler{Client: c, Events: events.NewFakeRecorder(9), started: map[types.UID]started{}}, profile: p, digest: "d"}
}

func TestAStartedRunSaysWhatItIsFor(t *testing.T) {
	keep := int32(60)
	at := time.Date(2026, 1, 5, 2, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		profile   *spatev1.TrafficProfile
		scheduled time.Time
		name      string
		policy    spatev1.RunPolicy
		trigger   spatev1.RunTrigger
	}{
		"the first":           {edited(spatev1.RunOnChange, 1), time.Time{}, "p-1a2b3-1", spatev1.RunOnChange, spatev1.RunTrigger{Generation: 1, Digest: "d", Number: 1}},
		"the next":            {edited(spatev1.RunOnChange, 9, last(spatev1.RunTrigger{Generation: 3, Digest: "c", Number: 4})), time.Time{}, "p-1a2b3-5", spatev1.RunOnChange, spatev1.RunTrigger{Generation: 9, Digest: "d", Number: 5}},
		"for a runID":         {edited(spatev1.RunManual, 2, withRunID("one")), time.Time{}, "p-1a2b3-1", spatev1.RunManual, spatev1.RunTrigger{Generation: 2, Digest: "d", RunID: "one", Number: 1}},
		"for a time":          {edited(spatev1.RunOnSchedule, 2), at, "p-1a2b3-1", spatev1.RunOnSchedule, spatev1.RunTrigger{Generation: 2, Digest: "d", Number: 1}},
		"a runID meanwhile":   {edited(spatev1.RunOnSchedule, 2, withRunID("one")), time.Time{}, "p-1a2b3-1", spatev1.RunManual, spatev1.RunTrigger{Generation: 2, Digest: "d", RunID: "one", Number: 1}},
		"with a time to live": {edited(spatev1.RunOnChange, 1, func(p *spatev1.TrafficProfile) { p.Spec.TTLSecondsAfterFinished = &keep }), time.Time{}, "p-1a2b3-1", spatev1.RunOnChange, spatev1.RunTrigger{Generation: 1, Digest: "d", Number: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := starter(t, c.profile)
			if err := s.start(t.Context(), c.scheduled); err != nil {
				t.Fatal(err)
			}
			got := &spatev1.TrafficRun{}
			if err := s.r.Client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: c.name}, got); err != nil {
				t.Fatal(err)
			}
			if runs.TriggerOf(got) != c.trigger || runs.PolicyOf(got) != c.policy || !runs.ScheduledTime(got).Equal(c.scheduled) || !runs.StartedBy(got, c.profile) {
				t.Errorf("%+v", got.ObjectMeta)
			}
			if got.Spec.ProfileRef.Name != "p" || !ptr.Equal(got.Spec.TTLSecondsAfterFinished, c.profile.Spec.TTLSecondsAfterFinished) || got.Finalizers[0] != run.Finalizer {
				t.Errorf("%+v, %v", got.Spec, got.Finalizers)
			}
			if recorded := c.profile.Status.LastTrigger; *recorded != c.trigger {
				t.Errorf("the status has %+v", recorded)
			}
			if recorded := c.profile.Status.LastScheduleTime; (recorded != nil) != !c.scheduled.IsZero() || recorded != nil && !recorded.Time.Equal(c.scheduled) {
				t.Errorf("the status has %s", recorded)
			}
			if s.due() || s.latest().Name != c.name {
				t.Errorf("another is due: %v, the latest is %s", s.due(), s.latest().Name)
			}
		})
	}
}

// Another operator has just started the run, and this one's cache does not have it yet.
func TestTwoOperatorsStartOneRun(t *testing.T) {
	p := edited(spatev1.RunOnChange, 1)
	first := starter(t, p.DeepCopy())
	if err := first.start(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	second := &scope{r: &Reconciler{Client: first.r.Client, started: map[types.UID]started{}}, profile: p, digest: "d"}
	if err := second.start(t.Context(), time.Time{}); !kstatus.Expected(err) {
		t.Errorf("it is not tried again when the cache has the run: %v", err)
	}
	var all spatev1.TrafficRunList
	if err := first.r.Client.List(t.Context(), &all); err != nil || len(all.Items) != 1 {
		t.Errorf("%d runs, %v", len(all.Items), err)
	}
}

func TestARunOfThatNameWhichTheProfileDidNotStartIsLeftAlone(t *testing.T) {
	s := starter(t, edited(spatev1.RunOnChange, 1), &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p-1a2b3-1"}})
	var taken *takenError
	if err := s.start(t.Context(), time.Time{}); !errors.As(err, &taken) || taken.run != "p-1a2b3-1" || s.profile.Status.LastTrigger != nil {
		t.Errorf("%v, %+v", err, s.profile.Status.LastTrigger)
	}
}

func TestARunIsStoppedOnce(t *testing.T) {
	r := made(spatev1.RunOnSchedule, spatev1.RunTrigger{Number: 1})
	s := starter(t, edited(spatev1.RunOnSchedule, 1), &r)
	for range 2 {
		if err := s.stop(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		if err := s.r.Client.Get(t.Context(), client.ObjectKeyFromObject(&r), &r); err != nil || !r.Spec.Stop {
			t.Errorf("%v, stop %v", err, r.Spec.Stop)
		}
	}
	gone := made(spatev1.RunOnSchedule, spatev1.RunTrigger{Number: 2})
	if err := s.stop(t.Context(), &gone); err != nil {
		t.Errorf("a run that is gone: %v", err)
	}
}

func TestWhatTheAPIServerRefusesToMakeKeepsAProfileFromBeingRun(t *testing.T) {
	made := schema.GroupResource{Resource: "trafficruns"}
	going := apierrors.NewForbidden(made, "p-1", nil)
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		err    error
		reason string
		words  string
	}{
		"a quota":                          {fmt.Errorf("create run p-1: %w", apierrors.NewForbidden(made, "p-1", errors.New("exceeded quota: q"))), spatev1.ReasonAdmissionFailed, "exceeded quota: q"},
		"a run of that name":               {&takenError{"p-1"}, spatev1.ReasonNameTaken, "TrafficRun p-1 exists"},
		"a namespace that is going":        {going, "", ""},
		"an API server that is away":       {errors.New("connection refused"), "", ""},
		"a run that the cache has not yet": {apierrors.NewAlreadyExists(made, "p-1"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := refused(c.err)
			if (err == nil) != (c.reason != "") || d.reason != c.reason || !strings.Contains(d.message, c.words) || (c.reason != "") != (d.again == kstatus.RefusedPause) {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}
