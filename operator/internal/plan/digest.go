// SPDX-License-Identifier: Apache-2.0

// Which changes of a profile start a new run?

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	spatev1 "spate.dev/api/v1alpha1"
)

// ProfileDigest covers everything that starts a new run when it changes: all but what withoutLive removes.
func ProfileDigest(profile *spatev1.TrafficProfile) string { return digest(withoutLive(&profile.Spec)) }

// withoutLive returns a profile's spec without what applies to an active run, or is no part of a run. A field that is
// not named here starts a new run.
func withoutLive(spec *spatev1.TrafficProfileSpec) *spatev1.TrafficProfileSpec {
	rest := spec.DeepCopy()
	// Applied to the active run.
	rest.Rate, rest.Paused = "", false
	for i := range rest.Traffic {
		e := &rest.Traffic[i]
		e.Paused = false
		switch {
		case e.Stream == nil:
		case e.Stream.Selector == nil:
			e.Stream.Rate = ""
		case e.Stream.Rate != "":
			e.Stream.Rate = "any" // the streams' own rates, which differ, are not in the plan then
		}
		if e.Application != nil {
			e.Application.ConnectionRate = ""
		}
	}
	// Used to judge the latest run, whether it has ended or not.
	rest.Thresholds, rest.GeneratorTolerance = nil, spatev1.GeneratorTolerance{}
	// When it is run, and how other runs and old runs are treated.
	rest.RunPolicy, rest.Schedule = "", nil
	rest.Suspend, rest.SuspendPolicy, rest.WhenBusy, rest.WhenPodLost = false, "", "", ""
	rest.RunHistoryLimit, rest.TTLSecondsAfterFinished = nil, nil
	// An object of its own, whose pods are replaced when no run uses them.
	rest.Generator = nil
	return rest
}

func digest(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // API types always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// DefinitionDigest covers the whole spec of a definition: without changes of referenced objects, the same digest means
// the same plan.
func DefinitionDigest(profile *spatev1.TrafficProfile) string { return digest(profile.Spec) }
