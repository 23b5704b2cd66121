// SPDX-License-Identifier: Apache-2.0

package test

// Outages with real engines: thresholds read the longest time without an arrival, which pauses are no part of.

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestThresholdsReadTheLongestTimeWithoutAnArrival(t *testing.T) {
	ns := ready(t, "")
	mustApply(t, ns, loopbackTemplate)
	// Beside a packet each millisecond, one each third of a second.
	const traffic = `  - {name: slow, stream: {ref: {name: small}, rate: 3pps}, transmitPort: loop, receivePort: loop}
  - {name: hello, application: {templateRef: {name: greeting}}, transmitPort: loop, receivePort: loop}
`
	mustApply(t, ns, loopbackProfile("outage", traffic+`  generatorTolerance: {late: 100%, txDropped: 50%}
  warmup: 500ms
  duration: 3s
  drain: 1s
  thresholds:
  - {name: fast, expression: 'result.streams["small"].outage.longest < duration("250ms") && result.streams["small"].outage.atLeast > duration("0s")'}
  - {name: slow, expression: 'result.streams["slow"].outage.longest >= duration("330ms") && result.streams["slow"].outage.offset < duration("3s")'}
  - {name: flows, expression: 'result.templates["hello"].client.outage.longest < duration("250ms") && result.templates["hello"].server.outage.longest < duration("250ms")'}
  - {name: impossible, expression: 'result.streams["slow"].outage.longest < duration("50ms")'}
`))
	p := profileNamed(ns, "outage")
	r := complete(t, runLimit, p)
	for _, threshold := range r.Status.Verdict.Thresholds {
		if threshold.Met == (threshold.Name == "impossible") {
			t.Errorf("%s: %s", threshold.Name, threshold.Message)
		}
	}
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionFalse, spatev1.ReasonThresholdMissed, "impossible", `result.streams["slow"].outage.longest is 3`)
	slow := r.Status.Result.Streams["slow"].Outage
	if slow == nil || slow.At == nil || slow.AtLeast != nil {
		t.Fatalf("the outage of the slow stream is %+v", slow)
	}
	// The measured phase began 500 ms after the run.
	if after := slow.At.Sub(r.Status.TrafficStartTime.Time); after < 500*time.Millisecond || after > 3500*time.Millisecond {
		t.Errorf("the outage began %s after the run, at %s", after, slow.At)
	}
}

func TestPausesOfAnEntryAreNoOutages(t *testing.T) {
	profile := func(paused string) string {
		return loopbackProfile("pauses", "  - {name: other, stream: {ref: {name: small}}, transmitPort: loop, receivePort: loop, paused: "+paused+"}\n"+lenient+`  duration: 6s
  thresholds: [{name: no-outage, expression: 'result.streams["other"].outage.longest < duration("1s")'}]`)
	}
	ns := ready(t, "")
	mustApply(t, ns, profile("false"))
	p := profileNamed(ns, "pauses")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: p.Status.CurrentRun.Name}}
	mustApply(t, ns, profile("true"))
	until(t, answerLimit, "the entry is paused", func() (bool, string) {
		must(t, get(r))
		return slices.ContainsFunc(r.Status.Entries, func(e spatev1.EntryChange) bool { return e.Name == "other" && e.Paused }), fmt.Sprintf("%+v", r.Status.Entries)
	})
	time.Sleep(1500 * time.Millisecond)
	mustApply(t, ns, profile("false"))
	r = complete(t, runLimit, p)
	other := r.Status.Result.Streams["other"]
	if other.Tx > 4700 || other.Tx < 500 {
		t.Fatalf("%d packets: the entry was not paused for 1.5 s of 6", other.Tx)
	}
	if v := r.Status.Verdict; v.Outcome != spatev1.VerdictPassed {
		t.Errorf("%+v, %+v", v, other.Outage)
	}
}

// Each pod receives its own half on a loopback: what is without an arrival is what both are.
func TestTwoEnginesHaveOneOutage(t *testing.T) {
	ns := ready(t, "  replicas: 2\n")
	mustApply(t, ns, loopbackProfile("pair", lenient+`  rate: 4pps
  duration: 4s
  thresholds: [{name: short, expression: 'result.streams["small"].outage.longest < duration("450ms") && result.streams["small"].outage.longest > duration("100ms")'}]`))
	r := complete(t, runLimit, profileNamed(ns, "pair"))
	small := r.Status.Result.Streams["small"]
	// The outage of one pod alone would be half a second.
	if v := r.Status.Verdict; len(r.Status.Resolved.Generator.Pods) != 2 || small.Rx != 16 || v.Outcome != spatev1.VerdictPassed {
		t.Errorf("%d pods, %d packets, outage %+v: %+v", len(r.Status.Resolved.Generator.Pods), small.Rx, small.Outage, v)
	}
}

func TestOutagesOfWhatIsNotMeasuredAreRefused(t *testing.T) {
	ns := ready(t, "")
	mustApply(t, ns, strings.NewReplacer("name: small", "name: uncounted", "  measure: {flow: true}\n", "").Replace(loopbackStream))
	mustApply(t, ns, loopbackProfile("uncounted", "  - {name: uncounted, stream: {ref: {name: uncounted}}, transmitPort: loop, receivePort: loop}\n"+lenient+`  duration: 1s
  thresholds: [{name: nothing, expression: 'result.streams["uncounted"].outage.longest < duration("1s")'}]`))
	expect(t, answerLimit, profileNamed(ns, "uncounted"), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec,
		"outage is not measured of stream uncounted: set measure.flow or measure.mark")
}
