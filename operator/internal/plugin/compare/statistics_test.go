// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs/samples"
)

// correlated are values with a mean of 1000 and a deviation of 10, each of which depends on the one before by a coefficient (AR(1)).
func correlated(random *rand.Rand, n int, coefficient float64) []float64 {
	values, x := make([]float64, n), random.NormFloat64()
	for i := range values {
		values[i] = 1000 + 10*x
		x = coefficient*x + math.Sqrt(1-coefficient*coefficient)*random.NormFloat64()
	}
	return values
}

// The effective sample size of AR(1) is n (1-c) / (1+c) (Wilks, Statistical Methods in the Atmospheric Sciences).
func TestTheEffectiveSampleSizeIsThatOfIndependentValues(t *testing.T) {
	t.Parallel()
	const n = 20_000
	random := rand.New(rand.NewPCG(1, 2))
	for _, coefficient := range []float64{0, 0.3, 0.6, 0.8} {
		s := sampleOf(correlated(random, n, coefficient))
		if want := n * (1 - coefficient) / (1 + coefficient); s.Effective < 0.8*want || s.Effective > 1.2*want || math.Abs(s.Average-1000) > 2 || math.Abs(s.Deviation-10) > 0.5 {
			t.Errorf("%g: %+v, want about %g effective values", coefficient, s, want)
		}
	}
	// Values that alternate say more of their mean than independent ones; they are not counted as more.
	if s := sampleOf(correlated(random, n, -0.6)); s.Effective != n {
		t.Errorf("%+v", s)
	}
	if s := sampleOf([]float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}); s.Effective != 7 || s.Deviation != 0 || s.Average != 0.1 {
		t.Errorf("%+v", s)
	}
}

// Runs that differ by chance are seldom said to differ, though their samples are correlated. A test that takes each sample for independent says so of four in
// ten.
func TestRunsOfTheSameAreSeldomSaidToDiffer(t *testing.T) {
	t.Parallel()
	const pairs, n, coefficient = 1000, 120, 0.7
	random := rand.New(rand.NewPCG(3, 4))
	differ, covered := 0, 0
	for range pairs {
		s := statisticsOf(correlated(random, n, coefficient), correlated(random, n, coefficient))
		if s.P < level {
			differ++
		}
		if s.Low <= 0 && s.High >= 0 {
			covered++
		}
	}
	t.Logf("of %d pairs %d differ", pairs, differ)
	if differ > pairs/10 || differ+covered != pairs {
		t.Errorf("of %d pairs %d differ, and the intervals of %d have 0; 5 %% is what is stated", pairs, differ, covered)
	}
}

func TestRunsThatDifferAreFound(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	first, second := correlated(random, 60, 0.3), correlated(random, 60, 0.3)
	for i := range second {
		second[i] += 20
	}
	if s := statisticsOf(first, second); s.P > 0.001 || s.Low < 10 || s.High > 30 {
		t.Errorf("%+v", s)
	}
	// Welch, 1947, as in many textbooks: two sets of 15 with means 20.8 and 23.0 and variances 7.9 and 3.8.
	s := &statistics{First: sample{15, 15, 20.8, math.Sqrt(7.9)}, Second: sample{15, 15, 23, math.Sqrt(3.8)}}
	s.judge()
	if s.DegreesOfFreedom == nil || math.Abs(*s.DegreesOfFreedom-24.9) > 0.1 || math.Abs(s.P-0.0198) > 0.0005 || math.Abs(s.Low-0.381) > 0.01 || math.Abs(s.High-4.019) > 0.01 {
		t.Errorf("%+v", s)
	}
}

func TestWhatDoesNotVaryDiffersOrNot(t *testing.T) {
	t.Parallel()
	constant := func(value float64) []float64 { return slices.Repeat([]float64{value}, 6) }
	for second, want := range map[float64]float64{5: 1, 5 * (1 + 1e-12): 1, 5.1: 0} {
		if s := statisticsOf(constant(5), constant(second)); s.P != want || s.DegreesOfFreedom != nil || s.Low != s.High {
			t.Errorf("%g: %+v", second, s)
		}
	}
	if s := statisticsOf(constant(5), constant(5)[:4]); s != nil {
		t.Errorf("of 4 intervals: %+v", s)
	}
	if s := statisticsOf([]float64{1, 2, 3, 4, 5, 6}, constant(5)); s != nil && s.P < level {
		t.Errorf("a trend has few independent values: %+v", s)
	}
}

func TestProbabilitiesAreCorrectedForTheirNumber(t *testing.T) {
	t.Parallel()
	all := []*statistics{{P: 0.01}, {P: 0.04}, {P: 0.03}, {P: 0.005}, {P: 0.5}}
	adjust(all)
	for i, want := range []float64{0.04, 0.09, 0.09, 0.025, 0.5} {
		if s := all[i]; math.Abs(s.AdjustedP-want) > 1e-12 || s.Differ != (want < level) {
			t.Errorf("%g: %+v, want %g", s.P, s, want)
		}
	}
}

// sampledRun is a run of 20 s after a warm-up of 2 s, with a sample each second of a stream of a rate that varies a little.
func sampledRun(name string, rate, delay int64) side {
	run := runOf(name, map[string][3]int64{"voice": {20 * rate, 20 * rate, 2 * delay}})
	run.Status.Result.Duration = spatev1.MeasuredTime(20 * time.Second)
	run.Status.Resolved = &spatev1.ResolvedRun{Timing: spatev1.RunTiming{Warmup: "2s"}}
	s, random := samples.New(), rand.New(rand.NewPCG(7, uint64(rate)))
	total, voice := samples.Table{}, samples.Table{}
	sent := int64(0)
	for second := int64(1); second <= 25; second++ {
		if second > 2 && second <= 22 { // in the warm-up nothing is counted, and in the drain nothing is sent
			sent += rate + random.Int64N(11) - 5
		}
		s.Times = append(s.Times, second*int64(time.Second))
		for _, table := range []samples.Table{total, voice} {
			table[samples.Tx], table[samples.Rx] = append(table[samples.Tx], sent), append(table[samples.Rx], sent)
		}
		voice[samples.DelayCount], voice[samples.DelaySum] = append(voice[samples.DelayCount], sent), append(voice[samples.DelaySum], sent*delay+random.Int64N(1000*delay))
	}
	s.Total, s.Streams["voice"] = total, voice
	return side{run: run, samples: s}
}

func TestDifferencesHaveStatisticsOfTheMeasuredPhase(t *testing.T) {
	t.Parallel()
	first, second := sampledRun("imix-1", 1000, 20_000), sampledRun("imix-2", 1100, 20_000)
	if got := first.intervals("streams.voice.txPps"); len(got) != 20 || slices.Min(got) < 995 || slices.Max(got) > 1005 {
		t.Errorf("%v", got)
	}
	d := compare(first.run, second.run)
	d.test(first, second)
	tested := map[string]*statistics{}
	for i := range d.Differences {
		if s := d.Differences[i].statistics; s != nil {
			tested[d.Differences[i].metric] = s
		}
	}
	for metric, differs := range map[string]bool{"txPps": true, "rxPps": true, "streams.voice.txPps": true, "streams.voice.rxPps": true, "streams.voice.latency.mean": false} {
		if s := tested[metric]; s == nil || s.Differ != differs || s.First.Intervals < 19 {
			t.Errorf("%s: %+v", metric, s)
		}
	}
	for _, metric := range []string{"tx", "lost", "latency.mean", "latency.p99", "streams.voice.latency.p99", "duration"} {
		if tested[metric] != nil {
			t.Errorf("%s is tested: %+v", metric, tested[metric])
		}
	}
	if rate := tested["txPps"]; rate != nil && (rate.Low < 95 || rate.High > 105) {
		t.Errorf("the change of the rate: %+v", rate)
	}
	var table, wide bytes.Buffer
	if err := d.write(&table, false); err != nil {
		t.Fatal(err)
	}
	if err := d.write(&wide, true); err != nil {
		t.Fatal(err)
	}
	lines := func(text string) (all []string) {
		for line := range strings.Lines(text) {
			all = append(all, strings.Join(strings.Fields(line), " "))
		}
		return all
	}
	for _, want := range []string{"METRIC FIRST SECOND CHANGE RELATIVE P DIFFER", "streams.voice.txPps 1000 1100 +100 +10.00% <0.0001 yes", "streams.voice.tx 20000 22000 +2000 +10.00% - -"} {
		if !slices.Contains(lines(table.String()), want) {
			t.Errorf("no line %q in\n%s", want, table.String())
		}
	}
	if !strings.Contains(table.String(), "DIFFER: at the level of 0.05, corrected for ") || !strings.Contains(wide.String(), "  20, 20 ") || !strings.Contains(wide.String(), "INTERVAL OF THE CHANGE") {
		t.Errorf("%s\n%s", table.String(), wide.String())
	}
	text, err := json.Marshal(d)
	if err != nil || !strings.Contains(string(text), `"statistics":{"first":{"intervals":20,"effective":`) || !strings.Contains(string(text), `"test":"Welch`) {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestWhyNothingIsTestedIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(first, second *side)
		want   string
	}{
		"no samples":  {func(_, second *side) { second.samples, second.noSamples = nil, "run imix-2 has no samples" }, "run imix-2 has no samples"},
		"stages":      {func(first, _ *side) { first.run.Status.Stages = []spatev1.StageStatus{{Name: "ramp"}} }, "run imix-1 has stages, from one of which to the next its load changes"},
		"a short run": {func(first, _ *side) { first.run.Status.Result.Duration = spatev1.MeasuredTime(4 * time.Second) }, "each run must have 6 samples, one a second, in its measured phase"},
	} {
		first, second := sampledRun("imix-1", 1000, 20_000), sampledRun("imix-2", 1100, 20_000)
		c.change(&first, &second)
		d := compare(first.run, second.run)
		d.test(first, second)
		var table bytes.Buffer
		if err := d.write(&table, false); err != nil || d.Test != "" || d.NotTested != c.want || !strings.Contains(table.String(), "\nWhether differences are more than chance is not known: "+c.want+".\n") || strings.Contains(table.String(), "DIFFER") {
			t.Errorf("%s: %v, %q, %q\n%s", name, err, d.Test, d.NotTested, table.String())
		}
	}
}
