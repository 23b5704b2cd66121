// SPDX-License-Identifier: Apache-2.0

// Does a plan that was admitted before still keep to the limits of its generator?

package plan

import (
	"fmt"
	"net/netip"

	"google.golang.org/protobuf/proto"

	spatev1 "spate.dev/operator/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// Permits judges a plan by limits of its generator that were set after it was admitted: where its packets go and what cannot be bounded.
// What only the profile's own description could tell is refused. Its rates are judged with those of other runs (CheckLoad).
func Permits(plan *enginev1.Plan, generator *spatev1.TrafficGenerator) Problems {
	var problems Problems
	limits := generator.Spec.Limits
	if limits == nil {
		return nil
	}
	g := guard{Problems: &problems, limits: limits, generator: generator.Name, at: spec.Child("traffic")}
	for _, s := range plan.GetStreams() {
		if g.planned(s); len(problems) > 0 {
			problems[0].Message = fmt.Sprintf("entry %s: %s", entryName(s), problems[0].Message)
			return problems
		}
	}
	for _, t := range plan.GetStateful().GetTemplates() {
		if g.template(t, plan.GetStateful().GetPools()); len(problems) > 0 {
			problems[0].Message = fmt.Sprintf("entry %s: %s", t.GetName(), problems[0].Message)
			return problems
		}
	}
	for _, r := range plan.GetReflectors() {
		if g.reflector(r); len(problems) > 0 {
			return problems
		}
	}
	return nil
}

// reflector judges whether the engine keeps a reflector to the limits as they are now.
func (g *guard) reflector(r *enginev1.Reflector) {
	was := &enginev1.Reflector{AllowedAddresses: r.GetAllowedAddresses(), AllowedPorts: r.GetAllowedPorts()}
	addresses, ports := allowedBack(g.limits)
	now := &enginev1.Reflector{AllowedAddresses: addresses, AllowedPorts: ports}
	if proto.Equal(was, now) {
		return
	}
	limit := "allowedDestinations"
	if len(addresses) == 0 {
		limit = "allowedPorts"
	}
	if len(addresses)+len(ports) > 0 {
		g.refuse(limit, "port %s sends back to where it might when the run began", r.GetPort())
	}
}

// planned judges a stream of a plan.
func (g *guard) planned(s *enginev1.Stream) {
	if replay := s.GetReplay(); replay != nil {
		switch {
		case g.limits.MaxRate != "" && replay.GetPath() != "":
			g.refuse("maxRate", "how fast a capture on a volume is sent cannot be told")
		case len(g.limits.AllowedDestinations) > 0:
			g.refuse("allowedDestinations", "where the packets of a capture go was not judged when the run began")
		case len(g.limits.AllowedPorts) > 0:
			g.refuse("allowedPorts", "where the packets of a capture go was not judged when the run began")
		}
		return
	}
	if len(g.limits.AllowedDestinations)+len(g.limits.AllowedPorts) > 0 {
		g.frame(s.GetPacket().GetFrame(), nil, s.GetProgram().GetWrites(), s.GetProgram().GetVariables())
	}
}

// template judges where the packets of a template go; how many there are is the engines' to bound.
func (g *guard) template(t *enginev1.Template, pools []*enginev1.Pool) {
	if port := uint64(t.GetDestinationPort()); len(g.limits.AllowedPorts) > 0 && !portsCovered(g.limits.AllowedPorts, port, port) {
		g.refuse("allowedPorts", "clients connect to port %d", port)
	}
	if len(g.limits.AllowedDestinations) == 0 {
		return
	}
	if t.GetClientPort() == "" {
		g.refuse("allowedDestinations", "servers answer any real client")
		return
	}
	g.pools(t.GetServers(), pools, "clients connect to")
	if t.GetServerPort() != "" {
		g.pools(t.GetClients(), pools, "servers answer")
	}
	for _, of := range t.GetClients() {
		if tunnels := poolOf(pools, of).GetGtpu(); tunnels != nil {
			if upf, _ := netip.AddrFromSlice(tunnels.GetRemote()); !covered(g.limits.AllowedDestinations, upf, upf) || tunnels.GetMirror() {
				g.refuse("allowedDestinations", "tunnels lead to %s", upf)
			}
		}
	}
}

func poolOf(pools []*enginev1.Pool, of *enginev1.WeightedPool) *enginev1.Pool {
	if int(of.GetPool()) >= len(pools) {
		return nil // has no addresses, which nothing covers
	}
	return pools[of.GetPool()]
}

func (g *guard) pools(chosen []*enginev1.WeightedPool, pools []*enginev1.Pool, does string) {
	for _, of := range chosen {
		first, _ := netip.AddrFromSlice(poolOf(pools, of).GetFirst())
		last, _ := netip.AddrFromSlice(poolOf(pools, of).GetLast())
		if !covered(g.limits.AllowedDestinations, first, last) {
			g.refuse("allowedDestinations", "%s %s to %s", does, first, last)
			return
		}
	}
}
