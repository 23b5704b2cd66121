// SPDX-License-Identifier: Apache-2.0

// How do ICMP messages become bytes?

package packet

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	echoReplyV4             = 0
	echoRequestV4           = 8
	echoRequestV6           = 128
	echoReplyV6             = 129
	neighborSolicitation    = 135
	neighborAdvertisement   = 136
	optionSourceLinkLayer   = 1
	optionTargetLinkLayer   = 2
	linkLayerOptionInUnits8 = 1
)

var echoLayout = layout{{"type", 8}, {"code", 8}, {"checksum", 16}, {"identifier", 16}, {"sequence", 16}}

func (s *stack) icmpv4(d *spatev1.ICMPv4Header, at *field.Path) *header {
	h, set := lay(ICMPv4), 0
	if d.EchoRequest != nil {
		h, set = s.echo(ICMPv4, echoRequestV4, d.EchoRequest, at.Child("echoRequest")), set+1
	}
	if d.EchoReply != nil {
		h, set = s.echo(ICMPv4, echoReplyV4, d.EchoReply, at.Child("echoReply")), set+1
	}
	if d.Generic != nil {
		h, set = s.anyICMP(ICMPv4, d.Generic, at.Child("generic")), set+1
	}
	if set != 1 {
		s.fail(field.Invalid(at, set, "set exactly one of echoRequest, echoReply and generic"))
	}
	h.summed(s.given(d.Checksum, at.Child("checksum")), sum{})
	return h
}

func (s *stack) icmpv6(d *spatev1.ICMPv6Header, at *field.Path) *header {
	h, set := lay(ICMPv6), 0
	if d.EchoRequest != nil {
		h, set = s.echo(ICMPv6, echoRequestV6, d.EchoRequest, at.Child("echoRequest")), set+1
	}
	if d.EchoReply != nil {
		h, set = s.echo(ICMPv6, echoReplyV6, d.EchoReply, at.Child("echoReply")), set+1
	}
	if d.NeighborSolicitation != nil {
		h, set = s.solicitation(d.NeighborSolicitation, at.Child("neighborSolicitation")), set+1
	}
	if d.NeighborAdvertisement != nil {
		h, set = s.advertisement(d.NeighborAdvertisement, at.Child("neighborAdvertisement")), set+1
	}
	if d.MulticastListener != nil {
		h, set = s.multicastListener(d.MulticastListener, at.Child("multicastListener")), set+1
	}
	if d.Generic != nil {
		h, set = s.anyICMP(ICMPv6, d.Generic, at.Child("generic")), set+1
	}
	if set != 1 {
		s.fail(field.Invalid(at, set, "set exactly one of echoRequest, echoReply, neighborSolicitation, neighborAdvertisement, multicastListener and generic"))
	}
	h.summed(s.given(d.Checksum, at.Child("checksum")), sum{protocol: protocolICMPv6})
	return h
}

func (s *stack) echo(kind Kind, message uint64, d *spatev1.ICMPEcho, at *field.Path) *header {
	h := &header{kind: kind, fields: map[string]Location{}}
	h.extend(echoLayout)
	h.set("type", message)
	h.set("identifier", s.number(int64(d.Identifier), 65535, at.Child("identifier")))
	h.set("sequence", s.number(int64(d.Sequence), 65535, at.Child("sequence")))
	return h
}

func (s *stack) anyICMP(kind Kind, d *spatev1.ICMPGeneric, at *field.Path) *header {
	h := lay(kind)
	h.set("type", s.number(int64(d.Type), 255, at.Child("type")))
	h.set("code", s.number(int64(d.Code), 255, at.Child("code")))
	h.set("rest", s.number(d.Rest, 1<<32-1, at.Child("rest")))
	return h
}

func (s *stack) solicitation(d *spatev1.NeighborSolicitation, at *field.Path) *header {
	h := &header{kind: ICMPv6, fields: map[string]Location{}, closed: true}
	h.extend(layout{{"type", 8}, {"code", 8}, {"checksum", 16}, {"", 32}, {"target", 128}})
	h.set("type", neighborSolicitation)
	h.copy("target", s.ipv6Address(string(d.Target), at.Child("target")))
	if d.SourceLinkLayer != "" {
		s.linkLayer(h, "sourceLinkLayer", optionSourceLinkLayer, d.SourceLinkLayer, at)
	}
	return h
}

func (s *stack) advertisement(d *spatev1.NeighborAdvertisement, at *field.Path) *header {
	h := &header{kind: ICMPv6, fields: map[string]Location{}, closed: true}
	h.extend(layout{{"type", 8}, {"code", 8}, {"checksum", 16}, {"router", 1}, {"solicited", 1}, {"override", 1}, {"", 29}, {"target", 128}})
	h.set("type", neighborAdvertisement)
	h.flag("router", d.Router)
	h.flag("solicited", d.Solicited)
	h.flag("override", d.Override)
	h.copy("target", s.ipv6Address(string(d.Target), at.Child("target")))
	if d.TargetLinkLayer != "" {
		s.linkLayer(h, "targetLinkLayer", optionTargetLinkLayer, d.TargetLinkLayer, at)
	}
	return h
}

// linkLayer appends the link-layer address option (RFC 4861 section 4.6.1).
func (s *stack) linkLayer(h *header, name string, option byte, address spatev1.MACAddress, at *field.Path) {
	h.bytes = append(h.bytes, option, linkLayerOptionInUnits8)
	h.extend(layout{{name, 48}})
	h.copy(name, s.mac(address, at.Child(name)))
}
