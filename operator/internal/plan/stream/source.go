// SPDX-License-Identifier: Apache-2.0

// Which stream does an entry of a profile send?

package stream

import spatev1 "spate.dev/api/v1alpha1"

// Ref returns the reference to the StatelessStream that an entry sends; nil if it sends none, or has it inline.
func Ref(e *spatev1.TrafficEntry) *spatev1.LocalReference {
	if e.Stream == nil {
		return nil
	}
	return e.Stream.Ref
}

// Selector returns that of an entry that stands for many StatelessStreams; nil for any other.
func Selector(e *spatev1.TrafficEntry) *spatev1.StreamSelector {
	if e.Stream == nil {
		return nil
	}
	return e.Stream.Selector
}

// Source returns the stream that an entry sends, and the name of the StatelessStream; nil if there is none.
func Source(e *spatev1.TrafficEntry, streams map[string]*spatev1.StatelessStream) (source *spatev1.StatelessStreamSpec, name string) {
	if e.Stream == nil {
		return nil, ""
	}
	if ref := e.Stream.Ref; ref != nil {
		if found := streams[string(ref.Name)]; found != nil {
			return sized(&found.Spec, e.Stream), string(ref.Name)
		}
		return nil, string(ref.Name)
	}
	return sized(e.Stream.Inline, e.Stream), ""
}

// sized returns the stream with the sizes of its entry, if that has any and the stream's packets can have them.
func sized(source *spatev1.StatelessStreamSpec, e *spatev1.StreamEntry) *spatev1.StatelessStreamSpec {
	if source == nil || !OverridesSizes(e) || NoSizes(source) != "" {
		return source
	}
	source = source.DeepCopy()
	source.Packet.Size, source.Packet.IMIX, source.Packet.Sizes = e.Size, e.IMIX, nil
	return source
}

// OverridesSizes reports whether an entry sets the sizes of its stream's packets.
func OverridesSizes(e *spatev1.StreamEntry) bool { return e.Size != nil || e.IMIX != "" }

// NoSizes says why the sizes of a stream's packets cannot be set; empty if they can.
func NoSizes(source *spatev1.StatelessStreamSpec) string {
	switch {
	case source.Transmit.Replay != nil:
		return "the stream replays a capture, whose packets have sizes of their own"
	case source.Packet == nil || len(source.Packet.Headers) == 0:
		return "the stream's packet is written out (packet.bytes): describe it by headers"
	}
	return ""
}

// Directed reports whether a stream replays both directions of a capture, so that it sends from its entry's receivePort, too.
func Directed(source *spatev1.StatelessStreamSpec) bool {
	return source.Transmit.Replay != nil && source.Transmit.Replay.Directions != nil
}

// MeasuresArrival reports whether a stream's packets are measured on arrival.
func MeasuresArrival(source *spatev1.StatelessStreamSpec) bool {
	return source.Measure.Flow || source.Measure.Mark != nil
}
