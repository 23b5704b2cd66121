// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
	"spate.dev/operator/internal/plan/load"
)

// streamOf returns a UDP stream from 198.18.0.1 to 198.19.0.1.
func streamOf(rate spatev1.Rate, size int32, change ...func(*spatev1.StatelessStreamSpec)) *spatev1.StatelessStreamSpec {
	s := &spatev1.StatelessStreamSpec{
		Packet: &spatev1.Packet{
			Headers: []spatev1.Header{
				{Ethernet: &spatev1.EthernetHeader{Destination: "02:00:00:00:00:01"}},
				{IPv4: &spatev1.IPv4Header{Source: "198.18.0.1", Destination: "198.19.0.1"}},
				{UDP: &spatev1.UDPHeader{DestinationPort: ptr.To[int32](7)}},
			},
			Size: ptr.To(size),
		},
		Transmit: spatev1.Transmit{Continuous: &spatev1.ContinuousTransmit{Rate: rate}},
		Measure:  spatev1.Measure{Flow: true},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func withoutDestination(s *spatev1.StatelessStreamSpec) {
	s.Packet.Headers[0].Ethernet.Destination = ""
}
func unmeasured(s *spatev1.StatelessStreamSpec) { s.Measure.Flow = false }

func entryOf(name, transmit, receive string, s *spatev1.StatelessStreamSpec) spatev1.TrafficEntry {
	return spatev1.TrafficEntry{Name: spatev1.EntryName(name), Stream: &spatev1.StreamEntry{Inline: s},
		TransmitPort: spatev1.PortName(transmit), ReceivePort: spatev1.PortName(receive)}
}

func profile(entries ...spatev1.TrafficEntry) *spatev1.TrafficProfile {
	p := &spatev1.TrafficProfile{Spec: spatev1.TrafficProfileSpec{TrafficDefinition: spatev1.TrafficDefinition{
		GeneratorRef: &spatev1.GeneratorReference{Name: "lab"},
		Traffic:      entries, Warmup: "1s", Duration: "10s", Drain: "500ms",
	}}}
	p.Name, p.Namespace = "imix", "test"
	return p
}

func generator(change ...func(*spatev1.TrafficGenerator)) *spatev1.TrafficGenerator {
	network := func(name spatev1.PortName) spatev1.GeneratorPort {
		return spatev1.GeneratorPort{Name: name, Attachment: spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{NetworkReference: spatev1.NetworkReference{Network: "net"}}}}
	}
	g := &spatev1.TrafficGenerator{Spec: spatev1.TrafficGeneratorSpec{Replicas: 1, Ports: []spatev1.GeneratorPort{
		network("east"), network("west"),
		{Name: "loop", Attachment: spatev1.PortAttachment{Loopback: &spatev1.LoopbackAttachment{}}},
		{Name: "void", Attachment: spatev1.PortAttachment{Discard: &spatev1.DiscardAttachment{}}},
	}}}
	g.Name, g.Namespace = "lab", "test"
	g.Spec.Ports[0].LineRate = "1Gbps"
	for _, c := range change {
		c(g)
	}
	return g
}

// between returns a range of values.
func between(start, end spatev1.FieldValue) *spatev1.FieldRange {
	return &spatev1.FieldRange{Start: start, End: &end}
}

func imix() *spatev1.TrafficProfile {
	return profile(
		entryOf("small", "east", "west", streamOf("7kpps", 64)),
		entryOf("medium", "east", "west", streamOf("4kpps", 594)),
		entryOf("large", "east", "west", streamOf("1kpps", 1518)))
}

func mustResolve(t *testing.T, in Input) *Resolved {
	t.Helper()
	resolved, problems := Resolve(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return resolved
}

func TestResolveMakesAPlan(t *testing.T) {
	resolved := mustResolve(t, Input{Profile: imix(), Generator: generator()})
	plan := resolved.Plan(Identity{RunID: "r1", Tag: 9, Profile: "imix", Namespace: "test"})
	if plan.RunId != "r1" || plan.RunTag != 9 || plan.Timing.WarmupNs != 1e9 || plan.Timing.DurationNs != 1e10 || plan.Timing.DrainNs != 5e8 {
		t.Errorf("got %v", plan)
	}
	for i, s := range plan.Streams {
		if s.Id != uint32(i) || s.TxPort != "east" || s.RxPort != "west" || !s.Measure.Flow {
			t.Errorf("stream %d is %v", i, s)
		}
		if wire := len(s.Packet.Frame) + 4; wire != []int{64, 594, 1518}[i] {
			t.Errorf("stream %d has %d bytes", i, wire)
		}
		if !s.Packet.SourceMacFromPort || len(s.Packet.Checksums) != 2 {
			t.Errorf("stream %d: %v", i, s.Packet.Checksums)
		}
	}
	if got := plan.Streams[0].GetContinuous().GetRate().GetPacketsPerSecond(); got.Numerator != 7000 || got.Denominator != 1 {
		t.Errorf("rate %v", got)
	}
	first, digest, err := Encode(plan)
	if err != nil {
		t.Fatal(err)
	}
	again, sameDigest, _ := Encode(mustResolve(t, Input{Profile: imix(), Generator: generator()}).Plan(Identity{RunID: "r1", Tag: 9, Profile: "imix", Namespace: "test"}))
	if !bytes.Equal(first, again) || digest != sameDigest {
		t.Error("the same profile gives another plan")
	}
	decoded, err := Decode(first)
	if err != nil || !proto.Equal(decoded, plan) {
		t.Errorf("a plan does not survive its encoding: %v", err)
	}
	share := ofEngine(t, plan, 1, 3)
	if share.Share.Index != 1 || share.Share.Count != 3 || plan.Share != nil {
		t.Errorf("share %v of %v", share.Share, plan.Share)
	}
}

func TestRatesAreExact(t *testing.T) {
	cases := map[string]struct {
		rate     spatev1.Rate
		scale    spatev1.ScaledRate
		replicas int32
		want     string
		packets  *big.Rat
	}{
		"packets":              {"1Mpps", "", 1, "packets_per_second 1000000/1", big.NewRat(1e6, 1)},
		"a third":              {"0.333pps", "", 1, "packets_per_second 333/1000", big.NewRat(333, 1000)},
		"layer 2":              {"1Gbps", "0.5x", 1, "l2_bits_per_second 500000000/1", big.NewRat(5e8, 64*8)},
		"layer 1":              {"1GbpsL1", "", 1, "l1_bits_per_second 1000000000/1", big.NewRat(1e9, 84*8)},
		"percent":              {"12.5%", "", 1, "l1_bits_per_second 125000000/1", big.NewRat(125e6, 84*8)},
		"percent on two pods":  {"12.5%", "", 2, "l1_bits_per_second 250000000/1", big.NewRat(25e7, 84*8)},
		"a factor":             {"1kpps", "1.5x", 1, "packets_per_second 1500/1", big.NewRat(1500, 1)},
		"a total in packets":   {"7pps", "10kpps", 1, "packets_per_second 10000/1", big.NewRat(1e4, 1)},
		"a total on layer 2":   {"7pps", "512kbps", 1, "packets_per_second 1000/1", big.NewRat(1000, 1)},
		"a total of layer 1":   {"512bps", "672kbpsL1", 1, "l2_bits_per_second 512000/1", big.NewRat(1000, 1)},
		"a total of a percent": {"50%", "672kbpsL1", 1, "l1_bits_per_second 672000/1", big.NewRat(1000, 1)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := profile(entryOf("a", "east", "west", streamOf(c.rate, 64)))
			p.Spec.Rate = c.scale
			g := generator(func(g *spatev1.TrafficGenerator) { g.Spec.Replicas = c.replicas })
			resolved, problems := Resolve(Input{Profile: p, Generator: g})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			plan := resolved.Plan(Identity{})
			if got := rateText(plan.Streams[0].GetContinuous().GetRate()); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if resolved.Load.Packets.Cmp(c.packets) != 0 {
				t.Errorf("load is %s packets a second, want %s", resolved.Load.Packets, c.packets)
			}
			load, err := load.Of(plan)
			if err != nil || load.Packets.Cmp(resolved.Load.Packets) != 0 || load.L1Bits.Cmp(resolved.Load.L1Bits) != 0 {
				t.Errorf("the plan's load %v (%v) is not the profile's %v", load, err, resolved.Load)
			}
		})
	}
}

func rateText(rate *enginev1.Rate) string {
	name, ratio := "", (*enginev1.Ratio)(nil)
	switch kind := rate.Kind.(type) {
	case *enginev1.Rate_PacketsPerSecond:
		name, ratio = "packets_per_second", kind.PacketsPerSecond
	case *enginev1.Rate_L2BitsPerSecond:
		name, ratio = "l2_bits_per_second", kind.L2BitsPerSecond
	case *enginev1.Rate_L1BitsPerSecond:
		name, ratio = "l1_bits_per_second", kind.L1BitsPerSecond
	}
	return fmt.Sprintf("%s %d/%d", name, ratio.Numerator, ratio.Denominator)
}

func TestATotalScalesEntriesInProportion(t *testing.T) {
	p := imix()
	p.Spec.Rate = "120kpps"
	resolved := mustResolve(t, Input{Profile: p, Generator: generator()})
	if resolved.Factor.Cmp(big.NewRat(10, 1)) != 0 {
		t.Errorf("factor %s", resolved.Factor)
	}
	for i, s := range resolved.Plan(Identity{}).Streams {
		if got, want := rateText(s.GetContinuous().GetRate()), []string{"70000/1", "40000/1", "10000/1"}[i]; !strings.HasSuffix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestPausedEntriesAskForWhatTheyMayBeResumedTo(t *testing.T) {
	p := profile(entryOf("on", "east", "west", streamOf("1kpps", 64)), entryOf("off", "east", "west", streamOf("3kpps", 64)))
	p.Spec.Traffic[1].Paused = true
	p.Spec.Rate = "8kpps"
	resolved := mustResolve(t, Input{Profile: p, Generator: generator()})
	if resolved.Factor.Cmp(big.NewRat(2, 1)) != 0 || resolved.Load.Packets.Cmp(big.NewRat(8000, 1)) != 0 {
		t.Errorf("factor %s, load %s", resolved.Factor, resolved.Load.Packets)
	}
	if plan := resolved.Plan(Identity{}); plan.Streams[0].Paused || !plan.Streams[1].Paused {
		t.Error("the second entry is the paused one")
	}
}

func TestRescaleOfARunUnderWay(t *testing.T) {
	p := imix()
	p.Spec.Rate = "2x"
	resolved := mustResolve(t, Input{Profile: p, Generator: generator()})
	plan := resolved.Plan(Identity{})
	cases := map[string]struct {
		rate           spatev1.ScaledRate
		factor, own    *big.Rat
		packets, error string
	}{
		"unchanged":       {rate: "2x", factor: big.NewRat(1, 1), own: big.NewRat(2, 1), packets: "24000"},
		"three times":     {rate: "3x", factor: big.NewRat(3, 2), own: big.NewRat(3, 1), packets: "36000"},
		"back to its own": {rate: "", factor: big.NewRat(1, 2), own: big.NewRat(1, 1), packets: "12000"},
		"a total":         {rate: "6kpps", factor: big.NewRat(1, 4), own: big.NewRat(1, 2), packets: "6000"},
		"nonsense":        {rate: "fast", error: `spec.rate "fast": must be a factor such as 2x`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Rescale(plan, resolved.Factor, c.rate, generator())
			if c.error != "" {
				if err == nil || !strings.Contains(err.Error(), c.error) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || got.Factor.Cmp(c.factor) != 0 || got.OwnFactor.Cmp(c.own) != 0 || got.Load.Packets.RatString() != c.packets {
				t.Errorf("got %s, %s, %s (%v)", got.Factor, got.OwnFactor, got.Load.Packets.RatString(), err)
			}
		})
	}
}

func TestResolveTellsWhatIsWrong(t *testing.T) {
	one := func(s *spatev1.StatelessStreamSpec) *spatev1.TrafficProfile {
		return profile(entryOf("a", "east", "west", s))
	}
	limited := func(limits spatev1.Limits) *spatev1.TrafficGenerator {
		return generator(func(g *spatev1.TrafficGenerator) { g.Spec.Limits = &limits })
	}
	change := func(f func(*spatev1.TrafficProfile)) *spatev1.TrafficProfile {
		p := imix()
		f(p)
		return p
	}
	cases := map[string]struct {
		profile   *spatev1.TrafficProfile
		generator *spatev1.TrafficGenerator
		reason    string
		want      string
	}{
		"unknown generator": {imix(), nil, "ReferenceNotFound", `spec.generatorRef.name: TrafficGenerator "lab" does not exist in namespace test`},
		"unknown stream": {change(func(p *spatev1.TrafficProfile) {
			p.Spec.Traffic[1] = spatev1.TrafficEntry{Name: "x", Stream: &spatev1.StreamEntry{Ref: &spatev1.LocalReference{Name: "nope"}}, TransmitPort: "east"}
		}), generator(), "ReferenceNotFound", `spec.traffic[1].stream.ref.name: StatelessStream "nope" does not exist in namespace test`},
		"unknown port":        {profile(entryOf("a", "north", "west", streamOf("1pps", 64))), generator(), "InvalidSpec", `spec.traffic[0].transmitPort: "north" is no port of generator lab; it has east, west, loop, void`},
		"unknown rx port":     {profile(entryOf("a", "east", "south", streamOf("1pps", 64))), generator(), "InvalidSpec", `spec.traffic[0].receivePort: "south" is no port`},
		"flow to nowhere":     {profile(entryOf("a", "east", "", streamOf("1pps", 64))), generator(), "InvalidSpec", "spec.traffic[0].receivePort: the stream measures flow: name the port"},
		"port for nothing":    {one(streamOf("1pps", 64, unmeasured)), generator(), "InvalidSpec", "spec.traffic[0].receivePort: nothing of the stream is measured at west"},
		"to a discard port":   {profile(entryOf("a", "east", "void", streamOf("1pps", 64))), generator(), "InvalidSpec", "void is a discard port and receives nothing"},
		"from a discard port": {profile(entryOf("a", "void", "west", streamOf("1pps", 64))), generator(), "InvalidSpec", "what the discard port void sends arrives nowhere"},
		"across a loopback":   {profile(entryOf("a", "loop", "west", streamOf("1pps", 64))), generator(), "InvalidSpec", "loop and west must be the same"},
		"no next hop":         {one(streamOf("1pps", 64, withoutDestination)), generator(), "InvalidSpec", "spec.traffic[0].stream.inline.packet.headers[0].ethernet.destination: Required value: the transmitting port has no address to find its next hop with"},
		"wrong rate":          {one(streamOf("10 apples", 64)), generator(), "InvalidSpec", `spec.traffic[0].stream.inline.transmit.continuous.rate: "10 apples": must be a rate such as 1.5Mpps`},
		"wrong entry rate":    {change(func(p *spatev1.TrafficProfile) { p.Spec.Traffic[0].Stream.Rate = "2x" }), generator(), "InvalidSpec", `spec.traffic[0].stream.rate: "2x": must be a rate`},
		"wrong profile rate":  {change(func(p *spatev1.TrafficProfile) { p.Spec.Rate = "2x/port" }), generator(), "InvalidSpec", `spec.rate: "2x/port": must be a factor`},
		"wrong duration":      {change(func(p *spatev1.TrafficProfile) { p.Spec.Duration = "soon" }), generator(), "InvalidSpec", `spec.duration: "soon" must be a duration`},
		"no time to set up":   {change(func(p *spatev1.TrafficProfile) { p.Spec.SetupTimeout = "0s" }), generator(), "InvalidSpec", "spec.setupTimeout: must be greater than zero; leave it out for 60s"},
		"too great a rate":    {change(func(p *spatev1.TrafficProfile) { p.Spec.Rate = "99999999999999999999x" }), generator(), "InvalidSpec", "spec.traffic[0]: its rate: "},
		"two modes": {one(streamOf("1pps", 64, func(s *spatev1.StatelessStreamSpec) {
			s.Transmit.Burst = &spatev1.BurstTransmit{Packets: 5, Rate: "1pps"}
		})), generator(), "InvalidSpec", "spec.traffic[0].stream.inline.transmit: set exactly one of continuous, burst, multiBurst and replay"},
		"start over end": {one(streamOf("1pps", 64, func(s *spatev1.StatelessStreamSpec) {
			s.Fields = []spatev1.PacketField{{Name: "x", Range: between("10.0.0.2", "10.0.0.1"), Writes: []spatev1.FieldWrite{{Field: "ipv4.source"}}}}
		})), generator(), "InvalidSpec", "spec.traffic[0].stream.inline.fields[0].range.start: 10.0.0.2 is greater than end, which is 10.0.0.1"},
		"write to nowhere": {one(streamOf("1pps", 64, func(s *spatev1.StatelessStreamSpec) {
			s.Fields = []spatev1.PacketField{{Name: "x", Range: between("1", "2"), Order: spatev1.OrderRandom, Writes: []spatev1.FieldWrite{{Field: "tcp.sourcePort"}}}}
		})), generator(), "InvalidSpec", `spec.traffic[0].stream.inline.fields[0].writes[0].field: "tcp.sourcePort": the packet has 0 tcp headers`},
		"percent of nothing": {profile(entryOf("a", "west", "east", streamOf("50%", 64))), generator(), "GeneratorNotReady", "spec.traffic[0].stream.inline: a rate in percent needs the line rate of port west, which its engines have not reported yet"},
		"percent of null":    {profile(entryOf("a", "void", "", streamOf("50%", 64, unmeasured))), generator(), "InvalidSpec", "set lineRate in the generator's spec.ports"},
		"oversubscribed": {profile(entryOf("a", "east", "west", streamOf("60%", 64)), entryOf("b", "east", "west", streamOf("500Mbps", 1518))), generator(), "Oversubscribed",
			"spec.traffic: port east of generator lab would have to carry 1.107Gbps on layer 1, and can carry 1Gbps; lower the rates"},
		"over the limit": {imix(), limited(spatev1.Limits{MaxRate: "10kpps"}), "LimitExceeded", "spec.traffic: the traffic needs 12kpps in all, and generator lab allows 10kpps"},
		"wrong prefix":   {imix(), limited(spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"10.0.0.0/8", "fd00::/8"}}), "LimitExceeded", "spec.traffic[0].stream.inline: the packet goes to 198.19.0.1; generator lab allows only 10.0.0.0/8, fd00::/8"},
		"wrong port":     {imix(), limited(spatev1.Limits{AllowedPorts: []spatev1.PortRange{"80", "8000-8999"}}), "LimitExceeded", "the packet goes to port 7; generator lab allows only 80, 8000-8999"},
		"a wrong mac": {imix(), generator(func(g *spatev1.TrafficGenerator) { g.Spec.Ports[1].MAC = "03:00:00:00:00:09" }), "InvalidSpec",
			`spec.generatorRef: TrafficGenerator "lab": spec.ports[1].mac: "03:00:00:00:00:09": must be the MAC address of a station`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems := Resolve(Input{Profile: c.profile, Generator: c.generator})
			if problems.Reason() != c.reason || !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %s\nwant %s: %s", problems, c.reason, c.want)
			}
		})
	}
}

func TestReferencedStreamsAreReportedByName(t *testing.T) {
	p := profile(spatev1.TrafficEntry{Name: "a", Stream: &spatev1.StreamEntry{Ref: &spatev1.LocalReference{Name: "small"}, Rate: "5pps"}, TransmitPort: "east", ReceivePort: "west"})
	object := &spatev1.StatelessStream{Spec: *streamOf("1pps", 64)}
	in := Input{Profile: p, Generator: generator(), Streams: map[string]*spatev1.StatelessStream{"small": object}}
	resolved := mustResolve(t, in)
	if got := rateText(resolved.Plan(Identity{}).Streams[0].GetContinuous().GetRate()); got != "packets_per_second 5/1" {
		t.Errorf("an entry's rate goes before the stream's: %s", got)
	}
	want := spatev1.DefinitionSnapshot{Kind: "StatelessStream", Name: "small", Digest: StreamDigest(&object.Spec)}
	if len(resolved.Definitions) != 1 || resolved.Definitions[0] != want {
		t.Errorf("definitions %v", resolved.Definitions)
	}
	object.Spec.Packet.Size = ptr.To[int32](60)
	_, problems := Resolve(in)
	if want := `spec.traffic[0].stream.ref: StatelessStream "small": spec.packet.size: Invalid value: 60: must be 64 to 9234 bytes, FCS included`; problems.Message() != want {
		t.Errorf("got %s", problems.Message())
	}
}

func TestRawBytesAreJudgedByTheGuardRails(t *testing.T) {
	built, errs := packet.Build(streamOf("1pps", 128).Packet, spec, packet.Options{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	guarded := generator(func(g *spatev1.TrafficGenerator) {
		g.Spec.Limits = &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"198.18.0.0/15"}}
	})
	judge := func(change func([]byte)) string {
		frame := append([]byte(nil), built.Frame...)
		change(frame)
		s := streamOf("1pps", 64)
		s.Packet = &spatev1.Packet{Bytes: frame}
		_, problems := Resolve(Input{Profile: profile(entryOf("a", "east", "west", s)), Generator: guarded})
		return problems.Message()
	}
	for name, c := range map[string]struct {
		change func([]byte)
		want   string
	}{
		"inside":   {func([]byte) {}, ""},
		"outside":  {func(f []byte) { f[30] = 8 }, "the packet goes to 8.19.0.1"},
		"not IP":   {func(f []byte) { f[12], f[13] = 8, 6 }, "the packet is not IP"},
		"mangled":  {func(f []byte) { f[14] = 0x4f }, "cannot be determined"},
		"too long": {func(f []byte) { f[16] = 0x40 }, "cannot be determined"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(c.change); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestInternalPortsNeedNoDestination(t *testing.T) {
	p := profile(entryOf("l", "loop", "loop", streamOf("1pps", 64, withoutDestination)),
		entryOf("n", "void", "", streamOf("1Mpps", 64, withoutDestination, unmeasured)))
	for _, s := range mustResolve(t, Input{Profile: p, Generator: generator()}).Plan(Identity{}).Streams {
		if !bytes.Equal(s.Packet.Frame[:6], packet.InternalDestination) {
			t.Errorf("destination %x", s.Packet.Frame[:6])
		}
	}
}

func TestLineRatesAsEnginesTellThem(t *testing.T) {
	lines := func(rates ...string) *spatev1.TrafficGenerator {
		return generator(func(g *spatev1.TrafficGenerator) {
			g.Spec.Replicas = int32(len(rates))
			for i, rate := range rates {
				g.Status.Pods = append(g.Status.Pods, spatev1.GeneratorPodStatus{Name: strconv.Itoa(i),
					Ports: []spatev1.GeneratorPortStatus{{Name: "west", LineRate: rate}}})
			}
		})
	}
	p := profile(entryOf("a", "west", "east", streamOf("10%", 64)))
	resolved := mustResolve(t, Input{Profile: p, Generator: lines("10Gbps", "10Gbps")})
	if got := rateText(resolved.Plan(Identity{}).Streams[0].GetContinuous().GetRate()); got != "l1_bits_per_second 2000000000/1" {
		t.Errorf("got %s", got)
	}
	for name, g := range map[string]*spatev1.TrafficGenerator{"differ": lines("10Gbps", "1Gbps"), "unknown": lines("")} {
		if _, problems := Resolve(Input{Profile: p, Generator: g}); problems.Reason() != "InvalidSpec" {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestWhatStartsANewRun(t *testing.T) {
	base := ProfileDigest(imix())
	for name, c := range map[string]struct {
		change func(*spatev1.TrafficProfileSpec)
		starts bool
	}{
		"rate":        {func(s *spatev1.TrafficProfileSpec) { s.Rate = "2x" }, false},
		"an entry's":  {func(s *spatev1.TrafficProfileSpec) { s.Traffic[0].Stream.Rate = "5pps" }, false},
		"a pause":     {func(s *spatev1.TrafficProfileSpec) { s.Traffic[0].Paused = true }, false},
		"a chain":     {func(s *spatev1.TrafficProfileSpec) { s.Traffic[0].Stream.Start = "Waiting" }, true},
		"a reflector": {func(s *spatev1.TrafficProfileSpec) { s.Reflect = []spatev1.ReflectPort{{Port: "east"}} }, true},
		"suspend":     {func(s *spatev1.TrafficProfileSpec) { s.Suspend = true }, false},
		"history":     {func(s *spatev1.TrafficProfileSpec) { s.RunHistoryLimit = ptr.To[int32](1) }, false},
		"whenBusy":    {func(s *spatev1.TrafficProfileSpec) { s.WhenBusy = "Refuse" }, false},
		"whenPodLost": {func(s *spatev1.TrafficProfileSpec) { s.WhenPodLost = "Continue" }, false},
		"a policy":    {func(s *spatev1.TrafficProfileSpec) { s.RunPolicy = spatev1.RunManual }, false},
		"a schedule":  {func(s *spatev1.TrafficProfileSpec) { s.Schedule = &spatev1.RunSchedule{Cron: "@daily"} }, false},
		"a whole run": {func(s *spatev1.TrafficProfileSpec) { s.Paused = true }, false},
		"a tolerance": {func(s *spatev1.TrafficProfileSpec) { s.GeneratorTolerance.Late = "5%" }, false},
		"runID":       {func(s *spatev1.TrafficProfileSpec) { s.RunID = "again" }, true},
		"duration":    {func(s *spatev1.TrafficProfileSpec) { s.Duration = "20s" }, true},
		"a stream":    {func(s *spatev1.TrafficProfileSpec) { s.Traffic[0].Stream.Inline.Packet.Size = ptr.To[int32](65) }, true},
		"a threshold": {func(s *spatev1.TrafficProfileSpec) { s.Thresholds = []spatev1.Threshold{{Name: "x"}} }, false},
	} {
		p := imix()
		c.change(&p.Spec)
		if got := ProfileDigest(p) != base; got != c.starts {
			t.Errorf("%s: starts a new run is %v", name, got)
		}
	}
}

func TestGranted(t *testing.T) {
	for name, c := range map[string]struct {
		namespace string
		grant     spatev1.AllowedNamespaces
		want      bool
	}{
		"its own":      {"test", spatev1.AllowedNamespaces{From: "Same"}, true},
		"another":      {"other", spatev1.AllowedNamespaces{From: "Same"}, false},
		"by default":   {"other", spatev1.AllowedNamespaces{}, false},
		"all":          {"other", spatev1.AllowedNamespaces{From: "All"}, true},
		"selected":     {"other", spatev1.AllowedNamespaces{From: "Selector", Selector: labelled("blue")}, true},
		"not selected": {"other", spatev1.AllowedNamespaces{From: "Selector", Selector: labelled("red")}, false},
	} {
		g := generator(func(g *spatev1.TrafficGenerator) { g.Spec.AllowedNamespaces = c.grant })
		if got, err := Granted(g, c.namespace, map[string]string{"team": "blue"}); err != nil || got != c.want {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}

func labelled(team string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
}

func TestAMixOfSizesCountsInItsProportions(t *testing.T) {
	for mix, c := range map[spatev1.IMIX]struct {
		packets, bytes int64 // of one round
		list           string
	}{
		spatev1.IMIXSimple: {12, 7*64 + 4*594 + 1518, "list:{sizes:{bytes:60 weight:7} sizes:{bytes:590 weight:4} sizes:{bytes:1514 weight:1}}"},
		spatev1.IMIXTCP: {10000, 5867*90 + 200*92 + 2366*594 + 1567*1518,
			"list:{sizes:{bytes:86 weight:5867} sizes:{bytes:88 weight:200} sizes:{bytes:590 weight:2366} sizes:{bytes:1514 weight:1567}}"},
		spatev1.IMIXIPsec: {10000, 5867*90 + 200*92 + 2366*594 + 1567*1418,
			"list:{sizes:{bytes:86 weight:5867} sizes:{bytes:88 weight:200} sizes:{bytes:590 weight:2366} sizes:{bytes:1414 weight:1567}}"},
		spatev1.IMIXTolly: {100, 55*64 + 5*78 + 17*576 + 23*1518, "list:{sizes:{bytes:60 weight:55} sizes:{bytes:74 weight:5} sizes:{bytes:572 weight:17} sizes:{bytes:1514 weight:23}}"},
	} {
		rate := spatev1.Rate(fmt.Sprintf("%dpps", c.packets))
		s := streamOf(rate, 64, func(s *spatev1.StatelessStreamSpec) { s.Packet.Size, s.Packet.IMIX = nil, mix })
		resolved := mustResolve(t, Input{Profile: profile(entryOf("a", "east", "west", s)), Generator: generator()})
		if got := strings.ReplaceAll(resolved.Plan(Identity{}).Streams[0].Packet.Sizes.String(), "  ", " "); got != c.list {
			t.Errorf("%s: got %s, want %s", mix, got, c.list)
		}
		if l2, l1 := big.NewRat(8*c.bytes, 1), big.NewRat(8*(c.bytes+20*c.packets), 1); resolved.Load.L2Bits.Cmp(l2) != 0 || resolved.Load.L1Bits.Cmp(l1) != 0 {
			t.Errorf("%s: %s and %s bits a second, want %s and %s", mix, resolved.Load.L2Bits, resolved.Load.L1Bits, l2, l1)
		}
	}
}
