// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"math/big"
	"slices"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/plan/marks"
	"spate.dev/operator/internal/plan/origin"
)

// bothWays replays both directions of a capture.
func bothWays(by spatev1.DirectionsBy, change ...func(*spatev1.StatelessStreamSpec)) *spatev1.StatelessStreamSpec {
	s := replay(func(r *spatev1.ReplayTransmit) { r.Directions = &spatev1.ReplayDirections{By: by} })
	for _, c := range change {
		c(s)
	}
	return s
}

func measured(s *spatev1.StatelessStreamSpec) { s.Measure.Flow = true }

// talk is a capture of nine packets, of which host 1 sends the first and five others.
func talk(t *testing.T) map[spatev1.DataReference][]byte {
	t.Helper()
	return map[spatev1.DataReference][]byte{{Kind: spatev1.DataConfigMap, Name: "captures", Key: "web"}: conversation(t, 1, 2, 1, 1, 2, 3, 1, 1, 1)}
}

func TestBothDirectionsOfAReplayAreStreamsThatLeaveFromBothPorts(t *testing.T) {
	data := talk(t)
	flow := entryOf("call", "east", "west", bothWays(spatev1.DirectionsByIP, measured))
	flow.Paused = true
	p := profile(entryOf("before", "east", "west", streamOf("1kpps", 64)), flow, entryOf("silent", "west", "east", bothWays(spatev1.DirectionsByMAC)))
	p.Spec.Rate = "2x"
	resolved := mustResolve(t, Input{Profile: p, Generator: generator(), Data: data})
	streams := resolved.Plan(Identity{RunID: "r"}).Streams
	by, both := enginev1.SplitBy_SPLIT_BY_IP, enginev1.SplitBy_SPLIT_BY_MAC
	for i, want := range []struct {
		name, from, to string
		half           *enginev1.Half
		paused         bool
	}{
		{"before", "east", "west", nil, false},
		{"call-initiator", "east", "west", &enginev1.Half{By: by, Other: 2}, true},
		{"call-responder", "west", "east", &enginev1.Half{By: by, Responder: true, Other: 1}, true},
		{"silent-initiator", "west", "", &enginev1.Half{By: both, Other: 4}, false},
		{"silent-responder", "east", "", &enginev1.Half{By: both, Responder: true, Other: 3}, false},
	} {
		s := streams[i]
		if s.Name != want.name || s.Id != uint32(i) || s.TxPort != want.from || s.RxPort != want.to || s.Paused != want.paused || s.Group != "" {
			t.Errorf("stream %d is %v, want %v", i, s, want)
		}
		if want.half == nil {
			continue
		}
		r := s.GetReplay()
		if half := r.GetHalf(); half.GetBy() != want.half.By || half.GetResponder() != want.half.Responder || half.GetOther() != want.half.Other {
			t.Errorf("%s replays %v, want %v", s.Name, half, want.half)
		}
		// The capture's own rate is 10 kpps.
		if scale := r.GetScale(); !bytes.Equal(r.GetPcap(), conversation(t, 1, 2, 1, 1, 2, 3, 1, 1, 1)) || scale.GetNumerator() != 1 || scale.GetDenominator() != 2 {
			t.Errorf("%s replays %v", s.Name, r)
		}
	}
	// Of 20 kpps, six of nine packets are the initiator's, in each of the entries.
	for port, want := range map[string]*big.Rat{"east": big.NewRat(2000+20000, 1), "west": big.NewRat(20000, 1)} {
		if got := resolved.Load.Ports[load.Place{Port: port}].Packets; got.Cmp(want) != 0 {
			t.Errorf("%s sends %s, want %s", port, got, want)
		}
	}
	snapshot := resolved.Entries[1]
	if snapshot.Name != "call" || snapshot.Selected != 2 || snapshot.Rate != "" || !snapshot.Paused {
		t.Errorf("the snapshot is %+v", snapshot)
	}
	if got := origin.Selected(streams, resolved.Entries); !slices.Equal(got["call"], []string{"call-initiator", "call-responder"}) || len(got) != 2 {
		t.Errorf("the entries have the streams %v", got)
	}
	o := origin.Of(resolved.Plan(Identity{}), resolved.Entries, resolved.Clients)
	if got, want := o.Refused("streams[2].replay.pcap", "x").Problem(p).Error(), "spec.traffic[1].stream.inline.transmit.replay.pcap.from: the engine would refuse it: x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheLoadOfOneDirectionIsItsPartOfTheCapture(t *testing.T) {
	reference := spatev1.DataReference{Kind: spatev1.DataSecret, Name: "captures", Key: "web"}
	of := bothWays(spatev1.DirectionsByMAC)
	of.Transmit.Replay.Pcap.From = fromSecret("captures", "web")
	p := profile(entryOf("call", "east", "west", of))
	resolved := mustResolve(t, Input{Profile: p, Generator: generator(), Data: map[spatev1.DataReference][]byte{reference: conversation(t, 1, 2, 1, 1)}})
	streams := resolved.Plan(Identity{}).Streams
	for i, packets := range []uint64{3, 1} {
		data := streams[i].GetReplay().GetData()
		if c := data.GetCapture(); c.GetPackets() != packets || c.GetBytes() != packets*124 || c.GetCaptured() != 4 || c.GetSpanNs() != 300000 {
			t.Errorf("%s has of its capture %v", streams[i].Name, c)
		}
		want := big.NewRat(10000*int64(packets), 4)
		if got := resolved.Load.Ports[load.Place{Port: streams[i].TxPort}].Packets; got.Cmp(want) != 0 {
			t.Errorf("%s sends %s, want %s", streams[i].TxPort, got, want)
		}
	}
	if got := resolved.Load.Packets; got.Cmp(big.NewRat(10000, 1)) != 0 {
		t.Errorf("both send %s", got)
	}

	// Of a capture on a volume only the gap is known.
	onVolume := bothWays(spatev1.DirectionsByMAC)
	fromVolume("a")(onVolume.Transmit.Replay)
	onVolume.Transmit.Replay.Gap = &spatev1.ReplayGap{Fixed: "10us"}
	withVolume := generator(func(g *spatev1.TrafficGenerator) { g.Spec.Volumes = []spatev1.GeneratorVolume{{Name: "captures"}} })
	resolved = mustResolve(t, Input{Profile: profile(entryOf("call", "east", "west", onVolume)), Generator: withVolume})
	if got := resolved.Load.Packets; got.Cmp(big.NewRat(100000, 1)) != 0 {
		t.Errorf("both send %s", got)
	}
}

func TestAnOutlineHasTheLoadOfEachDirection(t *testing.T) {
	resolved := mustResolve(t, Input{Profile: profile(entryOf("call", "east", "west", bothWays(spatev1.DirectionsByMAC))), Generator: generator(), Data: talk(t)})
	var written bytes.Buffer
	if err := resolved.Write(&written, Identity{RunID: "r"}); err != nil {
		t.Fatal(err)
	}
	outline, err := ReadOutline(&written)
	if err != nil {
		t.Fatal(err)
	}
	got, err := load.Of(outline)
	if err != nil || got.Ports[load.Place{Port: "west"}].Packets.Cmp(big.NewRat(10000, 3)) != 0 || got.Packets.Cmp(big.NewRat(10000, 1)) != 0 {
		t.Errorf("got %v, %v", got.Ports, err)
	}
}

func TestASelectedStreamMayReplayBothDirections(t *testing.T) {
	of := bothWays(spatev1.DirectionsByMAC, measured)
	in := Input{Profile: profile(entryOf("", "east", "west", nil)), Generator: generator(), Data: talk(t), Streams: map[string]*spatev1.StatelessStream{}}
	e := &in.Profile.Spec.Traffic[0]
	e.Name, e.Stream = "all", &spatev1.StreamEntry{Selector: &spatev1.StreamSelector{MatchLabels: map[string]string{"set": "x"}}}
	for name, sent := range map[string]*spatev1.StatelessStreamSpec{"a-one": streamOf("1kpps", 64), "b-call": of} {
		s := &spatev1.StatelessStream{Spec: *sent}
		s.Name, s.Labels = name, map[string]string{"set": "x"}
		in.Streams[name] = s
	}
	resolved := mustResolve(t, in)
	plan := resolved.Plan(Identity{})
	if got := origin.Selected(plan.Streams, resolved.Entries)["all"]; !slices.Equal(got, []string{"a-one", "b-call-initiator", "b-call-responder"}) {
		t.Errorf("the entry has the streams %v of %v", got, resolved.Entries)
	}
	want := `spec.traffic[0].stream.selector: StatelessStream "b-call": spec.transmit.replay.gap.scale: the engine would refuse it: x`
	if got := origin.Of(plan, resolved.Entries, resolved.Clients).Refused("streams[2].replay.scale", "x").Problem(in.Profile).Error(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEachDirectionHasItsMark(t *testing.T) {
	auto := spatev1.IPv4MarkValue("auto")
	marked := bothWays(spatev1.DirectionsByMAC, func(s *spatev1.StatelessStreamSpec) { s.Measure.Mark = &spatev1.Mark{IPv4Identification: &auto} })
	resolved := mustResolve(t, Input{Profile: profile(entryOf("call", "east", "west", marked)), Generator: generator(), Data: talk(t)})
	chosen, err := resolved.ChooseMarks(marks.Marks{IPv4Identification: []uint32{6}}, 5)
	if err != nil || !slices.Equal(chosen.IPv4Identification, []uint32{7, 8}) {
		t.Fatalf("got %v, %v", chosen, err)
	}
	for i, s := range resolved.Plan(Identity{Marks: chosen}).Streams {
		if got := s.Measure.Mark.GetIpv4Identification(); got != uint32(7+i) || s.RxPort == "" {
			t.Errorf("%s has mark %d, and is expected at %q", s.Name, got, s.RxPort)
		}
	}
}

func TestThresholdsNameDirections(t *testing.T) {
	for expression, want := range map[string]string{
		`result.streams["call-responder"].lost == 0`:                    "",
		`result.streams["call-initiator"].rx > 0`:                       "",
		`result.streams["call"].lost == 0`:                              `spec.thresholds[0].expression`,
		`result.streams["call-initiator"].latency.p50 > duration("0s")`: `spec.thresholds[0].expression`,
	} {
		p := profile(entryOf("call", "east", "west", bothWays(spatev1.DirectionsByMAC, measured)))
		p.Spec.Thresholds = []spatev1.Threshold{{Name: "t", Expression: expression}}
		_, problems := Resolve(Input{Profile: p, Generator: generator(), Data: talk(t)})
		if (want == "") != (len(problems) == 0) || !strings.Contains(problems.Message(), want) {
			t.Errorf("%s: %s", expression, problems.Message())
		}
	}
}

func TestDirectionsThatCannotBeReplayedAreRefused(t *testing.T) {
	number := spatev1.IPv4MarkValue("7")
	one := map[spatev1.DataReference][]byte{{Kind: spatev1.DataConfigMap, Name: "captures", Key: "web"}: recording(t, 3)}
	const at = "spec.traffic[0].stream.inline."
	for name, c := range map[string]struct {
		stream     *spatev1.StatelessStreamSpec
		data       map[spatev1.DataReference][]byte
		to         string
		after      string // another entry
		want, path string
	}{
		"one side by MAC":  {bothWays(spatev1.DirectionsByMAC), one, "west", "", "all 3 packets of the capture have the same source MAC, so that there is no other side: leave directions out", at + "transmit.replay.directions"},
		"one side by IP":   {bothWays(spatev1.DirectionsByIP), one, "west", "", "all 3 packets of the capture have the same source IP address, or none, so that", at + "transmit.replay.directions"},
		"pcap":             {bothWays(spatev1.DirectionsByInterface), talk(t), "west", "", "all 9 packets of the capture are of one interface (pcap has no more; pcapng has), so that", at + "transmit.replay.directions"},
		"by something":     {bothWays("Port"), talk(t), "west", "", `"Port": must be MAC, IP or Interface`, at + "transmit.replay.directions.by"},
		"a least gap":      {bothWays(spatev1.DirectionsByMAC, func(s *spatev1.StatelessStreamSpec) { s.Transmit.Replay.MinGap = "1us" }), talk(t), "west", "", "does not go with directions", at + "transmit.replay.minGap"},
		"one mark":         {bothWays(spatev1.DirectionsByMAC, func(s *spatev1.StatelessStreamSpec) { s.Measure.Mark = &spatev1.Mark{IPv4Identification: &number} }), talk(t), "west", "", "set auto", at + "measure.mark"},
		"one port":         {bothWays(spatev1.DirectionsByMAC), talk(t), "", "", "is required: the port that sends the packets of the capture's other direction", "spec.traffic[0].receivePort"},
		"no such port":     {bothWays(spatev1.DirectionsByMAC), talk(t), "north", "", `"north" is no port of generator lab`, "spec.traffic[0].receivePort"},
		"to a loop":        {bothWays(spatev1.DirectionsByMAC, measured), talk(t), "loop", "", "must be the same", "spec.traffic[0].receivePort"},
		"nothing receives": {bothWays(spatev1.DirectionsByMAC, measured), talk(t), "void", "", "is a discard port and receives nothing", "spec.traffic[0].receivePort"},
		"its name taken":   {bothWays(spatev1.DirectionsByMAC), talk(t), "west", "call-responder", `"call" has a stream "call-responder", too`, "spec.traffic[1].name"},
	} {
		t.Run(name, func(t *testing.T) {
			p := profile(entryOf("call", "east", c.to, c.stream))
			if c.after != "" {
				p.Spec.Traffic = append(p.Spec.Traffic, entryOf(c.after, "east", "west", streamOf("1pps", 64)))
			}
			_, problems := Resolve(Input{Profile: p, Generator: generator(), Data: c.data})
			if len(problems) != 1 || problems[0].Path != c.path || !strings.Contains(problems[0].Message, c.want) {
				t.Errorf("got %s\nwant %s: %s", problems.Message(), c.path, c.want)
			}
		})
	}
}

// Nothing of them is received, so that any port may send them.
func TestDirectionsThatAreNotMeasuredMayBeDiscarded(t *testing.T) {
	resolved := mustResolve(t, Input{Profile: profile(entryOf("call", "loop", "void", bothWays(spatev1.DirectionsByMAC))), Generator: generator(), Data: talk(t)})
	if streams := resolved.Plan(Identity{}).Streams; streams[0].TxPort != "loop" || streams[1].TxPort != "void" || streams[0].RxPort+streams[1].RxPort != "" {
		t.Errorf("got %v", streams)
	}
}

func TestPortsOfDirectionsAreThoseOfAGeneratorWithTwo(t *testing.T) {
	two := generator(func(g *spatev1.TrafficGenerator) { g.Spec.Ports = g.Spec.Ports[:2] })
	resolved := mustResolve(t, Input{Profile: profile(entryOf("call", "", "", bothWays(spatev1.DirectionsByMAC))), Generator: two, Data: talk(t)})
	if streams := resolved.Plan(Identity{}).Streams; streams[0].TxPort != "east" || streams[1].TxPort != "west" {
		t.Errorf("got %v", streams)
	}
}
