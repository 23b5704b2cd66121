// SPDX-License-Identifier: Apache-2.0

// Which connections does a run record, and in which file of which engine, if any?

package plan

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/data"
)

// checkRecords reports settings with which a profile's connections cannot be recorded.
func (p checker) checkRecords(profile *spatev1.TrafficProfile, generator *spatev1.TrafficGenerator) {
	asked, at := profile.Spec.Records, spec.Child("records")
	if asked == nil {
		return
	}
	if !slices.ContainsFunc(profile.Spec.Traffic, func(e spatev1.TrafficEntry) bool { return e.Application != nil }) {
		p.Add(spatev1.ReasonInvalidSpec, at, "no entry runs an application, whose flows could be recorded; leave it out")
	}
	p.Bounded(oneIn(asked), 1, math.MaxUint32, at.Child("oneIn"))
	if asked.MaxRecords != nil {
		p.AtLeastOne(*asked.MaxRecords, at.Child("maxRecords"))
	}
	if asked.Volume == "" {
		if asked.MaxRecords != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("maxRecords"), "applies to files, and none are written without a volume: set volume, or leave maxRecords out")
		}
		return
	}
	if generator == nil {
		return // reported once for the profile
	}
	found := slices.IndexFunc(generator.Spec.Volumes, func(v spatev1.GeneratorVolume) bool { return v.Name == asked.Volume })
	switch {
	case found < 0:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("volume"), "%q is no volume of generator %s; add it to its spec.volumes, or leave volume out: records are streamed live then", asked.Volume, generator.Name)
	case !generator.Spec.Volumes[found].Writable:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("volume"), "%q of generator %s is read-only; name one with writable: true, or none: records are streamed live then", asked.Volume, generator.Name)
	}
}

// oneIn returns the setting, or its default where no API server has set it.
func oneIn(asked *spatev1.ConnectionRecords) int64 { return cmp.Or(asked.OneIn, 1) }

// records returns a run's records for the plan, with a folder if there are files: each engine has its own file (see
// ForEngine).
func records(profile *spatev1.TrafficProfile) *enginev1.Records {
	asked := profile.Spec.Records
	if asked == nil {
		return nil
	}
	made := &enginev1.Records{OneIn: uint32(oneIn(asked))}
	if asked.Volume != "" {
		made.Path = path.Join(data.VolumesDir, string(asked.Volume))
	}
	if asked.MaxRecords != nil {
		made.Most = uint64(*asked.MaxRecords)
	}
	return made
}

// recordsFile returns the path of an engine's own file: engines may share a volume.
func recordsFile(folder, runID string, index uint32) string {
	return path.Join(folder, fmt.Sprintf("%s-%d.parquet", runID, index))
}
