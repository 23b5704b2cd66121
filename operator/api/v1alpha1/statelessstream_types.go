// SPDX-License-Identifier: Apache-2.0

// StatelessStream: one packet, what varies in it, how it is sent, and what is measured.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatelessStreamSpec describes a stream of packets that no connection stands behind.
type StatelessStreamSpec struct {
	// packet that is sent.
	Packet Packet `json:"packet"`

	// fields vary the packet: each is a variable that takes a new value for every packet and is written into it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Fields []PacketField `json:"fields,omitempty"`

	// transmit says when packets are sent.
	Transmit Transmit `json:"transmit"`

	// measure says what is measured beside the packets sent; nothing when absent.
	// +optional
	Measure Measure `json:"measure,omitzero"`

	// enabled is false for a stream that is prepared and sends nothing.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
}

// IsEnabled tells whether the stream sends; it does unless it is said not to.
func (s *StatelessStreamSpec) IsEnabled() bool {
	return s.Enabled == nil || *s.Enabled
}

// Transmit is exactly one of its fields.
//
// +kubebuilder:validation:ExactlyOneOf=continuous;burst;multiBurst
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
}

// ContinuousTransmit sends without an end.
type ContinuousTransmit struct {
	// rate of the stream, such as `1.5Mpps`, `10Gbps` or `80%`.
	Rate Rate `json:"rate"`
}

// BurstTransmit sends a number of packets, once.
type BurstTransmit struct {
	// packets of the burst.
	// +kubebuilder:validation:Minimum=1
	Packets int64 `json:"packets"`

	// rate within the burst.
	Rate Rate `json:"rate"`
}

// MultiBurstTransmit sends several bursts.
type MultiBurstTransmit struct {
	// packetsPerBurst is the length of each burst.
	// +kubebuilder:validation:Minimum=1
	PacketsPerBurst int64 `json:"packetsPerBurst"`

	// bursts is their number; without end when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Bursts *int64 `json:"bursts,omitempty"`

	// interBurstGap is the time from the last packet of a burst to the first of the next.
	InterBurstGap Duration `json:"interBurstGap"`

	// rate within a burst.
	Rate Rate `json:"rate"`
}

// Measure says what is measured of a stream.
type Measure struct {
	// flow measures received, lost, duplicated and reordered packets exactly. It takes the last 16 bytes of each
	// packet's payload, and the profile's entry must say where the packets are expected (`receivePort`).
	// +optional
	Flow bool `json:"flow,omitempty"`

	// latency measures delay, its distribution and jitter too.
	// +optional
	Latency bool `json:"latency,omitempty"`
}

// StatelessStreamStatus says whether the stream can be built into packets.
type StatelessStreamStatus struct {
	// observedGeneration is the generation of the spec this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// frameSize is the packet's size on the wire in bytes, FCS included.
	// +optional
	FrameSize int32 `json:"frameSize,omitempty"`

	// summary of the packet for people, such as `ethernet/ipv4/udp 198.18.0.1 > 198.19.0.1:7`.
	// +optional
	Summary string `json:"summary,omitempty"`
}

// StatelessStream is a packet, what varies in it, how it is sent and what is measured.
//
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

	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what is wanted.
	Spec StatelessStreamSpec `json:"spec"`

	// status is what was found.
	// +optional
	Status StatelessStreamStatus `json:"status,omitzero"`
}

// StatelessStreamList is a list of StatelessStreams.
//
// +kubebuilder:object:root=true
type StatelessStreamList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []StatelessStream `json:"items"`
}
