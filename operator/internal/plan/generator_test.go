// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/ports"
)

func TestPlacesOnLinks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*spatev1.GeneratorPort)
		want   string
	}{
		"right":              {func(*spatev1.GeneratorPort) {}, ""},
		"link-local gateway": {func(p *spatev1.GeneratorPort) { p.Gateway6 = "fe80::1" }, ""},
		"another subnet":     {func(p *spatev1.GeneratorPort) { p.Gateway = "198.18.1.254" }, "spec.ports[0].gateway: 198.18.1.254 is in the subnet of none of the port's addresses"},
		"another family":     {func(p *spatev1.GeneratorPort) { p.Gateway6 = "198.18.0.254" }, `spec.ports[0].gateway6: "198.18.0.254": must be an address of its family`},
		"no address":         {func(p *spatev1.GeneratorPort) { p.Addresses = nil }, "spec.ports[0].gateway: 198.18.0.254 is in the subnet of none"},
		"a wrong address":    {func(p *spatev1.GeneratorPort) { p.Addresses[0] = "198.18.0.1" }, `spec.ports[0].addresses[0]: "198.18.0.1": must be an address with its prefix`},
		"a tag for nothing":  {func(p *spatev1.GeneratorPort) { *p = spatev1.GeneratorPort{Name: "east", VLAN: ptr.To[int32](5)} }, "spec.ports[0].vlan: tags what the port sends for its addresses and groups, and it has none"},
		"groups": {func(p *spatev1.GeneratorPort) {
			*p = spatev1.GeneratorPort{Name: "east", VLAN: ptr.To[int32](5), MulticastGroups: []spatev1.MulticastGroup{{Address: "239.1.1.1"}, {Address: "ff3e::1", Sources: []spatev1.IPAddress{"2001:2::9"}}}}
		}, ""},
		"a host's address": {func(p *spatev1.GeneratorPort) { p.MulticastGroups = []spatev1.MulticastGroup{{Address: "198.18.0.9"}} }, `spec.ports[0].multicastGroups[0].address: "198.18.0.9": must be a multicast address`},
		"all hosts":        {func(p *spatev1.GeneratorPort) { p.MulticastGroups = []spatev1.MulticastGroup{{Address: "224.0.0.1"}} }, "spec.ports[0].multicastGroups[0].address"},
		"all nodes":        {func(p *spatev1.GeneratorPort) { p.MulticastGroups = []spatev1.MulticastGroup{{Address: "ff02::1"}} }, "spec.ports[0].multicastGroups[0].address"},
		"within a host":    {func(p *spatev1.GeneratorPort) { p.MulticastGroups = []spatev1.MulticastGroup{{Address: "ff01::5"}} }, "spec.ports[0].multicastGroups[0].address"},
		"another family's source": {func(p *spatev1.GeneratorPort) {
			p.MulticastGroups = []spatev1.MulticastGroup{{Address: "232.1.1.1", Sources: []spatev1.IPAddress{"198.18.0.9", "2001:2::9"}}}
		}, `spec.ports[0].multicastGroups[0].sources[1]: "2001:2::9": must be the address of a host`},
		"time stamps of no NIC": {func(p *spatev1.GeneratorPort) {
			p.ReceiveTimestamps, p.Attachment.Kernel = spatev1.TimestampsDevice, &spatev1.KernelAttachment{}
		}, "spec.ports[0].receiveTimestamps: Device is for NICs that DPDK drives"},
		"time stamps of a bond": {func(p *spatev1.GeneratorPort) {
			p.ReceiveTimestamps, p.Attachment.Bond = spatev1.TimestampsDevice, &spatev1.BondAttachment{}
		}, "spec.ports[0].receiveTimestamps: Device is for NICs that DPDK drives"},
		"time stamps of a function": {func(p *spatev1.GeneratorPort) {
			p.ReceiveTimestamps, p.Attachment.SRIOV = spatev1.TimestampsDevice, &spatev1.SRIOVAttachment{Driver: spatev1.DriverBifurcated}
		}, ""},
		"time stamps of a claimed device": {func(p *spatev1.GeneratorPort) {
			p.ReceiveTimestamps, p.Attachment.ResourceClaim = spatev1.TimestampsDevice, &spatev1.ResourceClaimAttachment{}
		}, ""},
		"time stamps of the CPU": {func(p *spatev1.GeneratorPort) {
			p.ReceiveTimestamps, p.Attachment.Kernel = spatev1.TimestampsCPU, &spatev1.KernelAttachment{}
		}, ""},
		"groups on no link": {func(p *spatev1.GeneratorPort) {
			*p = spatev1.GeneratorPort{Name: "east", Attachment: spatev1.PortAttachment{Loopback: &spatev1.LoopbackAttachment{}}, MulticastGroups: []spatev1.MulticastGroup{{Address: "239.1.1.1"}}}
		}, "spec.ports[0].multicastGroups: nobody else is on the link of a loopback"},
	} {
		t.Run(name, func(t *testing.T) {
			port := spatev1.GeneratorPort{Name: "east", Addresses: []spatev1.InterfaceAddress{"198.18.0.1/24", "2001:2::1/64"}, Gateway: "198.18.0.254", Gateway6: "2001:2::ff"}
			c.change(&port)
			problems := CheckGenerator(&spatev1.TrafficGeneratorSpec{Ports: []spatev1.GeneratorPort{port}})
			if (c.want == "") != (len(problems) == 0) || !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %q, want %q", problems.Message(), c.want)
			}
		})
	}
}

func TestReplicasHaveMACsOneBehindTheOther(t *testing.T) {
	ports := func(macs ...spatev1.MACAddress) []spatev1.GeneratorPort {
		all := []spatev1.GeneratorPort{{Name: "east"}, {Name: "west"}}
		for i := range macs {
			all[i].MAC = macs[i]
		}
		return all
	}
	for name, c := range map[string]struct {
		ports []spatev1.GeneratorPort
		want  string
	}{
		"none":       {ports(), ""},
		"room":       {ports("02:00:00:00:00:FE", "02:00:00:00:01:01"), ""},
		"no room":    {ports("02:00:00:00:00:01", "02:00:00:00:00:03"), "spec.ports[1].mac: 02:00:00:00:00:03: the pod of replica 0 would have 02:00:00:00:00:03, which is that of port east in the pod of replica 2"},
		"twice":      {ports("02:00:00:00:00:0a", "02:00:00:00:00:0A"), "which is that of port east in the pod of replica 0"},
		"a group":    {ports("03:00:00:00:00:01"), `spec.ports[0].mac: "03:00:00:00:00:01": must be the MAC address of a station`},
		"nobody":     {ports("00:00:00:00:00:00"), "must be the MAC address of a station"},
		"beyond all": {ports("fe:ff:ff:ff:ff:fe"), "with 2 behind it for the other replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			got := CheckGenerator(&spatev1.TrafficGeneratorSpec{Replicas: 3, Ports: c.ports}).Message()
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestReplicasHaveAddressesOneBehindTheOther(t *testing.T) {
	port := func(name spatev1.PortName, addresses ...spatev1.InterfaceAddress) spatev1.GeneratorPort {
		return spatev1.GeneratorPort{Name: name, Addresses: addresses}
	}
	behind := port("east", "198.18.0.252/24")
	behind.Gateway = "198.18.0.254"
	for name, c := range map[string]struct {
		ports []spatev1.GeneratorPort
		want  string
	}{
		"room":              {[]spatev1.GeneratorPort{port("east", "198.18.0.252/24", "2001:2::fffe/64"), port("west", "198.18.0.10/24")}, ""},
		"a pair":            {[]spatev1.GeneratorPort{port("east", "198.18.0.253/24")}, "spec.ports[0].addresses[0]: 198.18.0.253/24: the pod of replica 2 would have the address 2 behind it"},
		"beyond a subnet":   {[]spatev1.GeneratorPort{port("east", "2001:2::fffe/112")}, "spec.ports[0].addresses[0]: 2001:2::fffe/112: the pod of replica 2"},
		"beyond all":        {[]spatev1.GeneratorPort{port("east", "255.255.255.255/32")}, "the pod of replica 1 would have the address 1 behind it"},
		"of one port":       {[]spatev1.GeneratorPort{port("east", "198.18.0.1/24", "198.18.0.3/24")}, "spec.ports[0].addresses[1]: 198.18.0.3/24: the pod of replica 0 would have 198.18.0.3, which is that of port east in the pod of replica 2; leave room for 3 replicas"},
		"of two ports":      {[]spatev1.GeneratorPort{port("east", "198.18.0.1/24"), port("west", "198.18.0.2/24")}, "spec.ports[1].addresses[0]: 198.18.0.2/24: the pod of replica 0 would have 198.18.0.2"},
		"that of a gateway": {[]spatev1.GeneratorPort{behind}, "198.18.0.252/24: the pod of replica 2 would have 198.18.0.254, which is that of the gateway of port east"},
	} {
		t.Run(name, func(t *testing.T) {
			got := CheckGenerator(&spatev1.TrafficGeneratorSpec{Replicas: 3, Ports: c.ports}).Message()
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if address, ok := ports.AddressOf(netip.MustParsePrefix("10.0.0.255/23"), 2); !ok || address.String() != "10.0.1.1/23" {
		t.Errorf("got %s", address)
	}
}

func TestBonds(t *testing.T) {
	member := func(name spatev1.PortName) spatev1.BondMember {
		return spatev1.BondMember{Name: name, SRIOV: &spatev1.SRIOVAttachment{}}
	}
	for name, c := range map[string]struct {
		members []spatev1.BondMember
		want    string
	}{
		"right":          {[]spatev1.BondMember{member("a"), member("b")}, ""},
		"a port's name":  {[]spatev1.BondMember{member("a"), member("west")}, `spec.ports[0].attachment.bond.members[1].name: "west" is taken: port west has it in the pod; choose another name`},
		"the port's own": {[]spatev1.BondMember{member("east"), member("b")}, `spec.ports[0].attachment.bond.members[0].name: "east" is taken`},
		"another bond's": {[]spatev1.BondMember{member("a"), member("d")}, `spec.ports[2].attachment.bond.members[1].name: "d" is taken: a member of port east has it in the pod`},
		"the pod's own":  {[]spatev1.BondMember{member("eth0"), member("b")}, `spec.ports[0].attachment.bond.members[0].name: "eth0" is taken: it is the pod's own interface`},
		"that of a punt": {[]spatev1.BondMember{member("a"), member("bgp")}, `spec.ports[1].punt.interface: "bgp" is taken: a member of port east has it in the pod`},
	} {
		t.Run(name, func(t *testing.T) {
			bond := func(members ...spatev1.BondMember) spatev1.PortAttachment {
				return spatev1.PortAttachment{Bond: &spatev1.BondAttachment{Members: members}}
			}
			got := CheckGenerator(&spatev1.TrafficGeneratorSpec{Ports: []spatev1.GeneratorPort{
				{Name: "east", Attachment: bond(c.members...)}, {Name: "west", Punt: &spatev1.PortPunt{Filter: "arp", Interface: "bgp"}},
				{Name: "north", Attachment: bond(member("c"), member("d"))},
			}}).Message()
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestMemifs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *spatev1.TrafficGeneratorSpec, east, west *spatev1.MemifAttachment)
		want   string
	}{
		"right":       {func(*spatev1.TrafficGeneratorSpec, *spatev1.MemifAttachment, *spatev1.MemifAttachment) {}, ""},
		"no volume":   {func(_ *spatev1.TrafficGeneratorSpec, east, _ *spatev1.MemifAttachment) { east.Volume = "none" }, `spec.ports[0].attachment.memif.volume: "none" is none of spec.volumes`},
		"a ConfigMap": {func(_ *spatev1.TrafficGeneratorSpec, east, _ *spatev1.MemifAttachment) { east.Volume = "map" }, `spec.ports[0].attachment.memif.volume: "map" is no persistentVolumeClaim`},
		"a server where nothing is written": {func(s *spatev1.TrafficGeneratorSpec, _, _ *spatev1.MemifAttachment) { s.Volumes[0].Writable = false },
			`spec.ports[0].attachment.memif.volume: "sockets" is not writable, as it must be at either end of a socket; set writable`},
		"a client where nothing is written": {func(s *spatev1.TrafficGeneratorSpec, east, west *spatev1.MemifAttachment) {
			s.Volumes[0].Writable, east.Role, west.Role = false, spatev1.MemifClient, spatev1.MemifClient
		}, `spec.ports[0].attachment.memif.volume: "sockets" is not writable, as it must be at either end of a socket; set writable`},
		"servers in two pods": {func(s *spatev1.TrafficGeneratorSpec, _, _ *spatev1.MemifAttachment) { s.Replicas = 2 }, "spec.ports[0].attachment.memif.role: 2 pods cannot make one socket"},
		"one interface twice": {func(_ *spatev1.TrafficGeneratorSpec, _, west *spatev1.MemifAttachment) { west.ID = 0 }, "spec.ports[1].attachment.memif.id: 0 on vpp/east.sock is that of port east"},
		"both roles": {func(_ *spatev1.TrafficGeneratorSpec, _, west *spatev1.MemifAttachment) {
			west.Role = spatev1.MemifClient
		}, "spec.ports[1].attachment.memif.role: vpp/east.sock is the socket of a Server already"},
		"a long path": {func(s *spatev1.TrafficGeneratorSpec, east, west *spatev1.MemifAttachment) {
			s.Volumes[0].Name = spatev1.EntryName(strings.Repeat("v", 63))
			east.Volume, west.Volume, east.Socket = s.Volumes[0].Name, s.Volumes[0].Name, "a/very/long/path.sock"
		}, "spec.ports[0].attachment.memif.socket: its path in the pod, /var/lib/spate/volumes/v"},
	} {
		t.Run(name, func(t *testing.T) {
			east := &spatev1.MemifAttachment{Volume: "sockets", Socket: "vpp/east.sock", Role: spatev1.MemifServer}
			west := &spatev1.MemifAttachment{Volume: "sockets", Socket: "vpp/east.sock", ID: 1, Role: spatev1.MemifServer}
			spec := &spatev1.TrafficGeneratorSpec{
				Replicas: 1,
				Ports:    []spatev1.GeneratorPort{{Name: "east", Attachment: spatev1.PortAttachment{Memif: east}}, {Name: "west", Attachment: spatev1.PortAttachment{Memif: west}}},
				Volumes: []spatev1.GeneratorVolume{
					{Name: "sockets", Writable: true, PersistentVolumeClaim: &spatev1.ClaimVolume{ClaimName: "sockets"}}, {Name: "map", ConfigMap: &spatev1.LocalReference{Name: "map"}},
				},
			}
			c.change(spec, east, west)
			got := CheckGenerator(spec).Message()
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestPunts(t *testing.T) {
	for name, c := range map[string]struct {
		change func(east, west *spatev1.GeneratorPort)
		want   string
	}{
		"right":             {func(_, _ *spatev1.GeneratorPort) {}, ""},
		"two of one name":   {func(east, _ *spatev1.GeneratorPort) { east.Punt.Interface = "b" }, `spec.ports[1].punt.interface: "b" is taken: the punt of port east makes it; choose another name`},
		"a port's name":     {func(east, _ *spatev1.GeneratorPort) { east.Punt.Interface = "west" }, `spec.ports[0].punt.interface: "west" is taken: port west has it in the pod`},
		"on a discard port": {func(east, _ *spatev1.GeneratorPort) { east.Attachment.Discard = &spatev1.DiscardAttachment{} }, "spec.ports[0].punt: no other station sends to a loopback or discard port"},
		"on a loopback":     {func(_, west *spatev1.GeneratorPort) { west.Attachment.Loopback = &spatev1.LoopbackAttachment{} }, "spec.ports[1].punt: no other station sends"},
	} {
		t.Run(name, func(t *testing.T) {
			ports := []spatev1.GeneratorPort{
				{Name: "east", Punt: &spatev1.PortPunt{Filter: "arp", Interface: "a"}},
				{Name: "west", Punt: &spatev1.PortPunt{Filter: "arp", Interface: "b"}},
			}
			c.change(&ports[0], &ports[1])
			got := CheckGenerator(&spatev1.TrafficGeneratorSpec{Ports: ports}).Message()
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The CRD accepts all of these.
func TestAGreatestRateThatEnginesCannotHaveIsRefusedOfTheGenerator(t *testing.T) {
	for name, c := range map[string]struct {
		rate     spatev1.AbsoluteRate
		replicas int32
		want     string
	}{
		"of one engine":       {"10Gbps", 1, ""},
		"most of an engine":   {"18446744073709551615pps", 1, ""},
		"most of two":         {"36893488147419103230pps", 2, ""},
		"no replicas said":    {"10Gbps", 0, ""},
		"too high":            {"100000000000Gbps", 1, `spec.limits.maxRate: "100000000000Gbps": as each engine's part, 100000000000000000000 is more than a number of 64 bits holds (18446744073709551615); use a lower one`},
		"too high for two":    {"36893488147419103232pps", 2, `spec.limits.maxRate: "36893488147419103232pps": as each engine's part, 18446744073709551616 is more than a number of 64 bits holds (18446744073709551615); use a lower one`},
		"too fine":            {"1.00000000000000000001Gbps", 1, `spec.limits.maxRate: "1.00000000000000000001Gbps": as each engine's part, 100000000000000000001/100000000000 is no fraction of 64-bit numbers; use a rounder one`},
		"with zeros in front": {"0000000000000000000000000001pps", 1, `spec.limits.maxRate: "0000000000000000000000000001pps": must be a rate such as 1.5Mpps, 10Gbps (layer 2, FCS included) or 10GbpsL1`},
	} {
		g := generator(func(g *spatev1.TrafficGenerator) {
			g.Spec.Replicas, g.Spec.Limits = c.replicas, &spatev1.Limits{MaxRate: c.rate}
		})
		problems := CheckGenerator(&g.Spec)
		if got := problems.Message(); got != c.want || got != "" && problems.Reason() != spatev1.ReasonInvalidSpec {
			t.Errorf("%s: %s %s, want %s", name, problems.Reason(), got, c.want)
		}
	}
}
