// SPDX-License-Identifier: Apache-2.0

// ClientGroup: what emulated clients of an access network are. How many there are, and where, is in the profile that uses the group.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClientRate is clients a second: a decimal number, an optional k or M (powers of 1000), and `/s`.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,12}([.][0-9]{1,6})?[kM]?/s$')",message="must be clients a second such as 5000/s or 0.5/s"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[0.]+[kM]?/')",message="a rate must be greater than zero"
type ClientRate string

// ClientShare is a part of the clients of an entry, in percent with at most four decimal places.
//
// +kubebuilder:validation:MaxLength=8
// +kubebuilder:validation:XValidation:rule="self.matches('^(100([.]0{1,4})?|[0-9]{1,2}([.][0-9]{1,4})?)%$')",message="must be a share such as 99% or 99.9%"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[0.]+%$')",message="a share must be greater than zero"
type ClientShare string

// ClientPattern is a text that differs from client to client: `{n}` stands for the client's number, `{n:08}` for the number with zeros in
// front up to 8 digits (1 to 20).
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=255
// +kubebuilder:validation:XValidation:rule="self.matches('^([^{]|[{]n(:0([1-9]|1[0-9]|20))?[}])*$')",message="{n} and {n:08} are known in braces; correct or remove the others"
type ClientPattern string

// ClientGroupSpec says what clients are. Client n of a profile's entry has the number n, from which its MAC, VLANs and texts follow.
//
// +kubebuilder:validation:XValidation:rule="has(self.ipv4) || has(self.ipv6)",message="the clients have no addresses; set ipv4 or ipv6"
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !has(self.verify.pingGateway) || !self.verify.pingGateway || !has(self.ipv4) || !has(self.ipv4.static) || has(self.ipv4.static.gateway)",fieldPath=".verify.pingGateway",message="pings a gateway, which the static addresses do not have; set ipv4.static.gateway"
type ClientGroupSpec struct {
	// mac has the Ethernet addresses of the clients.
	// +required
	MAC ClientMACs `json:"mac"`

	// vlans are the VLAN tags of the clients' frames, the outermost first; none when absent, even on a port with a VLAN. The identifiers of
	// the last tag change from client to client, those of the other whenever the last one's start again. Clients with tags cannot be the
	// pool of an ASTFTemplate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	VLANs []ClientVLANs `json:"vlans,omitempty"`

	// hostname of a client (option 12 of DHCP), such as `sub-{n}`.
	// +optional
	Hostname ClientPattern `json:"hostname,omitempty"`

	// ipv4 says how clients get IPv4 addresses.
	// +optional
	IPv4 *ClientIPv4 `json:"ipv4,omitempty"`

	// ipv6 says how clients get IPv6 addresses. Each has a link-local address, too.
	// +optional
	IPv6 *ClientIPv6 `json:"ipv6,omitempty"`

	// verify says what must be true of a client beside its addresses, before it is bound.
	// +optional
	Verify ClientVerification `json:"verify,omitzero"`

	// retry says when messages are repeated; as RFC 2131 section 4.1 has it when absent.
	// +optional
	Retry *ClientRetry `json:"retry,omitempty"`
}

// ClientMACs are the Ethernet addresses of clients.
type ClientMACs struct {
	// first is the address of client 0; that of client n is n higher.
	// +required
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$') || self.matches('^.[02468aceACE]')",message="is the address of a group: the first byte of a station's address is even, as in 02:10:00:00:00:00"
	First MACAddress `json:"first"`
}

// ClientVLANs are the identifiers of a VLAN tag.
//
// +kubebuilder:validation:XValidation:rule="self.first + self.count - 1 <= 4094",fieldPath=".count",message="the last identifier, first + count - 1, must be at most 4094"
type ClientVLANs struct {
	// first identifier.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	First int32 `json:"first"`

	// count of identifiers.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	Count int32 `json:"count,omitempty"`

	// protocol of the tag: `802.1Q` (TPID 0x8100), or `802.1ad` (TPID 0x88a8); of the outer of two tags 802.1ad when absent, else 802.1Q.
	// +optional
	Protocol VLANProtocol `json:"protocol,omitempty"`
}

// ClientIPv4 says how clients get IPv4 addresses.
//
// +kubebuilder:validation:ExactlyOneOf=dhcp;static
type ClientIPv4 struct {
	// dhcp requests leases from servers of DHCP (RFC 2131), renews them, and gives them back.
	// +optional
	DHCP *ClientDHCP `json:"dhcp,omitempty"`

	// static addresses need no server.
	// +optional
	Static *ClientStatic `json:"static,omitempty"`
}

// ClientDHCP is a client of DHCP.
type ClientDHCP struct {
	// vendorClass is the vendor class identifier (option 60).
	// +optional
	// +kubebuilder:validation:MaxLength=255
	VendorClass string `json:"vendorClass,omitempty"`

	// vendorSpecific is the vendor-specific information (option 43), as hex digits.
	// +optional
	// +kubebuilder:validation:MaxLength=510
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	VendorSpecific string `json:"vendorSpecific,omitempty"`

	// requestedOptions are the codes of the parameters that clients request (option 55): 1, 3, 6, 51, 54, 58 and 59 when absent.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=254
	RequestedOptions []int32 `json:"requestedOptions,omitempty"`

	// clientID is the client identifier (option 61, type 0); that of the MAC address (type 1) when absent.
	// +optional
	ClientID ClientPattern `json:"clientID,omitempty"`

	// circuitID is in the relay agent information (option 82), as an access node adds it.
	// +optional
	CircuitID ClientPattern `json:"circuitID,omitempty"`

	// remoteID is in the relay agent information (option 82), as an access node adds it.
	// +optional
	RemoteID ClientPattern `json:"remoteID,omitempty"`

	// leaseTime that clients request (option 51), in whole seconds; the server's choice when absent.
	// +optional
	LeaseTime Duration `json:"leaseTime,omitempty"`

	// broadcast asks servers to send their answers to all stations.
	// +optional
	Broadcast bool `json:"broadcast,omitempty"`

	// probes is the number of ARP probes (RFC 5227), half a second each, by which a client looks for another station with its address before
	// it uses it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3
	Probes int32 `json:"probes,omitempty"`
}

// ClientStatic are addresses that clients have without a server.
type ClientStatic struct {
	// first is the address of client 0; that of client n is n higher.
	// +required
	First IPv4Address `json:"first"`

	// prefixLength of the clients' subnet.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	PrefixLength int32 `json:"prefixLength"`

	// gateway of the clients. Without one they cannot be the pool of an ASTFTemplate.
	// +optional
	Gateway IPv4Address `json:"gateway,omitempty"`

	// probes is as that of DHCP.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3
	Probes int32 `json:"probes,omitempty"`
}

// ClientIPv6 says how clients get IPv6 addresses.
//
// +kubebuilder:validation:XValidation:rule="has(self.slaac) || has(self.dhcp)",message="the clients have link-local addresses only; set slaac: {} or dhcp"
type ClientIPv6 struct {
	// slaac forms an address of the first prefix that a router advertises for that (RFC 4862).
	// +optional
	SLAAC *ClientSLAAC `json:"slaac,omitempty"`

	// dhcp requests addresses or prefixes from servers of DHCPv6 (RFC 8415), renews them, and gives them back.
	// +optional
	DHCP *ClientDHCPv6 `json:"dhcp,omitempty"`

	// dadTransmits is the number of neighbor solicitations, one second each, by which a client looks for duplicates of its addresses (RFC
	// 4862 section 5.1).
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	DADTransmits *int32 `json:"dadTransmits,omitempty"`
}

// ClientSLAAC has no settings.
type ClientSLAAC struct{}

// DHCPv6When says when clients use DHCPv6.
//
// +kubebuilder:validation:Enum=Managed;Always
type DHCPv6When string

const (
	// DHCPv6Managed uses it when a router advertises that addresses come by it (flag M).
	DHCPv6Managed DHCPv6When = "Managed"
	// DHCPv6Always uses it whatever routers advertise.
	DHCPv6Always DHCPv6When = "Always"
)

// ClientDHCPv6 is a client of DHCPv6.
//
// +kubebuilder:validation:XValidation:rule="has(self.prefix) || !has(self.address) || self.address",message="requests neither an address nor a prefix; set one of them"
type ClientDHCPv6 struct {
	// when DHCPv6 is used: `Managed` when a router advertises it (flag M), or `Always`.
	// +optional
	// +default="Managed"
	When DHCPv6When `json:"when,omitempty"`

	// address requests an address (IA_NA).
	// +optional
	// +default=true
	Address *bool `json:"address,omitempty"`

	// prefix requests a prefix of this length (IA_PD); 0 of any length. None when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Prefix *int32 `json:"prefix,omitempty"`

	// rapidCommit asks for the lease with two messages instead of four.
	// +optional
	RapidCommit bool `json:"rapidCommit,omitempty"`
}

// ClientVerification says what is checked of a client.
type ClientVerification struct {
	// pingGateway binds a client only when its gateway has answered a ping.
	// +optional
	PingGateway bool `json:"pingGateway,omitempty"`
}

// ClientRetry says when clients repeat messages that are not answered.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.first) ? self.first : '4s').matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || !(has(self.spread) ? self.spread : '1s').matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || duration(has(self.spread) ? self.spread : '1s') < duration(has(self.first) ? self.first : '4s')",fieldPath=".spread",message="must be less than first (4s when absent); 1s when absent"
type ClientRetry struct {
	// first is the time from the first message of an exchange to the second; then each is twice as long as the one before. 4s when absent.
	// +optional
	First Duration `json:"first,omitempty"`

	// max is the longest time between two messages; 64s when absent. A client that has failed goes on at this pace.
	// +optional
	Max Duration `json:"max,omitempty"`

	// spread is the random part of these times: this much more or less. 1s when absent.
	// +optional
	Spread Duration `json:"spread,omitempty"`

	// attempts is the number of messages without an answer after which a client has failed; 5 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	Attempts int32 `json:"attempts,omitempty"`
}

// ClientsAtEnd says what becomes of leases when a run has ended.
//
// +kubebuilder:validation:Enum=Release;Forget
type ClientsAtEnd string

const (
	// ClientsRelease gives them back, at the rate at which clients started.
	ClientsRelease ClientsAtEnd = "Release"
	// ClientsForget ends the clients without a message, as if they were switched off.
	ClientsForget ClientsAtEnd = "Forget"
)

// ClientsEntry are the clients of a group on a port of a run.
type ClientsEntry struct {
	// name of the entry; it appears in results and as a label of metrics.
	// +required
	Name EntryName `json:"name"`

	// groupRef names the ClientGroup in the profile's namespace, which says what the clients are.
	// +required
	GroupRef LocalReference `json:"groupRef"`

	// port of the generator that the clients are on.
	// +required
	Port PortName `json:"port"`

	// count of clients, over all pods: client n is on pod n modulo the number of pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16000000
	Count int32 `json:"count"`

	// rate at which clients start, over all pods, evenly, such as `5000/s`. They start when the run is prepared.
	// +required
	Rate ClientRate `json:"rate"`

	// maxOutstanding is the number of clients, over all pods, that may have started and be neither bound nor failed: while there are as
	// many, no other starts. Unlimited when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16000000
	MaxOutstanding *int32 `json:"maxOutstanding,omitempty"`

	// ready says when the run goes on to send.
	// +optional
	Ready ClientsReady `json:"ready,omitzero"`

	// atEnd says what becomes of leases when the run has ended: `Release` gives them back, `Forget` ends the clients without a message.
	// +optional
	// +default="Release"
	AtEnd ClientsAtEnd `json:"atEnd,omitempty"`
}

// ClientsReady says when the clients of an entry are ready.
type ClientsReady struct {
	// least is the share of the clients of each pod that must be bound; all when absent.
	// +optional
	Least ClientShare `json:"least,omitempty"`

	// timeout is the longest time that the run waits for them, before it sends. Later the run is invalid (SetupTimedOut). The profile's
	// setupTimeout when absent.
	// +optional
	Timeout Duration `json:"timeout,omitempty"`
}

// AddressFamily of addresses.
//
// +kubebuilder:validation:Enum=IPv4;IPv6
type AddressFamily string

const (
	// FamilyIPv4 has 4 bytes.
	FamilyIPv4 AddressFamily = "IPv4"
	// FamilyIPv6 has 16 bytes.
	FamilyIPv6 AddressFamily = "IPv6"
)

// PoolOfClients names the emulated clients whose addresses a pool has.
type PoolOfClients struct {
	// clients is the name of an entry of the profile's `clients`, on the transmitPort of the traffic entry. Its group has no vlans.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Clients string `json:"clients"`

	// family of the addresses. Those of IPv6 are leased by DHCPv6, or of the advertised prefix.
	// +optional
	// +default="IPv4"
	Family AddressFamily `json:"family,omitempty"`
}

// ClientGroup describes emulated clients of an access network: hosts with MACs of their own that get addresses by DHCP, DHCPv6 and router
// advertisements, or have fixed ones. Profiles say how many there are, and on which port.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=cg,categories=spate
// +kubebuilder:printcolumn:name="First MAC",type=string,JSONPath=`.spec.mac.first`
// +kubebuilder:printcolumn:name="Hostname",type=string,JSONPath=`.spec.hostname`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClientGroup struct {
	metav1.TypeMeta `json:",inline"`

	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the clients are.
	// +required
	Spec ClientGroupSpec `json:"spec"`
}

// ClientGroupList is a list of ClientGroups.
//
// +kubebuilder:object:root=true
type ClientGroupList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []ClientGroup `json:"items"`
}
