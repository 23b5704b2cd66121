// SPDX-License-Identifier: Apache-2.0

// How do the copies of a stream differ?

package stream

import (
	"bytes"
	"math/big"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/packet"
)

// MostCopies of one stream; streams have numbers of 16 bits.
const MostCopies = 20000

// Difference is where a copy differs from the first.
type Difference struct {
	index  int
	places []steppedPlace
}

// steppedPlace is a place in the packet and what is added there from copy to copy.
type steppedPlace struct {
	packet.Place
	base uint64
	step int64
}

// Frame returns the frame of the copy.
func (d Difference) Frame(of []byte) []byte {
	frame := bytes.Clone(of)
	for _, place := range d.places {
		value := place.base + uint64(place.step)*uint64(d.index)
		old := LoadBig(frame[place.Offset : place.Offset+place.Size])
		StoreBig(frame[place.Offset:place.Offset+place.Size], old&^place.Mask|value<<place.Shift&place.Mask)
	}
	return frame
}

func (p checker) copies(c *spatev1.StreamCopies, at *field.Path, built *packet.Packet) []Difference {
	if c == nil {
		return nil
	}
	if c.Count < 1 || c.Count > MostCopies {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("count"), "%d: must be 1 to %d", c.Count, MostCopies)
		return nil
	}
	var places []steppedPlace
	for i, vary := range c.Vary {
		at := at.Child("vary").Index(i)
		place, bits, ok := p.place(target{vary.Field, vary.Offset, vary.Size}, at, built)
		if !ok {
			continue
		}
		step := int64(1)
		if vary.Step != nil {
			step = *vary.Step
		}
		stepped := steppedPlace{Place: place, step: step}
		stepped.base = LoadBig(built.Frame[place.Offset:place.Offset+place.Size]) & place.Mask >> place.Shift
		last := new(big.Int).Mul(big.NewInt(step), big.NewInt(int64(c.Count-1)))
		last.Add(last, new(big.Int).SetUint64(stepped.base))
		if last.Sign() < 0 || last.BitLen() > bits {
			p.Add(spatev1.ReasonInvalidSpec, at, "the last of %d copies would have %s there, and %d bits hold 0 to %s; use fewer copies or another step",
				c.Count, last, bits, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(bits)), big.NewInt(1)))
			continue
		}
		places = append(places, stepped)
	}
	all := make([]Difference, c.Count)
	for i := range all {
		all[i] = Difference{index: i, places: places}
	}
	return all
}

// LoadBig reads up to 8 bytes in network byte order.
func LoadBig(bytes []byte) (value uint64) {
	for _, b := range bytes {
		value = value<<8 | uint64(b)
	}
	return value
}

// StoreBig writes up to 8 bytes in network byte order.
func StoreBig(bytes []byte, value uint64) {
	for i := range bytes {
		bytes[len(bytes)-1-i] = byte(value >> (8 * i))
	}
}
