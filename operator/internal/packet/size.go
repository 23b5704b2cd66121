// SPDX-License-Identifier: Apache-2.0

// How long is a packet, and how do its sizes differ?

package packet

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

// Sizes describe the packet lengths, in bytes without FCS: a list or a range.
type Sizes struct {
	List []WeightedSize
	// Random order of the list, by weight.
	Random bool
	Seed   uint64
	Range  *SizeRange
}

// WeightedSize is a size with its weight.
type WeightedSize struct{ Bytes, Weight int }

// SizeRange is a range of sizes.
type SizeRange struct {
	Min, Max, Step int
	Order          spatev1.ValueOrder
	Seed           uint64
}

// needs are the constraints on a packet's length.
type needs struct {
	bytes int
	text  string
	// fills is true where the payload is repeated until the size is filled.
	fills bool
	// The bytes from start to the end must be a multiple of align; an align of 0 sets no constraint.
	start, align int
	// closed is the kind of a last header that only padding can follow. trailer is set when a trailer must follow
	// nevertheless.
	closed  Kind
	trailer bool
	payload bool
	// overIP is true where a closed header is in an IP packet.
	overIP bool
}

func newNeeds(stack *stack, description *spatev1.Packet, content content, trailer bool) needs {
	last := stack.headers[len(stack.headers)-1]
	n := needs{
		bytes: stack.length, text: fmt.Sprintf("%d bytes of headers", stack.length), fills: content.fills,
		start: stack.length - len(last.bytes), align: stack.align, trailer: trailer, payload: description.Payload != nil,
	}
	if last.closed {
		n.closed = last.kind
		for i := len(stack.headers) - 1; stack.headers[i].kind != Ethernet; i-- {
			n.overIP = n.overIP || stack.headers[i].kind == IPv4 || stack.headers[i].kind == IPv6
		}
	}
	if !content.fills && len(content.bytes) > 0 {
		n.bytes += len(content.bytes)
		n.text += fmt.Sprintf(", %d of payload", len(content.bytes))
	}
	if n.align > 0 && n.bytes == stack.length && !trailer {
		n.bytes++ // at least one byte of user data (RFC 9260 section 3.3.1)
		n.text += ", 1 of user data"
	}
	if trailer {
		n.bytes += TrailerBytes
		n.text += fmt.Sprintf(", %d for measure.flow", TrailerBytes)
	}
	n.text += fmt.Sprintf(" and %d of FCS", FCSBytes)
	return n
}

// settle returns the frame's length without FCS, and its sizes if they differ.
func (n needs) settle(description *spatev1.Packet, at *field.Path) (int, *Sizes, *field.Error) {
	switch {
	case n.closed != "" && n.payload:
		return 0, nil, field.Forbidden(at.Child("payload"), fmt.Sprintf("nothing can follow the %s header", n.closed))
	case n.closed != "" && n.trailer && n.overIP:
		return 0, nil, field.Invalid(at.Child("headers"), n.closed, fmt.Sprintf(
			"measure.flow takes the last %d bytes of the payload, and behind this %s header there is none", TrailerBytes, n.closed))
	case description.Size != nil && description.Sizes != nil || description.IMIX != "" && (description.Size != nil || description.Sizes != nil):
		return 0, nil, field.Forbidden(at.Child("sizes"), "set at most one of size, sizes and imix")
	case description.IMIX != "":
		return n.settleIMIX(description.IMIX, at.Child("imix"))
	case description.Sizes != nil:
		return n.settleSizes(description.Sizes, at.Child("sizes"))
	case description.Size != nil:
		return int(*description.Size) - FCSBytes, nil, n.check(int(*description.Size), at.Child("size"))
	case n.fills:
		return 0, nil, field.Required(at.Child("size"), "a payload.pattern or payload.random fills the packet's size")
	case n.bytes > MaxFrameBytes:
		return 0, nil, field.Invalid(at.Child("payload"), n.bytes+FCSBytes, fmt.Sprintf(
			"the packet has %s; it must be at most %d bytes", n.text, MaxFrameBytes+FCSBytes))
	}
	length := max(n.bytes, MinFrameBytes)
	if n.align > 0 {
		length += (n.align - (length-n.start)%n.align) % n.align
	}
	return length, nil, nil
}

// check returns an error unless the packet can have the size on the wire.
func (n needs) check(size int, at *field.Path) *field.Error {
	switch frame := size - FCSBytes; {
	case frame < MinFrameBytes || frame > MaxFrameBytes:
		return field.Invalid(at, size, fmt.Sprintf("must be %d to %d bytes, FCS included", MinFrameBytes+FCSBytes, MaxFrameBytes+FCSBytes))
	case frame < n.bytes:
		return field.Invalid(at, size, fmt.Sprintf("must be at least %d: the packet has %s", n.bytes+FCSBytes, n.text))
	case n.align > 0 && (frame-n.start)%n.align != 0:
		under := size - (frame-n.start)%n.align
		return field.Invalid(at, size, fmt.Sprintf("an SCTP data chunk ends at whole words of %d bytes: use %d or %d", n.align, under, under+n.align))
	}
	return nil
}

func (n needs) settleSizes(sizes *spatev1.PacketSizes, at *field.Path) (int, *Sizes, *field.Error) {
	switch {
	case (len(sizes.List) > 0) == (sizes.Range != nil):
		return 0, nil, field.Invalid(at, len(sizes.List), "set exactly one of list and range")
	case sizes.Range != nil && (sizes.Order != "" || sizes.Seed != nil):
		return 0, nil, field.Forbidden(at.Child("order"), "order and seed beside list only; range has its own")
	case sizes.Range != nil:
		return n.settleRange(sizes.Range, at.Child("range"))
	}
	settled, longest := &Sizes{Random: sizes.Order == spatev1.SizesRandom, Seed: seedOf(sizes.Seed)}, 0
	if sizes.Order != "" && sizes.Order != spatev1.SizesEven && sizes.Order != spatev1.SizesRandom {
		return 0, nil, field.NotSupported(at.Child("order"), sizes.Order, []spatev1.SizeListOrder{spatev1.SizesEven, spatev1.SizesRandom})
	}
	for i, size := range sizes.List {
		at := at.Child("list").Index(i)
		if err := n.check(int(size.Size), at.Child("size")); err != nil {
			return 0, nil, err
		}
		weight := size.Weight
		if weight == 0 {
			weight = 1
		}
		if weight < 0 || weight > 65535 {
			return 0, nil, field.Invalid(at.Child("weight"), weight, "must be 1 to 65535")
		}
		settled.List = append(settled.List, WeightedSize{int(size.Size) - FCSBytes, int(weight)})
		longest = max(longest, int(size.Size)-FCSBytes)
	}
	return longest, settled, nil
}

func (n needs) settleRange(r *spatev1.SizeRange, at *field.Path) (int, *Sizes, *field.Error) {
	step := max(int(r.Step), 1)
	if err := n.check(int(r.Start), at.Child("start")); err != nil {
		return 0, nil, err
	}
	if err := n.check(int(r.End), at.Child("end")); err != nil {
		return 0, nil, err
	}
	switch {
	case r.Start > r.End:
		return 0, nil, field.Invalid(at.Child("start"), r.Start, "must not be greater than end; use order: Reverse to count down")
	case r.Order == spatev1.OrderRandom && r.Step > 1:
		return 0, nil, field.Forbidden(at.Child("step"), "does not go with order: Random; list the sizes instead")
	case n.align > 0 && step%n.align != 0 && r.Start != r.End:
		return 0, nil, field.Invalid(at.Child("step"), step, fmt.Sprintf("an SCTP data chunk ends at whole words: use a multiple of %d", n.align))
	}
	order := r.Order
	switch order {
	case "":
		order = spatev1.OrderForward
	case spatev1.OrderForward, spatev1.OrderReverse, spatev1.OrderRandom:
	default:
		return 0, nil, field.NotSupported(at.Child("order"), order, []spatev1.ValueOrder{spatev1.OrderForward, spatev1.OrderReverse, spatev1.OrderRandom})
	}
	return int(r.End) - FCSBytes, &Sizes{Range: &SizeRange{
		Min: int(r.Start) - FCSBytes, Max: int(r.End) - FCSBytes, Step: step, Order: order, Seed: seedOf(r.Seed),
	}}, nil
}

// seedOf returns the seed; 0 when absent.
func seedOf(seed *int64) uint64 {
	if seed == nil {
		return 0
	}
	return uint64(*seed)
}
