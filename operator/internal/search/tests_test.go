// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/dut"
)

func TestFrameLossEndsAfterTwoTrialsWithoutLoss(t *testing.T) {
	test := search.FrameLoss{Max: 1e6, Step: 0.1, Duration: 60}
	for _, c := range []struct {
		device dut.Device
		losses []float64
		reason search.Reason
	}{
		{device(750e3), []float64{0.25, 1 - 750./900, 1 - 750./800, 0, 0}, search.Found},
		{device(2e6), []float64{0, 0}, search.Found},
		{device(150e3), []float64{0.85, 1 - 150./900, 1 - 150./800, 1 - 150./700, 0.75, 0.7, 0.625, 0.5, 0.25, 0}, search.MinLoadFails},
		{dut.Device{Capacity: 750e3, Band: [2]float64{599e3, 601e3}}, []float64{0.25, 1 - 750./900, 1 - 750./800, 0, 1 / 36e6, 0, 0}, search.Found},
		{dut.Device{Capacity: 2e6, Generator: 950e3}, []float64{0.05, 0, 0}, search.GeneratorLimited},
	} {
		trials, result := finish(t, must(t)(search.NewFrameLoss(test)), c.device.Measure)
		if len(result.FrameLoss) != len(c.losses) || len(trials) != len(c.losses) || result.Reason != c.reason {
			t.Errorf("%+v: got %+v", c.device, result)
			continue
		}
		for i, row := range result.FrameLoss {
			if math.Abs(row.LossRatio-c.losses[i]) > 1e-9 || row.Percent != float64(100-10*i) || row.Load != 1e6*float64(10-i)/10 {
				t.Errorf("%+v: row %d: got %+v, want %v", c.device, i, row, c.losses[i])
			}
		}
	}
	test.Budget.Trials = 2
	if _, result := finish(t, must(t)(search.NewFrameLoss(test)), device(1e5).Measure); result.Reason != search.BudgetExhausted || len(result.FrameLoss) != 2 {
		t.Errorf("got %+v", result)
	}
}

func TestPercentOfFrameLossHasNoMoreDecimalPlacesThanTheStep(t *testing.T) {
	for _, c := range []struct {
		step   float64
		places int // of a percentage
	}{{0.01, 0}, {0.07, 0}, {0.033, 1}, {0.001, 1}} {
		_, result := finish(t, must(t)(search.NewFrameLoss(search.FrameLoss{Max: 1e6, Step: c.step, Duration: 1})), device(1000).Measure)
		for _, row := range result.FrameLoss {
			text := strconv.FormatFloat(row.Percent, 'f', -1, 64)
			if _, fraction, _ := strings.Cut(text, "."); len(fraction) > c.places {
				t.Errorf("step %v: %s %%", c.step, text)
			}
		}
	}
}

func TestLatencyNamesItsTrials(t *testing.T) {
	test := search.Latency{Throughput: 1e6, Percent: []float64{100, 50}, Duration: 120, Repeats: 3}
	test.Retries = 1
	_, result := finish(t, must(t)(search.NewLatency(test)), func(number int, input search.Input) search.Trial {
		trial := device(1e6).Measure(number, input)
		trial.Valid = number != 2
		return trial
	})
	full, half := result.Latency[0], result.Latency[1]
	if !slices.Equal(full.Trials, []int{1, 3, 4}) || full.Load != 1e6 || result.Reason != search.Found {
		t.Errorf("got %+v", result)
	}
	if !slices.Equal(half.Trials, []int{5, 6, 7}) || half.Load != 0.5e6 {
		t.Errorf("got %+v", result)
	}
	test.Budget.Time = 500
	_, result = finish(t, must(t)(search.NewLatency(test)), dut.Device{Capacity: 1e6, Generator: 9e5}.Measure)
	full, half = result.Latency[0], result.Latency[1]
	if full.Reason != search.GeneratorLimited || !near(full.LossRatio, 0.1, 1e-9) || half.Reason != search.BudgetExhausted || len(half.Trials) != 1 {
		t.Errorf("got %+v", result)
	}
}

// The device forwards 10,000 pps and buffers 500 packets: a burst at 40,000 pps that leaves no gap is 500 / (1 - 1/4) = 666 packets long.
func TestBurstsAreAsLongAsTheBuffer(t *testing.T) {
	policer := dut.Device{Capacity: 10_000, Buffer: 500}
	test := search.BackToBack{Max: 40_000, Throughput: 10_000, Longest: 2, Resolution: 1, Repeats: 50}
	trials, result := finish(t, must(t)(search.NewBackToBack(test)), policer.Measure)
	got := result.BackToBack
	if got.Reason != search.Found || !near(got.Mean, 666, 0.005) || got.Deviation != 0 || got.Least != got.Greatest || len(got.Bursts) != 50 {
		t.Errorf("got %+v", got)
	}
	if !near(got.BufferTime, 666./40_000, 0.005) || !near(got.CorrectedBufferTime, 12.5e-3, 0.005) {
		t.Errorf("buffer times: got %v and %v s", got.BufferTime, got.CorrectedBufferTime)
	}
	if len(trials) > 18+2*49 || trials[0].Packets != 80_000 || trials[0].Duration != 2 {
		t.Errorf("%d trials, the first is %+v", len(trials), trials[0].Input)
	}
	for _, trial := range trials {
		if trial.Packets < 1 || trial.Packets > 80_000 {
			t.Errorf("a burst of %d packets", trial.Packets)
		}
	}
}

func TestReasonsOfBackToBack(t *testing.T) {
	for _, c := range []struct {
		device     dut.Device
		throughput float64
		reason     search.Reason
		mean       float64
	}{
		{device(40_000), 40_000, search.MaxLoadPasses, 0},
		{dut.Device{Capacity: 10_000, Buffer: 1e6}, 10_000, search.MaxLoadPasses, 80_000},
		{device(10), 10, search.MinLoadFails, 0},
		{dut.Device{Capacity: 10_000, Buffer: 500, Generator: 20_000}, 10_000, search.GeneratorLimited, 1},
	} {
		test := search.BackToBack{Max: 40_000, Throughput: c.throughput, Longest: 2, Resolution: 1, Repeats: 3}
		_, result := finish(t, must(t)(search.NewBackToBack(test)), c.device.Measure)
		if got := result.BackToBack; got.Reason != c.reason || got.Mean > c.mean {
			t.Errorf("%+v: got %+v", c.device, got)
		}
	}
}

func TestRepeatsFollowABufferThatVaries(t *testing.T) {
	test := search.BackToBack{Max: 40_000, Throughput: 10_000, Longest: 2, Resolution: 10, Repeats: 9}
	test.Budget.Trials = 500
	method := must(t)(search.NewBackToBack(test))
	var now int
	buffers := []int64{500, 3000, 10, 0, 800, 800, 20_000, 60_000, 1}
	trials, result := finish(t, method, func(number int, input search.Input) search.Trial {
		return dut.Device{Capacity: 10_000, Buffer: buffers[now/40%len(buffers)]}.Measure(number, input)
	})
	if result.Reason != search.Found || len(trials) == 0 {
		t.Fatalf("got %+v", result.BackToBack)
	}
	for now = 0; now < 40*len(buffers); now += 40 { // each change is followed within the next repeats
		buffer := buffers[now/40]
		_, result := finish(t, method, func(number int, input search.Input) search.Trial {
			if number <= 14 {
				return dut.Device{Capacity: 10_000, Buffer: 500}.Measure(number, input)
			}
			return dut.Device{Capacity: 10_000, Buffer: buffer}.Measure(number, input)
		})
		want, got := float64(buffer)*4/3, float64(result.BackToBack.Bursts[8])
		if math.Abs(got-want) > 14 {
			t.Errorf("buffer %d: got %v, want %v, of %v", buffer, got, want, result.BackToBack.Bursts)
		}
	}
	test.Budget.Trials = 20
	if _, result := finish(t, must(t)(search.NewBackToBack(test)), device(10_000).Measure); result.Reason != search.BudgetExhausted {
		t.Errorf("got %+v", result.BackToBack)
	}
}

func TestALongTrialConfirmsTheLowerBound(t *testing.T) {
	for _, c := range []struct {
		last   dut.Device
		reason search.Reason
	}{
		{device(1e6), search.Found},
		{device(0.9e6), search.ConfirmFailed},
		{dut.Device{Capacity: 1e6, Generator: 0.9e6}, search.GeneratorLimited},
	} {
		for _, method := range []func(search.Throughput) (search.Method, error){search.NewMLRsearch, search.NewBisection} {
			between := ndr()
			between.Confirm = &search.Confirm{Duration: 600}
			trials, result := finish(t, must(t)(method(between)), func(number int, input search.Input) search.Trial {
				if input.Duration == 600 {
					return c.last.Measure(number, input)
				}
				return device(1e6).Measure(number, input)
			})
			got, last := result.Goals[0], trials[len(trials)-1]
			confirmed := c.reason == search.Found
			if got.Reason != c.reason || got.Regular != confirmed || got.Confirmed != confirmed || last.Load != got.Lower || last.Duration != 600 {
				t.Errorf("%+v: got %+v after %+v", c.last, got, last)
			}
		}
	}
}

func TestWhatIsNotConfirmedIsIrregular(t *testing.T) {
	between := ndr()
	between.Confirm, between.Budget.Time = &search.Confirm{Duration: 600}, 300
	_, result := finish(t, must(t)(search.NewMLRsearch(between)), device(1e6).Measure)
	if got := result.Goals[0]; got.Reason != search.BudgetExhausted || got.Regular || !near(got.Lower, 999392, 1e-6) {
		t.Errorf("got %+v", got)
	}
	between = ndr()
	between.Confirm = &search.Confirm{Duration: 600}
	trials, result := finish(t, must(t)(search.NewMLRsearch(between)), device(10).Measure)
	if len(trials) != 2 || result.Reason != search.MinLoadFails {
		t.Errorf("without a lower bound: got %+v after %d trials", result, len(trials))
	}
}
