// SPDX-License-Identifier: Apache-2.0

// Into which profiles are streams split when there are too many for one?

package trex

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	// mostStreams of a profile.
	mostStreams = 512
	// mostProfiles is the number of runs that an engine can have at a time.
	mostProfiles = 64
)

// profiles returns profiles with all streams: one, or as many as needed. Streams that start each other, or are counted
// by one mark, stay together.
func (in *importer) profiles() []*spatev1.TrafficProfile {
	parts := in.parts()
	if len(parts) > mostProfiles {
		in.problems.stream = ""
		in.problems.add("$", "the %d streams need %d profiles of %d streams, and an engine runs %d at a time", len(in.streams), len(parts), mostStreams, mostProfiles)
		return nil
	}
	if len(parts) > 1 {
		in.notes.tell("a profile has at most %d streams: the %d streams are in %d profiles, %s to %s, which run beside each other and start each when its generator "+
			"is ready, not at one instant", mostStreams, len(in.streams), len(parts), in.profileName(0, len(parts)), in.profileName(len(parts)-1, len(parts)))
	}
	made := make([]*spatev1.TrafficProfile, len(parts))
	for i, part := range parts {
		made[i] = &spatev1.TrafficProfile{
			TypeMeta:   metav1.TypeMeta{APIVersion: spatev1.GroupVersion.String(), Kind: "TrafficProfile"},
			ObjectMeta: metav1.ObjectMeta{Name: in.profileName(i, len(parts))},
			Spec:       spatev1.TrafficProfileSpec{TrafficDefinition: spatev1.TrafficDefinition{GeneratorRef: &spatev1.GeneratorReference{Name: spatev1.ObjectName(in.options.Generator)}}},
		}
		for _, s := range part {
			made[i].Spec.Traffic = append(made[i].Spec.Traffic, in.streams[s].entry)
		}
	}
	return made
}

// profileName returns the import's name, with a number appended where there are several profiles.
func (in *importer) profileName(index, of int) string {
	if of == 1 {
		return in.name
	}
	return in.name + "-" + strconv.Itoa(index+1)
}

// parts returns the numbers of the streams of each profile, in TRex's order.
func (in *importer) parts() (parts [][]int) {
	for _, bound := range in.bound() {
		last := len(parts) - 1
		if len(bound) > mostStreams {
			first := in.streams[bound[0]]
			in.problems.stream = first.called
			in.problems.add(first.path, "it and %d others start each other or are counted together, and must be in one profile, which has at most %d streams", len(bound)-1, mostStreams)
			continue
		}
		if last < 0 || len(parts[last])+len(bound) > mostStreams {
			parts = append(parts, nil)
			last++
		}
		parts[last] = append(parts[last], bound...)
	}
	for _, part := range parts {
		slices.Sort(part)
	}
	return parts
}

// bound returns the sets of streams that must be in one profile, ordered by their first stream.
func (in *importer) bound() (sets [][]int) {
	parents := make([]int, len(in.streams))
	for i := range parents {
		parents[i] = i
	}
	root := func(i int) int {
		for parents[i] != i {
			parents[i] = parents[parents[i]]
			i = parents[i]
		}
		return i
	}
	join := func(a, b int) { parents[max(root(a), root(b))] = min(root(a), root(b)) }
	entries, marks := map[spatev1.EntryName]int{}, map[uint32]int{}
	for i, s := range in.streams {
		entries[s.entry.Name] = i
	}
	for i, s := range in.streams {
		if s.entry.Stream.Next != nil {
			join(i, entries[s.entry.Stream.Next.Entry])
		}
		if s.mark == 0 {
			continue
		}
		if first, known := marks[s.mark]; known {
			join(i, first)
		} else {
			marks[s.mark] = i
		}
	}
	places := map[int]int{}
	for i := range in.streams {
		at, known := places[root(i)]
		if !known {
			at = len(sets)
			places[root(i)], sets = at, append(sets, nil)
		}
		sets[at] = append(sets[at], i)
	}
	return sets
}
