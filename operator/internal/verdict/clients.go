// SPDX-License-Identifier: Apache-2.0

package verdict

// This file answers: which fields of emulated clients can a threshold use?

import "maps"

// Clients is the type of an entry of `result.clients`.
type Clients struct {
	// Clients that are wanted, and that have their addresses; all by state, and those that have failed by cause.
	Wanted int64            `cel:"wanted"`
	Bound  int64            `cel:"bound"`
	States map[string]int64 `cel:"states"`
	Failed map[string]int64 `cel:"failed"`
	// Clients that were bound the first time, and those a second: `mean`, which is a double, and with one pod the integers `min` and `max`.
	Setups    int64          `cel:"setups"`
	SetupRate map[string]any `cel:"setupRate"`
	// Times by the names of DelayKeys, durations but for the count; empty when nothing was measured.
	SetupTime map[string]any `cel:"setupTime"`
	OfferTime map[string]any `cel:"offerTime"`
	AckTime   map[string]any `cel:"ackTime"`
	// Messages.
	DHCPv4 DHCPv4 `cel:"dhcpv4"`
	DHCPv6 DHCPv6 `cel:"dhcpv6"`
	// Leases that were prolonged, and lost; addresses that another station had, and that servers gave twice.
	Renewals   int64 `cel:"renewals"`
	LeasesLost int64 `cel:"leasesLost"`
	Duplicates int64 `cel:"duplicates"`
	GivenTwice int64 `cel:"givenTwice"`
	// Clients that started later, and messages and frames that were dropped.
	Throttled  int64 `cel:"throttled"`
	Malformed  int64 `cel:"malformed"`
	FramesLost int64 `cel:"framesLost"`
}

// DHCPv4 is the type of `dhcpv4` of an entry of `result.clients`.
type DHCPv4 struct {
	Discover      int64 `cel:"discover"`
	Offer         int64 `cel:"offer"`
	Request       int64 `cel:"request"`
	Ack           int64 `cel:"ack"`
	Nak           int64 `cel:"nak"`
	Decline       int64 `cel:"decline"`
	Release       int64 `cel:"release"`
	Retransmitted int64 `cel:"retransmitted"`
}

// DHCPv6 is the type of `dhcpv6` of an entry of `result.clients`.
type DHCPv6 struct {
	Solicit       int64 `cel:"solicit"`
	Advertise     int64 `cel:"advertise"`
	Request       int64 `cel:"request"`
	Reply         int64 `cel:"reply"`
	Renew         int64 `cel:"renew"`
	Rebind        int64 `cel:"rebind"`
	Decline       int64 `cel:"decline"`
	Release       int64 `cel:"release"`
	Retransmitted int64 `cel:"retransmitted"`
}

// ClientStates are the states of clients, and ClientCauses what they fail for: `states` and `failed` have all of them, also those that are 0.
var (
	ClientStates = []string{"Idle", "Discovering", "Requesting", "Rebinding", "Renewing", "Bound", "Released", "Failed"}
	ClientCauses = []string{"NoOffer", "NoAck", "Nak", "Declined", "NoRouter", "DuplicateAddress", "GatewaySilent", "AddressGivenTwice"}
)

// noClients are clients without numbers. Setup rates of several pods have a mean only, which is not known here.
func noClients() Clients {
	return Clients{
		States: zeros(ClientStates), Failed: zeros(ClientCauses), SetupRate: map[string]any{"min": int64(0), "mean": 0.0, "max": int64(0)},
		SetupTime: noTimes(DelayKeys), OfferTime: noTimes(DelayKeys), AckTime: noTimes(DelayKeys),
	}
}

// Every returns counters with all of some names, those that are absent with 0.
func Every(names []string, counters map[string]int64) map[string]int64 {
	all := zeros(names)
	maps.Copy(all, counters)
	return all
}
