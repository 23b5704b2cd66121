// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/ports"
)

// router returns a port with a session of each protocol, as the API server completes it.
func router() spatev1.GeneratorPort {
	timers := spatev1.BFDTimers{Interval: "100ms", Multiplier: 3}
	secret := &spatev1.PasswordSource{}
	secret.SecretKeyRef.Name, secret.SecretKeyRef.Key = "bgp", "dut"
	return spatev1.GeneratorPort{
		Name: "east", Addresses: []spatev1.InterfaceAddress{"10.99.0.1/24", "2001:db8:99::1/64"}, Gateway: "10.99.0.254",
		Routing: &spatev1.PortRouting{
			BGP: []spatev1.BGPSession{
				{Name: "dut", LocalAS: 65001, Neighbor: spatev1.BGPNeighbor{Address: "10.99.0.2", AS: 65002}, HoldTime: "90s", BFD: &timers, PasswordFrom: secret},
				{Name: "far", LocalAS: 65001, Neighbor: spatev1.BGPNeighbor{Address: "10.1.0.1", AS: 4200000000}, HoldTime: "0s", Multihop: ptr.To[int32](3)},
				{Name: "six", LocalAS: 65001, Neighbor: spatev1.BGPNeighbor{Address: "2001:db8:99::2", AS: 65001}, HoldTime: "3s", Passive: true, TTLSecurity: true},
			},
			OSPF: []spatev1.OSPFSession{{Name: "core", Version: 2, Area: "0.0.0.0", Network: spatev1.OSPFPointToPoint, Hello: "1s", Dead: "4s"}},
			RIP:  []spatev1.RIPSession{{Name: "old", Version: spatev1.RIPng, Update: "30s", Timeout: "3m"}},
			BFD:  []spatev1.BFDSession{{BFDTimers: timers, Name: "alive", Neighbor: "10.99.0.3"}},
		},
	}
}

func TestSessionsThatCannotBeAreRefusedWithTheirField(t *testing.T) {
	type changed = func(*spatev1.TrafficGeneratorSpec, *spatev1.GeneratorPort)
	of := func(change func(*spatev1.PortRouting)) changed {
		return func(_ *spatev1.TrafficGeneratorSpec, p *spatev1.GeneratorPort) { change(p.Routing) }
	}
	for name, c := range map[string]struct {
		change changed
		want   string
	}{
		"right":      {func(*spatev1.TrafficGeneratorSpec, *spatev1.GeneratorPort) {}, ""},
		"no address": {func(_ *spatev1.TrafficGeneratorSpec, p *spatev1.GeneratorPort) { p.Addresses, p.Gateway = nil, "" }, "spec.ports[0].addresses: a port with routing needs an address"},
		"a loopback": {func(_ *spatev1.TrafficGeneratorSpec, p *spatev1.GeneratorPort) {
			p.Attachment.Loopback = &spatev1.LoopbackAttachment{}
		}, "spec.ports[0].routing: no neighbor is on the link of a loopback or discard port"},
		"a punt": {func(_ *spatev1.TrafficGeneratorSpec, p *spatev1.GeneratorPort) {
			p.Punt = &spatev1.PortPunt{Filter: "arp", Interface: "x"}
		}, "spec.ports[0].punt: a port punts or has routing"},
		"its interface is taken": {func(_ *spatev1.TrafficGeneratorSpec, p *spatev1.GeneratorPort) { p.Name = "router-0" }, "spec.ports[0].routing: its interface in the pod, router-0, is taken: port router-0 has it"},
		"a subnet of two routers": {func(s *spatev1.TrafficGeneratorSpec, _ *spatev1.GeneratorPort) {
			other := router()
			other.Name = "west"
			s.Ports = append(s.Ports, other)
		}, "spec.ports[1].addresses[0]: 10.99.0.1/24 is in a subnet of port east"},
		"no router ID": {func(_ *spatev1.TrafficGeneratorSpec, p *spatev1.GeneratorPort) {
			p.Addresses, p.Gateway, p.Routing = p.Addresses[1:], "", &spatev1.PortRouting{BGP: p.Routing.BGP[2:]}
		}, "spec.ports[0].routing.routerID: is required, since the port has no IPv4 address"},
		"no router ID for each pod": {func(s *spatev1.TrafficGeneratorSpec, p *spatev1.GeneratorPort) {
			s.Replicas, p.Routing.RouterID = 3, "255.255.255.254"
		}, "spec.ports[0].routing.routerID: 255.255.255.254: must be at least 0.0.0.1, with 2 numbers behind it"},
		"a pod has the neighbor's address": {func(s *spatev1.TrafficGeneratorSpec, _ *spatev1.GeneratorPort) { s.Replicas = 2 }, "spec.ports[0].addresses[0]: 10.99.0.1/24: the pod of replica 1 would have 10.99.0.2, which is that of a neighbor of port east"},
		"one name twice":                   {of(func(r *spatev1.PortRouting) { r.OSPF[0].Name = "dut" }), `spec.ports[0].routing.ospf[0].name: "dut" is the name of another session`},
		"one neighbor twice":               {of(func(r *spatev1.PortRouting) { r.BGP[1].Neighbor.Address = "10.99.0.2" }), "spec.ports[0].routing.bgp[1].neighbor.address: 10.99.0.2 has session dut of the port already"},
		"its own address":                  {of(func(r *spatev1.PortRouting) { r.BGP[0].Neighbor.Address = "10.99.0.1" }), "spec.ports[0].routing.bgp[0].neighbor.address: 10.99.0.1 is the port's own address"},
		"a group":                          {of(func(r *spatev1.PortRouting) { r.BGP[0].Neighbor.Address = "224.0.0.5" }), `spec.ports[0].routing.bgp[0].neighbor.address: "224.0.0.5": must be a unicast address`},
		"a neighbor off the link":          {of(func(r *spatev1.PortRouting) { r.BGP[0].Neighbor.Address = "10.98.0.2" }), "spec.ports[0].routing.bgp[0].neighbor.address: 10.98.0.2 is in the subnet of none of the port's addresses; give the port an address of its subnet, or a session of BGP multihop"},
		"no gateway to it": {func(_ *spatev1.TrafficGeneratorSpec, p *spatev1.GeneratorPort) { p.Gateway = "" },
			"spec.ports[0].routing.bgp[1].neighbor.address: 10.1.0.1 is in the subnet of none of the port's addresses, and the port has no gateway of its family"},
		"a destination that is not allowed": {func(s *spatev1.TrafficGeneratorSpec, _ *spatev1.GeneratorPort) {
			s.Limits = &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"10.0.0.0/8"}}
		}, "spec.ports[0].routing.bgp[2].neighbor.address: 2001:db8:99::2 is in none of spec.limits.allowedDestinations"},
		"a family without an address": {func(_ *spatev1.TrafficGeneratorSpec, p *spatev1.GeneratorPort) {
			p.Addresses, p.Routing = p.Addresses[:1], &spatev1.PortRouting{BGP: p.Routing.BGP[:1]}
			p.Routing.BGP[0].Families = []spatev1.RouteFamily{spatev1.FamilyIPv4Unicast, spatev1.FamilyIPv6Unicast}
		}, "spec.ports[0].routing.bgp[0].families: the port has no IPv6 address"},
		"a hold time of 2 s":      {of(func(r *spatev1.PortRouting) { r.BGP[0].HoldTime = "2s" }), "spec.ports[0].routing.bgp[0].holdTime: 2s must be 0s (never) or 3s to 65535s"},
		"a part of a second":      {of(func(r *spatev1.PortRouting) { r.BGP[0].HoldTime = "3500ms" }), `spec.ports[0].routing.bgp[0].holdTime: "3500ms" must be whole seconds`},
		"timers of BFD":           {of(func(r *spatev1.PortRouting) { r.BGP[0].BFD = &spatev1.BFDTimers{Interval: "1ms", Multiplier: 3} }), `spec.ports[0].routing.bgp[0].bfd.interval: "1ms" must be 10ms to 60s`},
		"dead before hello":       {of(func(r *spatev1.PortRouting) { r.OSPF[0].Hello = "4s" }), "spec.ports[0].routing.ospf[0].dead: 4s must be longer than hello"},
		"two of one version":      {of(func(r *spatev1.PortRouting) { r.OSPF = append(r.OSPF, r.OSPF[0]); r.OSPF[1].Name = "again" }), "spec.ports[0].routing.ospf[1].version: another session of the port is OSPFv2"},
		"a timeout within update": {of(func(r *spatev1.PortRouting) { r.RIP[0].Timeout = "30s" }), "spec.ports[0].routing.rip[0].timeout: 30s must be longer than update"},
		"no broadcast": {func(_ *spatev1.TrafficGeneratorSpec, p *spatev1.GeneratorPort) {
			p.Addresses, p.Gateway = []spatev1.InterfaceAddress{"10.99.0.1/31"}, ""
			p.Routing = &spatev1.PortRouting{OSPF: p.Routing.OSPF}
			p.Routing.OSPF[0].Network = spatev1.OSPFBroadcast
		}, "spec.ports[0].routing.ospf[0].network: must be PointToPoint: 10.99.0.1/31 is in no subnet with a broadcast address"},
		"BFD of BGP's neighbor": {of(func(r *spatev1.PortRouting) { r.BFD[0].Neighbor = "10.99.0.2" }), "spec.ports[0].routing.bfd[0].neighbor: 10.99.0.2 has session dut of the port already"},
		"BFD with other timers": {of(func(r *spatev1.PortRouting) {
			r.BFD = append(r.BFD, spatev1.BFDSession{BFDTimers: spatev1.BFDTimers{Interval: "1s", Multiplier: 3}, Name: "slow", Neighbor: "10.99.0.4"})
		}), "spec.ports[0].routing.bfd[1].interval: other timers than session alive has"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &spatev1.TrafficGeneratorSpec{Ports: []spatev1.GeneratorPort{router()}}
			c.change(spec, &spec.Ports[0])
			got := CheckGenerator(spec).Message()
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestEachPodHasTheSessionsWithARouterIDOfItsOwn(t *testing.T) {
	spec := &spatev1.TrafficGeneratorSpec{Ports: []spatev1.GeneratorPort{{Name: "plain"}, router()}}
	spec.Ports[1].Routing.RouterID = "1.1.1.255"
	routing := ports.Routing(spec, 1)
	if len(routing.Routers) != 1 {
		t.Fatalf("got %v", routing)
	}
	got := routing.Routers[0]
	if got.Port != "east" || got.RouterId != "1.1.2.0" || len(got.Bgp) != 3 || len(got.Ospf) != 1 || len(got.Rip) != 1 || len(got.Bfd) != 1 {
		t.Errorf("got %v", got)
	}
	dut, far, six := got.Bgp[0], got.Bgp[1], got.Bgp[2]
	if dut.PasswordFile != "bgp/dut" || dut.HoldTimeS != 90 || dut.Bfd.IntervalUs != 100_000 || dut.Bfd.Multiplier != 3 || dut.Families[0] != enginev1.AddressFamily_ADDRESS_FAMILY_IPV4 {
		t.Errorf("got %v", dut)
	}
	if far.Multihop != 3 || far.HoldTimeS != 0 || far.NeighborAs != 4200000000 || far.Bfd != nil {
		t.Errorf("got %v", far)
	}
	if six.Families[0] != enginev1.AddressFamily_ADDRESS_FAMILY_IPV6 || !six.Passive || !six.TtlSecurity {
		t.Errorf("got %v", six)
	}
	if rip := got.Rip[0]; rip.Family != enginev1.AddressFamily_ADDRESS_FAMILY_IPV6 || rip.UpdateS != 30 || rip.TimeoutS != 180 {
		t.Errorf("got %v", rip)
	}
}

// advertising is a profile on a router, with routes and a threshold on one of its sessions.
func advertising(expression string) Input {
	p := profile(entryOf("probe", "east", "west", streamOf("1kpps", 64)))
	p.Spec.Routing = &spatev1.RunRouting{
		Advertise: []spatev1.RouteSet{{Name: "customers", Port: "east", Sessions: []spatev1.SessionName{"dut"}, Prefixes: spatev1.RoutePrefixes{Range: &spatev1.PrefixRange{First: "20.0.0.0/24", Count: 1000}}}},
		Ready:     &spatev1.RoutesReady{Quiet: "2s"},
	}
	p.Spec.Thresholds = []spatev1.Threshold{{Name: "t", Expression: expression}}
	g := generator(func(g *spatev1.TrafficGenerator) {
		routed := router()
		g.Spec.Ports[0].Addresses, g.Spec.Ports[0].Gateway, g.Spec.Ports[0].Routing = routed.Addresses, routed.Gateway, routed.Routing
	})
	return Input{Profile: p, Generator: g}
}

func TestRoutesAreInThePlanAndTheirSessionsInTheResult(t *testing.T) {
	resolved := mustResolve(t, advertising(`result.routing.sessions["east/dut"].sent == 1000`))
	plan := resolved.Plan(Identity{RunID: "r"})
	if len(plan.Routes) != 1 || plan.Routes[0].Name != "customers" || !plan.Routes[0].Advertised || plan.Routes[0].Prefixes.Range.Step != 1 || plan.RoutesReady.QuietNs != 2e9 {
		t.Errorf("got %v, %v", plan.Routes, plan.RoutesReady)
	}
	for expression, want := range map[string]string{
		`result.routing.sessions["east/core"].up`:                    "no such key: east/core: sessions are those that advertise a set of spec.routing, as PORT/SESSION: east/dut",
		`result.routing.sessions["east/dut"].withdrawn == 0`:         "undefined field 'withdrawn'",
		`result.routing.sessions["east/dut"].flaps < duration("1s")`: "no matching overload",
	} {
		_, problems := Resolve(advertising(expression))
		if got := problems.Message(); len(problems) != 1 || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
	staged := advertising("result.lost == 0")
	staged.Profile.Spec.Duration = ""
	staged.Profile.Spec.Stages = []spatev1.Stage{{Name: "one", Duration: "1s", Rate: "1kpps", Thresholds: []spatev1.Threshold{{Name: "t", Expression: `result.routing.sessions["east/dut"].up`}}}}
	if _, problems := Resolve(staged); len(problems) != 1 || !strings.Contains(problems.Message(), "sessions are those that advertise a set of spec.routing, as PORT/SESSION: none") {
		t.Errorf("a stage has no sessions: %s", problems.Message())
	}
}

func TestListsOfPrefixesCountInTheSizeOfAPlan(t *testing.T) {
	in := advertising("result.lost == 0")
	before := Estimate(in.Profile, nil, nil)
	var list []spatev1.RoutePrefix
	for i := range 200 {
		list = append(list, spatev1.RoutePrefix(fmt.Sprintf("20.0.%d.0/24", i)))
	}
	in.Profile.Spec.Routing.Advertise[0].Prefixes = spatev1.RoutePrefixes{List: list}
	if more := Estimate(in.Profile, nil, nil) - before; more != 200*listedRouteBytes {
		t.Errorf("%d bytes for 200 prefixes", more)
	}
	in.Bound = Bound{Bytes: 2000}
	if _, problems := Resolve(in); !strings.HasPrefix(problems.Message(), "spec.routing.advertise: with it the plan has") {
		t.Errorf("got %s", problems.Message())
	}
}
