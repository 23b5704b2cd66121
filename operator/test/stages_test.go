// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: is a run in stages judged by stage, and does a stage or a threshold end it before its time?

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/plugin/simulate"
)

// phasesOf the stages of a run, by name.
func phasesOf(r *spatev1.TrafficRun) (all []string) {
	for _, stage := range r.Status.Stages {
		all = append(all, stage.Name+" "+string(stage.Phase))
	}
	return all
}

func TestEachStageHasItsRateItsResultAndItsVerdict(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("staged", lenient+`  stages:
  - {name: ramp, duration: 1s, ramp: 1s, rate: 2kpps}
  - {name: soak, duration: 1500ms, rate: 2kpps, thresholds: [{name: rate, expression: result.tx > 2000 && result.lost == 0}]}
  - {name: spike, duration: 500ms, rate: 5x, thresholds: [{name: few, expression: result.tx < 10}]}
  - {name: recovery, duration: 1s, rate: 0.5x, thresholds: [{name: kept, expression: 'result.lost == 0 && result.streams["small"].rx > 0'}]}
  thresholds: [{name: all, expression: result.lost == 0 && result.tx == 1000 + 3000 + 2500 + 500}]
`))
	r := complete(t, 2*runLimit, profileNamed(ns, "staged"))
	if got, want := phasesOf(r), []string{"ramp Passed", "soak Passed", "spike Failed", "recovery Passed"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	tx, lost := int64(0), int64(0)
	for _, stage := range r.Status.Stages {
		tx, lost = tx+stage.Result.Tx, lost+stage.Result.Lost
	}
	if tx != r.Status.Result.Tx || lost != r.Status.Result.Lost {
		t.Errorf("stages have %d packets of which %d are lost; the run has %+v", tx, lost, r.Status.Result.StreamCounters)
	}
	v := r.Status.Verdict
	if v.Outcome != spatev1.VerdictFailed || v.Reasons[0].Reason != spatev1.ReasonStageFailed || !strings.HasPrefix(v.Reasons[0].Message, "stage spike: threshold few: result.tx < 10 does not hold: result.tx is ") || !v.Thresholds[0].Met {
		t.Errorf("%+v", v)
	}
	if r.Status.Resolved.Timing.Duration != "4s" || r.Status.RateFactor != "5" {
		t.Errorf("%+v, %s", r.Status.Resolved.Timing, r.Status.RateFactor)
	}
}

// Stages end between packets. On a machine that is busy, engines read the counters of a stage later than that, and the run is repeated.
func TestASimulationSendsInEachStageWhatTheEnginesDo(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackTemplate)
	profile := loopbackProfile("alike", "  - {name: hello, application: {templateRef: {name: greeting}}, transmitPort: loop, receivePort: loop}\n"+lenient+`  runPolicy: Manual
  warmup: 275ms
  stages:
  - {name: calm, duration: 1s, rate: 0.02x}
  - {name: rising, duration: 1s, ramp: 500ms, rate: 0.04x}
  - {name: falling, duration: 800ms, ramp: 300ms, rate: 0.02x}
  - {name: last, duration: 500ms, rate: 0.04x}
`)
	input := strings.Join([]string{loopbackGenerator, loopbackStream, loopbackTemplate, profile}, "---\n")
	output, stderr, err := plugintest.Run(input, []string{"simulate", "-", "--pcap", filepath.Join(t.TempDir(), "out.pcap")}, simulate.NewCommand())
	if err != nil {
		t.Fatal(err, stderr)
	}
	t.Log(output)
	var want []string
	for _, line := range strings.Split(strings.TrimSpace(output), "\n")[1:] {
		fields := strings.Fields(line) // name, duration, packets, flows
		want = append(want, fields[0]+" "+fields[2]+" packets, "+fields[3]+" flows")
	}
	if len(want) != 4 || want[0] != "calm 20 packets, 2 flows" {
		t.Fatalf("simulated: %v", want)
	}
	mustApply(t, ns, profile)
	var got []string
	for range 3 {
		r := create(t, ns, "alike-", "{profileRef: {name: alike}}")
		hasEnded(t, 2*runLimit, r)
		got = nil
		for _, stage := range r.Status.Stages {
			got = append(got, fmt.Sprintf("%s %d packets, %d flows", stage.Name, stage.Result.Tx, stage.Result.FlowsEstablished))
		}
		if slices.Equal(got, want) {
			return
		}
		t.Logf("the run sent %v", got)
	}
	t.Errorf("the run sent %v, the simulation %v", got, want)
}

// abortLimit is the time from the end of a stage that fails until nothing is sent.
// With a machine of its own it is 1.5 s, which the suites in the cluster show.
const abortLimit = 5 * time.Second

func TestAStageThatFailsEndsTheRun(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("broken", tolerant+`  stages:
  - {name: fine, duration: 500ms, rate: 1x}
  - {name: bad, duration: 1s, rate: 2x, abortOnFail: true, thresholds: [{name: none, expression: result.tx == 0}]}
  - {name: long, duration: 10m, rate: 1x}
`))
	r := complete(t, 2*runLimit, profileNamed(ns, "broken"))
	if got, want := phasesOf(r), []string{"fine Passed", "bad Failed", "long NotRun"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	v := r.Status.Verdict
	if v.Outcome != spatev1.VerdictFailed || v.Reasons[0].Reason != spatev1.ReasonAborted || !strings.HasPrefix(v.Reasons[0].Message, "stage bad: threshold none: ") {
		t.Errorf("%+v", v)
	}
	// Until the engine stops, it sends 1,000 packets a second, as the next stage would.
	after, most := r.Status.Result.Tx-500-2000, int64(abortLimit/time.Millisecond)
	t.Logf("traffic ended %d ms after the stage that failed", after)
	if after < 0 || after > most {
		t.Errorf("%d packets after the stage that failed, want at most %d", after, most)
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, spatev1.ConditionComplete); c.Reason != spatev1.ReasonStopped || !strings.Contains(c.Message, "aborted: stage bad") {
		t.Errorf("%+v", c)
	}
}

func TestAThresholdAbortsARunAfterItsGrace(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("guarded", tolerant+`  stages:
  - {name: calm, duration: 1s, rate: 1x}
  - {name: storm, duration: 10m, rate: 1x}
  - {name: never, duration: 1s, rate: 1x}
  thresholds:
  - {name: lossless, expression: result.lost == 0, abort: true}
  - {name: few, expression: result.tx < 100, abort: true, abortAfter: 3s}
`))
	r := complete(t, 2*runLimit, profileNamed(ns, "guarded"))
	v := r.Status.Verdict
	if v.Outcome != spatev1.VerdictFailed || v.Reasons[0].Reason != spatev1.ReasonAborted || !strings.HasPrefix(v.Reasons[0].Message, "threshold few: result.tx < 100 does not hold") {
		t.Errorf("%+v", v)
	}
	if got, want := phasesOf(r), []string{"calm Passed", "storm Incomplete", "never NotRun"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if tx := r.Status.Result.Tx; tx < 3000 || tx > 3000+int64(abortLimit/time.Millisecond)+1000 {
		t.Errorf("%d packets were sent at 1,000 a second", tx)
	}
	storm := r.Status.Stages[1].Result
	if storm == nil || storm.Tx+r.Status.Stages[0].Result.Tx != r.Status.Result.Tx {
		t.Errorf("%+v of %d packets", storm, r.Status.Result.Tx)
	}
	stageEvents(t, r, "StageStarted calm", "StagePassed calm", "StageStarted storm", "StageIncomplete storm")
}

func TestAStageThatAbortsTheRunHasItsCountersUntilThen(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("aborted", tolerant+`  stages:
  - {name: calm, duration: 1s, rate: 1x}
  - {name: storm, duration: 10m, rate: 1x, thresholds: [{name: few, expression: result.tx < 100, abort: true, abortAfter: 1s}]}
  - {name: never, duration: 1s, rate: 1x}
`))
	r := complete(t, 2*runLimit, profileNamed(ns, "aborted"))
	if got, want := phasesOf(r), []string{"calm Passed", "storm Aborted", "never NotRun"}; !slices.Equal(got, want) {
		t.Fatalf("%v", got)
	}
	v := r.Status.Verdict
	if v.Outcome != spatev1.VerdictFailed || len(v.Reasons) != 1 || v.Reasons[0].Reason != spatev1.ReasonAborted || !strings.HasPrefix(v.Reasons[0].Message, "stage storm: threshold few: result.tx < 100 does not hold: result.tx is ") {
		t.Errorf("%+v", v)
	}
	calm, storm := r.Status.Stages[0], r.Status.Stages[1]
	if storm.Result == nil || storm.Result.Tx < 1000 || storm.Result.Lost != 0 || storm.Result.Tx != storm.Result.Rx || calm.Result.Tx+storm.Result.Tx != r.Status.Result.Tx {
		t.Errorf("%+v; the run sent %d", storm.Result, r.Status.Result.Tx)
	}
	// At 1,000 packets a second; it is known to an interval of the operator when the stage was left.
	if sent, took := storm.Result.Tx, time.Duration(storm.Result.Duration).Milliseconds(); took < sent-100 || took > sent+abortLimit.Milliseconds() {
		t.Errorf("%d packets in %d ms", sent, took)
	}
	if len(storm.Thresholds) != 1 || storm.Thresholds[0].Met {
		t.Errorf("%+v", storm.Thresholds)
	}
	stageEvents(t, r, "StageStarted calm", "StagePassed calm", "StageStarted storm", "StageAborted storm")
}

// stageEvents waits for the events of the stages of a run, each "Reason stage", and fails if there are others.
func stageEvents(t *testing.T, r *spatev1.TrafficRun, want ...string) {
	t.Helper()
	slices.Sort(want)
	until(t, answerLimit, "the events of its stages are "+strings.Join(want, ", "), func() (bool, string) {
		var all corev1.EventList
		must(t, cluster.kube.List(t.Context(), &all, client.InNamespace(r.Namespace)))
		var got []string
		for _, e := range all.Items {
			if e.InvolvedObject.UID == r.UID && strings.HasPrefix(e.Reason, "Stage") {
				got = append(got, e.Reason+" "+strings.Trim(strings.Fields(e.Message)[1], ":"))
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want), strings.Join(got, ", ")
	})
}

func TestWhatStagesCannotDoIsRefusedAtItsField(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	for name, c := range map[string]struct{ fields, message string }{
		"ramp":     {"  stages: [{name: a, duration: 1s, ramp: 2s, rate: 1x}]\n", "spec.stages[0].ramp: 2s is longer than the stage, whose duration is 1s"},
		"jitter":   {"  stages: [{name: a, duration: 1s, rate: 1x, thresholds: [{name: j, expression: \"result.streams['small'].latency.jitterMax < duration('1s')\"}]}]\n", "jitterMax is known of the whole run only"},
		"grace":    {"  duration: 1s\n  thresholds: [{name: a, expression: result.lost == 0, abortAfter: 1s}]\n", "spec.thresholds[0].abortAfter: has no effect: set abort: true too"},
		"unscaled": {"  stages: [{name: a, duration: 1s, rate: 1x}, {name: b, duration: 1s, rate: 0.0000001x}]\n", "spec.stages[1].rate"},
	} {
		mustApply(t, ns, loopbackProfile(name, lenient+c.fields))
		expect(t, answerLimit, profileNamed(ns, name), spatev1.ConditionReady, "False", spatev1.ReasonInvalidSpec, c.message)
	}
	if err := apply(t.Context(), ns, loopbackProfile("both", lenient+"  rate: 2x\n  stages: [{name: a, duration: 1s, rate: 1x}]\n")); err == nil || !strings.Contains(err.Error(), "stages have rates and durations of their own") {
		t.Errorf("%v", err)
	}
	mustApply(t, ns, loopbackProfile("fine", lenient+"  runPolicy: Manual\n  stages: [{name: a, duration: 1s, rate: 1x}]\n"))
	r := create(t, ns, "over-", "{profileRef: {name: fine}, overrides: {rate: 2x}}")
	hasEnded(t, answerLimit, r)
	if v := r.Status.Verdict; v.Outcome != spatev1.VerdictInvalid || !strings.Contains(v.Reasons[0].Message, "spec.overrides.rate: 2x: the profile has stages") {
		t.Errorf("%+v", v)
	}
}
