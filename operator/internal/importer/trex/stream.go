// SPDX-License-Identifier: Apache-2.0

// How is a TRex stream converted, except for its program?

package trex

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net"
	"strconv"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/packet"
	"spate.dev/operator/internal/plan/stream"
)

// Bits of a stream's `flags`.
const (
	// sourceFromPacket keeps the packet's own source address.
	sourceFromPacket = 1 << 0
	// destinationMode is 2 bits: 0 takes the port's destination, 1 the packet's, 2 the one resolved by ARP.
	destinationMode       = 3 << 1
	destinationFromPacket = 1 << 1
	// dummy streams take time and send nothing.
	dummy = 1 << 3
)

// importedStream is a TRex stream that is being converted.
type importedStream struct {
	// called is its name in messages.
	called string
	path   string
	// name and id are what other streams refer to; next and nextID are its own references.
	name, id, next, nextID string
	// disabled streams send nothing.
	disabled bool
	// count of its own ends after which it starts no other stream; 0 for never.
	count uint64

	// mark by which its packets are counted; 0 for none.
	mark uint32

	object string
	// selectedBy is the entry that selects it; empty if it has an entry of its own.
	selectedBy spatev1.EntryName
	spec       spatev1.StatelessStreamSpec
	entry      spatev1.TrafficEntry
}

// stream converts one.
func (in *importer) stream(index int, raw json.RawMessage) {
	s := &importedStream{called: fmt.Sprintf("stream %d", index+1), path: fmt.Sprintf("$[%d]", index)}
	s.entry.Stream = &spatev1.StreamEntry{}
	in.streams = append(in.streams, s)
	in.problems.stream, in.notes.stream = s.called, s.called
	o := in.problems.object(raw, s.path)
	if o.broken {
		return
	}
	o.flatten("stream")
	s.name, s.id = o.label("name"), o.label("stream_id")
	if s.name != "" {
		s.called += " (" + s.name + ")"
		in.problems.stream, in.notes.stream = s.called, s.called
	}
	in.call(s, index+1)
	before := len(in.problems.errs)
	s.next, s.nextID, s.count = o.label("next"), o.label("next_stream_id"), o.wholeOr("action_count", 0, math.MaxUint32, 0)
	if s.disabled = !o.truth("enabled"); s.disabled {
		in.notes.addAt(o.at("enabled"), "is false: it is paused here, and what it would send counts in the load of its port; remove its entry if it is not to be resumed")
	}
	if !o.truth("self_start") {
		s.entry.Stream.Start = spatev1.StartWaiting
	}
	s.entry.Paused = o.truthOr("start_paused", false) || s.disabled
	s.spec.StartDelay = in.microseconds(o, "isg")
	s.mode(o.object("mode"), in)
	if core := o.signed("core_id", -math.MaxInt32, math.MaxInt32); core >= 0 {
		s.spec.Pinned = true
		if core > 0 {
			in.notes.addAt(o.at("core_id"), "TRex sends it by core %d; here the first worker of the port does", core)
		}
	}
	frame := in.bytes(o.object("packet"))
	flags := in.flags(o)
	seed := int64(o.wholeOr("random_seed", 0, math.MaxUint32, 0))
	if seed == 0 {
		seed = int64(index + 1) // TRex takes the time
	}
	measured := in.flowStats(s, o.object("flow_stats"), frame)
	program := &program{problems: in.problems, notes: in.notes, frame: frame, seed: seed}
	if s.spec.Cache = program.read(o.object("vm")); s.spec.Cache > 0 && !measured.latency && !measured.tagged {
		in.notes.addAt(s.path+".vm.cache", "TRex deals %d packets out over its cores; here each worker has as many", s.spec.Cache)
	}
	o.done()
	s.spec.Fields = program.fields()
	s.spec.Packet = &spatev1.Packet{Bytes: program.frame, Checksums: program.sums()}
	in.addresses(s.spec.Packet, flags)
	in.measure(s, measured)
	in.random(program)
	if len(in.problems.errs) == before {
		in.check(s)
	}
}

// call sets the names of a stream's resources.
func (in *importer) call(s *importedStream, position int) {
	number := strconv.Itoa(position)
	s.entry.Name = spatev1.EntryName(in.entries.unique(label(s.name, "stream-"+number), position))
	s.object = in.objects.unique(label(in.name+"-"+label(s.name, number), number), position)
	s.entry.Stream.Ref = &spatev1.LocalReference{Name: spatev1.ObjectName(s.object)}
	s.entry.TransmitPort = spatev1.PortName(in.options.Port)
}

// microseconds reads a time.
func (in *importer) microseconds(o *object, key string) spatev1.Duration {
	value := o.decimal(key)
	ns := new(big.Rat).Mul(value, big.NewRat(1000, 1))
	ns.Add(ns, big.NewRat(1, 2))
	whole := new(big.Int).Quo(ns.Num(), ns.Denom())
	if !whole.IsInt64() {
		o.wrong(key, "%s us is too long", value.FloatString(0))
		return ""
	}
	if whole.Sign() == 0 {
		return ""
	}
	return duration(whole.Int64())
}

// duration formats nanoseconds in the largest unit that needs no fraction.
func duration(ns int64) spatev1.Duration {
	for _, unit := range []struct {
		ns   int64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}} {
		if ns%unit.ns == 0 {
			return spatev1.Duration(strconv.FormatInt(ns/unit.ns, 10) + unit.name)
		}
	}
	return spatev1.Duration(strconv.FormatInt(ns, 10) + "ns")
}

func (s *importedStream) mode(o *object, in *importer) {
	rate := rate(o.object("rate"))
	switch o.choice("type", "continuous", "single_burst", "multi_burst") {
	case "continuous":
		s.spec.Transmit.Continuous = &spatev1.ContinuousTransmit{Rate: rate}
	case "single_burst":
		s.spec.Transmit.Burst = &spatev1.BurstTransmit{Packets: int64(o.whole("total_pkts", 1, math.MaxUint32)), Rate: rate}
	case "multi_burst":
		bursts := &spatev1.MultiBurstTransmit{
			PacketsPerBurst: int64(o.whole("pkts_per_burst", 1, math.MaxUint32)), InterBurstGap: in.microseconds(o, "ibg"), Rate: rate,
		}
		if bursts.InterBurstGap == "" {
			bursts.InterBurstGap = "0s"
		}
		if count := int64(o.whole("count", 0, math.MaxUint32)); count > 0 {
			bursts.Bursts = &count
		}
		s.spec.Transmit.MultiBurst = bursts
	}
	o.done()
}

// places is the number of decimal places of a rate.
const places = 16

func rate(o *object) spatev1.Rate {
	value := o.decimal("value")
	unit := map[string]string{"pps": "pps", "bps_L1": "bpsL1", "bps_L2": "bpsL2", "percentage": "%"}[o.choice("type", "pps", "bps_L1", "bps_L2", "percentage")]
	o.done()
	text := value.FloatString(places)
	text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	const most = 32
	if text == "" || text == "0" || len(text)+len(unit) > most {
		o.wrong("value", "%s is not a rate that can be sent at", value.FloatString(places))
	}
	return spatev1.Rate(text + unit)
}

// bytes reads a packet; short ones are padded with zeros, as TRex does.
func (in *importer) bytes(o *object) []byte {
	frame, err := base64.StdEncoding.DecodeString(o.text("binary"))
	if err != nil && !o.broken {
		o.wrong("binary", "is no base64: %v", err)
	}
	o.take("meta") // a note for TRex's client itself
	o.done()
	const longest = 9 * 1024 // and something: TRex's own buffers
	if len(frame) > 2*longest {
		o.wrong("binary", "%d bytes are too long for any packet", len(frame))
		frame = nil
	}
	if len(frame) < packet.MinFrameBytes {
		frame = append(frame, make([]byte, packet.MinFrameBytes-len(frame))...)
	}
	return frame
}

func (in *importer) flags(o *object) uint64 {
	flags := o.whole("flags", 0, math.MaxUint16)
	switch {
	case flags&dummy != 0:
		o.wrong("flags", "a dummy stream, which takes time and sends nothing, is not supported; leave it out and add its time to the isg of its next")
	case flags > destinationMode|sourceFromPacket || flags&destinationMode == destinationMode:
		o.wrong("flags", "%d: only bit 0 (source MAC from the packet) and bits 1 and 2 (destination MAC: 0 configured, 1 from the packet, 2 by ARP) are known", flags)
	}
	return flags
}

// addresses sets the Ethernet addresses that TRex takes from its port's configuration.
func (in *importer) addresses(p *spatev1.Packet, flags uint64) {
	set := func(at int, address net.HardwareAddr, from spatev1.PortAddress) {
		if len(address) == 6 {
			copy(p.Bytes[at:], address)
		} else {
			p.FromPort = append(p.FromPort, from)
		}
	}
	if flags&sourceFromPacket == 0 {
		set(6, in.options.SourceMAC, spatev1.PortSource)
	}
	if flags&destinationMode != destinationFromPacket {
		set(0, in.options.DestinationMAC, spatev1.PortDestination)
	}
}

// random adds a note on random values.
func (in *importer) random(program *program) {
	for _, v := range program.all {
		if v.random {
			in.notes.addAt(v.path, "random values of %q are drawn evenly, by a generator other than TRex's: within the same bounds, and not the same", v.name)
		}
	}
}

// check reports whether the stream can be sent.
func (in *importer) check(s *importedStream) {
	_, found := stream.Check(&s.spec)
	for _, problem := range found {
		in.problems.add(s.path, "as StatelessStream %s it cannot be sent: %s", s.object, problem.Error())
	}
}
