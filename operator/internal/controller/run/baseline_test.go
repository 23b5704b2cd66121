// SPDX-License-Identifier: Apache-2.0

package run

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/runs/storage"
)

// comparedWith makes a run one that is compared with another.
func comparedWith(baseline string) func(*spatev1.TrafficRun) {
	return func(r *spatev1.TrafficRun) {
		r.Spec.BaselineRef = &spatev1.LocalReference{Name: spatev1.ObjectName(baseline)}
	}
}

// countedOnArrival makes the packets of stream a be counted on arrival.
func countedOnArrival(p *spatev1.TrafficProfile) {
	p.Spec.Traffic[0].ReceivePort, p.Spec.Traffic[0].Stream.Inline.Measure.Flow = "loop", true
}

// endedAt is when baselines of these tests have ended.
var endedAt = metav1.NewTime(time.Unix(1_700_000_000, 0))

// hasEnded ends a run which has sent 1000 packets of stream a, and received 990.
func (l *lab) hasEnded(name string, change ...func(*spatev1.TrafficRun)) {
	l.t.Helper()
	r, counters := l.get(name), spatev1.StreamCounters{Tx: 1000, Rx: 990, Lost: 10, LossRatio: "0.01"}
	r.Status = spatev1.TrafficRunStatus{
		Phase: spatev1.RunComplete, CompletionTime: &endedAt, Verdict: verdictOf(spatev1.VerdictFailed, spatev1.ReasonThresholdMissed),
		Resolved: &spatev1.ResolvedRun{Profile: spatev1.ProfileSnapshot{Name: "p"}},
		Result:   &spatev1.RunResult{StreamCounters: counters, Duration: spatev1.MeasuredTime(time.Second), Streams: map[string]spatev1.StreamResult{"a": {StreamCounters: counters}}},
	}
	for _, c := range change {
		c(r)
	}
	must(l.t, l.c.Status().Update(l.t.Context(), r))
}

func TestARunAwaitsItsBaselineAndKeepsItsResult(t *testing.T) {
	const poll = 5 * time.Second
	l := newLab(t, append(generator("g", true), profileAt("p", "1kpps", threshold(`result.streams["a"].rx >= baseline.streams["a"].rx`), countedOnArrival, tolerates("100%")))...)
	l.run("r", "p", comparedWith("before"))
	l.waits("r", spatev1.ReasonReferenceNotFound, `spec.baselineRef: TrafficRun "before" does not exist in namespace n; create this run again`, poll)
	l.run("before", "p")
	l.waits("r", spatev1.ReasonBaselineNotComplete, `spec.baselineRef: TrafficRun "before" has not ended`, poll)
	l.hasEnded("before") // a run that has failed is compared with, too
	if woken := l.r.freed(t.Context(), l.get("before")); !slices.Contains(woken, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "n", Name: "r"}}) {
		t.Errorf("its end wakes %v", woken)
	}
	r := l.starts("r")
	b := r.Status.Resolved.Baseline
	if b == nil || b.Name != "before" || b.UID != "before-uid" || b.Profile != "p" || !b.CompletionTime.Equal(&endedAt) || b.Outcome != spatev1.VerdictFailed || len(b.Chunks) != 1 || b.Chunks[0].Name != "r-baseline-0" {
		t.Fatalf("%+v", b)
	}
	before := l.get("before")
	before.Finalizers = nil
	must(t, l.c.Update(t.Context(), before))
	must(t, l.c.Delete(t.Context(), before))
	s := &scope{r: l.r, run: r, found: &findings{}}
	must(t, s.compare(t.Context()))
	result := spatev1.RunResult{Duration: spatev1.MeasuredTime(time.Second), Streams: map[string]spatev1.StreamResult{"a": {StreamCounters: spatev1.StreamCounters{Tx: 1000, Rx: 989}}}}
	result.Tx = 1000
	v := judge(r, result, s.compared, nil, nil, "")
	if v.Outcome != spatev1.VerdictFailed || !strings.Contains(v.Reasons[0].Message, `does not hold: result.streams["a"].rx is 989, baseline.streams["a"].rx is 990`) {
		t.Errorf("%+v", v)
	}
	must(t, l.c.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r-baseline-0"}}))
	again := &scope{r: l.r, run: r, found: s.found}
	must(t, again.compare(t.Context()))
	if again.compared.result != s.compared.result {
		t.Error("the result is read again while the run has its task")
	}
	late := &scope{r: l.r, run: r}
	must(t, late.compare(t.Context()))
	v = judge(r, result, late.compared, nil, nil, "")
	if v.Outcome != spatev1.VerdictInvalid || v.Reasons[0].Reason != spatev1.ReasonThresholdUnmeasured || !strings.Contains(v.Reasons[0].Message, "the result of the baseline before is lost: ConfigMap r-baseline-0") {
		t.Errorf("%+v", v)
	}
}

func TestARunEndsThatCannotBeComparedWithItsBaseline(t *testing.T) {
	const remedy = "; create this run again with the name of a run with Valid=True and without lost pods"
	for name, c := range map[string]struct {
		expression, reason, message string
		change                      func(*spatev1.TrafficRun)
	}{
		"not valid": {"result.tx >= baseline.tx", spatev1.ReasonBaselineUnusable, `spec.baselineRef: TrafficRun "before" is no baseline: its measurement is not valid (GeneratorLimited: `, func(r *spatev1.TrafficRun) {
			r.Status.Verdict = verdictOf(spatev1.VerdictInvalid, spatev1.ReasonGeneratorLimited)
		}},
		"no verdict": {"result.tx >= baseline.tx", spatev1.ReasonBaselineUnusable, "it has no verdict" + remedy, func(r *spatev1.TrafficRun) { r.Status.Verdict = nil }},
		"no result":  {"result.tx >= baseline.tx", spatev1.ReasonBaselineUnusable, "it has no result" + remedy, func(r *spatev1.TrafficRun) { r.Status.Result = nil }},
		"lost pods": {"result.tx >= baseline.tx", spatev1.ReasonBaselineUnusable, "it has lost pods, and what these sent and received is not known: g-1" + remedy, func(r *spatev1.TrafficRun) {
			r.Status.LostPods = []spatev1.LostPod{{Name: "g-1"}}
		}},
		"a part of its result": {"result.tx >= baseline.tx", spatev1.ReasonBaselineUnusable, "the whole result was not stored: a quota" + remedy, func(r *spatev1.TrafficRun) {
			r.Status.Result.Details = &spatev1.ResultDetails{Problem: "a quota"}
		}},
		"another stream": {
			`result.streams["a"].rx >= baseline.streams["a"].rx`, spatev1.ReasonInvalidSpec,
			`spec.profileRef: TrafficProfile "p": spec.thresholds[1].expression: "result.streams[\"a\"].rx >= baseline.streams[\"a\"].rx": baseline.streams["a"]: no such key: a: streams of the baseline are b`,
			func(r *spatev1.TrafficRun) {
				r.Status.Result.Streams = map[string]spatev1.StreamResult{"b": r.Status.Result.Streams["a"]}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, append(generator("g", true), profileAt("p", "1kpps", threshold(c.expression), countedOnArrival))...)
			l.run("before", "p")
			l.hasEnded("before", c.change)
			l.run("r", "p", comparedWith("before"))
			l.ends("r", c.reason, c.message)
		})
	}
}

func TestAThresholdOnABaselineNeedsOne(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("p", "1kpps", threshold("result.tx >= baseline.tx")))...)
	l.run("r", "p")
	l.ends("r", spatev1.ReasonInvalidSpec, `spec.thresholds[1].expression: "result.tx >= baseline.tx": the run has no baseline: set spec.baselineRef to a run that has ended (kubectl spate run --baseline RUN)`)
	l.run("own", "p", func(r *spatev1.TrafficRun) {
		r.Spec.Overrides.Thresholds = []spatev1.Threshold{{Name: "t", Expression: "result.tx >= baseline.tx"}}
	})
	l.ends("own", spatev1.ReasonInvalidSpec, "spec.overrides.thresholds[0].expression: ")
}

// The whole of a large result is compared with, not only what the status has.
func TestOfALargeBaselineTheWholeIsKept(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("p", "1kpps", threshold(`baseline.streams["z"].tx == 7`)))...)
	l.run("before", "p")
	l.hasEnded("before")
	before := l.get("before")
	whole := before.Status.Result.DeepCopy()
	whole.Streams["z"] = spatev1.StreamResult{StreamCounters: spatev1.StreamCounters{Tx: 7}}
	details, err := storage.SaveResult(t.Context(), l.c, before, whole)
	must(t, err)
	before.Status.Result.Details = details
	must(t, l.c.Status().Update(t.Context(), before))
	l.run("r", "p", comparedWith("before"))
	kept, err := storage.LoadBaseline(t.Context(), l.c, l.starts("r"))
	if err != nil || kept.Streams["z"].Tx != 7 || kept.Streams["a"].Rx != 990 || kept.Details != nil {
		t.Errorf("%+v, %v", kept, err)
	}
}

func TestAResultThatCannotBeKeptIsStoredLater(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("p", "1kpps"))...)
	l.run("before", "p")
	l.hasEnded("before")
	taken := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r-baseline-0"}}
	must(t, l.c.Create(t.Context(), taken))
	l.run("r", "p", comparedWith("before"))
	l.waits("r", spatev1.ReasonAdmissionFailed, `the result of the baseline cannot be stored: keep the baseline of run r: ConfigMap "r-baseline-0" exists and is not owned by the run; delete it`, kstatus.RefusedPause)
	must(t, l.c.Delete(t.Context(), client.Object(taken)))
	l.starts("r")
}
