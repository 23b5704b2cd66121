// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// lab has two routers: east with sessions of all protocols, west with one.
func lab() *spatev1.TrafficGenerator {
	g := &spatev1.TrafficGenerator{}
	g.Name = "lab"
	both := []spatev1.RouteFamily{spatev1.FamilyIPv4Unicast, spatev1.FamilyIPv6Unicast}
	g.Spec.Ports = []spatev1.GeneratorPort{
		{
			Name: "east", Addresses: []spatev1.InterfaceAddress{"10.99.0.1/24", "2001:db8:99::1/64"},
			Routing: &spatev1.PortRouting{
				BGP: []spatev1.BGPSession{
					{Name: "dut", LocalAS: 65001, Neighbor: spatev1.BGPNeighbor{Address: "10.99.0.2", AS: 65002}, Families: both},
					{Name: "internal", LocalAS: 65001, Neighbor: spatev1.BGPNeighbor{Address: "10.99.0.3", AS: 65001}},
				},
				OSPF: []spatev1.OSPFSession{{Name: "core", Version: 2}},
				RIP:  []spatev1.RIPSession{{Name: "old", Version: spatev1.RIPv2}},
				BFD:  []spatev1.BFDSession{{Name: "alive", Neighbor: "10.99.0.4"}},
			},
		},
		{Name: "west", Addresses: []spatev1.InterfaceAddress{"10.98.0.1/24"}, Routing: &spatev1.PortRouting{OSPF: []spatev1.OSPFSession{{Name: "other", Version: 2}}}},
		{Name: "north"},
	}
	return g
}

// customers is a good set of a thousand routes.
func customers() spatev1.RouteSet {
	return spatev1.RouteSet{
		Name: "customers", Port: "east", Sessions: []spatev1.SessionName{"dut", "internal"}, State: spatev1.RoutesAdvertised,
		Prefixes: spatev1.RoutePrefixes{Range: &spatev1.PrefixRange{First: "20.0.0.0/24", Count: 1000, Step: 2}},
		Attributes: spatev1.RouteAttributes{
			ASPath: []spatev1.ASNumber{64512, 4200000000}, Communities: []spatev1.Community{"65001:100"}, LargeCommunities: []spatev1.LargeCommunity{"65001:1:4294967295"},
			MED: ptr.To[int64](10), LocalPreference: ptr.To[int64](0), Origin: spatev1.OriginEGP, NextHop: "10.99.0.7",
		},
	}
}

// six is one of prefixes of IPv6 that are listed.
func six() spatev1.RouteSet {
	return spatev1.RouteSet{
		Name: "six", Port: "east", Sessions: []spatev1.SessionName{"dut"}, State: spatev1.RoutesWithdrawn,
		Prefixes: spatev1.RoutePrefixes{List: []spatev1.RoutePrefix{"2001:db8:1::/48", "::/0"}},
	}
}

func TestSetsBecomeThoseOfAPlan(t *testing.T) {
	routing := &spatev1.RunRouting{Advertise: []spatev1.RouteSet{customers(), six()}, Ready: &spatev1.RoutesReady{Quiet: "250ms"}}
	sets, ready, problems := Resolve(routing, lab(), field.NewPath("spec", "routing"))
	if len(problems) > 0 {
		t.Fatal(problems.Message())
	}
	want := []*enginev1.RouteSet{
		{
			Name: "customers", Port: "east", Sessions: []string{"dut", "internal"}, Advertised: true,
			Prefixes: &enginev1.Prefixes{Range: &enginev1.PrefixRange{First: "20.0.0.0/24", Count: 1000, Step: 2}},
			Attributes: &enginev1.RouteAttributes{
				AsPath: []uint32{64512, 4200000000}, Communities: []string{"65001:100"}, LargeCommunities: []string{"65001:1:4294967295"},
				Med: proto.Uint32(10), LocalPreference: proto.Uint32(0), Origin: enginev1.RouteOrigin_ROUTE_ORIGIN_EGP, NextHop: "10.99.0.7",
			},
		},
		{
			Name: "six", Port: "east", Sessions: []string{"dut"}, Prefixes: &enginev1.Prefixes{List: []string{"2001:db8:1::/48", "::/0"}},
			Attributes: &enginev1.RouteAttributes{},
		},
	}
	for i := range want {
		if len(sets) != len(want) || !proto.Equal(sets[i], want[i]) {
			t.Errorf("got %v", sets)
		}
	}
	if ready.GetQuietNs() != 250_000_000 {
		t.Errorf("got %v", ready)
	}
	if names := strings.Join(Sessions(routing), " "); names != "east/dut east/internal" {
		t.Errorf("got %s", names)
	}
	if sets, ready, problems := Resolve(nil, lab(), nil); sets != nil || ready != nil || problems != nil || Sessions(nil) != nil {
		t.Errorf("without routing: %v, %v, %v", sets, ready, problems)
	}
}

func TestPrefixesOfAFileAreReadByEngines(t *testing.T) {
	g := lab()
	g.Spec.Volumes = []spatev1.GeneratorVolume{{Name: "tables"}}
	set := func(file spatev1.MRTFile) *spatev1.RunRouting {
		return &spatev1.RunRouting{Advertise: []spatev1.RouteSet{customers(), {Name: "table", Port: "east", Sessions: []spatev1.SessionName{"dut"}, Prefixes: spatev1.RoutePrefixes{MRT: &file}}}}
	}
	file := spatev1.VolumeFile{Name: "tables", Path: "2026/rib"}
	sets, _, problems := Resolve(set(spatev1.MRTFile{Volume: file, Family: spatev1.FamilyIPv6Unicast, Most: 150_000}), g, field.NewPath("spec", "routing"))
	want := &enginev1.MrtFile{Path: "/var/lib/spate/volumes/tables/2026/rib", Family: enginev1.AddressFamily_ADDRESS_FAMILY_IPV6, Most: 150_000}
	if len(problems) > 0 || !proto.Equal(sets[1].Prefixes.Mrt, want) {
		t.Errorf("got %v, %s", sets, problems.Message())
	}
	if prefix := Common(sets[0], sets[1]); prefix != "" {
		t.Errorf("%s is in the set and in a file that was not read", prefix)
	}
	const at = "spec.routing.advertise[1]."
	for message, file := range map[string]spatev1.MRTFile{
		at + `prefixes.mrt.volume.name: "captures" is no volume of generator lab`: {Volume: spatev1.VolumeFile{Name: "captures", Path: "rib"}, Most: 1},
		at + "prefixes.mrt.most: ": {Volume: file, Most: 10_000_001},
		at + `prefixes.mrt.family: "VPN": must be IPv4Unicast or IPv6Unicast`:                                       {Volume: file, Family: "VPN", Most: 1},
		"spec.routing.advertise: 1001000 routes need about 685Mi of memory of the container routing, which has 128": {Volume: file, Most: 1_000_000},
	} {
		if _, _, problems := Resolve(set(file), g, field.NewPath("spec", "routing")); len(problems) != 1 || !strings.HasPrefix(problems.Message(), message) {
			t.Errorf("got %s, want %s", problems.Message(), message)
		}
	}
	six := set(spatev1.MRTFile{Volume: file, Family: spatev1.FamilyIPv6Unicast, Most: 1})
	six.Advertise[1].Sessions[0] = "internal"
	if _, _, problems := Resolve(six, g, field.NewPath("spec", "routing")); !strings.HasPrefix(problems.Message(), at+"sessions[0]: session internal has no IPv6 routes") {
		t.Errorf("got %s", problems.Message())
	}
}

func TestSetsThatCannotBeAdvertisedAreRefusedWithTheirField(t *testing.T) {
	const first, prefixes = "spec.routing.advertise[0].", "spec.routing.advertise[0].prefixes"
	for name, c := range map[string]struct {
		change func(set *spatev1.RouteSet, routing *spatev1.RunRouting, g *spatev1.TrafficGenerator)
		want   string
	}{
		"right": {func(*spatev1.RouteSet, *spatev1.RunRouting, *spatev1.TrafficGenerator) {}, ""},
		"one name twice": {func(_ *spatev1.RouteSet, r *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			r.Advertise[1].Name = "customers"
		},
			`spec.routing.advertise[1].name: "customers" is the name of another set`},
		"an unknown port": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) { s.Port = "south" },
			first + `port: "south" is no port of generator lab; it has east, west, north`},
		"a port without routing": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) { s.Port = "north" },
			first + "port: port north of generator lab has no routing; add sessions to it, or choose another port with routing: east, west"},
		"a session of another port": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) { s.Sessions[1] = "other" },
			first + `sessions[1]: "other" is a session of port west; those of port east are dut, internal, core, old`},
		"no session": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) { s.Sessions[1] = "dud" },
			first + `sessions[1]: "dud" is no session of port east; it has dut, internal, core, old`},
		"a session of BFD": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) { s.Sessions[1] = "alive" },
			first + `sessions[1]: "alive" is a session of BFD, which has no routes; name one of BGP, OSPF or RIP`},
		"a session twice": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Sessions[0] = "internal"
		},
			first + `sessions[1]: "internal" is there twice`},
		"a family that a session does not have": {func(_ *spatev1.RouteSet, r *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			r.Advertise[1].Sessions = []spatev1.SessionName{"dut", "internal"}
		}, "spec.routing.advertise[1].sessions[1]: session internal has no IPv6 routes, which those of the set are; add the family to the session, or leave it out"},
		"another state": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) { s.State = "Gone" },
			first + `state: "Gone": must be Advertised or Withdrawn`},
		"no prefixes": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) { s.Prefixes.Range = nil },
			prefixes + ": set exactly one of range, list and mrt"},
		"a range and a list": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Prefixes.List = []spatev1.RoutePrefix{"1.0.0.0/8"}
		}, prefixes + ": set exactly one of range, list and mrt"},
		"host bits": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Prefixes.Range.First = "20.0.0.1/24"
		},
			prefixes + ".range.first: 20.0.0.1/24 has bits behind its length; write 20.0.0.0/24"},
		"no prefix": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Prefixes.Range.First = "20.0.0.0"
		},
			prefixes + `.range.first: "20.0.0.0": must be a prefix such as 20.0.0.0/24 or 2001:db8::/48`},
		"too many": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Prefixes.Range.Count = 10_000_001
		},
			prefixes + ".range.count: 10000001: must be 1 to 10000000"},
		"beyond the last address": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Prefixes.Range = &spatev1.PrefixRange{First: "255.0.0.0/24", Count: 32769, Step: 2}
		}, prefixes + ".range.count: 32769 prefixes from 255.0.0.0/24 by steps of 2 lead beyond the last address; must be at most 32768"},
		"a wrong prefix of a list": {func(_ *spatev1.RouteSet, r *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			r.Advertise[1].Prefixes.List[1] = "2001:db8::1/48"
		}, "spec.routing.advertise[1].prefixes.list[1]: 2001:db8::1/48 has bits behind its length; write 2001:db8::/48"},
		"a prefix twice": {func(_ *spatev1.RouteSet, r *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			r.Advertise[1].Prefixes.List[1] = "2001:db8:1:0::/48"
		}, "spec.routing.advertise[1].prefixes.list[1]: 2001:db8:1::/48 is there twice"},
		"two families": {func(_ *spatev1.RouteSet, r *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			r.Advertise[1].Prefixes.List[1] = "0.0.0.0/0"
		}, "spec.routing.advertise[1].prefixes.list[1]: 0.0.0.0/0 is not of the family of the first, 2001:db8:1::/48; make a set for each family"},
		"the port's own subnet": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Prefixes.Range = &spatev1.PrefixRange{First: "10.0.0.0/25", Count: 60000, Step: 1}
		}, prefixes + ": 10.99.0.0/25 lies in 10.99.0.0/24, the port's own subnet"},
		"a default route": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Prefixes = spatev1.RoutePrefixes{List: []spatev1.RoutePrefix{"0.0.0.0/0"}}
		}, ""},
		"a prefix in two sets": {func(_ *spatev1.RouteSet, r *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			r.Advertise[1] = customers()
			r.Advertise[1].Name, r.Advertise[1].Prefixes.Range.First = "more", "20.0.2.0/24"
		}, "spec.routing.advertise[1].prefixes: 20.0.2.0/24 is in set customers of the port, too, and a router has one route to each prefix"},
		"AS 0": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Attributes.ASPath[1] = 0
		},
			first + "attributes.asPath[1]: 0: must be 1 to 4294967295"},
		"no community": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Attributes.Communities[0] = "65001:65536"
		},
			first + `attributes.communities[0]: "65001:65536": must be two numbers of 0 to 65535, such as 65001:100`},
		"no large community": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Attributes.LargeCommunities[0] = "1:2"
		},
			first + `attributes.largeCommunities[0]: "1:2": must be three numbers of 0 to 4294967295`},
		"a MED of five bytes": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Attributes.MED = ptr.To[int64](1 << 32)
		},
			first + "attributes.med: 4294967296: must be 0 to 4294967295"},
		"another origin": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Attributes.Origin = "BGP"
		},
			first + `attributes.origin: "BGP": must be IGP, EGP or Incomplete`},
		"a preference that is not sent": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Sessions = s.Sessions[:1]
		},
			first + "attributes.localPreference: no neighbor of the set's sessions is of the port's AS"},
		"a metric of BGP": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Attributes.Metric = ptr.To[int64](5)
		},
			first + "attributes.metric: is OSPF's and RIP's, and no session of the set is of these; BGP has med"},
		"a metric of RIP": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Sessions, s.Attributes = []spatev1.SessionName{"core", "old"}, spatev1.RouteAttributes{Metric: ptr.To[int64](16)}
		}, first + "attributes.metric: 16: must be 1 to 15"},
		"a metric of OSPF": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Sessions, s.Attributes = []spatev1.SessionName{"core"}, spatev1.RouteAttributes{Metric: ptr.To[int64](16)}
		}, ""},
		"communities of OSPF": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Sessions, s.Attributes = []spatev1.SessionName{"core"}, spatev1.RouteAttributes{Communities: []spatev1.Community{"1:2"}}
		}, first + "attributes.communities: is BGP's, and no session of the set is of BGP; leave it out"},
		"the neighbor as next hop": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Attributes.NextHop = "10.99.0.2"
		},
			first + "attributes.nextHop: 10.99.0.2 is the neighbor of session dut itself, which ignores routes by itself"},
		"a next hop of another family": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Attributes.NextHop = "2001:db8::1"
		},
			first + "attributes.nextHop: 2001:db8::1 is not of IPv4, of which the set's prefixes are"},
		"a group as next hop": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Attributes.NextHop = "224.0.0.5"
		},
			first + `attributes.nextHop: "224.0.0.5": must be a unicast address that is not link-local`},
		"quiet for ever": {func(_ *spatev1.RouteSet, r *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			r.Ready = &spatev1.RoutesReady{Quiet: "2h"}
		},
			`spec.routing.ready.quiet: "2h": must be more than 0s and at most 1h`},
		"more than the memory": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, _ *spatev1.TrafficGenerator) {
			s.Prefixes.Range.Count = 1_000_000
		},
			"spec.routing.advertise: 1000002 routes need about 684Mi of memory of the container routing, which has 128Mi; set spec.routing.memory of generator lab to 684Mi or more, or advertise fewer"},
		"as much as the memory": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, g *spatev1.TrafficGenerator) {
			s.Prefixes.Range.Count, g.Spec.Routing = 1_000_000, &spatev1.GeneratorRouting{Memory: "684Mi"}
		}, ""},
		"a share of each pod": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, g *spatev1.TrafficGenerator) {
			s.Prefixes.Range.Count, g.Spec.Replicas = 1_000_000, 8
		}, ""},
		"no generator": {func(s *spatev1.RouteSet, _ *spatev1.RunRouting, g *spatev1.TrafficGenerator) {
			s.Port, g.Name = "south", ""
		}, ""},
	} {
		g, routing := lab(), &spatev1.RunRouting{Advertise: []spatev1.RouteSet{customers(), six()}}
		c.change(&routing.Advertise[0], routing, g)
		if g.Name == "" {
			g = nil
		}
		_, _, problems := Resolve(routing, g, field.NewPath("spec", "routing"))
		if got := problems.Message(); !strings.HasPrefix(got, c.want) || len(problems) > 1 || (got == "") != (c.want == "") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
