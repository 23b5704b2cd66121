// SPDX-License-Identifier: Apache-2.0

// How do headers of tunnels become bytes: GRE, VXLAN, GENEVE, GTP-U and NSH?

package packet

import (
	"encoding/binary"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	vxlanIdentifierValid = 8
	vxlanNextProtocol    = 4 // the P bit of VXLAN-GPE
	gtpuGPDU             = 255
	gtpuFixedBytes       = 8

	nextIPv4     = 1 // next protocols of NSH (RFC 8300 section 2.2) and VXLAN-GPE
	nextIPv6     = 2
	nextEthernet = 3
	nextNSH      = 4
	nextMPLS     = 5

	fixedContextBytes = 16
	mostNSHWords      = 63
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

func (s *stack) vxlan(d *spatev1.VXLANHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(VXLAN)
	flags := int64(vxlanIdentifierValid)
	if s.extended(d, s.behind) {
		flags |= vxlanNextProtocol
		h.set("nextProtocol", s.nextProtocol(d.NextProtocol, next, at.Child("nextProtocol")))
	}
	h.set("flags", s.optional(d.Flags, flags, 255, at.Child("flags")))
	h.set("vni", s.number(int64(d.VNI), 1<<24-1, at.Child("vni")))
	return h
}

// extended reports whether a VXLAN header with these headers behind it is one of VXLAN-GPE.
func (s *stack) extended(d *spatev1.VXLANHeader, behind []spatev1.Header) bool {
	return d.NextProtocol != nil || len(behind) > 0 && behind[0].Ethernet == nil
}

// nextProtocol returns the value written, or else the next header's, for NSH and VXLAN-GPE.
func (s *stack) nextProtocol(written *int32, next *spatev1.Header, at *field.Path) uint64 {
	return s.named(written, 255, next, at, func(next *spatev1.Header) uint64 {
		kind, _ := kindOf(next)
		return map[Kind]uint64{IPv4: nextIPv4, IPv6: nextIPv6, Ethernet: nextEthernet, NSH: nextNSH, MPLS: nextMPLS}[kind]
	})
}

func (s *stack) nsh(d *spatev1.NSHHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(NSH)
	h.flag("oam", d.OAM)
	h.set("ttl", s.optional(d.TTL, mostNSHWords, mostNSHWords, at.Child("ttl")))
	h.set("nextProtocol", s.nextProtocol(d.NextProtocol, next, at.Child("nextProtocol")))
	h.set("servicePathIdentifier", s.number(int64(d.ServicePathIdentifier), 1<<24-1, at.Child("servicePathIdentifier")))
	h.set("serviceIndex", s.optional(d.ServiceIndex, 255, 255, at.Child("serviceIndex")))
	h.set("mdType", 2)
	if d.FixedContext != "" {
		h.set("mdType", 1)
		s.fixedContext(h, d, at)
	}
	for i, m := range d.Metadata {
		at := at.Child("metadata").Index(i)
		value := s.hex(m.Value, at.Child("value"))
		if len(value) > 127 {
			s.fail(field.Invalid(at.Child("value"), len(value), "must be at most 127 bytes"))
			continue
		}
		h.bytes = binary.BigEndian.AppendUint16(h.bytes, uint16(s.number(int64(m.Class), 65535, at.Child("class"))))
		h.bytes = append(h.bytes, byte(s.number(int64(m.Type), 255, at.Child("type"))), byte(len(value)))
		h.bytes = append(append(h.bytes, value...), make([]byte, -len(value)&3)...)
	}
	words := len(h.bytes) / 4
	if words > mostNSHWords {
		s.fail(field.Invalid(at.Child("metadata"), len(h.bytes), "the header must be at most 252 bytes"))
		return lay(NSH)
	}
	h.set("length", uint64(words))
	return h
}

// fixedContext appends the context header of MD type 1, whose words can be located by name.
func (s *stack) fixedContext(h *header, d *spatev1.NSHHeader, at *field.Path) {
	value := s.hex(d.FixedContext, at.Child("fixedContext"))
	switch {
	case len(value) != fixedContextBytes:
		s.fail(field.Invalid(at.Child("fixedContext"), d.FixedContext, "must be 32 hex digits"))
		return
	case len(d.Metadata) > 0:
		s.fail(field.Forbidden(at.Child("metadata"), "set at most one of fixedContext and metadata"))
	}
	for i, name := range []string{"context1", "context2", "context3", "context4"} {
		h.appendBytes(name, value[4*i:4*i+4])
	}
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
