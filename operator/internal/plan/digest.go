// SPDX-License-Identifier: Apache-2.0

// Which changes of a profile start a new run?

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	spatev1 "spate.dev/api/v1alpha1"
)

// ProfileDigest is of all that starts a new run when it changes: everything but what withoutLive leaves out.
func ProfileDigest(profile *spatev1.TrafficProfile) string { return digest(withoutLive(&profile.Spec)) }

// withoutLive is a profile's spec without what applies to a run under way, or is no part of one. A field that is not named here starts a
// new run.
func withoutLive(spec *spatev1.TrafficProfileSpec) *spatev1.TrafficProfileSpec {
	rest := spec.DeepCopy()
	// Applied to the run under way.
	rest.Rate, rest.Paused = "", false
	for i := range rest.Traffic {
		e := &rest.Traffic[i]
		e.Paused = false
		if e.Stream != nil {
			e.Stream.Rate = ""
		}
		if e.Application != nil {
			e.Application.ConnectionRate = ""
		}
	}
	// What the latest run is judged by, whether it has ended or not.
	rest.Thresholds, rest.GeneratorTolerance = nil, spatev1.GeneratorTolerance{}
	// When it is run, and what is done about others and afterwards.
	rest.RunPolicy, rest.Schedule = "", nil
	rest.Suspend, rest.SuspendPolicy, rest.WhenBusy = false, "", ""
	rest.RunHistoryLimit, rest.TTLSecondsAfterFinished = nil, nil
	// An object of its own, whose pods are replaced when nothing runs on them.
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

// DefinitionDigest is of all of a definition: the same for the same plan, beside what it refers to.
func DefinitionDigest(profile *spatev1.TrafficProfile) string { return digest(profile.Spec) }
