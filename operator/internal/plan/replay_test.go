// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/packet"
	"spate.dev/operator/internal/plan/marks"
)

// recording returns a pcap of UDP packets of 124 bytes, one every 100 us.
func recording(t *testing.T, packets int) []byte {
	t.Helper()
	return conversation(t, make([]byte, packets)...)
}

// conversation returns such a pcap of packets from these hosts: the last byte of their MAC and IPv4 addresses; 0 leaves both.
func conversation(t *testing.T, hosts ...byte) []byte {
	t.Helper()
	built, errs := packet.Build(streamOf("1pps", 128).Packet, spec, packet.Options{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var out bytes.Buffer
	w := pcapgo.NewWriterNanos(&out)
	if err := w.WriteFileHeader(65536, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for i, host := range hosts {
		if host != 0 {
			built.Frame[11], built.Frame[29] = host, host
		}
		info := gopacket.CaptureInfo{Timestamp: time.Unix(0, int64(i)*100000), CaptureLength: len(built.Frame), Length: len(built.Frame)}
		if err := w.WritePacket(info, built.Frame); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func replay(change ...func(*spatev1.ReplayTransmit)) *spatev1.StatelessStreamSpec {
	r := &spatev1.ReplayTransmit{Pcap: spatev1.CaptureSource{From: fromConfigMap("captures", "web")}}
	for _, c := range change {
		c(r)
	}
	return &spatev1.StatelessStreamSpec{Transmit: spatev1.Transmit{Replay: r}}
}

func fromVolume(path string) func(*spatev1.ReplayTransmit) {
	return func(r *spatev1.ReplayTransmit) {
		r.Pcap = spatev1.CaptureSource{Volume: &spatev1.VolumeFile{Name: "captures", Path: path}}
	}
}

func TestReplays(t *testing.T) {
	data := map[spatev1.DataReference][]byte{{Kind: spatev1.DataConfigMap, Name: "captures", Key: "web"}: recording(t, 11)}
	withVolume := generator(func(g *spatev1.TrafficGenerator) { g.Spec.Volumes = []spatev1.GeneratorVolume{{Name: "captures"}} })
	p := profile(entryOf("a", "east", "", replay(func(r *spatev1.ReplayTransmit) {
		r.Gap, r.Loops, r.MinGap, r.FixChecksums = &spatev1.ReplayGap{Scale: "0.5"}, ptr.To[int64](3), "1us", true
	})))
	p.Spec.Rate = "2x"
	resolved := mustResolve(t, Input{Profile: p, Generator: generator(), Data: data})
	r := resolved.Plan(Identity{}).Streams[0].GetReplay()
	if !bytes.Equal(r.GetPcap(), recording(t, 11)) || r.GetScale().Numerator != 1 || r.GetScale().Denominator != 4 || r.Loops != 3 || r.MinGapNs != 1000 || !r.FixChecksums {
		t.Errorf("got %v", r)
	}
	// The capture has 10 kpps; half the gap and then twice the rate result in 40 kpps.
	if resolved.Load.Packets.Cmp(big.NewRat(40000, 1)) != 0 || resolved.Load.L2Bits.Cmp(big.NewRat(40000*128*8, 1)) != 0 {
		t.Errorf("load %s %s", resolved.Load.Packets, resolved.Load.L2Bits)
	}
	if refs := DataReferences(p, nil, nil); len(refs) != 1 || refs[0].Key != "web" {
		t.Errorf("references %v", refs)
	}
	p = profile(entryOf("a", "east", "", replay(fromVolume("big/web.pcap"), func(r *spatev1.ReplayTransmit) { r.Gap = &spatev1.ReplayGap{Fixed: "10us"} })))
	resolved = mustResolve(t, Input{Profile: p, Generator: withVolume})
	if r := resolved.Plan(Identity{}).Streams[0].GetReplay(); r.GetPath() != "/var/lib/spate/volumes/captures/big/web.pcap" || r.GetFixedNs() != 10000 {
		t.Errorf("got %v", r)
	}
	if resolved.Load.Packets.Cmp(big.NewRat(100000, 1)) != 0 {
		t.Errorf("load %s", resolved.Load.Packets)
	}
}

func TestReplaysTellWhatIsWrong(t *testing.T) {
	reference := spatev1.DataReference{Kind: spatev1.DataConfigMap, Name: "captures", Key: "web"}
	data := map[spatev1.DataReference][]byte{reference: recording(t, 2)}
	limited := generator(func(g *spatev1.TrafficGenerator) {
		g.Spec.Limits = &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"10.0.0.0/8"}}
		g.Spec.Volumes = []spatev1.GeneratorVolume{{Name: "captures"}}
	})
	fast := generator(func(g *spatev1.TrafficGenerator) {
		g.Spec.Limits, g.Spec.Volumes = &spatev1.Limits{MaxRate: "1kpps"}, []spatev1.GeneratorVolume{{Name: "captures"}}
	})
	both := replay()
	both.Packet = streamOf("1pps", 64).Packet
	named := replay()
	named.Fields = []spatev1.PacketField{{Name: "x", Values: []spatev1.FieldValue{"1"}, Writes: []spatev1.FieldWrite{{Field: "ipv4.source"}}}}
	for name, c := range map[string]struct {
		stream    *spatev1.StatelessStreamSpec
		generator *spatev1.TrafficGenerator
		data      map[spatev1.DataReference][]byte
		rate      spatev1.Rate
		want      string
	}{
		"no data":        {replay(), generator(), nil, "", `spec.traffic[0].stream.inline.transmit.replay.pcap.from: key "web" of ConfigMap "captures" does not exist`},
		"no pcap":        {replay(), generator(), map[spatev1.DataReference][]byte{reference: []byte("hello")}, "", "is neither a pcap nor a pcapng file"},
		"cut off":        {replay(), generator(), map[spatev1.DataReference][]byte{reference: data[reference][:60]}, "", `key "web" of ConfigMap "captures": packet 0 cannot be read`},
		"empty":          {replay(), generator(), map[spatev1.DataReference][]byte{reference: recording(t, 0)}, "", "holds no packets"},
		"no volume":      {replay(fromVolume("a")), generator(), data, "", `pcap.volume.name: "captures" is no volume of generator lab`},
		"climbs":         {replay(fromVolume("../a")), limited, data, "", `pcap.volume.path: "../a": must be relative`},
		"with a packet":  {both, generator(), data, "", "spec.traffic[0].stream.inline.packet: does not go with transmit.replay"},
		"named fields":   {named, generator(), data, "", "the fields of replayed packets are not known; write to an offset"},
		"a rate":         {replay(), generator(), data, "5pps", "spec.traffic[0].stream.rate: a replay has no rate"},
		"goes elsewhere": {replay(), limited, data, "", "packet 0 of the capture: the packet goes to 198.19.0.1"},
		"goes anywhere":  {replay(fromVolume("a")), limited, data, "", "where the packets of a capture on a volume go cannot be determined"},
		"how fast":       {replay(fromVolume("a")), fast, data, "", "how fast a capture on a volume is sent cannot be determined"},
	} {
		t.Run(name, func(t *testing.T) {
			e := entryOf("a", "east", "", c.stream)
			e.Stream.Rate = c.rate
			_, problems := Resolve(Input{Profile: profile(e), Generator: c.generator, Data: c.data})
			if !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %s\nwant %s", problems.Message(), c.want)
			}
		})
	}
}

// No message contains data of a Secret: the packet's number and the field are enough.
func TestNoMessageSaysWhatASecretsCaptureHolds(t *testing.T) {
	reference := spatev1.DataReference{Kind: spatev1.DataSecret, Name: "captures", Key: "web"}
	of := replay(func(r *spatev1.ReplayTransmit) { r.Pcap.From = fromSecret("captures", "web") })
	recorded := recording(t, 2)
	limited := func(limits spatev1.Limits) *spatev1.TrafficGenerator {
		return generator(func(g *spatev1.TrafficGenerator) { g.Spec.Limits = &limits })
	}
	const hidden = "its destination is not allowed, or cannot be determined (a Secret's bytes are in no message); generator lab allows only "
	for name, c := range map[string]struct {
		bytes     []byte
		generator *spatev1.TrafficGenerator
		want      string
	}{
		"an address": {recorded, limited(spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"10.0.0.0/8"}}), "packet 0 of the capture: " + hidden + "10.0.0.0/8 (its spec.limits.allowedDestinations)"},
		"a port":     {recorded, limited(spatev1.Limits{AllowedPorts: []spatev1.PortRange{"1-2"}}), "packet 0 of the capture: " + hidden + "1-2 (its spec.limits.allowedPorts)"},
		"broken":     {recorded[:60], generator(), `key "web" of Secret "captures": packet 0 cannot be read: the file is broken, or ends within it`},
	} {
		_, problems := Resolve(Input{Profile: profile(entryOf("a", "east", "", of)), Generator: c.generator, Data: map[spatev1.DataReference][]byte{reference: c.bytes}})
		if len(problems) != 1 || problems[0].Message != c.want {
			t.Errorf("%s: got %s\nwant %s", name, problems.Message(), c.want)
		}
	}
}

func TestMarksAreChosen(t *testing.T) {
	marked := func(value spatev1.IPv4MarkValue) *spatev1.StatelessStreamSpec {
		return streamOf("1pps", 64, unmeasured, func(s *spatev1.StatelessStreamSpec) { s.Measure.Mark = &spatev1.Mark{IPv4Identification: &value} })
	}
	p := profile(entryOf("a", "east", "west", marked("auto")), entryOf("b", "east", "west", marked("7")), entryOf("c", "east", "west", marked("auto")))
	resolved := mustResolve(t, Input{Profile: p, Generator: generator()})
	chosen, err := resolved.ChooseMarks(marks.Marks{IPv4Identification: []uint32{6}}, 5)
	if err != nil || !slices.Equal(chosen.IPv4Identification, []uint32{8, 9}) {
		t.Fatalf("got %v %v", chosen, err)
	}
	plan := resolved.Plan(Identity{Marks: chosen})
	var got []uint32
	for _, s := range plan.Streams {
		got = append(got, s.Measure.Mark.GetIpv4Identification())
	}
	if !slices.Equal(got, []uint32{8, 7, 9}) || !slices.Equal(marks.Of(plan).IPv4Identification, got) {
		t.Errorf("got %v", got)
	}
	if around, _ := resolved.ChooseMarks(marks.Marks{}, 65534); !slices.Equal(around.IPv4Identification, []uint32{65535, 1}) {
		t.Errorf("got %v", around)
	}
	if got := resolved.Plan(Identity{}).Streams[2].Measure.Mark.GetIpv4Identification(); got != 2 {
		t.Errorf("without a choice the first there are, got %d", got)
	}
	_, problems := Resolve(Input{Profile: profile(entryOf("a", "east", "west", marked("65536"))), Generator: generator()})
	if want := `spec.traffic[0].stream.inline.measure.mark.ipv4Identification: "65536": must be 1 to 65535, or auto`; !strings.Contains(problems.Message(), want) {
		t.Errorf("got %s", problems.Message())
	}
}

func TestChainsGoThroughReplays(t *testing.T) {
	data := map[spatev1.DataReference][]byte{{Kind: spatev1.DataConfigMap, Name: "captures", Key: "web"}: conversation(t, 1, 2, 1, 1, 2, 3, 1, 1, 1, 1, 1)}
	measured := func(loops *int64, change ...func(*spatev1.StatelessStreamSpec)) *spatev1.StatelessStreamSpec {
		s := replay(func(r *spatev1.ReplayTransmit) { r.Loops = loops })
		s.Measure.Flow = true
		for _, c := range change {
			c(s)
		}
		return s
	}
	once, five := ptr.To[int64](1), func() *spatev1.StatelessStreamSpec { return streamOf("", 64, burst(5, "1kpps")) }
	p := profile(chained("a", five(), false, "b", 0), chained("b", measured(once), true, "a", 3))
	resolved := mustResolve(t, Input{Profile: p, Generator: generator(), Data: data})
	streams := resolved.Plan(Identity{}).Streams
	if streams[0].Next.Stream != "b" || streams[1].Next.Stream != "a" || streams[1].Next.Times != 3 || !streams[1].Waits || streams[1].GetReplay().Loops != 1 {
		t.Errorf("got %v", streams)
	}
	// The capture has 10 kpps, and both take turns.
	if resolved.Load.Packets.Cmp(big.NewRat(10000, 1)) != 0 {
		t.Errorf("load %s", resolved.Load.Packets)
	}

	both := measured(once, func(s *spatev1.StatelessStreamSpec) {
		s.Transmit.Replay.Directions = &spatev1.ReplayDirections{By: spatev1.DirectionsByMAC}
	})
	pinned := measured(once, func(s *spatev1.StatelessStreamSpec) { s.Pinned = true })
	for name, c := range map[string]struct {
		entries []spatev1.TrafficEntry
		want    string
	}{
		"after one without an end": {[]spatev1.TrafficEntry{chained("a", measured(nil), false, "b", 0), chained("b", five(), true, "", 0)},
			"spec.traffic[0].stream.next: nothing comes after a stream without an end; use burst, or set multiBurst.bursts or replay.loops"},
		"to one without an end": {[]spatev1.TrafficEntry{chained("a", five(), false, "b", 0), chained("b", measured(nil), false, "", 0)},
			`spec.traffic[0].stream.next.entry: "b" has no end and starts by itself: set its start to Waiting`},
		"two beginnings": {[]spatev1.TrafficEntry{chained("a", five(), false, "b", 0), chained("b", measured(once), true, "c", 0), chained("c", five(), false, "", 0)},
			`spec.traffic[2].stream.start: a capture is replayed in its chain, whose entries take turns, and "a" starts by itself already: set Waiting`},
		"two streams into one": {[]spatev1.TrafficEntry{chained("a", five(), false, "c", 0), chained("b", five(), false, "c", 0), chained("c", measured(once), true, "", 0)},
			"spec.traffic[1].stream.start: a capture is replayed in its chain"},
		"both directions": {[]spatev1.TrafficEntry{chained("a", five(), false, "b", 0), chained("b", both, true, "", 0)},
			`spec.traffic[0].stream.next.entry: "b" replays both directions of a capture, each from a port of its own, and a chain stays on one port`},
		"one is pinned": {[]spatev1.TrafficEntry{chained("a", five(), false, "b", 0), chained("b", pinned, true, "", 0)}, "must both be pinned, or neither"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Resolve(Input{Profile: profile(c.entries...), Generator: generator(), Data: data})
			if !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %s\nwant %s", problems.Message(), c.want)
			}
		})
	}
}

func TestChainsWithoutReplaysMayHaveSeveralBeginnings(t *testing.T) {
	data := map[spatev1.DataReference][]byte{{Kind: spatev1.DataConfigMap, Name: "captures", Key: "web"}: recording(t, 11)}
	five := func() *spatev1.StatelessStreamSpec { return streamOf("", 64, burst(5, "1kpps")) }
	alone := entryOf("alone", "east", "", replay())
	p := profile(chained("a", five(), false, "c", 0), chained("b", five(), false, "c", 0), chained("c", five(), true, "", 0), alone)
	mustResolve(t, Input{Profile: p, Generator: generator(), Data: data})
}
