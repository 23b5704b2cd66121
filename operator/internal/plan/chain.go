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
	for i := range entries {
		e := &entries[i]
		if e.spec.Stream.Next == nil || e.by != nil { // reported with its selector
			continue
		}
		started[e.spec.Stream.Next.Entry] = true
		p.link(e, byName[e.spec.Stream.Next.Entry])
	}
	for i := range entries {
		e := &entries[i]
		if e.by == nil && e.spec.Stream.Start == spatev1.StartWaiting && !started[e.spec.Name] {
			p.Add(spatev1.ReasonInvalidSpec, e.at.Child("stream", "start"), "nothing starts it: name it in the next of another entry, or leave Waiting out")
		}
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
		if one.stream.Transmit.Replay != nil {
			p.Add(spatev1.ReasonNotSupported, at.Child("entry"), "%q replays a capture, and the engine does not chain such streams; leave next out, and use startDelay", one.spec.Name)
			return
		}
	}
	if e.stream.Transmit.Endless() {
		p.Add(spatev1.ReasonInvalidSpec, at, "nothing comes after a stream without an end; use burst, or set multiBurst.bursts")
	}
	if len(e.stream.Copies) != len(next.stream.Copies) {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("entry"), "it has %d copies and %q has %d; copy i starts copy i, so the numbers must agree",
			len(e.stream.Copies), next.spec.Name, len(next.stream.Copies))
	}
	if e.stream.Spec.Pinned != next.stream.Spec.Pinned {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("entry"), "%q and this stream must both be pinned, or neither", next.spec.Name)
	}
	if next.stream.Transmit.Bursts == nil && next.spec.Stream.Start != spatev1.StartWaiting {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("entry"), "%q is continuous and starts by itself: set its start to Waiting", next.spec.Name)
	}
}
