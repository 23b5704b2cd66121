// SPDX-License-Identifier: Apache-2.0

// When are a stream's packets sent?

package stream

import (
	"errors"
	"math/big"
	"path"
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/capture"
	"spate.dev/operator/internal/plan/data"
	"spate.dev/operator/internal/plan/quantity"
)

var (
	errNoSuchGap = errors.New("a replay's gap would be less than 1 ns; lower the factor")
	decimal      = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,12})?$`)
)

// TransmitMode is a transmit mode of a plan without a rate.
type TransmitMode struct {
	rate   quantity.Quantity
	Bursts *enginev1.Bursts
	Replay *enginev1.Replay
	// Capture that is replayed, if it could be read.
	Capture *capture.Capture
	// by distinguishes the directions of a replay, each of which is a stream; unspecified if it is one stream.
	by enginev1.SplitBy
}

// Endless reports whether the stream has no last packet.
func (m *TransmitMode) Endless() bool {
	switch {
	case m.Bursts != nil:
		return m.Bursts.Count == 0
	case m.Replay != nil:
		return m.Replay.Loops == 0
	}
	return true
}

func (p checker) transmit(t *spatev1.Transmit, at *field.Path, around Surroundings) TransmitMode {
	set := 0
	for _, present := range []bool{t.Continuous != nil, t.Burst != nil, t.MultiBurst != nil, t.Replay != nil} {
		if present {
			set++
		}
	}
	if set != 1 {
		p.Add(spatev1.ReasonInvalidSpec, at, "set exactly one of continuous, burst, multiBurst and replay")
		return TransmitMode{}
	}
	switch {
	case t.Continuous != nil:
		return TransmitMode{rate: p.rate(t.Continuous.Rate, at.Child("continuous", "rate"))}
	case t.Burst != nil:
		at := at.Child("burst")
		p.AtLeastOne(t.Burst.Packets, at.Child("packets"))
		return TransmitMode{
			rate:   p.rate(t.Burst.Rate, at.Child("rate")),
			Bursts: &enginev1.Bursts{Packets: uint64(t.Burst.Packets), Count: 1},
		}
	case t.MultiBurst != nil:
		return p.multiBurst(t.MultiBurst, at.Child("multiBurst"))
	}
	return p.replay(t.Replay, at.Child("replay"), around)
}

func (p checker) multiBurst(m *spatev1.MultiBurstTransmit, at *field.Path) TransmitMode {
	p.AtLeastOne(m.PacketsPerBurst, at.Child("packetsPerBurst"))
	bursts := &enginev1.Bursts{Packets: uint64(m.PacketsPerBurst), GapNs: p.Duration(m.InterBurstGap, at.Child("interBurstGap"))}
	if m.Bursts != nil {
		p.AtLeastOne(*m.Bursts, at.Child("bursts"))
		bursts.Count = uint64(*m.Bursts)
	}
	if bursts.GapNs == 0 && bursts.Packets == 1 && bursts.Count != 1 {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("interBurstGap"), "must be greater than zero where bursts are of one packet: all would leave at one instant")
	}
	return TransmitMode{rate: p.rate(m.Rate, at.Child("rate")), Bursts: bursts}
}

func (p checker) rate(text spatev1.Rate, at *field.Path) quantity.Quantity {
	rate, err := quantity.ParseRate(text)
	if err != nil {
		p.Add(spatev1.ReasonInvalidSpec, at, "%q: %v", text, err)
	}
	return rate
}

func (p checker) replay(r *spatev1.ReplayTransmit, at *field.Path, around Surroundings) TransmitMode {
	replay := &enginev1.Replay{
		MinGapNs: p.Duration(r.MinGap, at.Child("minGap")), FixChecksums: r.FixChecksums,
		Gap: &enginev1.Replay_Scale{Scale: &enginev1.Ratio{Numerator: 1, Denominator: 1}},
	}
	mode := TransmitMode{Replay: replay}
	if r.Loops != nil {
		p.AtLeastOne(*r.Loops, at.Child("loops"))
		replay.Loops = uint64(*r.Loops)
	}
	if r.Gap != nil {
		p.gap(r.Gap, replay, at.Child("gap"))
	}
	if r.Directions != nil {
		mode.by = p.directions(r, at)
	}
	p.source(r, &mode, at.Child("pcap"), around)
	if mode.Capture != nil && r.Directions != nil {
		p.bothSides(&mode, at.Child("directions"))
	}
	return mode
}

// source reads the capture of a replay.
func (p checker) source(r *spatev1.ReplayTransmit, mode *TransmitMode, at *field.Path, around Surroundings) {
	switch source := r.Pcap; {
	case (source.From != nil) == (source.Volume != nil):
		p.Add(spatev1.ReasonInvalidSpec, at, "set exactly one of from and volume")
	case source.Volume != nil:
		*p.Problems = append(*p.Problems, data.CheckVolume(source.Volume, at.Child("volume"), around.Generator)...)
		mode.Replay.Source = &enginev1.Replay_Path{Path: path.Join(data.VolumesDir, string(source.Volume.Name), source.Volume.Path)}
	case around.Data.Bytes != nil:
		bytes, found := around.Data.Bytes[source.From.Reference()]
		if !found {
			p.Add(spatev1.ReasonReferenceNotFound, at.Child("from"), "%s does not exist: apply it, or correct name and key", data.NameOf(source.From.Reference()))
			break
		}
		read, err := capture.Read(bytes)
		if err != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("from"), "%s: %v", data.NameOf(source.From.Reference()), err)
			break
		}
		mode.Capture = read
		mode.Replay.Source = &enginev1.Replay_Pcap{Pcap: bytes}
		if ref := around.Data.Ref(source.From, bytes); ref != nil {
			ref.Capture = read.Summary(nil)
			mode.Replay.Source = &enginev1.Replay_Data{Data: ref}
		}
	}
}

// splits are the ways to tell directions apart.
var splits = map[spatev1.DirectionsBy]enginev1.SplitBy{
	spatev1.DirectionsByMAC: enginev1.SplitBy_SPLIT_BY_MAC, spatev1.DirectionsByIP: enginev1.SplitBy_SPLIT_BY_IP, spatev1.DirectionsByInterface: enginev1.SplitBy_SPLIT_BY_INTERFACE,
}

// inCommon is what all packets of a capture have in common that has one direction only.
var inCommon = map[enginev1.SplitBy]string{
	enginev1.SplitBy_SPLIT_BY_MAC: "have the same source MAC", enginev1.SplitBy_SPLIT_BY_IP: "have the same source IP address, or none",
	enginev1.SplitBy_SPLIT_BY_INTERFACE: "are of one interface (pcap has no more; pcapng has)",
}

// bothSides reports a capture that has one side of a conversation only.
func (p checker) bothSides(mode *TransmitMode, at *field.Path) {
	if responder := mode.Capture.Summary(&enginev1.Half{By: mode.by, Responder: true}); responder.Packets == 0 && inCommon[mode.by] != "" {
		p.Add(spatev1.ReasonInvalidSpec, at, "all %d packets of the capture %s, so that there is no other side: leave directions out, or set another by", responder.Captured, inCommon[mode.by])
	}
}

func (p checker) directions(r *spatev1.ReplayTransmit, at *field.Path) enginev1.SplitBy {
	if r.MinGap != "" {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("minGap"), "does not go with directions, since it would delay one of them and not the other: leave it out, or set gap.fixed")
	}
	by, known := splits[r.Directions.By]
	if !known {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("directions", "by"), "%q: must be MAC, IP or Interface", r.Directions.By)
	}
	return by
}

func (p checker) gap(gap *spatev1.ReplayGap, replay *enginev1.Replay, at *field.Path) {
	switch {
	case (gap.Scale != "") == (gap.Fixed != ""):
		p.Add(spatev1.ReasonInvalidSpec, at, "set exactly one of scale and fixed")
	case gap.Fixed != "":
		fixed := p.Duration(gap.Fixed, at.Child("fixed"))
		if fixed == 0 {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("fixed"), "must be greater than zero")
		}
		replay.Gap = &enginev1.Replay_FixedNs{FixedNs: fixed}
	default:
		scale, ok := new(big.Rat).SetString(gap.Scale)
		if !ok || scale.Sign() <= 0 || !decimal.MatchString(gap.Scale) {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("scale"), "%q: must be a decimal number greater than zero such as 1 or 0.5", gap.Scale)
			return
		}
		ratio, err := quantity.Ratio(scale)
		if err != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("scale"), "%q: %v", gap.Scale, err)
			return
		}
		replay.Gap = &enginev1.Replay_Scale{Scale: ratio}
	}
}

// replayed refuses settings that are not valid for the packets of a capture.
func (p checker) replayed(spec *spatev1.StatelessStreamSpec, at *field.Path) {
	if spec.Packet != nil {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("packet"), "does not go with transmit.replay, which sends the packets of its capture")
	}
	if spec.Copies != nil {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("copies"), "does not go with transmit.replay; write an entry for each")
	}
	if spec.Cache > 0 {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("cache"), "does not go with transmit.replay")
	}
}

// At returns the plan's mode with the stream's absolute rate times a factor, which also speeds up replays.
func (m *TransmitMode) At(rate quantity.Quantity, factor *big.Rat, stream *enginev1.Stream) error {
	if m.Replay != nil {
		return m.replayAt(factor, stream)
	}
	scaled, err := quantity.RateRatio(rate.Unit, new(big.Rat).Mul(rate.Value, factor))
	if err != nil {
		return err
	}
	if m.Bursts == nil {
		stream.Transmit = &enginev1.Stream_Continuous{Continuous: &enginev1.Continuous{Rate: quantity.PlanRate(rate.Unit, scaled)}}
		return nil
	}
	stream.Transmit = &enginev1.Stream_Bursts{Bursts: &enginev1.Bursts{
		Rate: quantity.PlanRate(rate.Unit, scaled), Packets: m.Bursts.Packets, Count: m.Bursts.Count, GapNs: m.Bursts.GapNs,
	}}
	return nil
}

// Divide makes of a stream, whose mode is that of At, the stream of one direction of a replay. Those of both follow each other.
func (m *TransmitMode) Divide(s *enginev1.Stream, responder bool) {
	whole := s.GetReplay()
	half := &enginev1.Half{By: m.by, Responder: responder, Other: s.Id + 1}
	if responder {
		half.Other = s.Id - 1
	}
	replay := &enginev1.Replay{Source: whole.GetSource(), Gap: whole.GetGap(), Loops: whole.GetLoops(), FixChecksums: whole.GetFixChecksums(), Half: half}
	if data := whole.GetData(); data != nil {
		replay.Source = &enginev1.Replay_Data{Data: &enginev1.DataRef{Index: data.Index, Bytes: data.Bytes, Capture: m.Capture.Summary(half)}}
	}
	s.Transmit = &enginev1.Stream_Replay{Replay: replay}
}

func (m *TransmitMode) replayAt(factor *big.Rat, stream *enginev1.Stream) error {
	r := m.Replay
	replay := &enginev1.Replay{Source: r.Source, Gap: r.Gap, Loops: r.Loops, MinGapNs: r.MinGapNs, FixChecksums: r.FixChecksums}
	switch gap := r.Gap.(type) {
	case *enginev1.Replay_FixedNs:
		fixed := new(big.Rat).Quo(new(big.Rat).SetInt(new(big.Int).SetUint64(gap.FixedNs)), factor)
		ns := new(big.Int).Quo(fixed.Num(), fixed.Denom())
		if !ns.IsUint64() || ns.Sign() == 0 {
			return errNoSuchGap
		}
		replay.Gap = &enginev1.Replay_FixedNs{FixedNs: ns.Uint64()}
	case *enginev1.Replay_Scale:
		scale, err := quantity.Ratio(new(big.Rat).Quo(quantity.Rational(gap.Scale), factor))
		if err != nil {
			return err
		}
		replay.Gap = &enginev1.Replay_Scale{Scale: scale}
	}
	stream.Transmit = &enginev1.Stream_Replay{Replay: replay}
	return nil
}
