// SPDX-License-Identifier: Apache-2.0

// Package application answers: can a template be run, and with which programs, addresses and rate?
package application

import (
	"fmt"
	"math/big"
	"path"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/data"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/quantity"
)

// Template is a template that can be run. What it shares with others is not numbered yet.
type Template struct {
	// Spec describes the template, with the programs of its preset.
	Spec *spatev1.ASTFTemplateSpec
	// Rate in connections per second; 0 if it has none of its own.
	Rate *big.Rat
	// Made has what belongs to this template only.
	Made *enginev1.Template
	// Client and Server are the programs of the sides; nil without commands.
	Client, Server *Program
	// Clients and Servers are the addresses of the sides.
	Clients, Servers []Pool
}

// checker checks parts of a template, and adds what is wrong with them to its problems.
type checker struct{ *problem.Problems }

// Surroundings are inputs beside a template's own description.
type Surroundings struct {
	Data data.Data
	// Generator whose volumes are read; nil if it is not known.
	Generator *spatev1.TrafficGenerator
}

// Check reports what is wrong with an ASTFTemplate by itself. It does not look up data that the template names.
func Check(spec *spatev1.ASTFTemplateSpec) problem.Problems {
	_, problems := Resolve(Expand(spec), field.NewPath("spec"), Surroundings{})
	return problems
}

// Resolve checks a template with what surrounds it; at is the field that describes it.
func Resolve(spec *spatev1.ASTFTemplateSpec, at *field.Path, around Surroundings) (*Template, problem.Problems) {
	var problems problem.Problems
	check := checker{&problems}
	t := &Template{Spec: spec, Made: &enginev1.Template{Group: string(spec.StatisticsGroup), Latency: spec.Latency, Origin: origin(&spec.Source)}}
	check.preset(&spec.Source, at.Child("source"))
	if len(problems) > 0 {
		return nil, problems // its programs would report the same
	}
	check.templateSource(t, at.Child("source"), around)
	if spec.Latency && t.Made.Protocol == enginev1.TransportProtocol_TRANSPORT_PROTOCOL_TCP {
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("latency"), "round trips are measured of UDP messages; leave it out, or set transport: UDP")
	}
	t.Rate = check.connectionRate(spec.ConnectionRate, at.Child("connectionRate"))
	if spec.DestinationPort != nil {
		check.Bounded(int64(*spec.DestinationPort), 1, 65535, at.Child("destinationPort"))
		t.Made.DestinationPort = uint32(*spec.DestinationPort)
	} else if spec.Source.Pcap == nil {
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("destinationPort"), "is required: the port that the servers listen on")
	}
	t.Made.Limit = check.Count(spec.MaxFlows, at.Child("maxFlows"))
	t.Made.MostOpen = check.Count(spec.MaxConcurrentFlows, at.Child("maxConcurrentFlows"))
	t.Made.Seed = uint64(ptr.Deref(spec.Seed, 0))
	pools := at.Child("pools")
	t.Clients = check.pools(spec.Pools.Clients, pools.Child("clients"), false)
	t.Servers = check.pools(spec.Pools.Servers, pools.Child("servers"), true)
	if len(spec.Pools.Servers) == 0 {
		problems.Add(spatev1.ReasonInvalidSpec, pools.Child("servers"), "name the addresses that servers have")
	}
	check.oneFamily(t)
	check.apartFrom(t.Clients, t.Servers)
	t.Made.Match = check.match(spec.Match, at.Child("match"))
	// The settings are checked here; a run's also depend on its profile (TunablesFor).
	check.tunables(&spec.Tunables.Client, at.Child("tunables", "client"))
	check.tunables(&spec.Tunables.Server, at.Child("tunables", "server"))
	if len(problems) > 0 {
		return nil, problems
	}
	return t, nil
}

// templateSource reads the programs, or the capture from which they are derived.
func (p checker) templateSource(t *Template, at *field.Path, around Surroundings) {
	source := &t.Spec.Source
	if !p.ExactlyOne(at, "programs, pcap, http, dns and payload", source.Programs != nil && !Preset(source), source.Pcap != nil, source.HTTP != nil, source.DNS != nil, source.Payload != nil) {
		return
	}
	if source.Pcap != nil {
		t.Made.Capture = p.templateCapture(source.Pcap, at.Child("pcap"), around)
		return
	}
	programs, at := source.Programs, at.Child("programs")
	switch programs.Transport {
	case spatev1.TransportTCP:
		t.Made.Protocol = enginev1.TransportProtocol_TRANSPORT_PROTOCOL_TCP
	case spatev1.TransportUDP:
		t.Made.Protocol = enginev1.TransportProtocol_TRANSPORT_PROTOCOL_UDP
	default:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("transport"), "%q: must be TCP or UDP", programs.Transport)
	}
	if len(programs.Client)+len(programs.Server) == 0 {
		p.Add(spatev1.ReasonInvalidSpec, at, "write the program of at least one side")
	}
	if len(programs.Client) > 0 {
		t.Client = p.commands(programs.Client, at.Child("client"), around.Data)
	}
	if len(programs.Server) > 0 {
		p.opensNothing(programs.Server, at.Child("server"))
		t.Server = p.commands(programs.Server, at.Child("server"), around.Data)
	}
}

// opensNothing reports commands of a server that are for clients.
func (p checker) opensNothing(server []spatev1.Command, at *field.Path) {
	for i := range server {
		for _, c := range []struct {
			child string
			set   bool
		}{{"openConnection", server[i].OpenConnection != nil}, {"nextTemplate", server[i].NextTemplate != nil}} {
			if c.set {
				p.Add(spatev1.ReasonInvalidSpec, at.Index(i).Child(c.child), "servers open no connections: move it to the program of the client")
			}
		}
	}
}

// templateCapture returns the capture of a session; the engine checks that it is one.
func (p checker) templateCapture(source *spatev1.PcapSource, at *field.Path, around Surroundings) *enginev1.Capture {
	if !p.ExactlyOne(at, "from and volume", source.From != nil, source.Volume != nil) {
		return nil
	}
	if source.Volume != nil {
		*p.Problems = append(*p.Problems, data.CheckVolume(source.Volume, at.Child("volume"), around.Generator)...)
		return &enginev1.Capture{Source: &enginev1.Capture_Path{Path: path.Join(data.VolumesDir, string(source.Volume.Name), source.Volume.Path)}}
	}
	if around.Data.Bytes == nil {
		return &enginev1.Capture{}
	}
	bytes, found := around.Data.Bytes[source.From.Reference()]
	if !found {
		p.Add(spatev1.ReasonReferenceNotFound, at.Child("from"), "%s does not exist: apply it, or correct name and key", data.NameOf(source.From.Reference()))
		return nil
	}
	if ref := around.Data.Ref(source.From, bytes); ref != nil {
		return &enginev1.Capture{Source: &enginev1.Capture_Data{Data: ref}}
	}
	return &enginev1.Capture{Source: &enginev1.Capture_Pcap{Pcap: bytes}}
}

func (p checker) connectionRate(rate spatev1.ConnectionRate, at *field.Path) *big.Rat {
	if rate == "" {
		return new(big.Rat)
	}
	value, err := quantity.ParseConnectionRate(rate)
	if err != nil {
		p.Add(spatev1.ReasonInvalidSpec, at, "%q: %v", rate, err)
		return new(big.Rat)
	}
	return value
}

// oneFamily reports addresses of both families in a template: any client may connect to any server.
func (p checker) oneFamily(t *Template) {
	var first *Pool
	for _, side := range [][]Pool{t.Clients, t.Servers} {
		for i := range side {
			if first == nil {
				first = &side[i]
			}
			if side[i].Is4() == first.Is4() {
				continue
			}
			at, is, other := side[i].At.Child("start"), side[i].first.String(), fmt.Sprintf("%s, which is %s", first.At.Child("start"), first.first)
			const leased = "an address of these clients"
			if first.From != nil { // a pool of emulated clients, and a range of another family
				at, is, other = first.At.Child("from", "family"), leased, side[i].At.String()
			} else if side[i].From != nil {
				at, is = side[i].At.Child("from", "family"), leased
			}
			p.Add(spatev1.ReasonInvalidSpec, at, "%s is not of the family of %s: any client of a template connects to any server; write a template for each family", is, other)
			return
		}
	}
}

// mostMatched is the number of a flow's bytes by which its template can be selected: 576 that every host accepts (RFC
// 1122 section 3.3.2) without 40 of headers.
const mostMatched = 536

func (p checker) match(all []spatev1.PayloadMatch, at *field.Path) []*enginev1.PayloadMatch {
	var made []*enginev1.PayloadMatch
	for i := range all {
		m, at := &all[i], at.Index(i)
		if !p.ExactlyOne(at, "text and hex", m.Text != "", m.Hex != "") {
			continue
		}
		bytes := []byte(m.Text)
		if m.Hex != "" {
			bytes = p.hexDigits(m.Hex, at.Child("hex"))
		}
		if m.Offset < 0 || int(m.Offset)+len(bytes) > mostMatched {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("offset"), "%d: its %d bytes must lie within the first %d that a client sends, which every path takes in one packet", m.Offset, len(bytes), mostMatched)
		}
		made = append(made, &enginev1.PayloadMatch{Offset: uint32(m.Offset), Bytes: bytes})
	}
	return made
}
