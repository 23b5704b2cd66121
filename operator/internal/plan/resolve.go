// SPDX-License-Identifier: Apache-2.0

// Package plan makes a plan for engines from a profile and the objects it refers to, or reports every problem that
// prevents it. It puts together what its subpackages answer: stream and application of one stream and one template,
// stateful of all templates, load and limits of what all of it asks of a generator. Its functions are pure, as theirs
// are: no client, no clock.
package plan

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/clients"
	"spate.dev/operator/internal/plan/data"
	"spate.dev/operator/internal/plan/limits"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/plan/origin"
	"spate.dev/operator/internal/plan/ports"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/quantity"
	"spate.dev/operator/internal/plan/routes"
	"spate.dev/operator/internal/plan/stateful"
	"spate.dev/operator/internal/plan/stream"
	"spate.dev/operator/internal/plan/tags"
	"spate.dev/operator/internal/verdict"
)

// Input is a profile and the objects found for its references.
type Input struct {
	Profile *spatev1.TrafficProfile
	// Run is the one that executes the profile; nil where the profile itself is meant.
	Run *spatev1.TrafficRun
	// Generator is the referenced one, or the profile's own if it exists; nil if there is none.
	Generator *spatev1.TrafficGenerator
	// Streams and Templates in the profile's namespace, by name.
	Streams   map[string]*spatev1.StatelessStream
	Templates map[string]*spatev1.ASTFTemplate
	// Clients are the groups of emulated clients in the profile's namespace, by name.
	Clients map[string]*spatev1.ClientGroup
	// Data of the ConfigMaps and Secrets in the profile's namespace that streams and templates name (see DataReferences).
	Data map[spatev1.DataReference][]byte
	// Bound limits the bytes of the plan; the zero value sets no limit.
	Bound Bound
}

// Resolved is a profile that can be run.
type Resolved struct {
	// Factor is spec.rate as a factor of the entries' own rates; with stages, the greatest of theirs.
	Factor *big.Rat
	// Stages of the measured phase.
	Stages []spatev1.ResolvedStage
	// Load of all traffic at that factor.
	Load load.Load
	// Definitions are the streams and templates from which it was resolved, but for the streams that entries select.
	Definitions []spatev1.DefinitionSnapshot
	// Selections are these, by entry.
	Selections []spatev1.SelectionSnapshot

	// Warnings are problems that do not prevent a run.
	Warnings problem.Problems

	// Entries are the resolved entries, for later live changes.
	Entries []spatev1.EntrySnapshot
	// Clients are the resolved groups of emulated clients.
	Clients []spatev1.ClientsSnapshot

	// Secrets are the keys of Secrets that the plan refers to, in the order of its data. Plan omits their bytes (see
	// PlanWithData).
	Secrets []spatev1.DataReference
	// secretBytes are the bytes of each.
	secretBytes [][]byte

	// subjects are the names in the results of its runs.
	subjects verdict.Subjects

	timing *enginev1.Timing
	lease  time.Duration
	// clockBound is by how much the wall clocks of the engines differ at most; 0 if that is not stated.
	clockBound time.Duration
	// lateAfter is the delay from which a packet counts as late; 0 leaves it to the engine.
	lateAfter  time.Duration
	entries    []entry
	templates  []stateful.Entry
	streams    []*enginev1.Stream
	stateful   *enginev1.Stateful
	reflectors []*enginev1.Reflector
	receivers  []*enginev1.Receiver
	clients    []clients.Group
	// routes are advertised for the run; ready is when they count as sent, nil for the engine's default.
	routes []*enginev1.RouteSet
	ready  *enginev1.RoutesReady
}

var spec = field.NewPath("spec")

// checker checks parts of a profile and its generator, and adds what is wrong with them to its problems.
type checker struct{ *problem.Problems }

// Resolve resolves a profile, or reports every problem. If the generator is missing, Resolve skips the checks that need
// it.
func Resolve(in Input) (*Resolved, problem.Problems) {
	var problems problem.Problems
	generator := in.Generator
	if generator == nil && in.Profile.Spec.Generator != nil {
		generator = &spatev1.TrafficGenerator{Spec: *in.Profile.Spec.Generator}
		generator.Name, generator.Namespace = in.Profile.Name, in.Profile.Namespace
	}
	switch {
	case in.Profile.Spec.Generator != nil:
		problems = append(problems, checkGenerator(in.Profile.Spec.Generator, spec.Child("generator"))...)
	case generator == nil && in.Profile.Spec.GeneratorRef != nil:
		problems.Add(spatev1.ReasonReferenceNotFound, spec.Child("generatorRef", "name"),
			"TrafficGenerator %q does not exist in namespace %s: apply it, or correct the name", in.Profile.Spec.GeneratorRef.Name, generatorNamespace(in.Profile))
	case generator == nil:
		problems = append(problems, GeneratorRequired(in.Profile.Namespace, nil))
	default:
		problems = append(problems, CheckGenerator(&generator.Spec).Within(spec.Child("generatorRef"), "TrafficGenerator", generator.Name)...)
	}
	resolved := &Resolved{Definitions: definitions(in), Selections: selections(in.Profile, in.Streams)}
	check := checker{&problems}
	all := expand(in.Profile, in.Streams)
	incomplete, ok := check.selectors(in.Profile, all)
	if !ok {
		return nil, problems
	}
	in = withDefaults(in, generator)
	whole := in // with an entry for each selected stream
	whole.Profile = entryDefaults(all.TrafficProfile, in.Streams, generator)
	resolved.timing, resolved.lease = timing(in.Profile, generator, &problems)
	if generator != nil && generator.Spec.CPUPolicy == spatev1.CPUShared {
		resolved.lateAfter = sharedLateAfter
	}
	if generator != nil && generator.Spec.ClockBound != "" {
		resolved.clockBound, _ = generator.Spec.ClockBound.Parse() // CheckGenerator reports what is wrong with it
	}
	check.stageTimes(in.Profile, resolved.timing)
	check.podGroups(in.Profile, generator)
	size := weight{bound: in.Bound}
	entries := make([]entry, 0, len(whole.Profile.Spec.Traffic))
	named, wrong := dataOf(&in), 0 // wrong selected streams
	for i := range whole.Profile.Spec.Traffic {
		if incomplete[all.from[i]] {
			continue
		}
		described, at := &whole.Profile.Spec.Traffic[i], spec.Child("traffic").Index(all.from[i])
		problems.ExactlyOne(at, "stream and application", described.Stream != nil, described.Application != nil)
		if described.Stream == nil {
			continue
		}
		e := entry{at: at, spec: described}
		if all.selected[i] {
			e.by = &in.Profile.Spec.Traffic[all.from[i]]
		}
		found := e.resolve(whole, named, generator, &size)
		problems = append(problems, e.named(found)...)
		entries = append(entries, e)
		if size.exceeded {
			return nil, problems
		}
		if len(found) > 0 && e.by != nil {
			if wrong++; wrong == mostReported {
				problems.Add(found.Reason(), at.Child("stream", "selector"), "further selected streams were not checked")
				return nil, problems
			}
		}
	}
	check.marked(entries)
	check.chains(entries)
	templates, found := stateful.Entries(in.Profile, in.Templates, application.Surroundings{Data: named, Generator: generator}, size.template)
	problems = append(problems, found...)
	if size.exceeded {
		return nil, problems
	}
	problems = append(problems, stateful.CheckGroups(templates, generator)...)
	resolved.clients, found = clients.Groups(in.Profile, in.Clients, generator)
	problems = append(problems, found...)
	problems = append(problems, stateful.CheckLeased(templates, in.Profile, resolved.clients, generator)...)
	resolved.subjects = subjectsOf(whole.Profile, in.Streams, in.Templates)
	check.thresholds(in, resolved.subjects, len(incomplete) == 0 && complete(whole))
	resolved.answering(in.Profile, generator, &problems)
	check.checkRecords(in.Profile, generator)
	if !resolved.advertising(in.Profile, generator, &size, &problems) {
		return nil, problems
	}
	for _, ref := range named.Secrets {
		resolved.Secrets, resolved.secretBytes = append(resolved.Secrets, ref), append(resolved.secretBytes, in.Data[ref])
	}
	if len(problems) > 0 {
		return nil, problems
	}
	if problems = stateful.Mix(in.Profile, templates); len(problems) > 0 {
		return nil, problems
	}
	resolved.entries, resolved.templates = entries, templates
	resolved.scale(in.Profile, generator, &problems)
	if len(problems) > 0 {
		return nil, problems
	}
	if problems = clients.Beside(resolved.clients, resolved.stateful); len(problems) > 0 {
		return nil, problems
	}
	resolved.Clients = clientsOf(in.Profile)
	if problems = load.Check(resolved.Load, generator, rateField(in.Profile)); len(problems) > 0 {
		return nil, problems
	}
	resolved.warn(in.Profile)
	return resolved, nil
}

// warn reports what would make a run differ from what was probably intended.
func (r *Resolved) warn(profile *spatev1.TrafficProfile) {
	if r.timing.GetDurationNs() == 0 {
		return
	}
	sends := r.timing.GetWarmupNs() + r.timing.GetDurationNs()
	if ramp := r.stateful.GetRampUpNs(); ramp >= sends {
		r.Warnings.Add(spatev1.ReasonInvalidSpec, spec.Child("rampUp"), "%s is not shorter than the run, whose warmup and duration are %v: the full rate is never reached; shorten it, or run for longer",
			profile.Spec.RampUp, time.Duration(sends))
	}
	for _, e := range r.entries {
		if delay := e.stream.StartDelay; delay >= sends {
			r.Warnings.Add(spatev1.ReasonInvalidSpec, e.at, "its stream's startDelay of %v is not shorter than the run, whose warmup and duration are %v: it sends nothing; shorten it, or run for longer",
				time.Duration(delay), time.Duration(sends))
		}
	}
}

// GeneratorRequired returns the problem of a definition without a generator in a namespace that does not have exactly
// one; `names` are those it has.
func GeneratorRequired(namespace string, names []string) problem.Problem {
	at := spec.Child("generatorRef").String()
	if len(names) == 0 {
		return problem.Problem{Reason: spatev1.ReasonReferenceNotFound, Path: at, Message: fmt.Sprintf("is required: namespace %s has no TrafficGenerator; apply one, or describe one in a profile's spec.generator", namespace)}
	}
	return problem.Problem{
		Reason: spatev1.ReasonInvalidSpec, Path: at,
		Message: fmt.Sprintf("is required: namespace %s has %d TrafficGenerators (%s); name one of them", namespace, len(names), strings.Join(names, ", ")),
	}
}

func generatorNamespace(profile *spatev1.TrafficProfile) string {
	if ref := profile.Spec.GeneratorRef; ref != nil && ref.Namespace != "" {
		return ref.Namespace
	}
	return profile.Namespace
}

// rateField returns the field that is reported if the sum of all rates is too high.
func rateField(profile *spatev1.TrafficProfile) *field.Path {
	if profile.Spec.Rate != "" {
		return spec.Child("rate")
	}
	return spec.Child("traffic")
}

// sharedLateAfter is a delay that a scheduler may cause on shared CPUs; the engine's own limit for exclusive CPUs is
// lower.
const sharedLateAfter = 20 * time.Millisecond

// endlessLease is the lease of a run without a duration on a generator without a lease: otherwise the run would never
// end without the operator.
const endlessLease = 5 * time.Minute

func timing(profile *spatev1.TrafficProfile, generator *spatev1.TrafficGenerator, problems *problem.Problems) (*enginev1.Timing, time.Duration) {
	read := checker{problems}.duration
	lease := time.Duration(0)
	if generator != nil {
		lease = read(generator.Spec.Lease, spec.Child("generator", "lease"))
	}
	setup := profile.Spec.SetupTimeout
	read(setup, spec.Child("setupTimeout"))
	if limit, err := setup.Parse(); setup != "" && err == nil && limit == 0 {
		problems.Add(spatev1.ReasonInvalidSpec, spec.Child("setupTimeout"), "must be greater than zero; leave it out for 60s")
	}
	timing := &enginev1.Timing{
		WarmupNs:   uint64(read(profile.Spec.Warmup, spec.Child("warmup"))),
		DurationNs: uint64(read(profile.Spec.Duration, spec.Child("duration"))),
		DrainNs:    uint64(read(profile.Spec.Drain, spec.Child("drain"))),
	}
	if lease == 0 && timing.DurationNs == 0 && len(profile.Spec.Stages) == 0 {
		lease = endlessLease
	}
	return timing, lease
}

// duration reads one; 0 if it is absent or wrong.
func (p checker) duration(text spatev1.Duration, at *field.Path) time.Duration {
	if text == "" {
		return 0
	}
	duration, err := text.Parse()
	if err != nil || duration < 0 {
		p.Add(spatev1.ReasonInvalidSpec, at, "%q must be a duration such as 500ms, 10s or 1m30s", text)
		return 0
	}
	return duration
}

// entry is an entry of a profile's traffic that is being planned.
type entry struct {
	at   *field.Path
	spec *spatev1.TrafficEntry
	// by is the entry that selects its stream; nil for any other.
	by     *spatev1.TrafficEntry
	stream *stream.Stream
	// rate is absolute; unset for a replay.
	rate quantity.Quantity
	// engines that send it; nil for all.
	engines *enginev1.Engines
}

// named returns problems of a selected stream with its name.
func (e *entry) named(found problem.Problems) problem.Problems {
	if e.by == nil {
		return found
	}
	for i := range found {
		if found[i].Within == "" {
			found[i].Message = fmt.Sprintf("StatelessStream %q: %s", e.spec.Name, found[i].Message)
		}
	}
	return found
}

// resolve plans the entry's stream.
func (e *entry) resolve(in Input, named data.Data, generator *spatev1.TrafficGenerator, size *weight) problem.Problems {
	var problems problem.Problems
	at := e.at
	source, sourceAt, streamAt, within := e.source(in, &problems)
	if source == nil {
		// Whether the stream is measured is not known: its receivePort may be right.
		problems = append(problems, checkPorts(e.spec, e.spec.ReceivePort != "", false, generator, at)...)
		return problems
	}
	around := stream.Surroundings{Options: nextHop(e.spec, generator), Data: named, Generator: generator}
	sent, found := stream.Resolve(source, streamAt, around)
	problems = append(problems, within(found)...)
	problems = append(problems, checkPorts(e.spec, stream.MeasuresArrival(source), stream.Directed(source), generator, at)...)
	if sent == nil || len(problems) > 0 {
		return problems
	}
	e.stream, e.rate = sent, sent.Rate
	if !size.stream(e, &problems) { // before anything is allocated for each copy
		return problems
	}
	rateAt := sourceAt
	if rate := e.spec.Stream.Rate; rate != "" {
		at := at.Child("stream", "rate")
		own, err := quantity.ParseRate(rate)
		if err != nil {
			problems.Add(spatev1.ReasonInvalidSpec, at, "%q: %v", rate, err)
		}
		rateAt, e.rate = at, own
		if sent.Transmit.Replay != nil {
			problems.Add(spatev1.ReasonInvalidSpec, at, "a replay has no rate but that of its capture; set its gap, or spec.rate as a factor")
		}
	}
	if generator == nil || len(problems) > 0 {
		return problems // a missing generator is reported once for the profile
	}
	e.engines = ports.Of(generator).EnginesOf(e.spec.TransmitPodGroup)
	checker{&problems}.nextHop(sent, e.spec, generator, sourceAt)
	problems = append(problems, limits.Check(sent, generator, sourceAt)...)
	if sent.Transmit.Replay == nil {
		e.rate = absolute(e.rate, string(e.spec.TransmitPort), e.engines, generator, rateAt, &problems)
	}
	return problems
}

// source returns what an entry sends, the fields that describe it, and a function that wraps its problems.
func (e *entry) source(in Input, problems *problem.Problems) (source *spatev1.StatelessStreamSpec, sourceAt, streamAt *field.Path, within func(problem.Problems) problem.Problems) {
	within = func(found problem.Problems) problem.Problems { return found }
	at := e.at.Child("stream")
	if !problems.ExactlyOne(at, oneSource, e.spec.Stream.Ref != nil, e.spec.Stream.Inline != nil) {
		return nil, at, at, within
	}
	source, name := stream.Source(e.spec, in.Streams)
	if source != nil && stream.OverridesSizes(e.spec.Stream) {
		if why := stream.NoSizes(source); why != "" {
			problems.Add(spatev1.ReasonInvalidSpec, at.Child("size"), "%s", why)
		}
	}
	if e.spec.Stream.Ref == nil {
		at = at.Child("inline")
		return source, at, at, within
	}
	if e.by != nil {
		at = at.Child("selector")
	} else {
		at = at.Child("ref")
	}
	if source == nil {
		problems.Add(spatev1.ReasonReferenceNotFound, at.Child("name"), "StatelessStream %q does not exist in namespace %s: apply it, or correct the name", name, in.Profile.Namespace)
	}
	return source, at, spec, func(found problem.Problems) problem.Problems { return found.Within(at, "StatelessStream", name) }
}

// nextHop returns what replaces a missing Ethernet destination. The engine resolves it if the port has addresses. A
// fixed address is used if the port sends only to the engine itself, or is not known, which is reported elsewhere.
func nextHop(e *spatev1.TrafficEntry, generator *spatev1.TrafficGenerator) packet.Options {
	if generator == nil {
		return packet.Options{NextHop: packet.InternalDestination}
	}
	port := ports.Of(generator).Find(string(e.TransmitPort))
	switch {
	case port == nil:
		return packet.Options{NextHop: packet.InternalDestination}
	case len(port.Addresses) > 0:
		return packet.Options{NextHopFromPort: true}
	case ports.Internal(port):
		return packet.Options{NextHop: packet.InternalDestination}
	}
	return packet.Options{}
}

// nextHop reports a problem if the port cannot resolve a next hop for the stream's packets.
func (p checker) nextHop(stream *stream.Stream, e *spatev1.TrafficEntry, generator *spatev1.TrafficGenerator, at *field.Path) {
	if stream.Packet == nil || !stream.Packet.DestinationMACFromPort {
		return
	}
	left := "ethernet.destination is absent"
	if len(stream.Spec.Packet.FromPort) > 0 {
		left = "packet.fromPort names Destination"
	}
	port := ports.Of(generator).Find(string(e.TransmitPort))
	for _, h := range stream.Packet.Headers {
		four := h.Kind == packet.IPv4
		if !four && h.Kind != packet.IPv6 {
			continue
		}
		for _, text := range port.Addresses {
			if prefix, err := netip.ParsePrefix(string(text)); err == nil && prefix.Addr().Is4() == four {
				return
			}
		}
		p.Add(spatev1.ReasonInvalidSpec, at, "%s, and port %s has no %s address to find the next hop with: write it, or give the port one", left, port.Name, h.Kind)
		return
	}
	p.Add(spatev1.ReasonInvalidSpec, at, "%s, and a packet that is not IP has no next hop: write it", left)
}

// checkPorts reports ports that do not exist, and ports between which packets cannot be received. flow is true if packets are expected
// at the receivePort, and directed if the responder's packets of a replay leave from it.
func checkPorts(e *spatev1.TrafficEntry, flow, directed bool, generator *spatev1.TrafficGenerator, at *field.Path) problem.Problems {
	var problems problem.Problems
	transmit, receive := string(e.TransmitPort), string(e.ReceivePort)
	switch {
	case transmit == "" && receive == "":
		return ports.Missing(generator, at)
	case transmit == "":
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("transmitPort"), "is required: the port that sends the stream")
		return problems
	case flow && receive == "":
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("receivePort"), "the stream measures flow: name the port its packets are expected at, or leave measure.flow and measure.mark out")
	case directed && receive == "":
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("receivePort"), "is required: the port that sends the packets of the capture's other direction")
	case !flow && !directed && receive != "":
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("receivePort"), "nothing of the stream is measured at %s: set its measure.flow or measure.mark, or leave receivePort out", receive)
	}
	if generator == nil {
		return problems
	}
	all := ports.Of(generator)
	unknown := func(child, name string) {
		problems.Add(spatev1.ReasonInvalidSpec, at.Child(child), "%q is no port of generator %s; it has %s", name, generator.Name, all.Names())
	}
	from, to := all.Find(transmit), all.Find(receive)
	if from == nil {
		unknown("transmitPort", transmit)
	}
	if receive != "" && to == nil {
		unknown("receivePort", receive)
	}
	if from == nil || to == nil || directed && !flow {
		return problems
	}
	switch {
	case to.Attachment.Discard != nil:
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("receivePort"), "%s is a discard port and receives nothing; leave receivePort and measure.flow out", receive)
	case from.Attachment.Discard != nil:
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("receivePort"), "what the discard port %s sends arrives nowhere; leave receivePort and measure.flow out", transmit)
	case (from.Attachment.Loopback != nil || to.Attachment.Loopback != nil) && from != to:
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("receivePort"), "a loopback port receives what itself sends, so %s and %s must be the same", transmit, receive)
	}
	return problems
}

// absolute converts a share of a line rate to bits per second, over the engines that send.
func absolute(rate quantity.Quantity, name string, engines *enginev1.Engines, generator *spatev1.TrafficGenerator, at *field.Path, problems *problem.Problems) quantity.Quantity {
	if rate.Unit != quantity.LinePercent {
		return rate
	}
	all := ports.Of(generator)
	line := all.LineRate(name)
	if line == nil {
		if port := all.Find(name); port != nil {
			reason, message := all.LineRateUnknown(port)
			problems.Add(reason, at, "%s", message)
		}
		return rate
	}
	bits := new(big.Rat).Mul(rate.Value, line)
	return quantity.Quantity{Value: bits.Mul(bits, big.NewRat(load.EnginesIn(engines, all.Engines), 100)), Unit: quantity.L1BitsPerSecond}
}

// scale resolves the factor, and with it the rate of each stream and template.
func (r *Resolved) scale(profile *spatev1.TrafficProfile, generator *spatev1.TrafficGenerator, problems *problem.Problems) {
	rate := profile.Spec.Rate
	if !r.build(problems) {
		return
	}
	traffic, err := load.OfStreams(r.streams)
	if err != nil {
		problems.Add(spatev1.ReasonInvalidSpec, spec.Child("traffic"), "%v", err)
		return
	}
	factor, err := load.FactorOf(rate, traffic, stateful.Flows(r.templates), generator)
	if err != nil {
		problems.Add(spatev1.ReasonInvalidSpec, spec.Child("rate"), "%q: %v", rate, err)
		return
	}
	if len(profile.Spec.Stages) > 0 {
		if factor = r.stageRates(profile, traffic, generator, problems); factor == nil {
			return
		}
	}
	r.Factor, r.Load = factor, traffic.Scaled(factor)
	r.speed(factor, problems)
	made, wrong := stateful.Part(profile, r.templates, factor)
	*problems = append(*problems, wrong...)
	if r.stateful = made; made != nil {
		r.stateful.Records = records(profile)
	}
	r.Load = r.Load.Plus(load.OfFlows(r.stateful))
	var last *spatev1.TrafficEntry // selects the streams that follow each other
	for _, e := range r.entries {
		if e.by != nil {
			if e.by != last {
				r.Entries = append(r.Entries, spatev1.EntrySnapshot{Name: string(e.by.Name), Rate: e.by.Stream.Rate, Paused: e.by.Paused})
			}
			r.Entries[len(r.Entries)-1].Selected += int32(e.stream.Results())
			last = e.by
			continue
		}
		own := r.ownRate(&e)
		entry := spatev1.EntrySnapshot{Name: string(e.spec.Name), StreamRate: own, Rate: cmp.Or(e.spec.Stream.Rate, own), Paused: e.spec.Paused}
		if ref := e.spec.Stream.Ref; ref != nil {
			entry.Stream = ref.Name
		}
		if e.stream.Directed() {
			entry.Selected = int32(e.stream.Results())
		}
		r.Entries = append(r.Entries, entry)
	}
	for i := range r.templates {
		r.Entries = append(r.Entries, r.templates[i].Snapshot())
	}
}

// ownRate returns the rate in a stream's description; empty for a replay.
func (r *Resolved) ownRate(e *entry) spatev1.Rate {
	switch t := &e.stream.Spec.Transmit; {
	case t.Continuous != nil:
		return t.Continuous.Rate
	case t.Burst != nil:
		return t.Burst.Rate
	case t.MultiBurst != nil:
		return t.MultiBurst.Rate
	}
	return ""
}

// mostStreams is the maximum number of streams in a plan: their numbers have 16 bits.
const mostStreams = 1 << 16

// speed sets the rates of all streams to a factor of their own.
func (r *Resolved) speed(factor *big.Rat, problems *problem.Problems) {
	at := 0
	for _, e := range r.entries {
		scaled := &enginev1.Stream{}
		if err := e.stream.Transmit.At(e.rate, factor, scaled); err != nil {
			problems.Add(spatev1.ReasonInvalidSpec, e.at, "its rate: %v", err)
		}
		for i := range e.stream.Count() {
			r.streams[at].Transmit = scaled.Transmit
			if e.stream.Directed() {
				e.stream.Transmit.Divide(r.streams[at], i == responder)
			}
			at++
		}
	}
}

// build makes the streams of all entries at their own rates.
func (r *Resolved) build(problems *problem.Problems) bool {
	var streams []*enginev1.Stream
	names := map[string]string{}
	before := len(*problems)
	for _, e := range r.entries {
		made, err := e.streams(uint32(len(streams)))
		if err != nil {
			problems.Add(spatev1.ReasonInvalidSpec, e.at, "its rate: %v", err)
			continue
		}
		for _, s := range made {
			if other, known := names[s.Name]; known {
				problems.Add(spatev1.ReasonInvalidSpec, e.at.Child("name"), "%q has a stream %q, too; rename one of the entries", other, s.Name)
				break
			}
			names[s.Name] = string(e.spec.Name)
		}
		streams = append(streams, made...)
	}
	r.streams = streams
	return len(*problems) == before
}

// responder is the place of the responder's stream among those of both directions of a replay.
const responder = 1

// streams returns those of an entry: one, or one for each copy, or for each direction of a replay.
func (e entry) streams(id uint32) ([]*enginev1.Stream, error) {
	shared := &enginev1.Stream{}
	if err := e.stream.Transmit.At(e.rate, big.NewRat(1, 1), shared); err != nil {
		return nil, err
	}
	measure := e.stream.Spec.Measure
	all := make([]*enginev1.Stream, e.stream.Count())
	for i := range all {
		name, group, next := string(e.spec.Name), "", ""
		if e.spec.Stream.Next != nil {
			next = string(e.spec.Stream.Next.Entry)
		}
		if e.stream.Copies != nil {
			name, group = copyName(name, i), name
			if next != "" {
				next = copyName(next, i)
			}
		}
		s := &enginev1.Stream{
			Name: name, Group: group, Id: id + uint32(i),
			TxPort: string(e.spec.TransmitPort), RxPort: string(e.spec.ReceivePort),
			Transmit: shared.Transmit, Measure: &enginev1.Measure{Flow: measure.Flow, Latency: measure.Latency, ByTag: tags.Plan(measure.ByTag)},
			Paused: e.spec.Paused, Program: e.stream.Program, StartDelayNs: e.stream.StartDelay,
			Engines: e.engines,
			Waits:   e.spec.Stream.Start == spatev1.StartWaiting, Cache: uint32(e.stream.Spec.Cache), Pinned: e.stream.Spec.Pinned,
		}
		if e.stream.Directed() {
			e.direct(s, i)
		}
		if next != "" {
			s.Next = &enginev1.Next{Stream: next, Times: uint64(e.spec.Stream.Next.Loops)}
		}
		if e.stream.Packet != nil {
			s.Packet = e.stream.PlanPacket()
		}
		all[i] = s
	}
	return all, nil
}

// direct makes of a stream that of a direction of its replay, which is expected at the port that the other one leaves from.
func (e entry) direct(s *enginev1.Stream, direction int) {
	s.Name = origin.Directions(s.Name)[direction]
	if direction == responder {
		s.TxPort, s.RxPort = s.RxPort, s.TxPort
	}
	if !stream.MeasuresArrival(e.stream.Spec) {
		s.RxPort = ""
	}
	e.stream.Transmit.Divide(s, direction == responder)
}

func copyName(entry string, index int) string { return entry + "-" + strconv.Itoa(index) }

// copyOf returns the stream of a copy, made from the first copy's stream.
func (e *entry) copyOf(first *enginev1.Stream, copied int) *enginev1.Stream {
	if e.stream.Copies == nil {
		return first
	}
	own := proto.CloneOf(first)
	own.Packet.Frame = e.stream.Copies[copied].Frame(e.stream.Packet.Frame)
	return own
}

// answering resolves the ports that reflect or receive.
func (r *Resolved) answering(profile *spatev1.TrafficProfile, generator *spatev1.TrafficGenerator, problems *problem.Problems) {
	if len(profile.Spec.Traffic)+len(profile.Spec.Reflect)+len(profile.Spec.Receive)+len(profile.Spec.Clients) == 0 {
		problems.Add(spatev1.ReasonInvalidSpec, spec, "there is nothing to do: set traffic, reflect, receive or clients")
	}
	known := func(name spatev1.PortName, at *field.Path) {
		if generator == nil {
			return
		}
		all := ports.Of(generator)
		switch port := all.Find(string(name)); {
		case port == nil:
			problems.Add(spatev1.ReasonInvalidSpec, at, "%q is no port of generator %s; it has %s", name, generator.Name, all.Names())
		case port.Attachment.Discard != nil:
			problems.Add(spatev1.ReasonInvalidSpec, at, "%s is a discard port and receives nothing", name)
		}
	}
	for i, reflect := range profile.Spec.Reflect {
		at := spec.Child("reflect").Index(i)
		known(reflect.Port, at.Child("port"))
		swap := enginev1.Reflection_REFLECTION_MAC
		switch reflect.Swap {
		case "", spatev1.SwapMAC:
		case spatev1.SwapAddresses:
			swap = enginev1.Reflection_REFLECTION_ADDRESSES
		default:
			problems.Add(spatev1.ReasonInvalidSpec, at.Child("swap"), "%q: must be MAC or Addresses", reflect.Swap)
		}
		made := &enginev1.Reflector{Port: string(reflect.Port), Swap: swap, AnyMac: reflect.AcceptAnyMAC}
		if generator != nil {
			made.AllowedAddresses, made.AllowedPorts = limits.Reflected(generator.Spec.Limits)
		}
		r.reflectors = append(r.reflectors, made)
	}
	for i, receive := range profile.Spec.Receive {
		known(receive.Port, spec.Child("receive").Index(i).Child("port"))
		r.receivers = append(r.receivers, &enginev1.Receiver{Name: string(receive.Name), Port: string(receive.Port)})
	}
}

// advertising makes the routes of the run; false if the plan has too many bytes with them.
func (r *Resolved) advertising(profile *spatev1.TrafficProfile, generator *spatev1.TrafficGenerator, size *weight, problems *problem.Problems) bool {
	at := spec.Child("routing")
	sets, ready, found := routes.Resolve(profile.Spec.Routing, generator, at)
	*problems = append(*problems, found...)
	r.routes, r.ready = sets, ready
	bytes := 0
	for _, set := range sets {
		bytes += proto.Size(set)
	}
	return size.add(int64(bytes), at.Child("advertise"), problems)
}

// definitions returns the current streams and templates that a profile refers to, each once.
func definitions(in Input) []spatev1.DefinitionSnapshot {
	var all []spatev1.DefinitionSnapshot
	refer := func(kind, name, digest string) {
		known := func(r spatev1.DefinitionSnapshot) bool { return r.Kind == kind && string(r.Name) == name }
		if !slices.ContainsFunc(all, known) {
			all = append(all, spatev1.DefinitionSnapshot{Kind: kind, Name: spatev1.ObjectName(name), Digest: digest})
		}
	}
	for i := range in.Profile.Spec.Traffic {
		e := &in.Profile.Spec.Traffic[i]
		if sent, name := stream.Source(e, in.Streams); sent != nil && name != "" {
			refer("StatelessStream", name, StreamDigest(sent))
		}
		if template, name := application.Source(e, in.Templates); template != nil && name != "" {
			refer("ASTFTemplate", name, TemplateDigest(template))
		}
	}
	for i := range in.Profile.Spec.Clients {
		name := string(in.Profile.Spec.Clients[i].GroupRef.Name)
		if group := in.Clients[name]; group != nil {
			refer("ClientGroup", name, ClientGroupDigest(&group.Spec))
		}
	}
	return all
}

// StreamDigest returns the digest of a stream in a run's definitions, by which later changes are detected.
func StreamDigest(spec *spatev1.StatelessStreamSpec) string { return digest(*spec) }

// TemplateDigest returns the digest of a template in a run's definitions, by which later changes are detected.
func TemplateDigest(spec *spatev1.ASTFTemplateSpec) string { return digest(*spec) }

// DataReferences returns the keys of ConfigMaps and Secrets that a profile's streams and templates name, each once.
func DataReferences(profile *spatev1.TrafficProfile, streams map[string]*spatev1.StatelessStream, templates map[string]*spatev1.ASTFTemplate) []spatev1.DataReference {
	var all []spatev1.DataReference
	known := map[spatev1.DataReference]bool{}
	add := func(from *spatev1.DataSource) {
		// One without a name selects none, and is reported when it is resolved.
		if ref := from.Reference(); ref.Name != "" && !known[ref] {
			known[ref], all = true, append(all, ref)
		}
	}
	profile = expand(profile, streams).TrafficProfile
	for i := range profile.Spec.Traffic {
		e := &profile.Spec.Traffic[i]
		if source, _ := stream.Source(e, streams); source != nil && source.Transmit.Replay != nil {
			add(source.Transmit.Replay.Pcap.From)
		}
		if template, _ := application.Source(e, templates); template != nil {
			templateData(&template.Source, add)
		}
	}
	return all
}

// templateData calls add for each key that a template names.
func templateData(source *spatev1.TemplateSource, add func(*spatev1.DataSource)) {
	if source.Pcap != nil {
		add(source.Pcap.From)
	}
	if source.Programs == nil {
		return
	}
	for _, side := range [][]spatev1.Command{source.Programs.Client, source.Programs.Server} {
		for i := range side {
			if send := side[i].Send; send != nil {
				add(send.Content.From)
			}
			if message := side[i].SendMessage; message != nil {
				add(message.From)
			}
		}
	}
}
