// SPDX-License-Identifier: Apache-2.0

// Package sequence does the tests of a search one after the other: from the recorded trials it computes the next one, or the result. It keeps no
// state.
package sequence

// This file answers: which trial is next, and what have the tests found?

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/mlr"
)

// Loads are the bounds of a search, in the unit of its loads.
type Loads struct{ Min, Max float64 }

// Step is the next trial.
type Step struct {
	Test spatev1.SearchTestName
	search.Input
}

// Next returns the trial after the recorded ones, nil if there is none, and what the tests have found so far. Its errors are those of
// search.Method, and search.FieldError for tests that cannot be done.
func Next(tests *spatev1.SearchTests, loads Loads, records []spatev1.TrialRecord) (*Step, spatev1.SearchResult, error) {
	s := sequence{tests: tests, loads: loads, records: records, result: spatev1.SearchResult{Reason: string(search.Found)}}
	for _, test := range []func() (*Step, error){s.throughput, s.latency, s.frameLoss, s.backToBack, s.recovery, s.reset} {
		if step, err := test(); step != nil || err != nil {
			return step, s.result, err
		}
	}
	if s.used < len(records) {
		return nil, s.result, fmt.Errorf("%w: trial %d: the search ends before it; a new runID starts a new search", search.ErrRecordsContradict, s.used+1)
	}
	return nil, s.result, nil
}

// Check returns what is wrong with tests, before any trial: a search.FieldError for each value.
func Check(tests *spatev1.SearchTests, loads Loads) error {
	s := sequence{tests: tests, loads: loads}
	var errs []error
	for _, method := range []builder{s.throughputMethod, s.latencyMethod(loads.Max), s.frameLossMethod, s.backToBackMethod(loads.Max), s.recoveryMethod(loads.Max), s.resetMethod(loads.Max)} {
		if method != nil {
			_, err := method(s.options())
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// builder makes the method of a test.
type builder func(search.Options) (search.Method, error)

type sequence struct {
	tests   *spatev1.SearchTests
	loads   Loads
	records []spatev1.TrialRecord
	// used is how many records the tests so far have.
	used   int
	spent  time.Duration
	result spatev1.SearchResult
}

// do advances one test: it returns the next trial, or has the result handled by `found`.
func (s *sequence) do(name spatev1.SearchTestName, method builder, found func(*search.Result, []spatev1.TrialRecord)) (*Step, error) {
	options := s.options()
	if s.used > 0 && (options.Budget.Trials <= 0 || options.Budget.Time <= options.Budget.Overhead) {
		s.exhausted()
		return nil, nil
	}
	m, err := method(options)
	if wrong := (*search.FieldError)(nil); s.used > 0 && errors.As(err, &wrong) { // all else was checked before the first trial
		s.exhausted()
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	own := s.own(name)
	trials := trialsOf(own)
	want, done, err := m.Next(trials)
	if err != nil {
		return nil, err
	}
	if want != nil && s.used+len(own) < len(s.records) {
		return nil, fmt.Errorf("%w: trial %d is of test %s, and %s has not ended; a new runID starts a new search",
			search.ErrRecordsContradict, s.used+len(own)+1, s.records[s.used+len(own)].Test, name)
	}
	if want != nil {
		done = s.soFar(method, trials)
	}
	if done != nil {
		found(done, own)
		if want == nil && s.result.Reason == string(search.Found) {
			s.result.Reason = string(done.Reason)
		}
	}
	if want != nil {
		return &Step{Test: name, Input: *want}, nil
	}
	s.used += len(own)
	for _, record := range own {
		s.spent += time.Duration(record.Elapsed)
	}
	return nil, nil
}

// exhausted notes that the budget has ended before a test.
func (s *sequence) exhausted() {
	if s.result.Reason == string(search.Found) {
		s.result.Reason = string(search.BudgetExhausted)
	}
}

// soFar is the result if the budget ended now; nil before the first trial.
func (s *sequence) soFar(method builder, trials []search.Trial) *search.Result {
	if len(trials) == 0 {
		return nil
	}
	options := s.options()
	options.Budget.Trials = len(trials)
	m, err := method(options)
	if err != nil {
		return nil
	}
	_, done, _ := m.Next(trials)
	return done
}

// own returns the records of a test, which follow those of the tests before it.
func (s *sequence) own(name spatev1.SearchTestName) []spatev1.TrialRecord {
	rest := s.records[s.used:]
	end := slices.IndexFunc(rest, func(r spatev1.TrialRecord) bool { return r.Test != name })
	if end < 0 {
		end = len(rest)
	}
	return rest[:end]
}

// options of a test: its budget is what those before it have left.
func (s *sequence) options() search.Options {
	options := search.Options{Retries: int(value(s.tests.Trial.Retries, 2))}
	for _, part := range Beside(s.tests) {
		options.Budget.Overhead += seconds(part)
	}
	options.Budget.Trials = int(value(s.tests.Budget.Trials, maxTrials)) - s.used
	options.Budget.Time = seconds(s.tests.Budget.Time) - s.spent.Seconds()
	return options
}

// Beside returns what a trial takes beside its duration. Open connections are opened in a ramp, and held in place of a drain.
func Beside(tests *spatev1.SearchTests) []spatev1.Duration {
	trial := tests.Trial
	if tests.Load.Vary == spatev1.VaryOpenConnections {
		return []spatev1.Duration{trial.Settle, tests.Load.Ramp, trial.Pause}
	}
	return []spatev1.Duration{trial.Settle, trial.RampUp, trial.Drain, trial.Pause}
}

const maxTrials = 500

func trialsOf(records []spatev1.TrialRecord) []search.Trial {
	trials := make([]search.Trial, len(records))
	for i, r := range records {
		load, _ := strconv.ParseFloat(r.Load, 64)
		trials[i] = search.Trial{
			Number: i + 1, Input: search.Input{Load: load, Duration: time.Duration(r.Duration).Seconds(), Packets: r.Packets, Overload: time.Duration(r.Overload).Seconds()},
			Intended: r.Intended, Sent: r.Sent, Lost: r.Sent - r.Received, LastLoss: time.Duration(r.LastLoss).Seconds(), Valid: r.Invalid == "", Elapsed: time.Duration(r.Elapsed).Seconds(),
		}
		if o := r.Outage; o != nil {
			trials[i].SilentAtEnd = r.SilentAtEnd
			trials[i].Outage, trials[i].OutageAt = time.Duration(o.Longest).Seconds(), time.Duration(o.Offset).Seconds()
		}
		for _, requirement := range r.Unmet {
			trials[i].HighLoss = append(trials[i].HighLoss, string(requirement.Goal))
		}
	}
	return trials
}

func (s *sequence) throughput() (*Step, error) {
	if s.tests.Throughput == nil {
		return nil, nil
	}
	return s.do(spatev1.TestThroughput, s.throughputMethod, func(r *search.Result, own []spatev1.TrialRecord) {
		for i, g := range r.Goals {
			s.result.Goals = append(s.result.Goals, spatev1.GoalResult{
				Name: spatev1.EntryName(g.Name), Reason: string(g.Reason), Regular: g.Regular, Lower: Text(g.Lower), Upper: Text(g.Upper),
				Throughput: Text(g.Throughput), Confirmed: g.Confirmed, BoundedBy: boundedBy(&s.tests.Throughput.Goals[i], g, own),
			})
		}
	})
}

func (s *sequence) throughputMethod(options search.Options) (search.Method, error) {
	t := s.tests.Throughput
	if t == nil {
		return nil, nil
	}
	want := search.Throughput{Min: s.loads.Min, Max: s.loads.Max, Warmup: seconds(s.tests.Trial.Warmup), Options: options}
	for _, goal := range t.Goals {
		want.Goals = append(want.Goals, goalOf(goal))
	}
	if c := t.Confirm; c != nil {
		want.Confirm = &search.Confirm{Duration: seconds(c.Duration), LossRatio: share(c.LossRatio)}
	}
	if t.Method == spatev1.MethodBisection {
		return search.NewBisection(want)
	}
	return search.NewMLRsearch(want)
}

// goalOf completes a goal.
func goalOf(g spatev1.SearchGoal) search.Goal {
	name := string(g.Name)
	goal := search.Goal{
		Name: name, LossRatio: share(g.LossRatio), ExceedRatio: share(g.ExceedRatio), FinalTrialDuration: seconds(g.FinalTrialDuration),
		DurationSum: seconds(cmp.Or(g.DurationSum, g.FinalTrialDuration)),
	}
	switch g.Standard {
	case spatev1.GoalRFC2544:
		goal = mlr.RFC2544(name)
	case spatev1.GoalTST009:
		goal = mlr.TST009(name)
	case spatev1.GoalRFC9411:
		goal = mlr.RFC9411(name)
	}
	goal.Width, goal.Expansion = share(cmp.Or(g.Width, "0.5%")), int(value(g.Expansion, 2))
	if goal.InitialTrialDuration = min(1, goal.FinalTrialDuration); g.InitialTrialDuration != "" {
		goal.InitialTrialDuration = seconds(g.InitialTrialDuration)
	}
	preceding := int32(2)
	if goal.InitialTrialDuration == goal.DurationSum {
		preceding = 0
	}
	goal.PrecedingTargets = int(value(g.PrecedingTargets, preceding))
	return goal
}

// found returns the lower bound of a goal, of the first one if it is empty; 0 if there is none.
func (s *sequence) found(goal spatev1.EntryName) float64 {
	for _, g := range s.result.Goals {
		if g.Name == cmp.Or(goal, s.tests.Throughput.Goals[0].Name) {
			lower, _ := strconv.ParseFloat(g.Lower, 64)
			return lower
		}
	}
	return 0
}

func (s *sequence) latency() (*Step, error) {
	t := s.tests.Latency
	if t == nil {
		return nil, nil
	}
	throughput := s.found(t.Of)
	if throughput == 0 { // the goal's result says why
		return nil, nil
	}
	return s.do(spatev1.TestLatency, s.latencyMethod(throughput), func(r *search.Result, own []spatev1.TrialRecord) {
		for _, row := range r.Latency {
			if mean, ok := meanLatency(own, row.Trials); ok {
				mean.Percent, mean.Load = int32(row.Percent), Text(row.Load)
				s.result.Latency = append(s.result.Latency, mean)
			}
		}
	})
}

func (s *sequence) latencyMethod(throughput float64) builder {
	t := s.tests.Latency
	if t == nil {
		return nil
	}
	return func(options search.Options) (search.Method, error) {
		want := search.Latency{Throughput: throughput, Duration: seconds(cmp.Or(t.Duration, "120s")), Repeats: int(value(t.Repeats, 20)), Options: options}
		for _, percent := range t.AtPercent {
			want.Percent = append(want.Percent, float64(percent))
		}
		if len(want.Percent) == 0 {
			want.Percent = []float64{100}
		}
		return search.NewLatency(want)
	}
}

// meanLatency is the mean of what trials measured; false if none measured latency.
func meanLatency(own []spatev1.TrialRecord, numbers []int) (mean spatev1.LatencyResult, ok bool) {
	n := spatev1.MeasuredTime(0)
	for _, number := range numbers {
		l := own[number-1].Latency
		if l == nil {
			continue
		}
		n++
		mean.Mean += l.Mean
		mean.Typical += l.P50
		mean.WorstCase += l.P999
		mean.DelayVariation += l.P999 - l.Min
	}
	if n == 0 {
		return mean, false
	}
	mean.Mean, mean.Typical, mean.WorstCase, mean.DelayVariation = mean.Mean/n, mean.Typical/n, mean.WorstCase/n, mean.DelayVariation/n
	return mean, true
}

func (s *sequence) frameLoss() (*Step, error) {
	if s.tests.FrameLoss == nil {
		return nil, nil
	}
	return s.do(spatev1.TestFrameLoss, s.frameLossMethod, func(r *search.Result, _ []spatev1.TrialRecord) {
		for _, row := range r.FrameLoss {
			s.result.FrameLoss = append(s.result.FrameLoss, spatev1.FrameLossResult{Percent: Text(row.Percent), Load: Text(row.Load), LossRatio: Ratio(row.LossRatio)})
		}
	})
}

func (s *sequence) frameLossMethod(options search.Options) (search.Method, error) {
	t := s.tests.FrameLoss
	if t == nil {
		return nil, nil
	}
	return search.NewFrameLoss(search.FrameLoss{
		Max: s.loads.Max, Step: share(cmp.Or(t.Step, "10%")), Duration: seconds(cmp.Or(t.Duration, "60s")), Options: options,
	})
}

func (s *sequence) backToBack() (*Step, error) {
	if s.tests.BackToBack == nil {
		return nil, nil
	}
	throughput := s.found("")
	if throughput == 0 {
		return nil, nil
	}
	return s.do(spatev1.TestBackToBack, s.backToBackMethod(throughput), func(r *search.Result, _ []spatev1.TrialRecord) {
		b := r.BackToBack
		if b == nil || len(b.Bursts) == 0 {
			return
		}
		s.result.BackToBack = &spatev1.BackToBackResult{
			Frames: Frames(b.Mean), BufferTime: timeOf(b.BufferTime), CorrectedBufferTime: timeOf(b.CorrectedBufferTime),
		}
	})
}

func (s *sequence) backToBackMethod(throughput float64) builder {
	t := s.tests.BackToBack
	if t == nil {
		return nil
	}
	return func(options search.Options) (search.Method, error) {
		return search.NewBackToBack(search.BackToBack{
			Max: s.loads.Max, Throughput: throughput, Longest: seconds(cmp.Or(t.Longest, "2s")), Resolution: value(t.Resolution, 1),
			Repeats: int(value(t.Repeats, 50)), Options: options,
		})
	}
}

func (s *sequence) recovery() (*Step, error) {
	t := s.tests.Recovery
	if t == nil {
		return nil, nil
	}
	throughput := s.found(t.Of)
	if throughput == 0 {
		return nil, nil
	}
	return s.do(spatev1.TestRecovery, s.recoveryMethod(throughput), func(r *search.Result, _ []spatev1.TrialRecord) {
		if found := r.Recovery; found != nil {
			s.result.Recovery = &spatev1.RecoveryResult{Load: Text(found.Load), Mean: timeOf(found.Mean), Greatest: timeOf(found.Greatest)}
		}
	})
}

func (s *sequence) recoveryMethod(throughput float64) builder {
	t := s.tests.Recovery
	if t == nil {
		return nil
	}
	return func(options search.Options) (search.Method, error) {
		return search.NewRecovery(search.Recovery{
			Max: s.loads.Max, Throughput: throughput, Overload: share(spatev1.Percentage(cmp.Or(t.Overload, "110%"))), Duration: seconds(cmp.Or(t.Duration, "60s")),
			After: seconds(cmp.Or(t.After, "60s")), Repeats: int(value(t.Repeats, 1)), Options: options,
		})
	}
}

func (s *sequence) reset() (*Step, error) {
	t := s.tests.Reset
	if t == nil {
		return nil, nil
	}
	throughput := s.found(t.Of)
	if throughput == 0 {
		return nil, nil
	}
	return s.do(spatev1.TestReset, s.resetMethod(throughput), func(r *search.Result, _ []spatev1.TrialRecord) {
		if found := r.Reset; found != nil {
			s.result.Reset = &spatev1.ResetResult{
				Load: Text(found.Load), Mean: timeOf(found.Mean), Greatest: timeOf(found.Greatest), ByLoss: timeOf(found.ByLoss), Reason: string(found.Reason),
			}
		}
	})
}

func (s *sequence) resetMethod(throughput float64) builder {
	t := s.tests.Reset
	if t == nil {
		return nil
	}
	return func(options search.Options) (search.Method, error) {
		return search.NewReset(search.Reset{
			Max: s.loads.Max, Throughput: throughput, Duration: seconds(cmp.Or(t.Duration, "120s")), Repeats: int(value(t.Repeats, 1)), Options: options,
		})
	}
}

// Text writes a load so that it is read back exactly; empty for none.
func Text(load float64) string {
	if load == 0 {
		return ""
	}
	return strconv.FormatFloat(load, 'f', -1, 64)
}

// Ratio writes a ratio with at most nine decimal places.
func Ratio(ratio float64) string {
	const digits = 1e9
	return strconv.FormatFloat(math.Round(ratio*digits)/digits, 'f', -1, 64)
}

// Frames writes a number of frames, as a mean or median, with at most one decimal place.
func Frames(frames float64) string {
	return strconv.FormatFloat(math.Round(frames*10)/10, 'f', -1, 64)
}

// share reads a percentage; the API server admits no other text.
func share(percentage spatev1.Percentage) float64 {
	text := string(percentage)
	if text == "" {
		return 0
	}
	percent, _ := strconv.ParseFloat(text[:len(text)-1], 64)
	return percent / 100
}

func seconds(d spatev1.Duration) float64 {
	value, err := d.Parse()
	if err != nil {
		return 0 // absent
	}
	return value.Seconds()
}

func timeOf(seconds float64) spatev1.MeasuredTime {
	return spatev1.MeasuredTime(math.Round(seconds * float64(time.Second)))
}

// value of an optional field.
func value[T any](given *T, absent T) T {
	if given == nil {
		return absent
	}
	return *given
}
