// SPDX-License-Identifier: Apache-2.0

// How do fields that vary become a program?

package plan

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
	// sizeVariable is the variable of a range of sizes; no field can have this name.
	sizeVariable = "packet.size"
	mostListed   = 65535
)

// writesSize tells whether a field sets the packet's size.
func writesSize(fields []spatev1.PacketField) bool {
	return slices.ContainsFunc(fields, func(f spatev1.PacketField) bool {
		return slices.ContainsFunc(f.Writes, func(w spatev1.FieldWrite) bool { return w.Field == sizeTarget })
	})
}

// variable is a field on its way into a program.
type variable struct {
	*enginev1.Variable
	field *spatev1.PacketField
	at    *field.Path
	// least and most values it takes.
	least, most uint64
	// upper half of all its values, if they are IPv6 addresses.
	upper []byte
}

// program makes fields into a program that varies the packet (nil for a replay's, of which only offsets are known). A field
// that sets the size is noted in the plan's packet.
func (p *Problems) program(fields []spatev1.PacketField, at *field.Path, built *packet.Packet, in *enginev1.Packet) *enginev1.FieldProgram {
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
	case spatev1.SizesRangeRandom:
		v.Kind = &enginev1.Variable_Random{Random: &enginev1.Random{Min: least, Max: most, Seed: r.Seed}}
	case spatev1.SizesDecrement:
		least = most - (most-least)/step*step
		v.Kind = &enginev1.Variable_Counter{Counter: &enginev1.Counter{Min: least, Max: most, Step: step, First: most, Down: true}}
	default:
		most = least + (most-least)/step*step
		v.Kind = &enginev1.Variable_Counter{Counter: &enginev1.Counter{Min: least, Max: most, Step: step, First: least}}
	}
	return v
}

// variable reads a field's sequence.
func (p *Problems) variable(f *spatev1.PacketField, at *field.Path) *variable {
	v := &variable{Variable: &enginev1.Variable{Name: string(f.Name), PerWorker: f.PerWorker}, field: f, at: at}
	if f.Limit != nil {
		p.atLeastOne(*f.Limit, at.Child("limit"))
		v.Limit = uint64(*f.Limit)
	}
	set := 0
	for _, present := range []bool{len(f.Values) > 0, f.Increment != nil, f.Decrement != nil, f.Random != nil, f.List != nil} {
		if present {
			set++
		}
	}
	before := len(*p)
	switch {
	case set != 1:
		p.add(spatev1.ReasonInvalidSpec, at, "set exactly one of values, increment, decrement, random and list")
	case len(f.Values) > 0:
		p.listed(v, f.Values, "", 0, at)
	case f.List != nil:
		p.listed(v, f.List.Values, f.List.Order, f.List.Seed, at.Child("list"))
	case f.Increment != nil:
		p.counter(v, f.Increment, false, at.Child("increment"))
	case f.Decrement != nil:
		p.counter(v, f.Decrement, true, at.Child("decrement"))
	default:
		at := at.Child("random")
		least, most := p.bounds(v, f.Random.Min, f.Random.Max, at)
		v.least, v.most = least.bits, most.bits
		v.Kind = &enginev1.Variable_Random{Random: &enginev1.Random{Min: v.least, Max: v.most, Seed: uint64(f.Random.Seed)}}
	}
	if len(*p) > before {
		return nil
	}
	return v
}

func (p *Problems) value(text spatev1.FieldValue, at *field.Path) value {
	v, err := parseValue(text)
	if err != nil {
		p.add(spatev1.ReasonInvalidSpec, at, "%v", err)
	}
	return v
}

// bounds reads min and max, and notes what their upper halves are.
func (p *Problems) bounds(v *variable, low, high spatev1.FieldValue, at *field.Path) (least, most value) {
	least, most = p.value(low, at.Child("min")), p.value(high, at.Child("max"))
	v.upper = least.upper
	switch {
	case !least.sameUpper(most):
		p.add(spatev1.ReasonInvalidSpec, at.Child("max"), "%s and %s differ in their first 64 bits; a range of IPv6 addresses stays within one /64", low, high)
	case least.bits > most.bits:
		p.add(spatev1.ReasonInvalidSpec, at.Child("min"), "%s is greater than max, which is %s", low, high)
	}
	return least, most
}

func (p *Problems) counter(v *variable, r *spatev1.FieldRange, down bool, at *field.Path) {
	before := len(*p)
	least, most := p.bounds(v, r.Min, r.Max, at)
	step := uint64(1)
	if r.Step != 0 {
		p.atLeastOne(r.Step, at.Child("step"))
		step = uint64(r.Step)
	}
	if len(*p) > before {
		return
	}
	// Whole steps from where it begins.
	v.least, v.most = least.bits, most.bits
	whole := (v.most - v.least) / step * step
	first := v.least
	if down {
		v.least, first = v.most-whole, v.most
	} else {
		v.most = v.least + whole
	}
	if r.Init != nil {
		init := p.value(*r.Init, at.Child("init"))
		switch {
		case init.bits < least.bits || init.bits > most.bits || !init.sameUpper(least):
			p.add(spatev1.ReasonInvalidSpec, at.Child("init"), "%s is not between min and max, which are %s and %s", *r.Init, r.Min, r.Max)
		case init.bits < v.least || init.bits > v.most || (init.bits-v.least)%step != 0:
			p.add(spatev1.ReasonInvalidSpec, at.Child("init"), "%s is no whole number of steps of %d from %s", *r.Init, step, map[bool]spatev1.FieldValue{false: r.Min, true: r.Max}[down])
		}
		first = init.bits
	}
	v.Kind = &enginev1.Variable_Counter{Counter: &enginev1.Counter{Min: v.least, Max: v.most, Step: step, First: first, Down: down}}
}

func (p *Problems) listed(v *variable, values []spatev1.FieldValue, order spatev1.FieldListOrder, seed int64, at *field.Path) {
	at = at.Child("values")
	if len(values) == 0 || len(values) > mostListed {
		p.add(spatev1.ReasonInvalidSpec, at, "%d values: must be 1 to %d", len(values), mostListed)
		return
	}
	list := &enginev1.List{Seed: uint64(seed)}
	switch order {
	case "", spatev1.ListForward:
		list.Order = enginev1.ListOrder_LIST_ORDER_FORWARD
	case spatev1.ListBackward:
		list.Order = enginev1.ListOrder_LIST_ORDER_BACKWARD
	case spatev1.ListRandom:
		list.Order = enginev1.ListOrder_LIST_ORDER_RANDOM
	default:
		p.add(spatev1.ReasonInvalidSpec, at, "%q: the order must be Forward, Backward or Random", order)
	}
	for i, text := range values {
		one := p.value(text, at.Index(i))
		if i == 0 {
			v.upper, v.least = one.upper, one.bits
		}
		if string(one.upper) != string(v.upper) {
			p.add(spatev1.ReasonInvalidSpec, at.Index(i), "%s and %s differ in their first 64 bits; the IPv6 addresses of a field lie within one /64", values[0], text)
			return
		}
		v.least, v.most = min(v.least, one.bits), max(v.most, one.bits)
		list.Values = append(list.Values, one.bits)
	}
	v.Kind = &enginev1.Variable_List{List: list}
}

// wraps tells whether a variable's sequence comes to an end.
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

// chained turns each `next` around, and orders variables so that each stands behind the one it follows.
func (p *Problems) chained(variables []*variable) []*variable {
	byName := map[string]*variable{}
	for _, v := range variables {
		if byName[v.Name] != nil {
			p.add(spatev1.ReasonInvalidSpec, v.at.Child("name"), "%q is another field's name already", v.Name)
		}
		byName[v.Name] = v
	}
	for _, v := range variables {
		if v.field.Next == "" {
			continue
		}
		at, next := v.at.Child("next"), byName[string(v.field.Next)]
		switch {
		case next == nil || next == v:
			p.add(spatev1.ReasonInvalidSpec, at, "%q names no other field of the stream", v.field.Next)
		case next.After != "":
			p.add(spatev1.ReasonInvalidSpec, at, "%q is the next of %q already", v.field.Next, next.After)
		case !v.wraps():
			p.add(spatev1.ReasonInvalidSpec, at, "random values never wrap: set limit, after how many of them %q advances", v.field.Next)
		case next.PerWorker != v.PerWorker:
			p.add(spatev1.ReasonInvalidSpec, at, "%q and this field must both be perWorker, or neither", v.field.Next)
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
			p.add(spatev1.ReasonInvalidSpec, v.at.Child("next"), "the fields' next lead around in a circle; let one of them stand alone")
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

// place finds it in a packet, and gives the number of bits it has.
func (p *Problems) place(t target, at *field.Path, built *packet.Packet) (packet.Place, int, bool) {
	if (t.field != "") == (t.offset != nil) || (t.offset != nil) != (t.size != nil) {
		p.add(spatev1.ReasonInvalidSpec, at, "set field, or offset and size")
		return packet.Place{}, 0, false
	}
	if t.field != "" {
		if built == nil {
			p.add(spatev1.ReasonInvalidSpec, at.Child("field"), "%q: the fields of replayed packets are not known; write to an offset", t.field)
			return packet.Place{}, 0, false
		}
		where, err := built.Locate(t.field)
		if err != nil {
			p.add(spatev1.ReasonInvalidSpec, at.Child("field"), "%q: %v", t.field, err)
			return packet.Place{}, 0, false
		}
		return built.Place(where), min(where.Bits, 64), true
	}
	offset, size := int(*t.offset), int(*t.size)
	if !slices.Contains([]int{1, 2, 3, 4, 6, 8}, size) {
		p.add(spatev1.ReasonInvalidSpec, at.Child("size"), "%d: must be 1, 2, 3, 4, 6 or 8", size)
		return packet.Place{}, 0, false
	}
	if offset < 0 || built != nil && offset+size > len(built.Frame) {
		p.add(spatev1.ReasonInvalidSpec, at.Child("offset"), "%d with %d bytes is not within the packet, which has %d", offset, size, len(built.Frame))
		return packet.Place{}, 0, false
	}
	return packet.Place{Offset: offset, Size: size, Mask: ^uint64(0) >> (64 - 8*size)}, 8 * size, true
}

func (p *Problems) writes(v *variable, built *packet.Packet, in *enginev1.Packet) []*enginev1.Write {
	var sizeWrite *spatev1.FieldWrite
	var sizeAt *field.Path
	for i := range v.field.Writes {
		if w := &v.field.Writes[i]; w.Field == sizeTarget {
			sizeWrite, sizeAt = w, v.at.Child("writes").Index(i)
		}
	}
	// The variable itself is the size without FCS then, and other writes add what it lacks.
	lacks := uint64(0)
	if sizeWrite != nil {
		lacks = p.sizes(v, sizeWrite, sizeAt, built, in)
	}
	var writes []*enginev1.Write
	for i := range v.field.Writes {
		w, at := &v.field.Writes[i], v.at.Child("writes").Index(i)
		if w.Field == sizeTarget {
			if w != sizeWrite {
				p.add(spatev1.ReasonInvalidSpec, at.Child("field"), "the packet's size is set once")
			}
			continue
		}
		if write := p.write(v, w, at, built, lacks); write != nil {
			writes = append(writes, write)
		}
	}
	return writes
}

// sizes makes a variable the packet's size without FCS, and gives what was taken off it for that.
func (p *Problems) sizes(v *variable, w *spatev1.FieldWrite, at *field.Path, built *packet.Packet, in *enginev1.Packet) uint64 {
	switch {
	case built == nil:
		p.add(spatev1.ReasonInvalidSpec, at.Child("field"), "the sizes of replayed packets are those of their capture")
		return 0
	case w.Mask != "" || w.Shift != 0 || (w.ByteOrder != "" && w.ByteOrder != spatev1.BigEndian):
		p.add(spatev1.ReasonInvalidSpec, at, "%s takes neither mask, shift nor byteOrder", sizeTarget)
		return 0
	case in.Sizes != nil || built.Sizes != nil:
		p.add(spatev1.ReasonInvalidSpec, at.Child("field"), "the packet's size is set elsewhere too; leave packet.sizes, or one of the writes, out")
		return 0
	}
	lacks := uint64(packet.FCSBytes) - uint64(w.Add)
	low, high := new(big.Int).SetUint64(v.least), new(big.Int).SetUint64(v.most)
	low.Add(low, big.NewInt(w.Add))
	high.Add(high, big.NewInt(w.Add))
	if low.Cmp(big.NewInt(int64(built.Shortest+packet.FCSBytes))) < 0 || high.Cmp(big.NewInt(int64(built.WireBytes()))) > 0 {
		p.add(spatev1.ReasonInvalidSpec, at.Child("field"), "sizes of %s to %s: this packet can have %d to %d (its packet.size), FCS included",
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

func (p *Problems) write(v *variable, w *spatev1.FieldWrite, at *field.Path, built *packet.Packet, lacks uint64) *enginev1.Write {
	place, width, ok := p.place(target{w.Field, w.Offset, w.Size}, at, built)
	if !ok {
		return nil
	}
	if w.Shift < -63 || w.Shift > 63 {
		p.add(spatev1.ReasonInvalidSpec, at.Child("shift"), "%d: must be -63 to 63", w.Shift)
		return nil
	}
	mask := place.Mask
	if w.Mask == "" {
		if problem := fits(v, w, width); problem != "" {
			p.add(spatev1.ReasonInvalidSpec, at, "%s", problem)
			return nil
		}
	} else {
		asked, err := strconv.ParseUint(w.Mask, 0, 64)
		if err != nil || bits.Len64(asked) > width || asked == 0 {
			p.add(spatev1.ReasonInvalidSpec, at.Child("mask"), "%q: must be hex digits such as 0xfff0, of %d bits at most, and not zero", w.Mask, width)
			return nil
		}
		mask &= asked << place.Shift
	}
	little := w.ByteOrder == spatev1.LittleEndian
	if little && (place.Shift != 0 || width%8 != 0 || width != place.Size*8) {
		p.add(spatev1.ReasonInvalidSpec, at.Child("byteOrder"), "%s is of %d bits in other bytes; only whole bytes have an order", w.Field, width)
		return nil
	}
	if v.upper != nil {
		if problem := keepsUpper(v, place, built); problem != "" {
			p.add(spatev1.ReasonInvalidSpec, at, "%s", problem)
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

// fits says what of the values a place of so many bits does not hold.
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
		return fmt.Sprintf("values up to %s do not fit into %d bits; lower max, or write a mask for what shall be kept of them", high, width)
	}
	return ""
}

// keepsUpper says what keeps the lower half of an IPv6 address from being written.
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
