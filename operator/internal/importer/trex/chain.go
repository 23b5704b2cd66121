// SPDX-License-Identifier: Apache-2.0

// Which stream starts which?

package trex

import (
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
)

// noStream is the next_stream_id of streams without a next stream.
const noStream = "-1"

// link resolves the streams that are named as next.
func (in *importer) link() {
	names, ids := map[string]*importedStream{}, map[string]*importedStream{}
	for _, s := range in.streams {
		in.problems.stream = s.called
		if s.name != "" && names[s.name] != nil {
			in.problems.add(s.path+".name", "%q is another stream's name already", s.name)
		}
		if s.id != "" && ids[s.id] != nil {
			in.problems.add(s.path+".stream_id", "%s is another stream's already", s.id)
		}
		names[s.name], ids[s.id] = s, s
	}
	delete(names, "")
	delete(ids, "")
	started := map[*importedStream]bool{}
	var never []*importedStream
	for _, s := range in.streams {
		in.problems.stream = s.called
		next := in.next(s, names, ids)
		switch {
		case next == nil:
		case s.spec.Transmit.Continuous != nil:
			in.problems.add(s.path+".next", "nothing comes after a continuous stream; make it a burst")
		case next.spec.Pinned != s.spec.Pinned:
			in.problems.add(s.path+".next", "it and %s must both be sent by one core, as with core_id and latency, or neither", next.called)
		case s.count == 1:
			// TRex counts the ends of the stream itself, and starts the next stream at all but the last.
			never = append(never, next)
		default:
			s.entry.Stream.Next = &spatev1.NextEntry{Entry: next.entry.Name}
			if s.count > 1 {
				s.entry.Stream.Next.Loops = int64(s.count) - 1
			}
			started[next] = true
		}
	}
	for _, s := range in.streams {
		if s.entry.Stream.Start != spatev1.StartWaiting || started[s] {
			continue
		}
		in.problems.stream, in.notes.stream = s.called, s.called
		if !slices.Contains(never, s) {
			in.problems.add(s.path+".self_start", "is false, and no stream names it as its next")
			continue
		}
		s.entry.Stream.Start, s.entry.Paused = "", true
		in.notes.addAt(s.path+".self_start", "is false, and the action_count of 1 of the stream before it never lets it start: it is paused here")
	}
}

// next finds the stream that one names as next.
func (in *importer) next(s *importedStream, names, ids map[string]*importedStream) *importedStream {
	if s.next != "" {
		if found := names[s.next]; found != nil {
			return found
		}
		in.problems.add(s.path+".next", "%q is the name of no stream", s.next)
		return nil
	}
	if s.nextID == "" || s.nextID == noStream {
		return nil
	}
	if found := ids[s.nextID]; found != nil {
		return found
	}
	in.problems.add(s.path+".next_stream_id", "%s is the stream_id of no stream", s.nextID)
	return nil
}
