// SPDX-License-Identifier: Apache-2.0

package newprofile

// This file answers: which objects does a preset consist of?

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/resources"
)

// loopbackPort is the port of a generator that nothing has to be there for.
const loopbackPort = "loop"

// preset is traffic that a user starts from.
type preset struct {
	name, about string
	// rate, duration, source and destination are those where no others are given.
	rate, duration, source, destination string
	// rateIs and durationIs say of what they are.
	rateIs, durationIs string
	// packets is true if the preset consists of packets, with a destination MAC address; else of connections.
	packets bool
	// set completes a profile that has its name and generator, and returns the objects beside it.
	set func(s *settings, profile *spatev1.TrafficProfile) []resources.Resource
}

// presets are in the order in which they are offered.
var presets = []preset{
	{
		name: "imix", about: "simple IMIX: UDP packets of 64, 594 and 1518 bytes, 7:4:1; none may be lost", packets: true,
		rate: "12kpps", duration: "10s", source: "198.18.0.2", destination: "198.19.0.2", rateIs: "packets a second", durationIs: "of the run", set: imix,
	},
	{
		name: "http", about: "HTTP clients and servers, a request on each connection; none may fail",
		rate: "100cps", duration: "10s", source: "198.18.128.1", destination: "198.19.128.1", rateIs: "connections a second", durationIs: "of the run", set: http,
	},
	{
		name: "syn-flood", about: "TCP SYNs from random clients and ports (RFC 4987)", packets: true,
		rate: "20kpps", duration: "10s", source: "198.18.128.0", destination: "198.19.0.2", rateIs: "packets a second", durationIs: "of the run", set: synFlood,
	},
	{
		name: "rfc2544", about: "a search by RFC 2544: throughput, latency, frame loss and back-to-back frames of seven sizes", packets: true,
		rate: "100%/port", duration: standardTrial, source: "198.18.0.2", destination: "198.19.0.2", rateIs: "the greatest load", durationIs: "of a full-length trial", set: rfc2544,
	},
}

// settings are what presets are made with.
type settings struct {
	name, generator     string
	withGenerator       bool
	port, receivePort   string
	rate, duration      string
	source, destination string
	destinationMAC      string
	preset              *preset
}

// isLoopback reports whether the traffic runs on a loopback port that is printed, too.
func (s *settings) isLoopback() bool { return s.generator == "" || s.withGenerator }

// objects returns all objects of the preset, the profile first but for its generator.
func (s *settings) objects() []resources.Resource {
	profile := &spatev1.TrafficProfile{TypeMeta: typeOf("TrafficProfile"), ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	var all []resources.Resource
	if s.generator != "" {
		profile.Spec.GeneratorRef = &spatev1.GeneratorReference{Name: spatev1.ObjectName(s.generator)}
	}
	switch {
	case s.generator == "":
		profile.Spec.Generator = loopback(s.port)
	case s.withGenerator:
		generator := &spatev1.TrafficGenerator{TypeMeta: typeOf("TrafficGenerator"), ObjectMeta: metav1.ObjectMeta{Name: s.generator}, Spec: *loopback(s.port)}
		all = append(all, resources.Resource{Kind: "trafficgenerator", Object: generator})
	}
	if s.isLoopback() {
		// On a CPU that others use, packets leave late at any time: the run is for trying, and its thresholds hold of late packets, too.
		profile.Spec.GeneratorTolerance = spatev1.GeneratorTolerance{Late: "100%"}
	}
	beside := s.preset.set(s, profile)
	return append(append(all, resources.Resource{Kind: "trafficprofile", Object: profile}), beside...)
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: spatev1.GroupVersion.String(), Kind: kind}
}

// loopback describes a generator for trying things: it needs no network, no hugepages and no CPU of its own.
func loopback(port string) *spatev1.TrafficGeneratorSpec {
	return &spatev1.TrafficGeneratorSpec{
		Ports:        []spatev1.GeneratorPort{{Name: spatev1.PortName(port), Attachment: spatev1.PortAttachment{Loopback: &spatev1.LoopbackAttachment{}}, LineRate: "1Gbps"}},
		CPUPolicy:    spatev1.CPUShared,
		PacketMemory: spatev1.PacketMemory{Backing: spatev1.BackingStandard},
	}
}

// entry returns an entry between the ports; without ports it goes from the generator's first to its second.
func (s *settings) entry(name string) spatev1.TrafficEntry {
	return spatev1.TrafficEntry{Name: spatev1.EntryName(name), TransmitPort: spatev1.PortName(s.port), ReceivePort: spatev1.PortName(s.receivePort)}
}

// headers returns Ethernet, IPv4 and a last one.
func (s *settings) headers(last spatev1.Header) []spatev1.Header {
	return []spatev1.Header{
		{Ethernet: &spatev1.EthernetHeader{Destination: spatev1.MACAddress(s.destinationMAC)}},
		{IPv4: &spatev1.IPv4Header{Source: spatev1.IPv4Address(s.source), Destination: spatev1.IPv4Address(s.destination)}},
		last,
	}
}

// echo is UDP to the port that RFC 2544 appendix C.2.6.4 names.
func echo() spatev1.Header {
	return spatev1.Header{UDP: &spatev1.UDPHeader{SourcePort: ptr.To[int32](1024), DestinationPort: ptr.To[int32](7)}}
}

func imix(s *settings, profile *spatev1.TrafficProfile) []resources.Resource {
	entry := s.entry("imix")
	entry.Stream = &spatev1.StreamEntry{Inline: &spatev1.StatelessStreamSpec{
		Packet:   &spatev1.Packet{Headers: s.headers(echo()), IMIX: spatev1.IMIXSimple},
		Transmit: spatev1.Transmit{Continuous: &spatev1.ContinuousTransmit{Rate: spatev1.Rate(s.rate)}},
		Measure:  spatev1.Measure{Flow: true},
	}}
	profile.Spec.Traffic = []spatev1.TrafficEntry{entry}
	profile.Spec.Duration = spatev1.Duration(s.duration)
	profile.Spec.Thresholds = []spatev1.Threshold{
		{Name: "no-loss", Expression: "result.lost == 0", Message: "packets were lost"},
		{Name: "in-order", Expression: "result.outOfOrder == 0 && result.duplicates == 0"},
	}
	return nil
}

// Sizes of the pools of addresses.
const (
	httpClients = 100
	httpServers = 10
	synClients  = 1 << 15
)

func http(s *settings, profile *spatev1.TrafficProfile) []resources.Resource {
	entry := s.entry("web")
	entry.Application = &spatev1.ApplicationEntry{Inline: &spatev1.ASTFTemplateSpec{
		Source:         spatev1.TemplateSource{HTTP: &spatev1.HTTPSource{ResponseBytes: ptr.To[int64](16384)}},
		ConnectionRate: spatev1.ConnectionRate(s.rate),
		Pools: spatev1.AddressPools{
			Clients: []spatev1.AddressPool{{Name: "clients", Start: spatev1.IPAddress(s.source), Count: ptr.To[int64](httpClients)}},
			Servers: []spatev1.AddressPool{{Name: "servers", Start: spatev1.IPAddress(s.destination), Count: ptr.To[int64](httpServers)}},
		},
	}}
	profile.Spec.Traffic = []spatev1.TrafficEntry{entry}
	profile.Spec.Duration, profile.Spec.Drain = spatev1.Duration(s.duration), "2s" // for connections that are open at the end
	profile.Spec.Thresholds = []spatev1.Threshold{
		{Name: "none-failed", Expression: "result.flows.failed == 0 && result.flows.established > 0", Message: "connections failed, or there were none"},
	}
	return nil
}

// synFlood has packets without room for a trailer: a receiver counts what arrives, if a port for it is named.
func synFlood(s *settings, profile *spatev1.TrafficProfile) []resources.Resource {
	entry := s.entry("syn-flood")
	random := func(name, field string, values spatev1.FieldRange, seed int64) spatev1.PacketField {
		return spatev1.PacketField{Name: spatev1.EntryName(name), Range: &values, Order: spatev1.OrderRandom, Seed: ptr.To(seed), Writes: []spatev1.FieldWrite{{Field: field}}}
	}
	syn := spatev1.Header{TCP: &spatev1.TCPHeader{DestinationPort: 80, Flags: []spatev1.TCPFlag{spatev1.TCPSyn}}}
	entry.Stream = &spatev1.StreamEntry{Inline: &spatev1.StatelessStreamSpec{
		Packet: &spatev1.Packet{Headers: s.headers(syn)},
		Fields: []spatev1.PacketField{
			random("client", "ipv4.source", spatev1.FieldRange{Start: spatev1.FieldValue(s.source), Count: ptr.To[int64](synClients)}, 7),
			random("port", "tcp.sourcePort", spatev1.FieldRange{Start: "1024", End: ptr.To[spatev1.FieldValue]("65535")}, 8),
			random("sequence", "tcp.sequence", spatev1.FieldRange{Start: "0", End: ptr.To[spatev1.FieldValue]("0xffffffff")}, 9),
		},
		Transmit: spatev1.Transmit{Continuous: &spatev1.ContinuousTransmit{Rate: spatev1.Rate(s.rate)}},
	}}
	if s.receivePort != "" {
		entry.ReceivePort = "" // of the stream itself nothing is measured
		profile.Spec.Receive = []spatev1.ReceivePort{{Name: "victim", Port: spatev1.PortName(s.receivePort)}}
		profile.Spec.Thresholds = []spatev1.Threshold{{Name: "arrived", Expression: `result.receivers["victim"].packets >= result.tx`, Message: "fewer packets arrived than were sent"}}
	}
	profile.Spec.Traffic = []spatev1.TrafficEntry{entry}
	profile.Spec.Duration = spatev1.Duration(s.duration)
	return nil
}

// standardTrial is the length of a trial by RFC 2544 section 24.
const standardTrial = "60s"

// frameSizes are those of RFC 2544 section 9.1.
var frameSizes = []int32{64, 128, 256, 512, 1024, 1280, 1518}

func rfc2544(s *settings, profile *spatev1.TrafficProfile) []resources.Resource {
	entry := s.entry("forward")
	entry.Stream = &spatev1.StreamEntry{Inline: &spatev1.StatelessStreamSpec{
		Packet:   &spatev1.Packet{Headers: s.headers(echo())},
		Transmit: spatev1.Transmit{Continuous: &spatev1.ContinuousTransmit{Rate: "1kpps"}}, // the search sets the rate of each trial
		Measure:  spatev1.Measure{Flow: true, Latency: true},
	}}
	profile.Spec.Traffic = []spatev1.TrafficEntry{entry}
	profile.Spec.RunPolicy = spatev1.RunManual // the search creates its runs
	goal := spatev1.SearchGoal{Name: "ndr", Standard: spatev1.GoalRFC2544}
	latency, loss := &spatev1.LatencyTest{Of: "ndr", AtPercent: []int32{100}}, &spatev1.FrameLossTest{}
	if s.duration != standardTrial {
		trial := spatev1.Duration(s.duration)
		goal.Standard, goal.LossRatio, goal.FinalTrialDuration = "", "0%", trial
		latency.Duration, loss.Duration = trial, trial
	}
	search := &spatev1.TrafficSearch{TypeMeta: typeOf("TrafficSearch"), ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	search.Spec = spatev1.TrafficSearchSpec{
		Environment: spatev1.EnvironmentIsolated,
		ProfileRef:  spatev1.LocalReference{Name: spatev1.ObjectName(s.name)},
		SearchTests: spatev1.SearchTests{
			Load:       spatev1.SearchLoad{Min: "1kpps", Max: spatev1.SearchRate(s.rate)},
			Throughput: &spatev1.ThroughputTest{Goals: []spatev1.SearchGoal{goal}},
			Latency:    latency,
			FrameLoss:  loss,
			BackToBack: &spatev1.BackToBackTest{},
			Budget:     spatev1.SearchBudget{Time: "24h"},
		},
	}
	for _, size := range frameSizes {
		search.Spec.FrameSizes = append(search.Spec.FrameSizes, spatev1.FrameSize{Size: ptr.To(size)})
	}
	return []resources.Resource{{Kind: "trafficsearch", Object: search}}
}
