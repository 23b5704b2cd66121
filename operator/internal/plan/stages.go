// SPDX-License-Identifier: Apache-2.0

// At which rates, and for how long, does a profile send in each of its stages?

package plan

import (
	"math/big"
	"slices"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/quantity"
	"spate.dev/operator/internal/plan/stateful"
)

// maxStageDenominator bounds the fraction of the plan's rates that a stage has: it differs from the requested rate by less than 1e-12.
var maxStageDenominator = big.NewInt(1_000_000)

// stageTimes adds the stages of a profile to the timing of its plan.
func (p checker) stageTimes(profile *spatev1.TrafficProfile, timing *enginev1.Timing) {
	stages := profile.Spec.Stages
	if len(stages) == 0 {
		return
	}
	for _, set := range []struct {
		name  string
		value string
	}{{"rate", string(profile.Spec.Rate)}, {"duration", string(profile.Spec.Duration)}, {"rampUp", string(profile.Spec.RampUp)}} {
		if set.value != "" {
			p.Add(spatev1.ReasonInvalidSpec, spec.Child(set.name), "%s: the profile has stages, which have rates and durations of their own", set.value)
		}
	}
	total := time.Duration(0)
	for i, stage := range stages {
		at := spec.Child("stages").Index(i)
		length, ramp := p.duration(stage.Duration, at.Child("duration")), p.duration(stage.Ramp, at.Child("ramp"))
		if length == 0 {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("duration"), "must be greater than zero")
		}
		if ramp > length {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("ramp"), "%s is longer than the stage, whose duration is %s", stage.Ramp, stage.Duration)
		}
		total += length
		timing.Stages = append(timing.Stages, &enginev1.Stage{DurationNs: uint64(length), RampNs: uint64(ramp)})
	}
	timing.DurationNs = uint64(total)
}

// Length of the measured phase; 0 until stopped.
func (r *Resolved) Length() time.Duration {
	return time.Duration(r.timing.GetDurationNs())
}

// stageRates sets the rates of the stages, and returns the greatest as a factor of the entries' own rates: the plan's.
func (r *Resolved) stageRates(profile *spatev1.TrafficProfile, own load.Load, generator *spatev1.TrafficGenerator, problems *problem.Problems) *big.Rat {
	factors := make([]*big.Rat, len(profile.Spec.Stages))
	flows := stateful.Flows(r.templates)
	for i, stage := range profile.Spec.Stages {
		factor, err := load.FactorOf(spatev1.ScaledRate(stage.Rate), own, flows, generator)
		if err != nil {
			problems.Add(spatev1.ReasonInvalidSpec, spec.Child("stages").Index(i).Child("rate"), "%q: %v", stage.Rate, err)
			return nil
		}
		factors[i] = factor
	}
	greatest := slices.MaxFunc(factors, (*big.Rat).Cmp)
	for i, stage := range profile.Spec.Stages {
		ratio, err := quantity.Ratio(quantity.Nearest(new(big.Rat).Quo(factors[i], greatest), maxStageDenominator))
		if err != nil || ratio.GetNumerator() == 0 {
			problems.Add(spatev1.ReasonInvalidSpec, spec.Child("stages").Index(i).Child("rate"), "%q is less than a millionth of the greatest rate of all stages", stage.Rate)
			return nil
		}
		r.timing.Stages[i].RateFactor = ratio
		r.Stages = append(r.Stages, spatev1.ResolvedStage{
			Name: string(stage.Name), Duration: stage.Duration, RateFactor: new(big.Rat).Mul(greatest, quantity.Rational(ratio)).RatString(),
			Thresholds: stage.Thresholds, AbortOnFail: stage.AbortOnFail,
		})
	}
	return greatest
}
