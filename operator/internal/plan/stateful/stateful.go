// SPDX-License-Identifier: Apache-2.0

// Package stateful answers: how do a profile's templates become the stateful part of a plan, in which shared parts exist
// once?
package stateful

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"net/netip"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/limits"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/plan/ports"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/quantity"
)

var spec = field.NewPath("spec")

// Entry is an entry that runs a template.
type Entry struct {
	// At is the field of the entry.
	At   *field.Path
	spec *spatev1.TrafficEntry
	// Key is the same for entries that run the same template: the name of the ASTFTemplate, or a slash and the name of
	// the entry.
	Key string
	// sourceAt is the field that references or describes the template.
	sourceAt *field.Path
	// Template that it runs; nil if it was refused.
	Template *application.Template
	// rate in connections per second at a factor of 1, 0 if only programs open them; own is the template's, as written.
	rate *big.Rat
	own  spatev1.ConnectionRate
	// clients and servers are the pods that have them.
	clients, servers pods
	// earlier is the number of entries before it that run the same side of the template: clients and servers on one
	// pair of ports may be two entries.
	earlier int
}

// pods are those that have a side.
type pods struct {
	// count of them; 0 without a generator.
	count int64
	// engines as the plan has them; nil for all.
	engines *enginev1.Engines
	// whose are the words for them.
	whose string
}

func podsOf(group spatev1.EntryName, generator *spatev1.TrafficGenerator) pods {
	all := ports.Of(generator)
	some, _ := all.Pods(group)
	whose := fmt.Sprintf("the %d pods of generator %s", some.Count, generator.Name)
	if group != "" {
		whose = fmt.Sprintf("the %d pods of group %s of generator %s", some.Count, group, generator.Name)
	}
	return pods{some.Count, all.EnginesOf(group), whose}
}

// Entries returns the entries of a profile that run templates, up to the first that does not fit into a plan.
func Entries(profile *spatev1.TrafficProfile, templates map[string]*spatev1.ASTFTemplate, around application.Surroundings,
	fits func(*Entry, *problem.Problems) bool,
) ([]Entry, problem.Problems) {
	var problems problem.Problems
	var all []Entry
	clients, servers := map[string]int{}, map[string]int{}
	known := templateSet{namespace: profile.Namespace, templates: templates, around: around, checked: map[string]checkedTemplate{}}
	for i := range profile.Spec.Traffic {
		e := Entry{At: spec.Child("traffic").Index(i), spec: &profile.Spec.Traffic[i]}
		if e.spec.Application == nil {
			continue
		}
		e.Key, e.sourceAt = "/"+string(e.spec.Name), e.At.Child("application", "inline")
		if ref := e.spec.Application.TemplateRef; ref != nil {
			e.Key, e.sourceAt = string(ref.Name), e.At.Child("application", "templateRef")
		}
		for _, side := range []struct {
			port  spatev1.PortName
			count map[string]int
		}{{e.spec.TransmitPort, clients}, {e.spec.ReceivePort, servers}} {
			if side.port != "" {
				e.earlier = max(e.earlier, side.count[e.Key])
				side.count[e.Key]++
			}
		}
		problems = append(problems, e.resolve(&known)...)
		all = append(all, e)
		if !fits(&e, &problems) {
			break
		}
	}
	return all, problems
}

// templateSet are the templates of a profile, each checked once: many entries may run one.
type templateSet struct {
	namespace string
	templates map[string]*spatev1.ASTFTemplate
	around    application.Surroundings
	checked   map[string]checkedTemplate
	inline    inlineRules
}

type checkedTemplate struct {
	template *application.Template
	wrong    problem.Problems
}

func (t *templateSet) check(key string, source *spatev1.ASTFTemplateSpec, at *field.Path) (*application.Template, problem.Problems) {
	checked, known := t.checked[key]
	if !known {
		checked.template, checked.wrong = application.Resolve(source, at, t.around)
		t.checked[key] = checked
	}
	return checked.template, checked.wrong
}

// resolve finds the entry's template and checks it on the entry's ports.
func (e *Entry) resolve(known *templateSet) problem.Problems {
	var problems problem.Problems
	generator := known.around.Generator
	if generator != nil {
		e.clients, e.servers = podsOf(e.spec.TransmitPodGroup, generator), podsOf(e.spec.ReceivePodGroup, generator)
	}
	e.checkEntry(&problems)
	e.checkPorts(generator, &problems)
	runs := e.spec.Application
	if !problems.ExactlyOne(e.At.Child("application"), "templateRef and inline", runs.TemplateRef != nil, runs.Inline != nil) {
		return problems
	}
	if broken := known.inline.broken(runs.Inline, e.sourceAt); len(broken) > 0 {
		return append(problems, broken...)
	}
	source, name := application.Source(e.spec, known.templates)
	at, within := e.sourceAt, func(found problem.Problems) problem.Problems { return found }
	if runs.TemplateRef != nil {
		at, within = spec, func(found problem.Problems) problem.Problems { return found.Within(e.sourceAt, "ASTFTemplate", name) }
	}
	if source == nil {
		problems.Add(spatev1.ReasonReferenceNotFound, e.sourceAt.Child("name"), "ASTFTemplate %q does not exist in namespace %s: apply it, or correct the name", name, known.namespace)
		return problems
	}
	template, wrong := known.check(e.Key, source, at)
	problems = append(problems, within(wrong)...)
	if template == nil {
		return problems
	}
	e.Template, e.rate, e.own = template, template.Rate, source.ConnectionRate
	if rate := runs.ConnectionRate; rate != "" {
		own, err := quantity.ParseConnectionRate(rate)
		if err != nil {
			problems.Add(spatev1.ReasonInvalidSpec, e.At.Child("application", "connectionRate"), "%q: %v", rate, err)
		}
		e.rate = own
	}
	e.checkSides(&problems)
	if generator != nil {
		e.checkPods(&problems)
		e.checkLimits(generator, &problems)
	}
	return problems
}

// Snapshot returns the resolved entry, for later changes of a run.
func (e *Entry) Snapshot() spatev1.EntrySnapshot {
	entry := spatev1.EntrySnapshot{Name: string(e.spec.Name), Paused: e.spec.Paused}
	if ref := e.spec.Application.TemplateRef; ref != nil {
		entry.Template = ref.Name
	}
	if e.spec.TransmitPort != "" {
		entry.ConnectionRate, entry.TemplateRate = cmp.Or(e.spec.Application.ConnectionRate, e.own), e.own
	}
	return entry
}

// checkEntry refuses settings of emulated clients where there are none.
func (e *Entry) checkEntry(p *problem.Problems) {
	application, at := e.spec.Application, e.At.Child("application")
	if e.spec.Paused && e.spec.TransmitPort == "" {
		p.Add(spatev1.ReasonInvalidSpec, e.At.Child("paused"), "there are no clients to pause: set transmitPort, or remove the entry")
	}
	if application.ConnectionRate != "" && e.spec.TransmitPort == "" {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("connectionRate"), "there are no clients: set transmitPort, or leave it out")
	}
	if application.Share != nil && e.spec.TransmitPort == "" {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("share"), "there are no clients: set transmitPort, or leave it out")
	}
	if application.Share != nil && application.ConnectionRate != "" {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("share"), "set share or connectionRate, not both")
	}
}

// says returns the template's name with one of its fields, for a message about another field.
func (e *Entry) says(at *field.Path) string {
	if ref := e.spec.Application.TemplateRef; ref != nil {
		return fmt.Sprintf("ASTFTemplate %q: %s", ref.Name, at)
	}
	return at.String()
}

// checkPorts reports ports on which clients and servers cannot be.
func (e *Entry) checkPorts(generator *spatev1.TrafficGenerator, p *problem.Problems) {
	if e.spec.TransmitPort == "" && e.spec.ReceivePort == "" {
		*p = append(*p, ports.Missing(generator, e.At)...)
		return
	}
	if generator == nil {
		return // reported once for the profile
	}
	all := ports.Of(generator)
	before := len(*p)
	for _, side := range []struct {
		child, has string
		name       spatev1.PortName
	}{{"transmitPort", "clients", e.spec.TransmitPort}, {"receivePort", "servers", e.spec.ReceivePort}} {
		if side.name == "" {
			continue
		}
		switch port := all.Find(string(side.name)); {
		case port == nil:
			p.Add(spatev1.ReasonInvalidSpec, e.At.Child(side.child), "%q is no port of generator %s; it has %s", side.name, generator.Name, all.Names())
		case port.Attachment.Discard != nil:
			p.Add(spatev1.ReasonInvalidSpec, e.At.Child(side.child), "%s is a discard port: nothing answers the %s there", side.name, side.has)
		}
	}
	if len(*p) > before {
		return
	}
	from, to := all.Find(string(e.spec.TransmitPort)), all.Find(string(e.spec.ReceivePort))
	loops := func(port *spatev1.GeneratorPort) bool { return port != nil && port.Attachment.Loopback != nil }
	apart := e.spec.TransmitPodGroup != e.spec.ReceivePodGroup && from != nil && to != nil
	switch {
	case apart && (loops(from) || loops(to)):
		p.Add(spatev1.ReasonInvalidSpec, e.At.Child("receivePodGroup"), "a loopback port receives what itself sends, so clients and servers must be on the same pods: name the same group as transmitPodGroup, or neither")
	case (loops(from) || loops(to)) && from != to:
		p.Add(spatev1.ReasonInvalidSpec, e.At, "a loopback port receives what itself sends, so clients and servers must both be there: set transmitPort and receivePort to it")
	}
}

// checkSides reports emulated sides without a program or without addresses.
func (e *Entry) checkSides(p *problem.Problems) {
	at := e.sourceAt
	if e.Template.Made.Capture == nil {
		if e.spec.TransmitPort != "" && e.Template.Client == nil {
			p.Add(spatev1.ReasonInvalidSpec, at, "it has no source.programs.client, and its clients are at %s: write it, or leave transmitPort out", e.spec.TransmitPort)
		}
		if e.spec.ReceivePort != "" && e.Template.Server == nil {
			p.Add(spatev1.ReasonInvalidSpec, at, "it has no source.programs.server, and its servers are at %s: write it, or leave receivePort out", e.spec.ReceivePort)
		}
	}
	for _, pool := range e.Template.Clients {
		mirror := pool.Mirror()
		if mirror == "" {
			continue
		}
		if e.spec.TransmitPort == "" || e.spec.ReceivePort == "" {
			p.Add(spatev1.ReasonInvalidSpec, at, "pool %s of its clients has %s, for which both sides are one entry's: set transmitPort and receivePort, or leave it out", pool.Name, mirror)
		}
		if e.spec.TransmitPodGroup != e.spec.ReceivePodGroup {
			p.Add(spatev1.ReasonInvalidSpec, at, "pool %s of its clients has %s, for which both sides are on the same pods: name one group as transmitPodGroup and receivePodGroup, or leave it out", pool.Name, mirror)
		}
		break
	}
	if e.spec.TransmitPort != "" && len(e.Template.Clients) == 0 {
		p.Add(spatev1.ReasonInvalidSpec, at, "it has no pools.clients, and its clients are at %s: write them, or leave transmitPort out", e.spec.TransmitPort)
	}
}

// checkPods reports pods of a generator without clients of their own: each pod starts the same number of connections.
func (e *Entry) checkPods(p *problem.Problems) {
	pods := e.clients.count
	if e.spec.TransmitPort == "" || pods == 0 {
		return // that the group is not known is reported by itself
	}
	for i := range e.Template.Clients {
		pool := &e.Template.Clients[i]
		if pool.From != nil {
			continue // each pod has clients of its own
		}
		if addresses := pool.Count(); addresses.Cmp(big.NewInt(pods)) < 0 {
			p.Add(spatev1.ReasonInvalidSpec, e.sourceAt, "%s has %s addresses for %s, and each needs clients of its own: give it at least %d, or use fewer replicas",
				e.says(pool.At), addresses, e.clients.whose, pods)
		}
		if t := pool.Tunnels; t != nil && max(1, int64(t.GetLocalCount()))%pods != 0 {
			p.Add(spatev1.ReasonInvalidSpec, e.sourceAt, "%s.%s.localCount: %d %ss cannot be split over %s as their clients are: use a multiple of %d, or fewer replicas",
				e.says(pool.At), t.Field, max(1, t.GetLocalCount()), t.Near, e.clients.whose, pods)
		}
	}
}

// checkLimits reports connections that a generator's limits do not allow. Servers send only to the clients' addresses;
// engines limit the total number of packets.
func (e *Entry) checkLimits(generator *spatev1.TrafficGenerator, p *problem.Problems) {
	allowed := generator.Spec.Limits
	if allowed == nil {
		return
	}
	g := limits.New(p, allowed, generator.Name, e.sourceAt)
	g.ClientPorts(uint64(e.Template.Made.DestinationPort), e.tunnels()...)
	if len(allowed.AllowedDestinations) == 0 {
		return
	}
	if e.spec.TransmitPort == "" {
		g.Refuse("allowedDestinations", "servers answer any real client")
		return
	}
	e.covered(g, e.Template.Servers, "clients connect to")
	for _, p := range e.Template.Clients {
		g.Tunnels(p.Tunnels)
	}
	if e.spec.ReceivePort != "" {
		e.covered(g, e.Template.Clients, "servers answer")
	}
}

// tunnels returns the tunnels that packets of clients are sent in.
func (e *Entry) tunnels() []*limits.Tunnels {
	var all []*limits.Tunnels
	for _, p := range e.Template.Clients {
		if e.spec.TransmitPort != "" && p.Tunnels != nil {
			all = append(all, p.Tunnels)
		}
	}
	return all
}

func (e *Entry) covered(g *limits.Guard, pools []application.Pool, does string) {
	for i := range pools {
		if from := pools[i].From; from != nil {
			g.Leased(from, does)
			return
		}
		made, ok := pools[i].Shifted(e.earlier)
		if !ok {
			continue // reported when the plan is built
		}
		first, _ := netip.AddrFromSlice(made.First)
		last, _ := netip.AddrFromSlice(made.Last)
		if !g.Addresses(first, last, does) {
			return
		}
	}
}

// sharing numbers what templates share.
type sharing struct {
	made     *enginev1.Stateful
	payloads map[string]uint32
	pools    map[string]uint32
	// numbered are the payloads of templates that have a number already.
	numbered map[*enginev1.Payload]uint32
	// opened are the entries of templates whose connections programs open.
	opened map[uint32]bool
}

// Flows returns the connections and transactions a second of all entries with clients, at their own rates; nil without entries.
func Flows(entries []Entry) *load.Flows {
	if len(entries) == 0 {
		return nil
	}
	flows := load.NewFlows()
	for i := range entries {
		e := &entries[i]
		if e.spec.TransmitPort == "" || e.rate.Sign() == 0 {
			continue // its connections are opened by programs
		}
		var client *enginev1.Program
		if e.Template.Client != nil {
			client = e.Template.Client.Program
		}
		flows.Add(string(e.spec.Name), e.rate, client)
	}
	return flows
}

// Part returns the stateful part of a plan at a factor of the entries' rates; nil without templates.
func Part(profile *spatev1.TrafficProfile, entries []Entry, factor *big.Rat) (*enginev1.Stateful, problem.Problems) {
	var problems problem.Problems
	ignored := ignoredSources(profile.Spec.IgnoredSources, spec.Child("ignoredSources"), &problems)
	if len(entries) == 0 {
		if ignored != nil {
			problems.Add(spatev1.ReasonInvalidSpec, spec.Child("ignoredSources"), "applies to applications, and traffic has none: add one, or leave it out")
		}
		return nil, problems
	}
	s := sharing{made: &enginev1.Stateful{
		RampUpNs: problems.Duration(profile.Spec.RampUp, spec.Child("rampUp")), RampUpStepNs: problems.SomeTime(profile.Spec.RampUpStep, spec.Child("rampUpStep")),
		MostFlows: problems.Count(profile.Spec.MaxFlowsPerEngine, spec.Child("maxFlowsPerEngine")), IgnoredSources: ignored,
	}, payloads: map[string]uint32{}, pools: map[string]uint32{}, numbered: map[*enginev1.Payload]uint32{}, opened: map[uint32]bool{}}
	if step := s.made.RampUpStepNs; step > 0 && (s.made.RampUpNs == 0 || s.made.RampUpNs%step > 0) {
		problems.Add(spatev1.ReasonInvalidSpec, spec.Child("rampUpStep"), "%s: rampUp must be a whole number of these", profile.Spec.RampUpStep)
	}
	if seed := profile.Spec.RandomOrderSeed; seed != nil {
		problems.Bounded(*seed, 0, math.MaxUint32, spec.Child("randomOrderSeed"))
		s.made.DrawSeed = proto.Uint32(uint32(*seed))
	}
	global := &profile.Spec.Tunables
	problems = append(problems, application.CheckTunables(&global.Client, spec.Child("tunables", "client"))...)
	problems = append(problems, application.CheckTunables(&global.Server, spec.Child("tunables", "server"))...)
	for i := range entries {
		e := &entries[i]
		made := proto.CloneOf(e.Template.Made)
		own := &e.Template.Spec.Tunables
		made.ClientTunables, made.ServerTunables = application.TunablesFor(&global.Client, &own.Client), application.TunablesFor(&global.Server, &own.Server)
		made.Name, made.ClientPort, made.ServerPort = string(e.spec.Name), string(e.spec.TransmitPort), string(e.spec.ReceivePort)
		if made.ClientPort != "" {
			made.Client = s.program(e, e.Template.Client, entries, &problems)
			made.Clients = s.addresses(e, e.Template.Clients, "client", &problems)
			if e.rate.Sign() > 0 {
				ratio, err := quantity.RateRatio(quantity.PacketsPerSecond, new(big.Rat).Mul(e.rate, factor))
				if err != nil {
					problems.Add(spatev1.ReasonInvalidSpec, e.At, "its rate: %v", err)
				}
				made.FlowsPerSecond = ratio
			}
			made.Paused, made.ClientEngines = e.spec.Paused, e.clients.engines
		} else {
			made.ClientTunables, made.Limit, made.MostOpen = nil, 0, 0
		}
		if made.ServerPort != "" {
			made.Server, made.ServerEngines = s.program(e, e.Template.Server, entries, &problems), e.servers.engines
		} else {
			made.ServerTunables, made.Match = nil, nil
		}
		made.Servers = s.addresses(e, e.Template.Servers, "server", &problems)
		s.made.Templates = append(s.made.Templates, made)
	}
	s.checkRates(entries, &problems)
	return s.made, problems
}

// checkRates reports clients that would open no connections: without a rate, while no program opens them.
func (s *sharing) checkRates(entries []Entry, problems *problem.Problems) {
	for i := range entries {
		e := &entries[i]
		if e.spec.TransmitPort != "" && e.rate.Sign() == 0 && !s.opened[uint32(i)] {
			problems.Add(spatev1.ReasonInvalidSpec, e.At.Child("application", "connectionRate"),
				"is required, here or in the template, which has none: only connections that another template's program opens (openConnection) need no rate")
		}
	}
}

// addresses returns a side's pools by their numbers. Templates with equal pools share one, and take turns in it.
func (s *sharing) addresses(e *Entry, pools []application.Pool, side string, problems *problem.Problems) []*enginev1.WeightedPool {
	var all []*enginev1.WeightedPool
	for i := range pools {
		made, ok := pools[i].Shifted(e.earlier)
		if !ok {
			problems.Add(spatev1.ReasonInvalidSpec, e.sourceAt, "with its portPairOffset taken %d times, the addresses of pool %s leave the address space", e.earlier, pools[i].Name)
			continue
		}
		unnamed := proto.CloneOf(made)
		unnamed.Name = side
		all = append(all, &enginev1.WeightedPool{Pool: application.Number(s.pools, &s.made.Pools, made, application.KeyOf(unnamed)), Weight: pools[i].Weight})
	}
	return all
}

// program returns a side's program with the plan's numbers.
func (s *sharing) program(e *Entry, own *application.Program, entries []Entry, problems *problem.Problems) *enginev1.Program {
	if own == nil {
		return nil
	}
	made := proto.CloneOf(own.Program)
	payload := func(of uint32) uint32 {
		one := own.Payloads[of]
		at, known := s.numbered[one]
		if !known {
			at = application.Number(s.payloads, &s.made.Payloads, one, application.KeyOf(one))
			s.numbered[one] = at
		}
		return at
	}
	for _, instruction := range made.Instructions {
		switch kind := instruction.Kind.(type) {
		case *enginev1.Instruction_Send:
			kind.Send.Payload = payload(kind.Send.Payload)
		case *enginev1.Instruction_SendMessage:
			kind.SendMessage.Payload = payload(kind.SendMessage.Payload)
		case *enginev1.Instruction_SwitchTemplate:
			from := own.Switches[kind.SwitchTemplate]
			to, err := switchTo(e, from.Name, entries)
			if err != nil && e.spec.Application.Inline != nil {
				problems.Add(spatev1.ReasonInvalidSpec, from.At, "%v", err)
			} else if err != nil {
				problems.Add(spatev1.ReasonInvalidSpec, e.sourceAt, "%s: %v", e.says(from.At), err)
			}
			kind.SwitchTemplate = to
		case *enginev1.Instruction_OpenConnection:
			if of := kind.OpenConnection.Template; of != nil {
				kind.OpenConnection.Template = proto.Uint32(s.open(e, own.Opens[*of], entries, problems))
			}
		case *enginev1.Instruction_NextTemplate:
			kind.NextTemplate = s.open(e, own.Opens[kind.NextTemplate], entries, problems)
		case *enginev1.Instruction_NextTemplates:
			for i, of := range kind.NextTemplates.Templates {
				kind.NextTemplates.Templates[i] = s.open(e, own.Opens[of], entries, problems)
			}
		}
	}
	return made
}

// open returns the entry that runs a template with its clients on the same port and pods. Its connections may be over another transport.
func (s *sharing) open(e *Entry, to application.Switch, entries []Entry, problems *problem.Problems) uint32 {
	for i := range entries {
		other := &entries[i]
		sameClients := other.spec.TransmitPort == e.spec.TransmitPort && other.spec.TransmitPodGroup == e.spec.TransmitPodGroup
		if sameClients && (other.Key == string(to.Name) || other.Key == "/"+string(to.Name)) {
			s.opened[uint32(i)] = true
			return uint32(i)
		}
	}
	err := fmt.Errorf("no entry of the profile runs %q with its clients on %s; add one", to.Name, e.spec.TransmitPort)
	if e.spec.Application.Inline != nil {
		problems.Add(spatev1.ReasonInvalidSpec, to.At, "%v", err)
	} else {
		problems.Add(spatev1.ReasonInvalidSpec, e.sourceAt, "%s: %v", e.says(to.At), err)
	}
	return 0
}

// besides reports whether an entry has its sides on the same ports of the same pods as another.
func (e *Entry) besides(other *Entry) bool {
	a, b := e.spec, other.spec
	return a.TransmitPort == b.TransmitPort && a.ReceivePort == b.ReceivePort && a.TransmitPodGroup == b.TransmitPodGroup && a.ReceivePodGroup == b.ReceivePodGroup
}

// switchTo returns the entry that runs a template on the same ports and pods. An inline template has the name of its entry.
func switchTo(e *Entry, name spatev1.ObjectName, entries []Entry) (uint32, error) {
	for i := range entries {
		other := &entries[i]
		if other.Key != string(name) && other.Key != "/"+string(name) || !other.besides(e) {
			continue
		}
		if own, to := e.Template.Made, other.Template.Made; to.Capture == nil && own.Protocol != to.Protocol {
			return 0, fmt.Errorf("%q runs over another transport", name)
		}
		return uint32(i), nil
	}
	return 0, fmt.Errorf("no entry of the profile runs %q on the same ports; add one", name)
}
