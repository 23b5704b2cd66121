// SPDX-License-Identifier: Apache-2.0

// What a run keeps, and reports, of emulated clients.

package v1alpha1

// ClientsSnapshot names the group of an entry of the profile's clients.
type ClientsSnapshot struct {
	// name of the entry.
	// +required
	Name EntryName `json:"name"`

	// group is the name of the ClientGroup.
	// +required
	Group ObjectName `json:"group"`
}

// ClientsResult is what was counted of the clients of an entry, over all pods, since the run was prepared.
type ClientsResult struct {
	// wanted clients.
	// +required
	Wanted int64 `json:"wanted"`

	// bound clients have their addresses: those of the states Bound, Renewing and Rebinding.
	// +required
	Bound int64 `json:"bound"`

	// states are the clients by state; their sum is wanted.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	States map[string]int64 `json:"states,omitempty"`

	// failed are the clients that have failed, by cause. They go on to try.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Failed map[string]int64 `json:"failed,omitempty"`

	// setups are clients that were bound, the first time after they started.
	// +optional
	Setups int64 `json:"setups,omitempty"`

	// setupRate is the number of setups a second.
	// +optional
	SetupRate *SetupRate `json:"setupRate,omitempty"`

	// setupTime is the time from the start of a client until it was bound.
	// +optional
	SetupTime *Latency `json:"setupTime,omitempty"`

	// offerTime is the time from the last DHCPDISCOVER to the first DHCPOFFER, and from SOLICIT to ADVERTISE.
	// +optional
	OfferTime *Latency `json:"offerTime,omitempty"`

	// ackTime is the time from the last DHCPREQUEST to the first DHCPACK, and from REQUEST to REPLY.
	// +optional
	AckTime *Latency `json:"ackTime,omitempty"`

	// dhcpv4 are messages of DHCP.
	// +optional
	DHCPv4 *DHCPv4Messages `json:"dhcpv4,omitempty"`

	// dhcpv6 are messages of DHCPv6.
	// +optional
	DHCPv6 *DHCPv6Messages `json:"dhcpv6,omitempty"`

	// renewals are leases that were prolonged.
	// +optional
	Renewals int64 `json:"renewals,omitempty"`

	// leasesLost are addresses that clients had and have no more, without having left: expired, refused, or another station's.
	// +optional
	LeasesLost int64 `json:"leasesLost,omitempty"`

	// duplicates is how often another station had a client's address.
	// +optional
	Duplicates int64 `json:"duplicates,omitempty"`

	// givenTwice are addresses that a server gave to a client while another had them.
	// +optional
	GivenTwice int64 `json:"givenTwice,omitempty"`

	// throttled clients were due and started later, because `maxOutstanding` were under way.
	// +optional
	Throttled int64 `json:"throttled,omitempty"`

	// malformed messages to clients were dropped because they are cut short, or say what cannot be.
	// +optional
	Malformed int64 `json:"malformed,omitempty"`

	// framesLost are frames for clients of the port that were lost because their thread was behind.
	// +optional
	FramesLost int64 `json:"framesLost,omitempty"`
}

// SetupRate is the number of clients that were bound, a second.
type SetupRate struct {
	// min is that of the slowest whole second between the first and the last setup; absent with several pods.
	// +optional
	Min *int64 `json:"min,omitempty"`

	// mean is a decimal number; of several pods the sum of theirs.
	// +required
	Mean string `json:"mean"`

	// max is that of the fastest second; absent with several pods.
	// +optional
	Max *int64 `json:"max,omitempty"`
}

// DHCPv4Messages are messages of DHCP (RFC 2131) that clients sent or received.
type DHCPv4Messages struct {
	// discover messages were sent.
	// +required
	Discover int64 `json:"discover"`
	// offer messages were received.
	// +required
	Offer int64 `json:"offer"`
	// request messages were sent.
	// +required
	Request int64 `json:"request"`
	// ack messages were received.
	// +required
	Ack int64 `json:"ack"`
	// nak messages were received.
	// +required
	Nak int64 `json:"nak"`
	// decline messages were sent.
	// +required
	Decline int64 `json:"decline"`
	// release messages were sent.
	// +required
	Release int64 `json:"release"`
	// retransmitted are those of the messages sent that repeat one.
	// +required
	Retransmitted int64 `json:"retransmitted"`
}

// DHCPv6Messages are messages of DHCPv6 (RFC 8415) that clients sent or received.
type DHCPv6Messages struct {
	// solicit messages were sent.
	// +required
	Solicit int64 `json:"solicit"`
	// advertise messages were received.
	// +required
	Advertise int64 `json:"advertise"`
	// request messages were sent.
	// +required
	Request int64 `json:"request"`
	// reply messages were received.
	// +required
	Reply int64 `json:"reply"`
	// renew messages were sent.
	// +required
	Renew int64 `json:"renew"`
	// rebind messages were sent.
	// +required
	Rebind int64 `json:"rebind"`
	// decline messages were sent.
	// +required
	Decline int64 `json:"decline"`
	// release messages were sent.
	// +required
	Release int64 `json:"release"`
	// retransmitted are those of the messages sent that repeat one.
	// +required
	Retransmitted int64 `json:"retransmitted"`
}
