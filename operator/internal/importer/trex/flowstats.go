// SPDX-License-Identifier: Apache-2.0

// How are the measurements of a TRex stream converted?

package trex

import (
	"encoding/binary"
	"math"
	"slices"

	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/packet"
)

const (
	// firstMark is the first mark of counted groups' packets, in the IPv4 identification or the IPv6 flow label.
	firstMark = 0xff00
	// latencyMark is the mark of all packets whose latency is measured.
	latencyMark = 0xffff
	mostGroups  = latencyMark - firstMark
)

// measured is what is measured of a stream.
type measured struct {
	counted, latency, tagged bool
	mark                     uint32
	// ip is the header with the mark.
	ip packet.HeaderAt
	// hasIP is true for packets that have such a header.
	hasIP bool
}

// flowStats reads the flow statistics of a stream. It marks the packet as TRex would: packets of a group have a number
// in their IP header.
func (in *importer) flowStats(s *importedStream, o *object, frame []byte) (m measured) {
	if !o.truth("enabled") {
		o.done()
		return m
	}
	group := o.whole("stream_id", 0, math.MaxUint32)
	if o.truthOr("vxlan", false) {
		o.wrong("vxlan", "marks in the inner packet of a VXLAN are not supported; marks of the outer one are")
	}
	if o.truthOr("ieee_1588", false) {
		o.wrong("ieee_1588", "time stamps of IEEE 1588 are not supported; latency is measured without")
	}
	switch kind := o.text("rule_type"); kind {
	case "stats":
		m.counted = true
	case "latency":
		m.latency = true
	case "tpg":
		m.tagged = true
		in.tpgid(o, group)
	default:
		o.wrong("rule_type", "%q is not one of stats, latency, tpg", kind)
	}
	o.done()
	if !m.counted && !m.latency && !m.tagged {
		return m
	}
	headers := packet.Inspect(frame).Headers
	at := slices.IndexFunc(headers, func(h packet.HeaderAt) bool { return h.Kind == packet.IPv4 || h.Kind == packet.IPv6 })
	if m.hasIP = at >= 0; m.tagged {
		if m.hasIP {
			m.ip = headers[at]
		}
		return m
	}
	if at < 0 {
		o.wrong("rule_type", "only IPv4 and IPv6 packets can be measured")
		return measured{}
	}
	m.ip, m.mark = headers[at], latencyMark
	if m.counted {
		m.mark = firstMark + in.group(group, s)
		if m.mark >= latencyMark {
			o.wrong("stream_id", "there are more than %d groups", mostGroups)
		}
	}
	mark(frame, m.ip, m.mark)
	return m
}

// group returns a packet group's number, in the order in which TRex starts groups. Streams of a group share it.
func (in *importer) group(id uint64, s *importedStream) uint32 {
	if s.disabled {
		return 0
	}
	at := slices.Index(in.groups, id)
	if at < 0 {
		at = len(in.groups)
		in.groups = append(in.groups, id)
	}
	return uint32(at)
}

// mark writes a mark into an IP header, and sets the lowest bit of its type of service.
func mark(frame []byte, ip packet.HeaderAt, mark uint32) {
	header := frame[ip.Offset:]
	if ip.Kind == packet.IPv6 {
		word := binary.BigEndian.Uint32(header)
		binary.BigEndian.PutUint32(header, word&^0xfffff|mark|1<<20)
		return
	}
	const tos, identification, checksum = 0, 4, 10
	sum := binary.BigEndian.Uint16(header[checksum:])
	set := func(at int, value uint16) {
		// RFC 1624: a wrong checksum stays wrong by the same difference.
		all := uint32(^sum) + uint32(^binary.BigEndian.Uint16(header[at:])) + uint32(value)
		all = all>>16 + all&0xffff
		sum = ^uint16(all>>16 + all&0xffff)
		binary.BigEndian.PutUint16(header[at:], value)
	}
	set(tos, binary.BigEndian.Uint16(header[tos:])|1)
	set(identification, uint16(mark))
	binary.BigEndian.PutUint16(header[checksum:], sum)
}

// measure sets what is measured. TRex computes no checksum over the latency data that it writes into the payload.
func (in *importer) measure(s *importedStream, m measured) {
	if m.counted && !s.disabled {
		s.mark = m.mark
	}
	switch {
	case m.counted && m.ip.Kind == packet.IPv4:
		s.spec.Measure.Mark = &spatev1.Mark{IPv4Identification: ptr.To(spatev1.IPv4MarkValue(digits(uint64(m.mark))))}
	case m.counted:
		s.spec.Measure.Mark = &spatev1.Mark{IPv6FlowLabel: ptr.To(spatev1.IPv6MarkValue(digits(uint64(m.mark))))}
	case m.latency:
		s.spec.Measure = spatev1.Measure{Flow: true, Latency: true}
		s.spec.Cache = 0 // TRex caches none of these either
		s.spec.Pinned = true
		in.payloadChecksum(s, m)
	case m.tagged:
		in.byTag(s, m)
	default:
		return
	}
	s.entry.ReceivePort = spatev1.PortName(in.options.ReceivePort)
	in.notes.addAt(s.path+".flow_stats", "its packets are expected at port %s", in.options.ReceivePort)
}

// payloadChecksum leaves the checksum over the payload as it is in the packet, unless the program updates it.
func (in *importer) payloadChecksum(s *importedStream, m measured) {
	if len(s.spec.Packet.Checksums) > 0 {
		return
	}
	if m.ip.Kind == packet.IPv4 {
		s.spec.Packet.Checksums = []spatev1.RawChecksum{{Type: spatev1.RawIPv4, Offset: int32(m.ip.Offset)}}
	}
}
