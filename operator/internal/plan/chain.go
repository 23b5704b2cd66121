// SPDX-License-Identifier: Apache-2.0

// Which entries follow which, and which of them take turns?

package plan

import (
	spatev1 "spate.dev/api/v1alpha1"
)

// chains checks which entry starts which.
func (p checker) chains(entries []entry) {
	byName := map[spatev1.EntryName]*entry{}
	started := map[spatev1.EntryName]bool{}
	for i := range entries {
		if entries[i].by == nil {
			byName[entries[i].spec.Name] = &entries[i]
		}
	}
	all := together{}
	for i := range entries {
		e := &entries[i]
		if e.spec.Stream.Next == nil || e.by != nil { // reported with its selector
			continue
		}
		started[e.spec.Stream.Next.Entry] = true
		next := byName[e.spec.Stream.Next.Entry]
		p.link(e, next)
		all.join(e, next)
	}
	for i := range entries {
		e := &entries[i]
		if e.by == nil && e.spec.Stream.Start == spatev1.StartWaiting && !started[e.spec.Name] {
			p.Add(spatev1.ReasonInvalidSpec, e.at.Child("stream", "start"), "nothing starts it: name it in the next of another entry, or leave Waiting out")
		}
	}
	p.turns(entries, all)
}

// turns checks that entries of a chain with a replay take turns: only one of them starts by itself. Their engine sends all of the chain by
// one worker, which plays a capture once at a time.
func (p checker) turns(entries []entry, all together) {
	replayed, starts := map[*entry]bool{}, map[*entry]*entry{}
	for i := range entries {
		if e := &entries[i]; e.stream != nil && e.stream.Transmit.Replay != nil {
			replayed[all.first(e)] = true
		}
	}
	for i := range entries {
		e := &entries[i]
		first := all.first(e)
		if !replayed[first] || e.spec.Stream.Start == spatev1.StartWaiting {
			continue
		}
		if one := starts[first]; one != nil {
			p.Add(spatev1.ReasonInvalidSpec, e.at.Child("stream", "start"),
				"a capture is replayed in its chain, whose entries take turns, and %q starts by itself already: set Waiting, or leave it out of the chain", one.spec.Name)
			continue
		}
		starts[first] = e
	}
}

// together are entries that start each other: by entry, another one of the same chain, and none for the one that stands for its chain.
type together map[*entry]*entry

// first returns the entry that stands for the chain of one.
func (t together) first(e *entry) *entry {
	for t[e] != nil {
		e = t[e]
	}
	return e
}

// join makes one chain of those of two entries, of which there may be no second.
func (t together) join(e, next *entry) {
	if next == nil {
		return
	}
	if a, b := t.first(e), t.first(next); a != b {
		t[b] = a
	}
}

// link checks that an entry can start another.
func (p checker) link(e, next *entry) {
	at := e.at.Child("stream", "next")
	if e.spec.Stream.Next.Loops < 0 {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("loops"), "%d: must not be negative", e.spec.Stream.Next.Loops)
	}
	if next == nil {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("entry"), "%q is no entry of the profile", e.spec.Stream.Next.Entry)
		return
	}
	if next.spec.TransmitPort != e.spec.TransmitPort {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("entry"), "%q is sent from port %s; a chain stays on one port", next.spec.Name, next.spec.TransmitPort)
	}
	if next.spec.TransmitPodGroup != e.spec.TransmitPodGroup {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("entry"), "%q is sent by other pods; a chain stays on the pods of one transmitPodGroup", next.spec.Name)
	}
	if e.stream == nil || next.stream == nil {
		return // their problems are reported elsewhere
	}
	for _, one := range []*entry{e, next} {
		if one.stream.Directed() {
			p.Add(spatev1.ReasonNotSupported, at.Child("entry"), "%q replays both directions of a capture, each from a port of its own, and a chain stays on one port; leave next out, and use startDelay", one.spec.Name)
			return
		}
	}
	if e.stream.Transmit.Endless() {
		p.Add(spatev1.ReasonInvalidSpec, at, "nothing comes after a stream without an end; use burst, or set multiBurst.bursts or replay.loops")
	}
	if len(e.stream.Copies) != len(next.stream.Copies) {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("entry"), "it has %d copies and %q has %d; copy i starts copy i, so the numbers must agree",
			len(e.stream.Copies), next.spec.Name, len(next.stream.Copies))
	}
	if e.stream.Spec.Pinned != next.stream.Spec.Pinned {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("entry"), "%q and this stream must both be pinned, or neither", next.spec.Name)
	}
	if next.stream.Transmit.Bursts == nil && next.stream.Transmit.Endless() && next.spec.Stream.Start != spatev1.StartWaiting {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("entry"), "%q has no end and starts by itself: set its start to Waiting", next.spec.Name)
	}
}
