// SPDX-License-Identifier: Apache-2.0

// Headers of the transport layer: UDP, TCP and SCTP.

package v1alpha1

// UDPHeader is a UDP header (RFC 768).
type UDPHeader struct {
	// sourcePort of the packet.
	// +optional
	// +default=49152
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	SourcePort *int32 `json:"sourcePort,omitempty"`

	// destinationPort of the packet; needed except in front of vxlan (4789, VXLAN-GPE 4790), geneve (6081), gtpu (2152), l2tp and l2tpv3 (1701).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	DestinationPort *int32 `json:"destinationPort,omitempty"`

	// length in bytes that is written as it is; computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Length *int32 `json:"length,omitempty"`

	// checksum that is written as it is, right or wrong: 0 is none, as tunnels often do. Computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Checksum *int32 `json:"checksum,omitempty"`
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

// TCPOption is exactly one of its fields. Options are padded to whole words with ends of options (0).
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type TCPOption struct {
	// nop is no operation (1 byte).
	// +optional
	NOP *EmptyOption `json:"nop,omitempty"`

	// end of options (1 byte).
	// +optional
	End *EmptyOption `json:"end,omitempty"`

	// mss is the maximum segment size.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	MSS *int32 `json:"mss,omitempty"`

	// windowScale is the shift of the window (RFC 7323).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	WindowScale *int32 `json:"windowScale,omitempty"`

	// sackPermitted allows selective acknowledgements (RFC 2018).
	// +optional
	SACKPermitted *EmptyOption `json:"sackPermitted,omitempty"`

	// sack are blocks that were received (RFC 2018).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	SACK []SACKBlock `json:"sack,omitempty"`

	// timestamps of both sides (RFC 7323).
	// +optional
	Timestamps *TCPTimestamps `json:"timestamps,omitempty"`

	// raw is a whole option as hex digits, its kind and length included.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=80
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	Raw string `json:"raw,omitempty"`
}

// SACKBlock is a range of sequence numbers.
type SACKBlock struct {
	// left edge: the first sequence number of the block.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Left int64 `json:"left"`

	// right edge: the sequence number behind the block.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Right int64 `json:"right"`
}

// TCPTimestamps are the timestamps of both sides.
type TCPTimestamps struct {
	// value of the sender's clock.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Value int64 `json:"value,omitempty"`

	// echo of the other side's.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Echo int64 `json:"echo,omitempty"`
}

// TCPHeader is a TCP header (RFC 9293).
type TCPHeader struct {
	// sourcePort of the packet.
	// +optional
	// +default=49152
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	SourcePort *int32 `json:"sourcePort,omitempty"`

	// destinationPort of the packet.
	// +required
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
	// +default=65535
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Window *int32 `json:"window,omitempty"`

	// urgentPointer of the packet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	UrgentPointer int32 `json:"urgentPointer,omitempty"`

	// options of the header, 40 bytes in all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=40
	Options []TCPOption `json:"options,omitempty"`

	// dataOffset in words of 4 bytes that is written as it is; computed when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=15
	DataOffset *int32 `json:"dataOffset,omitempty"`

	// checksum that is written as it is, right or wrong; computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Checksum *int32 `json:"checksum,omitempty"`
}

// SCTPHeader is an SCTP common header and chunks (RFC 9260). The packet's payload belongs to the last chunk, if that is `data`.
type SCTPHeader struct {
	// sourcePort of the packet.
	// +optional
	// +default=49152
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	SourcePort *int32 `json:"sourcePort,omitempty"`

	// destinationPort of the packet.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	DestinationPort int32 `json:"destinationPort"`

	// verificationTag of the association.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	VerificationTag int64 `json:"verificationTag,omitempty"`

	// chunks of the packet.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Chunks []SCTPChunk `json:"chunks"`

	// checksum (CRC-32C, as the number RFC 9260 appendix A computes) that is written as it is, right or wrong; computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Checksum *int64 `json:"checksum,omitempty"`
}

// SCTPChunk is exactly one of its fields.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type SCTPChunk struct {
	// data is a DATA chunk. Only the last chunk can be one: the packet's payload is its user data.
	// +optional
	Data *SCTPDataChunk `json:"data,omitempty"`

	// raw is any chunk.
	// +optional
	Raw *SCTPRawChunk `json:"raw,omitempty"`
}

// SCTPDataChunk is a DATA chunk (RFC 9260 section 3.3.1).
type SCTPDataChunk struct {
	// flags of the chunk: 1 ending, 2 beginning, 4 unordered, 8 immediate; an unfragmented message (3) when absent.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Flags *int32 `json:"flags,omitempty"`

	// tsn is the transmission sequence number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	TSN int64 `json:"tsn,omitempty"`

	// stream identifier.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Stream int32 `json:"stream,omitempty"`

	// streamSequence number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	StreamSequence int32 `json:"streamSequence,omitempty"`

	// payloadProtocol identifier.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	PayloadProtocol int64 `json:"payloadProtocol,omitempty"`
}

// SCTPRawChunk is any chunk; its length and padding are computed.
type SCTPRawChunk struct {
	// type of the chunk, such as 1 for INIT.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Type int32 `json:"type"`

	// flags of the chunk.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Flags int32 `json:"flags,omitempty"`

	// value behind the length, as hex digits; empty when absent.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	Value string `json:"value,omitempty"`
}
