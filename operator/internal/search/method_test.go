// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/dut"
	"spate.dev/operator/internal/search/mlr"
)

// ndr is a search of RFC 2544's goal that no unit test changes.
func ndr() search.Throughput {
	return search.Throughput{Min: 9001, Max: 14.88e6, Goals: []search.Goal{mlr.RFC2544("ndr")}}
}

// must returns a method that is not refused.
func must(t testing.TB) func(method search.Method, err error) search.Method {
	return func(method search.Method, err error) search.Method {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return method
	}
}

func device(capacity float64) dut.Device { return dut.Device{Capacity: capacity} }

// near reports whether a load is within a share of what is wanted.
func near(got, want, share float64) bool { return math.Abs(got-want) <= share*want }

func TestLossRatioCountsAllThatIsUnusual(t *testing.T) {
	for _, c := range []struct {
		trial        search.Trial
		loss, device float64
	}{
		{search.Trial{Intended: 100, Sent: 100}, 0, 0},
		{search.Trial{Intended: 100, Sent: 100, Lost: 10}, 0.1, 0.1},
		{search.Trial{Intended: 100, Sent: 100, Lost: -10}, 0.1, 0.1},
		{search.Trial{Intended: 100, Sent: 80}, 0.2, 0},
		{search.Trial{Intended: 100, Sent: 80, Lost: 8}, 0.28, 0.1},
		{search.Trial{Intended: 80, Sent: 100}, 0.2, 0},
		{search.Trial{Sent: 100, Lost: 50}, 0.5, 0.5},
		{search.Trial{Intended: 100}, 1, 0},
		{search.Trial{}, 0, 0},
		{search.Trial{Intended: 10, Sent: 10, Lost: math.MinInt64}, 1, 1},
	} {
		if loss, device := c.trial.LossRatio(), c.trial.DeviceLossRatio(); loss != c.loss || device != c.device {
			t.Errorf("%+v: got %v and %v, want %v and %v", c.trial, loss, device, c.loss, c.device)
		}
	}
	if got := (search.Trial{Sent: 10, Lost: 3}).Received(); got != 7 {
		t.Errorf("received %d", got)
	}
}

func TestReasonsOfMLRsearch(t *testing.T) {
	for _, c := range []struct {
		device       dut.Device
		reason       search.Reason
		lower, upper float64
	}{
		{device(1e6), search.Found, 999392, 1004412},
		{device(1e8), search.MaxLoadPasses, 14.88e6, 0},
		{device(5000), search.MinLoadFails, 0, 9001},
		{dut.Device{Capacity: 1e8, Generator: 2.5e6}, search.GeneratorLimited, 2487533, 2500028},
		{dut.Device{Capacity: 1e8, Generator: 5000}, search.GeneratorLimited, 0, 9001},
		{dut.Device{Capacity: 1e6, Generator: 2.5e6}, search.Found, 999392, 1004412},
	} {
		trials, result := finish(t, must(t)(search.NewMLRsearch(ndr())), c.device.Measure)
		got := result.Goals[0]
		if got.Reason != c.reason || result.Reason != c.reason || got.Regular != (c.reason == search.Found) ||
			math.Floor(got.Lower) != c.lower || math.Floor(got.Upper) != c.upper || result.Trials != len(trials) {
			t.Errorf("%+v: got %+v", c.device, result)
		}
	}
}

func TestALowerBoundThatFailsLaterIsUnstable(t *testing.T) {
	between := ndr()
	strict := search.Goal{Name: "strict", Width: 0.005, InitialTrialDuration: 1, FinalTrialDuration: 1, DurationSum: 1, Expansion: 2}
	often := strict
	often.Name, often.ExceedRatio, often.DurationSum, often.PrecedingTargets = "often", 0.5, 21, 2
	between.Goals = []search.Goal{strict, often} // the second one repeats trials at bounds of the first one
	all := map[search.Reason]int{}
	for every := 2; every < 40; every++ {
		for _, loses := range []int64{1, 1e6} {
			noisy := dut.Device{Capacity: 1e6, Every: every, Loses: loses}
			_, result := finish(t, must(t)(search.NewMLRsearch(between)), noisy.Measure)
			for _, goal := range result.Goals {
				all[goal.Reason]++
				if !goal.Regular || goal.Lower >= 1e6+1 || (goal.Upper-goal.Lower)/goal.Upper > 0.005 {
					t.Errorf("%+v: got %+v", noisy, goal)
				}
			}
		}
	}
	if all[search.Unstable] == 0 || all[search.Found] == 0 {
		t.Errorf("got %v", all)
	}
}

func TestRequirementsMakeHighLoss(t *testing.T) {
	between := ndr()
	between.Goals = append(between.Goals, mlr.RFC2544("voice"))
	_, result := finish(t, must(t)(search.NewMLRsearch(between)), func(number int, input search.Input) search.Trial {
		trial := device(1e6).Measure(number, input)
		if input.Load > 0.3e6 {
			trial.HighLoss = []string{"voice"}
		}
		return trial
	})
	plain, voice := result.Goals[0], result.Goals[1]
	if plain.Reason != search.Found || !near(plain.Lower, 1e6, 0.005) || voice.Reason != search.Found || !near(voice.Lower, 0.3e6, 0.005) {
		t.Errorf("got %+v", result.Goals)
	}
}

func TestTheBudgetEndsASearchWithItsBounds(t *testing.T) {
	whole, _ := finish(t, must(t)(search.NewMLRsearch(ndr())), device(1e6).Measure)
	for limit := range len(whole) + 1 {
		between := ndr()
		between.Budget.Trials = limit
		if limit == 0 {
			between.Budget = search.Budget{Time: 61, Overhead: 1} // before the second trial of 60 s
			limit = 5
		}
		trials, result := finish(t, must(t)(search.NewMLRsearch(between)), device(1e6).Measure)
		got := result.Goals[0]
		want := search.BudgetExhausted
		if limit == len(whole) {
			want = search.Found
		}
		if len(trials) != limit || got.Reason != want || got.Regular != (want == search.Found) || result.Trials != limit {
			t.Errorf("%d trials: got %d trials, %+v", limit, len(trials), got)
		}
		if !slices.EqualFunc(trials, whole[:limit], func(a, b search.Trial) bool { return a.Input == b.Input }) {
			t.Errorf("%d trials: other trials than without a budget", limit)
		}
	}
	between := ndr()
	between.Budget.Trials = 6
	_, result := finish(t, must(t)(search.NewMLRsearch(between)), device(1e6).Measure)
	if got := result.Goals[0]; !near(got.Upper, 1004412, 1e-6) || got.Lower != 0 {
		t.Errorf("the bounds so far: %+v", got)
	}
}

func TestTimeThatWasRecordedCounts(t *testing.T) {
	between := ndr()
	between.Budget.Time = 100
	trials, result := finish(t, must(t)(search.NewMLRsearch(between)), func(number int, input search.Input) search.Trial {
		trial := device(1e6).Measure(number, input)
		trial.Elapsed = 49.5
		return trial
	})
	if len(trials) != 3 || result.Time != 148.5 || result.Reason != search.BudgetExhausted {
		t.Errorf("got %d trials, %+v", len(trials), result)
	}
}

func TestInvalidTrialsAreRepeated(t *testing.T) {
	between := ndr()
	between.Retries = 2
	method := must(t)(search.NewMLRsearch(between))
	whole, want := finish(t, method, device(1e6).Measure)
	measured := 0
	trials, got := finish(t, method, func(number int, input search.Input) search.Trial {
		if number%3 != 0 { // the first two of three, with counters that mean nothing
			return search.Trial{Number: number, Input: input, Sent: 1, Lost: 1}
		}
		measured++
		return device(1e6).Measure(number, input)
	})
	if measured != len(whole) || len(trials) != 3*len(whole) || !slices.Equal(got.Goals, want.Goals) {
		t.Errorf("got %d of %d trials valid, %+v", measured, len(trials), got)
	}
	trials[2].Valid = false
	if _, _, err := method.Next(trials[:3]); !errors.Is(err, search.ErrTrialsInvalid) || !strings.Contains(err.Error(), "trial 3 and 2 before it are invalid; remove") {
		t.Errorf("got %v", err)
	}
}

func TestRecordsThatTheSearchDidNotChooseAreRefused(t *testing.T) {
	between := ndr()
	method := must(t)(search.NewMLRsearch(between))
	whole, _ := finish(t, method, device(1e6).Measure)
	for want, change := range map[string]func(trials []search.Trial) []search.Trial{
		"trial 3: it is 1.01":                   func(all []search.Trial) []search.Trial { all[2].Load *= 0.999; return all },
		"trial 4: it is":                        func(all []search.Trial) []search.Trial { all[3].Duration += 1e-6; return all },
		"trial 1: it is":                        func(all []search.Trial) []search.Trial { all[0].Packets = 5; return all },
		"trial 2: its number is 3":              func(all []search.Trial) []search.Trial { return slices.Delete(all, 1, 2) },
		"trial 2: it has a count below 0":       func(all []search.Trial) []search.Trial { all[1].Sent = -1; return all },
		"trial 8: the search ends before it; a": func(all []search.Trial) []search.Trial { return append(all, device(1).Measure(8, all[6].Input)) },
	} {
		want = "RecordsContradict: " + want
		if _, _, err := method.Next(change(slices.Clone(whole))); !errors.Is(err, search.ErrRecordsContradict) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	between.Budget.Trials = 3
	if _, _, err := must(t)(search.NewMLRsearch(between)).Next(whole); err == nil || !strings.Contains(err.Error(), "trial 4: the budget ends before it") {
		t.Errorf("got %v", err)
	}
	for i := range whole { // as rationals and nanoseconds
		whole[i].Load, whole[i].Duration = whole[i].Load*(1+5e-10), math.Round(whole[i].Duration*1e9)/1e9
	}
	if _, done, err := method.Next(whole); err != nil || done == nil {
		t.Errorf("rounded records: got %v %v", done, err)
	}
}

func TestTheWarmUpDoesNotCount(t *testing.T) {
	between := ndr()
	cold, want := finish(t, must(t)(search.NewMLRsearch(between)), device(1e6).Measure)
	between.Warmup = 5
	trials, got := finish(t, must(t)(search.NewMLRsearch(between)), func(number int, input search.Input) search.Trial {
		if number == 1 {
			return device(10).Measure(number, input)
		}
		return device(1e6).Measure(number, input)
	})
	if len(trials) != len(cold)+1 || (trials[0].Input != search.Input{Load: 14.88e6, Duration: 5}) || !slices.Equal(got.Goals, want.Goals) {
		t.Errorf("got %+v, %+v", trials[0], got)
	}
}

func TestValuesThatAreRefusedNameTheirField(t *testing.T) {
	with := func(change func(between *search.Throughput)) error {
		between := ndr()
		change(&between)
		_, err := search.NewMLRsearch(between)
		return err
	}
	frameLoss := search.FrameLoss{Max: 1000, Step: 0.1, Duration: 60}
	latency := search.Latency{Throughput: 1000, Percent: []float64{100}, Duration: 120, Repeats: 20}
	burst := search.BackToBack{Max: 1000, Throughput: 500, Longest: 2, Resolution: 1, Repeats: 50}
	for want, err := range map[string]error{
		"budget.time: 59 s is less than one final trial takes; give 60 s": with(func(b *search.Throughput) { b.Budget.Time = 59 }),
		"budget.time: 60 s is less than one final trial takes; give 69 s": with(func(b *search.Throughput) { b.Budget = search.Budget{Time: 60, Overhead: 9} }),
		"budget.trials: -1":   with(func(b *search.Throughput) { b.Budget.Trials = -1 }),
		"budget.overhead: -1": with(func(b *search.Throughput) { b.Budget.Overhead = -1 }),
		"trial.retries: -1":   with(func(b *search.Throughput) { b.Retries = -1 }),
		"trial.warmupTrial":   with(func(b *search.Throughput) { b.Warmup = -1 }),
		"confirm.duration":    with(func(b *search.Throughput) { b.Confirm = &search.Confirm{} }),
		"confirm.lossRatio":   with(func(b *search.Throughput) { b.Confirm = &search.Confirm{Duration: 1, LossRatio: 1} }),
		"goals[ndr].width":    with(func(b *search.Throughput) { b.Goals[0].Width = 0 }),
		"goals[ndr].exceedRatio: Bisection takes exceedRatio 0": refusal(search.NewBisection, ndr(), func(b *search.Throughput) { b.Goals[0].ExceedRatio = 0.2 }),
		"load.max: 1e+30 per second is too far above":           refusal(search.NewBisection, ndr(), func(b *search.Throughput) { b.Max = 1e30 }),
		"frameLoss.step: 0.2 is no step of RFC 2544":            refusal(search.NewFrameLoss, frameLoss, func(f *search.FrameLoss) { f.Step = 0.2 }),
		"frameLoss.duration: 0 s":                               refusal(search.NewFrameLoss, frameLoss, func(f *search.FrameLoss) { f.Duration = 0 }),
		"load.max: NaN":                                         refusal(search.NewFrameLoss, frameLoss, func(f *search.FrameLoss) { f.Max = math.NaN() }),
		"latency.of: the goal has no throughput":                refusal(search.NewLatency, latency, func(l *search.Latency) { l.Throughput = 0 }),
		"latency.atPercent: there is none":                      refusal(search.NewLatency, latency, func(l *search.Latency) { l.Percent = nil }),
		"latency.atPercent[1]: 101 is out of range":             refusal(search.NewLatency, latency, func(l *search.Latency) { l.Percent = []float64{100, 101} }),
		"latency.duration":                                      refusal(search.NewLatency, latency, func(l *search.Latency) { l.Duration = 0 }),
		"latency.repeats: 0":                                    refusal(search.NewLatency, latency, func(l *search.Latency) { l.Repeats = 0 }),
		"throughput: 0 per second is no throughput":             refusal(search.NewBackToBack, burst, func(b *search.BackToBack) { b.Throughput = 0 }),
		"backToBack.longest: 0 s is no duration":                refusal(search.NewBackToBack, burst, func(b *search.BackToBack) { b.Longest = 0 }),
		"backToBack.longest: 2 s at 1000 per second is 0 times": refusal(search.NewBackToBack, burst, func(b *search.BackToBack) { b.Resolution = 2001 }),
		"backToBack.resolution: 0":                              refusal(search.NewBackToBack, burst, func(b *search.BackToBack) { b.Resolution = 0 }),
		"backToBack.repeats: 0":                                 refusal(search.NewBackToBack, burst, func(b *search.BackToBack) { b.Repeats = 0 }),
		"budget.time: 1 s is less than one final trial takes":   refusal(search.NewBackToBack, burst, func(b *search.BackToBack) { b.Budget.Time = 1 }),
	} {
		var field *search.FieldError
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &field) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// refusal of parameters of which one is changed.
func refusal[P any](method func(P) (search.Method, error), parameters P, change func(*P)) error {
	change(&parameters)
	_, err := method(parameters)
	return err
}
