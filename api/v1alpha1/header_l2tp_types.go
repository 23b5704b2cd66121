// SPDX-License-Identifier: Apache-2.0

// Headers of L2TP, versions 2 and 3.

package v1alpha1

// L2TPHeader is an L2TPv2 header (RFC 2661).
//
// +kubebuilder:validation:XValidation:rule="!has(self.control) || !self.control || (!has(self.offsetSize) && !has(self.priority))",fieldPath=".control",message="a control message has neither offsetSize nor priority"
type L2TPHeader struct {
	// control makes it a control message, with length, ns, nr and nothing behind avps; a data message when absent.
	// +optional
	Control bool `json:"control,omitempty"`

	// tunnelID of the receiver.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	TunnelID int32 `json:"tunnelID"`

	// sessionID of the receiver.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	SessionID int32 `json:"sessionID,omitempty"`

	// lengthPresent adds the length to a data message.
	// +optional
	LengthPresent bool `json:"lengthPresent,omitempty"`

	// length in bytes that is written as it is; computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Length *int32 `json:"length,omitempty"`

	// ns is the sequence number. A data message without ns and nr has neither.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Ns *int32 `json:"ns,omitempty"`

	// nr is the sequence number that is expected next.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Nr *int32 `json:"nr,omitempty"`

	// offsetSize adds the field, and this number of bytes of zeros.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	OffsetSize *int32 `json:"offsetSize,omitempty"`

	// priority is the P bit.
	// +optional
	Priority bool `json:"priority,omitempty"`

	// avps are the attribute value pairs of a control message, as hex digits; none when absent.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	AVPs string `json:"avps,omitempty"`
}

// L2TPv3Header is an L2TPv3 header (RFC 3931): of a data message with sessionID, of a control message with controlConnectionID.
//
// +kubebuilder:validation:ExactlyOneOf=sessionID;controlConnectionID
// +kubebuilder:validation:XValidation:rule="has(self.sessionID) ? !has(self.ns) && !has(self.nr) && !has(self.length) && !has(self.avps) : !has(self.cookie) && !has(self.l2SpecificSublayer) && !has(self.sequenceNumber)",message="cookie, l2SpecificSublayer and sequenceNumber go with sessionID; length, ns, nr and avps with controlConnectionID"
type L2TPv3Header struct {
	// sessionID of the receiver.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	SessionID *int64 `json:"sessionID,omitempty"`

	// cookie of 4 or 8 bytes as hex digits; none when absent.
	// +optional
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{8})+$`
	Cookie string `json:"cookie,omitempty"`

	// l2SpecificSublayer adds the default sublayer of 4 bytes.
	// +optional
	L2SpecificSublayer bool `json:"l2SpecificSublayer,omitempty"`

	// sequenceNumber adds the sublayer, with this number and the S bit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16777215
	SequenceNumber *int32 `json:"sequenceNumber,omitempty"`

	// controlConnectionID of the receiver; nothing follows such a message.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	ControlConnectionID *int64 `json:"controlConnectionID,omitempty"`

	// ns is the sequence number; 0 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Ns *int32 `json:"ns,omitempty"`

	// nr is the sequence number that is expected next; 0 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Nr *int32 `json:"nr,omitempty"`

	// length in bytes that is written as it is; computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Length *int32 `json:"length,omitempty"`

	// avps are the attribute value pairs, as hex digits; none when absent.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	AVPs string `json:"avps,omitempty"`
}
