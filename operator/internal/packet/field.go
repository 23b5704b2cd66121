// SPDX-License-Identifier: Apache-2.0

// Where in a frame is a header's field, and how is it written to?

package packet

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var fieldName = regexp.MustCompile(`^([a-z][a-zA-Z0-9]*)(?:\[([0-9]{1,2})\])?\.([a-zA-Z0-9]+)$`)

// Locate finds a field by name, such as "ipv4.source", or "vlan[1].id" in the second header of its kind.
func (p *Packet) Locate(name string) (Location, error) {
	parts := fieldName.FindStringSubmatch(name)
	if parts == nil {
		return Location{}, fmt.Errorf("must name a header's field, such as ipv4.source or vlan[1].id")
	}
	kind, field := Kind(parts[1]), parts[3]
	wanted := 0
	if parts[2] != "" {
		wanted, _ = strconv.Atoi(parts[2])
	}
	if _, known := layouts[kind]; !known {
		return Location{}, fmt.Errorf("%s is no header; known are %s", kind, strings.Join(sorted(layouts), ", "))
	}
	found := 0
	for _, h := range p.Headers {
		if h.Kind != kind {
			continue
		}
		if found == wanted {
			location, known := h.Fields[field]
			if !known {
				return Location{}, fmt.Errorf("this %s header has no field %s; it has %s", kind, field, strings.Join(sorted(h.Fields), ", "))
			}
			location.Bit += h.Offset * 8
			return location, nil
		}
		found++
	}
	return Location{}, fmt.Errorf("the packet has %d %s headers; the first is %s[0]", found, kind, kind)
}

func sorted[K ~string, V any](fields map[K]V) []string {
	all := make([]string, 0, len(fields))
	for name := range fields {
		all = append(all, string(name))
	}
	slices.Sort(all)
	return all
}

// Place is where and how a value is written: shifted left, masked, in network byte order.
type Place struct {
	// Offset and Size in bytes; Size is 1, 2, 3, 4, 6 or 8.
	Offset, Size int
	Shift        int
	// Mask has the bits that are written.
	Mask uint64
}

// Place returns how a field of the frame is written. Of a field of more than 64 bits (an IPv6 address), it covers the
// lower 64.
func (p *Packet) Place(l Location) Place {
	if l.Bits > 64 {
		l = Location{Bit: l.Bit + l.Bits - 64, Bits: 64}
	}
	first, end := l.Bit/8, (l.Bit+l.Bits+7)/8
	size := end - first
	for !slices.Contains([]int{1, 2, 3, 4, 6, 8}, size) {
		size++
	}
	if first+size > len(p.Frame) {
		first = end - size
	}
	shift := (first+size)*8 - (l.Bit + l.Bits)
	return Place{Offset: first, Size: size, Shift: shift, Mask: ^uint64(0) >> (64 - l.Bits) << shift}
}
