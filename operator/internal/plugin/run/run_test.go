// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/plugintest"
)

func clientWith(t *testing.T, objects ...kube.Object) kube.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&spatev1.TrafficRun{}).WithObjects(objects...).Build()
}

func sessionOf(client kube.Client) (*session, *bytes.Buffer) {
	var said bytes.Buffer
	return &session{client: client, namespace: "tests", screen: newScreen(&said)}, &said
}

func imix(generation int64, last *spatev1.RunTrigger, conditions ...metav1.Condition) *spatev1.TrafficProfile {
	p := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "imix", UID: "1a2b3c4d", Generation: generation}}
	p.Spec.RunPolicy = spatev1.RunOnChange
	p.Status.LastTrigger, p.Status.Conditions = last, conditions
	return p
}

var imixKey = kube.ObjectKey{Namespace: "tests", Name: "imix"}

// judged is a run with a verdict.
func judged(outcome spatev1.VerdictOutcome, reason string, sent bool) *subject {
	run := plugintest.RunNamed("imix-1", "imix", time.Unix(1000, 0))
	run.Status.Phase, run.Status.Verdict = spatev1.RunComplete, &spatev1.Verdict{Outcome: outcome, Reasons: []spatev1.VerdictReason{{Reason: reason, Message: "what was found"}}}
	if sent {
		at, end := metav1.NewMicroTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(1012, 0))
		run.Status.TrafficStartTime, run.Status.CompletionTime = &at, &end
	}
	return &subject{profile: imixKey, run: run}
}

func TestTheWorstRunDecidesTheExitCode(t *testing.T) {
	passed, failed := judged(spatev1.VerdictPassed, spatev1.ReasonThresholdsMet, true), judged(spatev1.VerdictFailed, spatev1.ReasonThresholdMissed, true)
	invalid := judged(spatev1.VerdictInvalid, spatev1.ReasonGeneratorLimited, true)
	busy := judged(spatev1.VerdictInvalid, spatev1.ReasonGeneratorBusy, false)
	wrong := judged(spatev1.VerdictInvalid, spatev1.ReasonInvalidSpec, false)
	withdrawn := judged(spatev1.VerdictInvalid, spatev1.ReasonReferenceNotAllowed, true)
	interrupted := &subject{profile: imixKey, err: exit.With(exit.Interrupted, errors.New("interrupted"))}
	for _, c := range []struct {
		subjects []*subject
		want     int
	}{
		{[]*subject{passed, passed}, 0},
		{[]*subject{passed, failed}, 1},
		{[]*subject{invalid, failed}, 2},
		{[]*subject{wrong}, 2},
		{[]*subject{withdrawn}, 2},
		{[]*subject{busy, invalid}, 3},
		{[]*subject{busy, interrupted}, 130},
	} {
		if err := worst(c.subjects, (*subject).outcome); exit.Code(err) != c.want {
			t.Errorf("%d, want %d: %v", exit.Code(err), c.want, err)
		}
	}
	if err := worst([]*subject{failed}, (*subject).outcome); err.Error() != "run imix-1: Failed: what was found (ThresholdMissed)" {
		t.Error(err)
	}
}

func TestWhetherAProfileStartsItsRunByItself(t *testing.T) {
	last := func(generation int64, id string) *spatev1.RunTrigger {
		return &spatev1.RunTrigger{Generation: generation, RunID: id, Number: 4}
	}
	none := &spatev1.TrafficProfile{}
	with := func(p *spatev1.TrafficProfile, change func(*spatev1.TrafficProfileSpec)) *spatev1.TrafficProfile {
		change(&p.Spec)
		return p
	}
	manual := func(id string) func(*spatev1.TrafficProfileSpec) {
		return func(s *spatev1.TrafficProfileSpec) { s.RunPolicy, s.RunID = spatev1.RunManual, id }
	}
	another := imix(1, nil)
	another.UID = types.UID("other")
	for name, c := range map[string]struct {
		before, after *spatev1.TrafficProfile
		last          int64
		starts        bool
	}{
		"new":                        {none, imix(1, nil), 0, true},
		"unchanged":                  {imix(2, last(2, "")), imix(2, last(2, "")), 4, false},
		"unchanged, not started yet": {imix(1, nil), imix(1, nil), 0, true},
		"changed":                    {imix(2, last(2, "")), imix(3, last(2, "")), 4, true},
		"suspended":                  {none, with(imix(1, nil), func(s *spatev1.TrafficProfileSpec) { s.Suspend = true }), 0, false},
		"manual":                     {none, with(imix(1, nil), manual("")), 0, false},
		"manual with a runID":        {none, with(imix(1, nil), manual("7")), 0, true},
		"manual with another runID":  {imix(1, last(1, "7")), with(imix(2, last(1, "7")), manual("8")), 4, true},
		"manual with the same runID": {imix(1, last(1, "7")), with(imix(2, last(1, "7")), manual("7")), 4, false},
		"replaced":                   {imix(2, last(2, "")), another, 0, true},
	} {
		if last, starts := startsItself(c.before, c.after); last != c.last || starts != c.starts {
			t.Errorf("%s: %d, %t", name, last, starts)
		}
	}
}

func TestTheRunThatAProfileStartsIsFound(t *testing.T) {
	own := func(name string) *spatev1.TrafficRun {
		run := plugintest.RunNamed(name, "imix", time.Unix(1000, 0))
		controls := true
		run.OwnerReferences = []metav1.OwnerReference{{APIVersion: spatev1.GroupVersion.String(), Kind: "TrafficProfile", Name: "imix", UID: "1a2b3c4d", Controller: &controls}}
		return run
	}
	condition := func(kind string, status metav1.ConditionStatus, reason string, generation int64) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "why", ObservedGeneration: generation}
	}
	for name, c := range map[string]struct {
		profile   *spatev1.TrafficProfile
		run       string // prefix of its name
		waits     string
		err       string
		code      int
		overrides spatev1.RunOverrides
	}{
		"started":                      {profile: imix(3, &spatev1.RunTrigger{Generation: 3, Number: 5}), run: "imix-1a2b3-5"},
		"its traffic has not changed":  {profile: imix(3, &spatev1.RunTrigger{Generation: 3, Number: 4}), run: "imix-"},
		"not seen by the operator yet": {profile: imix(3, &spatev1.RunTrigger{Generation: 2, Number: 4}, condition(spatev1.ConditionReady, metav1.ConditionFalse, "Old", 2))},
		"waits":                        {profile: imix(3, &spatev1.RunTrigger{Generation: 2, Number: 4}, condition(spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonReferenceNotFound, 3)), waits: "ReferenceNotFound: why"},
		"cannot be run": {
			profile: imix(3, nil, condition(spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonInvalidSpec, 3), condition(spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec, 3)),
			err:     "profile imix: InvalidSpec: why", code: exit.Invalid,
		},
		"is refused": {
			profile: imix(3, nil, condition(spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonLimitExceeded, 3), condition(spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonLimitExceeded, 3)),
			err:     "profile imix: LimitExceeded: why", code: exit.NotRun,
		},
		"started and deleted": {profile: imix(3, &spatev1.RunTrigger{Generation: 3, Number: 6}), err: "profile imix: its run number 6 was deleted", code: exit.NotRun},
	} {
		s, _ := sessionOf(clientWith(t, c.profile, own("imix-1a2b3-4"), own("imix-1a2b3-5"), plugintest.RunNamed("imix-6", "imix", time.Unix(2000, 0))))
		sub := &subject{profile: imixKey, started: 4}
		s.look(t.Context(), sub)
		switch {
		case c.err != "" && (sub.err == nil || sub.err.Error() != c.err || exit.Code(sub.err) != c.code):
			t.Errorf("%s: %v", name, sub.err)
		case c.err == "" && sub.err != nil, (sub.run != nil) != (c.run != ""), sub.waits != c.waits:
			t.Errorf("%s: %+v", name, sub)
		case c.run != "" && !strings.HasPrefix(sub.run.Name, c.run):
			t.Errorf("%s: run %s", name, sub.run.Name)
		}
	}
}

func TestAProfileIsRunByItsName(t *testing.T) {
	profile, ttl := imix(1, nil), int32(60)
	profile.Spec.TTLSecondsAfterFinished = &ttl
	s, said := sessionOf(clientWith(t, profile))
	s.set = spatev1.RunOverrides{Rate: "2x"}
	subjects, err := s.start(t.Context(), nil, []string{"imix"})
	if err != nil || len(subjects) != 1 {
		t.Fatal(subjects, err)
	}
	run := subjects[0].run
	if run.Spec.ProfileRef.Name != "imix" || run.Spec.Overrides.Rate != "2x" || *run.Spec.TTLSecondsAfterFinished != 60 || said.String() != "trafficrun/"+run.Name+" created\n" {
		t.Errorf("%+v, %s", run, said)
	}
	if _, err := s.start(t.Context(), nil, []string{"none"}); err == nil || err.Error() != `there is no TrafficProfile "none" in namespace tests; a file is named with -f` {
		t.Error(err)
	}
}

func TestRunsAreComparedWithABaseline(t *testing.T) {
	before := plugintest.RunNamed("before", "imix", time.Unix(1000, 0))
	s, _ := sessionOf(clientWith(t, imix(1, nil), before))
	s.baseline = kube.ObjectKeyFromObject(before)
	subjects, err := s.start(t.Context(), nil, []string{"imix"})
	if err != nil || subjects[0].run.Spec.BaselineRef == nil || subjects[0].run.Spec.BaselineRef.Name != "before" {
		t.Fatal(subjects, err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "r"}, "spec": map[string]any{}}}
	if err := s.setBaseline(object); err != nil {
		t.Fatal(err)
	}
	if name, _, _ := unstructured.NestedString(object.Object, "spec", "baselineRef", "name"); name != "before" {
		t.Errorf("%v", object)
	}
	object.SetNamespace("lab")
	if err := s.setBaseline(object); err == nil || err.Error() != "--baseline: run before is in namespace "+before.Namespace+", and a run is compared with one of its own namespace (lab)" {
		t.Error(err)
	}
}

func TestAnInterruptLeavesRunsOrStopsThem(t *testing.T) {
	for stop, want := range map[bool]string{
		false: "interrupted: run imix-1: it goes on, to stop it: kubectl spate stop imix-1 -n tests",
		true:  "interrupted: run imix-1: it is being stopped",
	} {
		active := plugintest.RunNamed("imix-1", "imix", time.Unix(1000, 0))
		client := clientWith(t, active)
		s, _ := sessionOf(client)
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		sub, ended := &subject{profile: imixKey, run: active.DeepCopy()}, judged(spatev1.VerdictPassed, spatev1.ReasonThresholdsMet, true)
		s.follow(ctx, []*subject{sub, ended}, 0, stop, (*subject).hasEnded)
		if sub.err == nil || sub.err.Error() != want || exit.Code(sub.err) != exit.Interrupted || ended.err != nil {
			t.Errorf("%v, %v", sub.err, ended.err)
		}
		if err := client.Get(t.Context(), kube.ObjectKeyFromObject(active), active); err != nil || active.Spec.Stop != stop {
			t.Errorf("stop %t: %v, %v", stop, active.Spec.Stop, err)
		}
	}
}

func TestARunIsAwaitedForSoLong(t *testing.T) {
	waits := plugintest.RunNamed("imix-1", "imix", time.Unix(1000, 0))
	waits.Status.Phase = spatev1.RunPending
	waits.Status.Conditions = []metav1.Condition{{Type: spatev1.ConditionReady, Status: metav1.ConditionFalse, Reason: spatev1.ReasonGeneratorBusy, Message: "behind 1 run"}}
	gone := plugintest.RunNamed("web-1", "web", time.Unix(1000, 0))
	s, said := sessionOf(clientWith(t, waits, imix(1, nil)))
	subjects := []*subject{{profile: imixKey, run: waits.DeepCopy()}, {run: gone}, {profile: imixKey}}
	s.follow(t.Context(), subjects, 10*time.Millisecond, false, (*subject).hasEnded)
	for i, want := range []string{
		"run imix-1 has not ended within 10ms: Pending (GeneratorBusy): behind 1 run; it goes on, to stop it: kubectl spate stop imix-1 -n tests",
		"run web-1 was deleted",
		"profile imix has started no run within 10ms: the operator has not reconciled it yet",
	} {
		if err := subjects[i].err; err == nil || err.Error() != want || exit.Code(err) != exit.NotRun {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if want := "run imix-1  Pending (GeneratorBusy): behind 1 run\n"; !strings.HasPrefix(said.String(), want) {
		t.Errorf("%s, want %s", said, want)
	}
}

func TestTheJUnitReportHasACaseForEachThreshold(t *testing.T) {
	failed := judged(spatev1.VerdictFailed, spatev1.ReasonThresholdMissed, true)
	failed.run.Status.Verdict.Thresholds = []spatev1.ThresholdResult{{Name: "sent", Met: true, Message: "result.tx > 0 holds: result.tx is 9"}, {Name: "no-loss", Message: "result.lost == 0 does not hold: result.lost is 4"}}
	failed.run.Status.Stages = []spatev1.StageStatus{{Name: "soak", Thresholds: []spatev1.ThresholdResult{{Name: "few", Message: "result.tx < 5 does not hold: result.tx is 9"}}}}
	failed.run.Status.Resolved = &spatev1.ResolvedRun{
		Thresholds: []spatev1.Threshold{{Name: "sent", Expression: "result.tx > 0"}, {Name: "no-loss", Expression: "result.lost == 0", Message: "the router drops"}},
		Stages:     []spatev1.ResolvedStage{{Name: "soak", Thresholds: []spatev1.Threshold{{Name: "few", Expression: "result.tx < 5"}}}},
	}
	invalid := judged(spatev1.VerdictInvalid, spatev1.ReasonGeneratorLimited, true)
	invalid.run.Status.Resolved = &spatev1.ResolvedRun{Thresholds: []spatev1.Threshold{{Name: "sent", Expression: "result.tx > 0"}}}
	none := &subject{profile: imixKey, err: exit.With(exit.Invalid, errors.New("profile imix: InvalidSpec: why"))}
	var out bytes.Buffer
	if err := suitesOf([]*subject{failed, invalid, none}, nil).Write(&out); err != nil {
		t.Fatal(err)
	}
	want := `<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="tests/imix-1" tests="4" failures="2" errors="0">
    <testcase name="valid" classname="tests/imix-1" time="12.000"></testcase>
    <testcase name="threshold sent" classname="tests/imix-1" time="0.000">
      <system-out>result.tx &gt; 0 holds: result.tx is 9</system-out>
    </testcase>
    <testcase name="threshold no-loss" classname="tests/imix-1" time="0.000">
      <failure message="result.lost == 0 does not hold: result.lost is 4"></failure>
      <system-out>the router drops</system-out>
    </testcase>
    <testcase name="stage soak: threshold few" classname="tests/imix-1" time="0.000">
      <failure message="result.tx &lt; 5 does not hold: result.tx is 9"></failure>
    </testcase>
  </testsuite>
  <testsuite name="tests/imix-1" tests="2" failures="0" errors="1" skipped="1">
    <testcase name="valid" classname="tests/imix-1" time="12.000">
      <error message="run imix-1: Invalid: what was found (GeneratorLimited)"></error>
    </testcase>
    <testcase name="threshold sent" classname="tests/imix-1" time="0.000">
      <skipped message="not evaluated: result.tx &gt; 0"></skipped>
    </testcase>
  </testsuite>
  <testsuite name="tests/imix" tests="1" failures="0" errors="1">
    <testcase name="valid" classname="tests/imix" time="0.000">
      <error message="profile imix: InvalidSpec: why"></error>
    </testcase>
  </testsuite>
</testsuites>
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestWhatIsWrongIsReportedBeforeAnythingIsApplied(t *testing.T) {
	folder := t.TempDir()
	kubeconfig := "--kubeconfig=" + filepath.Join(folder, "none")
	streams := filepath.Join(folder, "streams.yaml")
	if err := os.WriteFile(streams, []byte(plugintest.UDP), 0o600); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(folder, "out.xml")
	for _, c := range []struct {
		args  string
		input string
		code  int
		want  string // part of the error, or of the messages
	}{
		{args: "", code: 3, want: "nothing to run: name a PROFILE or a FILE"},
		{args: "--flag", code: 3, want: "unknown flag: --flag"},
		{args: "imix --timeout 5m", code: 3, want: "--timeout, --junit and --stop-on-interrupt need --wait"},
		{args: "imix --set speed=2x", code: 3, want: "NAME is one of rate, duration, warmup, generator"},
		{args: "imix -o html", code: 3, want: "-o html: must be one of table, wide, json, yaml, csv"},
		{args: "imix --json -o yaml", code: 3, want: "--json is -o json: name one of both"},
		{args: "-f none.yaml", code: 3, want: "no such file"},
		{args: "imix " + kubeconfig, code: 3, want: "none"},
		{args: streams, code: 2, want: "nothing was applied: the files have no TrafficProfile and no TrafficRun"},
		{args: "-f ../../../../config/samples/trafficsearch.yaml", code: 2, want: "nothing was applied: a TrafficSearch creates its runs itself"},
		{args: "- --baseline before", input: plugintest.Smoke, code: 2, want: "nothing was applied: --baseline: TrafficProfile smoke starts runs by itself, which have no baseline: set spec.runPolicy: Manual, and no spec.runID"},
		{args: "- --wait --junit " + report, input: strings.Replace(plugintest.Smoke, "traffic:", "traffics:", 1), code: 2, want: "spec.traffics: unknown field"},
	} {
		_, said, err := plugintest.Run(c.input, append([]string{"run"}, strings.Fields(c.args)...), NewCommand())
		if exit.Code(err) != c.code || err == nil || !strings.Contains(err.Error()+said, c.want) {
			t.Errorf("%s: exits with %d: %v, %s", c.args, exit.Code(err), err, said)
		}
	}
	text, err := os.ReadFile(report)
	if err != nil || !strings.Contains(string(text), `<error message="nothing was applied: problems found: `) {
		t.Errorf("%v, %s", err, text)
	}
}

func TestProgressIsWrittenOverOnATerminalOnly(t *testing.T) {
	var out bytes.Buffer
	s, now := newScreen(&out), time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	steps := func() {
		s.show([]line{{"a", "Running", "a  Running 1s"}, {"b", "Pending", "b  Pending"}})
		now = now.Add(time.Second)
		s.show([]line{{"a", "Running", "a  Running 2s"}, {"b", "Running", "b  Running 1s"}})
		s.note("%s created", "c")
		now = now.Add(9 * time.Second)
		s.show([]line{{"a", "Running", "a  Running 11s"}, {"b", "Running", "b  Running 10s"}})
		s.close()
		s.note("done")
	}
	steps()
	if want := "a  Running 1s\nb  Pending\nb  Running 1s\nc created\na  Running 11s\ndone\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	s.width = func() int { return 13 }
	steps()
	up := "\x1b[1A\x1b[2K\x1b[1A\x1b[2K"
	if want := "a  Runnin...\nb  Pending\n" + up + "a  Runnin...\nb  Runnin...\n" + up + "c created\na  Runnin...\nb  Runnin...\ndone\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
