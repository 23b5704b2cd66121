// SPDX-License-Identifier: Apache-2.0

// Which bytes of TRex's packets are free, by TRex's own description of the profile?

package conformance

import (
	"fmt"
	"math"
	"slices"
)

// description is a stream as TRex's client sends it, as far as comparing goes.
type description struct {
	Packet struct {
		Binary []byte `json:"binary"`
	} `json:"packet"`
	Enabled *bool `json:"enabled"`
	Core    int   `json:"core_id"`
	Mode    struct {
		Type     string `json:"type"`
		Packets  int    `json:"total_pkts"`
		PerBurst int    `json:"pkts_per_burst"`
	} `json:"mode"`
	FlowStats struct {
		Enabled bool   `json:"enabled"`
		Rule    string `json:"rule_type"`
	} `json:"flow_stats"`
	Program struct {
		Instructions []instruction `json:"instructions"`
	} `json:"vm"`
}

// instruction is any of the field engine's.
type instruction struct {
	Type string `json:"type"`
	Name string `json:"name"`
	// Of variables.
	Size   int      `json:"size"`
	Op     string   `json:"op"`
	Min    uint64   `json:"min_value"`
	Max    uint64   `json:"max_value"`
	Values []uint64 `json:"value_list"`
	// Of writes.
	Offset    int    `json:"pkt_offset"`
	Add       int64  `json:"add_value"`
	BigEndian bool   `json:"is_big_endian"`
	CastSize  int    `json:"pkt_cast_size"`
	Mask      uint64 `json:"mask"`
	Shift     int    `json:"shift"`
	// Of checksums.
	L2     int `json:"l2_len"`
	L3     int `json:"l3_len"`
	L4Type int `json:"l4_type"`
}

const (
	// addressBytes at the start of a frame are its MAC addresses, which TRex's port may give.
	addressBytes = 12
	// trailerBytes at the end of packets whose latency is measured.
	trailerBytes = 16
	// leastFrame without FCS: shorter packets are padded.
	leastFrame = 60
)

// stream is how packets of a stream may differ from TRex's.
type stream struct {
	base []byte
	// anyhow marks the bytes that differ from base in TRex's packets already; they do not identify the stream of a packet.
	anyhow []bool
	// free bits are not compared.
	free []byte
	// latency packets have a trailer of their own maker.
	latency bool
	random  []*variable
	// resizedBy is the random variable that is the packet's length.
	resizedBy *variable
	// resized packets are cut by some variable.
	resized bool
	sums    []checksum
}

// exact has no free bytes.
func (s *stream) exact() bool { return !s.latency && len(s.random) == 0 && len(s.sums) == 0 }

// cores returns how many of some cores TRex sends the streams from: its simulator shares its packets out over these. A stream
// with numbers in its packets (latency) is the first core's, a pinned one that core's, and a burst is the first's if it is too short
// for all.
func cores(all []description, of int) int {
	active := map[int]bool{}
	for _, d := range all {
		switch {
		case d.Enabled != nil && !*d.Enabled:
		case d.latency():
			active[0] = true
		case d.Core >= 0:
			active[d.Core] = true
		case d.Mode.Type == "single_burst" && d.Mode.Packets < of || d.Mode.Type == "multi_burst" && d.Mode.PerBurst < of:
			active[0] = true
		default:
			return of
		}
	}
	return max(1, len(active))
}

// latency reports whether the packets have numbers and times in them.
func (d *description) latency() bool { return d.FlowStats.Enabled && d.FlowStats.Rule == "latency" }

func describe(all []description) ([]*stream, error) {
	streams := make([]*stream, len(all))
	for i, d := range all {
		s, err := d.stream()
		if err != nil {
			return nil, fmt.Errorf("stream %d: %w", i, err)
		}
		streams[i] = s
	}
	return streams, nil
}

func (d *description) stream() (*stream, error) {
	base := slices.Clone(d.Packet.Binary)
	if missing := leastFrame - len(base); missing > 0 {
		base = append(base, make([]byte, missing)...)
	}
	s := &stream{base: base, anyhow: make([]bool, len(base)), free: make([]byte, len(base)), latency: d.latency()}
	s.written(0, addressBytes)
	if d.FlowStats.Enabled {
		s.marked()
	}
	b := builder{stream: s, sizes: map[string]int{}, random: map[string]*variable{}}
	for i := range d.Program.Instructions {
		if err := b.instruction(&d.Program.Instructions[i]); err != nil {
			return nil, fmt.Errorf("instruction %d: %w", i, err)
		}
	}
	b.done()
	return s, nil
}

// written notes bytes that TRex changes.
func (s *stream) written(from, size int) {
	for i := from; i < min(from+size, len(s.anyhow)); i++ {
		s.anyhow[i] = true
	}
}

// marked notes what TRex changes in the IP header of packets that it counts: the type of service and the identification, or
// the flow label.
func (s *stream) marked() {
	at := 12
	for at+2 <= len(s.base) && (s.base[at] == 0x81 || s.base[at] == 0x88) && (s.base[at+1] == 0x00 || s.base[at+1] == 0xa8) {
		at += 4
	}
	if at+4 > len(s.base) {
		return
	}
	switch ip := at + 2; s.base[ip] >> 4 {
	case 4:
		s.written(ip+1, 1)
		s.written(ip+4, 2)
		s.written(ip+10, 2)
	case 6:
		s.written(ip, 4)
	}
}

// builder goes through the instructions.
type builder struct {
	stream *stream
	// sizes of all variables in bytes, and those that are random.
	sizes  map[string]int
	random map[string]*variable
	writes []*write
	sums   []checksum
}

func (b *builder) instruction(i *instruction) error {
	if i.Offset < 0 || i.L2 < 0 || i.L3 < 0 || max(i.Offset, i.L2, i.L3) > math.MaxUint16 {
		return fmt.Errorf("%s: an offset is out of range", i.Type)
	}
	switch i.Type {
	case "flow_var", "flow_var_rand_limit":
		if i.Size < 1 || i.Size > 8 {
			return fmt.Errorf("%s: variable %q has %d bytes, of 1 to 8", i.Type, i.Name, i.Size)
		}
		b.sizes[i.Name] = i.Size
		if i.Op == "random" || i.Type == "flow_var_rand_limit" {
			b.random[i.Name] = &variable{name: i.Name, size: i.Size, min: i.Min, max: i.Max, values: i.Values}
		}
	case "tuple_flow_var":
		b.sizes[i.Name+".ip"], b.sizes[i.Name+".port"] = 4, 2
	case "write_flow_var", "write_mask_flow_var":
		return b.write(i)
	case "trim_pkt_size":
		b.stream.resized = true
		if v := b.random[i.Name]; v != nil {
			b.stream.resizedBy = v
			b.use(v)
		}
	case "fix_checksum_ipv4":
		b.sums = append(b.sums, checksum{kind: ipv4Header, at: i.Offset})
	case "fix_checksum_icmpv6":
		b.sums = append(b.sums, checksum{kind: icmpv6, ip: i.L2, at: i.L2 + i.L3})
	case "fix_checksum_hw":
		b.sums = append(b.sums, checksum{kind: ipv4Header, at: i.L2, hardware: true})
		switch i.L4Type {
		case l4UDP:
			b.sums = append(b.sums, checksum{kind: udp, ip: i.L2, at: i.L2 + i.L3, hardware: true})
		case l4TCP:
			b.sums = append(b.sums, checksum{kind: tcp, ip: i.L2, at: i.L2 + i.L3, hardware: true})
		case l4IP:
		default:
			return fmt.Errorf("%s: l4_type %d is not known to the comparison", i.Type, i.L4Type)
		}
	default:
		return fmt.Errorf("%q is not known to the comparison", i.Type)
	}
	return nil
}

// use notes that a random variable shows in packets.
func (b *builder) use(v *variable) {
	if !slices.Contains(b.stream.random, v) {
		b.stream.random = append(b.stream.random, v)
	}
}

func (b *builder) write(i *instruction) error {
	size, known := b.sizes[i.Name]
	if !known {
		return fmt.Errorf("%s: there is no variable %q", i.Type, i.Name)
	}
	w := &write{offset: i.Offset, size: size, add: uint64(i.Add), littleEndian: !i.BigEndian}
	if i.Type == "write_mask_flow_var" {
		w.size, w.masked, w.shift, w.mask = i.CastSize, true, i.Shift, i.Mask
	} else {
		w.mask = ^uint64(0) >> (64 - 8*size)
	}
	if w.size < 1 || w.size > 8 || w.offset+w.size > len(b.stream.base) {
		return fmt.Errorf("%s: bytes %d to %d are not in the packet", i.Type, w.offset, w.offset+w.size)
	}
	w.live = w.bytes(w.mask)
	for _, earlier := range b.writes {
		earlier.overwrite(w)
	}
	b.writes = append(b.writes, w)
	b.stream.written(w.offset, w.size)
	if v := b.random[i.Name]; v != nil {
		v.writes = append(v.writes, w)
		b.use(v)
	}
	return nil
}

// done settles which bits are free.
func (b *builder) done() {
	s := b.stream
	for _, v := range s.random {
		for _, w := range v.writes {
			for i, live := range w.live {
				s.free[w.offset+i] |= live
			}
		}
	}
	for _, sum := range b.sums {
		if sum.kind == ipv4Header && sum.hardware && sum.at < len(s.base) && s.base[sum.at]>>4 != 4 {
			continue // IPv6 has none
		}
		field := sum.field()
		s.written(field, 2)
		if !sum.hardware && s.resizedBy == nil && !s.freeWithin(sum) {
			continue
		}
		s.sums = append(s.sums, sum)
		for i := field; i < min(field+2, len(s.free)); i++ {
			s.free[i] = 0xff
		}
	}
	if s.latency {
		s.written(max(len(s.base)-trailerBytes, 0), trailerBytes)
	}
}

// freeWithin reports whether anything is free of what a checksum covers.
func (s *stream) freeWithin(sum checksum) bool {
	from, to := sum.covers(s.base)
	if slices.ContainsFunc(s.free[from:to], func(bits byte) bool { return bits != 0 }) {
		return true
	}
	from, to = sum.addresses(s.base)
	return slices.ContainsFunc(s.free[from:to], func(bits byte) bool { return bits != 0 })
}
