// SPDX-License-Identifier: Apache-2.0

// How do headers of the link layer become bytes: Ethernet, VLAN, MPLS, ARP, PPPoE and PPP?

package packet

import (
	"net"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	etherTypeIPv4           = 0x0800
	etherTypeARP            = 0x0806
	etherTypeTEB            = 0x6558 // transparent Ethernet bridging, in GRE and GENEVE
	etherTypeVLAN           = 0x8100
	etherTypeIPv6           = 0x86dd
	etherTypeMPLS           = 0x8847
	etherTypePPPoEDiscovery = 0x8863
	etherTypePPPoESession   = 0x8864
	etherTypeMACControl     = 0x8808
	etherTypeSlow           = 0x8809
	etherTypeQinQ           = 0x88a8
	etherTypeNSH            = 0x894f

	pppIPv4 = 0x0021
	pppIPv6 = 0x0057
	pppMPLS = 0x0281
)

// framedPPP is PPP with the address and control fields of HDLC-like framing (RFC 1662).
var (
	framedPPP            = layout{{"address", 8}, {"control", 8}, {"protocol", 16}}
	pppAddressAndControl = []byte{0xff, 0x03}
)

func (s *stack) ethernet(d *spatev1.EthernetHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(Ethernet)
	inner := len(s.headers) > 0
	switch {
	case d.Source != "":
		h.copy("source", s.mac(d.Source, at.Child("source")))
	case inner:
		s.fail(field.Required(at.Child("source"), "an inner header has no port to take it from"))
	default:
		s.sourceFromPort = true
	}
	switch {
	case d.Destination != "":
		h.copy("destination", s.mac(d.Destination, at.Child("destination")))
	case inner:
		s.fail(field.Required(at.Child("destination"), "an inner header has no next hop to take it from"))
	case s.options.NextHopFromPort:
		s.destinationFromPort = true
	case s.options.NextHop != nil:
		h.copy("destination", s.options.NextHop)
	default:
		s.fail(field.Required(at.Child("destination"), "the transmitting port has no address to find its next hop with: "+
			"write the MAC address of the device the port is connected to, or give the port addresses in the generator's spec.ports"))
	}
	h.set("etherType", s.etherType(d.EtherType, next, at.Child("etherType")))
	return h
}

func (s *stack) vlan(d *spatev1.VLANHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(VLAN)
	h.set("id", s.number(int64(d.ID), 0xfff, at.Child("id")))
	h.set("priority", s.number(int64(d.Priority), 7, at.Child("priority")))
	h.flag("dropEligible", d.DropEligible)
	h.set("etherType", s.etherType(d.EtherType, next, at.Child("etherType")))
	return h
}

func (s *stack) mpls(d *spatev1.MPLSHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(MPLS)
	h.set("label", s.number(int64(d.Label), 1<<20-1, at.Child("label")))
	h.set("trafficClass", s.number(int64(d.TrafficClass), 7, at.Child("trafficClass")))
	h.set("ttl", s.optional(d.TTL, 64, 255, at.Child("ttl")))
	bottom := next == nil || next.MPLS == nil
	if d.BottomOfStack != nil {
		bottom = *d.BottomOfStack
	}
	h.flag("bottomOfStack", bottom)
	return h
}

func (s *stack) arp(d *spatev1.ARPHeader, at *field.Path) *header {
	h := lay(ARP)
	h.set("hardwareType", 1)
	h.set("protocolType", etherTypeIPv4)
	h.set("hardwareLength", 6)
	h.set("protocolLength", 4)
	switch d.Operation {
	case "", spatev1.ARPRequest:
		h.set("operation", 1)
	case spatev1.ARPReply:
		h.set("operation", 2)
	default:
		s.fail(field.NotSupported(at.Child("operation"), d.Operation, []spatev1.ARPOperation{spatev1.ARPRequest, spatev1.ARPReply}))
	}
	switch {
	case d.SenderMAC != "":
		h.copy("senderMAC", s.mac(d.SenderMAC, at.Child("senderMAC")))
	case s.sourceFromPort:
		s.fail(field.Required(at.Child("senderMAC"), "the port writes its own address only into the Ethernet header: write it here, or write ethernet.source"))
	default:
		h.copy("senderMAC", s.sender())
	}
	if d.TargetMAC != "" {
		h.copy("targetMAC", s.mac(d.TargetMAC, at.Child("targetMAC")))
	}
	h.copy("senderIP", s.ipv4Address(d.SenderIP, at.Child("senderIP")))
	h.copy("targetIP", s.ipv4Address(d.TargetIP, at.Child("targetIP")))
	h.closed = true
	return h
}

// sender returns the source address of the innermost Ethernet header.
func (s *stack) sender() net.HardwareAddr {
	for i := len(s.headers) - 1; i >= 0; i-- {
		if s.headers[i].kind == Ethernet {
			return s.headers[i].bytes[6:12]
		}
	}
	return make(net.HardwareAddr, 6) // ARP without Ethernet is misplaced, which is reported elsewhere
}

func (s *stack) pppoe(d *spatev1.PPPoEHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(PPPoE)
	h.set("version", 1)
	h.set("type", 1)
	h.set("code", s.number(int64(d.Code), 255, at.Child("code")))
	h.set("sessionID", s.number(int64(d.SessionID), 65535, at.Child("sessionID")))
	h.counted("length", s.given(d.Length, at.Child("length")), len(h.bytes))
	if d.Code == 0 && (next == nil || next.PPP == nil) {
		s.fail(field.Invalid(at.Child("code"), d.Code, "in a session (code 0) ppp follows; discovery has another code"))
	}
	return h
}

func (s *stack) ppp(d *spatev1.PPPHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(PPP)
	framed := len(s.headers) > 0 && s.headers[len(s.headers)-1].kind == L2TP
	if d.AddressAndControl != nil {
		framed = *d.AddressAndControl
	}
	if framed {
		h = &header{kind: PPP, fields: map[string]Location{}}
		h.extend(framedPPP)
		h.copy("address", pppAddressAndControl[:1])
		h.copy("control", pppAddressAndControl[1:])
	}
	h.set("protocol", s.named(d.Protocol, 65535, next, at.Child("protocol"), func(next *spatev1.Header) uint64 {
		switch {
		case next.IPv4 != nil:
			return pppIPv4
		case next.IPv6 != nil:
			return pppIPv6
		default:
			return pppMPLS
		}
	}))
	return h
}

// etherType returns the value written, or else the next header's.
func (s *stack) etherType(written *int32, next *spatev1.Header, at *field.Path) uint64 {
	return s.named(written, 65535, next, at, func(next *spatev1.Header) uint64 {
		switch {
		case next.VLAN != nil && next.VLAN.Protocol == spatev1.VLANService:
			return etherTypeQinQ
		case next.VLAN != nil:
			return etherTypeVLAN
		case next.MPLS != nil:
			return etherTypeMPLS
		case next.ARP != nil:
			return etherTypeARP
		case next.LACP != nil:
			return etherTypeSlow
		case next.MACControl != nil:
			return etherTypeMACControl
		case next.NSH != nil:
			return etherTypeNSH
		case next.PPPoE != nil && next.PPPoE.Code != 0:
			return etherTypePPPoEDiscovery
		case next.PPPoE != nil:
			return etherTypePPPoESession
		case next.IPv4 != nil:
			return etherTypeIPv4
		case next.IPv6 != nil:
			return etherTypeIPv6
		case next.Ethernet != nil:
			return etherTypeTEB
		}
		return 0 // the next header is misplaced, which is reported elsewhere
	})
}
