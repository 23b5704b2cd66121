// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: do engines whose clocks are wrong start together, and measure the delay between them? Each engine's clock gets an
// error that the test knows (spate-engine serve --clock-error), so that the true time is known, too.

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

// clockError is by how much a clock is ahead at an instant of CLOCK_MONOTONIC, and by how much too fast it is.
type clockError struct {
	offset time.Duration
	ppm    float64
	since  int64
}

func (e clockError) argument() string {
	return fmt.Sprintf("--clock-error=%d,%g,%d", e.offset, e.ppm, e.since)
}

// at is by how much it is ahead.
func (e clockError) at(monotonic int64) time.Duration {
	return e.offset + time.Duration(e.ppm*1e-6*float64(monotonic-e.since))
}

// truth is what CLOCK_MONOTONIC has when the wrong clock has a time.
func (e clockError) truth(wrong int64) int64 {
	since := float64(wrong - e.since - int64(e.offset))
	return e.since + int64(math.Round(since/(1+e.ppm*1e-6)))
}

func monotonic(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return now.Nano()
}

// wrongClocks are ± 2 s and ± 50 ppm off.
func wrongClocks(t *testing.T) []clockError {
	now := monotonic(t)
	return []clockError{{2 * time.Second, 50, now}, {-2 * time.Second, -50, now}, {300 * time.Millisecond, 50, now}}
}

// withClocks brings the loopback generator up with a pod for each clock, whose port has another device if some are given by pod.
func withClocks(t *testing.T, clocks []clockError, devices ...string) string {
	t.Helper()
	needsEngine(t)
	ns := namespace(t)
	cluster.kubelet.adapt(ns, func(index int, args []string) []string {
		if at := slices.Index(args, "--port"); at >= 0 && index < len(devices) {
			args[at+1] = "loop=" + devices[index]
		}
		return append(args, clocks[index].argument())
	})
	mustApply(t, ns, loopbackGenerator+fmt.Sprintf("  replicas: %d\n", len(clocks))+"---"+loopbackStream)
	expect(t, readyLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	return ns
}

func TestEnginesStartTogetherAlthoughTheirClocksDiffer(t *testing.T) {
	clocks := wrongClocks(t)
	ns := withClocks(t, clocks)
	g := generatorNamed(ns, "loop")
	must(t, get(g))
	for i, pod := range g.Status.Pods {
		if pod.Clock == nil {
			t.Fatalf("%s: its clock is not in the status", pod.Name)
		}
		truth := clocks[i].at(monotonic(t))
		wrong := (time.Duration(pod.Clock.Offset) - truth).Abs()
		t.Logf("%s: reported to be %s ahead, to %s; is %s ahead", pod.Name, pod.Clock.Offset, pod.Clock.Bound, truth)
		// Since it was written it may have drifted by 50 ppm in the seconds that pass.
		if wrong > time.Duration(pod.Clock.Bound)+time.Millisecond || pod.Clock.Bound > spatev1.MeasuredTime(50*time.Millisecond) {
			t.Errorf("%s: wrong by %s", pod.Name, wrong)
		}
	}
	closest := time.Duration(math.MaxInt64)
	for i := range 3 {
		name := fmt.Sprintf("together-%d", i)
		mustApply(t, ns, loopbackProfile(name, lenient+"  rate: 3kpps\n  duration: 1s\n  thresholds: [{name: all, expression: result.rx == 3000}]"))
		r := complete(t, runLimit, profileNamed(ns, name))
		if r.Status.Verdict.Outcome != spatev1.VerdictPassed {
			t.Errorf("%+v", r.Status.Verdict)
		}
		var starts []int64
		for p, pod := range enginePods(t, ns) {
			held := heldBy(t, asOperator(t, &pod), r.Status.Resolved.RunID)
			if held == nil || held.StartedAtMonotonicNs == 0 {
				t.Fatalf("%s: %v", pod.Name, held)
			}
			starts = append(starts, clocks[p].truth(held.StartedAtMonotonicNs))
			// By its wall clock, which is as wrong, it started when the status says that the run did.
			apart := time.Unix(0, held.StartedAtNs).Sub(r.Status.TrafficStartTime.Time) - clocks[p].at(starts[p])
			if apart.Abs() > 20*time.Millisecond {
				t.Errorf("%s started %s from the run's start", pod.Name, apart)
			}
		}
		spread := time.Duration(slices.Max(starts) - slices.Min(starts))
		t.Logf("%s: started within %s", r.Name, spread)
		if spread > 5*time.Millisecond {
			t.Errorf("%s: started within %s: %v", r.Name, spread, starts)
		}
		closest = min(closest, spread)
	}
	// Clocks are compared by calls over a machine that is busy with other tests, which may prolong all of them.
	if closest > time.Millisecond {
		t.Errorf("no run started within a millisecond, the closest within %s", closest)
	}
}

// A bound that is stated and not true is found.
func TestARunDoesNotStartByWallClocksThatDifferByMoreThanStated(t *testing.T) {
	ns := withClocks(t, wrongClocks(t)[:2])
	mustApply(t, ns, loopbackGenerator+"  replicas: 2\n  clockBound: 10us\n")
	mustApply(t, ns, loopbackProfile("stated", lenient+"  duration: 1s\n"))
	r := complete(t, runLimit, profileNamed(ns, "stated"))
	if v := r.Status.Verdict; v.Outcome != spatev1.VerdictInvalid || v.Reasons[0].Reason != spatev1.ReasonStartFailed || !regexp.MustCompile(`pod loop-0 is at least (3\.99|4\.0)\d*s ahead`).MatchString(v.Reasons[0].Message) {
		t.Errorf("%+v", v)
	}
	// With one that is true, wide as it is, engines start when their own wall clocks show the instant.
	clocks := []clockError{{}, {offset: 2 * time.Millisecond}}
	ns = withClocks(t, clocks)
	mustApply(t, ns, loopbackGenerator+"  replicas: 2\n  clockBound: 20ms\n")
	mustApply(t, ns, loopbackProfile("stated", lenient+"  duration: 1s\n  thresholds: [{name: all, expression: result.rx == 1000}]"))
	r = complete(t, runLimit, profileNamed(ns, "stated"))
	if v := r.Status.Verdict; v.Outcome != spatev1.VerdictPassed {
		t.Errorf("%+v", v)
	}
	var starts []int64
	for _, pod := range enginePods(t, ns) {
		starts = append(starts, heldBy(t, asOperator(t, &pod), r.Status.Resolved.RunID).StartedAtNs)
	}
	if len(starts) != 2 || starts[0] != starts[1] {
		t.Errorf("%v", starts)
	}
}

// Packets go from each engine to the other. Their true delay is not known, but it is positive and far from the 4 s that the clocks differ by;
// and that of each direction is wrong by the error of the clocks in the other sense.
func TestDelaysBetweenPodsWhoseClocksDifferAreTrueToTheBound(t *testing.T) {
	near, far := veth(t)
	clocks := wrongClocks(t)[:2]
	ns := withClocks(t, clocks, "kernel:"+near, "kernel:"+far)
	mustApply(t, ns, strings.Replace(loopbackStream, "measure: {flow: true}", "measure: {flow: true, latency: true}", 1))
	const spec = lenient + "  rate: 200pps\n  duration: 8s\n  drain: 1s\n"
	mustApply(t, ns, loopbackProfile("read", spec+`  thresholds: [{name: soon, expression: 'result.streams["small"].latency.p50 < duration("100ms")'}]`))
	r := complete(t, 2*runLimit, profileNamed(ns, "read"))
	v, l := r.Status.Verdict, r.Status.Result.Streams["small"].Latency
	if l == nil || l.OneWayUnknown || v.Outcome != spatev1.VerdictPassed || l.ClockBound != r.Status.Result.ClockBound {
		t.Fatalf("%+v, %+v", v, l)
	}
	t.Logf("bound %s, delays of %d packets from %s to %s, p50 %s; %s", l.ClockBound, l.Count, l.Min, l.Max, l.P50, v.Thresholds[0].Message)
	if l.ClockBound == 0 || l.ClockBound > spatev1.MeasuredTime(50*time.Millisecond) || !strings.Contains(v.Thresholds[0].Message, "delays between pods are exact to") {
		t.Errorf("bound %s; %s", l.ClockBound, v.Thresholds[0].Message)
	}
	for i, pod := range enginePods(t, ns) {
		c := asOperator(t, &pod)
		stats, err := c.Stats(t.Context(), r.Status.Resolved.RunID)
		must(t, err)
		d := stats.Streams[0].Measured.Latency
		t.Logf("%s: %d packets, %d before they left by its clock, from %d to %d ns, its reference is known to %d ns", pod.Name, d.Count, d.Negative, d.MinNs, d.MaxNs, stats.Run.ReferenceBoundNs)
		// Veth takes a few microseconds: what is shorter or negative is the error of the clocks, which the bound has to contain.
		if d.Count == 0 || d.FromOtherEngines == 0 || d.MinNs > uint64(l.ClockBound)+uint64(5*time.Millisecond) {
			t.Errorf("%s: %+v", pod.Name, d)
		}
		if held := heldBy(t, c, r.Status.Resolved.RunID); (held.ReferenceBoundNs == 0) != (i == 0) {
			t.Errorf("%s: bound %d ns", pod.Name, held.ReferenceBoundNs)
		}
	}
	// No threshold reads the latency, and veth is faster than the clocks are known.
	mustApply(t, ns, loopbackProfile("unread", strings.Replace(spec, "8s", "2s", 1)))
	r = complete(t, 2*runLimit, profileNamed(ns, "unread"))
	l = r.Status.Result.Streams["small"].Latency
	if reported := l.ClockBound*10 <= l.P50; reported == l.OneWayUnknown || !reported && (l.Count != 0 || l.JitterMax == 0 || !strings.Contains(l.Message, "the clocks of the pods may differ by")) {
		t.Errorf("%+v", l)
	}
}

// adapt changes the arguments of the engines of a namespace, by the pods' index among the replicas: that of a retried pod is its predecessor's.
func (k *kubelet) adapt(namespace string, change func(index int, args []string) []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.adapted[namespace] = change
}

// argumentsOf an engine's pod.
func (k *kubelet) argumentsOf(pod *corev1.Pod) []string {
	args := slices.Clone(pod.Spec.Containers[0].Args)
	if change := k.adapted[pod.Namespace]; change != nil {
		if index, err := strconv.Atoi(pod.Labels[podspec.LabelIndex]); err == nil {
			args = change(index, args)
		}
	}
	return args
}
