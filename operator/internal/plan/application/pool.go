// SPDX-License-Identifier: Apache-2.0

// Which addresses do a template's clients and servers have?

package application

import (
	"math/big"
	"net"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/limits"
	"spate.dev/operator/internal/plan/tags"
)

// Pool is a range of addresses that is being planned.
type Pool struct {
	At          *field.Path
	Name        string
	first, last netip.Addr
	// offset of each further entry; not valid when absent.
	offset  netip.Addr
	Weight  uint32
	order   enginev1.PoolOrder
	seed    uint64
	mac     []byte
	sources *enginev1.SourcePorts
	// Tunnels of clients; nil if there are none.
	Tunnels *limits.Tunnels
	gtpu    *enginev1.Gtpu
	vxlan   *enginev1.Vxlan
	gre     *enginev1.Gre
	mpls    *enginev1.Mpls
	// vlans and gateway of clients.
	vlans   []*enginev1.VlanTag
	gateway netip.Addr
	// MirrorsVLANs is true if servers on another port are met in the vlans.
	MirrorsVLANs bool
	// multicast is true if all addresses are multicast, and allowed.
	multicast bool
	// From names the emulated clients that have the addresses; nil for a range.
	From *enginev1.PoolOfClients
}

// Mirror returns the field that makes emulated servers meet the pool's clients as they are on their link; "" if none does.
func (a *Pool) Mirror() string {
	switch {
	case a.Tunnels != nil && a.Tunnels.GetMirror():
		return a.Tunnels.Field + ".mirror"
	case a.MirrorsVLANs:
		return "mirrorVLANs"
	default:
		return ""
	}
}

// pools returns the pools of one side of a template.
func (p checker) pools(all []spatev1.AddressPool, at *field.Path, servers bool) []Pool {
	var made []Pool
	for i := range all {
		one, at := &all[i], at.Index(i)
		if servers && (one.StartMAC != "" || one.SourcePorts != nil) {
			p.Add(spatev1.ReasonInvalidSpec, at, "startMAC and sourcePorts go with clients")
		}
		if servers && one.GTPU != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("gtpu"), "goes with clients")
		}
		if servers && one.VXLAN != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("vxlan"), "goes with clients")
		}
		if servers && one.GRE != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("gre"), "goes with clients")
		}
		if servers && one.MPLS != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("mpls"), "goes with clients")
		}
		if servers && one.From != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("from"), "goes with clients")
		}
		if servers && (len(one.VLANs) > 0 || one.Gateway != "") {
			p.Add(spatev1.ReasonInvalidSpec, at, "vlans and gateway go with clients")
		}
		if good, ok := p.pool(one, at); ok {
			made = append(made, good)
		}
	}
	return made
}

func (p checker) pool(a *spatev1.AddressPool, at *field.Path) (Pool, bool) {
	before := len(*p.Problems)
	made := Pool{At: at, Name: string(a.Name), Weight: 1}
	if a.From != nil {
		made.From = p.fromClients(a, at)
	} else {
		made.first, made.last = p.ends(a, at)
	}
	switch {
	case !made.first.IsValid() || !made.last.IsValid():
	case made.first.Is4() != made.last.Is4():
		p.Add(spatev1.ReasonInvalidSpec, at.Child("end"), "%s is not of the family of start, which is %s", a.End, a.Start)
	case made.last.Less(made.first):
		p.Add(spatev1.ReasonInvalidSpec, at.Child("end"), "%s is less than start, which is %s", a.End, a.Start)
	case a.AllowMulticast:
		p.groups(made.first, made.last, at)
		made.multicast = true
	default:
		p.stations(made.first, made.last, at)
	}
	if a.AllowMulticast && a.GTPU != nil {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("allowMulticast"), "does not go with gtpu: clients in tunnels have addresses of hosts")
	}
	if a.PortPairOffset != "" {
		made.offset = p.address(a.PortPairOffset, at.Child("portPairOffset"))
	}
	switch a.Order {
	case "", spatev1.PoolForward:
		made.order = enginev1.PoolOrder_POOL_ORDER_SEQUENTIAL
		if a.Seed != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("seed"), "goes with order: Random")
		}
	case spatev1.PoolRandom:
		made.order = enginev1.PoolOrder_POOL_ORDER_RANDOM
	default:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("order"), "%q: must be Forward or Random", a.Order)
	}
	made.seed = uint64(ptr.Deref(a.Seed, 0))
	if a.Weight != nil {
		p.AtLeastOne(int64(*a.Weight), at.Child("weight"))
		made.Weight = uint32(*a.Weight)
	}
	if a.StartMAC != "" {
		made.mac = p.stationMAC(a.StartMAC, at.Child("startMAC"))
	}
	if s := a.SourcePorts; s != nil {
		made.sources = p.sourcePorts(s, at.Child("sourcePorts"))
	}
	if a.GTPU != nil {
		made.gtpu = p.gtpu(a, at)
	}
	if a.VXLAN != nil {
		made.vxlan = p.vxlan(a, at)
	}
	if a.GRE != nil {
		made.gre = p.gre(a, at)
	}
	if a.MPLS != nil {
		made.mpls = p.mpls(a, at)
	}
	made.Tunnels = limits.TunnelsOf(&enginev1.Pool{Gtpu: made.gtpu, Vxlan: made.vxlan, Gre: made.gre, Mpls: made.mpls})
	p.access(a, at, &made)
	return made, len(*p.Problems) == before
}

// unassignable is a range of addresses that no host has.
type unassignable struct {
	prefix netip.Prefix
	what   string
}

var unassignables = []unassignable{
	{netip.MustParsePrefix("0.0.0.0/32"), "is that of no station"},
	{netip.MustParsePrefix("127.0.0.0/8"), "is a loopback address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "is that of a group"},
	{netip.MustParsePrefix("255.255.255.255/32"), "is the broadcast address"},
	{netip.MustParsePrefix("::/128"), "is that of no station"},
	{netip.MustParsePrefix("::1/128"), "is the loopback address"},
	{netip.MustParsePrefix("ff00::/8"), "is that of a group"},
}

// stations reports addresses of a range that no host can have; at is the field with its first and last.
func (p checker) stations(first, last netip.Addr, at *field.Path) {
	for _, none := range unassignables {
		from, to := none.prefix.Addr(), limits.LastOf(none.prefix)
		if from.Is4() != first.Is4() || last.Less(from) || to.Less(first) {
			continue
		}
		const remedy = "give clients and servers addresses that hosts can have, such as 198.18.0.1, or set allowMulticast for groups"
		switch {
		case !first.Less(from):
			p.Add(spatev1.ReasonInvalidSpec, at.Child("start"), "%s %s: %s", first, none.what, remedy)
		case !to.Less(last):
			p.Add(spatev1.ReasonInvalidSpec, at.Child("end"), "%s %s: %s", last, none.what, remedy)
		default:
			p.Add(spatev1.ReasonInvalidSpec, at, "%s to %s has %s, which %s: %s", first, last, from, none.what, remedy)
		}
		return
	}
}

// groups reports a range with addresses that are not multicast.
func (p checker) groups(first, last netip.Addr, at *field.Path) {
	for _, end := range []struct {
		name    string
		address netip.Addr
	}{{"start", first}, {"end", last}} {
		if !end.address.IsMulticast() {
			p.Add(spatev1.ReasonInvalidSpec, at.Child(end.name), "%s is not multicast, and the pool has allowMulticast: use another pool for addresses of hosts", end.address)
			return
		}
	}
}

// apartFrom reports a client of a template that has the address of one of its servers.
func (p checker) apartFrom(clients, servers []Pool) {
	for _, c := range clients {
		for _, s := range servers {
			if c.From == nil && s.From == nil && c.first.Is4() == s.first.Is4() && !c.last.Less(s.first) && !s.last.Less(c.first) {
				p.Add(spatev1.ReasonInvalidSpec, c.At, "%s to %s overlaps %s, which is %s to %s: a client would connect to itself; use addresses apart", c.first, c.last, s.At, s.first, s.last)
			}
		}
	}
}

const (
	mostTEID     = 1<<32 - 1
	mostNearEnds = 1 << 16
	mostQFI      = 63
)

// gtpu returns the GTP-U tunnels of a pool's clients. The engine checks that all tunnels of a plan are compatible.
func (p checker) gtpu(a *spatev1.AddressPool, pool *field.Path) *enginev1.Gtpu {
	g, at := a.GTPU, pool.Child("gtpu")
	if a.StartMAC != "" {
		p.Add(spatev1.ReasonInvalidSpec, pool.Child("startMAC"), "does not go with gtpu: gNBs have the port's MAC")
	}
	if a.PortPairOffset != "" {
		p.Add(spatev1.ReasonInvalidSpec, pool.Child("portPairOffset"), "does not go with gtpu: write a template with tunnels of its own for the other ports")
	}
	local, remote := p.tunnelEnds(g.Local, g.Remote, at)
	made := &enginev1.Gtpu{
		Local: local, Remote: remote, LocalCount: p.Setting(g.LocalCount, 1, mostNearEnds, at.Child("localCount")),
		TeidStep: p.teid(g.TEIDStep, at.Child("teidStep")), DownlinkTeid: p.teid(g.DownlinkTEID, at.Child("downlinkTEID")), Mirror: g.Mirror,
	}
	made.Teid = p.teid(&g.TEID, at.Child("teid"))
	if g.QFI != nil {
		p.Bounded(int64(*g.QFI), 0, mostQFI, at.Child("qfi"))
		made.Qfi = proto.Uint32(uint32(*g.QFI))
	}
	return made
}

const mostVNI = 1<<24 - 1

// vxlan returns the VXLAN tunnels of a pool's clients. The engine checks that all tunnels of a plan are compatible.
func (p checker) vxlan(a *spatev1.AddressPool, pool *field.Path) *enginev1.Vxlan {
	v, at := a.VXLAN, pool.Child("vxlan")
	p.beside("vxlan", a, pool)
	local, remote := p.tunnelEnds(v.Local, v.Remote, at)
	p.Bounded(int64(v.VNI), 0, mostVNI, at.Child("vni"))
	p.Bounded(int64(v.VNIStep), 0, mostVNI, at.Child("vniStep"))
	made := &enginev1.Vxlan{
		Local: local, Remote: remote, LocalCount: p.Setting(v.LocalCount, 1, mostNearEnds, at.Child("localCount")),
		Vni: uint32(v.VNI), VniStep: uint32(v.VNIStep), Mirror: v.Mirror,
	}
	if p.ExactlyOne(at, "innerGatewayMAC and mirror", v.InnerGatewayMAC != "", v.Mirror) && !v.Mirror {
		made.InnerGatewayMac = p.stationMAC(v.InnerGatewayMAC, at.Child("innerGatewayMAC"))
	}
	return made
}

const mostKey = 1<<32 - 1

// gre returns the GRE tunnels of a pool's clients. The engine checks that all tunnels of a plan are compatible.
func (p checker) gre(a *spatev1.AddressPool, pool *field.Path) *enginev1.Gre {
	g, at := a.GRE, pool.Child("gre")
	p.beside("gre", a, pool)
	local, remote := p.tunnelEnds(g.Local, g.Remote, at)
	p.Bounded(g.KeyStep, 0, mostKey, at.Child("keyStep"))
	made := &enginev1.Gre{
		Local: local, Remote: remote, LocalCount: p.Setting(g.LocalCount, 1, mostNearEnds, at.Child("localCount")),
		KeyStep: uint32(g.KeyStep), Mirror: g.Mirror,
	}
	switch {
	case g.Key != nil:
		p.Bounded(*g.Key, 0, mostKey, at.Child("key"))
		made.Key = proto.Uint32(uint32(*g.Key))
	case g.KeyStep != 0:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("keyStep"), "goes with key")
	}
	return made
}

const (
	mostLabels       = 8
	mostLabel        = 1<<20 - 1
	implicitNull     = 3 // RFC 3032 section 2.1
	mostTrafficClass = 7
	mostTTL          = 255
)

// mpls returns the MPLS labels of a pool's clients. The engine checks that all tunnels of a plan are compatible.
func (p checker) mpls(a *spatev1.AddressPool, pool *field.Path) *enginev1.Mpls {
	m, at := a.MPLS, pool.Child("mpls")
	p.beside("mpls", a, pool)
	local, remote := p.tunnelEnds(m.Local, m.Remote, at)
	p.Bounded(int64(m.LabelStep), 0, mostLabel, at.Child("labelStep"))
	made := &enginev1.Mpls{
		Local: local, Remote: remote, LocalCount: p.Setting(m.LocalCount, 1, mostNearEnds, at.Child("localCount")),
		LabelStep: uint32(m.LabelStep), Mirror: m.Mirror,
	}
	labels := at.Child("labels")
	if len(m.Labels) < 1 || len(m.Labels) > mostLabels {
		p.Add(spatev1.ReasonInvalidSpec, labels, "has %d labels: must have 1 to %d", len(m.Labels), mostLabels)
	}
	for i, l := range m.Labels {
		at := labels.Index(i)
		p.Bounded(int64(l.Label), 0, mostLabel, at.Child("label"))
		if l.Label == implicitNull {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("label"), "%d (implicit null) is in no label stack: leave the entry out", implicitNull)
		}
		p.Bounded(int64(l.TrafficClass), 0, mostTrafficClass, at.Child("trafficClass"))
		made.Labels = append(made.Labels, &enginev1.MplsLabel{
			Label: uint32(l.Label), TrafficClass: uint32(l.TrafficClass), Ttl: p.Setting(l.TTL, 1, mostTTL, at.Child("ttl")),
		})
	}
	if m.DownlinkLabel != nil {
		p.Bounded(int64(*m.DownlinkLabel), 0, mostLabel, at.Child("downlinkLabel"))
		made.DownlinkLabel = proto.Uint32(uint32(*m.DownlinkLabel))
	}
	return made
}

// beside reports fields of a pool that do not go with the tunnels that its field name has.
func (p checker) beside(name string, a *spatev1.AddressPool, pool *field.Path) {
	for _, other := range []struct {
		name string
		set  bool
	}{
		{"gtpu", a.GTPU != nil}, {"vxlan", a.VXLAN != nil}, {"gre", a.GRE != nil}, {"mpls", a.MPLS != nil},
		// Frames have MACs of clients, and packets have none.
		{"startMAC", a.StartMAC != "" && name != "vxlan"},
		{"portPairOffset", a.PortPairOffset != ""}, {"allowMulticast", a.AllowMulticast},
	} {
		if other.set && other.name != name {
			p.Add(spatev1.ReasonInvalidSpec, pool.Child(other.name), "does not go with %s", name)
		}
	}
}

// stationMAC returns the bytes of a MAC address that is no group's.
func (p checker) stationMAC(text spatev1.MACAddress, at *field.Path) []byte {
	address, err := net.ParseMAC(string(text))
	if err != nil || len(address) != 6 || address[0]&1 != 0 {
		p.Add(spatev1.ReasonInvalidSpec, at, "%q: must be the MAC address of a station, such as 02:00:00:00:00:01", text)
	}
	return address
}

// tunnelEnds returns the ends of tunnels of any kind; at is the field of a pool that has them.
func (p checker) tunnelEnds(localText, remoteText spatev1.IPAddress, at *field.Path) (localEnd, remoteEnd []byte) {
	local, remote := p.address(localText, at.Child("local")), p.address(remoteText, at.Child("remote"))
	if local.IsValid() && remote.IsValid() && local.Is4() != remote.Is4() {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("remote"), "%s is not of the family of local, which is %s", remoteText, localText)
	}
	for _, end := range []struct {
		name    string
		address netip.Addr
	}{{"local", local}, {"remote", remote}} {
		if end.address.IsValid() && slices.ContainsFunc(unassignables, func(n unassignable) bool { return n.prefix.Contains(end.address) }) {
			p.Add(spatev1.ReasonInvalidSpec, at.Child(end.name), "%s is no address that a host can have", end.address)
		}
	}
	return local.AsSlice(), remote.AsSlice()
}

const (
	mostVLANs  = 2
	serviceTag = 0x88a8
)

// access sets the VLAN tags and the gateway of a pool's clients. The engine checks that those of all pools are compatible.
func (p checker) access(a *spatev1.AddressPool, at *field.Path, made *Pool) {
	vlans := at.Child("vlans")
	if len(a.VLANs) > mostVLANs {
		p.Add(spatev1.ReasonInvalidSpec, vlans, "has %d tags; at most %d", len(a.VLANs), mostVLANs)
	}
	for i, tag := range a.VLANs {
		p.Bounded(int64(tag.ID), 1, tags.MostVLAN, vlans.Index(i).Child("id"))
		planned := &enginev1.VlanTag{Id: uint32(tag.ID)}
		switch tag.Protocol {
		case "", spatev1.VLANCustomer:
		case spatev1.VLANService:
			planned.Tpid = serviceTag
		default:
			p.Add(spatev1.ReasonInvalidSpec, vlans.Index(i).Child("protocol"), "%q: must be 802.1Q or 802.1ad", tag.Protocol)
		}
		made.vlans = append(made.vlans, planned)
	}
	made.MirrorsVLANs = a.MirrorVLANs
	if a.MirrorVLANs && len(a.VLANs) == 0 {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("mirrorVLANs"), "goes with vlans")
	}
	if a.Gateway == "" {
		if len(a.VLANs) > 0 {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("gateway"), "is required with vlans: the next hop of the clients in these VLANs")
		}
		return
	}
	made.gateway = p.address(a.Gateway, at.Child("gateway"))
	if a.PortPairOffset != "" {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("portPairOffset"), "does not go with gateway: write a template with a gateway of its own for the other ports")
	}
	if a.AllowMulticast {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("allowMulticast"), "does not go with gateway: clients behind one have addresses of hosts")
	}
	stations, first, last := "the clients", made.first, made.last
	if made.Tunnels != nil {
		stations = made.Tunnels.Field + ".local"
		first, _ = netip.AddrFromSlice(made.Tunnels.GetLocal())
		last = first
	}
	switch {
	case !made.gateway.IsValid() || !first.IsValid() || !last.IsValid():
	case slices.ContainsFunc(unassignables, func(n unassignable) bool { return n.prefix.Contains(made.gateway) }):
		p.Add(spatev1.ReasonInvalidSpec, at.Child("gateway"), "%s is no address that a host can have", a.Gateway)
	case made.gateway.Is4() != first.Is4():
		p.Add(spatev1.ReasonInvalidSpec, at.Child("gateway"), "%s is not of the family of %s", a.Gateway, stations)
	case !made.gateway.Less(first) && !last.Less(made.gateway):
		p.Add(spatev1.ReasonInvalidSpec, at.Child("gateway"), "%s is an address of %s: use that of a next hop", a.Gateway, stations)
	}
}

// teid returns a tunnel endpoint identifier; 0 when absent.
func (p checker) teid(value *int64, at *field.Path) uint32 {
	if value == nil {
		return 0
	}
	p.Bounded(*value, 1, mostTEID, at)
	return uint32(*value)
}

func (p checker) sourcePorts(s *spatev1.SourcePorts, at *field.Path) *enginev1.SourcePorts {
	const leastPort, mostPort = 1, 65535
	p.Bounded(int64(s.Start), 0, mostPort, at.Child("start"))
	p.Bounded(int64(s.Step), 0, mostPort, at.Child("step"))
	made := &enginev1.SourcePorts{First: uint32(s.Start), Step: uint32(s.Step)}
	made.Lowest, made.Highest = p.Setting(s.Min, leastPort, mostPort, at.Child("min")), p.Setting(s.Max, leastPort, mostPort, at.Child("max"))
	lowest, highest := made.Lowest, made.Highest
	if lowest == 0 {
		lowest = 1024
	}
	if highest == 0 {
		highest = mostPort
	}
	if highest < lowest {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("max"), "%d is less than min, which is %d", highest, lowest)
	}
	return made
}

func (p checker) address(text spatev1.IPAddress, at *field.Path) netip.Addr {
	address, err := netip.ParseAddr(string(text))
	if err != nil || address.Zone() != "" {
		p.Add(spatev1.ReasonInvalidSpec, at, "%q: must be an IP address such as 16.0.0.1 or 2001:db8::1", text)
		return netip.Addr{}
	}
	return address.Unmap()
}

// ends returns the first and the last address of a pool.
func (p checker) ends(a *spatev1.AddressPool, at *field.Path) (first, last netip.Addr) {
	first = p.address(a.Start, at.Child("start"))
	if !p.ExactlyOne(at, "end and count", a.End != "", a.Count != nil) {
		return first, netip.Addr{}
	}
	if a.Count == nil {
		return first, p.address(a.End, at.Child("end"))
	}
	if p.AtLeastOne(*a.Count, at.Child("count")); !first.IsValid() || *a.Count < 1 {
		return first, netip.Addr{}
	}
	number := new(big.Int).SetBytes(first.AsSlice())
	number.Add(number, big.NewInt(*a.Count-1))
	if number.BitLen() > first.BitLen() {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("count"), "there are no %d addresses from %s on", *a.Count, first)
		return first, netip.Addr{}
	}
	last, _ = netip.AddrFromSlice(number.FillBytes(make([]byte, first.BitLen()/8)))
	return first, last
}

// Is4 reports whether the addresses are IPv4.
func (a *Pool) Is4() bool {
	if a.From != nil {
		return !a.From.Ipv6
	}
	return a.first.Is4()
}

// Count returns the number of addresses in the pool, which has a range.
func (a *Pool) Count() *big.Int {
	first, last := new(big.Int).SetBytes(a.first.AsSlice()), new(big.Int).SetBytes(a.last.AsSlice())
	return last.Add(last.Sub(last, first), big.NewInt(1))
}

// Shifted returns the pool for the plan, with its addresses increased by a multiple of the offset; false if there are no such addresses.
func (a *Pool) Shifted(times int) (*enginev1.Pool, bool) {
	made := &enginev1.Pool{
		FromClients: a.From,
		Name:        a.Name, Order: a.order, Seed: a.seed, FirstMac: a.mac, SourcePorts: a.sources, First: a.first.AsSlice(), Last: a.last.AsSlice(),
		Gtpu: a.gtpu, Vxlan: a.vxlan, Gre: a.gre, Mpls: a.mpls,
		AllowMulticast: a.multicast, Vlans: a.vlans, Gateway: a.gateway.AsSlice(), MirrorVlans: a.MirrorsVLANs,
	}
	if times == 0 || !a.offset.IsValid() {
		return made, true
	}
	by := new(big.Int).Mul(new(big.Int).SetBytes(a.offset.AsSlice()), big.NewInt(int64(times)))
	for _, address := range [][]byte{made.First, made.Last} {
		sum := new(big.Int).Add(new(big.Int).SetBytes(address), by)
		if sum.BitLen() > 8*len(address) {
			return nil, false
		}
		sum.FillBytes(address)
	}
	return made, true
}
