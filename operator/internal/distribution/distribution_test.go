// SPDX-License-Identifier: Apache-2.0

package distribution

import (
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"spate.dev/operator/internal/engine/enginev1"
)

// counted is what an engine sends that has measured some durations, by its rule for the cell of a duration (`cell` in
// engine/stats/src/histogram.rs).
func counted(precision uint32, durations ...uint64) *enginev1.Distribution {
	counts := map[uint32]uint64{}
	for _, ns := range durations {
		if ns < 2<<precision {
			counts[uint32(ns)]++
			continue
		}
		shift := uint32(bits.Len64(ns)) - 1 - precision
		counts[shift<<precision+uint32(ns>>shift)]++
	}
	d := &enginev1.Distribution{PrecisionBits: precision}
	before := uint32(0)
	for _, index := range slices.Sorted(maps.Keys(counts)) {
		d.Cells, d.Counts = append(d.Cells, index-before), append(d.Counts, counts[index])
		before = index
	}
	return d
}

func merged(t *testing.T, parts ...*enginev1.Distribution) Distribution {
	t.Helper()
	d, ok := Merge(parts)
	if !ok {
		t.Fatal("not merged")
	}
	return d
}

var quantiles = []uint32{0, 1, 500_000, 900_000, 950_000, 990_000, 999_000, 999_900, 1_000_000, math.MaxUint32}

func TestPercentilesOfThreeEnginesAreThoseOfOneHistogramOfAllSamples(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		precision := []uint32{10, 7}[seed%2]
		var engines [3][]uint64
		var all []uint64
		for range 1 + random.IntN(2000) {
			ns := random.Uint64N(1 << (1 + random.UintN(36)))
			engine := random.IntN(3)
			if seed%3 == 0 { // the durations of engines differ
				engine = bits.Len64(ns) / 13
			}
			engines[engine], all = append(engines[engine], ns), append(all, ns)
		}
		three := merged(t, counted(precision, engines[0]...), counted(precision, engines[1]...), counted(precision, engines[2]...))
		one := merged(t, counted(precision, all...))
		slices.Sort(all)
		for _, q := range quantiles {
			got, want := three.Quantile(q), one.Quantile(q)
			exact := all[max((len(all)*int(min(q, 1_000_000))+999_999)/1_000_000, 1)-1]
			if got != want || got < exact || got-exact > exact>>precision {
				t.Fatalf("seed %d: quantile %d is %d, of one histogram %d, of the samples %d", seed, q, got, want, exact)
			}
		}
	}
}

func TestDistributionsAreMergedAtTheLowerPrecision(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var first, second []uint64
	for range 1000 {
		first, second = append(first, random.Uint64N(1<<(1+random.UintN(36)))), append(second, random.Uint64N(1<<20))
	}
	for precision := range uint32(maxPrecision) {
		got := merged(t, counted(maxPrecision, first...), counted(precision, second...))
		want := merged(t, counted(precision, first...), counted(precision, second...))
		if got.precision != precision || !slices.Equal(got.cells, want.cells) || got.total != 2000 {
			t.Errorf("precision %d: %d cells of %d, want %d", precision, len(got.cells), got.total, len(want.cells))
		}
	}
}

func TestNothingCountedHasNoPercentile(t *testing.T) {
	for name, d := range map[string]Distribution{"zero": {}, "no engine": merged(t), "no cell": merged(t, &enginev1.Distribution{PrecisionBits: 7})} {
		if got := d.Quantile(500_000); got != 0 {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func TestAbsentAndMalformedDistributionsAreNotMerged(t *testing.T) {
	of := func(precision uint32, cells []uint32, counts ...uint64) *enginev1.Distribution {
		return &enginev1.Distribution{PrecisionBits: precision, Cells: cells, Counts: counts}
	}
	for name, part := range map[string]*enginev1.Distribution{
		"absent":                  nil,
		"unknown precision":       of(maxPrecision+1, []uint32{1}, 1),
		"absurd precision":        of(math.MaxUint32, []uint32{1}, 1),
		"a cell without a count":  of(10, []uint32{1, 1}, 1),
		"a count without a cell":  of(10, []uint32{1}, 1, 1),
		"a cell twice":            of(10, []uint32{1, 0}, 1, 1),
		"a cell beyond the last":  of(10, []uint32{38 << 10}, 1),
		"of coarse ones":          of(0, []uint32{48}, 1),
		"an index that overflows": of(10, []uint32{math.MaxUint32, 2}, 1, 1),
	} {
		if d, ok := Merge([]*enginev1.Distribution{counted(10, 1000), part}); ok {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := merged(t, of(10, []uint32{38<<10 - 1}, 1)); d.Quantile(500_000) != 1<<47-1 {
		t.Errorf("the last cell: %d", d.Quantile(500_000))
	}
}

func TestCountsSaturate(t *testing.T) {
	huge := &enginev1.Distribution{PrecisionBits: 10, Cells: []uint32{10, 10}, Counts: []uint64{math.MaxUint64, math.MaxUint64}}
	d := merged(t, huge, huge)
	if d.total != math.MaxUint64 || d.cells[0].count != math.MaxUint64 {
		t.Errorf("%+v", d)
	}
	for _, q := range quantiles {
		if got := d.Quantile(q); got != 10 {
			t.Errorf("quantile %d is %d", q, got)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add(uint32(10), []byte{1, 200, 3}, []byte{1, 2, 3}, uint32(500_000))
	f.Add(uint32(7), []byte{0, 1}, []byte{255, 255}, uint32(999_900))
	f.Fuzz(func(t *testing.T, precision uint32, cells, counts []byte, q uint32) {
		part := &enginev1.Distribution{PrecisionBits: precision}
		for _, ahead := range cells {
			part.Cells = append(part.Cells, uint32(ahead)*uint32(ahead)*uint32(ahead))
		}
		for _, count := range counts {
			part.Counts = append(part.Counts, 1<<(count%65)-1)
		}
		d, ok := Merge([]*enginev1.Distribution{part, counted(7, 1, 1000, 1_000_000)})
		if !ok {
			return
		}
		if len(d.cells) > len(cells)+3 || d.total < 3 {
			t.Errorf("%+v", d)
		}
		if low, high := d.Quantile(q), d.Quantile(1_000_000); low > high || high >= 1<<durationBits {
			t.Errorf("quantile %d is %d, the greatest %d", q, low, high)
		}
	})
}
