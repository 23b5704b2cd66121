// SPDX-License-Identifier: Apache-2.0

// Package plugintest answers: what do the tests of the plugin's commands share?
package plugintest

// This file answers: what does a run look like that a test needs?

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

// RunNamed returns a run of a profile in the namespace tests, with the time at which it was created.
func RunNamed(name, profile string, at time.Time) *spatev1.TrafficRun {
	run := &spatev1.TrafficRun{}
	run.Namespace, run.Name, run.CreationTimestamp = "tests", name, metav1.NewTime(at)
	run.Spec.ProfileRef = &spatev1.LocalReference{Name: spatev1.ObjectName(profile)}
	return run
}

// Sending returns a run of a profile that is in its measured phase, of 1 min, since it was created. The pod lab-0 of the generator lab executes it.
func Sending(name, profile string, since time.Time) *spatev1.TrafficRun {
	run := RunNamed(name, profile, since)
	started := metav1.NewMicroTime(since)
	run.Status.Phase, run.Status.RateFactor, run.Status.TrafficStartTime = spatev1.RunRunning, "1", &started
	run.Status.Resolved = &spatev1.ResolvedRun{Timing: spatev1.RunTiming{Duration: "1m"}}
	run.Status.Resolved.Generator = spatev1.GeneratorSnapshot{Namespace: "tests", Name: "lab", Pods: []spatev1.PodSnapshot{{Name: "lab-0", UID: "1"}}}
	return run
}
