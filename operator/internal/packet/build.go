// SPDX-License-Identifier: Apache-2.0

// Package packet turns a packet as it is described (a stack of headers, or raw bytes) into the bytes a port sends,
// with what the engine must know of them, and reads back from bytes what guard rails judge.
package packet

import (
	"fmt"
	"net"
	"unicode/utf8"

	"github.com/gopacket/gopacket"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/operator/api/v1alpha1"
)

const (
	// FCSBytes is the frame check sequence, which ports add.
	FCSBytes = 4
	// TrailerBytes is what a measured packet carries at the end of its payload.
	TrailerBytes = 16
	// MinFrameBytes is the shortest frame, without FCS.
	MinFrameBytes = 60
	// MaxFrameBytes is the longest frame, without FCS.
	MaxFrameBytes = 9212
)

// InternalDestination is written where no destination is given and the port leads nowhere but into the engine: locally
// administered, unicast, and no device's.
var InternalDestination = net.HardwareAddr{0x02, 0, 0, 0, 0, 0}

// Options are what the packet's surroundings ask of it.
type Options struct {
	// Trailer keeps room for the measurement at the end of the payload.
	Trailer bool
	// NextHop is written where no Ethernet destination is given; without one, that is an error.
	NextHop net.HardwareAddr
}

// Packet is the bytes of a packet and what the engine must know of them.
type Packet struct {
	// Frame without FCS.
	Frame []byte
	// SourceMACFromPort tells the engine to write the transmitting port's address.
	SourceMACFromPort bool
	// Checksums of the frame, from the outermost inwards.
	Checksums []Checksum
	// Headers of the frame, from the outermost inwards.
	Headers []HeaderAt
}

// WireBytes is the length on the wire, FCS included.
func (p *Packet) WireBytes() int { return len(p.Frame) + FCSBytes }

// Build makes a packet. Errors have the path of the field below `at`.
func Build(description *spatev1.Packet, at *field.Path, options Options) (*Packet, field.ErrorList) {
	switch {
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
	stack, errs := newStack(description.Headers, at.Child("headers"), options.NextHop)
	payload, repeat, payloadErrs := payloadBytes(description.Payload, at.Child("payload"))
	errs = append(errs, payloadErrs...)
	if len(errs) > 0 {
		return nil, errs
	}
	length, err := frameLength(description, at, stack.length, len(payload), repeat, options.Trailer)
	if err != nil {
		return nil, field.ErrorList{err}
	}
	body := make([]byte, length-stack.length)
	if repeat {
		for i := range body {
			body[i] = payload[i%len(payload)]
		}
	} else {
		copy(body, payload)
	}
	buffer := gopacket.NewSerializeBuffer()
	serialize := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, serialize, append(stack.layers, gopacket.Payload(body))...); err != nil {
		return nil, field.ErrorList{field.Invalid(at.Child("headers"), len(description.Headers), err.Error())}
	}
	frame := buffer.Bytes()
	for i := range stack.headers {
		stack.headers[i].End = len(frame) // what fills the packet up belongs to its payload
	}
	return &Packet{
		Frame:             frame,
		SourceMACFromPort: description.Headers[0].Ethernet.Source == "",
		Checksums:         checksums(frame, stack.headers),
		Headers:           stack.headers,
	}, nil
}

// frameLength settles how long the frame is, without FCS.
func frameLength(description *spatev1.Packet, at *field.Path, headers, payload int, repeat, trailer bool) (int, *field.Error) {
	need, needed := headers+payload, fmt.Sprintf("%d bytes of headers", headers)
	if repeat {
		need = headers
	} else if payload > 0 {
		needed += fmt.Sprintf(", %d of payload", payload)
	}
	if trailer {
		need += TrailerBytes
		needed += fmt.Sprintf(", %d for measure.flow", TrailerBytes)
	}
	needed += fmt.Sprintf(" and %d of FCS", FCSBytes)
	if description.Size == nil {
		if repeat {
			return 0, field.Required(at.Child("size"), "a payload.pattern is repeated until the packet's size is filled")
		}
		if need > MaxFrameBytes {
			return 0, field.Invalid(at.Child("payload"), need+FCSBytes, fmt.Sprintf(
				"the packet has %s; it must be at most %d bytes", needed, MaxFrameBytes+FCSBytes))
		}
		return max(need, MinFrameBytes), nil
	}
	size := int(*description.Size)
	if size < MinFrameBytes+FCSBytes || size > MaxFrameBytes+FCSBytes {
		return 0, field.Invalid(at.Child("size"), size, fmt.Sprintf(
			"must be %d to %d bytes, FCS included", MinFrameBytes+FCSBytes, MaxFrameBytes+FCSBytes))
	}
	if size-FCSBytes < need {
		return 0, field.Invalid(at.Child("size"), size, fmt.Sprintf(
			"must be at least %d: the packet has %s", need+FCSBytes, needed))
	}
	return size - FCSBytes, nil
}

func buildRaw(description *spatev1.Packet, at *field.Path, options Options) (*Packet, field.ErrorList) {
	if description.Payload != nil {
		return nil, field.ErrorList{field.Forbidden(at.Child("payload"), "bytes is the whole packet")}
	}
	if description.Size != nil {
		return nil, field.ErrorList{field.Forbidden(at.Child("size"), "bytes is the whole packet")}
	}
	at = at.Child("bytes")
	if n := len(description.Bytes); n < MinFrameBytes || n > MaxFrameBytes {
		return nil, field.ErrorList{field.Invalid(at, fmt.Sprintf("%d bytes", n), fmt.Sprintf(
			"must be %d to %d bytes, without FCS", MinFrameBytes, MaxFrameBytes))}
	}
	frame := append([]byte(nil), description.Bytes...)
	seen := Inspect(frame)
	if options.Trailer {
		if err := roomForTrailer(seen, len(frame)); err != "" {
			return nil, field.ErrorList{field.Invalid(at, fmt.Sprintf("%d bytes", len(frame)), err)}
		}
	}
	return &Packet{Frame: frame, Checksums: trueChecksums(frame, seen), Headers: seen.Headers}, nil
}

// roomForTrailer says what keeps a measurement from being written at the end of a raw packet.
func roomForTrailer(seen Inspection, length int) string {
	switch {
	case seen.PayloadEnd < length:
		return fmt.Sprintf("measure.flow takes the last %d bytes, and here the IP packet ends %d bytes before the "+
			"frame does: forwarding drops what is behind it", TrailerBytes, length-seen.PayloadEnd)
	case length-seen.PayloadStart < TrailerBytes:
		return fmt.Sprintf("measure.flow takes the last %d bytes, and behind the headers are only %d: append %d",
			TrailerBytes, length-seen.PayloadStart, TrailerBytes-(length-seen.PayloadStart))
	}
	return ""
}

// payloadBytes gives the bytes behind the headers, and whether they are repeated to fill the packet.
func payloadBytes(payload *spatev1.Payload, at *field.Path) ([]byte, bool, field.ErrorList) {
	if payload == nil {
		return nil, false, nil
	}
	set := 0
	for _, text := range []string{payload.Text, payload.Hex, payload.Pattern} {
		if text != "" {
			set++
		}
	}
	if set != 1 {
		return nil, false, field.ErrorList{field.Invalid(at, set, "set exactly one of text, hex and pattern")}
	}
	var bytes []byte
	var err *field.Error
	switch {
	case payload.Text != "":
		if !utf8.ValidString(payload.Text) {
			err = field.Invalid(at.Child("text"), payload.Text, "must be UTF-8; write other bytes as hex")
		}
		return []byte(payload.Text), false, listOf(err)
	case payload.Hex != "":
		bytes, err = hexBytes(payload.Hex, at.Child("hex"))
		return bytes, false, listOf(err)
	default:
		bytes, err = hexBytes(payload.Pattern, at.Child("pattern"))
		return bytes, true, listOf(err)
	}
}

func listOf(err *field.Error) field.ErrorList {
	if err == nil {
		return nil
	}
	return field.ErrorList{err}
}
