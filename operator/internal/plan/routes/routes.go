// SPDX-License-Identifier: Apache-2.0

// Package routes answers: which routes does a profile advertise, and can the routers of its generator do so?
package routes

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/data"
	"spate.dev/operator/internal/plan/ports"
	"spate.dev/operator/internal/plan/problem"
)

const (
	// maxPrefixes is the number of prefixes of a set.
	maxPrefixes = 10_000_000
	// maxQuiet is the longest time for which nothing may be sent.
	maxQuiet = time.Hour
	// maxRIPMetric is that of a reachable route (RFC 2453 section 3.5), maxOSPFMetric that of a reachable external one (RFC 2328 appendix B).
	maxRIPMetric, maxOSPFMetric = 15, 0xff_fffe
)

// Resolve returns the sets of routes of a plan, and when they count as sent, or what is wrong with them. If the generator is missing, it skips the
// checks that need it.
func Resolve(routing *spatev1.RunRouting, generator *spatev1.TrafficGenerator, at *field.Path) (sets []*enginev1.RouteSet, ready *enginev1.RoutesReady, problems problem.Problems) {
	if routing == nil {
		return nil, nil, nil
	}
	c := checker{&problems, generator}
	if routing.Ready != nil {
		quiet := problems.Duration(routing.Ready.Quiet, at.Child("ready", "quiet"))
		if routing.Ready.Quiet != "" && (quiet == 0 || quiet > uint64(maxQuiet)) {
			problems.Add(spatev1.ReasonInvalidSpec, at.Child("ready", "quiet"), "%q: must be more than 0s and at most 1h", routing.Ready.Quiet)
		}
		ready = &enginev1.RoutesReady{QuietNs: quiet}
	}
	names := map[spatev1.RouteSetName]bool{}
	var earlier []known
	at = at.Child("advertise")
	for i := range routing.Advertise {
		described, at := &routing.Advertise[i], at.Index(i)
		if names[described.Name] {
			c.invalid(at.Child("name"), "%q is the name of another set; choose a name of its own", described.Name)
		}
		names[described.Name] = true
		set, own := c.set(described, at)
		sets = append(sets, set)
		if own == nil {
			continue
		}
		c.apart(earlier, known{set, *own}, at.Child("prefixes"))
		earlier = append(earlier, known{set, *own})
	}
	if len(sets) == 0 {
		return nil, nil, problems
	}
	c.memory(earlier, at)
	return sets, ready, problems
}

// Sessions returns the sessions that advertise routes, as PORT/SESSION.
func Sessions(routing *spatev1.RunRouting) (all []string) {
	if routing == nil {
		return nil
	}
	for i := range routing.Advertise {
		for _, name := range routing.Advertise[i].Sessions {
			all = append(all, SessionKey(string(routing.Advertise[i].Port), string(name)))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// SessionKey names a session of a port in results.
func SessionKey(port, session string) string { return port + "/" + session }

// known is a set in whose prefixes nothing is wrong.
type known struct {
	set      *enginev1.RouteSet
	prefixes prefixes
}

// apart checks that a port has one route to each prefix.
func (c checker) apart(earlier []known, own known, at *field.Path) {
	for _, other := range earlier {
		if other.set.Port != own.set.Port {
			continue
		}
		if found, common := other.prefixes.common(own.prefixes); common {
			c.invalid(at, "%s is in set %s of the port, too, and a router has one route to each prefix; leave it out of one of them", found, other.set.Name)
			return
		}
	}
}

// checker adds what is wrong with sets to its problems.
type checker struct {
	*problem.Problems
	generator *spatev1.TrafficGenerator // nil if it does not exist
}

func (c checker) invalid(at *field.Path, format string, args ...any) {
	c.Add(spatev1.ReasonInvalidSpec, at, format, args...)
}

// set returns a set as a plan has it, and its prefixes; these are nil if they are wrong.
func (c checker) set(s *spatev1.RouteSet, at *field.Path) (*enginev1.RouteSet, *prefixes) {
	set := &enginev1.RouteSet{Name: string(s.Name), Port: string(s.Port), Attributes: c.attributes(&s.Attributes, at.Child("attributes"))}
	for i, name := range s.Sessions {
		if slices.Contains(s.Sessions[:i], name) {
			c.invalid(at.Child("sessions").Index(i), "%q is there twice; leave it out", name)
		}
		set.Sessions = append(set.Sessions, string(name))
	}
	switch s.State {
	case "", spatev1.RoutesAdvertised:
		set.Advertised = true
	case spatev1.RoutesWithdrawn:
	default:
		c.invalid(at.Child("state"), "%q: must be Advertised or Withdrawn", s.State)
	}
	made, own := c.prefixes(&s.Prefixes, at.Child("prefixes"))
	set.Prefixes = made
	if port := c.port(s, at.Child("port")); port != nil {
		c.onPort(s, port, own, at)
	}
	return set, own
}

// prefixes reads those of a set; the second is nil if they are wrong.
func (c checker) prefixes(p *spatev1.RoutePrefixes, at *field.Path) (*enginev1.Prefixes, *prefixes) {
	switch {
	case !c.ExactlyOne(at, "range, list and mrt", p.Range != nil, len(p.List) > 0, p.MRT != nil):
		return nil, nil
	case p.Range != nil:
		return c.ofRange(p.Range, at.Child("range"))
	case p.MRT != nil:
		return c.ofFile(p.MRT, at.Child("mrt"))
	}
	made, before := &enginev1.Prefixes{}, len(*c.Problems)
	list := c.list(p.List, at.Child("list"))
	for _, prefix := range list.list {
		made.List = append(made.List, prefix.String())
	}
	if len(*c.Problems) > before {
		return made, nil
	}
	return made, &list
}

// ofRange reads prefixes of one length.
func (c checker) ofRange(r *spatev1.PrefixRange, at *field.Path) (*enginev1.Prefixes, *prefixes) {
	made, before := &enginev1.Prefixes{}, len(*c.Problems)
	own := prefixes{count: r.Count, step: max(r.Step, 1)}
	var err error
	if own.first, err = parse(string(r.First)); err != nil {
		c.invalid(at.Child("first"), "%v", err)
	}
	c.Bounded(own.count, 1, maxPrefixes, at.Child("count"))
	c.Bounded(own.step, 1, 1<<32-1, at.Child("step"))
	if len(*c.Problems) > before {
		return made, nil
	}
	if room := own.room(); room.Cmp(big.NewInt(own.count)) < 0 {
		c.invalid(at.Child("count"), "%d prefixes from %s by steps of %d lead beyond the last address; must be at most %s", own.count, own.first, own.step, room)
		return made, nil
	}
	made.Range = &enginev1.PrefixRange{First: own.first.String(), Count: uint32(own.count), Step: uint32(own.step)}
	return made, &own
}

// ofFile names the file whose prefixes engines read.
func (c checker) ofFile(file *spatev1.MRTFile, at *field.Path) (*enginev1.Prefixes, *prefixes) {
	before := len(*c.Problems)
	*c.Problems = append(*c.Problems, data.CheckVolume(&file.Volume, at.Child("volume"), c.generator)...)
	c.Bounded(file.Most, 1, maxPrefixes, at.Child("most"))
	family, known := ports.FamilyOf(cmp.Or(file.Family, spatev1.FamilyIPv4Unicast))
	if !known {
		c.invalid(at.Child("family"), "%q: must be IPv4Unicast or IPv6Unicast", file.Family)
	}
	made := &enginev1.Prefixes{Mrt: &enginev1.MrtFile{Path: path.Join(data.VolumesDir, string(file.Volume.Name), file.Volume.Path), Family: family, Most: uint32(file.Most)}}
	if len(*c.Problems) > before {
		return made, nil
	}
	return made, &prefixes{count: file.Most, ofFile: family}
}

// list reads prefixes that are written one by one.
func (c checker) list(texts []spatev1.RoutePrefix, at *field.Path) prefixes {
	all, seen := prefixes{}, map[netip.Prefix]bool{}
	for i, text := range texts {
		prefix, err := parse(string(text))
		switch {
		case err != nil:
			c.invalid(at.Index(i), "%v", err)
			continue
		case seen[prefix]:
			c.invalid(at.Index(i), "%s is there twice; leave it out", prefix)
		case len(all.list) > 0 && all.list[0].Addr().Is4() != prefix.Addr().Is4():
			c.invalid(at.Index(i), "%s is not of the family of the first, %s; make a set for each family", prefix, all.list[0])
		}
		seen[prefix], all.list = true, append(all.list, prefix)
	}
	return all
}

// port returns the port of a set, which is a router; nil if it is not.
func (c checker) port(s *spatev1.RouteSet, at *field.Path) *spatev1.GeneratorPort {
	if c.generator == nil {
		return nil // reported once for the profile
	}
	var routers []string
	for i := range c.generator.Spec.Ports {
		if c.generator.Spec.Ports[i].Routing != nil {
			routers = append(routers, string(c.generator.Spec.Ports[i].Name))
		}
	}
	all := ports.Of(c.generator)
	switch port := all.Find(string(s.Port)); {
	case port == nil:
		c.invalid(at, "%q is no port of generator %s; it has %s", s.Port, c.generator.Name, all.Names())
	case port.Routing == nil:
		c.invalid(at, "port %s of generator %s has no routing; add sessions to it, or choose another port with routing: %s", s.Port, c.generator.Name, listed(routers))
	default:
		return port
	}
	return nil
}

// onPort checks a set against the port that advertises it; own is nil if its prefixes are wrong.
func (c checker) onPort(s *spatev1.RouteSet, port *spatev1.GeneratorPort, own *prefixes, at *field.Path) {
	all := advertisersOf(port.Routing)
	var used []advertiser
	for i, name := range s.Sessions {
		at := at.Child("sessions").Index(i)
		found := slices.IndexFunc(all, func(a advertiser) bool { return a.name == name })
		switch {
		case found < 0:
			c.unknownSession(port, name, all, at)
			continue
		case own != nil && !all[found].has(own.is4()):
			c.invalid(at, "session %s has no IPv%d routes, which those of the set are; add the family to the session, or leave it out", name, family(own.is4()))
		}
		used = append(used, all[found])
	}
	if own != nil {
		c.subnets(port, own, at.Child("prefixes"))
	}
	if len(used) == len(s.Sessions) {
		c.used(&s.Attributes, used, own, at.Child("attributes"))
	}
}

// unknownSession reports a session that the port does not have, or that has no routes.
func (c checker) unknownSession(port *spatev1.GeneratorPort, name spatev1.SessionName, all []advertiser, at *field.Path) {
	var names []string
	for _, a := range all {
		names = append(names, string(a.name))
	}
	if slices.ContainsFunc(port.Routing.BFD, func(s spatev1.BFDSession) bool { return s.Name == name }) {
		c.invalid(at, "%q is a session of BFD, which has no routes; name one of BGP, OSPF or RIP: %s", name, listed(names))
		return
	}
	for i := range c.generator.Spec.Ports {
		other := &c.generator.Spec.Ports[i]
		if other.Routing != nil && slices.ContainsFunc(advertisersOf(other.Routing), func(a advertiser) bool { return a.name == name }) {
			c.invalid(at, "%q is a session of port %s; those of port %s are %s", name, other.Name, port.Name, listed(names))
			return
		}
	}
	c.invalid(at, "%q is no session of port %s; it has %s", name, port.Name, listed(names))
}

// subnets checks that no prefix lies in the port's own subnets.
func (c checker) subnets(port *spatev1.GeneratorPort, own *prefixes, at *field.Path) {
	for _, text := range port.Addresses {
		address, err := netip.ParsePrefix(string(text))
		if err != nil {
			continue // reported with the generator
		}
		if found, lies := own.within(address.Masked()); lies {
			c.invalid(at, "%s lies in %s, the port's own subnet, whose stations neighbors would no longer reach; leave it out", found, address.Masked())
			return
		}
	}
}

// advertiser is a session that has routes.
type advertiser struct {
	name   spatev1.SessionName
	v4, v6 bool
	// bgp is nil for OSPF and RIP.
	bgp *spatev1.BGPSession
	rip bool
}

func (a advertiser) has(v4 bool) bool { return v4 && a.v4 || !v4 && a.v6 }

func advertisersOf(r *spatev1.PortRouting) (all []advertiser) {
	for i := range r.BGP {
		s := &r.BGP[i]
		families := ports.FamiliesOf(s)
		all = append(all, advertiser{name: s.Name, bgp: s, v4: slices.Contains(families, spatev1.FamilyIPv4Unicast), v6: slices.Contains(families, spatev1.FamilyIPv6Unicast)})
	}
	for _, s := range r.OSPF {
		all = append(all, advertiser{name: s.Name, v4: s.Version == 2, v6: s.Version == 3})
	}
	for _, s := range r.RIP {
		all = append(all, advertiser{name: s.Name, rip: true, v4: s.Version == spatev1.RIPv2, v6: s.Version == spatev1.RIPng})
	}
	return all
}

func family(v4 bool) int {
	if v4 {
		return 4
	}
	return 6
}

// used checks attributes against the sessions that would send them.
func (c checker) used(a *spatev1.RouteAttributes, sessions []advertiser, own *prefixes, at *field.Path) {
	of := func(is func(advertiser) bool) bool { return slices.ContainsFunc(sessions, is) }
	bgp := of(func(a advertiser) bool { return a.bgp != nil })
	rip := of(func(a advertiser) bool { return a.rip })
	ospf := of(func(a advertiser) bool { return a.bgp == nil && !a.rip })
	for _, attribute := range []struct {
		name string
		set  bool
	}{
		{"asPath", len(a.ASPath) > 0}, {"communities", len(a.Communities) > 0}, {"largeCommunities", len(a.LargeCommunities) > 0}, {"med", a.MED != nil},
		{"localPreference", a.LocalPreference != nil}, {"origin", a.Origin != ""}, {"nextHop", a.NextHop != ""},
	} {
		if attribute.set && !bgp {
			c.invalid(at.Child(attribute.name), "is BGP's, and no session of the set is of BGP; leave it out")
		}
	}
	internal := of(func(a advertiser) bool { return a.bgp != nil && a.bgp.LocalAS == a.bgp.Neighbor.AS })
	if a.LocalPreference != nil && bgp && !internal {
		c.invalid(at.Child("localPreference"), "no neighbor of the set's sessions is of the port's AS, and others are not sent it (RFC 4271 section 5.1.5); leave it out")
	}
	switch metric := a.Metric; {
	case metric == nil:
	case !ospf && !rip:
		c.invalid(at.Child("metric"), "is OSPF's and RIP's, and no session of the set is of these; BGP has med")
	case rip:
		c.Bounded(*metric, 1, maxRIPMetric, at.Child("metric"))
	default:
		c.Bounded(*metric, 1, maxOSPFMetric, at.Child("metric"))
	}
	c.nextHop(a.NextHop, sessions, own, at.Child("nextHop"))
}

// nextHop checks that neighbors would use it.
func (c checker) nextHop(text spatev1.IPAddress, sessions []advertiser, own *prefixes, at *field.Path) {
	address, err := netip.ParseAddr(string(text))
	if err != nil {
		return // absent, or reported with the attributes
	}
	if own != nil && address.Is4() != own.is4() {
		c.invalid(at, "%s is not of IPv%d, of which the set's prefixes are; set an address of their family", text, family(own.is4()))
		return
	}
	for _, s := range sessions {
		if s.bgp == nil {
			continue
		}
		if neighbor, err := netip.ParseAddr(string(s.bgp.Neighbor.Address)); err == nil && neighbor == address {
			c.invalid(at, "%s is the neighbor of session %s itself, which ignores routes by itself; leave it out for the port's own address, or set another station's", text, s.name)
			return
		}
	}
}

var origins = map[spatev1.RouteOrigin]enginev1.RouteOrigin{
	"":                       enginev1.RouteOrigin_ROUTE_ORIGIN_UNSPECIFIED,
	spatev1.OriginIGP:        enginev1.RouteOrigin_ROUTE_ORIGIN_IGP,
	spatev1.OriginEGP:        enginev1.RouteOrigin_ROUTE_ORIGIN_EGP,
	spatev1.OriginIncomplete: enginev1.RouteOrigin_ROUTE_ORIGIN_INCOMPLETE,
}

// attributes returns those of a set as a plan has them; nil without any.
func (c checker) attributes(a *spatev1.RouteAttributes, at *field.Path) *enginev1.RouteAttributes {
	made := &enginev1.RouteAttributes{
		Med: c.number(a.MED, at.Child("med")), LocalPreference: c.number(a.LocalPreference, at.Child("localPreference")),
		Metric: c.number(a.Metric, at.Child("metric")), NextHop: string(a.NextHop),
	}
	for i, as := range a.ASPath {
		c.Bounded(int64(as), 1, 1<<32-1, at.Child("asPath").Index(i))
		made.AsPath = append(made.AsPath, uint32(as))
	}
	for i, text := range a.Communities {
		if !numbers(string(text), 2, 1<<16-1) {
			c.invalid(at.Child("communities").Index(i), "%q: must be two numbers of 0 to 65535, such as 65001:100", text)
		}
		made.Communities = append(made.Communities, string(text))
	}
	for i, text := range a.LargeCommunities {
		if !numbers(string(text), 3, 1<<32-1) {
			c.invalid(at.Child("largeCommunities").Index(i), "%q: must be three numbers of 0 to 4294967295, such as 65001:1:2", text)
		}
		made.LargeCommunities = append(made.LargeCommunities, string(text))
	}
	origin, known := origins[a.Origin]
	if !known {
		c.invalid(at.Child("origin"), "%q: must be IGP, EGP or Incomplete", a.Origin)
	}
	made.Origin = origin
	if a.NextHop != "" {
		if address, err := netip.ParseAddr(string(a.NextHop)); err != nil || address.Zone() != "" || address.Is4In6() || !address.IsGlobalUnicast() {
			c.invalid(at.Child("nextHop"), "%q: must be a unicast address that is not link-local, such as 10.99.0.7", a.NextHop)
		}
	}
	return made
}

// number reads one of 32 bits; nil when absent.
func (c checker) number(value *int64, at *field.Path) *uint32 {
	if value == nil {
		return nil
	}
	c.Bounded(*value, 0, 1<<32-1, at)
	number := uint32(*value)
	return &number
}

// numbers reports whether a text is as many numbers of 0 to most, separated by colons.
func numbers(text string, count int, most uint64) bool {
	parts := strings.Split(text, ":")
	for _, part := range parts {
		if n, err := strconv.ParseUint(part, 10, 64); err != nil || n > most || part[0] == '+' {
			return false
		}
	}
	return len(parts) == count
}

// memory checks that the routes of a pod fit into its container that speaks routing protocols.
func (c checker) memory(sets []known, at *field.Path) {
	if c.generator == nil {
		return
	}
	pods, routes := ports.Of(c.generator).Engines, int64(0)
	for _, s := range sets {
		routes += (s.prefixes.total() + pods - 1) / pods
	}
	const mebi = 1 << 20
	needed, has := ports.RoutingMemoryOf(routes), ports.RoutingMemory(&c.generator.Spec)
	if needed > has.Value() {
		c.invalid(at, "%d routes%s need about %dMi of memory of the container routing, which has %s; set spec.routing.memory of generator %s to %dMi or more, or advertise fewer",
			routes, ofEach(pods), (needed+mebi-1)/mebi, has.String(), c.generator.Name, (needed+mebi-1)/mebi)
	}
}

func ofEach(pods int64) string {
	if pods == 1 {
		return ""
	}
	return fmt.Sprintf(" of each of %d pods", pods)
}
