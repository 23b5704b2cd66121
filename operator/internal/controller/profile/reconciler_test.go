// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/runs/admission"
	"spate.dev/operator/internal/runs/runstest"
)

// A terminating namespace accepts no generator; that is no failure, and not retried.
func TestNothingIsMadeInANamespaceThatIsGoing(t *testing.T) {
	p := &spatev1.TrafficProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "imix", Namespace: "going", Finalizers: []string{Finalizer}},
		Spec: spatev1.TrafficProfileSpec{Generator: &spatev1.TrafficGeneratorSpec{
			Replicas: 1, Workers: 1, CPUPolicy: spatev1.CPUShared, PacketMemory: spatev1.PacketMemory{Backing: spatev1.BackingStandard, Size: "64Mi"},
			Ports: []spatev1.GeneratorPort{{Name: "a", Attachment: spatev1.PortAttachment{Loopback: &spatev1.LoopbackAttachment{}}}},
		}},
	}
	refused := 0
	create := func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
		refused++
		err := apierrors.NewForbidden(schema.GroupResource{}, object.GetName(), nil)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return err
	}
	c := runstest.Builder(t).WithObjects(p).WithInterceptorFuncs(interceptor.Funcs{Create: create}).Build()
	r := &Reconciler{Client: c, Events: events.NewFakeRecorder(9)}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p)})
	if err != nil || !result.IsZero() || refused != 1 {
		t.Errorf("%v, %v, refused %d times", result, err, refused)
	}
}

const loop = `
generatorRef: {name: g}
duration: 1s
traffic:
- name: a
  transmitPort: loop
  stream:
    inline:
      packet: {headers: [{ethernet: {destination: "02:00:00:00:00:01"}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, {udp: {sourcePort: 1, destinationPort: 2}}], size: 128}
      transmit: {continuous: {rate: 1pps}}
`

// world is an operator whose engine accepts every plan, with a generator and a profile.
type world struct {
	t *testing.T
	r *Reconciler
	p *spatev1.TrafficProfile
}

func inWorld(t *testing.T, policy spatev1.RunPolicy) *world {
	t.Helper()
	engineOf := filepath.Join(t.TempDir(), "spate-engine")
	if err := os.WriteFile(engineOf, []byte("#!/bin/sh\ncat >/dev/null; echo '{}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := edited(policy, 1)
	p.Finalizers = []string{Finalizer}
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "g"}}
	for text, into := range map[string]any{
		loop: &p.Spec, "{replicas: 1, workers: 1, ports: [{name: loop, lineRate: 10Gbps, attachment: {loopback: {}}}]}": &g.Spec,
	} {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	c := runstest.Builder(t).WithObjects(g, p).Build()
	resolver := (&admission.Resolver{Client: c, Live: c, Compiler: engine.Compiler{Binary: engineOf}, Large: &turn.Lane{}}).Init()
	w := &world{t: t, r: &Reconciler{Client: c, Events: events.NewFakeRecorder(99), Clock: clock.RealClock{}, Resolver: resolver, started: map[types.UID]started{}}, p: p}
	w.edit(func() {})
	return w
}

// edit creates another generation of the profile, and reconciles it until nothing changes.
func (w *world) edit(change func()) {
	w.t.Helper()
	key := client.ObjectKeyFromObject(w.p)
	must(w.t, w.r.Client.Get(w.t.Context(), key, w.p))
	change()
	w.p.Generation++
	must(w.t, w.r.Client.Update(w.t.Context(), w.p))
	for range 3 {
		if _, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			w.t.Fatal(err)
		}
	}
	must(w.t, w.r.Client.Get(w.t.Context(), key, w.p))
}

// end ends a run for a reason, and reconciles the profile.
func (w *world) end(name, reason string) {
	w.t.Helper()
	r := &spatev1.TrafficRun{}
	must(w.t, w.r.Client.Get(w.t.Context(), client.ObjectKey{Namespace: "n", Name: name}, r))
	endedFor(reason)(r)
	r.Status.Verdict = &spatev1.Verdict{Outcome: spatev1.VerdictPassed, Reasons: []spatev1.VerdictReason{{Reason: spatev1.ReasonThresholdsMet, Message: "1 packets sent"}}}
	for _, kind := range []string{spatev1.ConditionValid, spatev1.ConditionPassed} {
		r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: spatev1.ReasonThresholdsMet, Message: "1 packets sent"})
	}
	must(w.t, w.r.Client.Status().Update(w.t.Context(), r))
	w.edit(func() { w.p.Generation-- })
}

// names of the existing runs.
func (w *world) names() string {
	w.t.Helper()
	var all spatev1.TrafficRunList
	must(w.t, w.r.Client.List(w.t.Context(), &all))
	var names []string
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (w *world) expect(what, runs string, phase spatev1.ProfilePhase, ready, message string) {
	w.t.Helper()
	if got := w.names(); got != runs {
		w.t.Errorf("%s: runs %q, want %q", what, got, runs)
	}
	is := meta.FindStatusCondition(w.p.Status.Conditions, spatev1.ConditionReady)
	if w.p.Status.Phase != phase || is == nil || is.Reason != ready || !strings.Contains(is.Message, message) {
		w.t.Errorf("%s: phase %s, %+v; want %s, %s: %s", what, w.p.Status.Phase, is, phase, ready, message)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAProfileOnChangeIsRunOnceForWhatItSends(t *testing.T) {
	w := inWorld(t, spatev1.RunOnChange)
	w.expect("new", "p-1a2b3-1", spatev1.ProfilePending, spatev1.ReasonProgressing, "run p-1a2b3-1 is being prepared")
	w.edit(func() { w.p.Spec.Thresholds = []spatev1.Threshold{{Name: "t", Expression: "result.tx > 0"}} })
	w.expect("thresholds", "p-1a2b3-1", spatev1.ProfilePending, spatev1.ReasonProgressing, "run p-1a2b3-1 is being prepared")
	w.edit(func() { w.p.Spec.Duration = "2s" })
	w.expect("duration", "p-1a2b3-1", spatev1.ProfilePending, spatev1.ReasonProgressing, "run p-1a2b3-1 is being stopped")
	w.end("p-1a2b3-1", spatev1.ReasonStopped)
	w.expect("it has ended", "p-1a2b3-1 p-1a2b3-2", spatev1.ProfilePending, spatev1.ReasonProgressing, "run p-1a2b3-2 is being prepared")
	w.end("p-1a2b3-2", spatev1.ReasonFinished)
	w.expect("the other, too", "p-1a2b3-1 p-1a2b3-2", spatev1.ProfileComplete, spatev1.ReasonAvailable, "run p-1a2b3-2 has ended: Passed: 1 packets sent")
	w.edit(func() { w.p.Spec.Traffic[0].TransmitPort = "north" })
	w.expect("a port that is not there", "p-1a2b3-1 p-1a2b3-2", spatev1.ProfileStalled, spatev1.ReasonInvalidSpec, "north")
	w.edit(func() { w.p.Spec.Traffic[0].TransmitPort = "loop" })
	w.expect("as before", "p-1a2b3-1 p-1a2b3-2", spatev1.ProfileComplete, spatev1.ReasonAvailable, "run p-1a2b3-2 has ended")
}

func TestASuspendedProfileIsRunAgainWhenItIsResumed(t *testing.T) {
	w := inWorld(t, spatev1.RunOnChange)
	w.edit(func() { w.p.Spec.Suspend = true })
	w.expect("suspended", "p-1a2b3-1", spatev1.ProfileSuspended, spatev1.ReasonSuspended, "spec.suspend is true: the run is being stopped")
	w.end("p-1a2b3-1", spatev1.ReasonSuspended)
	w.expect("its run has ended", "p-1a2b3-1", spatev1.ProfileSuspended, spatev1.ReasonSuspended, "spec.suspend is true")
	w.edit(func() { w.p.Spec.Suspend = false })
	w.expect("resumed", "p-1a2b3-1 p-1a2b3-2", spatev1.ProfilePending, spatev1.ReasonProgressing, "run p-1a2b3-2 is being prepared")
}

func TestAManualProfileIsRunByOthersAndByItsRunID(t *testing.T) {
	w := inWorld(t, spatev1.RunManual)
	w.expect("new", "", spatev1.ProfileIdle, spatev1.ReasonAvailable, "ready to run: create a TrafficRun with spec.profileRef to it, or set spec.runID")
	mine := created()
	must(t, w.r.Client.Create(t.Context(), &mine))
	w.edit(func() {})
	w.expect("others' run", "mine", spatev1.ProfilePending, spatev1.ReasonProgressing, "run mine is being prepared")
	w.end("mine", spatev1.ReasonFinished)
	w.expect("it has ended", "mine", spatev1.ProfileComplete, spatev1.ReasonAvailable, "run mine has ended: Passed")
	w.edit(func() { w.p.Spec.RunID = "one" })
	w.expect("a runID", "mine p-1a2b3-1", spatev1.ProfilePending, spatev1.ReasonProgressing, "is being prepared")
	w.edit(func() { w.p.Spec.RunID = "two" })
	w.expect("another runID meanwhile", "mine p-1a2b3-1", spatev1.ProfilePending, spatev1.ReasonProgressing, "run p-1a2b3-1 has not ended")
	w.end("p-1a2b3-1", spatev1.ReasonFinished)
	w.expect("when it has ended", "mine p-1a2b3-1 p-1a2b3-2", spatev1.ProfilePending, spatev1.ReasonProgressing, "is being prepared")
}

// By the run's time to live, or the history limit.
func TestWhatADeletedRunCameToStaysWithItsProfile(t *testing.T) {
	w := inWorld(t, spatev1.RunOnChange)
	w.end("p-1a2b3-1", spatev1.ReasonFinished)
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p-1a2b3-1"}}
	must(t, w.r.Client.Get(t.Context(), client.ObjectKeyFromObject(r), r))
	r.Finalizers = nil
	must(t, w.r.Client.Update(t.Context(), r))
	must(t, w.r.Client.Delete(t.Context(), r))
	w.edit(func() { w.p.Generation-- })
	w.expect("deleted", "", spatev1.ProfileComplete, spatev1.ReasonAvailable, "run p-1a2b3-1 has ended: Passed: 1 packets sent")
	for _, kind := range []string{spatev1.ConditionComplete, spatev1.ConditionValid, spatev1.ConditionPassed} {
		if !meta.IsStatusConditionTrue(w.p.Status.Conditions, kind) {
			t.Errorf("%+v", meta.FindStatusCondition(w.p.Status.Conditions, kind))
		}
	}
	w.edit(func() { w.p.Spec.RunID = "again" })
	w.expect("one more", "p-1a2b3-2", spatev1.ProfilePending, spatev1.ReasonProgressing, "run p-1a2b3-2 is being prepared")
	if passed := meta.FindStatusCondition(w.p.Status.Conditions, spatev1.ConditionPassed); passed.Status != metav1.ConditionUnknown {
		t.Errorf("%+v", passed)
	}
}

func TestARunThatWasDeletedBeforeItEndedSaysNothing(t *testing.T) {
	w := inWorld(t, spatev1.RunOnChange)
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p-1a2b3-1"}}
	must(t, w.r.Client.Get(t.Context(), client.ObjectKeyFromObject(r), r))
	r.Finalizers = nil
	must(t, w.r.Client.Update(t.Context(), r))
	must(t, w.r.Client.Delete(t.Context(), r))
	w.edit(func() { w.p.Generation-- })
	w.expect("deleted", "", spatev1.ProfileComplete, spatev1.ReasonAvailable, "the run has ended")
	for kind, want := range map[string]metav1.ConditionStatus{spatev1.ConditionComplete: metav1.ConditionTrue, spatev1.ConditionValid: metav1.ConditionFalse, spatev1.ConditionPassed: metav1.ConditionUnknown} {
		if is := meta.FindStatusCondition(w.p.Status.Conditions, kind); is == nil || is.Status != want {
			t.Errorf("%s: %+v", kind, is)
		}
	}
}

func TestHistoryIsOfTheRunsThatTheProfileStarted(t *testing.T) {
	w := inWorld(t, spatev1.RunOnChange)
	mine := created()
	must(t, w.r.Client.Create(t.Context(), &mine))
	limit := int32(1)
	w.edit(func() { w.p.Spec.RunHistoryLimit = &limit })
	w.end("mine", spatev1.ReasonFinished)
	for i := range 3 {
		name := fmt.Sprint("p-1a2b3-", i+1)
		w.end(name, spatev1.ReasonFinished)
		r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
		must(t, w.r.Client.Get(t.Context(), client.ObjectKeyFromObject(r), r))
		r.Finalizers = nil
		must(t, w.r.Client.Update(t.Context(), r))
		w.edit(func() { w.p.Spec.RunID = strconv.Itoa(i) })
	}
	if got := w.names(); got != "mine p-1a2b3-3 p-1a2b3-4" {
		t.Errorf("runs %q", got)
	}
}
