// SPDX-License-Identifier: Apache-2.0

// Headers of the link layer, and the list of all headers.

package v1alpha1

// Header is exactly one of its fields.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type Header struct {
	// ethernet is an Ethernet II header.
	// +optional
	Ethernet *EthernetHeader `json:"ethernet,omitempty"`
	// vlan is an IEEE 802.1Q tag; two in a row are QinQ.
	// +optional
	VLAN *VLANHeader `json:"vlan,omitempty"`
	// mpls is one label of an MPLS stack (RFC 3032).
	// +optional
	MPLS *MPLSHeader `json:"mpls,omitempty"`
	// arp is an ARP message for IPv4 over Ethernet (RFC 826).
	// +optional
	ARP *ARPHeader `json:"arp,omitempty"`
	// lacp is an LACPDU (IEEE 802.1AX); its destination is 01:80:c2:00:00:02.
	// +optional
	LACP *LACPHeader `json:"lacp,omitempty"`
	// macControl is PAUSE or PFC (IEEE 802.3 clause 31); its destination is 01:80:c2:00:00:01.
	// +optional
	MACControl *MACControlHeader `json:"macControl,omitempty"`
	// pppoe is a PPPoE header (RFC 2516); `ppp` follows it in a session.
	// +optional
	PPPoE *PPPoEHeader `json:"pppoe,omitempty"`
	// ppp is the protocol field of PPP in PPPoE and L2TP.
	// +optional
	PPP *PPPHeader `json:"ppp,omitempty"`
	// ipv4 is an IPv4 header.
	// +optional
	IPv4 *IPv4Header `json:"ipv4,omitempty"`
	// ipv6 is an IPv6 header; its extension headers follow it as headers of their own.
	// +optional
	IPv6 *IPv6Header `json:"ipv6,omitempty"`
	// ipv6HopByHop is a hop-by-hop options header (RFC 8200).
	// +optional
	IPv6HopByHop *IPv6OptionsHeader `json:"ipv6HopByHop,omitempty"`
	// ipv6Destination is a destination options header (RFC 8200).
	// +optional
	IPv6Destination *IPv6OptionsHeader `json:"ipv6Destination,omitempty"`
	// ipv6Routing is a routing header (RFC 8200), such as a segment routing header (RFC 8754).
	// +optional
	IPv6Routing *IPv6RoutingHeader `json:"ipv6Routing,omitempty"`
	// ipv6Fragment is a fragment header (RFC 8200).
	// +optional
	IPv6Fragment *IPv6FragmentHeader `json:"ipv6Fragment,omitempty"`
	// icmpv4 is an ICMP message (RFC 792).
	// +optional
	ICMPv4 *ICMPv4Header `json:"icmpv4,omitempty"`
	// icmpv6 is an ICMPv6 message (RFC 4443, RFC 4861), MLD included.
	// +optional
	ICMPv6 *ICMPv6Header `json:"icmpv6,omitempty"`
	// igmp is an IGMP message (RFC 1112, RFC 2236, RFC 3376).
	// +optional
	IGMP *IGMPHeader `json:"igmp,omitempty"`
	// udp is a UDP header.
	// +optional
	UDP *UDPHeader `json:"udp,omitempty"`
	// tcp is a TCP header. No connection stands behind it.
	// +optional
	TCP *TCPHeader `json:"tcp,omitempty"`
	// sctp is an SCTP packet with its chunks. No association stands behind it.
	// +optional
	SCTP *SCTPHeader `json:"sctp,omitempty"`
	// gre is a GRE header (RFC 2784, RFC 2890).
	// +optional
	GRE *GREHeader `json:"gre,omitempty"`
	// vxlan is a VXLAN header (RFC 7348), behind udp; an inner ethernet follows, or others in VXLAN-GPE.
	// +optional
	VXLAN *VXLANHeader `json:"vxlan,omitempty"`
	// geneve is a GENEVE header (RFC 8926), behind udp.
	// +optional
	Geneve *GeneveHeader `json:"geneve,omitempty"`
	// gtpu is a GTP-U header (3GPP TS 29.281), behind udp.
	// +optional
	GTPU *GTPUHeader `json:"gtpu,omitempty"`
	// nsh is a network service header (RFC 8300).
	// +optional
	NSH *NSHHeader `json:"nsh,omitempty"`
	// l2tp is an L2TPv2 header (RFC 2661), behind udp; `ppp` follows it.
	// +optional
	L2TP *L2TPHeader `json:"l2tp,omitempty"`
	// l2tpv3 is an L2TPv3 header (RFC 3931), behind an IP header or udp.
	// +optional
	L2TPv3 *L2TPv3Header `json:"l2tpv3,omitempty"`
}

// EthernetHeader is an Ethernet II header. One that is not the first (in a tunnel) needs both addresses.
type EthernetHeader struct {
	// source address; of the first header the transmitting port's own when absent.
	// +optional
	Source MACAddress `json:"source,omitempty"`

	// destination address; of the first header that of the next hop when absent: of the transmitting port's gateway, or of
	// the peer in its subnet. Loopback and null ports without an address write 02:00:00:00:00:00.
	// +optional
	Destination MACAddress `json:"destination,omitempty"`

	// etherType is set by the next header; needed when none follows. Below 1536 it is the length of an 802.3 frame.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	EtherType *int32 `json:"etherType,omitempty"`
}

// VLANProtocol is the kind of a VLAN tag.
//
// +kubebuilder:validation:Enum="802.1Q";"802.1ad"
type VLANProtocol string

const (
	// VLANCustomer is an 802.1Q tag (TPID 0x8100).
	VLANCustomer VLANProtocol = "802.1Q"
	// VLANService is an 802.1ad tag (TPID 0x88a8), the outer one of QinQ.
	VLANService VLANProtocol = "802.1ad"
)

// VLANHeader is an IEEE 802.1Q tag.
type VLANHeader struct {
	// id of the VLAN; 0 is a priority tag.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4095
	ID int32 `json:"id"`

	// priority (PCP).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=7
	Priority int32 `json:"priority,omitempty"`

	// dropEligible is the DEI bit.
	// +optional
	DropEligible bool `json:"dropEligible,omitempty"`

	// protocol of the tag: `802.1Q` (TPID 0x8100), or `802.1ad` (TPID 0x88a8).
	// +optional
	// +default="802.1Q"
	Protocol VLANProtocol `json:"protocol,omitempty"`

	// etherType is set by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	EtherType *int32 `json:"etherType,omitempty"`
}

// MPLSHeader is one label stack entry (RFC 3032).
type MPLSHeader struct {
	// label of the entry.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1048575
	Label int32 `json:"label"`

	// trafficClass (RFC 5462).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=7
	TrafficClass int32 `json:"trafficClass,omitempty"`

	// bottomOfStack is the S bit; set when no mpls follows, if absent.
	// +optional
	BottomOfStack *bool `json:"bottomOfStack,omitempty"`

	// ttl is the time to live.
	// +optional
	// +default=64
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	TTL *int32 `json:"ttl,omitempty"`
}

// ARPOperation is what an ARP message does.
//
// +kubebuilder:validation:Enum=Request;Reply
type ARPOperation string

const (
	// ARPRequest requests the link-layer address of targetIP.
	ARPRequest ARPOperation = "Request"
	// ARPReply answers.
	ARPReply ARPOperation = "Reply"
)

// ARPHeader is an ARP message for IPv4 over Ethernet (RFC 826).
type ARPHeader struct {
	// operation of the message.
	// +optional
	// +default="Request"
	Operation ARPOperation `json:"operation,omitempty"`

	// senderMAC is the sender's hardware address; that of ethernet.source when absent, which must then be written.
	// +optional
	SenderMAC MACAddress `json:"senderMAC,omitempty"`

	// senderIP is the sender's protocol address.
	// +required
	SenderIP IPv4Address `json:"senderIP"`

	// targetMAC is the target's hardware address; zeros when absent.
	// +optional
	TargetMAC MACAddress `json:"targetMAC,omitempty"`

	// targetIP is the target's protocol address.
	// +required
	TargetIP IPv4Address `json:"targetIP"`
}

// PPPoEHeader is a PPPoE header (RFC 2516). In a session (`code: 0`) `ppp` follows it; in discovery the packet's payload is the tags.
type PPPoEHeader struct {
	// code of the packet: 0 in a session; in discovery 9 (PADI), 7 (PADO), 25 (PADR), 101 (PADS), 167 (PADT).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Code int32 `json:"code,omitempty"`

	// sessionID of the session.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	SessionID int32 `json:"sessionID,omitempty"`

	// length of the payload that is written as it is; computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Length *int32 `json:"length,omitempty"`
}

// PPPHeader is the protocol field of PPP (RFC 1661).
type PPPHeader struct {
	// addressAndControl puts the bytes ff 03 (RFC 1662) before it; only behind l2tp when absent.
	// +optional
	AddressAndControl *bool `json:"addressAndControl,omitempty"`

	// protocol is set by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Protocol *int32 `json:"protocol,omitempty"`
}
