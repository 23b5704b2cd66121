// SPDX-License-Identifier: Apache-2.0

// Package preflight answers: which properties of the machine that an engine runs on limit or disturb its measurements, and what is to be
// done about them? The engine reports facts; all of them are judged here.
package preflight

// This file answers: which checks are there, and in which order are they reported?

import (
	"cmp"
	"slices"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// Maxima of the API: of the checks of a pod, and of their texts in bytes.
const (
	maxChecks   = 256
	maxSubject  = 256
	maxObserved = 512
	maxRemedy   = 1024
)

// facts are what is judged: an engine's answer, by the spec of its generator.
type facts struct {
	spec    *spatev1.TrafficGeneratorSpec
	info    *enginev1.GetInfoResponse
	machine *enginev1.Machine // nil of an engine that does not report it
}

// finding is the outcome of a check for one subject.
type finding struct {
	subject  string
	state    spatev1.PreflightState
	observed string
	remedy   string
}

// check has the name of what it looks for.
type check struct {
	name  string
	judge func(facts) []finding
}

// checks are all there are. docs/preflight.md describes each.
var checks = []check{
	{"LinkDown", linkDown},
	{"LineRateUnknown", lineRateUnknown},
	{"MTUBelow1500", mtuBelow1500},
	{"BondMemberUnused", bondMemberUnused},
	{"FunctionNotTrusted", functionNotTrusted},
	{"QueuesFewerThanWorkers", queuesFewerThanWorkers},
	{"TimestampsNotByDevice", timestampsNotByDevice},
	{"DeviceOnOtherNUMANode", deviceOnOtherNUMANode},
	{"PCIeLinkDegraded", pcieLinkDegraded},
	{"NoIOMMU", noIOMMU},
	{"PagesOnOtherNUMANode", pagesOnOtherNUMANode},
	{"MemlockLimited", memlockLimited},
	{"CPUSharedWithSibling", cpuSharedWithSibling},
	{"CPUNotIsolated", cpuNotIsolated},
	{"GovernorNotPerformance", governorNotPerformance},
	{"ClockSourceNotTSC", clockSourceNotTSC},
}

// severity orders states for reading: what is to be acted on comes first.
var severity = map[spatev1.PreflightState]int{spatev1.PreflightError: 0, spatev1.PreflightWarning: 1, spatev1.PreflightUnknown: 2, spatev1.PreflightOk: 3}

// IsFinding reports whether a check found something.
func IsFinding(c *spatev1.PreflightCheck) bool {
	return c.State == spatev1.PreflightError || c.State == spatev1.PreflightWarning
}

// Check judges what an engine reported: findings first, then what is unknown, then what is as it should be, each in the order of the
// checks. Equal facts have equal results. There is at least one check.
func Check(spec *spatev1.TrafficGeneratorSpec, info *enginev1.GetInfoResponse) []spatev1.PreflightCheck {
	f := facts{spec, info, info.GetMachine()}
	var all []spatev1.PreflightCheck
	for _, c := range checks {
		for _, found := range c.judge(f) {
			all = append(all, spatev1.PreflightCheck{
				Check: c.name, State: found.state, Subject: shortened(found.subject, maxSubject),
				Observed: shortened(found.observed, maxObserved), Remedy: shortened(found.remedy, maxRemedy),
			})
		}
	}
	slices.SortStableFunc(all, func(a, b spatev1.PreflightCheck) int { return cmp.Compare(severity[a.State], severity[b.State]) })
	return all[:min(len(all), maxChecks)]
}

// shortened truncates a text to a number of bytes without splitting a character.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}

func ok(subject, observed string) finding {
	return finding{subject, spatev1.PreflightOk, observed, ""}
}

func warning(subject, observed, remedy string) finding {
	return finding{subject, spatev1.PreflightWarning, observed, remedy}
}

func unknown(subject, why string) finding {
	return finding{subject, spatev1.PreflightUnknown, why, ""}
}
