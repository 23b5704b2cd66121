// SPDX-License-Identifier: Apache-2.0

// Which streams of a plan are those of an entry with a selector?

package origin

import (
	"cmp"
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// CountedAs returns the name under which a stream is counted: copies have that of the stream that they are of.
func CountedAs(s *enginev1.Stream) string { return cmp.Or(s.GetGroup(), s.GetName()) }

// Selected returns the names under which the streams of each entry with a selector are counted, in the order of the
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
