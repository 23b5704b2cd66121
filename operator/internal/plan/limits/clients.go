// SPDX-License-Identifier: Apache-2.0

// Do a generator's limits allow what emulated clients send by themselves?

package limits

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/problem"
)

// goes is where a protocol's messages go.
type goes struct {
	what, to string
	port     uint64
}

// destinations of the messages of a group's clients.
func destinations(g *enginev1.ClientGroup) (all []goes) {
	if g.GetIpv4().GetDhcp() != nil {
		all = append(all, goes{"messages of DHCP", "255.255.255.255/32", 67})
	}
	if v6 := g.GetIpv6(); v6 != nil {
		all = append(all, goes{"neighbor and router solicitations", "ff02::/16", 0})
		if v6.GetDhcp() != nil {
			all = append(all, goes{"messages of DHCPv6", "ff02::/16", 547})
		}
	}
	return all
}

// Clients reports messages of clients that limits do not allow.
func Clients(g *enginev1.ClientGroup, generator string, allowed *spatev1.Limits, at *field.Path) problem.Problems {
	var problems problem.Problems
	if allowed == nil || g == nil {
		return nil
	}
	for _, m := range destinations(g) {
		if len(allowed.AllowedDestinations) > 0 && !coversPrefix(allowed.AllowedDestinations, netip.MustParsePrefix(m.to)) {
			problems.Add(spatev1.ReasonLimitExceeded, at, "%s of clients go to %s, which is in none of spec.limits.allowedDestinations of generator %s; add it there", m.what, m.to, generator)
		}
		if len(allowed.AllowedPorts) > 0 && m.port > 0 && !portsCovered(allowed.AllowedPorts, m.port, m.port) {
			problems.Add(spatev1.ReasonLimitExceeded, at, "%s of clients go to UDP port %d, which is in none of spec.limits.allowedPorts of generator %s; add it there", m.what, m.port, generator)
		}
	}
	if g.PingGateway && len(allowed.AllowedPorts) > 0 {
		problems.Add(spatev1.ReasonLimitExceeded, at, "pings of gateways (verify.pingGateway) are neither TCP nor UDP, which are all that is allowed with spec.limits.allowedPorts of generator %s; leave one of them out", generator)
	}
	return problems
}

func coversPrefix(prefixes []spatev1.CIDR, prefix netip.Prefix) bool {
	return covered(prefixes, prefix.Addr(), LastOf(prefix))
}

// Leased refuses destinations that are addresses of emulated clients: who leases them determines where packets go.
func (g *Guard) Leased(from *enginev1.PoolOfClients, does string) {
	g.Refuse("allowedDestinations", "%s clients %s, whose addresses others determine", does, from.GetGroup())
}
