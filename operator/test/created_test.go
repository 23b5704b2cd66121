// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: do runs that people and pipelines create do what they say, and do profiles start runs by their policies?

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
)

// create makes a run as `kubectl create` does; spec is YAML, indented by nothing.
func create(t *testing.T, ns, prefix, spec string) *spatev1.TrafficRun {
	t.Helper()
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: prefix}}
	must(t, yaml.UnmarshalStrict([]byte(spec), &r.Spec))
	must(t, cluster.kube.Create(t.Context(), r))
	return r
}

// hasEnded waits for the end of a run.
func hasEnded(t *testing.T, limit time.Duration, r *spatev1.TrafficRun) {
	t.Helper()
	expect(t, limit, r, spatev1.ConditionComplete, metav1.ConditionTrue, "")
}

// inPhase waits until a run is in a phase.
func inPhase(t *testing.T, limit time.Duration, r *spatev1.TrafficRun, want spatev1.RunPhase) {
	t.Helper()
	until(t, limit, fmt.Sprintf("run %s is %s", r.Name, want), func() (bool, string) {
		err := get(r)
		return err == nil && r.Status.Phase == want, fmt.Sprint(r.Status.Phase, err)
	})
}

// runsIn a namespace.
func runsIn(t *testing.T, ns string) []spatev1.TrafficRun {
	t.Helper()
	var list spatev1.TrafficRunList
	must(t, cluster.kube.List(t.Context(), &list, client.InNamespace(ns)))
	return list.Items
}

func patched(t *testing.T, object client.Object, patch string) {
	t.Helper()
	must(t, cluster.kube.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func TestARunThatPeopleCreateExecutesAProfileThatStartsNone(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("manual", lenient+"  runPolicy: Manual\n  duration: 1h\n  thresholds: [{name: never, expression: result.tx == 1}]"))
	p := profileNamed(ns, "manual")
	expect(t, answerLimit, p, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable, "create a TrafficRun")
	if p.Status.Phase != spatev1.ProfileIdle || len(runsIn(t, ns)) > 0 {
		t.Errorf("phase %s, %d runs", p.Status.Phase, len(runsIn(t, ns)))
	}
	r := create(t, ns, "manual-", "{profileRef: {name: manual}, overrides: {rate: 2kpps, duration: 1s, thresholds: [{name: all, expression: result.rx == 2000}]}}")
	hasEnded(t, runLimit, r)
	if v := r.Status.Verdict; v.Outcome != spatev1.VerdictPassed || r.Status.Result.Tx != 2000 {
		t.Errorf("%+v, %d sent", v, r.Status.Result.Tx)
	}
	expect(t, answerLimit, r, spatev1.ConditionValid, metav1.ConditionTrue, spatev1.ReasonMeasurementValid)
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet)
	if p.Status.CurrentRun.Name != r.Name {
		t.Errorf("the profile reports on %s, not on %s", p.Status.CurrentRun.Name, r.Name)
	}
	mustApply(t, ns, loopbackProfile("manual", lenient+"  runPolicy: Manual\n  duration: 200ms\n  runID: once"))
	until(t, runLimit, "a runID asks for one more", func() (bool, string) { n := len(runsIn(t, ns)); return n == 2, strconv.Itoa(n) })
	if again := complete(t, runLimit, p); again.Status.Result.Tx != 200 {
		t.Errorf("%d sent", again.Status.Result.Tx)
	}
}

func TestARunThatIsDescribedByItselfIsDeletedAfterItsTime(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	r := create(t, ns, "self-", `
ttlSecondsAfterFinished: 1
profile:
  duration: 500ms
  generatorTolerance: {late: 100%}
  traffic: [{name: small, transmitPort: loop, receivePort: loop, stream: {ref: {name: small}}}]
`)
	hasEnded(t, runLimit, r)
	if r.Status.Verdict.Outcome != spatev1.VerdictPassed || r.Status.Result.Tx != 500 || r.Status.Generator != ns+"/loop" || r.Status.Resolved.Profile.UID != "" {
		t.Errorf("%+v %+v on %s", r.Status.Verdict, r.Status.Result, r.Status.Generator)
	}
	until(t, 20*time.Second, "it is deleted", func() (bool, string) { n := len(runsIn(t, ns)); return n == 0, strconv.Itoa(n) })
}

func TestARunWaitsForWhatItRefersToAndEndsWhereTimeDoesNotHelp(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	early := create(t, ns, "early-", "{profileRef: {name: late}}")
	expect(t, answerLimit, early, spatev1.ConditionPassed, metav1.ConditionUnknown, spatev1.ReasonReferenceNotFound, `TrafficProfile "late" does not exist`)
	wrong := create(t, ns, "wrong-", "{profile: {traffic: [{name: a, transmitPort: north, stream: {ref: {name: small}}}]}}")
	hasEnded(t, answerLimit, wrong)
	expect(t, answerLimit, wrong, spatev1.ConditionValid, metav1.ConditionFalse, spatev1.ReasonInvalidSpec, "spec.profile.traffic[0].transmitPort", "north")
	expect(t, answerLimit, wrong, spatev1.ConditionPassed, metav1.ConditionUnknown, spatev1.ReasonInvalidSpec)
	mustApply(t, ns, loopbackProfile("late", lenient+"  runPolicy: Manual\n  duration: 200ms"))
	hasEnded(t, runLimit, early)
	if early.Status.Result.Tx != 200 {
		t.Errorf("%d sent", early.Status.Result.Tx)
	}
}

func TestARunIsPausedChangedAndStoppedWhileItSends(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("long", tolerant+"  runPolicy: Manual"))
	r := create(t, ns, "long-", "{profileRef: {name: long}}")
	inPhase(t, runLimit, r, spatev1.RunRunning)
	expect(t, answerLimit, r, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	if meta.FindStatusCondition(r.Status.Conditions, spatev1.ConditionReconciling) != nil {
		t.Error("a run without an end that sends is not current")
	}
	patched(t, r, `{"spec":{"paused":true}}`)
	until(t, answerLimit, "it is paused", func() (bool, string) { must(t, get(r)); return r.Status.Paused, "" })
	settled := func() int64 {
		time.Sleep(2500 * time.Millisecond) // two samples
		must(t, get(r))
		return r.Status.Result.Tx
	}
	until(t, runLimit, "it sends nothing", func() (bool, string) {
		before, after := settled(), settled()
		return before == after && before > 0, fmt.Sprint(before, " packets, then ", after)
	})
	patched(t, r, `{"spec":{"paused":false,"overrides":{"rate":"5kpps"}}}`)
	until(t, answerLimit, "it sends at five times its rate", func() (bool, string) {
		must(t, get(r))
		return !r.Status.Paused && r.Status.RateFactor == "5", r.Status.RateFactor
	})
	// What the profile sends is another's now; the run goes on.
	mustApply(t, ns, loopbackProfile("long", tolerant+"  runPolicy: Manual\n  duration: 5s\n  suspend: true"))
	time.Sleep(1500 * time.Millisecond)
	if must(t, get(r)); r.Status.Phase != spatev1.RunRunning {
		t.Errorf("it has ended: %+v", r.Status.Verdict)
	}
	patched(t, r, `{"spec":{"stop":true}}`)
	hasEnded(t, runLimit, r)
	if v := r.Status.Verdict; v.Outcome != spatev1.VerdictPassed || r.Status.Result.Lost != 0 || r.Status.Result.Tx < 5000 {
		t.Errorf("%+v, %d sent, %d lost", v, r.Status.Result.Tx, r.Status.Result.Lost)
	}
	if err := cluster.kube.Patch(t.Context(), r, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"stop":false}}`))); err == nil {
		t.Error("a stopped run goes on")
	}
	if err := cluster.kube.Patch(t.Context(), r, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"overrides":{"duration":"1s"}}}`))); err == nil || !strings.Contains(err.Error(), "create another run") {
		t.Errorf("another duration: %v", err)
	}
}

func TestOtherThresholdsJudgeTheLatestRunAnewAndSendNothing(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	by := func(expression string) string {
		return loopbackProfile("judged", lenient+"  duration: 500ms\n  thresholds: [{name: sent, expression: "+expression+"}]")
	}
	mustApply(t, ns, by("result.tx == 500"))
	p := profileNamed(ns, "judged")
	first := complete(t, runLimit, p)
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet)
	mustApply(t, ns, by("result.tx > 500"))
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionFalse, spatev1.ReasonThresholdMissed, "result.tx is 500")
	mustApply(t, ns, by("result.tx >= 500"))
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet)
	mustApply(t, ns, by("result.rx >"))
	expect(t, answerLimit, p, spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec, "spec.thresholds[0].expression")
	if all := runsIn(t, ns); len(all) != 1 || all[0].UID != first.UID || !all[0].Status.TrafficStartTime.Equal(first.Status.TrafficStartTime) {
		t.Errorf("%d runs", len(all))
	}
}

func TestTheSameProfileAppliedAgainSendsNothing(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	manifest := loopbackProfile("gitops", lenient+"  duration: 200ms")
	mustApply(t, ns, manifest)
	p := profileNamed(ns, "gitops")
	complete(t, runLimit, p)
	for range 3 {
		mustApply(t, ns, manifest)
		patched(t, p, fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}},"spec":{"runHistoryLimit":%d}}`, time.Now().UnixNano(), 3+time.Now().UnixNano()%7))
		time.Sleep(500 * time.Millisecond)
	}
	if n := len(runsIn(t, ns)); n != 1 {
		t.Errorf("%d runs", n)
	}
}

func TestAScheduleStartsARunAtItsTime(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("hourly", lenient+"  duration: 300ms\n  runPolicy: Schedule\n  schedule: {cron: '* * * * *', timeZone: Europe/Berlin}"))
	p := profileNamed(ns, "hourly")
	expect(t, answerLimit, p, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	next := p.Status.NextScheduleTime
	if next == nil || time.Until(next.Time) > time.Minute || next.Second() != 0 || len(runsIn(t, ns)) > 0 {
		t.Fatalf("the next run is due at %v, %d were started", next, len(runsIn(t, ns)))
	}
	until(t, 75*time.Second, "a run is started", func() (bool, string) { return len(runsIn(t, ns)) == 1, "" })
	r := complete(t, runLimit, p)
	if late := r.CreationTimestamp.Sub(next.Time); late < 0 || late > 20*time.Second || r.Status.Result.Tx != 300 {
		t.Errorf("it was started %s after its time and sent %d", late, r.Status.Result.Tx)
	}
	if must(t, get(p)); !p.Status.LastScheduleTime.Equal(next) {
		t.Errorf("recorded %v, due was %v", p.Status.LastScheduleTime, next)
	}
	mustApply(t, ns, loopbackProfile("hourly", lenient+"  runPolicy: Schedule\n  schedule: {cron: 'at noon'}"))
	expect(t, answerLimit, p, spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec, "spec.schedule.cron", "0 2 * * *")
}
