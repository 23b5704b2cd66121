// SPDX-License-Identifier: Apache-2.0

// Which field of a profile or a ClientGroup does an engine refuse in a group of emulated clients?

package origin

import (
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/problem"
)

// ofClientsEntry maps fields of a group in a plan that are fields of the profile's entry.
var ofClientsEntry = map[string]string{
	"name": "name", "port": "port", "count": "count", "rate": "rate", "max_outstanding": "maxOutstanding", "at_end": "atEnd", "ready": "ready",
	"ready.least_ppm": "ready.least", "ready.timeout_ns": "ready.timeout",
}

// ofGroup maps those that are fields of the ClientGroup and have other names there.
var ofGroup = map[string]string{
	"ping_gateway": "verify.pingGateway", "ipv4.dhcp.vendor_class": "ipv4.dhcp.vendorClass", "ipv4.dhcp.vendor_specific": "ipv4.dhcp.vendorSpecific",
	"ipv4.dhcp.requested_options": "ipv4.dhcp.requestedOptions", "ipv4.dhcp.client_id": "ipv4.dhcp.clientID", "ipv4.dhcp.circuit_id": "ipv4.dhcp.circuitID",
	"ipv4.dhcp.remote_id": "ipv4.dhcp.remoteID", "ipv4.dhcp.lease_time_s": "ipv4.dhcp.leaseTime", "ipv4.fixed": "ipv4.static", "ipv4.fixed.first": "ipv4.static.first",
	"ipv4.fixed.prefix_len": "ipv4.static.prefixLength", "ipv4.fixed.gateway": "ipv4.static.gateway", "ipv4.fixed.probes": "ipv4.static.probes",
	"ipv6.dad_transmits": "ipv6.dadTransmits", "ipv6.dhcp.always": "ipv6.dhcp.when", "ipv6.dhcp.rapid_commit": "ipv6.dhcp.rapidCommit",
	"retry.first_ns": "retry.first", "retry.max_ns": "retry.max", "retry.spread_ns": "retry.spread",
}

// clients returns the field of a group of emulated clients.
func (o Origin) clients(g *enginev1.ClientGroup, rest path) Refusal {
	r := Refusal{Clients: g.GetName()}
	if len(rest) == 0 {
		return r
	}
	if name, own := ofClientsEntry[rest.String()]; own {
		r.Path = name
		return r
	}
	if r.Group = o.groups[g.GetName()]; r.Group == "" {
		r.Path = rest.String()
		return r
	}
	user, other := ofGroup[rest.String()]
	if !other {
		user = rest.String()
	}
	if rest[0].name == "vlans" && rest[len(rest)-1].name == "tpid" {
		user = path{rest[0], {"protocol", -1}}.String()
	}
	r.Path = "spec." + user
	return r
}

// ofPool returns the path in a pool of a template, whose emulated clients have other names in a plan.
func ofPool(rest path) path {
	if !rest.begins("from_clients") {
		return rest
	}
	own := path{{"from", -1}}
	for _, s := range rest[1:] {
		own = append(own, segment{map[string]string{"group": "clients", "ipv6": "family"}[s.name], s.index})
	}
	return own
}

// ofClients returns the problem of the profile that has the entry of clients.
func (r Refusal) ofClients(made problem.Problem, profile *spatev1.TrafficProfile) problem.Problem {
	at := slices.IndexFunc(profile.Spec.Clients, func(e spatev1.ClientsEntry) bool { return string(e.Name) == r.Clients })
	entry := spec.Child("clients").Index(max(at, 0))
	if r.Group != "" {
		return problem.Problems{made}.Within(entry.Child("groupRef"), "ClientGroup", r.Group)[0]
	}
	made.Path = entry.String()
	if r.Path != "" {
		made.Path += "." + r.Path
	}
	return made
}
