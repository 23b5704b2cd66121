// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"math/rand/v2"
	"testing"
)

// TestPossibleIsWhatTryingAllGives compares with trying every value.
func TestPossibleIsWhatTryingAllGives(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		w := &write{size: 1 + draw.IntN(2), masked: true, shift: draw.IntN(9) - 4, add: uint64(int64(draw.IntN(20) - 10)), mask: draw.Uint64() & 0xffff}
		w.live = w.bytes(w.mask)
		low := uint64(draw.IntN(1000))
		within := interval{low, low + uint64(draw.IntN(200))}
		frame := []byte{byte(draw.Uint32()), byte(draw.Uint32())}
		if draw.IntN(2) == 0 { // mostly nothing is possible by chance
			copy(frame, w.bytes(w.written(within.min+draw.Uint64N(within.max-within.min+1))))
		}
		want := false
		for value := within.min; value <= within.max; value++ {
			want = want || w.wrote(value, frame)
		}
		if got := w.possible(frame, within); got != want {
			t.Fatalf("%+v of %+v in %x: got %v, want %v", w, within, frame, got, want)
		}
	}
}

func TestLeastFrom(t *testing.T) {
	const all = 255
	for mask := range uint64(256) {
		for from := uint64(0); from <= all; from += 7 {
			want := 0xa5 & mask
			least, found := from, false
			for ; least <= all; least++ {
				if found = least&mask == want; found {
					break
				}
			}
			if got, ok := leastFrom(from, want, mask, all); ok != found || found && got != least {
				t.Fatalf("from %d, mask %x: got %d %v, want %d %v", from, mask, got, ok, least, found)
			}
		}
	}
}
