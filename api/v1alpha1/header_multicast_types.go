// SPDX-License-Identifier: Apache-2.0

// Messages of group membership: IGMP, and MLD in ICMPv6.

package v1alpha1

// IGMPMessage is a kind of message, by its version.
//
// +kubebuilder:validation:Enum=MembershipQueryV1;MembershipQueryV2;MembershipQueryV3;MembershipReportV1;MembershipReportV2;MembershipReportV3;LeaveGroup
type IGMPMessage string

// The messages of IGMP.
const (
	IGMPQueryV1  IGMPMessage = "MembershipQueryV1"
	IGMPQueryV2  IGMPMessage = "MembershipQueryV2"
	IGMPQueryV3  IGMPMessage = "MembershipQueryV3"
	IGMPReportV1 IGMPMessage = "MembershipReportV1"
	IGMPReportV2 IGMPMessage = "MembershipReportV2"
	IGMPReportV3 IGMPMessage = "MembershipReportV3"
	IGMPLeave    IGMPMessage = "LeaveGroup"
)

// IGMPHeader is an IGMP message (RFC 1112, RFC 2236, RFC 3376).
//
// +kubebuilder:validation:XValidation:rule="!has(self.groupRecords) || self.message == 'MembershipReportV3'",fieldPath=".groupRecords",message="groupRecords go with message: MembershipReportV3"
// +kubebuilder:validation:XValidation:rule="!has(self.sourceAddresses) || self.message == 'MembershipQueryV3'",fieldPath=".sourceAddresses",message="sourceAddresses go with message: MembershipQueryV3"
type IGMPHeader struct {
	// message and its version.
	// +required
	Message IGMPMessage `json:"message"`

	// groupAddress of the message; of a query 0.0.0.0 (of all groups) when absent.
	// +optional
	GroupAddress IPv4Address `json:"groupAddress,omitempty"`

	// maxRespCode of a query in tenths of a second, from 128 on as in RFC 3376 section 4.1.1. 100 when absent; 0 in version 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	MaxRespCode *int32 `json:"maxRespCode,omitempty"`

	// suppressRouterProcessing is the S flag.
	// +optional
	SuppressRouterProcessing bool `json:"suppressRouterProcessing,omitempty"`

	// qrv is the querier's robustness variable; 2 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=7
	QRV *int32 `json:"qrv,omitempty"`

	// qqic is the querier's query interval code; 125 s when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	QQIC *int32 `json:"qqic,omitempty"`

	// sourceAddresses that are queried; all when absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=15
	// +kubebuilder:validation:items:Pattern=`^[0-9.]{7,}$`
	SourceAddresses []string `json:"sourceAddresses,omitempty"`

	// groupRecords of the report.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	GroupRecords []MulticastRecord `json:"groupRecords,omitempty"`

	// checksum that is written as it is, right or wrong; computed when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Checksum *int32 `json:"checksum,omitempty"`
}

// MulticastRecordType is what a record reports.
//
// +kubebuilder:validation:Enum=ModeIsInclude;ModeIsExclude;ChangeToIncludeMode;ChangeToExcludeMode;AllowNewSources;BlockOldSources
type MulticastRecordType string

// The types of records, from 1 on.
const (
	ModeIsInclude       MulticastRecordType = "ModeIsInclude"
	ModeIsExclude       MulticastRecordType = "ModeIsExclude"
	ChangeToIncludeMode MulticastRecordType = "ChangeToIncludeMode"
	ChangeToExcludeMode MulticastRecordType = "ChangeToExcludeMode"
	AllowNewSources     MulticastRecordType = "AllowNewSources"
	BlockOldSources     MulticastRecordType = "BlockOldSources"
)

// MulticastRecord is a group record (RFC 3376 section 4.2.4) or a multicast address record (RFC 3810 section 5.2.5).
type MulticastRecord struct {
	// recordType is what it reports.
	// +required
	RecordType MulticastRecordType `json:"recordType"`

	// multicastAddress that it is about.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F:.]+$`
	MulticastAddress string `json:"multicastAddress"`

	// sourceAddresses of the record.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F:.]{2,}$`
	SourceAddresses []string `json:"sourceAddresses,omitempty"`
}

// MLDMessage is a kind of message, by its version.
//
// +kubebuilder:validation:Enum=QueryV1;QueryV2;ReportV1;ReportV2;Done
type MLDMessage string

// The messages of MLD.
const (
	MLDQueryV1  MLDMessage = "QueryV1"
	MLDQueryV2  MLDMessage = "QueryV2"
	MLDReportV1 MLDMessage = "ReportV1"
	MLDReportV2 MLDMessage = "ReportV2"
	MLDDone     MLDMessage = "Done"
)

// MulticastListener is a message of MLD (RFC 2710, RFC 3810).
//
// +kubebuilder:validation:XValidation:rule="!has(self.multicastAddressRecords) || self.message == 'ReportV2'",fieldPath=".multicastAddressRecords",message="multicastAddressRecords go with message: ReportV2"
// +kubebuilder:validation:XValidation:rule="!has(self.sourceAddresses) || self.message == 'QueryV2'",fieldPath=".sourceAddresses",message="sourceAddresses go with message: QueryV2"
type MulticastListener struct {
	// message and its version.
	// +required
	Message MLDMessage `json:"message"`

	// multicastAddress of the message; of a query :: (of all addresses) when absent.
	// +optional
	MulticastAddress IPv6Address `json:"multicastAddress,omitempty"`

	// maximumResponseCode of a query in milliseconds, from 32768 on as in RFC 3810 section 5.1.3; 10000 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	MaximumResponseCode *int32 `json:"maximumResponseCode,omitempty"`

	// suppressRouterProcessing is the S flag.
	// +optional
	SuppressRouterProcessing bool `json:"suppressRouterProcessing,omitempty"`

	// qrv is the querier's robustness variable; 2 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=7
	QRV *int32 `json:"qrv,omitempty"`

	// qqic is the querier's query interval code; 125 s when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	QQIC *int32 `json:"qqic,omitempty"`

	// sourceAddresses that are queried; all when absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:Pattern=`^[0-9a-fA-F:.]{2,}$`
	SourceAddresses []string `json:"sourceAddresses,omitempty"`

	// multicastAddressRecords of the report.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	MulticastAddressRecords []MulticastRecord `json:"multicastAddressRecords,omitempty"`
}
