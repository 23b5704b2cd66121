// SPDX-License-Identifier: Apache-2.0

// Packet: the bytes of a stream's packet as a stack of headers, or raw, and the fields that vary in it.

package v1alpha1

// Packet is a stack of headers with a payload, or raw bytes. Lengths, checksums and the fields that name the next
// header are computed.
//
// +kubebuilder:validation:ExactlyOneOf=headers;bytes
// +kubebuilder:validation:XValidation:rule="!has(self.bytes) || (!has(self.payload) && !has(self.size))",message="bytes is the whole packet: payload and size go with headers only"
type Packet struct {
	// headers from the outermost inwards; the first is ethernet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="has(self[0].ethernet)",message="the first header must be ethernet"
	Headers []Header `json:"headers,omitempty"`

	// payload behind the headers; zeros when absent.
	// +optional
	Payload *Payload `json:"payload,omitempty"`

	// size of the packet on the wire in bytes, the 4-byte FCS included. What headers and payload leave of it is
	// filled with zeros behind the payload and belongs to it (lengths and checksums count it). When absent, the packet
	// is as long as its headers and payload need (with room for the measurement), and at least 64 bytes.
	// +optional
	// +kubebuilder:validation:Minimum=64
	// +kubebuilder:validation:Maximum=9216
	Size *int32 `json:"size,omitempty"`

	// bytes is the whole packet without FCS, base64, 60 to 9212 bytes, sent as it is.
	// +optional
	// +kubebuilder:validation:MaxLength=12284
	Bytes []byte `json:"bytes,omitempty"`
}

// Header is exactly one of its fields.
//
// +kubebuilder:validation:ExactlyOneOf=ethernet;vlan;ipv4;ipv6;udp;tcp
type Header struct {
	// ethernet is an Ethernet II header.
	// +optional
	Ethernet *EthernetHeader `json:"ethernet,omitempty"`
	// vlan is an IEEE 802.1Q tag; two in a row are QinQ.
	// +optional
	VLAN *VLANHeader `json:"vlan,omitempty"`
	// ipv4 is an IPv4 header without options.
	// +optional
	IPv4 *IPv4Header `json:"ipv4,omitempty"`
	// ipv6 is an IPv6 header without extension headers.
	// +optional
	IPv6 *IPv6Header `json:"ipv6,omitempty"`
	// udp is a UDP header.
	// +optional
	UDP *UDPHeader `json:"udp,omitempty"`
	// tcp is a TCP header without options. No connection stands behind it.
	// +optional
	TCP *TCPHeader `json:"tcp,omitempty"`
}

// EthernetHeader is an Ethernet II header.
type EthernetHeader struct {
	// source address, the transmitting port's own when absent.
	// +optional
	Source MACAddress `json:"source,omitempty"`

	// destination address. It may be absent only on loopback and null ports, where 02:00:00:00:00:00 is written;
	// elsewhere the next hop is not resolved yet, so write its address.
	// +optional
	Destination MACAddress `json:"destination,omitempty"`

	// etherType, named by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=1536
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
	// +kubebuilder:default="802.1Q"
	Protocol VLANProtocol `json:"protocol,omitempty"`

	// etherType, named by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=1536
	// +kubebuilder:validation:Maximum=65535
	EtherType *int32 `json:"etherType,omitempty"`
}

// IPv4Header is an IPv4 header without options (RFC 791).
type IPv4Header struct {
	// source address.
	Source IPv4Address `json:"source"`

	// destination address.
	Destination IPv4Address `json:"destination"`

	// ttl is the time to live.
	// +optional
	// +kubebuilder:default=64
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

	// protocol, named by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Protocol *int32 `json:"protocol,omitempty"`
}

// IPv6Header is an IPv6 header without extension headers (RFC 8200).
type IPv6Header struct {
	// source address.
	Source IPv6Address `json:"source"`

	// destination address.
	Destination IPv6Address `json:"destination"`

	// hopLimit of the packet.
	// +optional
	// +kubebuilder:default=64
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	HopLimit *int32 `json:"hopLimit,omitempty"`

	// trafficClass: differentiated services and congestion notification.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	TrafficClass int32 `json:"trafficClass,omitempty"`

	// flowLabel of the packet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1048575
	FlowLabel int32 `json:"flowLabel,omitempty"`

	// nextHeader, named by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	NextHeader *int32 `json:"nextHeader,omitempty"`
}

// UDPHeader is a UDP header (RFC 768).
type UDPHeader struct {
	// sourcePort of the packet.
	// +optional
	// +kubebuilder:default=49152
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	SourcePort *int32 `json:"sourcePort,omitempty"`

	// destinationPort of the packet.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	DestinationPort int32 `json:"destinationPort"`
}

// TCPFlag is a control bit of a TCP header.
//
// +kubebuilder:validation:Enum=FIN;SYN;RST;PSH;ACK;URG;ECE;CWR
type TCPFlag string

// The control bits of a TCP header.
const (
	TCPFin TCPFlag = "FIN"
	TCPSyn TCPFlag = "SYN"
	TCPRst TCPFlag = "RST"
	TCPPsh TCPFlag = "PSH"
	TCPAck TCPFlag = "ACK"
	TCPUrg TCPFlag = "URG"
	TCPEce TCPFlag = "ECE"
	TCPCwr TCPFlag = "CWR"
)

// TCPHeader is a TCP header without options (RFC 9293).
type TCPHeader struct {
	// sourcePort of the packet.
	// +optional
	// +kubebuilder:default=49152
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	SourcePort *int32 `json:"sourcePort,omitempty"`

	// destinationPort of the packet.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	DestinationPort int32 `json:"destinationPort"`

	// sequence number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Sequence int64 `json:"sequence,omitempty"`

	// acknowledgement number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Acknowledgement int64 `json:"acknowledgement,omitempty"`

	// flags that are set; none when absent.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Flags []TCPFlag `json:"flags,omitempty"`

	// window size.
	// +optional
	// +kubebuilder:default=65535
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Window *int32 `json:"window,omitempty"`

	// urgentPointer of the packet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	UrgentPointer int32 `json:"urgentPointer,omitempty"`
}

// Payload is exactly one of its fields.
//
// +kubebuilder:validation:ExactlyOneOf=text;hex;pattern
type Payload struct {
	// text as UTF-8.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=9158
	Text string `json:"text,omitempty"`

	// hex digits, two a byte, such as `deadbeef`.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=18316
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	Hex string `json:"hex,omitempty"`

	// pattern of bytes as hex digits, repeated until the packet's size is filled (which it therefore needs).
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9a-fA-F]{2})+$')",message="must be hex digits, two a byte"
	Pattern string `json:"pattern,omitempty"`
}

// PacketField is a variable with exactly one way to change, and the places of the packet it is written to.
//
// +kubebuilder:validation:ExactlyOneOf=values;increment;decrement;random
type PacketField struct {
	// name of the variable.
	Name EntryName `json:"name"`

	// values are taken in turn, then from the start again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4096
	Values []FieldValue `json:"values,omitempty"`

	// increment counts up from min (or init) and wraps behind max.
	// +optional
	Increment *FieldRange `json:"increment,omitempty"`

	// decrement counts down from max (or init) and wraps below min.
	// +optional
	Decrement *FieldRange `json:"decrement,omitempty"`

	// random takes evenly distributed values.
	// +optional
	Random *FieldRandom `json:"random,omitempty"`

	// next is a variable that advances only when this one wraps.
	// +optional
	Next EntryName `json:"next,omitempty"`

	// writes are the places the value is written to.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Writes []FieldWrite `json:"writes"`
}

// FieldRange is a range of values with a step. A range that is no whole number of steps ends with a shorter one.
//
// +kubebuilder:validation:XValidation:rule="type(self.min) != int || type(self.max) != int || self.min <= self.max",message="min must not be greater than max"
// +kubebuilder:validation:XValidation:rule="type(self.min) != string || type(self.max) != string || !self.min.matches('^[0-9]{1,3}([.][0-9]{1,3}){3}$') || !self.max.matches('^[0-9]{1,3}([.][0-9]{1,3}){3}$') || [0, 1, 2, 3].map(i, int(self.min.split('.')[i]) * [16777216, 65536, 256, 1][i]).sum() <= [0, 1, 2, 3].map(i, int(self.max.split('.')[i]) * [16777216, 65536, 256, 1][i]).sum()",message="min must not be greater than max"
type FieldRange struct {
	// min is the lowest value.
	Min FieldValue `json:"min"`

	// max is the highest value.
	Max FieldValue `json:"max"`

	// step from one value to the next.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	Step int64 `json:"step,omitempty"`

	// init is the first value.
	// +optional
	Init *FieldValue `json:"init,omitempty"`
}

// FieldRandom is a range of random values, reproducible by its seed.
//
// +kubebuilder:validation:XValidation:rule="type(self.min) != int || type(self.max) != int || self.min <= self.max",message="min must not be greater than max"
// +kubebuilder:validation:XValidation:rule="type(self.min) != string || type(self.max) != string || !self.min.matches('^[0-9]{1,3}([.][0-9]{1,3}){3}$') || !self.max.matches('^[0-9]{1,3}([.][0-9]{1,3}){3}$') || [0, 1, 2, 3].map(i, int(self.min.split('.')[i]) * [16777216, 65536, 256, 1][i]).sum() <= [0, 1, 2, 3].map(i, int(self.max.split('.')[i]) * [16777216, 65536, 256, 1][i]).sum()",message="min must not be greater than max"
type FieldRandom struct {
	// min is the lowest value.
	Min FieldValue `json:"min"`

	// max is the highest value.
	Max FieldValue `json:"max"`

	// seed of the sequence.
	// +optional
	Seed int64 `json:"seed,omitempty"`

	// limit is the number of values after which the sequence repeats; never when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Limit *int64 `json:"limit,omitempty"`
}

// ByteOrder of a value in a packet.
//
// +kubebuilder:validation:Enum=Big;Little
type ByteOrder string

const (
	// BigEndian is network byte order.
	BigEndian ByteOrder = "Big"
	// LittleEndian has the lowest byte first.
	LittleEndian ByteOrder = "Little"
)

// FieldWrite is a place of the packet: a named field, or an offset with a size.
//
// +kubebuilder:validation:ExactlyOneOf=field;offset
// +kubebuilder:validation:XValidation:rule="has(self.offset) == has(self.size)",message="size goes with offset, and only with it"
type FieldWrite struct {
	// field by header and name, such as `ipv4.source`, `tcp.destinationPort` or, for the second header of its kind,
	// `vlan[1].id`.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(ethernet|vlan|ipv4|ipv6|udp|tcp)(\[[0-9]{1,2}\])?\.[a-zA-Z]+$`
	Field string `json:"field,omitempty"`

	// offset of the first byte from the start of the packet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9211
	Offset *int32 `json:"offset,omitempty"`

	// size in bytes.
	// +optional
	// +kubebuilder:validation:Enum=1;2;4;8
	Size *int32 `json:"size,omitempty"`

	// mask of the bits that are written, as hex digits such as `0xfff0`; all when absent.
	// +optional
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="self.matches('^0x[0-9a-fA-F]{1,16}$')",message="must be hex digits such as 0xfff0"
	Mask string `json:"mask,omitempty"`

	// shift of the value before it is written, in bits to the left (negative: to the right).
	// +optional
	// +kubebuilder:validation:Minimum=-63
	// +kubebuilder:validation:Maximum=63
	Shift int32 `json:"shift,omitempty"`

	// add is added to the value before it is shifted.
	// +optional
	Add int64 `json:"add,omitempty"`

	// byteOrder of the value in the packet.
	// +optional
	// +kubebuilder:default=Big
	ByteOrder ByteOrder `json:"byteOrder,omitempty"`
}
