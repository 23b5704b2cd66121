// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/dut"
	"spate.dev/operator/internal/search/mlr"
)

func TestBisectionHalvesFromTheMaximum(t *testing.T) {
	trials, result := finish(t, must(t)(search.NewBisection(ndr())), device(1e6).Measure)
	got := result.Goals[0]
	if len(trials) != 13 || got.Reason != search.Found || got.Lower > 1e6 || got.Upper <= 1e6 || got.Upper-got.Lower > 0.005*got.Upper || got.Throughput != got.Lower {
		t.Errorf("got %+v after %d trials", got, len(trials))
	}
	if trials[0].Load != 14.88e6 || trials[1].Load != (14.88e6+9001)/2 || trials[2].Load != 9001+(14.88e6-9001)/4 {
		t.Errorf("got %v, %v, %v", trials[0].Load, trials[1].Load, trials[2].Load)
	}
	for _, trial := range trials {
		if trial.Duration != 60 {
			t.Errorf("a trial of %v s", trial.Duration)
		}
	}
}

func TestReasonsOfBisection(t *testing.T) {
	for _, c := range []struct {
		device dut.Device
		reason search.Reason
		trials int
	}{
		{device(1e8), search.MaxLoadPasses, 1},
		{device(5000), search.MinLoadFails, 21},
		{device(9010), search.Found, 21},
		{dut.Device{Capacity: 1e8, Generator: 2.5e6}, search.GeneratorLimited, 12},
		{dut.Device{Capacity: 1e6, Generator: 2.5e6}, search.Found, 13},
	} {
		trials, result := finish(t, must(t)(search.NewBisection(ndr())), c.device.Measure)
		if got := result.Goals[0]; got.Reason != c.reason || len(trials) != c.trials || got.Regular != (c.reason == search.Found) {
			t.Errorf("%+v: got %+v after %d trials", c.device, got, len(trials))
		}
	}
}

func TestLossVerificationRepeatsATrialOnce(t *testing.T) {
	between := ndr()
	between.Goals = []search.Goal{mlr.TST009("ndr")}
	measure := func(number int, input search.Input) search.Trial {
		trial := device(1e6).Measure(number, input)
		if number%2 == 1 { // noise that a second trial does not show
			trial.Lost++
		}
		return trial
	}
	trials, result := finish(t, must(t)(search.NewBisection(between)), measure)
	if got := result.Goals[0]; got.Reason != search.Found || got.Lower > 1e6 || got.Upper <= 1e6 || len(trials) != 26 {
		t.Errorf("got %+v after %d trials", got, len(trials))
	}
	if trials[0].Input != trials[1].Input || trials[1].Input == trials[2].Input {
		t.Error("the trial that loses is not repeated once")
	}
	between.Goals = []search.Goal{mlr.RFC2544("ndr")}
	if _, result := finish(t, must(t)(search.NewBisection(between)), measure); result.Goals[0].Lower > 0.99e6 {
		t.Errorf("without verification: got %+v", result.Goals[0])
	}
}

func TestGoalsOfABisectionShareTrials(t *testing.T) {
	between := ndr()
	pdr := mlr.RFC2544("pdr")
	pdr.LossRatio = 0.005
	between.Goals = append(between.Goals, pdr)
	trials, result := finish(t, must(t)(search.NewBisection(between)), device(1e6).Measure)
	strict, loose := result.Goals[0], result.Goals[1]
	if strict.Reason != search.Found || loose.Reason != search.Found || !near(loose.Upper, 1e6/0.995, 0.006) || len(trials) > 14 {
		t.Errorf("got %+v after %d trials", result.Goals, len(trials))
	}
	once := slices.CompactFunc(slices.SortedFunc(slices.Values(trials), func(a, b search.Trial) int { return int(a.Load - b.Load) }),
		func(a, b search.Trial) bool { return a.Load == b.Load })
	if len(once) != len(trials) {
		t.Error("a load was measured twice")
	}
}

func TestBisectionHoldsTheCapacityOfRandomDevices(t *testing.T) {
	random := rand.New(rand.NewPCG(2544, 26))
	for range 5000 {
		between, device := randomSearch(random)
		goal := &between.Goals[0]
		goal.DurationSum = goal.FinalTrialDuration
		if goal.ExceedRatio != 0 {
			goal.DurationSum *= 2
		}
		trials, result := finish(t, must(t)(search.NewBisection(between)), device.Measure)
		got := result.Goals[0]
		load, packet := capacity(*goal, device)
		if got.Lower >= load+packet || got.Upper > 0 && got.Upper < load-packet || got.Regular && (got.Upper-got.Lower)/got.Upper > goal.Width || len(trials) > 60 {
			t.Fatalf("%+v, %+v: got %+v after %d trials", between, device, got, len(trials))
		}
	}
}
