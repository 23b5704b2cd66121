// SPDX-License-Identifier: Apache-2.0

// What can only one run of a generator use at a time?

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/clients"
	"spate.dev/operator/internal/plan/marks"
	"spate.dev/operator/internal/plan/routes"
)

// Claims are what engines refuse to a second run.
type Claims struct {
	pools []claimedPool
	// reflecting are the ports that reflect.
	reflecting []string
	// routes are those that ports advertise.
	routes  []*enginev1.RouteSet
	marks   marks.Marks
	clients clients.MACs
}

// claimedPool is a range of addresses that templates use on a port.
type claimedPool struct {
	port        string
	first, last netip.Addr
}

// ClaimsOf returns the claims of a plan.
func ClaimsOf(p *enginev1.Plan) Claims {
	return claims(p.GetStateful(), p.GetReflectors(), p.GetRoutes(), marks.Of(p), p.GetClients())
}

// Claims returns those of a run to be. Marks that the profile leaves open will differ from those of all other runs.
func (r *Resolved) Claims() Claims {
	var set marks.Marks
	for _, e := range r.entries {
		if mark := e.stream.Mark; mark != nil && mark.Number != 0 {
			set = set.With(mark.IPv6, mark.Number)
		}
	}
	return claims(r.stateful, r.reflectors, r.routes, set, planned(r.clients))
}

func claims(stateful *enginev1.Stateful, reflectors []*enginev1.Reflector, advertised []*enginev1.RouteSet, taken marks.Marks, groups []*enginev1.ClientGroup) Claims {
	c := Claims{marks: taken, routes: advertised, clients: clients.MACsOf(groups)}
	for _, t := range stateful.GetTemplates() {
		c.claim(t.ClientPort, t.Clients, stateful.Pools)
		c.claim(t.ServerPort, t.Servers, stateful.Pools)
	}
	for _, r := range reflectors {
		c.reflecting = append(c.reflecting, r.Port)
	}
	return c
}

// claim adds addresses on a port; the port of a real side is empty.
func (c *Claims) claim(port string, weighted []*enginev1.WeightedPool, pools []*enginev1.Pool) {
	if port == "" {
		return
	}
	for _, w := range weighted {
		if int(w.Pool) >= len(pools) {
			continue
		}
		first, known := netip.AddrFromSlice(pools[w.Pool].First)
		last, too := netip.AddrFromSlice(pools[w.Pool].Last)
		if known && too {
			c.pools = append(c.pools, claimedPool{port, first, last})
		}
	}
}

// Conflict returns what both claim; empty if nothing.
func (c Claims) Conflict(other Claims) string {
	for _, a := range c.pools {
		for _, b := range other.pools {
			if a.port == b.port && a.first.BitLen() == b.first.BitLen() && !a.last.Less(b.first) && !b.last.Less(a.first) {
				return fmt.Sprintf("port %s would have addresses from %s to %s for both", a.port, latest(a.first, b.first), earliest(a.last, b.last))
			}
		}
	}
	for _, a := range c.routes {
		for _, b := range other.routes {
			if prefix := routes.Common(a, b); prefix != "" {
				return fmt.Sprintf("port %s would advertise %s for both", a.Port, prefix)
			}
		}
	}
	if shared := c.clients.Shared(other.clients); shared != "" {
		return shared
	}
	for _, port := range c.reflecting {
		if slices.Contains(other.reflecting, port) {
			return fmt.Sprintf("port %s would reflect for both", port)
		}
	}
	for _, pair := range [][2]Claims{{c, other}, {other, c}} {
		for _, p := range pair[0].pools {
			if slices.Contains(pair[1].reflecting, p.port) {
				return fmt.Sprintf("port %s would reflect for one and have templates of the other", p.port)
			}
		}
	}
	for _, pair := range [][2][]uint32{{c.marks.IPv4Identification, other.marks.IPv4Identification}, {c.marks.IPv6FlowLabel, other.marks.IPv6FlowLabel}} {
		for _, mark := range pair[0] {
			if slices.Contains(pair[1], mark) {
				return fmt.Sprintf("packets of both would have the mark %d", mark)
			}
		}
	}
	return ""
}

func latest(a, b netip.Addr) netip.Addr {
	if a.Less(b) {
		return b
	}
	return a
}

func earliest(a, b netip.Addr) netip.Addr {
	if a.Less(b) {
		return a
	}
	return b
}
