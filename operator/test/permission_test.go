// SPDX-License-Identifier: Apache-2.0

package test

// Grants and limits hold while a run is active, and runs are made by profiles alone.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestALimitOnDestinationsStopsTheRunUnderWay(t *testing.T) {
	for name, limits := range map[string]struct{ at, lowered, words string }{
		"destinations":                 {"{allowedDestinations: [198.19.0.0/16]}", "{allowedDestinations: [10.0.0.0/8]}", "198.19.0.1"},
		"ports, where there were none": {"{maxRate: 10kpps}", "{maxRate: 10kpps, allowedPorts: ['80']}", "port 2000"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := ready(t, "  limits: "+limits.at+"\n")
			mustApply(t, ns, loopbackProfile("bounded", lenient+"  duration: 60s"))
			p := profileNamed(ns, "bounded")
			phase(t, runLimit, p, spatev1.ProfileRunning)
			if name == "destinations" { // whatever the operator remembers
				restartOperator(t)
			}
			mustApply(t, ns, loopbackGenerator+"  limits: "+limits.lowered+"\n")
			r := complete(t, runLimit, p)
			if r.Status.Verdict.Outcome != spatev1.VerdictInvalid || r.Status.Result == nil || r.Status.Result.Tx == 0 {
				t.Errorf("%+v %+v", r.Status.Verdict, r.Status.Result)
			}
			expect(t, answerLimit, p, spatev1.ConditionValid, metav1.ConditionFalse, spatev1.ReasonLimitExceeded, limits.words)
		})
	}
}

func TestALoweredRateClampsTheRunUnderWay(t *testing.T) {
	ns := ready(t, "  limits: {maxRate: 10kpps}\n")
	mustApply(t, ns, loopbackProfile("clamped", lenient+"  duration: 60s"))
	p := profileNamed(ns, "clamped")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	engine := enginePods(t, ns)[0].Status.PodIP
	// rate is what is sent a second, over two of them.
	rate := func() int64 {
		before, since := sent(engine, p.Status.CurrentRun.Name), time.Now()
		time.Sleep(2 * time.Second)
		return int64(float64(sent(engine, p.Status.CurrentRun.Name)-before) / time.Since(since).Seconds())
	}
	until(t, runLimit, "it sends at its rate", func() (bool, string) {
		full := rate()
		return full > 900 && full < 1100, fmt.Sprintf("%d of 1000 a second", full)
	})
	for _, restart := range []bool{false, true} {
		if restart { // whatever the operator remembers
			restartOperator(t)
		}
		most := map[bool]int64{false: 200, true: 100}[restart]
		mustApply(t, ns, fmt.Sprintf("%s  limits: {maxRate: %dpps}\n", loopbackGenerator, most))
		until(t, runLimit, "the engine keeps to the lower rate", func() (bool, string) {
			got := rate()
			return got > most/2 && got < most+most/2, fmt.Sprintf("%d of %d a second", got, most)
		})
		must(t, get(p))
		if p.Status.Phase != spatev1.ProfileRunning {
			t.Fatalf("the run was ended: %+v", p.Status)
		}
	}
	mustApply(t, ns, loopbackGenerator)
	until(t, runLimit, "it catches up", func() (bool, string) {
		got := rate()
		return got > 900, fmt.Sprintf("%d a second", got)
	})
	mustApply(t, ns, loopbackProfile("clamped", lenient+"  duration: 60s\n  suspend: true"))
	r := complete(t, runLimit, p)
	if r.Status.Result == nil || r.Status.Result.Throttled == 0 {
		t.Errorf("%+v", r.Status.Result)
	}
}

func TestAWiderLimitStopsNothingAndLetsARefusedRateIn(t *testing.T) {
	t.Parallel()
	ns := ready(t, "  limits: {maxRate: 2kpps, allowedDestinations: [198.19.0.0/16]}\n")
	mustApply(t, ns, loopbackProfile("growing", lenient))
	p := profileNamed(ns, "growing")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	mustApply(t, ns, loopbackProfile("growing", lenient+"  rate: 5kpps"))
	expect(t, answerLimit, p, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonLimitExceeded)
	mustApply(t, ns, loopbackGenerator+"  limits: {maxRate: 9kpps, allowedDestinations: [198.0.0.0/8]}\n")
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: p.Status.CurrentRun.Name}}
	until(t, answerLimit, "the run has the rate it was refused", func() (bool, string) {
		must(t, get(r))
		return r.Status.RateFactor == "5" && r.Status.Phase == spatev1.RunRunning, r.Status.RateFactor + " " + string(r.Status.Phase)
	})
}

func TestARevokedGrantStopsTheRunUnderWay(t *testing.T) {
	t.Parallel()
	home := ready(t, "  allowedNamespaces: {from: Selector, selector: {matchLabels: {team: blue}}}\n")
	guest := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(t)}}
	labelled := func(team string) {
		must(t, cluster.kube.Patch(t.Context(), guest, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"`+team+`"}}}`))))
	}
	labelled("blue")
	profile := func(name string) *spatev1.TrafficProfile {
		manifest := loopbackStream + "---" + loopbackProfile(name, lenient)
		p := profileNamed(guest.Name, name)
		mustApply(t, guest.Name, strings.Replace(manifest, "generatorRef: {name: loop}", "generatorRef: {name: loop, namespace: "+home+"}", 1))
		phase(t, runLimit, p, spatev1.ProfileRunning)
		return p
	}
	p := profile("by-label")
	labelled("red")
	complete(t, runLimit, p)
	expect(t, answerLimit, p, spatev1.ConditionValid, metav1.ConditionFalse, spatev1.ReasonReferenceNotAllowed, "allowedNamespaces")

	labelled("blue")
	p = profile("by-spec")
	mustApply(t, home, loopbackGenerator+"  allowedNamespaces: {from: Same}\n")
	complete(t, runLimit, p)
	expect(t, answerLimit, p, spatev1.ConditionValid, metav1.ConditionFalse, spatev1.ReasonReferenceNotAllowed, "allowedNamespaces")
}
