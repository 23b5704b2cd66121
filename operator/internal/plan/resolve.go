// SPDX-License-Identifier: Apache-2.0

// Package plan turns a profile and what it refers to into a plan for engines, or tells what keeps it from being one.
// Pure functions: no client, no clock.
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"net"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/operator/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
)

// Input is a profile and what was found of what it refers to.
type Input struct {
	Profile *spatev1.TrafficProfile
	// Generator is the referenced one, or the profile's own when it exists; nil if there is none.
	Generator *spatev1.TrafficGenerator
	// Streams and Templates in the profile's namespace, by name.
	Streams   map[string]*spatev1.StatelessStream
	Templates map[string]*spatev1.ASTFTemplate
}

// Resolved is a profile that can be run.
type Resolved struct {
	// Factor is spec.rate as a factor on the entries' own rates.
	Factor *big.Rat
	// Load of the whole at that factor.
	Load Load
	// References are the streams it was resolved from.
	References []spatev1.ReferenceSnapshot

	timing *enginev1.Timing
	lease  time.Duration
	// lateAfter is how long after its time a packet counts as late; 0 leaves it to the engine.
	lateAfter time.Duration
	streams   []*enginev1.Stream
}

var spec = field.NewPath("spec")

// Resolve makes a profile into what can be run, or tells every problem there is. Of a generator that is missing
// nothing is asked that could only be told with it.
func Resolve(in Input) (*Resolved, Problems) {
	var problems Problems
	generator := in.Generator
	if generator == nil && in.Profile.Spec.Generator != nil {
		generator = &spatev1.TrafficGenerator{Spec: *in.Profile.Spec.Generator}
		generator.Name, generator.Namespace = in.Profile.Name, in.Profile.Namespace
	}
	switch {
	case in.Profile.Spec.Generator != nil:
		problems = append(problems, checkGenerator(in.Profile.Spec.Generator, spec.Child("generator"))...)
	case generator == nil && in.Profile.Spec.GeneratorRef != nil:
		problems.add(spatev1.ReasonReferenceNotFound, spec.Child("generatorRef", "name"),
			"TrafficGenerator %q does not exist in namespace %s", in.Profile.Spec.GeneratorRef.Name, generatorNamespace(in.Profile))
	case generator == nil:
		problems.add(spatev1.ReasonInvalidSpec, spec, "set exactly one of generatorRef and generator")
	default:
		problems = append(problems, CheckGenerator(&generator.Spec).within(spec.Child("generatorRef"), "TrafficGenerator", generator.Name)...)
	}
	resolved := &Resolved{}
	resolved.timing, resolved.lease = timing(in.Profile, generator, &problems)
	if generator != nil && generator.Spec.CPUPolicy == spatev1.CPUShared {
		resolved.lateAfter = sharedLateAfter
	}
	entries := make([]entry, 0, len(in.Profile.Spec.Traffic))
	for i := range in.Profile.Spec.Traffic {
		e, found := resolveEntry(in, generator, i)
		problems = append(problems, found...)
		entries = append(entries, e)
	}
	resolved.References = references(in)
	if len(problems) > 0 {
		return nil, problems
	}
	resolved.scale(in.Profile.Spec.Rate, entries, &problems)
	if len(problems) > 0 {
		return nil, problems
	}
	if problems = CheckLoad(resolved.Load, generator, rateField(in.Profile)); len(problems) > 0 {
		return nil, problems
	}
	return resolved, nil
}

func generatorNamespace(profile *spatev1.TrafficProfile) string {
	if ref := profile.Spec.GeneratorRef; ref != nil && ref.Namespace != "" {
		return ref.Namespace
	}
	return profile.Namespace
}

// rateField is the field to blame for the sum of all rates.
func rateField(profile *spatev1.TrafficProfile) *field.Path {
	if profile.Spec.Rate != "" {
		return spec.Child("rate")
	}
	return spec.Child("traffic")
}

// sharedLateAfter is what a scheduler that shares CPUs out may take; on CPUs of its own an engine judges more strictly.
const sharedLateAfter = 20 * time.Millisecond

func timing(profile *spatev1.TrafficProfile, generator *spatev1.TrafficGenerator, problems *Problems) (*enginev1.Timing, time.Duration) {
	read := func(text spatev1.Duration, at *field.Path) time.Duration {
		if text == "" {
			return 0
		}
		duration, err := text.Parse()
		if err != nil || duration < 0 {
			problems.add(spatev1.ReasonInvalidSpec, at, "%q must be a duration such as 500ms, 10s or 1m30s", text)
			return 0
		}
		return duration
	}
	lease := time.Duration(0)
	if generator != nil {
		lease = read(generator.Spec.Lease, spec.Child("generator", "lease"))
	}
	return &enginev1.Timing{
		WarmupNs:   uint64(read(profile.Spec.Warmup, spec.Child("warmup"))),
		DurationNs: uint64(read(profile.Spec.Duration, spec.Child("duration"))),
		DrainNs:    uint64(read(profile.Spec.Drain, spec.Child("drain"))),
	}, lease
}

// entry is one entry of a profile's traffic on its way into a plan.
type entry struct {
	at      *field.Path
	spec    *spatev1.TrafficEntry
	stream  *Stream
	enabled bool
	// rate is absolute.
	rate Quantity
}

func resolveEntry(in Input, generator *spatev1.TrafficGenerator, index int) (entry, Problems) {
	var problems Problems
	at := spec.Child("traffic").Index(index)
	e := entry{at: at, spec: &in.Profile.Spec.Traffic[index]}
	var source *spatev1.StatelessStreamSpec
	within := func(found Problems) Problems { return found }
	sourceAt, streamAt := at.Child("stream"), at.Child("stream")
	switch {
	case e.spec.Stream != nil:
		source = e.spec.Stream
	case e.spec.StreamRef != nil:
		name := string(e.spec.StreamRef.Name)
		sourceAt, streamAt = at.Child("streamRef"), spec
		found := in.Streams[name]
		if found == nil {
			problems.add(spatev1.ReasonReferenceNotFound, sourceAt.Child("name"), "StatelessStream %q does not exist in namespace %s", name, in.Profile.Namespace)
			break
		}
		source = &found.Spec
		within = func(found Problems) Problems { return found.within(sourceAt, "StatelessStream", name) }
	case e.spec.TemplateRef != nil:
		problems.add(spatev1.ReasonNotSupported, at.Child("templateRef"), "the engine does not run templates yet; use a stream")
	default:
		problems.add(spatev1.ReasonInvalidSpec, at, "set exactly one of streamRef, stream and templateRef")
	}
	if source == nil {
		// What the stream measures is not known: its receivePort may be right.
		problems = append(problems, checkPorts(e.spec, e.spec.ReceivePort != "", generator, at)...)
		return e, problems
	}
	stream, found := checkStream(source, streamAt, nextHop(e.spec, generator))
	problems = append(problems, within(found)...)
	problems = append(problems, checkPorts(e.spec, source.Measure.Flow, generator, at)...)
	if stream == nil || len(problems) > 0 {
		return e, problems
	}
	e.stream, e.enabled, e.rate = stream, source.IsEnabled(), stream.Rate
	rateAt := sourceAt
	if e.spec.Rate != "" {
		rate, err := ParseRate(e.spec.Rate)
		if err != nil {
			problems.add(spatev1.ReasonInvalidSpec, at.Child("rate"), "%q: %v", e.spec.Rate, err)
			return e, problems
		}
		rateAt, e.rate = at.Child("rate"), rate
	}
	if generator == nil {
		return e, problems // told once for the profile
	}
	problems = append(problems, checkDestinations(stream.Packet.Frame, generator, sourceAt)...)
	e.rate = absolute(e.rate, string(e.spec.TransmitPort), generator, rateAt, &problems)
	return e, problems
}

// nextHop is what stands for a missing Ethernet destination: something only where the port leads nowhere, or where the
// port is not known and told to be wrong.
func nextHop(e *spatev1.TrafficEntry, generator *spatev1.TrafficGenerator) net.HardwareAddr {
	if generator == nil {
		return packet.InternalDestination
	}
	port := newPorts(generator).find(string(e.TransmitPort))
	if port == nil || internal(port) {
		return packet.InternalDestination
	}
	return nil
}

// checkPorts tells whether the ports exist, and whether packets of one can arrive at the other.
func checkPorts(e *spatev1.TrafficEntry, flow bool, generator *spatev1.TrafficGenerator, at *field.Path) Problems {
	var problems Problems
	transmit, receive := string(e.TransmitPort), string(e.ReceivePort)
	switch {
	case flow && receive == "":
		problems.add(spatev1.ReasonInvalidSpec, at.Child("receivePort"), "the stream measures flow: name the port its packets are expected at, or leave measure.flow out")
	case !flow && receive != "" && e.TemplateRef == nil && (e.Stream != nil || e.StreamRef != nil):
		problems.add(spatev1.ReasonInvalidSpec, at.Child("receivePort"), "nothing of the stream is measured at %s: set its measure.flow, or leave receivePort out", receive)
	}
	if generator == nil {
		return problems
	}
	all := newPorts(generator)
	unknown := func(child, name string) {
		problems.add(spatev1.ReasonInvalidSpec, at.Child(child), "%q is no port of generator %s; it has %s", name, generator.Name, all.names())
	}
	from, to := all.find(transmit), all.find(receive)
	if from == nil {
		unknown("transmitPort", transmit)
	}
	if receive != "" && to == nil {
		unknown("receivePort", receive)
	}
	if from == nil || to == nil {
		return problems
	}
	switch {
	case to.Attachment.Null != nil:
		problems.add(spatev1.ReasonInvalidSpec, at.Child("receivePort"), "%s is a null port and receives nothing; leave receivePort and measure.flow out", receive)
	case from.Attachment.Null != nil:
		problems.add(spatev1.ReasonInvalidSpec, at.Child("receivePort"), "what the null port %s sends arrives nowhere; leave receivePort and measure.flow out", transmit)
	case (from.Attachment.Loopback != nil || to.Attachment.Loopback != nil) && from != to:
		problems.add(spatev1.ReasonInvalidSpec, at.Child("receivePort"), "a loopback port receives what itself sends, so %s and %s must be the same", transmit, receive)
	}
	return problems
}

// absolute makes a share of a line rate into bits a second, over all engines.
func absolute(rate Quantity, name string, generator *spatev1.TrafficGenerator, at *field.Path, problems *Problems) Quantity {
	if rate.Unit != LinePercent {
		return rate
	}
	all := newPorts(generator)
	line := all.lineRate(name)
	if line == nil {
		if port := all.find(name); port != nil {
			reason, message := all.lineRateUnknown(port)
			problems.add(reason, at, "%s", message)
		}
		return rate
	}
	bits := new(big.Rat).Mul(rate.Value, line)
	return Quantity{Value: bits.Mul(bits, big.NewRat(all.engines, 100)), Unit: L1BitsPerSecond}
}

// scale settles the factor, and with it each stream's rate.
func (r *Resolved) scale(rate spatev1.ScaledRate, entries []entry, problems *Problems) {
	own := newLoad()
	for _, e := range entries {
		if e.enabled {
			wire := e.stream.Packet.WireBytes()
			own.add(string(e.spec.TransmitPort), e.rate.packets(wire), wire)
		}
	}
	factor, err := factorOf(rate, own)
	if err != nil {
		problems.add(spatev1.ReasonInvalidSpec, spec.Child("rate"), "%q: %v", rate, err)
		return
	}
	r.Factor, r.Load = factor, own.Scaled(factor)
	for i, e := range entries {
		scaled, err := Ratio(new(big.Rat).Mul(e.rate.Value, factor))
		if err != nil {
			problems.add(spatev1.ReasonInvalidSpec, e.at, "its rate: %v", err)
			continue
		}
		r.streams = append(r.streams, e.toPlan(uint32(i), scaled))
	}
}

// factorOf makes a profile's rate into a factor on a load.
func factorOf(rate spatev1.ScaledRate, own Load) (*big.Rat, error) {
	wanted, err := ParseScaledRate(rate)
	if err != nil {
		return nil, err
	}
	if wanted.Unit == Factor {
		return wanted.Value, nil
	}
	total := own.in(wanted.Unit)
	if total.Sign() == 0 {
		return nil, errNothingToScale
	}
	return new(big.Rat).Quo(wanted.Value, total), nil
}

func (e entry) toPlan(id uint32, rate *enginev1.Ratio) *enginev1.Stream {
	built := e.stream.Packet
	stream := &enginev1.Stream{
		Name: string(e.spec.Name), Id: id,
		TxPort: string(e.spec.TransmitPort), RxPort: string(e.spec.ReceivePort),
		Packet:   &enginev1.Packet{Frame: built.Frame, SourceMacFromPort: built.SourceMACFromPort},
		Transmit: &enginev1.Stream_Continuous{Continuous: &enginev1.Continuous{Rate: planRate(e.rate.Unit, rate)}},
		Measure:  &enginev1.Measure{Flow: e.stream.Flow},
		Disabled: !e.enabled,
	}
	for _, sum := range built.Checksums {
		stream.Packet.Checksums = append(stream.Packet.Checksums, &enginev1.Checksum{
			Offset: uint32(sum.Offset), Start: uint32(sum.Start), End: uint32(sum.End),
			PseudoHeaderSum: sum.PseudoHeaderSum, ZeroMeansAbsent: sum.ZeroMeansAbsent,
		})
	}
	return stream
}

func planRate(unit Unit, ratio *enginev1.Ratio) *enginev1.Rate {
	switch unit {
	case PacketsPerSecond:
		return &enginev1.Rate{Kind: &enginev1.Rate_PacketsPerSecond{PacketsPerSecond: ratio}}
	case L2BitsPerSecond:
		return &enginev1.Rate{Kind: &enginev1.Rate_L2BitsPerSecond{L2BitsPerSecond: ratio}}
	default:
		return &enginev1.Rate{Kind: &enginev1.Rate_L1BitsPerSecond{L1BitsPerSecond: ratio}}
	}
}

// references are the streams a profile refers to, as they are, each once.
func references(in Input) []spatev1.ReferenceSnapshot {
	var all []spatev1.ReferenceSnapshot
	for _, e := range in.Profile.Spec.Traffic {
		if e.StreamRef == nil {
			continue
		}
		found := in.Streams[string(e.StreamRef.Name)]
		known := slices.ContainsFunc(all, func(r spatev1.ReferenceSnapshot) bool { return r.Name == e.StreamRef.Name })
		if found == nil || known {
			continue
		}
		all = append(all, spatev1.ReferenceSnapshot{Kind: "StatelessStream", Name: e.StreamRef.Name, Digest: digest(found.Spec)})
	}
	return all
}

// StreamDigest is a stream's in a run's references, to tell whether it has changed since.
func StreamDigest(spec *spatev1.StatelessStreamSpec) string { return digest(*spec) }

// ProfileDigest is of all that starts a new run when it changes: what is run and how it is judged, not how fast it is
// scaled, whether it is suspended, or how its history is kept.
func ProfileDigest(profile *spatev1.TrafficProfile) string {
	return digest(struct {
		GeneratorRef *spatev1.GeneratorReference
		Traffic      []spatev1.TrafficEntry
		Duration     spatev1.Duration
		Warmup       spatev1.Duration
		Drain        spatev1.Duration
		Thresholds   []spatev1.Threshold
		Tolerance    spatev1.GeneratorTolerance
		RunID        string
	}{
		profile.Spec.GeneratorRef, profile.Spec.Traffic, profile.Spec.Duration, profile.Spec.Warmup, profile.Spec.Drain,
		profile.Spec.Thresholds, profile.Spec.GeneratorTolerance, profile.Spec.RunID,
	})
}

func digest(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // API types always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
