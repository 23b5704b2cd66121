// SPDX-License-Identifier: Apache-2.0

// What does a run execute?

package plan

import (
	spatev1 "spate.dev/api/v1alpha1"
)

// Effective is the profile that a run executes: the referenced one with its metadata, or the one that the run describes, named after the
// run; with the run's overrides, and paused if either is. Neither run nor profile is changed, and the result shares nothing with them.
func Effective(run *spatev1.TrafficRun, profile *spatev1.TrafficProfile) *spatev1.TrafficProfile {
	effective := &spatev1.TrafficProfile{}
	if run.Spec.Profile != nil {
		effective.Namespace, effective.Name = run.Namespace, run.Name
		run.Spec.Profile.DeepCopyInto(&effective.Spec.TrafficDefinition)
	} else {
		profile.ObjectMeta.DeepCopyInto(&effective.ObjectMeta)
		profile.Spec.DeepCopyInto(&effective.Spec)
	}
	override(&effective.Spec, run.Spec.Overrides.DeepCopy())
	effective.Spec.Paused = effective.Spec.Paused || run.Spec.Paused
	return effective
}

func override(spec *spatev1.TrafficProfileSpec, by *spatev1.RunOverrides) {
	if by.GeneratorRef != nil {
		spec.GeneratorRef, spec.Generator = by.GeneratorRef, nil
	}
	if by.Rate != "" {
		spec.Rate = by.Rate
	}
	if by.Duration != "" {
		spec.Duration = by.Duration
	}
	if by.Warmup != "" {
		spec.Warmup = by.Warmup
	}
	if by.Thresholds != nil {
		spec.Thresholds = by.Thresholds
	}
}
