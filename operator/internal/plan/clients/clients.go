// SPDX-License-Identifier: Apache-2.0

// Package clients answers: which emulated clients does a profile have, and does its generator allow them?
package clients

import (
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/limits"
	"spate.dev/operator/internal/plan/ports"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/quantity"
)

var spec = field.NewPath("spec")

// Group is a group of clients that is being planned.
type Group struct {
	At *field.Path
	// Spec is the entry of the profile, and Of what its clients are.
	Spec *spatev1.ClientsEntry
	Of   *spatev1.ClientGroupSpec
	// Made is what the plan has of it.
	Made *enginev1.ClientGroup
}

// Groups returns those of a profile, in its order, and everything wrong with them by themselves.
func Groups(profile *spatev1.TrafficProfile, known map[string]*spatev1.ClientGroup, generator *spatev1.TrafficGenerator) ([]Group, problem.Problems) {
	var problems problem.Problems
	var all []Group
	names := map[spatev1.EntryName]bool{}
	for i := range profile.Spec.Clients {
		g := Group{At: spec.Child("clients").Index(i), Spec: &profile.Spec.Clients[i]}
		if names[g.Spec.Name] {
			problems.Add(spatev1.ReasonInvalidSpec, g.At.Child("name"), "%q is the name of another entry; choose a name of its own", g.Spec.Name)
		}
		names[g.Spec.Name] = true
		of := known[string(g.Spec.GroupRef.Name)]
		if of == nil {
			problems.Add(spatev1.ReasonReferenceNotFound, g.At.Child("groupRef", "name"), "ClientGroup %q does not exist in namespace %s: apply it, or correct the name", g.Spec.GroupRef.Name, profile.Namespace)
			continue
		}
		g.Of = &of.Spec
		before := len(problems)
		problems = append(problems, g.resolve(profile.Spec.SetupTimeout)...)
		if generator != nil {
			problems = append(problems, g.on(generator)...)
		}
		if len(problems) == before {
			all = append(all, g)
		}
	}
	for i := range all {
		for j := range all[:i] {
			if a, b := &all[i], &all[j]; a.Spec.Port == b.Spec.Port && a.macs().overlaps(b.macs()) {
				problems.Add(spatev1.ReasonInvalidSpec, a.At, "its MACs, %s, overlap those of clients %s on the same port, %s; choose another mac.first for one of their groups", a.macs(), b.Spec.Name, b.macs())
			}
		}
	}
	return all, problems
}

// within reports problems of the group at the reference to it.
func (g *Group) within(found problem.Problems) problem.Problems {
	return found.Within(g.At.Child("groupRef"), "ClientGroup", string(g.Spec.GroupRef.Name))
}

const (
	defaultSetup = time.Minute
	// mostClients of an engine, which checks it again.
	mostClients = 1_000_000
)

// resolve makes the part of the plan.
func (g *Group) resolve(setup spatev1.Duration) problem.Problems {
	var own, found problem.Problems
	e := g.Spec
	own.Bounded(int64(e.Count), 1, 16_000_000, g.At.Child("count"))
	made := &enginev1.ClientGroup{
		Name: string(e.Name), Port: string(e.Port), Count: uint32(e.Count), Hostname: string(g.Of.Hostname), PingGateway: g.Of.Verify.PingGateway,
		MaxOutstanding: own.Setting(e.MaxOutstanding, 1, 16_000_000, g.At.Child("maxOutstanding")),
		Mac:            &enginev1.ClientMacs{First: check{&found}.macs(g.Of.MAC.First, e.Count)}, Vlans: check{&found}.vlans(g.Of.VLANs),
		Retry: check{&found}.retry(g.Of.Retry), Ready: &enginev1.ClientsReady{LeastPpm: check{&own}.share(e.Ready.Least, g.At.Child("ready", "least"))},
	}
	made.Rate = check{&own}.rate(e.Rate, g.At.Child("rate"))
	switch e.AtEnd {
	case "", spatev1.ClientsRelease:
		made.AtEnd = enginev1.ClientsAtEnd_CLIENTS_AT_END_RELEASE
	case spatev1.ClientsForget:
		made.AtEnd = enginev1.ClientsAtEnd_CLIENTS_AT_END_FORGET
	default:
		own.Add(spatev1.ReasonInvalidSpec, g.At.Child("atEnd"), "%q: must be Release or Forget", e.AtEnd)
	}
	made.Ready.TimeoutNs = own.Duration(e.Ready.Timeout, g.At.Child("ready", "timeout"))
	if e.Ready.Timeout == "" {
		timeout, err := setup.Parse()
		if err != nil {
			timeout = defaultSetup // what is wrong with it is reported with the profile
		}
		made.Ready.TimeoutNs = uint64(timeout)
	}
	if made.Ready.TimeoutNs == 0 {
		own.Add(spatev1.ReasonInvalidSpec, g.At.Child("ready", "timeout"), "must be greater than zero: the time until the clients are bound")
	}
	check{&found}.pattern(g.Of.Hostname, spec.Child("hostname"))
	switch {
	case g.Of.IPv4 == nil && g.Of.IPv6 == nil:
		found.Add(spatev1.ReasonInvalidSpec, spec, "the clients have no addresses; set ipv4 or ipv6")
	case g.Of.IPv4 != nil:
		made.Ipv4 = check{&found}.ipv4(g.Of.IPv4, e.Count)
	}
	if g.Of.IPv6 != nil {
		made.Ipv6 = check{&found}.ipv6(g.Of.IPv6)
	}
	g.Made = made
	return append(own, g.within(found)...)
}

// check reads parts of a ClientGroup, and adds what is wrong with them to its problems.
type check struct{ *problem.Problems }

// rate of clients.
func (c check) rate(text spatev1.ClientRate, at *field.Path) *enginev1.Ratio {
	value, err := quantity.ParseClientRate(text)
	if err == nil {
		var ratio *enginev1.Ratio
		if ratio, err = quantity.RateRatio(quantity.PacketsPerSecond, value); err == nil {
			return ratio
		}
	}
	c.Add(spatev1.ReasonInvalidSpec, at, "%q: %v", text, err)
	return nil
}

const million = 1_000_000

// share returns parts per million; 0 for all clients.
func (c check) share(text spatev1.ClientShare, at *field.Path) uint32 {
	if text == "" {
		return 0
	}
	value, ok := new(big.Rat).SetString(strings.TrimSuffix(string(text), "%"))
	if ok {
		value.Mul(value, big.NewRat(million/100, 1))
	}
	if !ok || !strings.HasSuffix(string(text), "%") || !value.IsInt() || value.Sign() <= 0 || value.Cmp(big.NewRat(million, 1)) > 0 {
		c.Add(spatev1.ReasonInvalidSpec, at, "%q: must be a share such as 99%% or 99.9%%, above 0%% and with at most four decimal places", text)
		return 0
	}
	return uint32(value.Num().Uint64())
}

// macs returns the first of as many as there are clients.
func (c check) macs(text spatev1.MACAddress, count int32) []byte {
	at := spec.Child("mac", "first")
	first, err := net.ParseMAC(string(text))
	if err != nil || len(first) != 6 {
		c.Add(spatev1.ReasonInvalidSpec, at, "%q: must be a MAC address such as 02:10:00:00:00:00", text)
		return nil
	}
	r := rangeOf(first, uint32(max(count, 1)))
	if first[0]&1 != 0 || r.last>>40 != r.first>>40 {
		c.Add(spatev1.ReasonInvalidSpec, at, "%s, or the address of a later one of %d clients, is that of a group: use one whose first byte is even, and leave room for all clients below the next first byte", text, count)
	}
	return first
}

const serviceTag, customerTag = 0x88a8, 0x8100

// vlans returns the tags.
func (c check) vlans(all []spatev1.ClientVLANs) []*enginev1.ClientVlans {
	var made []*enginev1.ClientVlans
	if len(all) > 2 {
		c.Add(spatev1.ReasonInvalidSpec, spec.Child("vlans"), "has %d tags; at most 2", len(all))
	}
	for i, tag := range all {
		at := spec.Child("vlans").Index(i)
		count := max(tag.Count, 1)
		c.Bounded(int64(tag.First), 1, 4094, at.Child("first"))
		if tag.First+count-1 > 4094 {
			c.Add(spatev1.ReasonInvalidSpec, at.Child("count"), "%d identifiers from %d on; the last must be at most 4094", count, tag.First)
		}
		planned := &enginev1.ClientVlans{First: uint32(tag.First), Count: uint32(count)}
		switch tag.Protocol {
		case "":
		case spatev1.VLANCustomer:
			planned.Tpid = customerTag
		case spatev1.VLANService:
			planned.Tpid = serviceTag
		default:
			c.Add(spatev1.ReasonInvalidSpec, at.Child("protocol"), "%q: must be 802.1Q or 802.1ad", tag.Protocol)
		}
		made = append(made, planned)
	}
	return made
}

// patterns match the parts of a ClientPattern.
var patterns = regexp.MustCompile(`^([^{]|\{n(:0([1-9]|1[0-9]|20))?\})*$`)

// pattern checks a text with numbers of clients. Engines check its length.
func (c check) pattern(text spatev1.ClientPattern, at *field.Path) string {
	if !patterns.MatchString(string(text)) {
		c.Add(spatev1.ReasonInvalidSpec, at, "%q: {n} and {n:08} are known in braces; correct or remove the others", text)
	}
	return string(text)
}

func (c check) ipv4(v4 *spatev1.ClientIPv4, count int32) *enginev1.ClientIpv4 {
	at := spec.Child("ipv4")
	if !c.ExactlyOne(at, "dhcp and static", v4.DHCP != nil, v4.Static != nil) {
		return nil
	}
	if v4.Static != nil {
		return &enginev1.ClientIpv4{Kind: &enginev1.ClientIpv4_Fixed{Fixed: c.static(v4.Static, at.Child("static"), count)}}
	}
	d, at := v4.DHCP, at.Child("dhcp")
	made := &enginev1.ClientDhcp{
		VendorClass: d.VendorClass, ClientId: c.pattern(d.ClientID, at.Child("clientID")), CircuitId: c.pattern(d.CircuitID, at.Child("circuitID")),
		RemoteId: c.pattern(d.RemoteID, at.Child("remoteID")), Broadcast: d.Broadcast, Probes: c.probes(d.Probes, at),
	}
	var err error
	if made.VendorSpecific, err = hex.DecodeString(d.VendorSpecific); err != nil {
		c.Add(spatev1.ReasonInvalidSpec, at.Child("vendorSpecific"), "%q: must be hex digits, two a byte", d.VendorSpecific)
	}
	for i, code := range d.RequestedOptions {
		c.Bounded(int64(code), 1, 254, at.Child("requestedOptions").Index(i))
		made.RequestedOptions = append(made.RequestedOptions, byte(code))
	}
	lease := time.Duration(c.Duration(d.LeaseTime, at.Child("leaseTime")))
	if d.LeaseTime != "" && (lease < time.Second || lease%time.Second != 0 || lease > 0xffffffff*time.Second) {
		c.Add(spatev1.ReasonInvalidSpec, at.Child("leaseTime"), "%q: must be whole seconds, at least 1s", d.LeaseTime)
	}
	made.LeaseTimeS = uint32(lease / time.Second)
	return &enginev1.ClientIpv4{Kind: &enginev1.ClientIpv4_Dhcp{Dhcp: made}}
}

func (c check) probes(count int32, at *field.Path) uint32 {
	c.Bounded(int64(count), 0, 3, at.Child("probes"))
	return uint32(count)
}

func (c check) static(s *spatev1.ClientStatic, at *field.Path, count int32) *enginev1.ClientFixed {
	first, gateway := c.address(s.First, at.Child("first")), netip.Addr{}
	c.Bounded(int64(s.PrefixLength), 1, 32, at.Child("prefixLength"))
	if s.Gateway != "" {
		gateway = c.address(s.Gateway, at.Child("gateway"))
	}
	made := &enginev1.ClientFixed{First: first.AsSlice(), PrefixLen: uint32(s.PrefixLength), Gateway: gateway.AsSlice(), Probes: c.probes(s.Probes, at)}
	if !first.IsValid() || count < 1 || s.PrefixLength < 1 || s.PrefixLength > 32 {
		return made
	}
	subnet := netip.PrefixFrom(first, int(s.PrefixLength)).Masked()
	start, last := uint64(binary.BigEndian.Uint32(made.First)), binary.BigEndian.Uint32(limits.LastOf(subnet).AsSlice())
	if end := start + uint64(count) - 1; end > uint64(last) {
		c.Add(spatev1.ReasonInvalidSpec, at.Child("first"), "the subnet %s has %d addresses from %s on, and there are %d clients; use a lower one, a shorter prefixLength or fewer clients", subnet, uint64(last)-start+1, first, count)
	} else if gateway.IsValid() && !subnet.Contains(gateway) {
		c.Add(spatev1.ReasonInvalidSpec, at.Child("gateway"), "%s is not in %s, the clients' subnet", gateway, subnet)
	} else if g := gateway; g.IsValid() {
		if number := uint64(binary.BigEndian.Uint32(g.AsSlice())); start <= number && number <= end {
			c.Add(spatev1.ReasonInvalidSpec, at.Child("gateway"), "%s is the address of a client; use that of a router", g)
		}
	}
	return made
}

func (c check) address(text spatev1.IPv4Address, at *field.Path) netip.Addr {
	address, err := netip.ParseAddr(string(text))
	if err != nil || !address.Is4() || address.IsUnspecified() || address.IsLoopback() || address.IsMulticast() {
		c.Add(spatev1.ReasonInvalidSpec, at, "%q: must be an IPv4 address that a host can have, such as 10.0.0.1", text)
		return netip.Addr{}
	}
	return address
}

func (c check) ipv6(v6 *spatev1.ClientIPv6) *enginev1.ClientIpv6 {
	at := spec.Child("ipv6")
	if v6.SLAAC == nil && v6.DHCP == nil {
		c.Add(spatev1.ReasonInvalidSpec, at, "the clients have link-local addresses only; set slaac: {} or dhcp")
	}
	dad := ptr.Deref(v6.DADTransmits, 1)
	c.Bounded(int64(dad), 0, 10, at.Child("dadTransmits"))
	made := &enginev1.ClientIpv6{Slaac: v6.SLAAC != nil, DadTransmits: uint32(dad)}
	if d := v6.DHCP; d != nil {
		made.Dhcp = &enginev1.ClientDhcp6{Always: d.When == spatev1.DHCPv6Always, Address: ptr.Deref(d.Address, true), RapidCommit: d.RapidCommit}
		if d.Prefix != nil {
			c.Bounded(int64(*d.Prefix), 0, 64, at.Child("dhcp", "prefix"))
			made.Dhcp.Prefix = proto.Uint32(uint32(*d.Prefix))
		} else if !made.Dhcp.Address {
			c.Add(spatev1.ReasonInvalidSpec, at.Child("dhcp"), "requests neither an address nor a prefix; set one of them")
		}
	}
	return made
}

func (c check) retry(r *spatev1.ClientRetry) *enginev1.ClientRetry {
	if r == nil {
		return nil
	}
	at := spec.Child("retry")
	made := &enginev1.ClientRetry{FirstNs: c.SomeTime(r.First, at.Child("first")), MaxNs: c.SomeTime(r.Max, at.Child("max")), Attempts: uint32(r.Attempts)}
	if r.Spread != "" {
		made.SpreadNs = proto.Uint64(c.Duration(r.Spread, at.Child("spread")))
	}
	return made
}

// on checks the group on the port of its generator.
func (g *Group) on(generator *spatev1.TrafficGenerator) (problems problem.Problems) {
	all := ports.Of(generator)
	switch port := all.Find(string(g.Spec.Port)); {
	case port == nil:
		problems.Add(spatev1.ReasonInvalidSpec, g.At.Child("port"), "%q is no port of generator %s; it has %s", g.Spec.Port, generator.Name, all.Names())
	case ports.Internal(port):
		problems.Add(spatev1.ReasonInvalidSpec, g.At.Child("port"), "%s leads to no other station, so to no server; name a port with a link", g.Spec.Port)
	}
	pods := max(int64(generator.Spec.Replicas), 1)
	if own := (int64(g.Spec.Count) + pods - 1) / pods; int64(g.Spec.Count) < pods {
		problems.Add(spatev1.ReasonInvalidSpec, g.At.Child("count"), "%d clients for %d pods of generator %s, and each needs one; use at least %d, or fewer replicas", g.Spec.Count, pods, generator.Name, pods)
	} else if own > mostClients {
		problems.Add(spatev1.ReasonInvalidSpec, g.At.Child("count"), "%d clients on each of %d pods of generator %s; at most %d, use more replicas", own, pods, generator.Name, mostClients)
	}
	problems = append(problems, g.memory(generator, pods)...)
	return append(problems, limits.Clients(g.Made, generator.Name, generator.Spec.Limits, g.At)...)
}

// Memory of clients in an engine.
const (
	clientBytes   = 192
	clientBytesV6 = 256
	portBytes     = 2 << 20
)

// memory reports clients that take all of the memory that the generator gives to an engine beside packet buffers.
func (g *Group) memory(generator *spatev1.TrafficGenerator, pods int64) (problems problem.Problems) {
	bytes := int64(clientBytes)
	if g.Of.IPv6 != nil {
		bytes = clientBytesV6
	}
	needed := (int64(g.Spec.Count)+pods-1)/pods*bytes + portBytes
	has := resource.NewQuantity(int64(256+32*max(generator.Spec.Workers, 1))<<20, resource.BinarySI)
	if text := generator.Spec.Memory; text != "" {
		given, err := resource.ParseQuantity(string(text))
		if err != nil {
			return nil // reported with the generator
		}
		has = &given
	}
	if needed >= has.Value() {
		problems.Add(spatev1.ReasonInvalidSpec, g.At.Child("count"), "the clients of each pod take %d MiB, and generator %s has %s (spec.memory) for all of an engine; raise it, use more replicas or fewer clients", needed>>20, generator.Name, has)
	}
	return problems
}

// Find returns the group of an entry of the profile; nil if there is none.
func Find(groups []Group, name spatev1.EntryName) *Group {
	at := slices.IndexFunc(groups, func(g Group) bool { return g.Spec.Name == name })
	if at < 0 {
		return nil
	}
	return &groups[at]
}
