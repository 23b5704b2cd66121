// SPDX-License-Identifier: Apache-2.0

// What does a run execute?

package plan

import (
	"cmp"
	"fmt"
	"math/big"
	"strings"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/quantity"
)

// Effective returns the profile that a run executes: the referenced one with its metadata, or the inline one, named
// after the run. It has the run's overrides, and is paused if either is. The result shares no memory with run and
// profile, which are not changed.
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
	if search := run.Spec.Search; search != nil {
		asSearched(&effective.Spec, search)
	}
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
	if by.Size == nil && by.IMIX == "" {
		return
	}
	for i := range spec.Traffic {
		if stream := spec.Traffic[i].Stream; stream != nil {
			stream.Size, stream.IMIX = by.Size, by.IMIX
		}
	}
}

// asSearched makes a profile what the trials of a search execute parts of: its greatest load, for the longest trial.
func asSearched(spec *spatev1.TrafficProfileSpec, search *spatev1.SearchTests) {
	spec.Rate = mostOf(&search.Load)
	spec.Duration, spec.Warmup, spec.Drain = "1s", cmp.Or(search.Trial.RampUp, "0s"), cmp.Or(search.Trial.Drain, "2s")
	spec.RampUp, spec.RampUpStep, spec.Stages, spec.Thresholds, spec.WhenPodLost = search.Trial.RampUp, "", nil, nil, spatev1.PodLossAbort
}

// mostOf is the rate of a search's greatest load. Open connections are opened within a time.
func mostOf(search *spatev1.SearchLoad) spatev1.ScaledRate {
	most := cmp.Or(search.Max, "100%/port")
	ramp, wrong := search.Ramp.Parse()
	connections, err := quantity.ParseSearchRate(most)
	if wrong != nil || err != nil || ramp <= 0 || connections.Unit != quantity.OpenConnections {
		return spatev1.ScaledRate(most)
	}
	const digits = 12
	perSecond := new(big.Rat).Quo(connections.Value, new(big.Rat).SetFrac64(int64(ramp), int64(time.Second)))
	return spatev1.ScaledRate(perSecond.FloatString(digits) + "cps")
}

// OfRun returns the problems of the profile that a run executes (Effective) with paths of the run: its overrides, its
// inline profile, or its reference to the profile.
func OfRun(problems problem.Problems, run *spatev1.TrafficRun) problem.Problems {
	all := make(problem.Problems, len(problems))
	for i, problem := range problems {
		all[i] = problem
		rest := strings.TrimPrefix(problem.Path, "spec")
		switch ref := run.Spec.ProfileRef; {
		case run.Spec.Search != nil && rest == ".rate":
			all[i].Path = "spec.search.load.max"
		case overridden(&run.Spec.Overrides, rest):
			all[i].Path = "spec.overrides" + rest
		case run.Spec.Profile != nil:
			all[i].Path = "spec.profile" + rest
		case ref != nil:
			all[i].Path, all[i].Message = "spec.profileRef", fmt.Sprintf("TrafficProfile %q: %s", ref.Name, problem.Error())
		}
	}
	return all
}

// overridden reports whether a run overrides a field of a profile, or a field that contains it.
func overridden(by *spatev1.RunOverrides, field string) bool {
	for name, set := range map[string]bool{
		".generatorRef": by.GeneratorRef != nil, ".rate": by.Rate != "", ".duration": by.Duration != "", ".warmup": by.Warmup != "",
		".thresholds": by.Thresholds != nil, ".size": by.Size != nil, ".imix": by.IMIX != "",
	} {
		if rest, in := strings.CutPrefix(field, name); set && in && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}
