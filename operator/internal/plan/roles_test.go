// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/load"
)

// grouped has two pods of a group called near, then three of far.
func inPodGroups(change ...func(*spatev1.TrafficGenerator)) *spatev1.TrafficGenerator {
	g := generator(change...)
	g.Spec.Replicas, g.Spec.PodGroups = 5, []spatev1.PodGroup{{Name: "near", Replicas: 2}, {Name: "far", Replicas: 3}}
	return g
}

// on sets the groups of an entry.
func on(e spatev1.TrafficEntry, transmit, receive spatev1.EntryName) spatev1.TrafficEntry {
	e.TransmitPodGroup, e.ReceivePodGroup = transmit, receive
	return e
}

// webOf returns an input with a template called web, on a generator with groups.
func webOf(t *testing.T, entries ...spatev1.TrafficEntry) Input {
	t.Helper()
	return Input{Profile: profile(entries...), Generator: inPodGroups(), Templates: map[string]*spatev1.ASTFTemplate{"web": templateOf(t, webTemplate, "portPairOffset: 1.0.0.0, ", "")}}
}

func TestClientsAndServersAreOnThePodsOfTheirGroups(t *testing.T) {
	for name, c := range map[string]struct {
		entry            spatev1.TrafficEntry
		clients, servers *enginev1.Engines
	}{
		"clients near, servers far on one port": {on(running("a", "web", "west", "west"), "near", "far"), &enginev1.Engines{Count: 2}, &enginev1.Engines{First: 2, Count: 3}},
		"on two ports":                          {on(running("a", "web", "east", "west"), "far", "near"), &enginev1.Engines{First: 2, Count: 3}, &enginev1.Engines{Count: 2}},
		"both on one group":                     {on(running("a", "web", "east", "west"), "far", "far"), &enginev1.Engines{First: 2, Count: 3}, &enginev1.Engines{First: 2, Count: 3}},
		"both on one group, on a loopback":      {on(running("a", "web", "loop", "loop"), "near", "near"), &enginev1.Engines{Count: 2}, &enginev1.Engines{Count: 2}},
		"servers on all pods":                   {on(running("a", "web", "east", "west"), "near", ""), &enginev1.Engines{Count: 2}, nil},
		"real servers":                          {on(running("a", "web", "east", ""), "near", ""), &enginev1.Engines{Count: 2}, nil},
		"real clients":                          {on(running("a", "web", "", "west"), "", "far"), nil, &enginev1.Engines{First: 2, Count: 3}},
		"no groups":                             {running("a", "web", "east", "west"), nil, nil},
		"no ports, on a generator with two":     {on(running("a", "web", "", ""), "near", "far"), &enginev1.Engines{Count: 2}, &enginev1.Engines{First: 2, Count: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			in := webOf(t, c.entry)
			if c.entry.TransmitPort == "" && c.entry.ReceivePort == "" {
				in.Generator.Spec.Ports = in.Generator.Spec.Ports[:2]
			}
			made := mustResolve(t, in).Plan(Identity{RunID: "r"}).Stateful.Templates[0]
			if !proto.Equal(made.ClientEngines, c.clients) || !proto.Equal(made.ServerEngines, c.servers) {
				t.Errorf("clients on %v, servers on %v", made.ClientEngines, made.ServerEngines)
			}
		})
	}
}

func TestAStreamIsSentByThePodsOfItsGroup(t *testing.T) {
	in := Input{Profile: profile(on(entryOf("a", "east", "west", streamOf("10%", 512)), "far", "")), Generator: inPodGroups()}
	resolved := mustResolve(t, in)
	made := resolved.Plan(Identity{RunID: "r"}).Streams[0]
	if want := (&enginev1.Engines{First: 2, Count: 3}); !proto.Equal(made.Engines, want) {
		t.Errorf("sent by %v, want %v", made.Engines, want)
	}
	// 10 % of 1 Gbit/s on each of the three pods.
	bits := resolved.Load.Ports[load.Place{Port: "east", First: 2, Count: 3}]
	if bits == nil || bits.L1Bits.RatString() != "300000000" {
		t.Errorf("load %+v", bits)
	}
	// The same after a live change.
	live, err := Adjust(resolved.Plan(Identity{RunID: "r"}), resolved.Factor, "", []spatev1.EntryChange{{Name: "a", Rate: "20%"}}, nil, in.Generator)
	if err != nil {
		t.Fatal(err)
	}
	if bits := live.Load.Ports[load.Place{Port: "east", First: 2, Count: 3}]; bits == nil || bits.L1Bits.RatString() != "600000000" {
		t.Errorf("load after a change %+v", bits)
	}
}

func TestThePodsOfAGroupCarryWhatTheirPortsDo(t *testing.T) {
	const part = "port east of generator lab would have to carry 2.5Gbps on layer 1, and can carry 2Gbps on 2 pods"
	for name, c := range map[string]struct {
		entries []spatev1.TrafficEntry
		change  func(*spatev1.TrafficGenerator)
		want    string
	}{
		"two of five pods":            {entries: []spatev1.TrafficEntry{on(entryOf("a", "east", "", streamOf("2.5GbpsL1", 512, unmeasured)), "near", "")}, want: part},
		"as much as they can":         {entries: []spatev1.TrafficEntry{on(entryOf("a", "east", "", streamOf("2GbpsL1", 512, unmeasured)), "near", "")}},
		"each group as much":          {entries: []spatev1.TrafficEntry{on(entryOf("a", "east", "", streamOf("2GbpsL1", 512, unmeasured)), "near", ""), on(entryOf("b", "east", "", streamOf("3GbpsL1", 512, unmeasured)), "far", "")}},
		"the limit of all pods":       {entries: []spatev1.TrafficEntry{on(entryOf("a", "east", "", streamOf("5Mbps", 512, unmeasured)), "near", "")}, change: func(g *spatev1.TrafficGenerator) { g.Spec.Limits = &spatev1.Limits{MaxRate: "10Mbps"} }, want: "the traffic needs 5Mbps"},
		"within the part of the pods": {entries: []spatev1.TrafficEntry{on(entryOf("a", "east", "", streamOf("4Mbps", 512, unmeasured)), "near", "")}, change: func(g *spatev1.TrafficGenerator) { g.Spec.Limits = &spatev1.Limits{MaxRate: "10Mbps"} }},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Profile: profile(c.entries...), Generator: inPodGroups()}
			if c.change != nil {
				c.change(in.Generator)
			}
			_, problems := Resolve(in)
			if got := problems.Message(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatGroupsCannotDoIsRefused(t *testing.T) {
	fewer := func(in *Input) {
		in.Templates["web"] = templateOf(t, webTemplate, "portPairOffset: 1.0.0.0, ", "", "16.0.0.254", "16.0.0.2")
	}
	burst := func() *spatev1.StatelessStreamSpec {
		return streamOf("", 64, unmeasured, func(s *spatev1.StatelessStreamSpec) {
			s.Transmit = spatev1.Transmit{Burst: &spatev1.BurstTransmit{Rate: "1kpps", Packets: 10}}
		})
	}
	first, second := entryOf("one", "east", "", burst()), entryOf("two", "east", "", burst())
	first.Stream.Next = &spatev1.NextEntry{Entry: "two"}
	for name, c := range map[string]struct {
		entries []spatev1.TrafficEntry
		change  func(*Input)
		want    string
	}{
		"an unknown group": {entries: []spatev1.TrafficEntry{on(running("a", "web", "east", "west"), "here", "far")},
			want: `spec.traffic[0].transmitPodGroup: "here" is none of the spec.podGroups of generator lab; it has near, far`},
		"an unknown group of servers": {entries: []spatev1.TrafficEntry{on(running("a", "web", "east", "west"), "near", "there")},
			want: `spec.traffic[0].receivePodGroup: "there" is none of the spec.podGroups of generator lab; it has near, far`},
		"a generator without groups": {entries: []spatev1.TrafficEntry{on(running("a", "web", "east", "west"), "near", "far")},
			change: func(in *Input) { in.Generator = generator() },
			want:   `spec.traffic[0].transmitPodGroup: "near": generator lab has no spec.podGroups; add them there, or leave it out`},
		"a group without pods": {entries: []spatev1.TrafficEntry{on(running("a", "web", "east", "west"), "near", "far")},
			change: func(in *Input) { in.Generator.Spec.PodGroups[0].Replicas, in.Generator.Spec.Replicas = 0, 3 },
			want:   "spec.podGroups[0].replicas: 0: must be at least 1"},
		"replicas that are another sum": {entries: []spatev1.TrafficEntry{on(running("a", "web", "east", "west"), "near", "far")},
			change: func(in *Input) { in.Generator.Spec.Replicas = 6 },
			want:   "spec.replicas: with podGroups it must be the sum of their replicas, which is 5"},
		"fewer clients than their pods": {entries: []spatev1.TrafficEntry{on(running("a", "web", "east", "west"), "far", "near")}, change: fewer,
			want: "has 2 addresses for the 3 pods of group far of generator lab, and each needs clients of its own: give it at least 3"},
		"as many clients as their pods":     {entries: []spatev1.TrafficEntry{on(running("a", "web", "east", "west"), "near", "far")}, change: fewer},
		"both sides on one port of a group": {entries: []spatev1.TrafficEntry{on(running("a", "web", "west", "west"), "near", "near")}},
		"servers of the clients' group":     {entries: []spatev1.TrafficEntry{on(running("a", "web", "west", "west"), "near", "")}},
		"other groups on a loopback port":   {entries: []spatev1.TrafficEntry{on(running("a", "web", "loop", "loop"), "near", "far")}, want: "spec.traffic[0].receivePodGroup: a loopback port receives what itself sends"},
		"a group of no clients":             {entries: []spatev1.TrafficEntry{on(running("a", "web", "", "west"), "near", "far")}, want: "spec.traffic[0].transmitPodGroup: is of what transmitPort sends"},
		"a group of no servers":             {entries: []spatev1.TrafficEntry{on(running("a", "web", "east", ""), "near", "far")}, want: "spec.traffic[0].receivePodGroup: is of servers at receivePort"},
		"receivers of a stream":             {entries: []spatev1.TrafficEntry{on(entryOf("a", "east", "west", streamOf("1kpps", 64)), "near", "far")}, want: "spec.traffic[0].receivePodGroup: is of an application's servers"},
		"clients here and everywhere": {entries: []spatev1.TrafficEntry{on(running("a", "web", "east", "west"), "near", "far"), running("b", "web", "east", "west")},
			want: "spec.traffic[1].transmitPodGroup: entry b names none and is on all pods, and entry a is on group near: of a profile's entries with clients name a group for all or for none"},
		"streams here and everywhere": {entries: []spatev1.TrafficEntry{entryOf("a", "east", "", streamOf("1kpps", 64, unmeasured)), on(entryOf("b", "east", "", streamOf("1kpps", 64, unmeasured)), "near", "")},
			want: "spec.traffic[0].transmitPodGroup: entry a names none and is on all pods, and entry b is on group near: of a profile's streams name a group for all or for none"},
		"streams of groups, clients everywhere": {entries: []spatev1.TrafficEntry{on(entryOf("a", "east", "", streamOf("1kpps", 64, unmeasured)), "near", ""), running("b", "web", "east", "west")}},
		"a chain over groups":                   {entries: []spatev1.TrafficEntry{on(first, "near", ""), on(second, "far", "")}, want: `spec.traffic[0].stream.next.entry: "two" is sent by other pods`},
		"a chain in a group":                    {entries: []spatev1.TrafficEntry{on(first, "far", ""), on(second, "far", "")}},
		"mirrored tunnels": {entries: []spatev1.TrafficEntry{on(running("a", "web", "east", "west"), "near", "far")},
			change: func(in *Input) {
				in.Templates["web"] = templateOf(t, webTemplate, "portPairOffset: 1.0.0.0, ", "", `, startMAC: "02:00:00:00:00:01"`, ", gtpu: {local: 10.0.0.2, localCount: 6, remote: 10.0.0.1, teid: 1, mirror: true}")
			},
			want: "pool c of its clients has gtpu.mirror, for which both sides are on the same pods"},
	} {
		t.Run(name, func(t *testing.T) {
			in := webOf(t, c.entries...)
			if c.change != nil {
				c.change(&in)
			}
			_, problems := Resolve(in)
			if got := problems.Message(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAProgramSwitchesToTheTemplateOnItsOwnPods(t *testing.T) {
	_, problems := Resolve(webOf(t, on(running("a", "web", "east", "west"), "near", "far")))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	in := webOf(t, on(running("a", "web", "east", "west"), "near", "far"), on(running("b", "other", "east", "west"), "far", "near"))
	in.Templates["other"] = in.Templates["web"].DeepCopy()
	in.Templates["other"].Spec.DestinationPort = ptr.To[int32](81)
	client := &in.Templates["web"].Spec.Source.Programs.Client
	*client = append(*client, spatev1.Command{SwitchTemplate: &spatev1.SwitchTemplateCommand{Template: "other"}})
	if _, problems = Resolve(in); !strings.Contains(problems.Message(), `no entry of the profile runs "other" on the same ports`) {
		t.Error(problems.Message())
	}
}
