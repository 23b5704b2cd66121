// SPDX-License-Identifier: Apache-2.0

// Package limits answers: where do packets go, with every value of their fields, and do a generator's limits allow that?
package limits

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/stream"
)

// Guard checks packets by a generator's limits.
type Guard struct {
	*problem.Problems
	limits    *spatev1.Limits
	generator string
	at        *field.Path
	// secret is true for packets with bytes of a Secret, which no message may contain.
	secret bool
	// Headers and destination of the last packet; copies mostly have the same headers.
	headers []packet.HeaderAt
	where   string
}

// New returns a guard that adds what the limits of a generator do not allow to problems, of the field at.
func New(problems *problem.Problems, limits *spatev1.Limits, generator string, at *field.Path) *Guard {
	return &Guard{Problems: problems, limits: limits, generator: generator, at: at}
}

// Check checks the destinations of a stream's packets by their bytes, however they were described.
func Check(stream *stream.Stream, generator *spatev1.TrafficGenerator, at *field.Path) problem.Problems {
	var problems problem.Problems
	limits := generator.Spec.Limits
	if limits == nil {
		return nil
	}
	g := New(&problems, limits, generator.Name, at)
	if stream.Transmit.Replay != nil {
		g.replay(stream)
		return problems
	}
	if len(limits.AllowedDestinations)+len(limits.AllowedPorts) == 0 {
		return nil
	}
	for i := range stream.Count() {
		frame := stream.Packet.Frame
		if stream.Copies != nil {
			frame = stream.Copies[i].Frame(frame)
		}
		if g.frame(frame, stream.Packet.Headers, stream.Program.GetWrites(), stream.Program.GetVariables()); len(problems) > 0 {
			if i > 0 { // the first is the packet itself
				problems[0].Message = fmt.Sprintf("copy %d: %s", i, problems[0].Message)
			}
			break
		}
	}
	return problems
}

// Refuse adds a problem with what a limit allows.
func (g *Guard) Refuse(limit, format string, args ...any) {
	allowed := "only " + joined(g.limits.AllowedDestinations)
	switch limit {
	case "allowedPorts":
		allowed = "only " + joined(g.limits.AllowedPorts)
	case "maxRate":
		allowed = string(g.limits.MaxRate)
	}
	why := fmt.Sprintf(format, args...)
	if g.secret {
		why = "its destination is not allowed, or cannot be determined (a Secret's bytes are in no message)"
	}
	g.Add(spatev1.ReasonLimitExceeded, g.at, "%s; generator %s allows %s (its spec.limits.%s)", why, g.generator, allowed, limit)
}

// replay checks what is known of a capture.
func (g *Guard) replay(stream *stream.Stream) {
	read, checked := stream.Transmit.Capture, "allowedDestinations"
	if len(g.limits.AllowedDestinations) == 0 {
		checked = "allowedPorts"
	}
	switch {
	case read == nil && g.limits.MaxRate != "":
		g.Refuse("maxRate", "how fast a capture on a volume is sent cannot be determined")
	case len(g.limits.AllowedDestinations)+len(g.limits.AllowedPorts) == 0:
	case read == nil:
		g.Refuse(checked, "where the packets of a capture on a volume go cannot be determined")
	case stream.Program != nil:
		g.Refuse(checked, "where replayed packets go cannot be determined when fields are written into them")
	default:
		g.secret = stream.Transmit.Replay.GetData() != nil
		for i, frame := range read.Frames {
			before := len(*g.Problems)
			if g.frame(frame, nil, nil, nil); len(*g.Problems) > before {
				(*g.Problems)[before].Message = fmt.Sprintf("packet %d of the capture: %s", i, (*g.Problems)[before].Message)
				return
			}
		}
	}
}

// frame checks one packet with everything that may be written into it. `described` are the headers of its description.
func (g *Guard) frame(frame []byte, described []packet.HeaderAt, writes []*enginev1.Write, variables []*enginev1.Variable) {
	seen := packet.Inspect(frame)
	headers := slices.Clone(seen.Headers)
	for _, h := range described {
		known := func(o packet.HeaderAt) bool { return o.Kind == h.Kind && o.Offset == h.Offset }
		if !slices.ContainsFunc(headers, known) {
			headers = append(headers, h)
		}
	}
	checked := "allowedDestinations"
	if len(g.limits.AllowedDestinations) == 0 {
		checked = "allowedPorts"
	}
	if seen.Opaque != "" && len(g.limits.AllowedDestinations) > 0 {
		g.Refuse("allowedDestinations", "where the packet goes cannot be determined: %s", seen.Opaque)
	}
	same := func(a, b packet.HeaderAt) bool {
		return a.Kind == b.Kind && a.Offset == b.Offset && a.Length == b.Length
	}
	if !slices.EqualFunc(headers, g.headers, same) {
		g.headers, g.where = headers, structural(headers, writes)
	}
	if g.where != "" {
		g.Refuse(checked, "where the packets go cannot be determined when fields are written to %s", g.where)
		return
	}
	varied := variation{frame: frame, writes: writes, variables: variables}
	g.destinations(varied, headers, seen)
	g.ports(varied, headers)
}

func (g *Guard) destinations(v variation, headers []packet.HeaderAt, seen packet.Inspection) {
	prefixes := g.limits.AllowedDestinations
	if len(prefixes) == 0 {
		return
	}
	found := false
	for _, h := range headers {
		if h.Kind != packet.IPv4 && h.Kind != packet.IPv6 {
			continue
		}
		found = true
		for _, span := range v.of(h, "destination") {
			low, _ := netip.AddrFromSlice(span.low)
			high, _ := netip.AddrFromSlice(span.high)
			switch {
			case covered(prefixes, low, high):
			case low == high:
				g.Refuse("allowedDestinations", "the packet goes to %s", low)
				return
			default:
				g.Refuse("allowedDestinations", "the packets may go to all from %s to %s", low, high)
				return
			}
		}
	}
	if !found && seen.Opaque == "" {
		g.Refuse("allowedDestinations", "the packet is not IP")
	}
}

func (g *Guard) ports(v variation, headers []packet.HeaderAt) {
	ranges := g.limits.AllowedPorts
	if len(ranges) == 0 {
		return
	}
	found := false
	for _, h := range headers {
		if h.Kind != packet.UDP && h.Kind != packet.TCP {
			continue
		}
		found = true
		for _, span := range v.of(h, "destinationPort") {
			low, high := stream.LoadBig(span.low), stream.LoadBig(span.high)
			switch {
			case portsCovered(ranges, low, high):
			case low == high:
				g.Refuse("allowedPorts", "the packet goes to port %d", low)
				return
			default:
				g.Refuse("allowedPorts", "the packets may go to all ports from %d to %d", low, high)
				return
			}
		}
	}
	if !found {
		g.Refuse("allowedPorts", "the packet is neither TCP nor UDP")
	}
}

// harmless are the fields that determine neither a header's kind nor the next header, by name. Destinations are checked
// separately.
var harmless = []string{
	"source", "destination", "priority", "dropEligible", "id", "label", "trafficClass", "ttl", "senderMAC", "senderIP", "targetMAC",
	"targetIP", "sessionID", "dscp", "ecn", "identification", "dontFragment", "flowLabel", "hopLimit", "checksum", "identifier", "sequence",
	"rest", "sourcePort", "destinationPort", "acknowledgement", "flags", "window", "urgentPointer", "verificationTag", "tsn", "stream",
	"streamSequence", "payloadProtocol", "chunkFlags", "key", "vni", "teid", "nPDU", "mss", "windowScale", "timestampValue", "timestampEcho",
	"target", "router", "solicited", "override", "sourceLinkLayer", "targetLinkLayer",
	"groupAddress", "maxRespCode", "maximumResponseCode", "suppressRouterProcessing", "qrv", "qqic", "recordType", "multicastAddress",
	"sourceAddress", "oam", "servicePathIdentifier", "serviceIndex", "context1", "context2", "context3", "context4", "tunnelID", "ns", "nr",
	"controlConnectionID", "cookie", "sequenceNumber",
	"actorSystemPriority", "actorSystem", "actorKey", "actorPortPriority", "actorPort", "actorState", "partnerSystemPriority", "partnerSystem",
	"partnerKey", "partnerPortPriority", "partnerPort", "partnerState", "collectorMaxDelay",
	"pauseTime", "priorityEnableVector", "time0", "time1", "time2", "time3", "time4", "time5", "time6", "time7",
}

// structural returns the name of a part of the headers that is written and determines which headers there are.
func structural(headers []packet.HeaderAt, writes []*enginev1.Write) string {
	for _, w := range writes {
		for bit := range writtenBits(w) {
			if where := structuralAt(headers, bit, w); where != "" {
				return where
			}
		}
	}
	return ""
}

func structuralAt(headers []packet.HeaderAt, bit int, w *enginev1.Write) string {
	for _, h := range headers {
		if bit < h.Offset*8 || bit >= (h.Offset+h.Length)*8 {
			continue
		}
		name := "bytes of it"
		for field, l := range h.Fields {
			if at := bit - h.Offset*8; at >= l.Bit && at < l.Bit+l.Bits {
				name = field
			}
		}
		tunnelled := h.Kind == packet.UDP && name == "destinationPort" && slices.ContainsFunc(headers, func(o packet.HeaderAt) bool {
			return o.Offset == h.Offset+h.Length && slices.Contains([]packet.Kind{packet.VXLAN, packet.Geneve, packet.GTPU, packet.L2TP, packet.L2TPv3}, o.Kind)
		})
		flags := name == "flags" && h.Kind == packet.VXLAN
		if !slices.Contains(harmless, name) || tunnelled || flags {
			return fmt.Sprintf("%s.%s (by %s)", h.Kind, name, w.GetVariable())
		}
	}
	return ""
}

// writtenBits yields the bits of the frame that a write may change, the most significant bit of a byte first.
func writtenBits(w *enginev1.Write) func(func(int) bool) {
	return func(yield func(int) bool) {
		size := int(w.GetSize())
		for i := range size * 8 { // i counts from the least significant bit
			if w.GetMask() != 0 && w.GetMask()>>i&1 == 0 {
				continue
			}
			at := size - 1 - i/8
			if w.GetLittleEndian() {
				at = i / 8
			}
			if !yield((int(w.GetOffset())+at)*8 + 7 - i%8) {
				return
			}
		}
	}
}

// variation is a frame with the writes that may change it.
type variation struct {
	frame     []byte
	writes    []*enginev1.Write
	variables []*enginev1.Variable
}

// span is a range of values of whole bytes.
type span struct{ low, high []byte }

// of returns the values that a field of whole bytes may have, as spans, which may include other values.
func (v variation) of(h packet.HeaderAt, name string) []span {
	l := h.Fields[name]
	first, size := h.Offset+l.Bit/8, l.Bits/8
	base := v.frame[first : first+size]
	spans := []span{{slices.Clone(base), slices.Clone(base)}}
	for _, w := range v.writes {
		touched := false
		for bit := range writtenBits(w) {
			if bit < first*8 || bit >= (first+size)*8 {
				continue
			}
			touched = true
			mask := byte(0x80) >> (bit % 8)
			for i := range spans { // for any value of the field
				spans[i].low[bit/8-first] &^= mask
				spans[i].high[bit/8-first] |= mask
			}
		}
		if exact := v.exact(w, first, size, base); touched && exact != nil {
			spans = exact
		}
	}
	return spans
}

// exact returns the values of a write that replaces a whole field, or the lower half of an IPv6 address; nil for
// others.
func (v variation) exact(w *enginev1.Write, first, size int, base []byte) []span {
	width := min(size, 8)
	if int(w.GetOffset()) != first+size-width || int(w.GetSize()) != width || w.GetMask() != 0 || w.GetShift() != 0 || w.GetLittleEndian() {
		return nil
	}
	at := slices.IndexFunc(v.variables, func(o *enginev1.Variable) bool { return o.GetName() == w.GetVariable() })
	if at < 0 {
		return nil
	}
	from := func(low, high uint64) (span, bool) {
		low, high = low+w.GetAdd(), high+w.GetAdd()
		if low > high || bits.Len64(high) > width*8 {
			return span{}, false // wraps around
		}
		s := span{slices.Clone(base), slices.Clone(base)}
		stream.StoreBig(s.low[size-width:], low)
		stream.StoreBig(s.high[size-width:], high)
		return s, true
	}
	var spans []span
	one := func(low, high uint64) bool {
		s, ok := from(low, high)
		spans = append(spans, s)
		return ok
	}
	switch kind := v.variables[at].GetKind().(type) {
	case *enginev1.Variable_Counter:
		if !one(kind.Counter.GetMin(), kind.Counter.GetMax()) {
			return nil
		}
	case *enginev1.Variable_Random:
		if !one(kind.Random.GetMin(), kind.Random.GetMax()) {
			return nil
		}
	case *enginev1.Variable_List:
		for _, value := range kind.List.GetValues() {
			if !one(value, value) {
				return nil
			}
		}
	}
	return spans
}

func joined[T ~string](items []T) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = string(item)
	}
	return strings.Join(texts, ", ")
}

// ClientPorts checks the port that clients connect to, and the ports of the tunnels of their packets; nil means none.
func (g *Guard) ClientPorts(port uint64, all ...*Tunnels) {
	switch {
	case len(g.limits.AllowedPorts) == 0:
	case port == 0:
		g.Refuse("allowedPorts", "a capture gives the port that clients connect to; set destinationPort")
	case !portsCovered(g.limits.AllowedPorts, port, port):
		g.Refuse("allowedPorts", "clients connect to port %d", port)
	default:
		outside := func(t *Tunnels) bool {
			return t != nil && t.port != 0 && !portsCovered(g.limits.AllowedPorts, t.port, t.port)
		}
		if i := slices.IndexFunc(all, outside); i >= 0 {
			g.Refuse("allowedPorts", "tunnels are of UDP to port %d", all[i].port)
		}
	}
}

// Addresses refuses a range of addresses that is not allowed, and reports whether it is; does says what goes there.
func (g *Guard) Addresses(first, last netip.Addr, does string) bool {
	allowed := covered(g.limits.AllowedDestinations, first, last)
	if !allowed {
		g.Refuse("allowedDestinations", "%s %s to %s", does, first, last)
	}
	return allowed
}
