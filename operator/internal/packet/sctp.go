// SPDX-License-Identifier: Apache-2.0

// How does an SCTP packet become bytes?

package packet

import (
	"encoding/binary"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	sctpChunkHeaderBytes = 4
	unfragmentedMessage  = 3 // the flags B and E
)

func (s *stack) sctp(d *spatev1.SCTPHeader, at *field.Path) *header {
	h := lay(SCTP)
	h.set("sourcePort", s.optional(d.SourcePort, defaultSourcePort, 65535, at.Child("sourcePort")))
	h.set("destinationPort", s.number(int64(d.DestinationPort), 65535, at.Child("destinationPort")))
	h.set("verificationTag", s.number(d.VerificationTag, 1<<32-1, at.Child("verificationTag")))
	if d.Checksum != nil {
		h.set("checksum", s.number(*d.Checksum, 1<<32-1, at.Child("checksum")))
	} else {
		h.sum = &sum{offset: h.fields["checksum"].Bit / 8, kind: CRC32C}
	}
	if len(d.Chunks) == 0 {
		s.fail(field.Required(at.Child("chunks"), "an SCTP packet has at least one chunk"))
	}
	h.closed = true
	for i, chunk := range d.Chunks {
		at := at.Child("chunks").Index(i)
		switch {
		case (chunk.Data != nil) == (chunk.Raw != nil):
			s.fail(field.Invalid(at, i, "set exactly one of data and raw"))
		case chunk.Raw != nil:
			s.rawChunk(h, chunk.Raw, at.Child("raw"))
		case i != len(d.Chunks)-1:
			s.fail(field.Forbidden(at.Child("data"), "only the last chunk can be data: the packet's payload belongs to it"))
		default:
			s.dataChunk(h, chunk.Data, at.Child("data"))
			h.closed = false
		}
	}
	return h
}

func (s *stack) rawChunk(h *header, d *spatev1.SCTPRawChunk, at *field.Path) {
	value := s.hex(d.Value, at.Child("value"))
	h.bytes = append(h.bytes, byte(s.number(int64(d.Type), 255, at.Child("type"))), byte(s.number(int64(d.Flags), 255, at.Child("flags"))))
	h.bytes = binary.BigEndian.AppendUint16(h.bytes, uint16(sctpChunkHeaderBytes+len(value)))
	h.bytes = append(h.bytes, value...)
	h.bytes = append(h.bytes, make([]byte, -len(value)&3)...)
}

func (s *stack) dataChunk(h *header, d *spatev1.SCTPDataChunk, at *field.Path) {
	start := len(h.bytes)
	h.append("chunkType", 8, 0)
	h.append("chunkFlags", 8, s.optional(d.Flags, unfragmentedMessage, 255, at.Child("flags")))
	h.append("chunkLength", 16, 0)
	h.append("tsn", 32, s.number(d.TSN, 1<<32-1, at.Child("tsn")))
	h.append("stream", 16, s.number(int64(d.Stream), 65535, at.Child("stream")))
	h.append("streamSequence", 16, s.number(int64(d.StreamSequence), 65535, at.Child("streamSequence")))
	h.append("payloadProtocol", 32, s.number(d.PayloadProtocol, 1<<32-1, at.Child("payloadProtocol")))
	h.counts = append(h.counts, count{offset: start + 2, from: start})
	s.align = 4 // a chunk's length does not count its padding, so none may be needed
}
