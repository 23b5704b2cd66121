// SPDX-License-Identifier: Apache-2.0

// Does a plan that was admitted comply with the changed limits of its generator?

package limits

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/problem"
)

// Narrowed returns the limits by which a plan must be checked that was admitted under earlier limits: the lists that
// exclude something that was allowed, and a maxRate where there was none. It is nil if there is nothing to check.
func Narrowed(now, then *spatev1.Limits) *spatev1.Limits {
	if now == nil {
		return nil
	}
	if then == nil {
		then = &spatev1.Limits{}
	}
	narrowed := spatev1.Limits{}
	if then.MaxRate == "" {
		narrowed.MaxRate = now.MaxRate
	}
	if !allows(now.AllowedDestinations, then.AllowedDestinations, func(text spatev1.CIDR) bool {
		prefix, err := netip.ParsePrefix(string(text))
		return err == nil && covered(now.AllowedDestinations, prefix.Masked().Addr(), LastOf(prefix))
	}) {
		narrowed.AllowedDestinations = now.AllowedDestinations
	}
	if !allows(now.AllowedPorts, then.AllowedPorts, func(text spatev1.PortRange) bool {
		first, last, err := portRange(text)
		return err == nil && portsCovered(now.AllowedPorts, first, last)
	}) {
		narrowed.AllowedPorts = now.AllowedPorts
	}
	if narrowed.MaxRate == "" && len(narrowed.AllowedDestinations)+len(narrowed.AllowedPorts) == 0 {
		return nil
	}
	return &narrowed
}

// allows reports whether the new list allows everything that the earlier one allowed. An empty list allows everything.
func allows[T ~string](now, then []T, holds func(T) bool) bool {
	if len(now) == 0 {
		return true
	}
	left := func(old T) bool { return !slices.Contains(now, old) && !holds(old) }
	return len(then) > 0 && !slices.ContainsFunc(then, left)
}

// Permits checks a plan by limits that are narrower than those it was admitted under (Narrowed): where its packets go,
// and what cannot be bounded. It refuses what could only be checked from the profile's description. Rates are checked
// together with those of other runs (load.Check).
func Permits(plan *enginev1.Plan, generator string, narrowed *spatev1.Limits) problem.Problems {
	var problems problem.Problems
	if narrowed == nil {
		return nil
	}
	g := New(&problems, narrowed, generator, field.NewPath("spec", "traffic"))
	for _, s := range plan.GetStreams() {
		if g.planned(s); len(problems) > 0 {
			problems[0].Message = fmt.Sprintf("entry %s: %s", cmp.Or(s.GetGroup(), s.GetName()), problems[0].Message)
			return problems
		}
	}
	for _, t := range plan.GetStateful().GetTemplates() {
		if g.template(t, plan.GetStateful().GetPools()); len(problems) > 0 {
			problems[0].Message = fmt.Sprintf("entry %s: %s", t.GetName(), problems[0].Message)
			return problems
		}
	}
	for i, c := range plan.GetClients() {
		if problems = append(problems, Clients(c, generator, narrowed, field.NewPath("spec", "clients").Index(i))...); len(problems) > 0 {
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

// reflector refuses a reflector under any narrower list: the engine applies the lists with which the run started.
func (g *Guard) reflector(r *enginev1.Reflector) {
	if list := g.list(); list != "" {
		g.Refuse(list, "port %s sends back to where it might when the run began", r.GetPort())
	}
}

// list returns the name of the first list that is set; empty if none is.
func (g *Guard) list() string {
	switch {
	case len(g.limits.AllowedDestinations) > 0:
		return "allowedDestinations"
	case len(g.limits.AllowedPorts) > 0:
		return "allowedPorts"
	}
	return ""
}

// planned checks a stream of a plan.
func (g *Guard) planned(s *enginev1.Stream) {
	list := g.list()
	if replay := s.GetReplay(); replay != nil {
		switch {
		case g.limits.MaxRate != "" && replay.GetPath() != "":
			g.Refuse("maxRate", "how fast a capture on a volume is sent cannot be determined")
		case list != "":
			g.Refuse(list, "where the packets of a capture go was not checked against this limit when the run began")
		}
		return
	}
	if list != "" {
		g.frame(s.GetPacket().GetFrame(), nil, s.GetProgram().GetWrites(), s.GetProgram().GetVariables())
	}
}

// template checks where the packets of a template go; engines limit their number.
func (g *Guard) template(t *enginev1.Template, pools []*enginev1.Pool) {
	var tunnels []*Tunnels
	for _, of := range t.GetClients() {
		tunnels = append(tunnels, TunnelsOf(poolOf(pools, of)))
	}
	if t.GetClientPort() == "" {
		tunnels = nil
	}
	g.ClientPorts(uint64(t.GetDestinationPort()), tunnels...)
	if len(g.limits.AllowedDestinations) == 0 {
		return
	}
	if t.GetClientPort() == "" {
		g.Refuse("allowedDestinations", "servers answer any real client")
		return
	}
	g.pools(t.GetServers(), pools, "clients connect to")
	if t.GetServerPort() != "" {
		g.pools(t.GetClients(), pools, "servers answer")
	}
	for _, of := range tunnels {
		g.Tunnels(of)
	}
}

func poolOf(pools []*enginev1.Pool, of *enginev1.WeightedPool) *enginev1.Pool {
	if int(of.GetPool()) >= len(pools) {
		return nil // without addresses, which no list covers
	}
	return pools[of.GetPool()]
}

func (g *Guard) pools(chosen []*enginev1.WeightedPool, pools []*enginev1.Pool, does string) {
	for _, of := range chosen {
		if from := poolOf(pools, of).GetFromClients(); from != nil {
			g.Leased(from, does)
			return
		}
		first, _ := netip.AddrFromSlice(poolOf(pools, of).GetFirst())
		last, _ := netip.AddrFromSlice(poolOf(pools, of).GetLast())
		if !g.Addresses(first, last, does) {
			return
		}
	}
}
