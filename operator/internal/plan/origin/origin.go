// SPDX-License-Identifier: Apache-2.0

// Package origin answers: which field of a user's object does an engine refuse in a plan? Engines know plans only: a
// stream or template of a plan is an entry, its packets are those of a StatelessStream, its programs and pools those of
// an ASTFTemplate, times are in nanoseconds.
package origin

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/problem"
)

var spec = field.NewPath("spec")

// Origin maps parts of a plan to the fields they were made from.
type Origin struct {
	plan *enginev1.Plan
	// streams and templates are the names of StatelessStreams and ASTFTemplates, by the names of the entries that run
	// them.
	streams, templates map[string]string
	// selecting are the entries with several results, by the names of these.
	selecting map[string]string
	// groups are the names of ClientGroups, by the names of the profile's clients entries.
	groups map[string]string
	// alone is true for the plan of a template by itself.
	alone bool
}

// Of returns the origin of a plan that was made from these entries; a template alone (see plan.Alone) has none.
func Of(plan *enginev1.Plan, entries []spatev1.EntrySnapshot, clients []spatev1.ClientsSnapshot) Origin {
	o := Origin{plan: plan, streams: map[string]string{}, templates: map[string]string{}, groups: map[string]string{}, alone: len(entries)+len(clients) == 0}
	for _, c := range clients {
		o.groups[string(c.Name)] = string(c.Group)
	}
	for _, e := range entries {
		if e.Stream != "" {
			o.streams[e.Name] = string(e.Stream)
		}
		if e.Template != "" {
			o.templates[e.Name] = string(e.Template)
		}
	}
	selected, of := Selected(plan.GetStreams(), entries), map[string]string{}
	if len(selected) > 0 {
		o.selecting = map[string]string{}
		for _, s := range plan.GetStreams() {
			of[CountedAs(s)] = undirected(s)
		}
	}
	for entry, names := range selected {
		for _, name := range names {
			o.selecting[name] = entry
			if of[name] == entry { // the directions of its own replay
				o.streams[name] = o.streams[entry]
			} else {
				o.streams[name] = of[name]
			}
		}
	}
	return o
}

// Refusal is what an engine refuses, with the field that it was made from.
type Refusal struct {
	// Entry of the profile; empty for a field of the profile itself.
	Entry string
	// Stream or Template is the StatelessStream or ASTFTemplate that has Path; both are empty if the profile has it.
	Stream, Template string
	// Clients is the entry of the profile's clients, and Group the ClientGroup that has Path; that is empty if the entry has it.
	Clients, Group string
	// Path of the field; for an entry's field, relative to the entry.
	Path    string
	Message string
}

func (r Refusal) Error() string {
	var parts []string
	if r.Entry != "" {
		parts = append(parts, "entry "+r.Entry)
	}
	if r.Stream != "" {
		parts = append(parts, fmt.Sprintf("StatelessStream %q", r.Stream))
	}
	if r.Template != "" {
		parts = append(parts, fmt.Sprintf("ASTFTemplate %q", r.Template))
	}
	if r.Clients != "" {
		parts = append(parts, "clients "+r.Clients)
	}
	if r.Group != "" {
		parts = append(parts, fmt.Sprintf("ClientGroup %q", r.Group))
	}
	return strings.Join(slices.DeleteFunc(append(parts, r.Path, r.Message), func(part string) bool { return part == "" }), ": ")
}

// Problem returns the problem of the profile that has the entry.
func (r Refusal) Problem(profile *spatev1.TrafficProfile) problem.Problem {
	made := problem.Problem{Reason: spatev1.ReasonInvalidSpec, Path: r.Path, Message: "the engine would refuse it: " + r.Message}
	if r.Clients != "" {
		return r.ofClients(made, profile)
	}
	at := slices.IndexFunc(profile.Spec.Traffic, func(e spatev1.TrafficEntry) bool { return string(e.Name) == r.Entry })
	switch {
	case r.Entry == "" && !strings.HasPrefix(r.Path, "spec"), r.Entry != "" && at < 0:
		return problem.Problem{Reason: spatev1.ReasonInvalidSpec, Path: spec.Child("traffic").String(), Message: "the engine would refuse it: " + r.Error()}
	case r.Entry == "":
		return made
	case r.Stream != "":
		of := "ref"
		if stream := profile.Spec.Traffic[at].Stream; stream != nil && stream.Selector != nil {
			of = "selector"
		}
		return problem.Problems{made}.Within(spec.Child("traffic").Index(at).Child("stream", of), "StatelessStream", r.Stream)[0]
	case r.Template != "":
		return problem.Problems{made}.Within(spec.Child("traffic").Index(at).Child("application", "templateRef"), "ASTFTemplate", r.Template)[0]
	}
	made.Path = spec.Child("traffic").Index(at).String()
	if r.Path != "" {
		made.Path += "." + r.Path
	}
	return made
}

// planPath matches an engine's path of a part of a plan.
var planPath = regexp.MustCompile(`(stateful\.)?(templates|pools|payloads|routes|clients)\[([0-9]+)\]((?:\.[a-z0-9_]+(?:\[[0-9]+\])?)*)|(streams)\[([0-9]+)\]|\bstateful\.[a-z_.]+[a-z]`)

// Refused returns an engine's refusal of a field of the plan.
func (o Origin) Refused(path, description string) Refusal {
	r := o.at(parsePath(path))
	if strings.HasSuffix(path, "_ns") {
		description = spelled(description)
	}
	r.Message = o.Words(description)
	return r
}

// complaint matches a line in which an engine refuses a field.
var complaint = regexp.MustCompile(`^((?:stateful|streams|routes|clients)[][a-z0-9_.]*): (.*)$`)

// Line replaces the plan's names in a line of an engine's output.
func (o Origin) Line(line string) string {
	const prefix = "error: "
	rest, isError := strings.CutPrefix(line, prefix)
	if c := complaint.FindStringSubmatch(rest); c != nil {
		rest = o.Refused(c[1], c[2]).Error()
	} else {
		rest = o.Words(rest)
	}
	if isError {
		return prefix + rest
	}
	return rest
}

// Words replaces the plan's names in a text.
func (o Origin) Words(text string) string {
	text = planPath.ReplaceAllStringFunc(text, func(path string) string { return o.at(parsePath(path)).Error() })
	for _, w := range words {
		text = w.plan.ReplaceAllString(text, w.user)
	}
	return text
}

// words replaces words of the contract in engines' texts.
var words = []struct {
	plan *regexp.Regexp
	user string
}{
	{regexp.MustCompile(`\bgoes back to ([0-9]+)\b`), "goes back to command $1"},
	{regexp.MustCompile(`^payload [0-9]+ `), ""},
	{regexp.MustCompile(`\bpool [0-9]+ has\b`), "the pool has"},
	{regexp.MustCompile(`\bsend_message\b`), "sendMessage"},
	{regexp.MustCompile(`\breceive_messages\b`), "receiveMessages"},
	{regexp.MustCompile(`\bserver_port\b`), "receivePort"},
	{regexp.MustCompile(`\bclient_port\b`), "transmitPort"},
	{regexp.MustCompile(`\blocal_count\b`), "localCount"},
	{regexp.MustCompile(`\bteid_step\b`), "teidStep"},
	{regexp.MustCompile(`\bvni_step\b`), "vniStep"},
	{regexp.MustCompile(`\bkey_step\b`), "keyStep"},
	{regexp.MustCompile(`\blabel_step\b`), "labelStep"},
}

var nanoseconds = regexp.MustCompile(`\b([0-9]+)( ns)?\b`)

// spelled replaces nanoseconds by durations.
func spelled(text string) string {
	return nanoseconds.ReplaceAllStringFunc(text, func(number string) string {
		ns, err := strconv.ParseInt(strings.TrimSuffix(number, " ns"), 10, 64)
		if err != nil {
			return number
		}
		return time.Duration(ns).String()
	})
}

// ofProfile are the fields of a profile that a plan has once.
var ofProfile = map[string]string{
	"templates": "spec.traffic", "most_flows": "spec.maxFlowsPerEngine", "ramp_up_ns": "spec.rampUp", "ramp_up_step_ns": "spec.rampUpStep",
	"draw_seed": "spec.randomOrderSeed", "records.one_in": "spec.records.oneIn", "records.path": "spec.records.volume", "records.most": "spec.records.maxRecords",
}

// at returns the field from which a path of the plan was made; the path itself if that is not known.
func (o Origin) at(p path) Refusal {
	r := o.find(p)
	if o.alone {
		r.Entry = ""
	}
	return r
}

func (o Origin) find(p path) Refusal {
	inner, inStateful := p, len(p) > 1 && p[0] == segment{"stateful", -1}
	if inStateful {
		inner = p[1:]
	}
	if len(inner) == 0 {
		return Refusal{}
	}
	index, rest := inner[0].index, inner[1:]
	stateful, streams := o.plan.GetStateful(), o.plan.GetStreams()
	switch kind := inner[0].name; {
	case kind == "streams" && index >= 0 && index < len(streams):
		return o.stream(streams[index], rest)
	case kind == "templates" && index >= 0 && index < len(stateful.GetTemplates()):
		return o.template(stateful.GetTemplates()[index], rest)
	case kind == "routes" && index >= 0:
		return Refusal{Path: route(index, rest).String()}
	case kind == "routes_ready":
		return Refusal{Path: within(spec.Child("routing", "ready"), rest).String()}
	case kind == "clients" && !inStateful && index >= 0 && index < len(o.plan.GetClients()):
		return o.clients(o.plan.GetClients()[index], rest)
	case kind == "pools" && index >= 0:
		return o.pool(uint32(index), rest, p)
	case kind == "payloads" && index >= 0:
		return o.payload(uint32(index), rest, p)
	case kind == "ignored_sources" && len(rest) > 0:
		return Refusal{Path: ignoredSources(rest[0]).String()}
	case inStateful && ofProfile[inner.String()] != "":
		return Refusal{Path: ofProfile[inner.String()]}
	}
	return Refusal{Path: p.String()}
}

// route returns a field of a profile's set of routes.
func route(index int, rest path) *field.Path {
	at := spec.Child("routing", "advertise").Index(index)
	switch rest.String() {
	case "prefixes.range.first":
		return at.Child("prefixes", "range", "first") // whose name is that of the contract
	case "prefixes.mrt.path":
		return at.Child("prefixes", "mrt", "volume")
	}
	return within(at, rest)
}

// ignoredSources returns an item of a profile's ignored sources.
func ignoredSources(of segment) *field.Path {
	if of.name == "prefixes" {
		of.name = "addresses"
	}
	return within(spec.Child("ignoredSources"), path{of})
}

// root is the specification that has the fields of a template: its own, or that in an entry.
func (o Origin) root(t *enginev1.Template) *field.Path {
	if o.alone || o.templates[t.GetName()] != "" {
		return spec
	}
	return field.NewPath("application", "inline")
}

// ofStream maps fields of a stream in a plan to those of a StatelessStream, the longest first. Fields within them are
// reported by them.
var ofStream = []struct{ plan, user string }{
	{"packet.sizes", "packet.sizes"}, {"packet", "packet"}, {"program", "fields"},
	{"replay.path", "transmit.replay.pcap.volume"}, {"replay.pcap", "transmit.replay.pcap.from"}, {"replay.source", "transmit.replay.pcap"},
	{"replay.scale", "transmit.replay.gap.scale"}, {"replay.fixed_ns", "transmit.replay.gap.fixed"}, {"replay.gap", "transmit.replay.gap"},
	{"replay.min_gap_ns", "transmit.replay.minGap"}, {"replay.loops", "transmit.replay.loops"}, {"replay.half", "transmit.replay.directions"}, {"replay", "transmit.replay"},
	{"continuous", "transmit.continuous"}, {"bursts", "transmit"}, {"transmit", "transmit"}, {"start_delay_ns", "startDelay"},
	{"measure.mark", "measure.mark"}, {"measure.latency", "measure.latency"}, {"measure.by_tag", "measure.byTag"}, {"measure", "measure"}, {"cache", "cache"}, {"pinned", "pinned"},
}

// ofStreamsEntry maps those that are fields of an entry.
var ofStreamsEntry = map[string]string{"tx_port": "transmitPort", "rx_port": "receivePort", "paused": "paused", "waits": "stream.start", "next": "stream.next"}

// stream returns the field of an entry, or of the stream that it sends; what neither has is reported by the stream's
// name.
func (o Origin) stream(s *enginev1.Stream, rest path) Refusal {
	name := CountedAs(s)
	entry := cmp.Or(o.selecting[name], name)
	if len(rest) > 0 && ofStreamsEntry[rest[0].name] != "" {
		return Refusal{Entry: entry, Path: ofStreamsEntry[rest[0].name]}
	}
	for _, f := range ofStream {
		if !rest.begins(f.plan) {
			continue
		}
		if by := o.streams[name]; by != "" {
			return Refusal{Entry: entry, Stream: by, Path: "spec." + f.user}
		}
		return Refusal{Entry: entry, Path: "stream.inline." + f.user}
	}
	return Refusal{Path: append(path{{"stream " + s.GetName(), -1}}, rest...).String()}
}

// ofEntry maps the fields of a template in a plan that are fields of an entry.
var ofEntry = map[string]string{"name": "name", "client_port": "transmitPort", "server_port": "receivePort", "paused": "paused"}

func (o Origin) template(t *enginev1.Template, rest path) Refusal {
	r := Refusal{Entry: t.GetName()}
	if len(rest) == 0 {
		return r
	}
	kind, index := rest[0].name, rest[0].index
	if name, own := ofEntry[kind]; own {
		r.Path = name
		return r
	}
	r.Template = o.templates[t.GetName()]
	root := o.root(t)
	at := root
	switch kind {
	case "client", "server":
		r.Path = inProgram(root, t, kind, rest[1:]).String()
		return r
	case "client_tunables", "server_tunables":
		at = root.Child("tunables", strings.TrimSuffix(kind, "_tunables"))
		if len(rest) > 1 && rest[1].name != "tos" && rest[1].name != "ttl" {
			at = at.Child("tcp")
		}
		r.Path = within(at, rest[1:]).String()
		if r.Template != "" {
			r.Path += " (or the profile's)"
		}
		return r
	case "capture":
		at = root.Child("source", "pcap")
		if t.GetCapture().GetPath() != "" {
			at = at.Child("volume")
		} else if len(rest) > 1 && rest[1].name == "pcap" {
			at = at.Child("from")
		}
		r.Path = at.String()
		return r
	case "clients", "servers":
		at = root.Child("pools", kind)
		if index >= 0 {
			at = at.Index(index)
		}
		if rest = rest[1:]; len(rest) > 0 && rest[0].name == "pool" {
			rest = nil
		}
		r.Path = within(at, rest).String()
		return r
	case "protocol":
		at, rest = originOf(root, t), nil
		if written(t) || t.GetOrigin() == spec.Child("source", "payload").String() {
			at = at.Child("transport")
		}
	case "group":
		at, rest = root.Child("statisticsGroup"), nil
	case "flows_per_second":
		at, rest = root.Child("connectionRate"), nil
	}
	r.Path = within(at, rest).String()
	return r
}

// originOf is the field that a template's programs were made from. The plan has its path in the specification.
func originOf(root *field.Path, t *enginev1.Template) *field.Path {
	if written(t) {
		return root.Child("source", "programs")
	}
	at := root
	for _, s := range parsePath(t.GetOrigin())[1:] {
		at = at.Child(s.name)
	}
	return at
}

// written reports whether the user wrote the programs of a template: their commands are fields then.
func written(t *enginev1.Template) bool {
	return t.GetOrigin() == ""
}

// inProgram returns the field of a command, or of what the program was made from.
func inProgram(root *field.Path, t *enginev1.Template, side string, rest path) *field.Path {
	program, at := t.GetClient(), root.Child("source", "programs", side)
	if side == "server" {
		program = t.GetServer()
	}
	if !written(t) {
		return originOf(root, t)
	}
	if len(rest) == 0 {
		return at
	}
	kind, index := rest[0].name, rest[0].index
	all := program.GetInstructions()
	if kind == "counters" && index >= 0 {
		if by := slices.IndexFunc(all, func(i *enginev1.Instruction) bool {
			c, counts := i.GetKind().(*enginev1.Instruction_Count)
			return counts && int(c.Count) == index || i.GetCountTime() != nil && int(i.GetCountTime().GetCounter()) == index
		}); by >= 0 {
			return at.Index(by).Child("count", "counter")
		}
	}
	if kind != "instructions" || index < 0 || index >= len(all) {
		return at
	}
	at, rest = at.Index(index), rest[1:]
	switch rest.String() {
	case "send.payload":
		return at.Child("send", "content")
	case "send_message.payload":
		return at.Child("sendMessage")
	case "keepalive_ns":
		return at.Child("keepalive", "timeout")
	case "count":
		return at.Child("count", "counter")
	case "count_time.counter":
		return at.Child("count", "counter")
	case "count_time.since":
		return at.Child("count", "since")
	case "mark":
		return at.Child("setTime", "variable")
	case "switch_template":
		return at.Child("switchTemplate", "template")
	case "open_connection.template", "open_connection":
		return at.Child("openConnection", "template")
	case "next_template", "next_templates.templates", "next_templates":
		return at.Child("nextTemplate", "template")
	case "delay.max_ns":
		if d := all[index].GetDelay(); d.GetMinNs() == d.GetMaxNs() {
			return at.Child("delay", "min")
		}
	}
	return within(at, rest)
}

// pool returns the field of the first template that uses the pool.
func (o Origin) pool(index uint32, rest, whole path) Refusal {
	for _, t := range o.plan.GetStateful().GetTemplates() {
		for _, side := range []struct {
			name  string
			pools []*enginev1.WeightedPool
		}{{"clients", t.GetClients()}, {"servers", t.GetServers()}} {
			at := slices.IndexFunc(side.pools, func(w *enginev1.WeightedPool) bool { return w.GetPool() == index })
			if at >= 0 {
				return Refusal{Entry: t.GetName(), Template: o.templates[t.GetName()], Path: within(o.root(t).Child("pools", side.name).Index(at), ofPool(rest)).String()}
			}
		}
	}
	return Refusal{Path: whole.String()}
}

// payload returns the field of the first command that sends the payload.
func (o Origin) payload(index uint32, rest, whole path) Refusal {
	for _, t := range o.plan.GetStateful().GetTemplates() {
		for side, program := range map[string]*enginev1.Program{"client": t.GetClient(), "server": t.GetServer()} {
			for i, instruction := range program.GetInstructions() {
				at := o.root(t).Child("source", "programs", side).Index(i)
				switch kind := instruction.GetKind().(type) {
				case *enginev1.Instruction_Send:
					if kind.Send.GetPayload() != index {
						continue
					}
					at = at.Child("send", "content")
				case *enginev1.Instruction_SendMessage:
					if kind.SendMessage.GetPayload() != index {
						continue
					}
					at = at.Child("sendMessage")
				default:
					continue
				}
				if at = within(at, rest); !written(t) {
					at = originOf(o.root(t), t)
				}
				return Refusal{Entry: t.GetName(), Template: o.templates[t.GetName()], Path: at.String()}
			}
		}
	}
	return Refusal{Path: whole.String()}
}

// spellings are fields whose names are not those of the contract in camel case.
var spellings = map[string]string{
	"first_mac": "startMAC", "downlink_teid": "downlinkTEID", "mirror_vlans": "mirrorVLANs", "inner_gateway_mac": "innerGatewayMAC", "tpid": "protocol", "minimum_rto_ns": "minRTO", "http_message": "httpMessage",
	"first": "start", "last": "end", "lowest": "min", "highest": "max", "limit": "maxFlows", "most_open": "maxConcurrentFlows", "wait": "waitForAck",
	"no_timestamps": "timestamps", "no_sack": "sack", "no_window_scale": "windowScale",
}

// within returns a field from its parts in the contract's spelling.
func within(at *field.Path, parts path) *field.Path {
	for _, part := range parts {
		known, found := spellings[part.name]
		if !found {
			split := strings.Split(strings.TrimSuffix(part.name, "_ns"), "_")
			for i, word := range split[1:] {
				split[i+1] = strings.ToUpper(word[:min(1, len(word))]) + word[min(1, len(word)):]
			}
			known = strings.Join(split, "")
		}
		at = at.Child(known)
		if part.index >= 0 {
			at = at.Index(part.index)
		}
	}
	return at
}

// OfTemplate returns what an engine refuses of a template's plan (see plan.Alone) as a problem of the template.
func (r Refusal) OfTemplate() problem.Problem {
	return problem.Problem{Reason: spatev1.ReasonInvalidSpec, Path: r.Path, Message: "the engine would refuse it: " + r.Message}
}
