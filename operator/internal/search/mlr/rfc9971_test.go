// SPDX-License-Identifier: Apache-2.0

package mlr

import "testing"

// The example of RFC 9971 appendix C: four goals, and trials at one load.
var exampleGoals = []Goal{
	{Name: "RFC2544", FinalTrialDuration: 60, DurationSum: 60},
	{Name: "TST009", FinalTrialDuration: 60, DurationSum: 120, ExceedRatio: 0.5},
	{Name: "1s final", FinalTrialDuration: 1, DurationSum: 120, LossRatio: 0.005, ExceedRatio: 0.5},
	{Name: "20% exceed", FinalTrialDuration: 60, DurationSum: 60, LossRatio: 0.005, ExceedRatio: 0.2},
}

// At points 5 and 6 the example's last column says Lower, with exceed ratios of 42.9 % and 27.3 %, which are larger than 20 %: by the RFC's own
// appendix A, and by the reference package, the load is an upper bound.
var examplePoints = []struct {
	name     string
	trials   int
	duration float64
	loss     float64
	want     [4]Class
}{
	{"first short good", 59, 1, 0, [4]Class{Undecided, Undecided, Undecided, Undecided}},
	{"first short bad", 1, 1, 0.01, [4]Class{Upper, Undecided, Undecided, Undecided}},
	{"last short bad", 59, 1, 0.01, [4]Class{Upper, Undecided, Undecided, Upper}},
	{"last short good", 1, 1, 0, [4]Class{Upper, Undecided, Lower, Upper}},
	{"first long bad", 1, 60, 0.001, [4]Class{Upper, Undecided, Lower, Upper}},
	{"first long good", 1, 60, 0, [4]Class{Upper, Lower, Lower, Upper}},
}

func TestExampleOfRFC9971(t *testing.T) {
	const load = 1e6
	grid, err := newGrid(load/10, load, []float64{0.005})
	if err != nil {
		t.Fatal(err)
	}
	all := points{}
	for i, goal := range exampleGoals {
		goal.InitialTrialDuration = goal.DurationSum
		all.targets = append(all.targets, goal.targets(grid, i, i)...)
	}
	cells := 0
	for _, point := range examplePoints {
		for range point.trials {
			all.add(grid.top, measured{duration: point.duration, loss: point.loss, device: point.loss})
		}
		for i, want := range point.want {
			target := &all.targets[i]
			if got := all.sorted[0].all[i].classify(target.exceed, target.sum); got != want {
				t.Errorf("%s, goal %s: got %v, want %v", point.name, exampleGoals[i].Name, got, want)
			}
			cells++
		}
	}
	for i, want := range map[int]float64{1: 1e6, 2: 1e6, 3: 999e3} {
		if got := load * (1 - all.loss(grid.top, &all.targets[i])); got != want {
			t.Errorf("throughput of goal %s: got %v, want %v", exampleGoals[i].Name, got, want)
		}
	}
	t.Logf("%d classifications, 3 throughputs", cells)
}

func TestTimeThatIsMissingCountsAsLost(t *testing.T) {
	goal := &target{trial: 1, sum: 4, exceed: 0.5}
	short := []measured{{duration: 1, loss: 0}}
	if got := quantileLoss(short, sums{fullLow: 1}, goal); got != 1 {
		t.Errorf("a quarter of the duration sum without loss: got %v", got)
	}
	half := []measured{{duration: 1, loss: 0}, {duration: 1, loss: 0.25}}
	if got := quantileLoss(half, sums{fullLow: 2}, goal); got != 0.25 {
		t.Errorf("half of the duration sum: got %v", got)
	}
}
