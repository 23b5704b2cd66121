// SPDX-License-Identifier: Apache-2.0

// Package progress answers: how far is a run that has not ended, and what does an object wait for?
package progress

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

// Waiting returns the reason and the message of an object's condition Ready that is False or Unknown; empty if the object is ready, or if
// the operator has not seen it.
func Waiting(conditions []metav1.Condition) (reason, message string) {
	ready := meta.FindStatusCondition(conditions, spatev1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return "", ""
	}
	return ready.Reason, ready.Message
}

// Elapsed returns the time of the run's phase that has elapsed, and its whole length: `12s/60s`, without a length `12s`. Empty before
// traffic is sent. The start is by the cluster's clock, so the time is kept within the length.
func Elapsed(run *spatev1.TrafficRun, now time.Time) string {
	status := &run.Status
	if status.TrafficStartTime == nil || status.Resolved == nil {
		return ""
	}
	elapsed, timing := now.Sub(status.TrafficStartTime.Time), status.Resolved.Timing
	warmup, _ := timing.Warmup.Parse() // absent is 0
	length, _ := timing.Duration.Parse()
	switch {
	case status.Phase == spatev1.RunWarmingUp:
		length = warmup
	case status.Phase == spatev1.RunDraining && length > 0:
		elapsed = length
	default:
		elapsed -= warmup
	}
	elapsed = max(elapsed.Round(time.Second), 0)
	if length == 0 {
		return elapsed.String()
	}
	return min(elapsed, length).String() + "/" + length.String()
}

// Line describes a run in one line: its phase, how far it is, its rates and its loss so far.
func Line(run *spatev1.TrafficRun, now time.Time) string {
	phase := run.Status.Phase
	if phase == "" {
		phase = spatev1.RunPending
	}
	if phase == spatev1.RunComplete {
		outcome := ""
		if v := run.Status.Verdict; v != nil {
			outcome = ": " + string(v.Outcome)
		}
		return string(phase) + outcome
	}
	if reason, message := Waiting(run.Status.Conditions); reason != "" && run.Status.TrafficStartTime == nil {
		return strings.TrimSuffix(fmt.Sprintf("%s (%s): %s", phase, reason, message), ": ")
	}
	parts := []string{string(phase)}
	if run.Status.Paused {
		parts[0] += " (paused)"
	}
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, strings.TrimSpace(name+" "+value))
		}
	}
	add("", Elapsed(run, now))
	if p := run.Status.Progress; p != nil {
		add("stage", p.Stage)
		add("tx", p.TxRate)
		add("rx", p.RxRate)
		add("connections", p.ConnectionRate)
		add("loss", p.LossRatio)
	}
	return strings.Join(parts, "  ")
}
