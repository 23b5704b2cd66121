// SPDX-License-Identifier: Apache-2.0

package ports

// This file answers: which routers are the ports of a pod, and which sessions do they have?

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// HasRouting reports whether a port of the generator is a router.
func HasRouting(spec *spatev1.TrafficGeneratorSpec) bool {
	for i := range spec.Ports {
		if spec.Ports[i].Routing != nil {
			return true
		}
	}
	return false
}

// SessionNames returns the names of a port's sessions, in the order in which engines report them.
func SessionNames(routing *spatev1.PortRouting) (all []spatev1.SessionName) {
	for i := range routing.BGP {
		all = append(all, routing.BGP[i].Name)
	}
	for i := range routing.OSPF {
		all = append(all, routing.OSPF[i].Name)
	}
	for i := range routing.RIP {
		all = append(all, routing.RIP[i].Name)
	}
	for i := range routing.BFD {
		all = append(all, routing.BFD[i].Name)
	}
	return all
}

const (
	// routingMemory is the memory of the container that speaks routing protocols, by default.
	routingMemory = "128Mi"
	// birdMemory is what BIRD takes without routes, with its sessions.
	birdMemory = 16 << 20
	// routeMemory is what it takes for a route that is advertised: 492 bytes were measured (`make bench-routes`), and 170 of the
	// configuration before, which BIRD keeps.
	routeMemory = 700
	// routeText is the length of an advertised route in BIRD's configuration, at most: 60 bytes, of IPv6.
	routeText = 64
)

// RoutingMemory returns the memory of the container that speaks the routing protocols of a pod's ports.
func RoutingMemory(spec *spatev1.TrafficGeneratorSpec) resource.Quantity {
	if spec.Routing != nil && spec.Routing.Memory != "" {
		if memory, err := resource.ParseQuantity(string(spec.Routing.Memory)); err == nil { // validated by the CRD
			return memory
		}
	}
	return resource.MustParse(routingMemory)
}

// RoutingMemoryOf returns the memory that it needs to advertise a number of routes.
func RoutingMemoryOf(routes int64) int64 { return birdMemory + routes*routeMemory }

// RoutingFiles returns the bytes that BIRD's configuration takes with all routes for which the container has memory. The engine removes it when
// BIRD has read it, so there is one at a time.
func RoutingFiles(spec *spatev1.TrafficGeneratorSpec) int64 {
	memory := RoutingMemory(spec)
	const least = 16 << 20
	return least + routeText*max(memory.Value()-birdMemory, 0)/routeMemory
}

// RouterInterface returns the name of the kernel's interface by which the routing protocols of a port are spoken, by the port's index.
func RouterInterface(index int) string { return fmt.Sprintf("router-%d", index) }

// RouterIDOf returns the router ID of the pod with an index, which counts up from the first pod's; false if there is none.
func RouterIDOf(first netip.Addr, replica int) (netip.Addr, bool) {
	if !first.Is4() {
		return netip.Addr{}, false
	}
	bytes := first.As4()
	id := uint64(binary.BigEndian.Uint32(bytes[:])) + uint64(replica)
	if id == 0 || id > 0xffff_ffff {
		return netip.Addr{}, false
	}
	binary.BigEndian.PutUint32(bytes[:], uint32(id))
	return netip.AddrFrom4(bytes), true
}

// PasswordFile returns the path of a password's file in the engine's folder of passwords; empty without a password.
func PasswordFile(from *spatev1.PasswordSource) string {
	if from == nil {
		return ""
	}
	return from.SecretKeyRef.Name + "/" + from.SecretKeyRef.Key
}

// Password is where the password of a session is to be had.
type Password struct {
	*spatev1.PasswordSource
	port, session int
	protocol      string
}

// At returns the field of the password, by that of the ports.
func (p Password) At(ports *field.Path) *field.Path {
	return ports.Index(p.port).Child("routing", p.protocol).Index(p.session).Child("passwordFrom")
}

// Passwords returns those of all sessions of the generator that have one.
func Passwords(spec *spatev1.TrafficGeneratorSpec) (all []Password) {
	add := func(from *spatev1.PasswordSource, port, session int, protocol string) {
		if from != nil {
			all = append(all, Password{from, port, session, protocol})
		}
	}
	for i := range spec.Ports {
		routing := spec.Ports[i].Routing
		if routing == nil {
			continue
		}
		for j := range routing.BGP {
			add(routing.BGP[j].PasswordFrom, i, j, "bgp")
		}
		for j := range routing.OSPF {
			add(routing.OSPF[j].PasswordFrom, i, j, "ospf")
		}
		for j := range routing.RIP {
			add(routing.RIP[j].PasswordFrom, i, j, "rip")
		}
	}
	return all
}

// Routing returns the sessions of all ports of the pod with an index, of a generator in which nothing is wrong.
func Routing(spec *spatev1.TrafficGeneratorSpec, replica int) *enginev1.Routing {
	all := &enginev1.Routing{}
	for i := range spec.Ports {
		routing := spec.Ports[i].Routing
		if routing == nil {
			continue
		}
		router := &enginev1.Router{Port: string(spec.Ports[i].Name)}
		if first, err := netip.ParseAddr(string(routing.RouterID)); err == nil {
			id, _ := RouterIDOf(first, replica)
			router.RouterId = id.String()
		}
		for j := range routing.BGP {
			router.Bgp = append(router.Bgp, bgp(&routing.BGP[j]))
		}
		for j := range routing.OSPF {
			router.Ospf = append(router.Ospf, ospf(&routing.OSPF[j]))
		}
		for j := range routing.RIP {
			router.Rip = append(router.Rip, rip(&routing.RIP[j]))
		}
		for _, s := range routing.BFD {
			router.Bfd = append(router.Bfd, &enginev1.BfdSession{Name: string(s.Name), Neighbor: string(s.Neighbor), Timers: timers(&s.BFDTimers)})
		}
		all.Routers = append(all.Routers, router)
	}
	return all
}

var families = map[spatev1.RouteFamily]enginev1.AddressFamily{
	spatev1.FamilyIPv4Unicast: enginev1.AddressFamily_ADDRESS_FAMILY_IPV4,
	spatev1.FamilyIPv6Unicast: enginev1.AddressFamily_ADDRESS_FAMILY_IPV6,
}

// FamilyOf returns a family of routes as a plan has it; false if there is no such family.
func FamilyOf(family spatev1.RouteFamily) (of enginev1.AddressFamily, known bool) {
	of, known = families[family]
	return of, known
}

// FamiliesOf returns the families of a session's routes: by default that of its neighbor.
func FamiliesOf(s *spatev1.BGPSession) []spatev1.RouteFamily {
	if len(s.Families) > 0 {
		return s.Families
	}
	if address, err := netip.ParseAddr(string(s.Neighbor.Address)); err == nil && address.Is6() {
		return []spatev1.RouteFamily{spatev1.FamilyIPv6Unicast}
	}
	return []spatev1.RouteFamily{spatev1.FamilyIPv4Unicast}
}

func bgp(s *spatev1.BGPSession) *enginev1.BgpSession {
	session := &enginev1.BgpSession{
		Name: string(s.Name), LocalAs: uint32(s.LocalAS), Neighbor: string(s.Neighbor.Address), NeighborAs: uint32(s.Neighbor.AS),
		PasswordFile: PasswordFile(s.PasswordFrom), HoldTimeS: seconds(s.HoldTime), Passive: s.Passive, TtlSecurity: s.TTLSecurity,
		Learn: enginev1.Learn_LEARN_COUNT,
	}
	for _, family := range FamiliesOf(s) {
		session.Families = append(session.Families, families[family])
	}
	if s.BFD != nil {
		session.Bfd = timers(s.BFD)
	}
	if s.Multihop != nil {
		session.Multihop = uint32(*s.Multihop)
	}
	return session
}

var links = map[spatev1.OSPFNetwork]enginev1.LinkType{
	spatev1.OSPFBroadcast:    enginev1.LinkType_LINK_TYPE_BROADCAST,
	spatev1.OSPFPointToPoint: enginev1.LinkType_LINK_TYPE_POINT_TO_POINT,
}

func ospf(s *spatev1.OSPFSession) *enginev1.OspfSession {
	return &enginev1.OspfSession{
		Name: string(s.Name), Version: uint32(s.Version), Area: string(s.Area), Link: links[s.Network], HelloS: seconds(s.Hello), DeadS: seconds(s.Dead),
		PasswordFile: PasswordFile(s.PasswordFrom), Learn: enginev1.Learn_LEARN_COUNT,
	}
}

func rip(s *spatev1.RIPSession) *enginev1.RipSession {
	family := enginev1.AddressFamily_ADDRESS_FAMILY_IPV4
	if s.Version == spatev1.RIPng {
		family = enginev1.AddressFamily_ADDRESS_FAMILY_IPV6
	}
	return &enginev1.RipSession{
		Name: string(s.Name), Family: family, UpdateS: seconds(s.Update), TimeoutS: seconds(s.Timeout),
		PasswordFile: PasswordFile(s.PasswordFrom), Learn: enginev1.Learn_LEARN_COUNT,
	}
}

func timers(t *spatev1.BFDTimers) *enginev1.BfdTimers {
	interval, _ := t.Interval.Parse() // checked with the generator
	return &enginev1.BfdTimers{IntervalUs: uint32(interval.Microseconds()), Multiplier: uint32(t.Multiplier)}
}

func seconds(text spatev1.Duration) uint32 {
	duration, _ := text.Parse() // checked with the generator
	return uint32(duration / time.Second)
}
