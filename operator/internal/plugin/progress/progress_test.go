// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/plugintest"
)

func TestARunIsDescribedInALine(t *testing.T) {
	start := time.Unix(1000, 0)
	progress := &spatev1.RunProgress{TxRate: "99.8kpps", RxRate: "99.7kpps", LossRatio: "0.001"}
	for _, c := range []struct {
		phase    spatev1.RunPhase
		at       time.Duration // since the start
		duration spatev1.Duration
		change   func(*spatev1.TrafficRunStatus)
		want     string
	}{
		{"", 0, "", func(s *spatev1.TrafficRunStatus) { *s = spatev1.TrafficRunStatus{} }, "Pending"},
		{spatev1.RunPending, 0, "", func(s *spatev1.TrafficRunStatus) {
			s.TrafficStartTime = nil
			s.Conditions = []metav1.Condition{{Type: spatev1.ConditionReady, Status: metav1.ConditionFalse, Reason: spatev1.ReasonGeneratorBusy, Message: "behind 1 run"}}
		}, "Pending (GeneratorBusy): behind 1 run"},
		{spatev1.RunPreparing, 0, "", func(s *spatev1.TrafficRunStatus) {
			s.TrafficStartTime = nil
			s.Conditions = []metav1.Condition{{Type: spatev1.ConditionReady, Status: metav1.ConditionFalse, Reason: spatev1.ReasonPreparing}}
		}, "Preparing (Preparing)"},
		{spatev1.RunWarmingUp, 3 * time.Second, "1m", nil, "WarmingUp  3s/10s"},
		{spatev1.RunRunning, 22 * time.Second, "1m", func(s *spatev1.TrafficRunStatus) { s.Progress = progress }, "Running  12s/1m0s  tx 99.8kpps  rx 99.7kpps  loss 0.001"},
		{spatev1.RunRunning, 22 * time.Second, "", nil, "Running  12s"},
		// The cluster's clock is ahead, or behind.
		{spatev1.RunRunning, -5 * time.Second, "1m", nil, "Running  0s/1m0s"},
		{spatev1.RunRunning, time.Hour, "1m", nil, "Running  1m0s/1m0s"},
		{spatev1.RunRunning, 22 * time.Second, "1m", func(s *spatev1.TrafficRunStatus) {
			s.Paused, s.Progress = true, &spatev1.RunProgress{Stage: "spike (3/4)", ConnectionRate: "1kcps"}
		}, "Running (paused)  12s/1m0s  stage spike (3/4)  connections 1kcps"},
		{spatev1.RunDraining, time.Hour, "1m", nil, "Draining  1m0s/1m0s"},
		{spatev1.RunComplete, time.Hour, "1m", func(s *spatev1.TrafficRunStatus) { s.Verdict = &spatev1.Verdict{Outcome: spatev1.VerdictFailed} }, "Complete: Failed"},
	} {
		run := plugintest.RunNamed("web-1", "web", start)
		at := metav1.NewMicroTime(start)
		run.Status = spatev1.TrafficRunStatus{Phase: c.phase, TrafficStartTime: &at, Resolved: &spatev1.ResolvedRun{Timing: spatev1.RunTiming{Warmup: "10s", Duration: c.duration}}}
		if c.change != nil {
			c.change(&run.Status)
		}
		if got := Line(run, start.Add(c.at)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
