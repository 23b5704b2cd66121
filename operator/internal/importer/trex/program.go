// SPDX-License-Identifier: Apache-2.0

// How is TRex's field engine program converted?

package trex

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/packet"
)

const (
	mostFields = 20
	mostWrites = 8
	// mostCached packets.
	mostCached = 10000
)

// program is a stream's field engine program that is being converted to fields and checksums.
type program struct {
	problems *problems
	notes    *notes
	path     string
	// frame is the packet that varies. Bytes beyond the longest size that is sent are removed.
	frame []byte
	// seed of random values.
	seed int64

	all       []*variable
	writes    []write
	checksums []checksum
	// sized is the variable that sets the packet's size.
	sized *variable
}

// write is a write of a variable to the packet, by the instruction with this index.
type write struct {
	of    *variable
	index int
	// first and end bound its bytes.
	first, end int
	spec       spatev1.FieldWrite
}

// checksum is kept correct, from the instruction with this index on.
type checksum struct {
	index int
	// first and end bound the bytes it covers, without addresses.
	first, end int
	spec       spatev1.RawChecksum
}

// read converts a `vm` and returns its cache size.
func (g *program) read(vm *object) (cache int32) {
	if text, found := vm.take("split_by_var"); found && string(text) != `""` {
		vm.wrong("split_by_var", "is of old versions of TRex; use split_to_cores of the variable")
	}
	cache = int32(vm.wholeOr("cache", 0, mostCached, 0))
	raw := vm.list("instructions")
	vm.done()
	g.path = vm.path
	instructions := make([]*object, len(raw))
	kinds := make([]string, len(raw))
	// Variables first: instructions may name those that come later.
	for i, one := range raw {
		o := g.problems.object(one, fmt.Sprintf("%s[%d]", vm.at("instructions"), i))
		kinds[i] = o.text("type")
		if instructions[i] = o; declares(kinds[i]) {
			g.variables(kinds[i], o)
			o.done()
		}
	}
	g.chain()
	for i, o := range instructions {
		if !declares(kinds[i]) && !o.broken {
			g.use(i, kinds[i], o)
			o.done()
		}
	}
	if len(raw) == 0 {
		return 0
	}
	return cache
}

func declares(kind string) bool {
	return kind == "flow_var" || kind == "flow_var_rand_limit" || kind == "tuple_flow_var"
}

// use reads an instruction that changes the packet.
func (g *program) use(index int, kind string, o *object) {
	switch kind {
	case "write_flow_var":
		g.write(index, o)
	case "write_mask_flow_var":
		g.writeMask(index, o)
	case "trim_pkt_size":
		g.trim(o)
	case "fix_checksum_ipv4":
		g.sumIPv4(index, int(o.whole("pkt_offset", 0, math.MaxUint16)), o.at("pkt_offset"))
	case "fix_checksum_hw":
		g.sumTransport(index, o)
	case "fix_checksum_icmpv6":
		g.sumICMPv6(index, o)
	default:
		if !o.broken {
			o.wrong("type", "%q is not supported: there are flow_var, flow_var_rand_limit, tuple_flow_var, write_flow_var, "+
				"write_mask_flow_var, trim_pkt_size, fix_checksum_ipv4, fix_checksum_hw and fix_checksum_icmpv6", kind)
		}
		o.fields = nil
	}
}

// variable finds the one that an instruction names.
func (g *program) variable(o *object) *variable {
	name := o.text("name")
	v := g.named(name)
	if v == nil {
		o.wrong("name", "%q is no variable of the program", name)
	}
	return v
}

func (g *program) write(index int, o *object) {
	v := g.variable(o)
	offset := int(o.whole("pkt_offset", 0, math.MaxUint16))
	add := o.signed("add_value", math.MinInt32, math.MaxInt32)
	bigEndian := o.truth("is_big_endian")
	if v == nil {
		return
	}
	w := spatev1.FieldWrite{Add: add}
	if low, high := v.bounds(add); low.Sign() < 0 || high.BitLen() > 8*v.bytes {
		w.Mask = hexDigits(mostOf(v.bytes)) // higher bits are dropped
	}
	if !bigEndian && v.bytes > 1 {
		w.ByteOrder = spatev1.LittleEndian
	}
	g.place(index, o, v, offset, v.bytes, w)
}

// writeMask writes some bits only. TRex computes it with 32 bits.
func (g *program) writeMask(index int, o *object) {
	v := g.variable(o)
	offset := int(o.whole("pkt_offset", 0, math.MaxUint16))
	size := int(o.whole("pkt_cast_size", 1, 4))
	mask := o.whole("mask", 0, math.MaxUint32)
	shift := o.signed("shift", -31, 31)
	add := o.signed("add_value", math.MinInt32, math.MaxInt32)
	bigEndian := o.truth("is_big_endian")
	if size == 3 {
		o.wrong("pkt_cast_size", "3 is not one of 1, 2, 4")
		return
	}
	if v == nil {
		return
	}
	if v.bytes == 8 {
		o.wrong("name", "%q has 8 bytes, of which TRex would use four, in an order that depends on is_big_endian; use a variable of 4", v.name)
		return
	}
	if !bigEndian {
		size = v.bytes // TRex takes the variable's size here
	}
	if low, high := v.bounds(add); shift < 0 && (low.Sign() < 0 || high.BitLen() > 32) {
		o.wrong("add_value", "%d makes values that 32 bits do not hold, and a shift to the right would bring what is cut off back", add)
		return
	}
	if mask &= mostOf(size); mask == 0 {
		return // nothing is written
	}
	w := spatev1.FieldWrite{Add: add, Shift: int32(shift), Mask: hexDigits(mask)}
	if !bigEndian && size > 1 {
		w.ByteOrder = spatev1.LittleEndian
	}
	g.place(index, o, v, offset, size, w)
}

func hexDigits(mask uint64) string { return "0x" + strconv.FormatUint(mask, 16) }

func (g *program) place(index int, o *object, v *variable, offset, size int, w spatev1.FieldWrite) {
	if offset+size > len(g.frame) {
		o.wrong("pkt_offset", "%d with %d bytes is not within the packet, which has %d", offset, size, len(g.frame))
		return
	}
	at, bytes := int32(offset), int32(size)
	w.Offset, w.Size = &at, &bytes
	v.writes++
	if w.Add == 0 && w.Mask == "" && w.ByteOrder == "" && g.isAddress(offset) {
		v.addresses++
	}
	g.writes = append(g.writes, write{of: v, index: index, first: offset, end: offset + size, spec: w})
}

// isAddress reports whether an IPv4 address of the packet is at an offset.
func (g *program) isAddress(offset int) bool {
	for _, h := range packet.Inspect(g.frame).Headers {
		if h.Kind == packet.IPv4 && (offset == h.Offset+12 || offset == h.Offset+16) {
			return true
		}
	}
	return false
}

// trim makes a variable the packet's size. TRex keeps it between 60 and the packet's length.
func (g *program) trim(o *object) {
	v := g.variable(o)
	switch {
	case v == nil:
		return
	case g.sized != nil:
		o.wrong("name", "the packet's size is set by %q already", g.sized.name)
		return
	case v.bytes != 2 || v.limited || v.tuple:
		o.wrong("name", "%q must be a flow_var of 2 bytes", v.name)
		return
	}
	g.sized = v
	switch {
	case v.listed != nil:
		g.trimList(v, o)
	case v.counter != nil:
		g.trimCounter(v, o)
	default:
		g.trimRandom(v, o)
	}
}

func (g *program) trimList(v *variable, o *object) {
	if v.least < packet.MinFrameBytes || v.most > uint64(len(g.frame)) {
		o.wrong("name", "the list has values from %d to %d; sizes of this packet are %d to %d", v.least, v.most, packet.MinFrameBytes, len(g.frame))
		return
	}
	if v.most > packet.MaxFrameBytes {
		o.wrong("name", "packets of %d bytes without FCS are too long: at most %d can be sent", v.most, packet.MaxFrameBytes)
		return
	}
	g.cut(int(v.most))
}

func (g *program) trimRandom(v *variable, o *object) {
	least, most := max(v.least, packet.MinFrameBytes), min(v.most, uint64(len(g.frame)))
	if most > packet.MaxFrameBytes {
		g.notes.addAt(o.path, "sizes are drawn from %d to %d bytes without FCS, not to %d: longer packets cannot be sent here", least, packet.MaxFrameBytes, most)
		most = packet.MaxFrameBytes
	}
	if least >= most {
		o.wrong("name", "sizes from %d to %d: sizes of this packet are %d to %d", v.least, v.most, packet.MinFrameBytes, min(len(g.frame), packet.MaxFrameBytes))
		return
	}
	v.least, v.most = least, most
	v.field.Range = spread(least, most)
	g.cut(int(most))
}

func (g *program) trimCounter(v *variable, o *object) {
	c := *v.counter
	least, most := max(c.low, packet.MinFrameBytes), min(c.high, uint64(len(g.frame)))
	switch {
	case least >= most || c.first < least || c.first > most:
		o.wrong("name", "%q has values from %d to %d, and begins with %d: sizes of this packet are %d to %d",
			v.name, c.least, c.most, c.first, packet.MinFrameBytes, len(g.frame))
		return
	case (most-least+1)%c.step != 0:
		o.wrong("name", "%q counts from %d to %d in steps of %d, and the packet's %d to %d bytes are no whole number of them; let both agree",
			v.name, c.low, c.high, c.step, packet.MinFrameBytes, len(g.frame))
		return
	}
	v.count(newCounter(least, most, c.step, c.first, c.down))
	if v.most > packet.MaxFrameBytes {
		o.wrong("name", "packets of %d bytes without FCS are too long: at most %d can be sent", v.most, packet.MaxFrameBytes)
		return
	}
	g.cut(int(v.most))
}

// cut removes the bytes that are never sent, because no size is that long.
func (g *program) cut(longest int) {
	if len(g.frame) > packet.MaxFrameBytes {
		g.frame = g.frame[:longest]
	}
}

// sumIPv4 keeps an IPv4 header's checksum correct.
func (g *program) sumIPv4(index, offset int, path string) {
	length, ok := g.ipv4(offset)
	if !ok {
		g.problems.add(path, "there is no IPv4 header at offset %d", offset)
		return
	}
	g.sum(index, spatev1.RawIPv4, offset, offset+length)
}

// ipv4 returns the length of an IPv4 header.
func (g *program) ipv4(offset int) (length int, ok bool) {
	if offset < 14 || offset+20 > len(g.frame) || g.frame[offset]>>4 != 4 {
		return 0, false
	}
	length = int(g.frame[offset]&0xf) * 4
	return length, length >= 20 && offset+length <= len(g.frame)
}

func (g *program) sum(index int, kind spatev1.RawChecksumType, first, end int) {
	spec := spatev1.RawChecksum{Type: kind, Offset: int32(first)}
	for i := range g.checksums {
		if g.checksums[i].spec == spec {
			g.checksums[i].index = index
			return
		}
	}
	g.checksums = append(g.checksums, checksum{index: index, first: first, end: end, spec: spec})
}

// Transport protocols as TRex numbers them in fix_checksum_hw; l4IP uses the protocol in the IPv4 header.
const (
	l4UDP = 11
	l4TCP = 13
	l4IP  = 17
)

// sumTransport keeps the checksums of TCP or UDP and of the IPv4 header before it correct.
func (g *program) sumTransport(index int, o *object) {
	ip, header := int(o.whole("l2_len", 14, math.MaxUint16)), int(o.whole("l3_len", 0, math.MaxUint16))
	kind := o.whole("l4_type", 0, math.MaxUint16)
	if kind != l4UDP && kind != l4TCP && kind != l4IP {
		o.wrong("l4_type", "%d is not one of %d (UDP), %d (TCP), %d (IP)", kind, l4UDP, l4TCP, l4IP)
		return
	}
	var transport spatev1.RawChecksumType
	if length, four := g.ipv4(ip); four {
		if kind != l4IP && length != header {
			o.wrong("l3_len", "%d: the IPv4 header has %d bytes", header, length)
			return
		}
		header = length
		transport = map[byte]spatev1.RawChecksumType{6: spatev1.RawTCP, 17: spatev1.RawUDP}[g.frame[ip+9]]
		if transport == "" && kind != l4IP {
			o.wrong("l4_type", "the IPv4 header has protocol %d, which is neither TCP nor UDP", g.frame[ip+9])
			return
		}
		g.sum(index, spatev1.RawIPv4, ip, ip+length)
	} else {
		if ip+40 > len(g.frame) || g.frame[ip]>>4 != 6 {
			o.wrong("l2_len", "there is no IP header at offset %d", ip)
			return
		}
		if kind == l4IP || header < 40 {
			o.wrong("l4_type", "over IPv6 there must be %d (UDP) or %d (TCP), and an l3_len of at least 40", l4UDP, l4TCP)
			return
		}
		transport = map[uint64]spatev1.RawChecksumType{l4TCP: spatev1.RawTCP, l4UDP: spatev1.RawUDP}[kind]
	}
	if transport == "" {
		return
	}
	if need := map[spatev1.RawChecksumType]int{spatev1.RawTCP: 20, spatev1.RawUDP: 8}[transport]; ip+header+need > len(g.frame) {
		o.wrong("l3_len", "no %s header has room at offset %d of %d bytes", transport, ip+header, len(g.frame))
		return
	}
	g.sum(index, transport, ip+header, len(g.frame))
}

func (g *program) sumICMPv6(index int, o *object) {
	ip, header := int(o.whole("l2_len", 14, math.MaxUint16)), int(o.whole("l3_len", 40, math.MaxUint16))
	if ip+40 > len(g.frame) || g.frame[ip]>>4 != 6 {
		o.wrong("l2_len", "there is no IPv6 header at offset %d", ip)
		return
	}
	if ip+header+4 > len(g.frame) {
		o.wrong("l3_len", "no ICMPv6 header has room at offset %d of %d bytes", ip+header, len(g.frame))
		return
	}
	g.sum(index, spatev1.RawICMPv6, ip+header, len(g.frame))
}

// fields returns the program's variables with their writes. A field's writes are together; of variables that are
// written to the same place, those written first come first.
func (g *program) fields() []spatev1.PacketField {
	firstWrite := func(v *variable) int {
		for _, w := range g.writes {
			if w.of == v {
				return w.index
			}
		}
		return math.MaxInt
	}
	slices.SortStableFunc(g.all, func(a, b *variable) int { return cmp.Compare(firstWrite(a), firstWrite(b)) })
	for i, later := range g.writes {
		for _, earlier := range g.writes[:i] {
			overlap := earlier.first < later.end && later.first < earlier.end
			if overlap && slices.Index(g.all, earlier.of) > slices.Index(g.all, later.of) {
				g.problems.add(fmt.Sprintf("%s.instructions[%d]", g.path, later.index), "writes where %q is written in between; write variables one after the other", earlier.of.name)
			}
		}
	}
	if len(g.all) > mostFields {
		g.problems.add(g.path+".instructions", "%d variables: a stream can have %d", len(g.all), mostFields)
	}
	var taken labels
	names := map[string]spatev1.EntryName{}
	for i, v := range g.all {
		names[v.name] = spatev1.EntryName(taken.unique(label(v.name, "field"), i+1))
	}
	fields := make([]spatev1.PacketField, 0, len(g.all))
	for _, v := range g.all {
		if v != g.sized {
			v.asAddresses()
		}
		field := v.field
		field.Name = names[v.name]
		if v.next != "" {
			field.CarryTo = names[v.next]
		}
		if v == g.sized {
			field.Writes = append(field.Writes, spatev1.FieldWrite{Field: "packet.size", Add: packet.FCSBytes})
		}
		for _, w := range g.writes {
			if w.of == v {
				field.Writes = append(field.Writes, w.spec)
			}
		}
		if len(field.Writes) > mostWrites {
			g.problems.add(v.path, "%q is written to %d places: a variable can be to %d; declare it twice", v.name, len(field.Writes), mostWrites)
		}
		fields = append(fields, field)
	}
	return fields
}

// sums returns the checksums that are kept correct. TRex computes a checksum at its instruction; later writes make it
// wrong.
func (g *program) sums() []spatev1.RawChecksum {
	var all []spatev1.RawChecksum
	for _, c := range g.checksums {
		all = append(all, c.spec)
		for _, w := range g.writes {
			if w.index > c.index && w.first < c.end && c.first < w.end {
				g.notes.addAt(fmt.Sprintf("%s.instructions[%d]", g.path, w.index), "writes behind the instruction that computes the %s checksum at offset %d: "+
					"TRex sends a wrong checksum then, and here it is right", c.spec.Type, c.spec.Offset)
				break
			}
		}
	}
	return all
}
