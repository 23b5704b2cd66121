// SPDX-License-Identifier: Apache-2.0

// Headers of what the ends of a link send to each other: LACP and MAC control.

package v1alpha1

// LACPHeader is an LACPDU, version 1 (IEEE 802.1AX).
type LACPHeader struct {
	// actor is the sender.
	// +required
	Actor LACPParticipant `json:"actor"`

	// partner as the sender sees it; zeros when absent.
	// +optional
	Partner *LACPParticipant `json:"partner,omitempty"`

	// collectorMaxDelay in tens of microseconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	CollectorMaxDelay int32 `json:"collectorMaxDelay,omitempty"`

	// version number; 1 when absent.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Version *int32 `json:"version,omitempty"`
}

// LACPState is a flag of a participant's state.
//
// +kubebuilder:validation:Enum=Activity;Timeout;Aggregation;Synchronization;Collecting;Distributing;Defaulted;Expired
type LACPState string

// The flags of a participant's state, from the lowest bit on.
const (
	LACPActivity        LACPState = "Activity"
	LACPTimeout         LACPState = "Timeout"
	LACPAggregation     LACPState = "Aggregation"
	LACPSynchronization LACPState = "Synchronization"
	LACPCollecting      LACPState = "Collecting"
	LACPDistributing    LACPState = "Distributing"
	LACPDefaulted       LACPState = "Defaulted"
	LACPExpired         LACPState = "Expired"
)

// LACPParticipant is the actor or the partner.
type LACPParticipant struct {
	// systemPriority of the system.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	SystemPriority int32 `json:"systemPriority,omitempty"`

	// system is its MAC address.
	// +required
	System MACAddress `json:"system"`

	// key of the port.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Key int32 `json:"key,omitempty"`

	// portPriority of the port.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	PortPriority int32 `json:"portPriority,omitempty"`

	// port number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// state flags that are set; none when absent.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	State []LACPState `json:"state,omitempty"`
}

// MACControlHeader is a PAUSE (IEEE 802.3 annex 31B) or a PFC message (annex 31D). Times are in units of 512 bit times.
//
// +kubebuilder:validation:ExactlyOneOf=pauseTime;priorityEnableVector
// +kubebuilder:validation:XValidation:rule="!has(self.times) || has(self.priorityEnableVector)",fieldPath=".times",message="times go with priorityEnableVector"
type MACControlHeader struct {
	// pauseTime of a PAUSE.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	PauseTime *int32 `json:"pauseTime,omitempty"`

	// priorityEnableVector of a PFC message: bit n is set where the time of priority n counts.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	PriorityEnableVector *int32 `json:"priorityEnableVector,omitempty"`

	// times of a PFC message, from priority 0 on; 0 when absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=65535
	Times []int32 `json:"times,omitempty"`

	// opcode that is written as it is; 1 (PAUSE) or 257 (PFC) when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Opcode *int32 `json:"opcode,omitempty"`
}
