// SPDX-License-Identifier: Apache-2.0

// Package packet encodes a packet's description (a stack of headers, or raw bytes) into the bytes a port sends and the
// fields the engine must keep correct. It also decodes bytes for guard rails, which check destinations.
package packet

import (
	"encoding/binary"
	"net"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	// FCSBytes is the length of the frame check sequence, which ports append.
	FCSBytes = 4
	// TrailerBytes is the length of the trailer at the end of a measured packet's payload.
	TrailerBytes = 16
	// MinFrameBytes is the shortest frame, without FCS.
	MinFrameBytes = 60
	// MaxFrameBytes is the longest frame, without FCS.
	MaxFrameBytes = 9230
)

// InternalDestination is written where no destination is given and the port sends only to the engine itself: locally
// administered, unicast, and no device's.
var InternalDestination = net.HardwareAddr{0x02, 0, 0, 0, 0, 0}

// Options are requirements that come from outside the packet's description.
type Options struct {
	// Trailer reserves room for the trailer at the end of the payload.
	Trailer bool
	// NextHop is written where no Ethernet destination is given; without one, that is an error.
	NextHop net.HardwareAddr
	// NextHopFromPort has the engine write the next hop's address instead.
	NextHopFromPort bool
	// SizesVary keeps lengths and checksums correct when the engine truncates the packet, even if the description has
	// one size.
	SizesVary bool
}

// Packet is the bytes of a packet and the fields the engine must keep correct.
type Packet struct {
	// Frame without FCS; the longest one where sizes vary.
	Frame []byte
	// Shortest is the minimum size without FCS that has room for headers and trailer.
	Shortest int
	// SourceMACFromPort has the engine write the transmitting port's address.
	SourceMACFromPort bool
	// DestinationMACFromPort has the engine write the address of the transmitting port's next hop.
	DestinationMACFromPort bool
	// Checksums that the engine keeps correct, from the innermost outwards: later ones cover the fields of earlier
	// ones.
	Checksums []Checksum
	// Lengths that the engine keeps correct when sizes vary.
	Lengths []Length
	// Sizes of the packets; nil for one size.
	Sizes *Sizes
	// Headers of the frame, from the outermost inwards.
	Headers []HeaderAt
}

// Length is a 16-bit field whose value is the frame's length without FCS, minus a constant.
type Length struct {
	Offset, Minus int
}

// HeaderAt is a header in a frame.
type HeaderAt struct {
	Kind Kind
	// Offset of its first byte.
	Offset int
	// Length of the header.
	Length int
	// End of its payload.
	End int
	// Fields by name, located from the header's start.
	Fields map[string]Location
}

// WireBytes is the length on the wire, FCS included; the longest where sizes vary.
func (p *Packet) WireBytes() int { return len(p.Frame) + FCSBytes }

// Build encodes a packet. Errors have the path of the field below `at`.
func Build(description *spatev1.Packet, at *field.Path, options Options) (*Packet, field.ErrorList) {
	switch {
	case description == nil:
		return nil, field.ErrorList{field.Required(at, "a packet is needed")}
	case len(description.Headers) > 0 && len(description.Bytes) > 0:
		return nil, field.ErrorList{field.Forbidden(at.Child("bytes"), "set exactly one of headers and bytes")}
	case len(description.Headers) > 0:
		return buildStack(description, at, options)
	case len(description.Bytes) > 0:
		return buildRaw(description, at, options)
	default:
		return nil, field.ErrorList{field.Required(at.Child("headers"), "set exactly one of headers and bytes")}
	}
}

func buildStack(description *spatev1.Packet, at *field.Path, options Options) (*Packet, field.ErrorList) {
	stack := newStack(description.Headers, at.Child("headers"), options)
	content, errs := payloadOf(description.Payload, at.Child("payload"))
	errs = append(stack.errs, errs...)
	if len(description.Checksums) > 0 {
		errs = append(errs, field.Forbidden(at.Child("checksums"), "those of headers are kept true by themselves; these go with bytes"))
	}
	if len(description.FromPort) > 0 {
		errs = append(errs, field.Forbidden(at.Child("fromPort"), "of headers leave ethernet.source or ethernet.destination out; this goes with bytes"))
	}
	if len(errs) > 0 {
		return nil, errs
	}
	needs := newNeeds(stack, description, content, options.Trailer)
	length, sizes, err := needs.settle(description, at)
	if err != nil {
		return nil, field.ErrorList{err}
	}
	built := &Packet{
		Frame: make([]byte, 0, length), Sizes: sizes, Shortest: max(needs.bytes, MinFrameBytes),
		SourceMACFromPort: stack.sourceFromPort, DestinationMACFromPort: stack.destinationFromPort,
	}
	for _, h := range stack.headers {
		built.Headers = append(built.Headers, HeaderAt{Kind: h.kind, Offset: len(built.Frame), Length: len(h.bytes), End: length, Fields: h.fields})
		built.Frame = append(built.Frame, h.bytes...)
	}
	built.Frame = built.Frame[:length]
	content.fill(built.Frame[stack.length:])
	built.close(stack)
	vary := sizes != nil || options.SizesVary
	if err := built.countLengths(stack, vary, at); err != nil {
		return nil, field.ErrorList{err}
	}
	built.sumUp(stack, vary)
	return built, nil
}

// close ends the headers around a closed header where it ends: bytes behind it are padding of the Ethernet frame.
func (p *Packet) close(stack *stack) {
	last := len(stack.headers) - 1
	if !stack.headers[last].closed {
		return
	}
	for i := last; stack.headers[i].kind != Ethernet; i-- {
		p.Headers[i].End = stack.length
	}
}

// countLengths writes the computed lengths.
func (p *Packet) countLengths(stack *stack, vary bool, at *field.Path) *field.Error {
	for i, h := range stack.headers {
		for _, c := range h.counts {
			where := p.Headers[i]
			bytes := where.End - where.Offset - c.from
			if bytes > 0xffff {
				return field.Invalid(at, bytes, string(h.kind)+": a length of more than 65535")
			}
			binary.BigEndian.PutUint16(p.Frame[where.Offset+c.offset:], uint16(bytes))
			if vary && where.End == len(p.Frame) {
				p.Lengths = append(p.Lengths, Length{Offset: where.Offset + c.offset, Minus: where.Offset + c.from})
			}
		}
	}
	return nil
}

// sumUp lists and writes the computed checksums, from the innermost outwards.
func (p *Packet) sumUp(stack *stack, vary bool) {
	for i := len(stack.headers) - 1; i >= 0; i-- {
		h, where := stack.headers[i], p.Headers[i]
		if h.sum == nil {
			continue
		}
		c := Checksum{
			Offset: where.Offset + h.sum.offset, Start: where.Offset, End: where.End,
			Kind: h.sum.kind, ZeroMeansAbsent: h.sum.zeroMeansAbsent,
		}
		if h.sum.headerOnly {
			c.End = where.Offset + where.Length
		}
		if h.sum.protocol != 0 {
			c.pseudo(p.network(i), h.sum.protocol, stack.finals[h])
		}
		if vary && !h.sum.headerOnly && where.End == len(p.Frame) {
			c.toTheEnd()
		}
		c.write(p.Frame)
		p.Checksums = append(p.Checksums, c)
	}
}

// network returns the IP header that contains the header at an index.
func (p *Packet) network(index int) HeaderAt {
	for i := index; i >= 0; i-- {
		if kind := p.Headers[i].Kind; kind == IPv4 || kind == IPv6 {
			return p.Headers[i]
		}
	}
	panic("a transport header that is in no IP packet") // misplaced headers were reported before
}
