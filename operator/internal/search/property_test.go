// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/dut"
	"spate.dev/operator/internal/search/mlr"
)

// finish runs a method on a device to its end, from the records of all trials before each.
func finish(t testing.TB, method search.Method, measure func(number int, input search.Input) search.Trial) (trials []search.Trial, result search.Result) {
	t.Helper()
	for {
		want, done, err := method.Next(trials)
		switch {
		case err != nil:
			t.Fatalf("after %d trials: %v", len(trials), err)
		case done != nil:
			return trials, *done
		case len(trials) >= 2000:
			t.Fatalf("no end after %d trials", len(trials))
		}
		trials = append(trials, measure(len(trials)+1, *want))
	}
}

// draw is even by logarithm.
func draw(random *rand.Rand, least, greatest float64) float64 {
	return least * math.Exp(random.Float64()*math.Log(greatest/least))
}

// randomSearch draws a search of one goal, and a device whose capacity is between the loads.
func randomSearch(random *rand.Rand) (search.Throughput, dut.Device) {
	final := [...]float64{1, 2, 10, 60}[random.IntN(4)]
	goal := search.Goal{
		Name: "ndr", LossRatio: [...]float64{0, 0, 0.001, 0.05}[random.IntN(4)], Width: draw(random, 0.001, 0.1), FinalTrialDuration: final,
		DurationSum: final, InitialTrialDuration: min(final, 1), PrecedingTargets: 1 + random.IntN(3), Expansion: 2 + random.IntN(3),
	}
	if random.IntN(4) == 0 {
		goal.ExceedRatio, goal.DurationSum = 0.5, 2*final
	}
	least := draw(random, 1e3, 1e5)
	between := search.Throughput{Min: least, Max: least * draw(random, 2, 2000), Goals: []search.Goal{goal}}
	device := dut.Device{Capacity: draw(random, between.Min, between.Max)}
	switch random.IntN(8) {
	case 0:
		device.Buffer = int64(draw(random, 1, device.Capacity))
	case 1:
		device.Generator = draw(random, between.Min, between.Max)
	}
	return between, device
}

// capacity is the load up to which a goal's full-length trials are low-loss, with the error that the counts of the shortest trial are whole packets.
func capacity(goal search.Goal, device dut.Device) (load, packet float64) {
	forwarded := device.Capacity + float64(device.Buffer)/goal.FinalTrialDuration
	if device.Generator > 0 {
		forwarded = min(forwarded, device.Generator)
	}
	return forwarded / (1 - goal.LossRatio), 2 / goal.InitialTrialDuration / (1 - goal.LossRatio)
}

// chosenWithoutReplay runs a search once from beginning to end, with the outcomes of trials, and reports whether it chooses the same ones.
func chosenWithoutReplay(between search.Throughput, trials []search.Trial) bool {
	once, err := mlr.New(between.Min, between.Max, between.Goals)
	if err != nil {
		return false
	}
	run := once.Start()
	for _, trial := range trials {
		if next, more := run.Next(); !more || next.Load != trial.Load || next.Duration != trial.Duration {
			return false
		}
		run.Add(mlr.Outcome{Loss: trial.LossRatio(), DeviceLoss: trial.DeviceLossRatio()})
	}
	_, more := run.Next()
	return !more
}

func TestResultsHoldTheCapacityOfRandomDevices(t *testing.T) {
	const devices = 100_000
	random := rand.New(rand.NewPCG(18, 9971))
	reasons, most, all := map[search.Reason]int{}, 0, 0
	for number := range devices {
		between, device := randomSearch(random)
		goal := between.Goals[0]
		method, err := search.NewMLRsearch(between)
		if err != nil {
			t.Fatalf("device %d: %v", number, err)
		}
		trials, result := finish(t, method, device.Measure)
		got := result.Goals[0]
		reasons[got.Reason]++
		most, all = max(most, len(trials)), all+len(trials)
		fail := func(what string) {
			t.Fatalf("device %d: %s: %+v, %+v: %+v after %d trials", number, what, between, device, got, len(trials))
		}
		if len(trials) > 60 {
			fail("too many trials")
		}
		if !chosenWithoutReplay(between, trials) {
			fail("a replay chose another trial")
		}
		for _, trial := range trials {
			if trial.Load < between.Min || trial.Load > between.Max {
				fail("a load is out of range")
			}
		}
		load, packet := capacity(goal, device)
		if got.Lower > 0 && got.Lower >= load+packet || got.Upper > 0 && got.Upper < load-packet {
			fail("the capacity is not between the bounds")
		}
		if got.Regular && (got.Lower == 0 || got.Upper == 0 || (got.Upper-got.Lower)/got.Upper > goal.Width) {
			fail("regular, and not within the width")
		}
		if limit := device.Generator; limit > 0 && limit < device.Capacity && got.Upper > 0 && got.Reason != search.GeneratorLimited {
			fail("the generator's limit is taken for the device's")
		}
	}
	t.Logf("%d devices, %d trials, at most %d; %v", devices, all, most, reasons)
}

// TestReplaysOfUnstableDevicesChooseTheSame: what is random in outcomes is in the records.
func TestReplaysOfUnstableDevicesChooseTheSame(t *testing.T) {
	const devices = 5000
	random, all := rand.New(rand.NewPCG(18, 1)), 0
	for range devices {
		between, device := randomSearch(random)
		device.Every, device.Loses = 2+random.IntN(6), int64(draw(random, 1, 1e5))
		method, err := search.NewMLRsearch(between)
		if err != nil {
			t.Fatal(err)
		}
		trials, _ := finish(t, method, device.Measure)
		if !chosenWithoutReplay(between, trials) {
			t.Fatalf("%+v, %+v: a replay chose another trial", between, device)
		}
		all += len(trials)
	}
	t.Logf("%d devices, %d prefixes", devices, all)
}

func TestNoiseLowersOnlyStrictGoals(t *testing.T) {
	const least, greatest, capacity = 9001, 14.88e6, 1e6
	noisy := dut.Device{Capacity: capacity, Every: 7, Loses: 1}
	strict := search.Throughput{Min: least, Max: greatest, Goals: []search.Goal{mlr.RFC2544("ndr")}}
	tolerant := search.Throughput{Min: least, Max: greatest, Goals: []search.Goal{mlr.TST009("ndr")}}
	for _, c := range []struct {
		between search.Throughput
		lower   float64
	}{{strict, 994397}, {tolerant, 999392}} {
		method, err := search.NewMLRsearch(c.between)
		if err != nil {
			t.Fatal(err)
		}
		_, result := finish(t, method, noisy.Measure)
		if got := result.Goals[0]; !got.Regular || got.Reason != search.Found || math.Floor(got.Lower) != c.lower {
			t.Errorf("exceed ratio %v: got %+v, want Found from %v", c.between.Goals[0].ExceedRatio, got, c.lower)
		}
	}
}
