// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

func burst(packets int64, rate spatev1.Rate) func(*spatev1.StatelessStreamSpec) {
	return func(s *spatev1.StatelessStreamSpec) {
		s.Transmit = spatev1.Transmit{Burst: &spatev1.BurstTransmit{Packets: packets, Rate: rate}}
	}
}

func copies(count int32, vary ...spatev1.CopyVariation) func(*spatev1.StatelessStreamSpec) {
	return func(s *spatev1.StatelessStreamSpec) { s.Copies = &spatev1.StreamCopies{Count: count, Vary: vary} }
}

func chained(name string, s *spatev1.StatelessStreamSpec, waits bool, next string, loops int64) spatev1.TrafficEntry {
	e := entryOf(name, "east", "west", s)
	if waits {
		e.Stream.Start = spatev1.StartWaiting
	}
	if next != "" {
		e.Stream.Next = &spatev1.NextEntry{Entry: spatev1.EntryName(next), Loops: loops}
	}
	return e
}

func TestBurstsAndChains(t *testing.T) {
	multi := func(s *spatev1.StatelessStreamSpec) {
		s.Transmit = spatev1.Transmit{MultiBurst: &spatev1.MultiBurstTransmit{PacketsPerBurst: 20, Bursts: ptr.To[int64](3), InterBurstGap: "10ms", Rate: "50kpps"}}
		s.StartDelay = "1us"
	}
	p := profile(chained("a", streamOf("", 64, burst(100, "100kpps")), false, "b", 0), chained("b", streamOf("", 64, multi), true, "a", 5))
	resolved := mustResolve(t, Input{Profile: p, Generator: generator()})
	streams := resolved.Plan(Identity{}).Streams
	if got, want := fmt.Sprint(streams[0].GetBursts()), `rate:{packets_per_second:{numerator:100000 denominator:1}} packets:100 count:1`; strings.ReplaceAll(got, "  ", " ") != want {
		t.Errorf("got %s", got)
	}
	if b := streams[1].GetBursts(); b.Packets != 20 || b.Count != 3 || b.GapNs != 1e7 || streams[1].StartDelayNs != 1000 || !streams[1].Waits || streams[0].Waits {
		t.Errorf("got %v", streams[1])
	}
	if n := streams[1].Next; n.Stream != "a" || n.Times != 5 || streams[0].Next.Times != 0 {
		t.Errorf("next %v %v", n, streams[0].Next)
	}
	if resolved.Load.Packets.Cmp(big.NewRat(100000, 1)) != 0 {
		t.Errorf("entries that take turns ask for the faster one's rate, got %s", resolved.Load.Packets)
	}
	// A second chain into the same entry: the entry may be active twice at once.
	p.Spec.Traffic = append(p.Spec.Traffic, chained("c", streamOf("", 64, burst(1, "70kpps")), false, "b", 1))
	if got := mustResolve(t, Input{Profile: p, Generator: generator()}).Load.Packets; got.Cmp(big.NewRat(200000, 1)) != 0 {
		t.Errorf("got %s", got)
	}
}

func TestChainsOfCopies(t *testing.T) {
	p := profile(chained("a", streamOf("", 64, burst(5, "1kpps"), copies(3)), false, "b", 2), chained("b", streamOf("", 64, burst(5, "2kpps"), copies(3)), true, "", 0))
	resolved := mustResolve(t, Input{Profile: p, Generator: generator()})
	streams := resolved.Plan(Identity{}).Streams
	if len(streams) != 6 || streams[2].Name != "a-2" || streams[2].Group != "a" || streams[2].Next.Stream != "b-2" || streams[5].Id != 5 {
		t.Errorf("got %v", streams)
	}
	if resolved.Load.Packets.Cmp(big.NewRat(6000, 1)) != 0 {
		t.Errorf("load %s", resolved.Load.Packets)
	}
}

func TestChainsTellWhatIsWrong(t *testing.T) {
	one := func() *spatev1.StatelessStreamSpec { return streamOf("", 64, burst(5, "1kpps")) }
	elsewhere := chained("b", one(), true, "", 0)
	elsewhere.TransmitPort, elsewhere.ReceivePort = "west", "east"
	pinned := one()
	pinned.Pinned = true
	endless := one()
	endless.Transmit = spatev1.Transmit{MultiBurst: &spatev1.MultiBurstTransmit{PacketsPerBurst: 2, InterBurstGap: "1ms", Rate: "1kpps"}}
	for name, c := range map[string]struct {
		entries []spatev1.TrafficEntry
		want    string
	}{
		"to nowhere":        {[]spatev1.TrafficEntry{chained("a", one(), false, "b", 0)}, `spec.traffic[0].stream.next.entry: "b" is no entry of the profile`},
		"to another port":   {[]spatev1.TrafficEntry{chained("a", one(), false, "b", 0), elsewhere}, `spec.traffic[0].stream.next.entry: "b" is sent from port west; a chain stays on one port`},
		"after continuous":  {[]spatev1.TrafficEntry{chained("a", streamOf("1pps", 64), false, "a", 0)}, "spec.traffic[0].stream.next: nothing comes after a stream without an end"},
		"after endless":     {[]spatev1.TrafficEntry{chained("a", endless, false, "a", 0)}, "spec.traffic[0].stream.next: nothing comes after a stream without an end"},
		"to a running one":  {[]spatev1.TrafficEntry{chained("a", one(), false, "b", 0), chained("b", streamOf("1pps", 64), false, "", 0)}, `"b" has no end and starts by itself: set its start to Waiting`},
		"waits for nothing": {[]spatev1.TrafficEntry{chained("a", one(), true, "", 0)}, "spec.traffic[0].stream.start: nothing starts it"},
		"copies differ":     {[]spatev1.TrafficEntry{chained("a", streamOf("", 64, burst(5, "1kpps"), copies(2)), false, "b", 0), chained("b", one(), true, "", 0)}, `it has 2 copies and "b" has 0`},
		"one is pinned":     {[]spatev1.TrafficEntry{chained("a", one(), false, "b", 0), chained("b", pinned, true, "", 0)}, "must both be pinned, or neither"},
		"no packets":        {[]spatev1.TrafficEntry{chained("a", streamOf("", 64, burst(0, "1kpps")), false, "", 0)}, "spec.traffic[0].stream.inline.transmit.burst.packets: 0: must be at least 1"},
		"an alias": {[]spatev1.TrafficEntry{entryOf("a", "east", "west", streamOf("1pps", 64, copies(2))), entryOf("a-1", "east", "west", streamOf("1pps", 64))},
			`spec.traffic[1].name: "a" has a stream "a-1", too`},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Resolve(Input{Profile: profile(c.entries...), Generator: generator()})
			if !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %s\nwant %s", problems.Message(), c.want)
			}
		})
	}
}

func TestCopiesDiffer(t *testing.T) {
	step := func(n int64) *int64 { return &n }
	vary := []spatev1.CopyVariation{{Field: "ipv4.destination"}, {Field: "ipv4.dscp", Step: step(2)}, {Field: "udp.sourcePort", Step: step(-1)}, {Offset: ptr.To[int32](50), Size: ptr.To[int32](1)}}
	p := profile(entryOf("many", "east", "west", streamOf("1pps", 64, copies(30, vary...))))
	resolved := mustResolve(t, Input{Profile: p, Generator: generator()})
	streams := resolved.Plan(Identity{}).Streams
	frame := streams[29].Packet.Frame
	if frame[33] != 1+29 || frame[15] != 29*2<<2 || uint16(frame[34])<<8|uint16(frame[35]) != 49152-29 || frame[50] != 29 {
		t.Errorf("copy 29: %x", frame)
	}
	if streams[0].Packet.Frame[33] != 1 || resolved.Load.Packets.Cmp(big.NewRat(30, 1)) != 0 {
		t.Errorf("copy 0: %x, load %s", streams[0].Packet.Frame, resolved.Load.Packets)
	}
	p.Spec.Traffic[0].Stream.Inline.Copies.Count = 33
	_, problems := Resolve(Input{Profile: p, Generator: generator()})
	if want := "spec.traffic[0].stream.inline.copies.vary[1]: the last of 33 copies would have 64 there, and 6 bits hold 0 to 63"; !strings.Contains(problems.Message(), want) {
		t.Errorf("got %s", problems.Message())
	}
}

func Test20000CopiesInOneEntry(t *testing.T) {
	p := profile(entryOf("many", "east", "west", streamOf("1pps", 64, copies(20000, spatev1.CopyVariation{Field: "udp.destinationPort"}))))
	g := generator(func(g *spatev1.TrafficGenerator) {
		g.Spec.Limits = &spatev1.Limits{AllowedPorts: []spatev1.PortRange{"7-20006"}, AllowedDestinations: []spatev1.CIDR{"198.18.0.0/15"}}
	})
	if got := len(mustResolve(t, Input{Profile: p, Generator: g}).Plan(Identity{}).Streams); got != 20000 {
		t.Errorf("%d streams", got)
	}
	g.Spec.Limits.AllowedPorts = []spatev1.PortRange{"7-20005"}
	_, problems := Resolve(Input{Profile: p, Generator: g})
	if want := "copy 19999: the packet goes to port 20006"; !strings.Contains(problems.Message(), want) {
		t.Errorf("got %s", problems.Message())
	}
}

func TestADelayThatOutlastsTheRunIsReported(t *testing.T) {
	for delay, refused := range map[spatev1.Duration]bool{"": false, "10999ms": false, "11s": true} {
		in := imix()
		in.Spec.Warmup, in.Spec.Duration = "1s", "10s"
		in.Spec.Traffic[1].Stream = in.Spec.Traffic[1].Stream.DeepCopy()
		in.Spec.Traffic[1].Stream.Inline.StartDelay = delay
		got := mustResolve(t, Input{Profile: in, Generator: generator()}).Warnings
		if (len(got) > 0) != refused || refused && !strings.HasPrefix(got[0].Error(), "spec.traffic[1]: its stream's startDelay of 11s is not shorter than the run, whose warmup and duration are 11s") {
			t.Errorf("%q: %v", delay, got)
		}
	}
}
