// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/limits"
	"spate.dev/operator/internal/plan/origin"
)

const subscribers = `
mac: {first: "02:10:00:00:00:00"}
hostname: sub-{n:08}
ipv4:
  dhcp: {vendorClass: spate, vendorSpecific: "0102", requestedOptions: [1, 3], clientID: "c{n}", circuitID: "eth0/{n}", remoteID: node, leaseTime: 10m, broadcast: true, probes: 1}
ipv6: {slaac: {}, dhcp: {when: Always, prefix: 56, rapidCommit: true}}
verify: {pingGateway: true}
retry: {first: 2s, max: 20s, spread: 500ms, attempts: 3}
`

// groupOf returns a ClientGroup from its spec, with changes.
func groupOf(t *testing.T, text string, changes ...string) *spatev1.ClientGroup {
	t.Helper()
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%q is not in the group", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	group := &spatev1.ClientGroup{}
	if err := yaml.UnmarshalStrict([]byte(text), &group.Spec); err != nil {
		t.Fatal(err)
	}
	return group
}

// access is a profile with 1,000 clients, from whose addresses connections come.
func access(t *testing.T) Input {
	p := profile(running("web", "http", "east", ""))
	p.Spec.SetupTimeout = "30s"
	p.Spec.Clients = []spatev1.ClientsEntry{{
		Name: "subs", GroupRef: spatev1.LocalReference{Name: "subscribers"}, Port: "east", Count: 1000, Rate: "5k/s", Ready: spatev1.ClientsReady{Least: "99.5%"},
	}}
	template := templateOf(t, webTemplate)
	template.Spec.Pools.Clients = []spatev1.AddressPool{{Name: "c", From: &spatev1.PoolOfClients{Clients: "subs"}}}
	return Input{
		Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"http": template},
		Clients: map[string]*spatev1.ClientGroup{"subscribers": groupOf(t, subscribers)},
	}
}

func TestClientsAreInThePlan(t *testing.T) {
	resolved := mustResolve(t, access(t))
	made := resolved.Plan(Identity{RunID: "r"})
	isJSON(t, made.Clients[0], `{"name": "subs", "port": "east", "count": 1000, "mac": {"first": "AhAAAAAA"}, "hostname": "sub-{n:08}", "pingGateway": true,
		"ipv4": {"dhcp": {"vendorClass": "spate", "vendorSpecific": "AQI=", "requestedOptions": "AQM=", "clientId": "c{n}", "circuitId": "eth0/{n}", "remoteId": "node",
			"leaseTimeS": 600, "broadcast": true, "probes": 1}},
		"ipv6": {"slaac": true, "dadTransmits": 1, "dhcp": {"always": true, "address": true, "prefix": 56, "rapidCommit": true}},
		"rate": {"numerator": "5000", "denominator": "1"}, "retry": {"firstNs": "2000000000", "maxNs": "20000000000", "spreadNs": "500000000", "attempts": 3},
		"atEnd": "CLIENTS_AT_END_RELEASE", "ready": {"leastPpm": 995000, "timeoutNs": "30000000000"}}`)
	isJSON(t, made.Stateful.Pools[0], `{"name": "c", "order": "POOL_ORDER_SEQUENTIAL", "fromClients": {"group": "subs"}}`)
	if len(resolved.Clients) != 1 || resolved.Clients[0] != (spatev1.ClientsSnapshot{Name: "subs", Group: "subscribers"}) {
		t.Errorf("got %v", resolved.Clients)
	}
	if d := resolved.Definitions; len(d) != 2 || d[1].Kind != "ClientGroup" || d[1].Name != "subscribers" || d[1].Digest == "" {
		t.Errorf("got %v", d)
	}
}

func TestClientsWithFixedAddressesAndTagsAreInThePlan(t *testing.T) {
	in := access(t)
	in.Profile.Spec.Traffic = nil
	in.Profile.Spec.Clients[0].AtEnd = spatev1.ClientsForget
	in.Clients["subscribers"] = groupOf(t, `
mac: {first: "02:10:00:00:00:00"}
vlans: [{first: 100, count: 100}, {first: 1, count: 4094, protocol: 802.1Q}]
ipv4: {static: {first: 10.0.0.1, prefixLength: 16, gateway: 10.0.255.254}}`)
	isJSON(t, mustResolve(t, in).Plan(Identity{RunID: "r"}).Clients[0], `{"name": "subs", "port": "east", "count": 1000, "mac": {"first": "AhAAAAAA"},
		"vlans": [{"first": 100, "count": 100}, {"first": 1, "count": 4094, "tpid": 33024}],
		"ipv4": {"fixed": {"first": "CgAAAQ==", "prefixLen": 16, "gateway": "CgD//g=="}},
		"rate": {"numerator": "5000", "denominator": "1"}, "atEnd": "CLIENTS_AT_END_FORGET", "ready": {"leastPpm": 995000, "timeoutNs": "30000000000"}}`)
}

func TestWrongClientsAreReportedWithTheirFieldAndTheRemedy(t *testing.T) {
	entry := func(change func(*spatev1.ClientsEntry)) func(*Input) {
		return func(in *Input) { change(&in.Profile.Spec.Clients[0]) }
	}
	group := func(changes ...string) func(*Input) {
		return func(in *Input) { in.Clients["subscribers"] = groupOf(t, subscribers, changes...) }
	}
	limits := func(l spatev1.Limits) func(*Input) {
		return func(in *Input) { in.Generator.Spec.Limits = &l }
	}
	of := `spec.clients[0].groupRef: ClientGroup "subscribers": spec.`
	template := `spec.traffic[0].application.templateRef: ASTFTemplate "http": spec.pools.clients[0].from`
	for name, c := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"no group":    {func(in *Input) { in.Clients = nil }, `ReferenceNotFound: spec.clients[0].groupRef.name: ClientGroup "subscribers" does not exist in namespace test: apply it, or correct the name`},
		"a rate of 0": {entry(func(e *spatev1.ClientsEntry) { e.Rate = "0/s" }), `spec.clients[0].rate: "0/s": must be greater than zero`},
		"no rate":     {entry(func(e *spatev1.ClientsEntry) { e.Rate = "5" }), `spec.clients[0].rate: "5": must be clients a second such as 5000/s or 0.5/s`},
		"no share":    {entry(func(e *spatev1.ClientsEntry) { e.Ready.Least = "0%" }), `spec.clients[0].ready.least: "0%": must be a share such as 99%`},
		"no port":     {entry(func(e *spatev1.ClientsEntry) { e.Port = "north" }), `spec.clients[0].port: "north" is no port of generator lab; it has east, west, loop, void`},
		"a loopback":  {entry(func(e *spatev1.ClientsEntry) { e.Port = "loop" }), `spec.clients[0].port: loop leads to no other station, so to no server; name a port with a link`},
		"another port": {entry(func(e *spatev1.ClientsEntry) { e.Port = "west" }),
			template + `.clients: clients subs are on port west, and those of the entry on east; set transmitPort to the former, or use other clients`},
		"too few":  {func(in *Input) { in.Generator.Spec.Replicas, in.Profile.Spec.Clients[0].Count = 3, 2 }, `spec.clients[0].count: 2 clients for 3 pods of generator lab, and each needs one; use at least 3, or fewer replicas`},
		"too many": {entry(func(e *spatev1.ClientsEntry) { e.Count = 1_000_001 }), `spec.clients[0].count: 1000001 clients on each of 1 pods of generator lab; at most 1000000, use more replicas`},
		"no memory": {func(in *Input) { in.Generator.Spec.Memory, in.Profile.Spec.Clients[0].Count = "200Mi", 1_000_000 },
			`spec.clients[0].count: the clients of each pod take 246 MiB, and generator lab has 200Mi (spec.memory) for all of an engine; raise it, use more replicas or fewer clients`},
		"a group's MAC": {group("02:10:00", "03:10:00"), of + `mac.first: 03:10:00:00:00:00, or the address of a later one of 1000 clients, is that of a group`},
		"MACs that end": {group("02:10:00:00:00:00", "02:ff:ff:ff:ff:00"), of + `mac.first: 02:ff:ff:ff:ff:00, or the address of a later one of 1000 clients, is that of a group`},
		"a pattern":     {group("eth0/{n}", "eth0/{x}"), of + `ipv4.dhcp.circuitID: "eth0/{x}": {n} and {n:08} are known in braces`},
		"half a second": {group("leaseTime: 10m", "leaseTime: 500ms"), of + `ipv4.dhcp.leaseTime: "500ms": must be whole seconds, at least 1s`},
		"no IPv6": {func(in *Input) {
			in.Clients["subscribers"].Spec.IPv6 = nil
			in.Templates["http"].Spec.Pools.Clients[0].From.Family = "IPv6"
		}, `from.family: an address of these clients is not of the family of spec.pools.servers[0]`},
		"tags": {group("verify: {pingGateway: true}", "vlans: [{first: 1}]"), template + `.clients: ClientGroup "subscribers" of clients subs has spec.vlans, from which no flows come yet; use a group without`},
		"no gateway": {func(in *Input) {
			in.Clients["subscribers"] = groupOf(t, `{mac: {first: "02:10:00:00:00:00"}, ipv4: {static: {first: 10.0.0.1, prefixLength: 16}}}`)
		}, template + `.clients: clients subs have no gateway to send to; set spec.ipv4.static.gateway of ClientGroup "subscribers"`},
		"a small subnet": {func(in *Input) {
			in.Clients["subscribers"] = groupOf(t, `{mac: {first: "02:10:00:00:00:00"}, ipv4: {static: {first: 10.0.0.1, prefixLength: 24, gateway: 10.0.0.254}}}`)
		}, of + `ipv4.static.first: the subnet 10.0.0.0/24 has 255 addresses from 10.0.0.1 on, and there are 1000 clients; use a lower one, a shorter prefixLength or fewer clients`},
		"other clients": {func(in *Input) { in.Templates["http"].Spec.Pools.Clients[0].From.Clients = "others" }, template + `.clients: "others" is no entry of the profile's spec.clients; add one, or correct the name`},
		"a pool's range": {func(in *Input) { in.Templates["http"].Spec.Pools.Clients[0].Start = "10.0.0.1" },
			`spec.pools.clients[0].start: does not go with from: the addresses, MACs and gateways of these clients are their own; leave one of them out`},
		"servers": {func(in *Input) {
			in.Templates["http"].Spec.Pools.Servers[0] = spatev1.AddressPool{Name: "s", From: &spatev1.PoolOfClients{Clients: "subs"}}
		}, `spec.pools.servers[0].from: goes with clients`},
		"the same MACs": {func(in *Input) {
			other := in.Profile.Spec.Clients[0]
			other.Name = "others"
			in.Profile.Spec.Clients = append(in.Profile.Spec.Clients, other)
		}, `spec.clients[1]: its MACs, 02:10:00:00:00:00 to 02:10:00:00:03:e7, overlap those of clients subs on the same port, 02:10:00:00:00:00 to 02:10:00:00:03:e7; choose another mac.first for one of their groups`},
		"a pool's MACs": {func(in *Input) {
			in.Templates["plain"] = templateOf(t, webTemplate, `startMAC: "02:00:00:00:00:01"`, `startMAC: "02:10:00:00:00:10"`)
			in.Profile.Spec.Traffic = append(in.Profile.Spec.Traffic, running("plain", "plain", "east", "west"))
		}, `spec.clients[0]: its MACs, 02:10:00:00:00:00 to 02:10:00:00:03:e7, overlap those of pool c of entry plain on the same port, 02:10:00:00:00:10 to 02:10:00:00:01:0d; choose another mac.first or startMAC`},
		"destinations": {limits(spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"0.0.0.0/1", "ff02::/16"}}),
			`LimitExceeded: spec.clients[0]: messages of DHCP of clients go to 255.255.255.255/32, which is in none of spec.limits.allowedDestinations of generator lab; add it there`},
		"ports": {limits(spatev1.Limits{AllowedPorts: []spatev1.PortRange{"67-80"}}),
			`LimitExceeded: spec.clients[0]: messages of DHCPv6 of clients go to UDP port 547, which is in none of spec.limits.allowedPorts of generator lab; add it there`},
	} {
		in := access(t)
		c.change(&in)
		_, problems := Resolve(in)
		if got := problems.Error(); !strings.Contains(got, c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestWhatEnginesRefuseOfClientsIsReportedByItsField(t *testing.T) {
	in := access(t)
	resolved := mustResolve(t, in)
	o := origin.Of(resolved.Plan(Identity{RunID: "r"}), resolved.Entries, resolved.Clients)
	for path, want := range map[string]string{
		"clients[0].mac.first":                  `clients subs: ClientGroup "subscribers": spec.mac.first: x`,
		"clients[0].vlans[1].tpid":              `clients subs: ClientGroup "subscribers": spec.vlans[1].protocol: x`,
		"clients[0].ipv4.dhcp.circuit_id":       `clients subs: ClientGroup "subscribers": spec.ipv4.dhcp.circuitID: x`,
		"clients[0].ipv4.fixed.gateway":         `clients subs: ClientGroup "subscribers": spec.ipv4.static.gateway: x`,
		"clients[0].hostname":                   `clients subs: ClientGroup "subscribers": spec.hostname: x`,
		"clients[0].count":                      `clients subs: count: x`,
		"clients[0].ready.least_ppm":            `clients subs: ready.least: x`,
		"stateful.pools[0].from_clients.group":  `entry web: ASTFTemplate "http": spec.pools.clients[0].from.clients: x`,
		"stateful.templates[0].clients[0].pool": `entry web: ASTFTemplate "http": spec.pools.clients[0]: x`,
		"clients[7].count":                      `clients[7].count: x`,
	} {
		if got := o.Refused(path, "x").Error(); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
		}
	}
	if got := o.Refused("clients[0].mac.first", "x").Problem(in.Profile).Error(); got != `spec.clients[0].groupRef: ClientGroup "subscribers": spec.mac.first: the engine would refuse it: x` {
		t.Error(got)
	}
	if got := o.Refused("clients[0].rate", "x").Problem(in.Profile).Error(); got != `spec.clients[0].rate: the engine would refuse it: x` {
		t.Error(got)
	}
}

func TestTwoRunsCannotHaveTheSameClients(t *testing.T) {
	first := mustResolve(t, access(t))
	second := access(t)
	if conflict := first.Claims().Conflict(ClaimsOf(mustResolve(t, second).Plan(Identity{}))); !strings.Contains(conflict, "port east would have clients with MACs from 02:10:00:00:00:00 to 02:10:00:00:03:e7 for both") {
		t.Errorf("got %q", conflict)
	}
	second.Clients["subscribers"] = groupOf(t, subscribers, "02:10:00", "02:20:00")
	if conflict := first.Claims().Conflict(mustResolve(t, second).Claims()); conflict != "" {
		t.Errorf("got %q", conflict)
	}
}

func TestLimitsThatAreNarrowedStopRunsWithClients(t *testing.T) {
	made := &enginev1.Plan{Clients: []*enginev1.ClientGroup{{Name: "subs", Ipv4: &enginev1.ClientIpv4{Kind: &enginev1.ClientIpv4_Dhcp{Dhcp: &enginev1.ClientDhcp{}}}}}}
	for text, want := range map[spatev1.CIDR]string{
		"0.0.0.0/0": "", "10.0.0.0/8": "spec.clients[0]: messages of DHCP of clients go to 255.255.255.255/32, which is in none of spec.limits.allowedDestinations of generator lab; add it there",
	} {
		got := ""
		if problems := limits.Permits(made, "lab", &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{text}}); len(problems) > 0 {
			got = problems[0].Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
