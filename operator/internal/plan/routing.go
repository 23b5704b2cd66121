// SPDX-License-Identifier: Apache-2.0

package plan

// This file answers: can the ports of a generator be routers as specified?

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/ports"
)

// longestTimer is the maximum of a timer of 16 bits.
const longestTimer = 65535 * time.Second

// routers checks the sessions of all ports, and the interfaces that are created for them, beside those that are taken.
func (p checker) routers(spec *spatev1.TrafficGeneratorSpec, at *field.Path, taken map[spatev1.PortName]string) {
	for i := range spec.Ports {
		port, at := &spec.Ports[i], at.Index(i)
		if port.Routing == nil {
			continue
		}
		if port.Attachment.Loopback != nil || port.Attachment.Discard != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("routing"), "no neighbor is on the link of a loopback or discard port; leave it out, or attach the port to a network")
		}
		if port.Punt != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("punt"), "a port punts or has routing; leave one of them out")
		}
		if len(port.Addresses) == 0 {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("addresses"), "a port with routing needs an address, from which its sessions are spoken; add one, or leave routing out")
		}
		name := spatev1.PortName(ports.RouterInterface(i))
		if by := taken[name]; by != "" {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("routing"), "its interface in the pod, %s, is taken: %s; choose another name there", name, by)
		}
		taken[name] = fmt.Sprintf("the routing of port %s makes it", port.Name)
		p.router(spec, port, at.Child("routing"))
		p.subnetsApart(spec, i, at.Child("addresses"))
	}
}

// subnetsApart checks that the subnets of a router are of no earlier router of the pod: the kernel would not know by which of them a
// neighbor is reached.
func (p checker) subnetsApart(spec *spatev1.TrafficGeneratorSpec, index int, at *field.Path) {
	for j, address := range spec.Ports[index].Addresses {
		own, err := netip.ParsePrefix(string(address))
		for k := range spec.Ports[:index] {
			other := &spec.Ports[k]
			within := func(text spatev1.InterfaceAddress) bool {
				prefix, wrong := netip.ParsePrefix(string(text))
				return wrong == nil && prefix.Overlaps(own)
			}
			if err == nil && other.Routing != nil && slices.ContainsFunc(other.Addresses, within) {
				p.Add(spatev1.ReasonInvalidSpec, at.Index(j), "%s is in a subnet of port %s, which has routing too: neighbors of the two could not be distinguished; give the ports subnets of their own", address, other.Name)
			}
		}
	}
}

// neighborsOf returns the neighbors of a port's sessions.
func neighborsOf(routing *spatev1.PortRouting) (all []spatev1.IPAddress) {
	if routing == nil {
		return nil
	}
	for i := range routing.BGP {
		all = append(all, routing.BGP[i].Neighbor.Address)
	}
	for i := range routing.BFD {
		all = append(all, routing.BFD[i].Neighbor)
	}
	return all
}

// router checks the sessions of a port.
func (p checker) router(spec *spatev1.TrafficGeneratorSpec, port *spatev1.GeneratorPort, at *field.Path) {
	routing := port.Routing
	r := routerCheck{checker: p, port: port, names: map[spatev1.SessionName]bool{}, all: spec.Ports}
	if spec.Limits != nil {
		r.allowed = spec.Limits.AllowedDestinations
	}
	r.routerID(routing, at.Child("routerID"), max(1, int(spec.Replicas)))
	neighbors := map[netip.Addr]string{}
	for i := range routing.BGP {
		s, at := &routing.BGP[i], at.Child("bgp").Index(i)
		r.name(s.Name, at)
		r.neighbor(s.Neighbor.Address, at.Child("neighbor", "address"), s.Multihop != nil)
		r.once(neighbors, s.Neighbor.Address, at.Child("neighbor", "address"), string(s.Name))
		for _, family := range ports.FamiliesOf(s) {
			r.family(family == spatev1.FamilyIPv4Unicast, at.Child("families"))
		}
		if hold := r.seconds(s.HoldTime, at.Child("holdTime"), 0); hold == time.Second || hold == 2*time.Second {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("holdTime"), "%s must be 0s (never) or 3s to 65535s (RFC 4271, section 4.2)", s.HoldTime)
		}
		if s.BFD != nil {
			r.timers(s.BFD, at.Child("bfd"))
		}
	}
	versions := map[string]bool{}
	for i := range routing.OSPF {
		s, at := &routing.OSPF[i], at.Child("ospf").Index(i)
		r.name(s.Name, at)
		r.version(versions, fmt.Sprintf("OSPFv%d", s.Version), at.Child("version"))
		r.family(s.Version == 2, at.Child("version"))
		hello := r.seconds(s.Hello, at.Child("hello"), time.Second)
		if dead := r.seconds(s.Dead, at.Child("dead"), 2*time.Second); dead > 0 && dead <= hello {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("dead"), "%s must be longer than hello: a neighbor would be lost between two of its hellos", s.Dead)
		}
		r.broadcast(s, at.Child("network"))
	}
	for i := range routing.RIP {
		s, at := &routing.RIP[i], at.Child("rip").Index(i)
		r.name(s.Name, at)
		r.version(versions, string(s.Version), at.Child("version"))
		r.family(s.Version == spatev1.RIPv2, at.Child("version"))
		update := r.seconds(s.Update, at.Child("update"), time.Second)
		if timeout := r.seconds(s.Timeout, at.Child("timeout"), 2*time.Second); timeout > 0 && timeout <= update {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("timeout"), "%s must be longer than update: a route would be lost between two updates", s.Timeout)
		}
	}
	r.bfd(routing, at)
}

// routerCheck checks one port.
type routerCheck struct {
	checker
	port    *spatev1.GeneratorPort
	all     []spatev1.GeneratorPort
	names   map[spatev1.SessionName]bool
	allowed []spatev1.CIDR
}

func (r routerCheck) bfd(routing *spatev1.PortRouting, at *field.Path) {
	neighbors := map[netip.Addr]string{}
	for i := range routing.BGP {
		if address, err := netip.ParseAddr(string(routing.BGP[i].Neighbor.Address)); err == nil && routing.BGP[i].BFD != nil {
			neighbors[address] = string(routing.BGP[i].Name)
		}
	}
	for i := range routing.BFD {
		s, at := &routing.BFD[i], at.Child("bfd").Index(i)
		r.name(s.Name, at)
		r.neighbor(s.Neighbor, at.Child("neighbor"), false)
		r.once(neighbors, s.Neighbor, at.Child("neighbor"), string(s.Name))
		r.timers(&s.BFDTimers, at)
		if s.BFDTimers != routing.BFD[0].BFDTimers {
			r.Add(spatev1.ReasonInvalidSpec, at.Child("interval"), "other timers than session %s has; those of a port share theirs", routing.BFD[0].Name)
		}
	}
}

// routerID checks that each pod has one.
func (r routerCheck) routerID(routing *spatev1.PortRouting, at *field.Path, replicas int) {
	first, err := netip.ParseAddr(string(routing.RouterID))
	switch {
	case routing.RouterID == "" && !r.has(true) && len(r.port.Addresses) > 0:
		r.Add(spatev1.ReasonInvalidSpec, at, "is required, since the port has no IPv4 address that could be it: set any number that no other router has, such as 1.1.1.1")
	case routing.RouterID == "":
	case err != nil || !first.Is4():
		r.Add(spatev1.ReasonInvalidSpec, at, "%q: must be written as an IPv4 address, such as 10.99.0.1", routing.RouterID)
	default:
		if _, ok := ports.RouterIDOf(first, replicas-1); !ok || first.IsUnspecified() {
			r.Add(spatev1.ReasonInvalidSpec, at, "%s: must be at least 0.0.0.1, with %d numbers behind it for the other replicas", routing.RouterID, replicas-1)
		}
	}
}

// has reports whether the port has an address of a family.
func (r routerCheck) has(v4 bool) bool {
	return slices.ContainsFunc(r.port.Addresses, func(text spatev1.InterfaceAddress) bool {
		prefix, err := netip.ParsePrefix(string(text))
		return err == nil && prefix.Addr().Is4() == v4
	})
}

func (r routerCheck) name(name spatev1.SessionName, at *field.Path) {
	if r.names[name] {
		r.Add(spatev1.ReasonInvalidSpec, at.Child("name"), "%q is the name of another session of the port; choose a name of its own", name)
	}
	r.names[name] = true
}

func (r routerCheck) version(taken map[string]bool, version string, at *field.Path) {
	if taken[version] {
		r.Add(spatev1.ReasonInvalidSpec, at, "another session of the port is %s, and a port has one of each version; leave one of them out", version)
	}
	taken[version] = true
}

func (r routerCheck) family(v4 bool, at *field.Path) {
	if len(r.port.Addresses) > 0 && !r.has(v4) {
		r.Add(spatev1.ReasonInvalidSpec, at, "the port has no IPv%d address, from which it would be spoken; add one to its addresses", map[bool]int{true: 4, false: 6}[v4])
	}
}

// broadcast checks that the link has the broadcast subnet that a designated router is of.
func (r routerCheck) broadcast(s *spatev1.OSPFSession, at *field.Path) {
	for _, text := range r.port.Addresses {
		if prefix, err := netip.ParsePrefix(string(text)); err == nil && s.Version == 2 && s.Network == spatev1.OSPFBroadcast && prefix.Addr().Is4() && prefix.Bits() > 30 {
			r.Add(spatev1.ReasonInvalidSpec, at, "must be PointToPoint: %s is in no subnet with a broadcast address", text)
		}
	}
}

// once checks that a neighbor has one session of a kind.
func (r routerCheck) once(taken map[netip.Addr]string, text spatev1.IPAddress, at *field.Path, name string) {
	address, err := netip.ParseAddr(string(text))
	if err != nil {
		return // reported by neighbor
	}
	if by := taken[address]; by != "" {
		r.Add(spatev1.ReasonInvalidSpec, at, "%s has session %s of the port already; leave one of them out", text, by)
		return
	}
	taken[address] = name
}

// neighbor checks that a session can have this neighbor.
func (r routerCheck) neighbor(text spatev1.IPAddress, at *field.Path, multihop bool) {
	address, err := netip.ParseAddr(string(text))
	if err != nil || address.Zone() != "" || !address.IsGlobalUnicast() {
		r.Add(spatev1.ReasonInvalidSpec, at, "%q: must be a unicast address that is not link-local, such as 10.99.0.2", text)
		return
	}
	onLink := false
	for _, own := range r.port.Addresses {
		prefix, err := netip.ParsePrefix(string(own))
		if err != nil {
			return // reported with the addresses
		}
		if prefix.Addr() == address {
			r.Add(spatev1.ReasonInvalidSpec, at, "%s is the port's own address; set the neighbor's", text)
			return
		}
		onLink = onLink || prefix.Contains(address)
	}
	if other := r.otherPortWith(address); other != "" {
		r.Add(spatev1.ReasonInvalidSpec, at, "%s is the address of port %s: within the pod the session would not leave by the port; set the neighbor's", text, other)
		return
	}
	gateway := r.port.Gateway != ""
	if address.Is6() {
		gateway = r.port.Gateway6 != ""
	}
	switch {
	case len(r.port.Addresses) == 0 || onLink:
	case !multihop:
		r.Add(spatev1.ReasonInvalidSpec, at, "%s is in the subnet of none of the port's addresses; give the port an address of its subnet, or a session of BGP multihop", text)
	case !r.has(address.Is4()):
		r.Add(spatev1.ReasonInvalidSpec, at, "the port has no address of %s's family, from which it would be reached; add one to its addresses", text)
	case !gateway:
		r.Add(spatev1.ReasonInvalidSpec, at, "%s is in the subnet of none of the port's addresses, and the port has no gateway of its family; set it", text)
	}
	inside := func(text spatev1.CIDR) bool {
		prefix, err := netip.ParsePrefix(string(text))
		return err == nil && prefix.Contains(address)
	}
	if r.allowed != nil && !slices.ContainsFunc(r.allowed, inside) {
		r.Add(spatev1.ReasonLimitExceeded, at, "%s is in none of spec.limits.allowedDestinations; add its prefix there, or choose another neighbor", text)
	}
}

// otherPortWith returns the other port with routing that has an address.
func (r routerCheck) otherPortWith(address netip.Addr) spatev1.PortName {
	for i := range r.all {
		other := &r.all[i]
		has := func(text spatev1.InterfaceAddress) bool {
			prefix, err := netip.ParsePrefix(string(text))
			return err == nil && prefix.Addr() == address
		}
		if other.Name != r.port.Name && other.Routing != nil && slices.ContainsFunc(other.Addresses, has) {
			return other.Name
		}
	}
	return ""
}

// timers checks those of BFD.
func (r routerCheck) timers(t *spatev1.BFDTimers, at *field.Path) {
	if interval := r.duration(t.Interval, at.Child("interval")); interval < 10*time.Millisecond || interval > time.Minute {
		r.Add(spatev1.ReasonInvalidSpec, at.Child("interval"), "%q must be 10ms to 60s", t.Interval)
	}
	if t.Multiplier < 1 || t.Multiplier > 255 {
		r.Add(spatev1.ReasonInvalidSpec, at.Child("multiplier"), "%d must be 1 to 255", t.Multiplier)
	}
}

// seconds reads a timer of whole seconds of at least least; 0 if it is wrong.
func (r routerCheck) seconds(text spatev1.Duration, at *field.Path, least time.Duration) time.Duration {
	read, err := text.Parse()
	if err != nil || read < least || read > longestTimer || read%time.Second != 0 {
		r.Add(spatev1.ReasonInvalidSpec, at, "%q must be whole seconds, %s to 65535s", text, least)
		return 0
	}
	return read
}
