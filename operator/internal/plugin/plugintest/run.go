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
