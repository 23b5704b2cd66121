// SPDX-License-Identifier: Apache-2.0

// Is what a random instruction wrote in its range?

package conformance

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// variable is a random one.
type variable struct {
	name string
	// size in bytes.
	size     int
	min, max uint64
	// values it is drawn from; then min and max say nothing.
	values []uint64
	writes []*write
}

// write of a variable into the packet.
type write struct {
	offset, size int
	add          uint64
	// masked writes shift and mask in 32 bits.
	masked       bool
	shift        int
	mask         uint64
	littleEndian bool
	// live bits of each byte are written by nothing later.
	live []byte
}

// bytes of a value as they stand in the packet.
func (w *write) bytes(value uint64) []byte {
	text := binary.BigEndian.AppendUint64(nil, value)[8-w.size:]
	if w.littleEndian {
		slices.Reverse(text)
	}
	return text
}

// value of the bytes in the packet.
func (w *write) value(bytes []byte) uint64 {
	text := slices.Clone(bytes[:w.size])
	if w.littleEndian {
		slices.Reverse(text)
	}
	return binary.BigEndian.Uint64(append(make([]byte, 8-w.size), text...))
}

// overwrite takes the bits that a later write writes.
func (w *write) overwrite(later *write) {
	for i := range w.live {
		if at := w.offset + i - later.offset; at >= 0 && at < later.size {
			w.live[i] &^= later.live[at]
		}
	}
}

// written is what a value becomes, with bits of 0 outside of the mask.
func (w *write) written(value uint64) uint64 {
	sum := value + w.add
	if !w.masked {
		return sum & w.mask
	}
	return shifted(sum&0xffffffff, w.shift) & 0xffffffff & w.mask
}

// shifted to the left, or to the right where negative.
func shifted(value uint64, by int) uint64 {
	if by < 0 {
		return value >> -by
	}
	return value << by
}

// wrote reports whether the packet holds what a value becomes.
func (w *write) wrote(value uint64, frame []byte) bool {
	if w.offset >= len(frame) {
		return true // cut off
	}
	for i, b := range w.bytes(w.written(value)) {
		if at := w.offset + i; at < len(frame) && (frame[at]^b)&w.live[i] != 0 {
			return false
		}
	}
	return true
}

// mostTried values are tried one by one.
const mostTried = 1 << 16

// check returns what a packet holds of the variable that none of its values gives. Length is its value where the packet's
// length is cut by it, as least and most value.
func (v *variable) check(frame []byte, length *interval) error {
	within := interval{v.min, v.max}
	if length != nil {
		if within = within.and(*length); within.empty() && len(v.values) == 0 {
			return fmt.Errorf("%d bytes are not in the range of %s, %d to %d", len(frame), v.name, v.min, v.max)
		}
	}
	switch {
	case len(v.values) > 0:
		for _, value := range v.values {
			if (length == nil || length.holds(value)) && v.wrote(value, frame) {
				return nil
			}
		}
		return v.wrong(frame, fmt.Sprintf("one of %d", v.values))
	case within.max-within.min < mostTried:
		for value := within.min; ; value++ {
			if v.wrote(value, frame) {
				return nil
			}
			if value == within.max {
				return v.wrong(frame, fmt.Sprintf("of %d to %d", within.min, within.max))
			}
		}
	}
	for _, w := range v.writes {
		if value, whole := w.whole(frame); whole {
			if within.holds(value) && v.wrote(value, frame) {
				return nil
			}
			return v.wrong(frame, fmt.Sprintf("of %d to %d", within.min, within.max))
		}
	}
	// Only parts of it are there: each must be one of some value.
	for _, w := range v.writes {
		if w.offset+w.size <= len(frame) && !w.possible(frame, within) {
			return v.wrong(frame, fmt.Sprintf("of %d to %d", within.min, within.max))
		}
	}
	return nil
}

func (v *variable) wrote(value uint64, frame []byte) bool {
	return !slices.ContainsFunc(v.writes, func(w *write) bool { return !w.wrote(value, frame) })
}

func (v *variable) wrong(frame []byte, want string) error {
	var text strings.Builder
	for _, w := range v.writes {
		if w.offset+w.size <= len(frame) {
			fmt.Fprintf(&text, " %x at byte %d", frame[w.offset:w.offset+w.size], w.offset)
		}
	}
	return fmt.Errorf("variable %s is%s, which is what none %s becomes", v.name, text.String(), want)
}

// whole gives the value that was written, if all of it shows.
func (w *write) whole(frame []byte) (uint64, bool) {
	if w.masked || w.offset+w.size > len(frame) || !slices.Equal(w.live, w.bytes(w.mask)) {
		return 0, false
	}
	return (w.value(frame[w.offset:]) - w.add) & w.mask, true
}

// possible reports whether some value of a range could have become what the packet holds.
func (w *write) possible(frame []byte, within interval) bool {
	live := w.value(w.live)
	seen := w.value(frame[w.offset:]) & live
	all := ^uint64(0) >> (64 - 8*w.size)
	if w.masked {
		all = 0xffffffff
	}
	// Bits of the sum that show, and what they are.
	if shifted(shifted(seen, -w.shift)&all, w.shift)&live != seen {
		return false // bits that the shift makes 0 are 1
	}
	mask := shifted(live, -w.shift) & all
	want := shifted(seen, -w.shift) & mask
	low := (within.min + w.add) & all
	span := within.max - within.min
	if span > all-low { // it wraps
		if least, found := leastFrom(0, want, mask, all); found && least <= span-(all-low)-1 {
			return true
		}
		span = all - low
	}
	least, found := leastFrom(low, want, mask, all)
	return found && least <= low+span
}

// leastFrom gives the least number from `from` up to `all` that has the bits `want` where the mask is.
func leastFrom(from, want, mask, all uint64) (uint64, bool) {
	if from&mask == want {
		return from, true
	}
	for bit := uint64(1); bit != 0 && bit <= all; bit <<= 1 {
		// The bits above stay, this one becomes 1, those below as small as they may be.
		above := all &^ (bit | (bit - 1))
		if from&bit != 0 || (from&above)&mask != want&above || mask&bit != 0 && want&bit == 0 {
			continue
		}
		return from&above | bit | want&(bit-1), true
	}
	return 0, false
}

// interval is min to max, both in it.
type interval struct{ min, max uint64 }

func (i interval) and(other interval) interval {
	return interval{max(i.min, other.min), min(i.max, other.max)}
}

func (i interval) empty() bool { return i.min > i.max }

func (i interval) holds(value uint64) bool { return value >= i.min && value <= i.max }
