// SPDX-License-Identifier: Apache-2.0

// Does traffic stop in time when a threshold or a stage ends a run early, by the counters of the router?

package suites

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// stopLimit is how long the traffic of a run may go on after what ends the run early (docs/stages.md).
const stopLimit = 1500 * time.Millisecond

// stoppedAfter fails unless the last packet arrived no earlier than an instant, and no later than the limit after it.
func stoppedAfter(t *testing.T, what string, at time.Time, arrived []time.Time) {
	t.Helper()
	if len(arrived) == 0 {
		t.Fatal("no packet arrived")
	}
	after := arrived[len(arrived)-1].Sub(at).Round(time.Millisecond)
	t.Logf("the last packet arrived %s after %s", after, what)
	if after < 0 || after > stopLimit {
		t.Errorf("want it within %s", stopLimit)
	}
}

func TestRunsThatEndEarlyStopTheirTraffic(t *testing.T) {
	ns := lab(t)
	t.Cleanup(func() { router(t, "forward") })
	// aborted starts a profile from the sample, and waits until its run is aborted.
	aborted := func(t *testing.T, name string, differs ...string) (*spate.TrafficRun, []time.Time) {
		t.Helper()
		arrived := arrivals(t, "dut-east", "udp dst port 7")
		mustApply(t, ns, sampleText(t, "stages.yaml", append([]string{
			"metadata:\n  name: stages\n", "metadata:\n  name: " + name + "\n", "  generatorRef: {name: lab}\n", "  generatorRef: {name: lab}" + behind,
			"rate: 10kpps", "rate: 1kpps", "duration: 30s, ramp: 30s", "duration: 1s, ramp: 1s",
		}, differs...)...))
		p := profileNamed(ns, name)
		run := complete(t, 40*time.Second, p)
		expect(t, condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionFalse), spate.ReasonAborted)
		time.Sleep(time.Second) // what is sent after the end is captured, too
		times := arrived()
		if run.Status.Result.Tx != int64(len(times)) {
			t.Errorf("the run sent %d packets, %d arrived at the router", run.Status.Result.Tx, len(times))
		}
		return run, times
	}
	phases := func(t *testing.T, run *spate.TrafficRun, want ...spate.StagePhase) {
		t.Helper()
		if len(run.Status.Stages) != len(want) {
			t.Fatalf("%+v, want %v", run.Status.Stages, want)
		}
		for i, stage := range run.Status.Stages {
			if stage.Phase != want[i] {
				t.Errorf("stage %d, %s: %s, want %v", i, stage.Name, stage.Phase, want)
			}
		}
	}

	t.Run("a stage that fails ends the run", func(t *testing.T) {
		router(t, "police", "900", "20")
		run, arrived := aborted(t, "stage-fails", "duration: 10m", "duration: 2s")
		stoppedAfter(t, "the end of the stage", run.Status.TrafficStartTime.Add(3*time.Second), arrived)
		expect(t, condition(t, time.Second, profileNamed(ns, "stage-fails"), spate.ConditionPassed, metav1.ConditionFalse), spate.ReasonAborted, "stage soak: threshold no-loss", "result.lost is")
		phases(t, run, spate.StagePassed, spate.StageFailed, spate.StageNotRun, spate.StageNotRun)
		if soak := run.Status.Stages[1].Result; soak == nil || soak.Lost == 0 || soak.Lost > soak.Tx/5 {
			t.Errorf("soak: %+v; the router drops a tenth", soak)
		}
	})
	t.Run("a threshold ends the run within its stage", func(t *testing.T) {
		router(t, "forward")
		router(t, "blackout", "60000")
		run, arrived := aborted(t, "threshold-fails", "abortAfter: 10s", "abortAfter: 2s")
		stoppedAfter(t, "abortAfter", run.Status.TrafficStartTime.Add(2*time.Second), arrived)
		expect(t, condition(t, time.Second, profileNamed(ns, "threshold-fails"), spate.ConditionPassed, metav1.ConditionFalse), spate.ReasonAborted, "threshold alive", "result.lossRatio is 1")
		phases(t, run, spate.StagePassed, spate.StageIncomplete, spate.StageNotRun, spate.StageNotRun)
		if run.Status.Result.Rx != 0 {
			t.Errorf("%d packets came through the router, which drops all", run.Status.Result.Rx)
		}
	})
}
