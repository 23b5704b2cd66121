// SPDX-License-Identifier: Apache-2.0

// Headers of tunnels: GRE, VXLAN, GENEVE, GTP-U and NSH.

package v1alpha1

// GREHeader is a GRE header (RFC 2784, RFC 2890).
//
// +kubebuilder:validation:XValidation:rule="!has(self.checksum) || (has(self.checksumPresent) && self.checksumPresent)",fieldPath=".checksum",message="checksum goes with checksumPresent: true"
type GREHeader struct {
	// key of the tunnel; no key when absent. NVGRE (RFC 7637) has the subnet in the upper 24 bits.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Key *int64 `json:"key,omitempty"`

	// sequence number; none when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Sequence *int64 `json:"sequence,omitempty"`

	// checksumPresent adds a checksum over the header and all behind it.
	// +optional
	ChecksumPresent bool `json:"checksumPresent,omitempty"`

	// checksum that is written as it is, right or wrong (with checksumPresent); computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Checksum *int32 `json:"checksum,omitempty"`

	// protocol is set by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Protocol *int32 `json:"protocol,omitempty"`
}

// VXLANHeader is a VXLAN header (RFC 7348).
type VXLANHeader struct {
	// vni is the network identifier.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`

	// flags of the first byte. When absent 8 (the identifier is valid), and 4 more in VXLAN-GPE.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Flags *int32 `json:"flags,omitempty"`

	// nextProtocol makes it VXLAN-GPE; set by the next header if that is not ethernet. None when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	NextProtocol *int32 `json:"nextProtocol,omitempty"`
}

// GeneveHeader is a GENEVE header (RFC 8926).
type GeneveHeader struct {
	// vni is the network identifier.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`

	// control is the O bit.
	// +optional
	Control bool `json:"control,omitempty"`

	// critical is the C bit.
	// +optional
	Critical bool `json:"critical,omitempty"`

	// protocol (an EtherType), named by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Protocol *int32 `json:"protocol,omitempty"`

	// options of the header, 252 bytes in all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Options []GeneveOption `json:"options,omitempty"`
}

// GeneveOption is one option.
type GeneveOption struct {
	// class of the option.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Class int32 `json:"class"`

	// type of the option; with the highest bit set it is critical.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Type int32 `json:"type"`

	// value as hex digits, whole words of 4 bytes; empty when absent.
	// +optional
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=248
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{8})+$`
	Value string `json:"value,omitempty"`
}

// GTPUHeader is a GTP-U header (3GPP TS 29.281).
type GTPUHeader struct {
	// teid is the tunnel endpoint identifier.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	TEID int64 `json:"teid"`

	// messageType is 255 (G-PDU, user data) when absent.
	// +optional
	// +default=255
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	MessageType *int32 `json:"messageType,omitempty"`

	// sequence number; none when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Sequence *int32 `json:"sequence,omitempty"`

	// nPDU number; none when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	NPDU *int32 `json:"nPDU,omitempty"`

	// extensions behind the header.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Extensions []GTPUExtension `json:"extensions,omitempty"`

	// length in bytes that is written as it is; computed and kept true when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Length *int32 `json:"length,omitempty"`
}

// GTPUExtension is one extension header.
type GTPUExtension struct {
	// type of the extension, such as 133 (0x85) for the PDU session container.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Type int32 `json:"type"`

	// content as hex digits, without length and next type: 2 bytes, or 2 and any number of 4 more.
	// +required
	// +kubebuilder:validation:MinLength=4
	// +kubebuilder:validation:MaxLength=2036
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	Content string `json:"content"`
}

// NSHHeader is a network service header (RFC 8300): of MD type 1 with fixedContext, of MD type 2 without.
//
// +kubebuilder:validation:AtMostOneOf=fixedContext;metadata
type NSHHeader struct {
	// servicePathIdentifier (SPI).
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16777215
	ServicePathIdentifier int32 `json:"servicePathIdentifier"`

	// serviceIndex (SI); 255 when absent.
	// +optional
	// +default=255
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	ServiceIndex *int32 `json:"serviceIndex,omitempty"`

	// ttl is the number of hops; 63 when absent.
	// +optional
	// +default=63
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	TTL *int32 `json:"ttl,omitempty"`

	// oam is the O bit.
	// +optional
	OAM bool `json:"oam,omitempty"`

	// nextProtocol is set by the next header; needed when none follows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	NextProtocol *int32 `json:"nextProtocol,omitempty"`

	// fixedContext is the fixed-length context header: 16 bytes as hex digits.
	// +optional
	// +kubebuilder:validation:MinLength=32
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]+$`
	FixedContext string `json:"fixedContext,omitempty"`

	// metadata are variable-length context headers, 244 bytes in all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Metadata []NSHMetadata `json:"metadata,omitempty"`
}

// NSHMetadata is one variable-length context header (RFC 8300 section 2.5.1).
type NSHMetadata struct {
	// class of the metadata.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Class int32 `json:"class"`

	// type of the metadata.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	Type int32 `json:"type"`

	// value as hex digits, padded to whole words; empty when absent.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=254
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	Value string `json:"value,omitempty"`
}
