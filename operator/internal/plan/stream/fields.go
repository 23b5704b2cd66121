// SPDX-License-Identifier: Apache-2.0

// How are fields that vary converted to a program?

package stream

import (
	"cmp"
	"fmt"
	"math/big"
	"math/bits"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
)

const (
	// sizeTarget is the field that sets the packet's size on the wire.
	sizeTarget = "packet.size"
	// sizeVariable is the variable for a range of sizes; no field can have this name.
	sizeVariable = "packet.size"
	// MaxListed is the maximum number of values that a field has in a list.
	MaxListed = 65535
)

// writesSize reports whether a field sets the packet's size.
func writesSize(fields []spatev1.PacketField) bool {
	return slices.ContainsFunc(fields, func(f spatev1.PacketField) bool {
		return slices.ContainsFunc(f.Writes, func(w spatev1.FieldWrite) bool { return w.Field == sizeTarget })
	})
}

// variable is a field that is being converted to a program.
type variable struct {
	*enginev1.Variable
	field *spatev1.PacketField
	at    *field.Path
	// least and most are the bounds of its values.
	least, most uint64
	// upper is the upper half of all its values, if they are IPv6 addresses.
	upper []byte
}

// program converts fields to a program that varies the packet (nil for a replay, whose fields have offsets only). A
// field that sets the size is recorded in the plan's packet.
func (p checker) program(fields []spatev1.PacketField, at *field.Path, built *packet.Packet, in *enginev1.Packet) *enginev1.FieldProgram {
	variables := make([]*variable, 0, len(fields))
	for i := range fields {
		if v := p.variable(&fields[i], at.Index(i)); v != nil {
			variables = append(variables, v)
		}
	}
	variables = p.chained(variables)
	program := &enginev1.FieldProgram{}
	for i := range fields { // writes keep their own order
		for _, v := range variables {
			if v.field == &fields[i] {
				program.Writes = append(program.Writes, p.writes(v, built, in)...)
			}
		}
	}
	for _, v := range variables {
		program.Variables = append(program.Variables, v.Variable)
	}
	if built != nil && built.Sizes != nil && built.Sizes.Range != nil {
		program.Variables = append(program.Variables, sizeRange(built.Sizes.Range))
		in.Sizes = &enginev1.Sizes{Kind: &enginev1.Sizes_Variable{Variable: sizeVariable}}
	}
	if len(program.Variables) == 0 {
		return nil
	}
	return program
}

func sizeRange(r *packet.SizeRange) *enginev1.Variable {
	v := &enginev1.Variable{Name: sizeVariable}
	least, most, step := uint64(r.Min), uint64(r.Max), uint64(r.Step)
	switch r.Order {
	case spatev1.OrderRandom:
		v.Kind = &enginev1.Variable_Random{Random: &enginev1.Random{Min: least, Max: most, Seed: r.Seed}}
	case spatev1.OrderReverse:
		least = most - (most-least)/step*step
		v.Kind = &enginev1.Variable_Counter{Counter: &enginev1.Counter{Min: least, Max: most, Step: step, First: most, Down: true}}
	default:
		most = least + (most-least)/step*step
		v.Kind = &enginev1.Variable_Counter{Counter: &enginev1.Counter{Min: least, Max: most, Step: step, First: least}}
	}
	return v
}

// variable reads a field's sequence.
func (p checker) variable(f *spatev1.PacketField, at *field.Path) *variable {
	v := &variable{Variable: &enginev1.Variable{Name: string(f.Name), PerWorker: f.Scope == spatev1.ScopeWorker}, field: f, at: at}
	if f.RepeatAfter != nil {
		p.AtLeastOne(*f.RepeatAfter, at.Child("repeatAfter"))
		v.Limit = uint64(*f.RepeatAfter)
	}
	before := len(*p.Problems)
	switch {
	case (len(f.Values) > 0) == (f.Range != nil):
		p.Add(spatev1.ReasonInvalidSpec, at, "set exactly one of values and range")
	case !slices.Contains([]spatev1.ValueOrder{"", spatev1.OrderForward, spatev1.OrderReverse, spatev1.OrderRandom}, f.Order):
		p.Add(spatev1.ReasonInvalidSpec, at.Child("order"), "%q: must be Forward, Reverse or Random", f.Order)
	case f.Seed != nil && f.Order != spatev1.OrderRandom:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("seed"), "goes with order: Random")
	case len(f.Values) > 0:
		p.listed(v, at.Child("values"))
	case f.Order == spatev1.OrderRandom:
		p.random(v, at.Child("range"))
	default:
		p.counter(v, at.Child("range"))
	}
	if len(*p.Problems) > before {
		return nil
	}
	return v
}

func (p checker) value(text spatev1.FieldValue, at *field.Path) value {
	v, err := parseValue(text)
	if err != nil {
		p.Add(spatev1.ReasonInvalidSpec, at, "%v", err)
	}
	return v
}

// bounds reads a range's start and end, and records their upper halves.
func (p checker) bounds(v *variable, r *spatev1.FieldRange, step uint64, at *field.Path) (least, most value) {
	least = p.value(r.Start, at.Child("start"))
	v.upper = least.upper
	switch {
	case (r.End != nil) == (r.Count != nil):
		p.Add(spatev1.ReasonInvalidSpec, at, "set exactly one of end and count")
		return least, least
	case r.Count != nil:
		p.AtLeastOne(*r.Count, at.Child("count"))
		high, distance := bits.Mul64(uint64(max(*r.Count, 1)-1), step)
		last, carry := bits.Add64(least.bits, distance, 0)
		if high > 0 || carry > 0 {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("count"), "%d values with a step of %d do not fit behind %s", *r.Count, step, r.Start)
		}
		most = least
		most.bits = last
		return least, most
	}
	most = p.value(*r.End, at.Child("end"))
	switch {
	case !least.sameUpper(most):
		p.Add(spatev1.ReasonInvalidSpec, at.Child("end"), "%s and %s differ in their first 64 bits; a range of IPv6 addresses stays within one /64", r.Start, *r.End)
	case least.bits > most.bits:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("start"), "%s is greater than end, which is %s; use order: Reverse to count down", r.Start, *r.End)
	}
	return least, most
}

// random draws values from a range.
func (p checker) random(v *variable, at *field.Path) {
	r := v.field.Range
	least, most := p.bounds(v, r, 1, at)
	if r.First != nil || r.Step != nil && *r.Step != 1 {
		p.Add(spatev1.ReasonInvalidSpec, at, "first and step do not go with order: Random")
	}
	v.least, v.most = least.bits, most.bits
	v.Kind = &enginev1.Variable_Random{Random: &enginev1.Random{Min: v.least, Max: v.most, Seed: seedOf(v.field.Seed)}}
}

// counter steps through a range from its first value.
func (p checker) counter(v *variable, at *field.Path) {
	before := len(*p.Problems)
	r, down := v.field.Range, v.field.Order == spatev1.OrderReverse
	step := uint64(1)
	if r.Step != nil {
		p.AtLeastOne(*r.Step, at.Child("step"))
		step = uint64(*r.Step)
	}
	least, most := p.bounds(v, r, step, at)
	if len(*p.Problems) > before {
		return
	}
	v.least, v.most = least.bits, most.bits
	whole := (v.most - v.least) / step * step
	begin := v.least
	if down {
		v.least, begin = v.most-whole, v.most
	} else {
		v.most = v.least + whole
	}
	first := begin
	if r.First != nil {
		set := p.value(*r.First, at.Child("first"))
		switch {
		case set.bits < least.bits || set.bits > most.bits || !set.sameUpper(least):
			p.Add(spatev1.ReasonInvalidSpec, at.Child("first"), "%s is not within the range", *r.First)
		case set.bits < v.least || set.bits > v.most || (set.bits-v.least)%step != 0:
			p.Add(spatev1.ReasonInvalidSpec, at.Child("first"), "%s is no whole number of steps of %d from the range's %s", *r.First, step,
				map[bool]string{false: "start", true: "end"}[down])
		}
		first = set.bits
	}
	v.Kind = &enginev1.Variable_Counter{Counter: &enginev1.Counter{Min: v.least, Max: v.most, Step: step, First: first, Down: down}}
}

// listed takes the values of a list in order.
func (p checker) listed(v *variable, at *field.Path) {
	values := v.field.Values
	if len(values) > MaxListed {
		p.Add(spatev1.ReasonInvalidSpec, at, "%d values: must be at most %d", len(values), MaxListed)
		return
	}
	list := &enginev1.List{Seed: seedOf(v.field.Seed)}
	switch v.field.Order {
	case spatev1.OrderReverse:
		list.Order = enginev1.ListOrder_LIST_ORDER_BACKWARD
	case spatev1.OrderRandom:
		list.Order = enginev1.ListOrder_LIST_ORDER_RANDOM
	default:
		list.Order = enginev1.ListOrder_LIST_ORDER_FORWARD
	}
	for i, text := range values {
		one := p.value(text, at.Index(i))
		if i == 0 {
			v.upper, v.least = one.upper, one.bits
		}
		if string(one.upper) != string(v.upper) {
			p.Add(spatev1.ReasonInvalidSpec, at.Index(i), "%s and %s differ in their first 64 bits; the IPv6 addresses of a field lie within one /64", values[0], text)
			return
		}
		v.least, v.most = min(v.least, one.bits), max(v.most, one.bits)
		list.Values = append(list.Values, one.bits)
	}
	v.Kind = &enginev1.Variable_List{List: list}
}

// seedOf returns a seed, 0 when absent.
func seedOf(seed *int64) uint64 {
	if seed == nil {
		return 0
	}
	return uint64(*seed)
}

// wraps reports whether a variable's sequence has an end.
func (v *variable) wraps() bool {
	if v.Limit > 0 {
		return true
	}
	switch kind := v.Kind.(type) {
	case *enginev1.Variable_Random:
		return false
	case *enginev1.Variable_List:
		return kind.List.Order != enginev1.ListOrder_LIST_ORDER_RANDOM
	}
	return true
}

// chained converts each `carryTo` to the inverse reference, and sorts variables so that each comes after the one it
// follows.
func (p checker) chained(variables []*variable) []*variable {
	byName := map[string]*variable{}
	for _, v := range variables {
		if byName[v.Name] != nil {
			p.Add(spatev1.ReasonInvalidSpec, v.at.Child("name"), "%q is another field's name already", v.Name)
		}
		byName[v.Name] = v
	}
	for _, v := range variables {
		if v.field.CarryTo == "" {
			continue
		}
		at, next := v.at.Child("carryTo"), byName[string(v.field.CarryTo)]
		switch {
		case next == nil || next == v:
			p.Add(spatev1.ReasonInvalidSpec, at, "%q names no other field of the stream", v.field.CarryTo)
		case next.After != "":
			p.Add(spatev1.ReasonInvalidSpec, at, "%q is advanced by %q already", v.field.CarryTo, next.After)
		case !v.wraps():
			p.Add(spatev1.ReasonInvalidSpec, at, "random values have no last one: set repeatAfter, the number of them after which %q advances", v.field.CarryTo)
		case next.PerWorker != v.PerWorker:
			p.Add(spatev1.ReasonInvalidSpec, at, "%q and this field must have the same scope", v.field.CarryTo)
		default:
			next.After = v.Name
		}
	}
	depth := func(v *variable) (d int) {
		for ; v != nil && v.After != "" && d <= len(variables); d++ {
			v = byName[v.After]
		}
		return d
	}
	for _, v := range variables {
		if depth(v) > len(variables) {
			p.Add(spatev1.ReasonInvalidSpec, v.at.Child("carryTo"), "the fields carry to each other in a circle; leave out one carryTo")
			return nil
		}
	}
	slices.SortStableFunc(variables, func(a, b *variable) int { return cmp.Compare(depth(a), depth(b)) })
	return variables
}

// target is where something is written: a named field, or an offset with a size.
type target struct {
	field        string
	offset, size *int32
}

// place returns a target's place in a packet, and its number of bits.
func (p checker) place(t target, at *field.Path, built *packet.Packet) (packet.Place, int, bool) {
	if (t.field != "") == (t.offset != nil) || (t.offset != nil) != (t.size != nil) {
		p.Add(spatev1.ReasonInvalidSpec, at, "set field, or offset and size")
		return packet.Place{}, 0, false
	}
	if t.field != "" {
		if built == nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("field"), "%q: the fields of replayed packets are not known; write to an offset", t.field)
			return packet.Place{}, 0, false
		}
		where, err := built.Locate(t.field)
		if err != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("field"), "%q: %v", t.field, err)
			return packet.Place{}, 0, false
		}
		return built.Place(where), min(where.Bits, 64), true
	}
	offset, size := int(*t.offset), int(*t.size)
	if !slices.Contains([]int{1, 2, 3, 4, 6, 8}, size) {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("size"), "%d: must be 1, 2, 3, 4, 6 or 8", size)
		return packet.Place{}, 0, false
	}
	if offset < 0 || built != nil && offset+size > len(built.Frame) {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("offset"), "%d with %d bytes is not within the packet, which has %d", offset, size, len(built.Frame))
		return packet.Place{}, 0, false
	}
	return packet.Place{Offset: offset, Size: size, Mask: ^uint64(0) >> (64 - 8*size)}, 8 * size, true
}

func (p checker) writes(v *variable, built *packet.Packet, in *enginev1.Packet) []*enginev1.Write {
	var sizeWrite *spatev1.FieldWrite
	var sizeAt *field.Path
	for i := range v.field.Writes {
		if w := &v.field.Writes[i]; w.Field == sizeTarget {
			sizeWrite, sizeAt = w, v.at.Child("writes").Index(i)
		}
	}
	// In that case the variable is the size without FCS, and other writes add the difference.
	lacks := uint64(0)
	if sizeWrite != nil {
		lacks = p.sizes(v, sizeWrite, sizeAt, built, in)
	}
	var writes []*enginev1.Write
	for i := range v.field.Writes {
		w, at := &v.field.Writes[i], v.at.Child("writes").Index(i)
		if w.Field == sizeTarget {
			if w != sizeWrite {
				p.Add(spatev1.ReasonInvalidSpec, at.Child("field"), "the packet's size is set once")
			}
			continue
		}
		if write := p.write(v, w, at, built, lacks); write != nil {
			writes = append(writes, write)
		}
	}
	return writes
}

// sizes makes a variable the packet's size without FCS, and returns the amount that was subtracted from its values.
func (p checker) sizes(v *variable, w *spatev1.FieldWrite, at *field.Path, built *packet.Packet, in *enginev1.Packet) uint64 {
	switch {
	case built == nil:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("field"), "the sizes of replayed packets are those of their capture")
		return 0
	case w.Mask != "" || w.Shift != 0 || (w.ByteOrder != "" && w.ByteOrder != spatev1.BigEndian):
		p.Add(spatev1.ReasonInvalidSpec, at, "%s takes neither mask, shift nor byteOrder", sizeTarget)
		return 0
	case in.Sizes != nil || built.Sizes != nil:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("field"), "the packet's size is set elsewhere too; leave packet.sizes, or one of the writes, out")
		return 0
	}
	lacks := uint64(packet.FCSBytes) - uint64(w.Add)
	low, high := new(big.Int).SetUint64(v.least), new(big.Int).SetUint64(v.most)
	low.Add(low, big.NewInt(w.Add))
	high.Add(high, big.NewInt(w.Add))
	if low.Cmp(big.NewInt(int64(built.Shortest+packet.FCSBytes))) < 0 || high.Cmp(big.NewInt(int64(built.WireBytes()))) > 0 {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("field"), "sizes of %s to %s: this packet can have %d to %d (its packet.size), FCS included",
			low, high, built.Shortest+packet.FCSBytes, built.WireBytes())
		return 0
	}
	switch kind := v.Kind.(type) {
	case *enginev1.Variable_Counter:
		c := kind.Counter
		c.Min, c.Max, c.First = c.Min-lacks, c.Max-lacks, c.First-lacks
	case *enginev1.Variable_Random:
		kind.Random.Min, kind.Random.Max = kind.Random.Min-lacks, kind.Random.Max-lacks
	case *enginev1.Variable_List:
		for i := range kind.List.Values {
			kind.List.Values[i] -= lacks
		}
	}
	in.Sizes = &enginev1.Sizes{Kind: &enginev1.Sizes_Variable{Variable: v.Name}}
	return lacks
}

func (p checker) write(v *variable, w *spatev1.FieldWrite, at *field.Path, built *packet.Packet, lacks uint64) *enginev1.Write {
	place, width, ok := p.place(target{w.Field, w.Offset, w.Size}, at, built)
	if !ok {
		return nil
	}
	if w.Shift < -63 || w.Shift > 63 {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("shift"), "%d: must be -63 to 63", w.Shift)
		return nil
	}
	mask := place.Mask
	if w.Mask == "" {
		if problem := fits(v, w, width); problem != "" {
			p.Add(spatev1.ReasonInvalidSpec, at, "%s", problem)
			return nil
		}
	} else {
		asked, err := strconv.ParseUint(w.Mask, 0, 64)
		if err != nil || bits.Len64(asked) > width || asked == 0 {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("mask"), "%q: must be hex digits such as 0xfff0, of %d bits at most, and not zero", w.Mask, width)
			return nil
		}
		mask &= asked << place.Shift
	}
	little := w.ByteOrder == spatev1.LittleEndian
	if little && (place.Shift != 0 || width%8 != 0 || width != place.Size*8) {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("byteOrder"), "%s is of %d bits in other bytes; only whole bytes have an order", w.Field, width)
		return nil
	}
	if v.upper != nil {
		if problem := keepsUpper(v, place, built); problem != "" {
			p.Add(spatev1.ReasonInvalidSpec, at, "%s", problem)
			return nil
		}
	}
	if mask == ^uint64(0)>>(64-8*place.Size) {
		mask = 0 // all bits
	}
	return &enginev1.Write{
		Variable: v.Name, Offset: uint32(place.Offset), Size: uint32(place.Size),
		Add: uint64(w.Add) + lacks, Shift: w.Shift + int32(place.Shift), Mask: mask, LittleEndian: little,
	}
}

// fits says which of the values exceed a place of this width; empty if none do.
func fits(v *variable, w *spatev1.FieldWrite, width int) string {
	shifted := func(bits uint64) *big.Int {
		value := new(big.Int).SetUint64(bits)
		value.Add(value, big.NewInt(w.Add))
		if w.Shift < 0 {
			return value.Rsh(value, uint(-w.Shift))
		}
		return value.Lsh(value, uint(w.Shift))
	}
	switch low, high := shifted(v.least), shifted(v.most); {
	case low.Sign() < 0:
		return fmt.Sprintf("adding %d to values from %d gives less than zero; write a mask for what shall be kept of it", w.Add, v.least)
	case high.BitLen() > width:
		return fmt.Sprintf("values up to %s do not fit into %d bits; use lower ones, or write a mask for what shall be kept of them", high, width)
	}
	return ""
}

// keepsUpper says why the lower half of an IPv6 address cannot be written; empty if it can.
func keepsUpper(v *variable, place packet.Place, built *packet.Packet) string {
	if place.Size != 8 || place.Offset < 8 {
		return "an IPv6 address is written to an IPv6 field, or to the 8 bytes of its lower half"
	}
	if built == nil {
		return "of replayed packets the upper half of IPv6 addresses is not known; use numbers for the lower half"
	}
	if upper := built.Frame[place.Offset-8 : place.Offset]; string(upper) != string(v.upper) {
		return fmt.Sprintf("the addresses are in another /64 than the packet's own (first 64 bits %x, not %x); only the lower 64 bits vary", v.upper, upper)
	}
	return ""
}
