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

// Source returns the stream that an entry sends, and the name of the StatelessStream; nil if there is none.
func Source(e *spatev1.TrafficEntry, streams map[string]*spatev1.StatelessStream) (source *spatev1.StatelessStreamSpec, name string) {
	if e.Stream == nil {
		return nil, ""
	}
	if ref := e.Stream.Ref; ref != nil {
		if found := streams[string(ref.Name)]; found != nil {
			return &found.Spec, string(ref.Name)
		}
		return nil, string(ref.Name)
	}
	return e.Stream.Inline, ""
}

// MeasuresArrival reports whether a stream's packets are measured on arrival.
func MeasuresArrival(source *spatev1.StatelessStreamSpec) bool {
	return source.Measure.Flow || source.Measure.Mark != nil
}
