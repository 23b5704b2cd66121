// SPDX-License-Identifier: Apache-2.0

// Which entries does the profile of the streams have?

package trex

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	// mostStreams of a profile, and of its entries. An entry that selects streams has many.
	mostStreams = 1 << 16
	mostEntries = 512
	// mostSelecting is the maximum number of entries that select streams: streams are received or not, and paused or not.
	mostSelecting = 4
)

// Labels of imported streams that an entry selects: the import, and the entry.
const (
	labelImport = "spate.dev/import"
	labelEntry  = "spate.dev/entry"
)

// profile returns a profile with all streams: with an entry for each, or, if they are more than a profile has entries,
// with entries that select those that stand in no chain by their labels.
func (in *importer) profile() *spatev1.TrafficProfile {
	made := &spatev1.TrafficProfile{
		TypeMeta:   metav1.TypeMeta{APIVersion: spatev1.GroupVersion.String(), Kind: "TrafficProfile"},
		ObjectMeta: metav1.ObjectMeta{Name: in.name},
		Spec:       spatev1.TrafficProfileSpec{TrafficDefinition: spatev1.TrafficDefinition{GeneratorRef: &spatev1.GeneratorReference{Name: spatev1.ObjectName(in.options.Generator)}}},
	}
	if len(in.streams) <= mostEntries {
		for _, s := range in.streams {
			made.Spec.Traffic = append(made.Spec.Traffic, s.entry)
		}
		return made
	}
	chained := in.inChains()
	made.Spec.Traffic = append(in.selecting(chained), in.chained(chained)...)
	return made
}

// inChains returns the streams that start others, or are started by them.
func (in *importer) inChains() map[*importedStream]bool {
	started := map[spatev1.EntryName]bool{}
	for _, s := range in.streams {
		if s.entry.Stream.Next != nil {
			started[s.entry.Stream.Next.Entry] = true
		}
	}
	all := map[*importedStream]bool{}
	for _, s := range in.streams {
		all[s] = s.entry.Stream.Next != nil || started[s.entry.Name] || s.entry.Stream.Start == spatev1.StartWaiting
	}
	return all
}

// chained returns the entries of streams that start each other.
func (in *importer) chained(chained map[*importedStream]bool) (entries []spatev1.TrafficEntry) {
	for _, s := range in.streams {
		if chained[s] {
			entries = append(entries, s.entry)
		}
	}
	if most := mostEntries - mostSelecting; len(entries) > most {
		in.problems.stream = ""
		in.problems.add("$", "%d of the %d streams start each other, each an entry of its own, and of more than %d streams at most %d can", len(entries), len(in.streams), mostEntries, most)
	}
	return entries
}

// selecting returns the entries that select the other streams, and labels these.
func (in *importer) selecting(chained map[*importedStream]bool) (entries []spatev1.TrafficEntry) {
	type kind struct {
		receive spatev1.PortName
		paused  bool
	}
	places := map[kind]int{}
	for _, s := range in.streams {
		if chained[s] {
			continue
		}
		of := kind{s.entry.ReceivePort, s.entry.Paused}
		at, known := places[of]
		if !known {
			name := "streams"
			if of.receive != "" {
				name = "measured"
			}
			if of.paused {
				name += "-paused"
			}
			e := s.entry
			e.Name = spatev1.EntryName(in.entries.unique(name, len(in.streams)+1))
			e.Stream = &spatev1.StreamEntry{Selector: &spatev1.StreamSelector{MatchLabels: map[string]string{labelImport: in.name, labelEntry: string(e.Name)}, Count: new(int32)}}
			at, places[of] = len(entries), len(entries)
			entries = append(entries, e)
		}
		s.selectedBy = entries[at].Name
		*entries[at].Stream.Selector.Count++
	}
	in.notes.add("a profile has at most %d entries: the %d streams are those that its entries select by the labels %s and %s, and results have each by the name of its StatelessStream",
		mostEntries, len(in.streams), labelImport, labelEntry)
	return entries
}
