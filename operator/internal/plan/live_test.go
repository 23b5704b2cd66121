// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"math/big"
	"slices"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestEntriesChangeWhileARunIsUnderWay(t *testing.T) {
	p := profile(entryOf("a", "east", "west", streamOf("1kpps", 64)), entryOf("b", "east", "west", streamOf("1kpps", 64, copies(3))), entryOf("c", "east", "west", streamOf("10pps", 64)))
	p.Spec.Traffic[1].Stream.Rate = "2kpps"
	p.Spec.Traffic[2].Paused = true
	p.Spec.Rate = "2x"
	resolved := mustResolve(t, Input{Profile: p, Generator: generator()})
	want := []spatev1.EntrySnapshot{{Name: "a", Rate: "1kpps", StreamRate: "1kpps"}, {Name: "b", Rate: "2kpps", StreamRate: "1kpps"}, {Name: "c", Rate: "10pps", StreamRate: "10pps", Paused: true}}
	if !slices.Equal(resolved.Entries, want) {
		t.Fatalf("entries %+v", resolved.Entries)
	}
	if got := EntryStates(resolved.Entries, p); got != nil {
		t.Errorf("nothing was changed, got %+v", got)
	}
	plan := resolved.Plan(Identity{})
	if !plan.Streams[4].Paused || plan.Streams[0].Paused {
		t.Error("the last entry is the paused one")
	}
	p.Spec.Traffic[0].Stream.Rate = "10%"
	p.Spec.Traffic[1].Stream.Rate = ""
	p.Spec.Traffic[2].Paused = false
	p.Spec.Rate = "3x"
	changes := EntryStates(resolved.Entries, p)
	if want := []spatev1.EntryChange{{Name: "a", Rate: "10%"}, {Name: "b", Rate: "1kpps"}, {Name: "c"}}; !slices.Equal(changes, want) {
		t.Fatalf("changes %+v", changes)
	}
	live, err := Adjust(plan, resolved.Factor, p.Spec.Rate, changes, nil, generator())
	if err != nil {
		t.Fatal(err)
	}
	if got := rateText(live.Rates["a"]) + ", " + rateText(live.Rates["b"]); got != "l1_bits_per_second 300000000/1, packets_per_second 3000/1" || len(live.Rates) != 2 {
		t.Errorf("rates %s", got)
	}
	packets := new(big.Rat).Add(big.NewRat(300000000, 84*8), big.NewRat(3*3000+30, 1))
	if live.Factor.Cmp(big.NewRat(3, 2)) != 0 || live.OwnFactor.Cmp(big.NewRat(3, 1)) != 0 || live.Load.Packets.Cmp(packets) != 0 {
		t.Errorf("factor %s, own %s, load %s", live.Factor, live.OwnFactor, live.Load.Packets)
	}
	own, err := OwnLoad(plan, resolved.Factor, changes, nil, generator())
	if err != nil || own.Scaled(big.NewRat(3, 1)).Packets.Cmp(packets) != 0 {
		t.Errorf("own load %v %v", own, err)
	}
	_, err = Adjust(plan, resolved.Factor, "", []spatev1.EntryChange{{Name: "a", Rate: "fast"}}, nil, generator())
	if err == nil || !strings.Contains(err.Error(), `entry a: rate "fast": must be a rate`) {
		t.Errorf("got %v", err)
	}
	// A total includes changed entries.
	live, err = Adjust(plan, resolved.Factor, "5kpps", []spatev1.EntryChange{{Name: "a", Rate: "1990pps"}, {Name: "b", Rate: "1kpps"}}, nil, generator())
	if err != nil || live.OwnFactor.Cmp(big.NewRat(1, 1)) != 0 {
		t.Errorf("got %s %v", live.OwnFactor, err)
	}
}

func TestPortsThatAnswer(t *testing.T) {
	p := profile()
	p.Spec.Reflect = []spatev1.ReflectPort{{Port: "west", Swap: "Addresses"}, {Port: "loop"}}
	p.Spec.Receive = []spatev1.ReceivePort{{Name: "tap", Port: "east"}}
	plan := mustResolve(t, Input{Profile: p, Generator: generator()}).Plan(Identity{})
	if len(plan.Reflectors) != 2 || plan.Reflectors[0].Swap != 2 || plan.Reflectors[1].Swap != 1 || plan.Receivers[0].Name != "tap" || plan.Receivers[0].Port != "east" {
		t.Errorf("got %v", plan)
	}
	limited := generator(func(g *spatev1.TrafficGenerator) {
		g.Spec.Limits = &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"198.18.0.0/15"}, AllowedPorts: []spatev1.PortRange{"7", "9-10"}}
	})
	p.Spec.Reflect[0].AcceptAnyMAC = true
	plan = mustResolve(t, Input{Profile: p, Generator: limited}).Plan(Identity{})
	r := plan.Reflectors[0]
	if !r.AnyMac || plan.Reflectors[1].AnyMac || len(r.AllowedAddresses) != 1 || !bytes.Equal(r.AllowedAddresses[0].First, []byte{198, 18, 0, 0}) ||
		!bytes.Equal(r.AllowedAddresses[0].Last, []byte{198, 19, 255, 255}) || len(r.AllowedPorts) != 2 || r.AllowedPorts[0].Last != 7 || r.AllowedPorts[1].First != 9 {
		t.Errorf("got %v", r)
	}
	p.Spec.Reflect[0].Port, p.Spec.Receive[0].Port = "north", "void"
	_, problems := Resolve(Input{Profile: p, Generator: generator()})
	for _, want := range []string{`spec.reflect[0].port: "north" is no port of generator lab`, "spec.receive[0].port: void is a discard port"} {
		if !strings.Contains(problems.Message(), want) {
			t.Errorf("got %s", problems.Message())
		}
	}
	if _, problems := Resolve(Input{Profile: profile(), Generator: generator()}); !strings.Contains(problems.Message(), "set traffic, reflect, receive or clients") {
		t.Errorf("got %s", problems.Message())
	}
}

func TestNextHopsOfPortsWithAddresses(t *testing.T) {
	g := generator(func(g *spatev1.TrafficGenerator) {
		g.Spec.Ports[0].Addresses = []spatev1.InterfaceAddress{"198.18.0.1/24"}
	})
	p := profile(entryOf("a", "east", "west", streamOf("1pps", 64, withoutDestination)))
	if s := mustResolve(t, Input{Profile: p, Generator: g}).Plan(Identity{}).Streams[0]; !s.Packet.DestinationMacFromPort {
		t.Error("the port resolves its next hop")
	}
	g.Spec.Ports[0].Addresses[0] = "2001:2::1/64"
	_, problems := Resolve(Input{Profile: p, Generator: g})
	if want := "spec.traffic[0].stream.inline: ethernet.destination is absent, and port east has no ipv4 address"; !strings.Contains(problems.Message(), want) {
		t.Errorf("got %s", problems.Message())
	}
}
