// SPDX-License-Identifier: Apache-2.0

package compare

// This file answers: is the difference of a metric between two runs more than what it varies within them?

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/aclements/go-moremath/stats"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/measured"
)

const (
	// testName is the test of differences.
	testName = "Welch's t-test, two-sided, of the runs' samples, by their effective sample sizes"
	// level of significance.
	level = 0.05
	// fewest is the number of intervals below which a run says too little about its own variation.
	fewest = 5
	// fewestEffective bounds the effective sample size: of fewer there is no variance.
	fewestEffective = 1.5
	// rounding is a relative difference that is none.
	rounding = 1e-9
)

// statistics of a difference.
type statistics struct {
	First  sample `json:"first"`
	Second sample `json:"second"`
	// DegreesOfFreedom are those of Welch and Satterthwaite; absent where neither run varies.
	DegreesOfFreedom *float64 `json:"degreesOfFreedom,omitempty"`
	// P is the probability of means that differ as much or more, if both runs had the same.
	P float64 `json:"p"`
	// AdjustedP is P corrected for the number of metrics (Holm, 1979).
	AdjustedP float64 `json:"adjustedP"`
	// Differ: AdjustedP is below the level.
	Differ bool `json:"differ"`
	// Low and High bound the change of the mean with a confidence of 95 %.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// sample is what the intervals of a run say about a metric. It is a stats.TTestSample.
type sample struct {
	Intervals int `json:"intervals"`
	// Effective is the number of independent intervals that would say as much about the mean.
	Effective float64 `json:"effective"`
	Average   float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
}

func (s sample) Weight() float64   { return s.Effective }
func (s sample) Mean() float64     { return s.Average }
func (s sample) Variance() float64 { return s.Deviation * s.Deviation }

// sampleOf describes values that follow each other in time.
func sampleOf(values []float64) sample {
	n := float64(len(values))
	s := sample{Intervals: len(values), Average: stats.Mean(values)}
	if slices.Min(values) == slices.Max(values) { // rounding of the mean is no variance
		s.Average, s.Effective = values[0], n
		return s
	}
	s.Effective = n / correlationTime(values, s.Average)
	squares := 0.0
	for _, value := range values {
		squares += (value - s.Average) * (value - s.Average)
	}
	if s.Effective > 1 { // without bias, as n-1 is for independent values
		s.Deviation = math.Sqrt(squares / (n * (1 - 1/s.Effective)))
	}
	return s
}

// correlationTime is the integrated autocorrelation time: of how many values that follow each other one is independent. It is estimated by the initial positive
// sequence: sums of two successive autocorrelations are added while they are positive (Geyer, Practical Markov Chain Monte Carlo, 1992, section 3.3). Values that
// alternate count as independent.
func correlationTime(values []float64, mean float64) float64 {
	covariance := func(lag int) (sum float64) {
		for i := range len(values) - lag {
			sum += (values[i] - mean) * (values[i+lag] - mean)
		}
		return sum
	}
	variance, length := covariance(0), -1.0
	for lag := 0; lag+1 < len(values); lag += 2 {
		pair := covariance(lag) + covariance(lag+1)
		if pair <= 0 {
			break
		}
		length += 2 * pair / variance
	}
	return max(length, 1)
}

// statisticsOf tests the values of two runs; nil if there are too few.
func statisticsOf(first, second []float64) *statistics {
	if len(first) < fewest || len(second) < fewest {
		return nil
	}
	s := &statistics{First: sampleOf(first), Second: sampleOf(second)}
	if min(s.First.Effective, s.Second.Effective) < fewestEffective {
		return nil
	}
	s.judge()
	return s
}

// judge tests whether the samples have the same mean.
func (s *statistics) judge() {
	change := s.Second.Average - s.First.Average
	s.Low, s.High = change, change
	if math.Abs(change) <= rounding*max(math.Abs(s.First.Average), math.Abs(s.Second.Average)) {
		s.P = 1
		return
	}
	test, err := stats.TwoSampleWelchTTest(s.Second, s.First, stats.LocationDiffers)
	if err != nil { // neither varies: any change is more than that
		return
	}
	s.P, s.DegreesOfFreedom = max(test.P, 0), &test.DoF
	half := -stats.InvCDF(stats.TDist{V: test.DoF})(level/2) * math.Sqrt(s.First.Variance()/s.First.Weight()+s.Second.Variance()/s.Second.Weight())
	s.Low, s.High = change-half, change+half
}

// test adds statistics to the differences of metrics that both runs have sampled.
func (d *document) test(first, second side) {
	for _, s := range []side{first, second} {
		switch {
		case s.samples == nil:
			d.NotTested = s.noSamples
			return
		case len(s.run.Status.Stages) > 0:
			d.NotTested = fmt.Sprintf("run %s has stages, from one of which to the next its load changes", s.run.Name)
			return
		}
	}
	var all []*statistics
	for i := range d.Differences {
		diff := &d.Differences[i]
		if diff.isZero() {
			continue
		}
		if diff.statistics = statisticsOf(first.intervals(diff.metric), second.intervals(diff.metric)); diff.statistics != nil {
			all = append(all, diff.statistics)
		}
	}
	if len(all) == 0 {
		d.NotTested = fmt.Sprintf("each run must have %d samples, one a second, in its measured phase", fewest+1)
		return
	}
	d.Test = testName
	adjust(all)
}

// tested is the number of differences with statistics.
func (d *document) tested() (n int) {
	for i := range d.Differences {
		if d.Differences[i].statistics != nil {
			n++
		}
	}
	return n
}

// adjust corrects probabilities for their number by Holm's method, which holds for metrics that depend on each other, too.
func adjust(all []*statistics) {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b *statistics) int { return cmp.Compare(a.P, b.P) })
	greatest := 0.0
	for i, s := range sorted {
		greatest = max(greatest, min(float64(len(sorted)-i)*s.P, 1))
		s.AdjustedP, s.Differ = greatest, greatest < level
	}
}

// testHeadings are those of the cells of statistics.
func testHeadings(wide bool) []string {
	headings := []string{"P", "DIFFER"}
	if wide {
		headings = append(headings, "SAMPLES", "EFFECTIVE", "INTERVAL OF THE CHANGE")
	}
	return headings
}

// cells are those of a row; dashes for a metric that is not tested.
func (s *statistics) cells(u measured.Unit, wide bool) []string {
	if s == nil {
		return slices.Repeat([]string{"-"}, len(testHeadings(wide)))
	}
	cells := []string{strconv.FormatFloat(s.P, 'f', 4, 64), "no"}
	if s.P < 0.0001 {
		cells[0] = "<0.0001"
	}
	if s.Differ {
		cells[1] = "yes"
	}
	if wide {
		number := func(value float64) string { return strconv.FormatFloat(value, 'f', 1, 64) }
		cells = append(cells, fmt.Sprintf("%d, %d", s.First.Intervals, s.Second.Intervals), number(s.First.Effective)+", "+number(s.Second.Effective), bound(s.Low, u)+" to "+bound(s.High, u))
	}
	return cells
}

// bound writes a bound of a change.
func bound(value float64, u measured.Unit) string {
	text := strconv.FormatFloat(value, 'f', 1, 64)
	if u == measured.Time {
		text = spatev1.MeasuredTime(math.Round(value)).String()
	}
	if value > 0 {
		return "+" + text
	}
	return text
}
