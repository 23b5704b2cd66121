// SPDX-License-Identifier: Apache-2.0

// Packet: the bytes of a stream's packet as a stack of headers, or raw.

package v1alpha1

// Packet is a stack of headers with a payload, or raw bytes. Lengths, checksums and the fields that name the next
// header are computed where they are omitted.
//
// +kubebuilder:validation:ExactlyOneOf=headers;bytes
// +kubebuilder:validation:AtMostOneOf=size;sizes;imix
// +kubebuilder:validation:XValidation:rule="!has(self.bytes) || (!has(self.payload) && !has(self.size) && !has(self.sizes) && !has(self.imix))",message="bytes is the whole packet: payload, size, sizes and imix go with headers only"
// +kubebuilder:validation:XValidation:rule="!has(self.checksums) || has(self.bytes)",fieldPath=".checksums",message="checksums go with bytes: those of headers are kept true by themselves"
// +kubebuilder:validation:XValidation:rule="!has(self.fromPort) || has(self.bytes)",fieldPath=".fromPort",message="fromPort goes with bytes: of headers leave ethernet.source or ethernet.destination out"
type Packet struct {
	// headers from the outermost inwards; the first is ethernet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=24
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
	// +kubebuilder:validation:Maximum=9234
	Size *int32 `json:"size,omitempty"`

	// sizes of the packets on the wire, where they differ from packet to packet. Lengths and checksums are kept true.
	// +optional
	Sizes *PacketSizes `json:"sizes,omitempty"`

	// imix sends packets of several sizes in the proportions of a published Internet mix, each size spread evenly.
	// +optional
	IMIX IMIX `json:"imix,omitempty"`

	// bytes is the whole packet without FCS, base64, 60 to 9230 bytes, sent as it is.
	// +optional
	// +kubebuilder:validation:MaxLength=12308
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`
	// +kubebuilder:validation:Format=""
	Bytes []byte `json:"bytes,omitempty"`

	// checksums of `bytes` that are computed and kept true; without any the bytes stay as they are, also where fields are
	// written.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Checksums []RawChecksum `json:"checksums,omitempty"`

	// fromPort names the Ethernet addresses of `bytes` that are not sent as they are there: `Source` becomes the
	// transmitting port's own, `Destination` that of its next hop.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	FromPort []PortAddress `json:"fromPort,omitempty"`
}

// PortAddress is an Ethernet address that the transmitting port knows.
//
// +kubebuilder:validation:Enum=Source;Destination
type PortAddress string

const (
	// PortSource is the port's own.
	PortSource PortAddress = "Source"
	// PortDestination is that of the port's next hop.
	PortDestination PortAddress = "Destination"
)

// PacketSizes is how sizes differ: exactly one of list and range.
//
// +kubebuilder:validation:ExactlyOneOf=list;range
// +kubebuilder:validation:XValidation:rule="!has(self.range) || !(has(self.order) || has(self.seed))",message="order and seed beside list only; range has its own"
type PacketSizes struct {
	// list of sizes by weight, such as an Internet mix.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	List []WeightedSize `json:"list,omitempty"`

	// order of the list: `Even` spreads each size evenly by weight, `Random` draws by weight. `Even` when absent.
	// +optional
	Order SizeListOrder `json:"order,omitempty"`

	// seed of the random order; 0 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Seed *int64 `json:"seed,omitempty"`

	// range of sizes.
	// +optional
	Range *SizeRange `json:"range,omitempty"`
}

// IMIX is a published mix of packet sizes. Sizes are those of the frame, FCS included.
//
// +kubebuilder:validation:Enum=Simple;TCP;IPsec;Tolly
type IMIX string

const (
	// IMIXSimple is 7 packets of 64 bytes, 4 of 594 and 1 of 1518: IP packets of 40, 576 and 1500 bytes.
	IMIXSimple IMIX = "Simple"
	// IMIXTCP is 58.67 % of 90 bytes, 2 % of 92, 23.66 % of 594 and 15.67 % of 1518.
	IMIXTCP IMIX = "TCP"
	// IMIXIPsec is 58.67 % of 90 bytes, 2 % of 92, 23.66 % of 594 and 15.67 % of 1418, which leaves room for a tunnel.
	IMIXIPsec IMIX = "IPsec"
	// IMIXTolly is 55 % of 64 bytes, 5 % of 78, 17 % of 576 and 23 % of 1518.
	IMIXTolly IMIX = "Tolly"
)

// SizeListOrder is in which order listed sizes are taken.
//
// +kubebuilder:validation:Enum=Even;Random
type SizeListOrder string

const (
	// SizesEven spreads each size evenly by weight.
	SizesEven SizeListOrder = "Even"
	// SizesRandom draws sizes by weight.
	SizesRandom SizeListOrder = "Random"
)

// WeightedSize is a size with its weight.
type WeightedSize struct {
	// size on the wire in bytes, FCS included.
	// +required
	// +kubebuilder:validation:Minimum=64
	// +kubebuilder:validation:Maximum=9234
	Size int32 `json:"size"`

	// weight beside the other sizes.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Weight int32 `json:"weight,omitempty"`
}

// SizeRange is a range of sizes.
//
// +kubebuilder:validation:XValidation:rule="self.start <= self.end",message="start must not be greater than end; use order: Reverse to count down"
// +kubebuilder:validation:XValidation:rule="!has(self.seed) || (has(self.order) && self.order == 'Random')",fieldPath=".seed",message="seed goes with order: Random"
// +kubebuilder:validation:XValidation:rule="!has(self.step) || !has(self.order) || self.order != 'Random'",fieldPath=".step",message="step does not go with order: Random"
type SizeRange struct {
	// start is the smallest size on the wire in bytes, FCS included.
	// +required
	// +kubebuilder:validation:Minimum=64
	// +kubebuilder:validation:Maximum=9234
	Start int32 `json:"start"`

	// end is the largest size on the wire in bytes, FCS included.
	// +required
	// +kubebuilder:validation:Minimum=64
	// +kubebuilder:validation:Maximum=9234
	End int32 `json:"end"`

	// step from one size to the next; 1 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9152
	Step int32 `json:"step,omitempty"`

	// order of the sizes; `Forward` when absent.
	// +optional
	Order ValueOrder `json:"order,omitempty"`

	// seed of the random order; 0 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Seed *int64 `json:"seed,omitempty"`
}

// RawChecksumType is a kind of checksum in raw bytes.
//
// +kubebuilder:validation:Enum=IPv4;UDP;TCP;ICMP;ICMPv6;IGMP;SCTP
type RawChecksumType string

// The kinds of checksums in raw bytes.
const (
	RawIPv4   RawChecksumType = "IPv4"
	RawUDP    RawChecksumType = "UDP"
	RawTCP    RawChecksumType = "TCP"
	RawICMP   RawChecksumType = "ICMP"
	RawICMPv6 RawChecksumType = "ICMPv6"
	RawIGMP   RawChecksumType = "IGMP"
	RawSCTP   RawChecksumType = "SCTP"
)

// RawChecksum is a checksum in raw bytes that is computed and kept true.
type RawChecksum struct {
	// type of the header the checksum is of.
	// +required
	Type RawChecksumType `json:"type"`

	// offset of the header's first byte from the packet's start. UDP, TCP and ICMPv6 take the addresses from the IP header
	// before it.
	// +required
	// +kubebuilder:validation:Minimum=14
	// +kubebuilder:validation:Maximum=9204
	Offset int32 `json:"offset"`
}

// Payload is exactly one of its fields.
//
// +kubebuilder:validation:ExactlyOneOf=text;hex;pattern;random
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

	// random bytes, the same in every packet, that fill the packet's size (which they therefore need).
	// +optional
	Random *RandomPayload `json:"random,omitempty"`
}

// RandomPayload is random bytes, reproducible by their seed.
type RandomPayload struct {
	// seed of the bytes; 0 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Seed *int64 `json:"seed,omitempty"`
}
