// SPDX-License-Identifier: Apache-2.0

// How do headers of tunnels become bytes: GRE, VXLAN, GENEVE and GTP-U?

package packet

import (
	"encoding/binary"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	vxlanIdentifierValid = 8
	gtpuGPDU             = 255
	gtpuFixedBytes       = 8
)

func (s *stack) gre(d *spatev1.GREHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(GRE)
	h.set("protocol", s.etherType(d.Protocol, next, at.Child("protocol")))
	switch {
	case d.ChecksumPresent:
		h.flag("checksumPresent", true)
		h.extend(layout{{"checksum", 16}, {"", 16}})
		h.summed(s.given(d.Checksum, at.Child("checksum")), sum{})
	case d.Checksum != nil:
		s.fail(field.Invalid(at.Child("checksum"), *d.Checksum, "goes with checksumPresent: true"))
	}
	if d.Key != nil {
		h.flag("keyPresent", true)
		h.append("key", 32, s.number(*d.Key, 1<<32-1, at.Child("key")))
	}
	if d.Sequence != nil {
		h.flag("sequencePresent", true)
		h.append("sequence", 32, s.number(*d.Sequence, 1<<32-1, at.Child("sequence")))
	}
	return h
}

func (s *stack) vxlan(d *spatev1.VXLANHeader, at *field.Path) *header {
	h := lay(VXLAN)
	h.set("flags", s.optional(d.Flags, vxlanIdentifierValid, 255, at.Child("flags")))
	h.set("vni", s.number(int64(d.VNI), 1<<24-1, at.Child("vni")))
	return h
}

func (s *stack) geneve(d *spatev1.GeneveHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(Geneve)
	h.flag("control", d.Control)
	h.flag("critical", d.Critical)
	h.set("protocol", s.etherType(d.Protocol, next, at.Child("protocol")))
	h.set("vni", s.number(int64(d.VNI), 1<<24-1, at.Child("vni")))
	fixed := len(h.bytes)
	for i, o := range d.Options {
		at := at.Child("options").Index(i)
		value := s.hex(o.Value, at.Child("value"))
		if len(value)%4 != 0 || len(value) > 124 {
			s.fail(field.Invalid(at.Child("value"), o.Value, "must be whole words of 4 bytes, 124 bytes at most"))
			continue
		}
		h.bytes = binary.BigEndian.AppendUint16(h.bytes, uint16(s.number(int64(o.Class), 65535, at.Child("class"))))
		h.bytes = append(h.bytes, byte(s.number(int64(o.Type), 255, at.Child("type"))), byte(len(value)/4))
		h.bytes = append(h.bytes, value...)
	}
	if options := len(h.bytes) - fixed; options > 252 {
		s.fail(field.Invalid(at.Child("options"), options, "options take 252 bytes at most"))
		return h
	}
	h.set("optionsLength", uint64(len(h.bytes)-fixed)/4)
	return h
}

func (s *stack) gtpu(d *spatev1.GTPUHeader, at *field.Path) *header {
	h := lay(GTPU)
	h.set("version", 1)
	h.set("protocolType", 1)
	h.set("messageType", s.optional(d.MessageType, gtpuGPDU, 255, at.Child("messageType")))
	h.set("teid", s.number(d.TEID, 1<<32-1, at.Child("teid")))
	h.counted("length", s.given(d.Length, at.Child("length")), gtpuFixedBytes)
	h.flag("sequencePresent", d.Sequence != nil)
	h.flag("nPDUPresent", d.NPDU != nil)
	h.flag("extensionPresent", len(d.Extensions) > 0)
	if d.Sequence == nil && d.NPDU == nil && len(d.Extensions) == 0 {
		return h
	}
	h.append("sequence", 16, s.optional(d.Sequence, 0, 65535, at.Child("sequence")))
	h.append("nPDU", 8, s.optional(d.NPDU, 0, 255, at.Child("nPDU")))
	for i, e := range d.Extensions {
		at := at.Child("extensions").Index(i)
		content := s.hex(e.Content, at.Child("content"))
		if len(content)%4 != 2 || len(content) > 1018 {
			s.fail(field.Invalid(at.Child("content"), e.Content, "must be 2 bytes, or 2 and any number of 4 more, 1018 at most"))
			continue
		}
		h.bytes = append(h.bytes, byte(s.number(int64(e.Type), 255, at.Child("type"))), byte((len(content)+2)/4))
		h.bytes = append(h.bytes, content...)
	}
	h.bytes = append(h.bytes, 0) // no more extension headers
	return h
}
