// SPDX-License-Identifier: Apache-2.0

// Which streams of a plan are those of an entry that has several results: one with a selector, or with both directions of a replay?

package origin

import (
	"cmp"
	"slices"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// CountedAs returns the name under which a stream is counted: copies have that of the stream that they are of.
func CountedAs(s *enginev1.Stream) string { return cmp.Or(s.GetGroup(), s.GetName()) }

// Directions returns the names of the streams that send the directions of a replay: the initiator's and the responder's. name is that
// of the entry, or of the StatelessStream that it selects.
func Directions(name string) [2]string { return [2]string{name + ofInitiator, name + ofResponder} }

const ofInitiator, ofResponder = "-initiator", "-responder"

// undirected returns the name of which that of a stream was made; its own if it is no direction of a replay.
func undirected(s *enginev1.Stream) string {
	name, half := CountedAs(s), s.GetReplay().GetHalf()
	switch {
	case half == nil:
		return name
	case half.Responder:
		return strings.TrimSuffix(name, ofResponder)
	}
	return strings.TrimSuffix(name, ofInitiator)
}

// Selected returns the names under which the streams of each entry with several results are counted, in the order of the
// plan: streams have the order of the entries.
func Selected(streams []*enginev1.Stream, entries []spatev1.EntrySnapshot) map[string][]string {
	if !slices.ContainsFunc(entries, func(e spatev1.EntrySnapshot) bool { return e.Selected > 0 }) {
		return nil
	}
	all, at := map[string][]string{}, 0
	skip := func(name string) {
		for at < len(streams) && CountedAs(streams[at]) == name {
			at++
		}
	}
	for _, e := range entries {
		if e.Selected == 0 {
			skip(e.Name)
			continue
		}
		for range e.Selected {
			if at < len(streams) {
				name := CountedAs(streams[at])
				all[e.Name] = append(all[e.Name], name)
				skip(name)
			}
		}
	}
	return all
}
