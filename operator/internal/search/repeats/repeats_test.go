// SPDX-License-Identifier: Apache-2.0

package repeats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestSpreadHasMedianDeviationAndTheIntervalOfTheMedian(t *testing.T) {
	for _, c := range []struct {
		lower []float64
		want  spatev1.GoalSpread
	}{
		{[]float64{5}, spatev1.GoalSpread{Name: "ndr", Count: 1, Min: "5", Median: "5", Max: "5"}},
		{[]float64{3, 0}, spatev1.GoalSpread{Name: "ndr", Count: 2, Min: "0", Median: "1.5", Max: "3", Deviation: "2.121320344"}},
		{[]float64{2, 4, 4, 4, 5}, spatev1.GoalSpread{Name: "ndr", Count: 5, Min: "2", Median: "4", Max: "5", Deviation: "1.095445115"}},
		// Of 6 values the median is between the least and the greatest but with a probability of 2/64.
		{[]float64{60, 10, 20, 50, 30, 40}, spatev1.GoalSpread{Name: "ndr", Count: 6, Min: "10", Median: "35", Max: "60", Deviation: "18.708286934", MedianLow: "10", MedianHigh: "60"}},
		// Of 9, between the second and the eighth: 2 * (1 + 9) / 512 is 3.9 %.
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, spatev1.GoalSpread{Name: "ndr", Count: 9, Min: "1", Median: "5", Max: "9", Deviation: "2.738612788", MedianLow: "2", MedianHigh: "8"}},
	} {
		if got := Spread("ndr", c.lower); got != c.want {
			t.Errorf("%v: %+v", c.lower, got)
		}
	}
}

func TestTheMedianOfResultsIsIrregularIfOneIs(t *testing.T) {
	result := func(lower, upper, reason string, regular bool, typical spatev1.MeasuredTime, loss string, frames string) spatev1.SearchResult {
		r := spatev1.SearchResult{
			Goals:     []spatev1.GoalResult{{Name: "ndr", Reason: reason, Regular: regular, Lower: lower, Upper: upper, Throughput: lower}},
			Latency:   []spatev1.LatencyResult{{Percent: 50, Load: lower, Typical: typical, Mean: 2 * typical}},
			FrameLoss: []spatev1.FrameLossResult{{Percent: "100", Load: "1000", LossRatio: loss}}, Reason: reason,
		}
		if frames != "" {
			r.BackToBack = &spatev1.BackToBackResult{Frames: frames, BufferTime: 10 * typical}
		}
		return r
	}
	all := []spatev1.SearchResult{
		result("100", "101", "Found", true, 10, "0.5", "7"), result("90", "", "MaxLoadPasses", false, 30, "0.3", "9"), result("95", "99", "Unstable", true, 20, "0.1", "8"),
	}
	got := Result(all)
	if g := got.Goals[0]; g.Lower != "95" || g.Upper != "101" || g.Throughput != "95" || g.Regular || g.Reason != "MaxLoadPasses" || got.Reason != "MaxLoadPasses" {
		t.Errorf("%+v, %s", g, got.Reason)
	}
	if l := got.Latency[0]; l.Percent != 50 || l.Load != "95" || l.Typical != 20 || l.Mean != 40 {
		t.Errorf("%+v", l)
	}
	if f := got.FrameLoss[0]; f.LossRatio != "0.3" || f.Load != "1000" {
		t.Errorf("%+v", f)
	}
	if b := got.BackToBack; b == nil || b.Frames != "8" || b.BufferTime != 200 {
		t.Errorf("%+v", b)
	}
	// The median of an even number of bursts is a mean, with one decimal place.
	if b := Result([]spatev1.SearchResult{result("1", "2", "Found", true, 10, "0", "7.3"), result("1", "2", "Found", true, 20, "0", "7.8")}).BackToBack; b.Frames != "7.6" {
		t.Errorf("%+v", b)
	}
	// The median of two upper bounds of which one does not exist does not exist.
	if g := Result(all[:2]).Goals[0]; g.Lower != "95" || g.Upper != "" {
		t.Errorf("%+v", g)
	}
	// What one repeat did not measure has no median.
	all[1] = result("", "10", "MinLoadFails", false, 30, "0.3", "")
	all[1].Latency = nil
	if got := Result(all); got.BackToBack != nil || got.Latency != nil || len(got.FrameLoss) != 1 || got.Goals[0].Lower != "95" || got.Goals[0].Reason != "MinLoadFails" {
		t.Errorf("%+v", got)
	}
	if got := Result(all[:1]); got.Goals[0].Upper != "101" || Result(nil).Goals != nil {
		t.Errorf("%+v", got)
	}
}

// P is that of the exact distribution: of all choices of ranks, the share with such a U, such as 2 * (1+1+2+3) of 70 for U = 3 of sets of 4.
func TestSetsAreComparedByTheUTest(t *testing.T) {
	for _, c := range []struct {
		first, second []float64
		u, p, shift   float64
		needed        int
		differ        bool
	}{
		{[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 0, 2.0 / 70, 160, 0, true},
		{[]float64{5, 6, 7, 8}, []float64{1, 2, 3, 4}, 16, 2.0 / 70, -61.53846153846154, 0, true},
		{[]float64{1, 2, 3, 4}, []float64{2.5, 3.5, 4.5, 5.5}, 3, 0.2, 60, 0, false},
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, 0, 0.1, 150, 4, false},
		{[]float64{7}, []float64{7}, 0.5, 1, 0, 4, false},
		{[]float64{7, 7, 7, 7, 7}, []float64{7, 7, 7, 7, 7}, 12.5, 1, 0, 0, false},
		{[]float64{0, 0, 0, 0}, []float64{1, 2, 3, 4}, 0, 2.0 / 70, math.NaN(), 0, true},
	} {
		got, err := Compare(c.first, c.second)
		if err != nil {
			t.Fatal(err)
		}
		shift := math.Abs(got.Shift-c.shift) < 1e-9 || math.IsNaN(got.Shift) && math.IsNaN(c.shift)
		if got.U != c.u || math.Abs(got.P-c.p) > 1e-9 || !shift || got.Needed != c.needed || got.Differ() != c.differ {
			t.Errorf("%v and %v: %+v", c.first, c.second, got)
		}
	}
	if _, err := Compare([]float64{1}, nil); err == nil {
		t.Error("an empty set is compared")
	}
}

// Of equal devices, one comparison in twenty says that they differ; of unequal ones, nearly all do.
func TestComparisonsErrAsOftenAsTheySay(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(mean float64) []float64 {
		return slices.Collect(func(yield func(float64) bool) {
			for range 8 {
				if !yield(mean + random.NormFloat64()) {
					return
				}
			}
		})
	}
	same, shifted := 0, 0
	const times = 4000
	for range times {
		if c, _ := Compare(draw(100), draw(100)); c.Differ() {
			same++
		}
		if c, _ := Compare(draw(100), draw(104)); c.Differ() {
			shifted++
		}
	}
	if same > times*6/100 || same < times*3/100 || shifted < times*99/100 {
		t.Errorf("%d of %d equal pairs differ, and %d of as many unequal ones", same, times, shifted)
	}
}
