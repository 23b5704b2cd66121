// SPDX-License-Identifier: Apache-2.0

// Package stream answers: can a stream be sent, and with which packets, variations and times?
package stream

import (
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
	"spate.dev/operator/internal/plan/data"
	"spate.dev/operator/internal/plan/marks"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/quantity"
	"spate.dev/operator/internal/plan/tags"
)

// Stream is a stream that can be sent.
type Stream struct {
	// Packet of the stream, or of the first of its copies; nil for a replay.
	Packet *packet.Packet
	// Rate as described; unset for a replay.
	Rate quantity.Quantity
	// Copies are the differences of the copies' packets; nil without copies.
	Copies []Difference

	// Spec describes the stream.
	Spec *spatev1.StatelessStreamSpec
	// packet without its frame.
	packet *enginev1.Packet
	// Program varies the packets; nil without fields that vary.
	Program *enginev1.FieldProgram
	// Transmit returns the plan's transmit mode at a factor of the stream's own rate.
	Transmit TransmitMode
	// Mark of the packets; nil without one.
	Mark *marks.Request
	// StartDelay in nanoseconds.
	StartDelay uint64
}

// Count returns the number of streams that it makes.
func (s *Stream) Count() int { return max(len(s.Copies), s.Results()) }

// Results returns the number of its results: copies are counted together, directions of a replay apart.
func (s *Stream) Results() int {
	if s.Directed() {
		return 2
	}
	return 1
}

// Directed reports whether it replays both directions of a capture, the initiator's first.
func (s *Stream) Directed() bool { return s.Transmit.by != enginev1.SplitBy_SPLIT_BY_UNSPECIFIED }

// Check checks a StatelessStream by itself. The port it is sent from is not known yet, so a missing Ethernet
// destination is no problem here.
func Check(spec *spatev1.StatelessStreamSpec) (*Stream, problem.Problems) {
	return Resolve(spec, field.NewPath("spec"), Surroundings{Options: packet.Options{NextHop: packet.InternalDestination}})
}

// checker checks parts of a stream, and adds what is wrong with them to its problems.
type checker struct{ *problem.Problems }

// Surroundings are inputs beside a stream's own description.
type Surroundings struct {
	Options packet.Options
	Data    data.Data
	// Generator whose volumes are read; nil if it is not known.
	Generator *spatev1.TrafficGenerator
}

// Resolve checks a stream with what surrounds it; at is the field that describes it.
func Resolve(spec *spatev1.StatelessStreamSpec, at *field.Path, around Surroundings) (*Stream, problem.Problems) {
	var problems problem.Problems
	check := checker{&problems}
	s := &Stream{Spec: spec, StartDelay: check.Duration(spec.StartDelay, at.Child("startDelay"))}
	s.Transmit = check.transmit(&spec.Transmit, at.Child("transmit"), around)
	s.Rate = s.Transmit.rate
	check.measure(&spec.Measure, at.Child("measure"))
	s.Mark = marks.Requested(spec.Measure.Mark)
	if s.Mark != nil && s.Mark.Number != 0 && s.Directed() {
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("measure", "mark"), "one number does not tell the directions of a replay apart: set auto, which has one for each")
	}
	check.sendOptions(spec, at)
	if spec.Transmit.Replay != nil {
		check.replayed(spec, at)
		s.Program = check.program(spec.Fields, at.Child("fields"), nil, nil)
	} else {
		options := around.Options
		options.Trailer, options.SizesVary = spec.Measure.Flow, writesSize(spec.Fields)
		built, errs := packet.Build(spec.Packet, at.Child("packet"), options)
		problems.Invalid(errs)
		if built != nil {
			s.Packet, s.packet = built, planPacket(built)
			s.Program = check.program(spec.Fields, at.Child("fields"), built, s.packet)
			s.Copies = check.copies(spec.Copies, at.Child("copies"), built)
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return s, nil
}

// measure checks what is measured.
func (p checker) measure(m *spatev1.Measure, at *field.Path) {
	if m.Latency && !m.Flow {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("latency"), "latency needs flow: true")
	}
	if m.ByTag != nil {
		if !m.Flow {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("byTag"), "byTag needs flow: true")
		}
		*p.Problems = append(*p.Problems, tags.Check(m.ByTag, at.Child("byTag"))...)
	}
	if m.Mark == nil {
		return
	}
	if m.Flow || m.Latency {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("mark"), "mark counts packets without a trailer: leave flow and latency out, or mark")
	}
	*p.Problems = append(*p.Problems, marks.Check(m.Mark, at.Child("mark"))...)
}

// sendOptions checks the options of sending beside the mode.
func (p checker) sendOptions(spec *spatev1.StatelessStreamSpec, at *field.Path) {
	switch {
	case spec.Cache < 0 || spec.Cache > 10000:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("cache"), "%d: must be 0 to 10000", spec.Cache)
	case spec.Cache > 0 && spec.Measure.Flow:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("cache"), "does not go with measure.flow, which rewrites every packet; leave out one of them")
	}
}

// planPacket returns what engines need of a packet, without its frame.
func planPacket(built *packet.Packet) *enginev1.Packet {
	p := &enginev1.Packet{SourceMacFromPort: built.SourceMACFromPort, DestinationMacFromPort: built.DestinationMACFromPort}
	for _, sum := range built.Checksums {
		kind := enginev1.ChecksumKind_CHECKSUM_KIND_INTERNET
		if sum.Kind == packet.CRC32C {
			kind = enginev1.ChecksumKind_CHECKSUM_KIND_CRC32C
		}
		p.Checksums = append(p.Checksums, &enginev1.Checksum{
			Kind: kind, Offset: uint32(sum.Offset), Start: uint32(sum.Start), End: uint32(sum.End),
			PseudoHeaderSum: sum.PseudoHeaderSum, AddressesStart: uint32(sum.AddressesStart), AddressesEnd: uint32(sum.AddressesEnd),
			LengthMinus: uint32(sum.LengthMinus), ZeroMeansAbsent: sum.ZeroMeansAbsent,
		})
	}
	for _, l := range built.Lengths {
		p.Lengths = append(p.Lengths, &enginev1.Length{Offset: uint32(l.Offset), Size: 2, Minus: uint32(l.Minus)})
	}
	if sizes := built.Sizes; sizes != nil && sizes.Range == nil {
		list := &enginev1.SizeList{Random: sizes.Random, Seed: sizes.Seed}
		for _, size := range sizes.List {
			list.Sizes = append(list.Sizes, &enginev1.WeightedSize{Bytes: uint32(size.Bytes), Weight: uint32(size.Weight)})
		}
		p.Sizes = &enginev1.Sizes{Kind: &enginev1.Sizes_List{List: list}}
	}
	return p
}

// PacketBytes returns the size of a packet of the stream in a plan; 0 for a replay.
func (s *Stream) PacketBytes() int64 {
	if s.Packet == nil {
		return 0
	}
	return int64(len(s.Packet.Frame) + proto.Size(s.packet))
}

// PlanPacket returns the packet of the first copy.
func (s *Stream) PlanPacket() *enginev1.Packet {
	p := s.packet
	return &enginev1.Packet{
		Frame: s.Packet.Frame, SourceMacFromPort: p.SourceMacFromPort, DestinationMacFromPort: p.DestinationMacFromPort,
		Checksums: p.Checksums, Lengths: p.Lengths, Sizes: p.Sizes,
	}
}
