// SPDX-License-Identifier: Apache-2.0

// How do UDP and TCP headers become bytes?

package packet

import (
	"encoding/binary"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	defaultSourcePort = 49152

	portL2TP     = 1701
	portGTPU     = 2152
	portVXLAN    = 4789
	portVXLANGPE = 4790
	portGeneve   = 6081
)

func (s *stack) udp(d *spatev1.UDPHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(UDP)
	h.set("sourcePort", s.optional(d.SourcePort, defaultSourcePort, 65535, at.Child("sourcePort")))
	h.set("destinationPort", s.udpDestination(d.DestinationPort, next, at.Child("destinationPort")))
	h.counted("length", s.given(d.Length, at.Child("length")), 0)
	h.summed(s.given(d.Checksum, at.Child("checksum")), sum{protocol: protocolUDP, zeroMeansAbsent: true})
	return h
}

func (s *stack) udpDestination(written *int32, next *spatev1.Header, at *field.Path) uint64 {
	switch {
	case written != nil:
		return s.number(int64(*written), 65535, at)
	case next != nil && next.VXLAN != nil && s.extended(next.VXLAN, s.behind[1:]):
		return portVXLANGPE
	case next != nil && next.VXLAN != nil:
		return portVXLAN
	case next != nil && next.Geneve != nil:
		return portGeneve
	case next != nil && next.GTPU != nil:
		return portGTPU
	case next != nil && (next.L2TP != nil || next.L2TPv3 != nil):
		return portL2TP
	}
	s.fail(field.Required(at, "only vxlan, geneve, gtpu, l2tp and l2tpv3 behind it would determine it"))
	return 0
}

var tcpFlagBits = map[spatev1.TCPFlag]uint64{
	spatev1.TCPFin: 1, spatev1.TCPSyn: 2, spatev1.TCPRst: 4, spatev1.TCPPsh: 8,
	spatev1.TCPAck: 16, spatev1.TCPUrg: 32, spatev1.TCPEce: 64, spatev1.TCPCwr: 128,
}

func (s *stack) tcp(d *spatev1.TCPHeader, at *field.Path) *header {
	h := lay(TCP)
	h.set("sourcePort", s.optional(d.SourcePort, defaultSourcePort, 65535, at.Child("sourcePort")))
	h.set("destinationPort", s.number(int64(d.DestinationPort), 65535, at.Child("destinationPort")))
	h.set("sequence", s.number(d.Sequence, 1<<32-1, at.Child("sequence")))
	h.set("acknowledgement", s.number(d.Acknowledgement, 1<<32-1, at.Child("acknowledgement")))
	h.set("window", s.optional(d.Window, 65535, 65535, at.Child("window")))
	h.set("urgentPointer", s.number(int64(d.UrgentPointer), 65535, at.Child("urgentPointer")))
	var flags uint64
	for i, flag := range d.Flags {
		bit, known := tcpFlagBits[flag]
		if !known {
			s.fail(field.NotSupported(at.Child("flags").Index(i), flag, []spatev1.TCPFlag{"FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"}))
		}
		flags |= bit
	}
	h.set("flags", flags)
	before := len(h.bytes)
	for i := range d.Options {
		s.tcpOption(h, &d.Options[i], at.Child("options").Index(i))
	}
	h.bytes = append(h.bytes[:before:before], s.words(h.bytes[before:], at.Child("options"))...)
	h.set("dataOffset", s.optional(d.DataOffset, int64(len(h.bytes)/4), 15, at.Child("dataOffset")))
	h.summed(s.given(d.Checksum, at.Child("checksum")), sum{protocol: protocolTCP})
	return h
}

// tcpOption appends an option. Fields of the first option of a kind can be located by name.
func (s *stack) tcpOption(h *header, o *spatev1.TCPOption, at *field.Path) {
	set := 0
	if o.NOP != nil {
		set, h.bytes = set+1, append(h.bytes, 1)
	}
	if o.End != nil {
		set, h.bytes = set+1, append(h.bytes, 0)
	}
	if o.MSS != nil {
		set, h.bytes = set+1, append(h.bytes, 2, 4)
		h.append("mss", 16, s.number(int64(*o.MSS), 65535, at.Child("mss")))
	}
	if o.WindowScale != nil {
		set, h.bytes = set+1, append(h.bytes, 3, 3)
		h.append("windowScale", 8, s.number(int64(*o.WindowScale), 255, at.Child("windowScale")))
	}
	if o.SACKPermitted != nil {
		set, h.bytes = set+1, append(h.bytes, 4, 2)
	}
	if len(o.SACK) > 0 {
		set, h.bytes = set+1, append(h.bytes, 5, byte(2+8*len(o.SACK)))
		for i, block := range o.SACK {
			at := at.Child("sack").Index(i)
			h.bytes = binary.BigEndian.AppendUint32(h.bytes, uint32(s.number(block.Left, 1<<32-1, at.Child("left"))))
			h.bytes = binary.BigEndian.AppendUint32(h.bytes, uint32(s.number(block.Right, 1<<32-1, at.Child("right"))))
		}
	}
	if t := o.Timestamps; t != nil {
		set, h.bytes = set+1, append(h.bytes, 8, 10)
		h.append("timestampValue", 32, s.number(t.Value, 1<<32-1, at.Child("timestamps", "value")))
		h.append("timestampEcho", 32, s.number(t.Echo, 1<<32-1, at.Child("timestamps", "echo")))
	}
	if o.Raw != "" {
		set, h.bytes = set+1, append(h.bytes, s.hex(o.Raw, at.Child("raw"))...)
	}
	if set != 1 {
		s.fail(field.Invalid(at, set, "set exactly one of nop, end, mss, windowScale, sackPermitted, sack, timestamps and raw"))
	}
}

// append adds a field with its value. If the name exists already, it keeps its location.
func (h *header) append(name string, bits int, value uint64) {
	bit := len(h.bytes) * 8
	h.bytes = append(h.bytes, make([]byte, bits/8)...)
	where := Location{bit, bits}
	where.write(h.bytes, value)
	if _, known := h.fields[name]; !known {
		h.fields[name] = where
	}
}
