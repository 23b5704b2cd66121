// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestRunsAreReportedUntilTheyAreDeleted(t *testing.T) {
	run := func(name string, status spatev1.TrafficRunStatus) spatev1.TrafficRun {
		r := spatev1.TrafficRun{Status: status}
		r.Namespace, r.Name = "lab", name
		return r
	}
	resolved := &spatev1.ResolvedRun{Profile: spatev1.ProfileSnapshot{Name: "imix"}, Generator: spatev1.GeneratorSnapshot{Namespace: "rig", Name: "g"}}
	start, end := metav1.NewMicroTime(time.Unix(1000, 500e6)), metav1.NewTime(time.Unix(1010, 0))
	waiting := run("imix-3", spatev1.TrafficRunStatus{Generator: "rig/g"})
	waiting.Spec.ProfileRef = &spatev1.LocalReference{Name: "imix"}
	list := []spatev1.TrafficRun{
		run("imix-1", spatev1.TrafficRunStatus{
			Resolved: resolved, Phase: spatev1.RunComplete, TrafficStartTime: &start, CompletionTime: &end,
			Verdict: &spatev1.Verdict{
				Outcome: spatev1.VerdictFailed, Reasons: []spatev1.VerdictReason{{Reason: "ThresholdMissed"}, {Reason: "Other"}},
				Thresholds: []spatev1.ThresholdResult{{Name: "loss", Met: false}, {Name: "order", Met: true}},
			},
		}),
		run("imix-2", spatev1.TrafficRunStatus{Resolved: resolved, Phase: spatev1.RunRunning, TrafficStartTime: &start}),
		waiting,
		run("by-itself", spatev1.TrafficRunStatus{CompletionTime: &end, Phase: spatev1.RunComplete, Verdict: &spatev1.Verdict{Outcome: spatev1.VerdictInvalid, Reasons: []spatev1.VerdictReason{{Reason: "InvalidSpec"}}}}),
	}
	rate := 300.0
	RunList(list, func(r *spatev1.TrafficRun) *Target {
		if r.Name != "imix-2" {
			return nil
		}
		return &Target{Packets: 24000, Connections: &rate}
	})
	defer RunList(nil, nil)
	const want = `
# HELP spate_run_completion_timestamp_seconds When a TrafficRun ended, with the outcome of its verdict and its first reason.
# TYPE spate_run_completion_timestamp_seconds gauge
spate_run_completion_timestamp_seconds{generator="",generator_namespace="",outcome="Invalid",profile="by-itself",profile_namespace="lab",reason="InvalidSpec",run="by-itself"} 1010
spate_run_completion_timestamp_seconds{generator="g",generator_namespace="rig",outcome="Failed",profile="imix",profile_namespace="lab",reason="ThresholdMissed",run="imix-1"} 1010
# HELP spate_run_start_timestamp_seconds When the engines of a TrafficRun started to send.
# TYPE spate_run_start_timestamp_seconds gauge
spate_run_start_timestamp_seconds{generator="g",generator_namespace="rig",profile="imix",profile_namespace="lab",run="imix-1"} 1000.5
spate_run_start_timestamp_seconds{generator="g",generator_namespace="rig",profile="imix",profile_namespace="lab",run="imix-2"} 1000.5
# HELP spate_run_target_connections_per_second Connections that the clients of an active TrafficRun request, at the rate factor in force, without factors of stages and trials; 0 while it is paused.
# TYPE spate_run_target_connections_per_second gauge
spate_run_target_connections_per_second{generator="g",generator_namespace="rig",profile="imix",profile_namespace="lab",run="imix-2"} 300
# HELP spate_run_target_packets_per_second Packets that an active TrafficRun requests, of its streams and, as planned, of its templates, at the rate factor in force, without factors of stages and trials; 0 while it is paused.
# TYPE spate_run_target_packets_per_second gauge
spate_run_target_packets_per_second{generator="g",generator_namespace="rig",profile="imix",profile_namespace="lab",run="imix-2"} 24000
# HELP spate_run_threshold_met 1 if a threshold of a TrafficRun that has ended is met, else 0.
# TYPE spate_run_threshold_met gauge
spate_run_threshold_met{generator="g",generator_namespace="rig",profile="imix",profile_namespace="lab",run="imix-1",threshold="loss"} 0
spate_run_threshold_met{generator="g",generator_namespace="rig",profile="imix",profile_namespace="lab",run="imix-1",threshold="order"} 1
`
	if err := testutil.CollectAndCompare(existing, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	RunList(list[:1], func(*spatev1.TrafficRun) *Target { return nil })
	if n := testutil.CollectAndCount(existing); n != 4 {
		t.Errorf("%d samples of one run that has ended", n)
	}
}
