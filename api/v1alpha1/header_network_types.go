// SPDX-License-Identifier: Apache-2.0

// Headers of the network layer: IPv4, IPv6 with its extension headers, and ICMP.

package v1alpha1

// IPv4Option is exactly one of its fields. Options are padded to whole words with ends of options (0).
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type IPv4Option struct {
	// nop is no operation (1 byte).
	// +optional
	NOP *EmptyOption `json:"nop,omitempty"`

	// end of options (1 byte).
	// +optional
	End *EmptyOption `json:"end,omitempty"`

	// routerAlert value (RFC 2113); 0 asks routers to look at the packet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	RouterAlert *int32 `json:"routerAlert,omitempty"`

	// recordRoute keeps this many empty slots for addresses (RFC 791).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	RecordRoute *int32 `json:"recordRoute,omitempty"`

	// raw is a whole option as hex digits, its type and length included.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=80
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	Raw string `json:"raw,omitempty"`
}

// EmptyOption has no value.
type EmptyOption struct{}

// IPv4Header is an IPv4 header (RFC 791).
type IPv4Header struct {
	// source address.
	// +required
	Source IPv4Address `json:"source"`

	// destination address.
	// +required
	Destination IPv4Address `json:"destination"`

	// ttl is the time to live; 64 when absent, 1 in front of igmp.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	TTL *int32 `json:"ttl,omitempty"`

	// dscp is the differentiated services code point (RFC 2474).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	DSCP int32 `json:"dscp,omitempty"`

	// ecn is the explicit congestion notification (RFC 3168).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3
	ECN int32 `json:"ecn,omitempty"`

	// identification of fragments.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Identification int32 `json:"identification,omitempty"`

	// dontFragment is the DF bit.
	// +optional
	DontFragment bool `json:"dontFragment,omitempty"`

	// moreFragments is the MF bit.
	// +optional
	MoreFragments bool `json:"moreFragments,omitempty"`

	// fragmentOffset in units of 8 bytes. What follows in a fragment other than the first is no header.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8191
	FragmentOffset int32 `json:"fragmentOffset,omitempty"`

	// protocol is set by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Protocol *int32 `json:"protocol,omitempty"`

	// options of the header, 40 bytes in all. In front of igmp a router alert when absent (none before version 1).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=40
	Options []IPv4Option `json:"options,omitempty"`

	// headerLength in words of 4 bytes that is written as it is; computed when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=15
	HeaderLength *int32 `json:"headerLength,omitempty"`

	// totalLength in bytes that is written as it is; computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	TotalLength *int32 `json:"totalLength,omitempty"`

	// checksum that is written as it is, right or wrong; computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Checksum *int32 `json:"checksum,omitempty"`
}

// IPv6Header is an IPv6 header (RFC 8200).
type IPv6Header struct {
	// source address.
	// +required
	Source IPv6Address `json:"source"`

	// destination address.
	// +required
	Destination IPv6Address `json:"destination"`

	// hopLimit of the packet; 64 when absent, 1 of MLD.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	HopLimit *int32 `json:"hopLimit,omitempty"`

	// trafficClass is differentiated services and congestion notification.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	TrafficClass int32 `json:"trafficClass,omitempty"`

	// flowLabel of the packet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1048575
	FlowLabel int32 `json:"flowLabel,omitempty"`

	// nextHeader is set by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	NextHeader *int32 `json:"nextHeader,omitempty"`

	// payloadLength in bytes that is written as it is; computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	PayloadLength *int32 `json:"payloadLength,omitempty"`
}

// IPv6OptionsHeader is a hop-by-hop or destination options header (RFC 8200 section 4.3, 4.6).
type IPv6OptionsHeader struct {
	// options of the header; what is missing to whole units of 8 bytes is padding. Without any it is all padding; hop by hop in
	// front of MLD a router alert.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Options []IPv6Option `json:"options,omitempty"`

	// nextHeader is set by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	NextHeader *int32 `json:"nextHeader,omitempty"`
}

// IPv6Option is one option of a hop-by-hop or destination options header.
type IPv6Option struct {
	// type of the option, such as 5 for router alert (RFC 2711); 0 is one byte of padding.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Type int32 `json:"type"`

	// value as hex digits; empty when absent.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=510
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	Value string `json:"value,omitempty"`
}

// IPv6RoutingHeader is a routing header (RFC 8200 section 4.4).
type IPv6RoutingHeader struct {
	// type of the routing: 4 for segment routing (RFC 8754), 2 for mobility (RFC 6275).
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Type int32 `json:"type"`

	// segmentsLeft are the nodes still to be visited.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	SegmentsLeft int32 `json:"segmentsLeft,omitempty"`

	// addresses behind the first 8 bytes, in the order of the wire: segment routing lists the last segment first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F:.]{2,}$`
	Addresses []string `json:"addresses,omitempty"`

	// data of the 4 bytes behind segmentsLeft, as 8 hex digits. When absent zeros; for segment routing the index of the
	// last segment, and zeros.
	// +optional
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	Data string `json:"data,omitempty"`

	// nextHeader is set by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	NextHeader *int32 `json:"nextHeader,omitempty"`
}

// IPv6FragmentHeader is a fragment header (RFC 8200 section 4.5).
type IPv6FragmentHeader struct {
	// identification of the packet the fragment is of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Identification int64 `json:"identification,omitempty"`

	// offset in units of 8 bytes. What follows in a fragment other than the first is no header.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8191
	Offset int32 `json:"offset,omitempty"`

	// moreFragments is the M bit.
	// +optional
	MoreFragments bool `json:"moreFragments,omitempty"`

	// nextHeader is set by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	NextHeader *int32 `json:"nextHeader,omitempty"`
}

// ICMPEcho is an echo request or reply; the packet's payload is its data.
type ICMPEcho struct {
	// identifier of the echo.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Identifier int32 `json:"identifier,omitempty"`

	// sequence number of the echo.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Sequence int32 `json:"sequence,omitempty"`
}

// ICMPGeneric is any ICMP message: what follows its first 8 bytes is the next headers, or the payload.
type ICMPGeneric struct {
	// type of the message.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Type int32 `json:"type"`

	// code of the message.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Code int32 `json:"code,omitempty"`

	// rest of the header: the 4 bytes behind the checksum, as one number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Rest int64 `json:"rest,omitempty"`
}

// ICMPv4Header is exactly one message, and its checksum.
//
// +kubebuilder:validation:ExactlyOneOf=echoRequest;echoReply;generic
type ICMPv4Header struct {
	// echoRequest is a ping.
	// +optional
	EchoRequest *ICMPEcho `json:"echoRequest,omitempty"`

	// echoReply answers a ping.
	// +optional
	EchoReply *ICMPEcho `json:"echoReply,omitempty"`

	// generic is any message.
	// +optional
	Generic *ICMPGeneric `json:"generic,omitempty"`

	// checksum that is written as it is, right or wrong; computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Checksum *int32 `json:"checksum,omitempty"`
}

// NeighborSolicitation requests the link-layer address of an address (RFC 4861 section 4.3).
type NeighborSolicitation struct {
	// target address.
	// +required
	Target IPv6Address `json:"target"`

	// sourceLinkLayer is the option with the sender's MAC address; none when absent.
	// +optional
	SourceLinkLayer MACAddress `json:"sourceLinkLayer,omitempty"`
}

// NeighborAdvertisement announces the link-layer address of an address (RFC 4861 section 4.4).
type NeighborAdvertisement struct {
	// target address.
	// +required
	Target IPv6Address `json:"target"`

	// router is the R flag.
	// +optional
	Router bool `json:"router,omitempty"`

	// solicited is the S flag.
	// +optional
	Solicited bool `json:"solicited,omitempty"`

	// override is the O flag.
	// +optional
	Override bool `json:"override,omitempty"`

	// targetLinkLayer is the option with the target's MAC address; none when absent.
	// +optional
	TargetLinkLayer MACAddress `json:"targetLinkLayer,omitempty"`
}

// ICMPv6Header is exactly one message, and its checksum.
//
// +kubebuilder:validation:ExactlyOneOf=echoRequest;echoReply;neighborSolicitation;neighborAdvertisement;multicastListener;generic
type ICMPv6Header struct {
	// echoRequest is a ping.
	// +optional
	EchoRequest *ICMPEcho `json:"echoRequest,omitempty"`

	// echoReply answers a ping.
	// +optional
	EchoReply *ICMPEcho `json:"echoReply,omitempty"`

	// neighborSolicitation requests a link-layer address.
	// +optional
	NeighborSolicitation *NeighborSolicitation `json:"neighborSolicitation,omitempty"`

	// neighborAdvertisement announces a link-layer address.
	// +optional
	NeighborAdvertisement *NeighborAdvertisement `json:"neighborAdvertisement,omitempty"`

	// multicastListener is a message of MLD.
	// +optional
	MulticastListener *MulticastListener `json:"multicastListener,omitempty"`

	// generic is any message.
	// +optional
	Generic *ICMPGeneric `json:"generic,omitempty"`

	// checksum that is written as it is, right or wrong; computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Checksum *int32 `json:"checksum,omitempty"`
}
