// SPDX-License-Identifier: Apache-2.0

// StatelessStream: one packet, what varies in it, how it is sent, and what is measured.

package v1alpha1

import (
	"encoding/json"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatelessStreamSpec describes a stream of packets that no connection stands behind.
//
// +kubebuilder:validation:XValidation:rule="has(self.packet) != has(self.transmit.replay)",fieldPath=".packet",message="is needed, except with transmit.replay, which sends the packets of its capture"
// +kubebuilder:validation:XValidation:rule="!has(self.copies) || !has(self.transmit.replay)",fieldPath=".copies",message="copies do not go with transmit.replay"
type StatelessStreamSpec struct {
	// packet that is sent.
	// +optional
	Packet *Packet `json:"packet,omitempty"`

	// copies make many streams of one: each is the packet with something added. One stream when absent.
	// +optional
	Copies *StreamCopies `json:"copies,omitempty"`

	// fields vary the packet: each is a variable that takes a new value for every packet and is written into it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Fields []PacketField `json:"fields,omitempty"`

	// transmit says when packets are sent.
	// +required
	Transmit Transmit `json:"transmit"`

	// startDelay is the time from the stream's start (that of the run, or the end of the stream before it in a chain) to
	// its first packet.
	// +optional
	StartDelay Duration `json:"startDelay,omitempty"`

	// cache makes each worker build its first packets before the start and then repeat them: faster, but fields take only
	// the values they take there. 0 builds every packet when it is sent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Cache int32 `json:"cache,omitempty"`

	// pinned sends the stream by one worker only: the first of its port, on the first pod.
	// +optional
	Pinned bool `json:"pinned,omitempty"`

	// measure says what is measured beside the packets sent; nothing when absent.
	// +optional
	Measure Measure `json:"measure,omitzero"`
}

// StreamCopies make many streams of one. They are counted together under the entry's name, and each has the stream's rate.
type StreamCopies struct {
	// count of streams.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20000
	Count int32 `json:"count"`

	// vary says how they differ: stream i, from 0, has i times each step added.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Vary []CopyVariation `json:"vary,omitempty"`
}

// CopyVariation is a place of the packet, a named field or an offset with a size, and what is added there.
//
// +kubebuilder:validation:ExactlyOneOf=field;offset
// +kubebuilder:validation:XValidation:rule="has(self.offset) == has(self.size)",message="size goes with offset, and only with it"
type CopyVariation struct {
	// field by header and name, such as `ipv4.source`; see `fields[].writes[].field`.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z][a-zA-Z0-9]*(\[[0-9]{1,2}\])?\.[a-zA-Z0-9]+$`
	Field string `json:"field,omitempty"`

	// offset of the first byte from the start of the packet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9211
	Offset *int32 `json:"offset,omitempty"`

	// size in bytes.
	// +optional
	// +kubebuilder:validation:Enum=1;2;3;4;6;8
	Size *int32 `json:"size,omitempty"`

	// step added from one stream to the next; negative steps subtract.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=-9007199254740991
	// +kubebuilder:validation:Maximum=9007199254740991
	Step *int64 `json:"step,omitempty"`
}

// Transmit is exactly one of its fields.
//
// +kubebuilder:validation:ExactlyOneOf=continuous;burst;multiBurst;replay
type Transmit struct {
	// continuous sends at a steady rate as long as the run lasts.
	// +optional
	Continuous *ContinuousTransmit `json:"continuous,omitempty"`

	// burst sends a number of packets at a steady rate, once.
	// +optional
	Burst *BurstTransmit `json:"burst,omitempty"`

	// multiBurst sends several bursts with gaps between them.
	// +optional
	MultiBurst *MultiBurstTransmit `json:"multiBurst,omitempty"`

	// replay sends the packets of a capture.
	// +optional
	Replay *ReplayTransmit `json:"replay,omitempty"`
}

// ContinuousTransmit sends without an end.
type ContinuousTransmit struct {
	// rate of the stream, such as `1.5Mpps`, `10Gbps` or `80%`.
	// +required
	Rate Rate `json:"rate"`
}

// BurstTransmit sends a number of packets, once.
type BurstTransmit struct {
	// packets of the burst.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	Packets int64 `json:"packets"`

	// rate within the burst.
	// +required
	Rate Rate `json:"rate"`
}

// MultiBurstTransmit sends several bursts.
type MultiBurstTransmit struct {
	// packetsPerBurst is the length of each burst.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	PacketsPerBurst int64 `json:"packetsPerBurst"`

	// bursts is their number; without end when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	Bursts *int64 `json:"bursts,omitempty"`

	// interBurstGap is the time from the last packet of a burst to the first of the next.
	// +required
	InterBurstGap Duration `json:"interBurstGap"`

	// rate within a burst.
	// +required
	Rate Rate `json:"rate"`
}

// ReplayTransmit sends the packets of a capture, by one worker.
//
// +kubebuilder:validation:XValidation:rule="!has(self.directions) || !has(self.minGap)",fieldPath=".minGap",message="minGap does not go with directions: set gap.fixed"
type ReplayTransmit struct {
	// pcap names the capture, a pcap or pcapng file.
	// +required
	Pcap CaptureSource `json:"pcap"`

	// gap between packets; as captured when absent.
	// +optional
	Gap *ReplayGap `json:"gap,omitempty"`

	// loops is how often the capture is sent at each start; without end when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	Loops *int64 `json:"loops,omitempty"`

	// minGap is the least time between two packets.
	// +optional
	MinGap Duration `json:"minGap,omitempty"`

	// fixChecksums keeps the checksums of IPv4, TCP, UDP and ICMP true where fields are written.
	// +optional
	FixChecksums bool `json:"fixChecksums,omitempty"`

	// directions sends the packets of who sent the first one (the initiator) from the entry's transmitPort, and all others (the
	// responder's) from its receivePort.
	// +optional
	Directions *ReplayDirections `json:"directions,omitempty"`
}

// ReplayDirections says how the two sides of a conversation are distinguished.
type ReplayDirections struct {
	// by source MAC, source IP address (packets without are the initiator's), or capturing interface (pcapng).
	// +required
	By DirectionsBy `json:"by"`
}

// DirectionsBy is the property that distinguishes the two sides of a conversation.
//
// +kubebuilder:validation:Enum=MAC;IP;Interface
type DirectionsBy string

const (
	// DirectionsByMAC compares source MAC addresses.
	DirectionsByMAC DirectionsBy = "MAC"
	// DirectionsByIP compares the source addresses of the first IP headers.
	DirectionsByIP DirectionsBy = "IP"
	// DirectionsByInterface compares the interfaces that captured the packets.
	DirectionsByInterface DirectionsBy = "Interface"
)

// CaptureSource is exactly one of its fields.
//
// +kubebuilder:validation:ExactlyOneOf=from;volume
type CaptureSource struct {
	// from names the data, at most 1 MiB.
	// +optional
	From *DataSource `json:"from,omitempty"`

	// volume names a file on a volume of the generator; it is read while it is sent, so it may be of any length.
	// +optional
	Volume *VolumeFile `json:"volume,omitempty"`
}

// VolumeFile is a file on a volume of a generator.
type VolumeFile struct {
	// name of the volume in the generator's spec.volumes.
	// +required
	Name EntryName `json:"name"`

	// path of the file on the volume, such as `captures/web.pcap`: relative, of letters, digits, '_', '.', '+' and '-', no part
	// beginning with '.'.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+-][A-Za-z0-9_.+-]*(/[A-Za-z0-9_+-][A-Za-z0-9_.+-]*)*$`
	Path string `json:"path"`
}

// ReplayGap is the time between packets: exactly one of scale and fixed.
//
// +kubebuilder:validation:ExactlyOneOf=scale;fixed
type ReplayGap struct {
	// scale of the times as captured, a decimal number: `2` takes twice as long, `0.5` half.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?$') && !self.matches('^[0.]+$')",message="must be a decimal number greater than zero such as 1 or 0.5"
	Scale string `json:"scale,omitempty"`

	// fixed time from packet to packet, such as `10us`.
	// +optional
	Fixed Duration `json:"fixed,omitempty"`
}

// Measure says what is measured of a stream.
//
// +kubebuilder:validation:XValidation:rule="!has(self.latency) || !self.latency || (has(self.flow) && self.flow)",fieldPath=".latency",message="latency needs flow: true"
// +kubebuilder:validation:XValidation:rule="!has(self.mark) || ((!has(self.flow) || !self.flow) && (!has(self.latency) || !self.latency))",fieldPath=".mark",message="mark counts packets without a trailer: leave flow and latency out, or mark"
// +kubebuilder:validation:XValidation:rule="!has(self.byTag) || (has(self.flow) && self.flow)",fieldPath=".byTag",message="byTag needs flow: true"
type Measure struct {
	// flow measures received, lost, duplicated and reordered packets exactly. It takes the last 16 bytes of each
	// packet's payload, and the profile's entry must say where the packets are expected (`receivePort`).
	// +optional
	Flow bool `json:"flow,omitempty"`

	// latency measures delay, its distribution and jitter too; needs flow.
	// +optional
	Latency bool `json:"latency,omitempty"`

	// mark counts received packets and bytes by a mark in a header, for packets that have no room for a trailer. What is
	// lost is the difference: neither duplicates nor order are seen. The entry must have a `receivePort`.
	// +optional
	Mark *Mark `json:"mark,omitempty"`

	// byTag counts received packets also by the VLAN tags with which they arrive; needs flow. Packets without a tag, and with tags that are
	// not named, are counted beside them (`untagged`, `other`). Each tag has a sequence of its own.
	// +optional
	ByTag *MeasuredTags `json:"byTag,omitempty"`
}

// MeasuredTags are VLAN tags: at most 4,096 in a stream, and 262,144 in all streams of a run.
type MeasuredTags struct {
	// vlans of packets with one tag.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	VLANs []VLANRange `json:"vlans,omitempty"`

	// qinq are those of packets with two tags. Of packets with more, the outer two count.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	QinQ []QinQRange `json:"qinq,omitempty"`
}

// VLANRange is a VLAN, or several with successive identifiers.
//
// +kubebuilder:validation:XValidation:rule="!has(self.end) || self.end >= self.start",fieldPath=".end",message="end must not be below start"
type VLANRange struct {
	// start is the identifier of the first.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	Start int32 `json:"start"`

	// end is the identifier of the last; the same as start when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	End *int32 `json:"end,omitempty"`
}

// QinQRange are pairs of tags: an outer one, and inner ones.
type QinQRange struct {
	// outer is the identifier of the outer VLAN.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	Outer int32 `json:"outer"`

	// inner are the identifiers of the inner VLANs.
	// +required
	Inner VLANRange `json:"inner"`
}

// Mark identifies a stream's packets on arrival: exactly one of its fields. Entries of a profile that name the same number are
// counted together, under the first one's name.
//
// +kubebuilder:validation:ExactlyOneOf=ipv4Identification;ipv6FlowLabel
type Mark struct {
	// ipv4Identification of the first IPv4 header: 1 to 65535, or `auto` for one that no other run uses.
	// +optional
	IPv4Identification *IPv4MarkValue `json:"ipv4Identification,omitempty"`

	// ipv6FlowLabel of the first IPv6 header: 1 to 1048575, or `auto` for one that no other run uses.
	// +optional
	IPv6FlowLabel *IPv6MarkValue `json:"ipv6FlowLabel,omitempty"`
}

// MarkAuto is the value of a mark that is chosen.
const MarkAuto = "auto"

// IPv4MarkValue is 1 to 65535, or `auto`.
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:MaxLength=4
// +kubebuilder:validation:XValidation:rule="self == 'auto' || (type(self) == int && self >= 1 && self <= 65535)",message="must be 1 to 65535, or auto"
type IPv4MarkValue string

// IPv6MarkValue is 1 to 1048575, or `auto`.
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:MaxLength=4
// +kubebuilder:validation:XValidation:rule="self == 'auto' || (type(self) == int && self >= 1 && self <= 1048575)",message="must be 1 to 1048575, or auto"
type IPv6MarkValue string

// UnmarshalJSON takes a number or a string.
func (v *IPv4MarkValue) UnmarshalJSON(data []byte) error { return (*FieldValue)(v).UnmarshalJSON(data) }

// MarshalJSON writes a number as one.
func (v IPv4MarkValue) MarshalJSON() ([]byte, error) { return marshalMark(string(v)) }

// UnmarshalJSON takes a number or a string.
func (v *IPv6MarkValue) UnmarshalJSON(data []byte) error { return (*FieldValue)(v).UnmarshalJSON(data) }

// MarshalJSON writes a number as one.
func (v IPv6MarkValue) MarshalJSON() ([]byte, error) { return marshalMark(string(v)) }

func marshalMark(text string) ([]byte, error) {
	if number, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.AppendInt(nil, number, 10), nil
	}
	return json.Marshal(text)
}

// StatelessStreamStatus says whether the stream can be built into packets.
type StatelessStreamStatus struct {
	// conditions are Ready, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec this status was computed from; -1 until the operator has seen the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// frameSize is the packet's size on the wire in bytes, FCS included; the longest where sizes differ.
	// +optional
	FrameSize int32 `json:"frameSize,omitempty"`

	// summary of the packet for people, such as `ethernet/ipv4/udp 198.18.0.1 > 198.19.0.1:7`.
	// +optional
	Summary string `json:"summary,omitempty"`
}

// StatelessStream is a packet, what varies in it, how it is sent and what is measured.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sls,categories=spate
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.status.frameSize`,description="Bytes on the wire, FCS included"
// +kubebuilder:printcolumn:name="Rate",type=string,JSONPath=`.spec.transmit.*.rate`
// +kubebuilder:printcolumn:name="Packet",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type StatelessStream struct {
	metav1.TypeMeta `json:",inline"`

	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what is wanted.
	// +required
	Spec StatelessStreamSpec `json:"spec"`

	// status is what was found.
	// +optional
	// +default={"observedGeneration": -1}
	Status StatelessStreamStatus `json:"status,omitzero"`
}

// StatelessStreamList is a list of StatelessStreams.
//
// +kubebuilder:object:root=true
type StatelessStreamList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []StatelessStream `json:"items"`
}
