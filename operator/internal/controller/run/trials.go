// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how are the trials of a search executed? One after the other, in the run that all engines have prepared. What a trial came
// to is written together with what the next one is to do, before that starts: an operator that takes over repeats none.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/plan/quantity"
	"spate.dev/operator/internal/runs/storage"
	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/sequence"
)

const (
	// trialLead is the least time from the choice of a trial to its first packet: all engines allocate it in this time.
	trialLead = 200 * time.Millisecond
	// maxTrialDenominator bounds the fraction that a load becomes: it differs from what the search asked for by less than 1e-12.
	maxTrialDenominator = 1_000_000
)

// beginSearch computes the loads of a search and its first trial.
func (s *scope) beginSearch(ctx context.Context, holds []engineState, facts *storage.Facts) (time.Duration, error) {
	if err := s.loadsOf(facts); err != nil {
		return s.refused(ctx, []error{err})
	}
	s.run.Status.Phase, s.run.Status.PortBaseline = spatev1.RunRunning, s.baseline(holds)
	return s.nextTrial()
}

// loadsOf sets the bounds of the search's loads in the status.
func (s *scope) loadsOf(facts *storage.Facts) error {
	planned, err := quantity.ParseFactor(s.run.Status.Resolved.RateFactor)
	if err != nil {
		return &refusal{spatev1.ReasonPrepareFailed, err.Error()}
	}
	own, unit, flows := facts.Own.Busiest(), spatev1.UnitPackets, (*load.Flows)(nil)
	if facts.Flows.Any() {
		own, unit, flows = facts.Flows.Connections, spatev1.UnitConnections, facts.Flows
		if flows.Transactions != nil {
			own, unit = flows.Transactions, spatev1.UnitTransactions
		}
	}
	if own.Sign() == 0 {
		return &refusal{spatev1.ReasonInvalidSpec, "spec.search: the profile sends nothing whose rate can be changed"}
	}
	if flows != nil && len(facts.Flow) > 0 {
		return &refusal{spatev1.ReasonNotSupported, "spec.search: the profile has streams and applications: search the load of either"}
	}
	if s.opens() {
		return s.openLoads(flows != nil)
	}
	from := s.run.Spec.Search.Load
	least, err := load.FactorOf(spatev1.ScaledRate(from.Min), facts.Own, flows, s.generator)
	if err != nil {
		return &refusal{spatev1.ReasonInvalidSpec, fmt.Sprintf("spec.search.load.min %q: %v", from.Min, err)}
	}
	text := func(factor *big.Rat) string {
		value, _ := new(big.Rat).Mul(factor, own).Float64()
		return sequence.Text(value)
	}
	return s.bounds(unit, text(least), text(planned))
}

// bounds sets the loads of the search, and checks its tests.
func (s *scope) bounds(unit spatev1.LoadUnit, least, most string) error {
	s.run.Status.Search = &spatev1.RunSearchStatus{Unit: unit, MinLoad: least, MaxLoad: most}
	if err := sequence.Check(s.run.Spec.Search, s.loads()); err != nil {
		return &refusal{spatev1.ReasonInvalidSpec, "spec.search: " + strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	return nil
}

func (s *scope) loads() sequence.Loads {
	status := s.run.Status.Search
	least, _ := strconv.ParseFloat(status.MinLoad, 64)
	most, _ := strconv.ParseFloat(status.MaxLoad, 64)
	return sequence.Loads{Min: least, Max: most}
}

// nextTrial chooses the trial after those recorded, or ends the run with what the search found.
func (s *scope) nextTrial() (time.Duration, error) {
	status := s.run.Status.Search
	status.Current = nil
	step, result, err := sequence.Next(s.run.Spec.Search, s.loads(), status.Trials)
	status.Result = result
	switch {
	case errors.Is(err, search.ErrTrialsInvalid):
		s.invalid(spatev1.ReasonTrialsInvalid, fmt.Sprintf("%v; the last: %s", err, status.Trials[len(status.Trials)-1].Invalid), "")
		return 0, nil
	case err != nil:
		s.invalid(spatev1.ReasonRecordsContradict, err.Error(), "")
		return 0, nil
	case step == nil:
		s.concludeSearch()
		return 0, nil
	}
	factor := new(big.Rat)
	factor.SetFloat64(step.Load / s.loads().Max)
	factor = quantity.Nearest(factor, big.NewInt(maxTrialDenominator))
	at := metav1.NewMicroTime(time.Now().Add(s.trialGap(len(status.Trials) > 0)))
	status.Current = &spatev1.TrialInput{
		Number: int32(len(status.Trials)) + 1, Test: step.Test, Load: sequence.Text(step.Load), RateFactor: factor.RatString(),
		Duration: spatev1.MeasuredTime(time.Duration(step.Duration*float64(time.Second) + 0.5)), Packets: step.Packets, Overload: spatev1.MeasuredTime(time.Duration(step.Overload*float64(time.Second) + 0.5)), StartTime: at,
	}
	s.run.Status.TrafficStartTime = &at
	updated := now()
	s.run.Status.Progress = &spatev1.RunProgress{UpdateTime: &updated}
	return time.Millisecond, nil
}

// trialGap is the time before a trial.
func (s *scope) trialGap(after bool) time.Duration {
	trial := s.run.Spec.Search.Trial
	gap := parsed(trial.Settle)
	if after {
		gap += parsed(trial.Pause)
	}
	return max(gap, trialLead)
}

// afterTrial chooses the next trial. What the run's ports have counted so far is not the next one's.
func (s *scope) afterTrial(stats []*enginev1.WatchStatsResponse) (time.Duration, error) {
	holds := make([]engineState, len(stats))
	for i, st := range present(stats) {
		holds[i].ports = st.Ports
	}
	s.run.Status.PortBaseline = s.baseline(holds)
	return s.nextTrial()
}

// searching starts the current trial, waits for its end, and records it.
func (s *scope) searching(ctx context.Context) (time.Duration, error) {
	facts, err := s.factsUnderWay(ctx)
	if facts == nil {
		return 0, err
	}
	current := s.run.Status.Search.Current
	if s.end.message != "" || current == nil {
		return s.stopSearch(ctx)
	}
	s.limitAll(ctx)
	stats, errs := s.readAll(ctx)
	if errors.Join(errs...) != nil {
		return s.unanswered(ctx, errs)
	}
	s.answered(stats)
	if s.checkRouters(stats); s.end.message != "" {
		return s.stopSearch(ctx)
	}
	if countIn(stats, current.Number) < len(stats) {
		return s.startTrial(ctx, stats, facts.ClockBound > 0)
	}
	if facts.ClockBound == 0 {
		s.followClocks(ctx, stats)
	}
	s.withoutLink(stats, facts)
	if _, ended := phaseOf(stats); !ended {
		return s.askForReset(s.trialLeft()), nil
	}
	if err := s.record(ctx, stats, facts); err != nil {
		return 0, err
	}
	return s.afterTrial(stats)
}

// stopSearch ends a search whose trials cannot all be executed.
func (s *scope) stopSearch(ctx context.Context) (time.Duration, error) {
	s.stop(ctx, s.end.message)
	s.invalid(cmp.Or(s.end.reason, spatev1.ReasonIncomplete), fmt.Sprintf("stopped after %d trials: %s", len(s.run.Status.Search.Trials), s.end.message), s.end.message)
	return 0, nil
}

// inTrial reports whether an engine has started a trial.
func inTrial(run *enginev1.RunInfo, trial int32) bool {
	return run.GetTrial() == uint32(trial) && run.GetStartedAtNs() != 0
}

// countIn counts the engines that have started a trial.
func countIn(stats []*enginev1.WatchStatsResponse, trial int32) int {
	n := 0
	for _, st := range present(stats) {
		if inTrial(st.GetRun(), trial) {
			n++
		}
	}
	return n
}

// trialLeft is the time until the current trial is to be looked at: at its end.
func (s *scope) trialLeft() time.Duration {
	current := s.run.Status.Search.Current
	left := time.Until(s.phasesOf(current).endAfter(current.StartTime.Time))
	// Leases are renewed meanwhile. Slightly later, since the engine may check its clock later.
	return max(min(left+20*time.Millisecond, tick), 10*time.Millisecond)
}

// startTrial starts the current trial on all engines at one instant. If that has passed, none is started, and the trial gets another one; if
// some engines had started, it is invalid. If the engines' wall clocks are known to agree, time stamps are by these.
func (s *scope) startTrial(ctx context.Context, stats []*enginev1.WatchStatsResponse, byWall bool) (time.Duration, error) {
	current := s.run.Status.Search.Current
	if time.Until(current.StartTime.Time) < minStartLead {
		return s.missedTrial(ctx, stats)
	}
	factor, err := quantity.ParseFactor(current.RateFactor)
	if err != nil {
		return 0, err
	}
	ratio, err := quantity.Ratio(factor)
	if err != nil {
		return 0, err
	}
	holds := make([]engineState, len(s.pods))
	errs := s.each(ctx, func(i int, pod *corev1.Pod, c *engine.Client) (err error) {
		holds[i].clock, err = clockOf(ctx, pod, c, &enginev1.GetInfoResponse{})
		return err
	})
	if err := errors.Join(errs...); err != nil {
		return s.unanswered(ctx, errs)
	}
	instant, phases := engine.Instant(current.StartTime.Time), s.phasesOf(current)
	start := func(i int, c *engine.Client, reference *enginev1.ReferenceClock) error {
		request := &enginev1.StartTrialRequest{
			RunId: s.run.Status.Resolved.RunID, Trial: uint32(current.Number), WarmupNs: uint64(phases.warmup), DurationNs: uint64(phases.sends),
			DrainNs: uint64(phases.drain), RateFactor: ratio, Packets: uint64(current.Packets), AtMonotonicNs: holds[i].clock.Monotonic(instant), Reference: reference,
		}
		switch {
		case current.Overload > 0:
			request.RateFactor, request.Stages = nil, overloaded(current, ratio)
		case s.inIntervals():
			request.RateFactor, request.Stages = nil, intervals(current, ratio)
		}
		info, err := c.StartTrial(ctx, request)
		holds[i].info = info
		return err
	}
	errs = s.each(ctx, func(i int, _ *corev1.Pod, c *engine.Client) error {
		switch {
		case inTrial(stats[i].GetRun(), current.Number):
			return nil
		case len(holds) == 1 || byWall:
			return start(i, c, nil)
		case i == 0:
			return start(i, c, s.ownReference(holds[0].clock.Monotonic(instant)))
		}
		return start(i, c, s.reference(holds[0].clock, holds[i].clock, holds[0].clock.Monotonic(instant)))
	})
	err = errors.Join(errs...)
	switch {
	case err == nil:
		return s.askForReset(s.trialLeft()), nil
	case engine.Unreachable(err) || kstatus.Expected(err) || engine.TooLate(err):
		return 10 * time.Millisecond, nil // with the same instant, if it has not passed
	}
	s.stop(ctx, "a trial could not be started")
	s.invalid(spatev1.ReasonStartFailed, fmt.Sprintf("trial %d could not be started: %v", current.Number, err), "")
	return 0, nil
}

// overloaded are the stages of a trial at a part of the plan's rates, which is halved after the overload.
func overloaded(trial *spatev1.TrialInput, factor *enginev1.Ratio) []*enginev1.Stage {
	half := &enginev1.Ratio{Numerator: factor.Numerator, Denominator: 2 * factor.Denominator}
	return []*enginev1.Stage{
		{DurationNs: uint64(trial.Overload), RateFactor: factor}, {DurationNs: uint64(trial.Duration - trial.Overload), RateFactor: half},
	}
}

// lastLoss is when the last loss of any stream became known, since the measured phase began; 0 if nothing was lost.
func lastLoss(stats []*enginev1.WatchStatsResponse) spatev1.MeasuredTime {
	last := uint64(0)
	for _, st := range present(stats) {
		for _, stream := range st.Streams {
			last = max(last, stream.GetMeasured().GetLastLossNs())
		}
	}
	return nanoseconds(last)
}

// missedTrial handles a trial whose instant has passed before all engines had it.
func (s *scope) missedTrial(ctx context.Context, stats []*enginev1.WatchStatsResponse) (time.Duration, error) {
	current := s.run.Status.Search.Current
	if countIn(stats, current.Number) == 0 {
		at := metav1.NewMicroTime(time.Now().Add(2 * trialLead))
		current.StartTime, s.run.Status.TrafficStartTime = at, &at
		return time.Millisecond, nil
	}
	s.stop(ctx, "not all engines started the trial")
	if _, ended := phaseOf(stats); !ended && time.Since(current.StartTime.Time) < trialEnds {
		return 50 * time.Millisecond, nil
	}
	s.add(spatev1.TrialRecord{TrialInput: *current, LossRatio: "0", Invalid: "not all engines could be started at one instant"})
	return s.afterTrial(stats)
}

// longestInvalid bounds the reason for which a trial does not count, which is then shortened by an ellipsis: a record has at most 512 characters.
const longestInvalid = 509

// trialEnds is how long the end of a trial is awaited that was stopped.
const trialEnds = 10 * time.Second

// record adds the current trial to the records, with what all engines counted.
func (s *scope) record(ctx context.Context, stats []*enginev1.WatchStatsResponse, facts *storage.Facts) error {
	current := s.run.Status.Search.Current
	result := resultOf(stats, facts, s.run)
	result.Duration = current.Duration
	trial := s.count(&result, stats, facts)
	trial.TrialInput = *current
	trial.ResetDevice = false
	if current.Test == spatev1.TestLatency {
		trial.Latency = slowest(&result)
	}
	if current.Test == spatev1.TestRecovery {
		trial.LastLoss = lastLoss(stats)
	}
	invalid := timedOut(stats, s.run)
	invalid = append(invalid, contradictions(stats, s.run)...)
	for i, st := range present(stats) {
		if why := st.GetRun().GetEndReason(); why != "" {
			invalid = append(invalid, fmt.Sprintf("pod %s: %s", s.podName(i), why))
		}
	}
	trial.Invalid = kstatus.Shortened(strings.Join(invalid, "; "), longestInvalid)
	if trial.Invalid == "" {
		err := s.examine(ctx, &trial, &result, stats, facts)
		if err != nil && !errors.Is(err, errNotKept) {
			return err
		} else if err != nil {
			trial.Invalid = kstatus.Shortened(err.Error(), longestInvalid)
		}
	}
	result.Streams, result.Templates, result.Groups = nil, nil, nil
	s.run.Status.Result = &result
	s.add(trial)
	return nil
}

// examine adds to a valid trial what its test asks for beside its counters. Its errors are those of intervalEnd.
func (s *scope) examine(ctx context.Context, trial *spatev1.TrialRecord, result *spatev1.RunResult, stats []*enginev1.WatchStatsResponse, facts *storage.Facts) (err error) {
	switch trial.Test {
	case spatev1.TestThroughput:
		deviation, err := s.rateDeviation(ctx)
		if err != nil {
			return err
		}
		trial.Unmet, trial.UnmetValues = unmet(s.run.Spec.Search, result, deviation)
	case spatev1.TestReset:
		if trial.Outage = longestOutage(result); trial.Outage == nil {
			trial.Invalid = "when packets arrived is not known: an engine did not report it"
			return nil
		}
		trial.SilentAtEnd, err = s.silentAtEnd(ctx, stats, facts)
	}
	return err
}

// add adds a record, with the time since the one before it.
func (s *scope) add(trial spatev1.TrialRecord) {
	status := s.run.Status.Search
	since := s.run.Status.PrepareTime.Time
	if n := len(status.Trials); n > 0 {
		last := status.Trials[n-1]
		since = s.phasesOf(&last.TrialInput).endAfter(last.StartTime.Time)
	}
	trial.Elapsed = spatev1.MeasuredTime(max(time.Since(since), 0))
	status.Trials, status.Spent = append(status.Trials, trial), status.Spent+trial.Elapsed
}

// count is what the current trial came to, in the unit of its loads.
func (s *scope) count(result *spatev1.RunResult, stats []*enginev1.WatchStatsResponse, facts *storage.Facts) spatev1.TrialRecord {
	search := s.run.Status.Search
	switch {
	case search.Current.Test == spatev1.TestReset:
		return s.countReset(result)
	case search.Unit == spatev1.UnitOpen:
		return countOpen(result.Flows)
	}
	trial := countTrial(s.run.Status.Resolved.GeneratorTolerance, result)
	if search.Unit == spatev1.UnitTransactions {
		return countTransactions(trial, stats, facts.Flows.PerConnection)
	}
	return trial
}

// countTrial is what a trial came to. What the generator itself did not send in time, or missed, beyond its tolerance, was not sent: it is no
// loss of the device.
func countTrial(tolerance spatev1.GeneratorTolerance, result *spatev1.RunResult) spatev1.TrialRecord {
	trial := spatev1.TrialRecord{Intended: result.Tx, Sent: result.Tx, Received: result.Tx - result.Lost}
	if f := result.Flows; f != nil {
		unfinished := max(f.Attempted-f.Established-f.Failed, 0)
		trial.Intended, trial.Sent = f.Attempted, f.Attempted
		trial.Received = f.Attempted - f.Failed - unfinished
	}
	for _, limit := range generatorLimits(tolerance, *result) {
		tolerated, err := quantity.Tolerated(limit.tolerance, uint64(max(limit.of, 0)))
		if err == nil && uint64(max(limit.count, 0)) <= tolerated {
			continue
		}
		switch limit.name {
		case "txDropped":
			trial.Intended += limit.count
		case "late":
			trial.Sent -= limit.count
			trial.Received = max(trial.Received-limit.count, 0)
		case "rxMissed":
			trial.Sent -= min(limit.count, max(trial.Sent-trial.Received, 0))
		}
	}
	return withLossRatio(trial)
}

// withLossRatio completes a record: the loss ratio follows from what was due, sent and received.
func withLossRatio(trial spatev1.TrialRecord) spatev1.TrialRecord {
	counted := search.Trial{Intended: trial.Intended, Sent: trial.Sent, Lost: trial.Sent - trial.Received}
	trial.LossRatio = sequence.Ratio(counted.LossRatio())
	return trial
}

// slowest is the latency of the stream with the greatest 99th percentile; nil if none measured any.
func slowest(result *spatev1.RunResult) (worst *spatev1.Latency) {
	for _, stream := range result.Streams {
		if l := stream.Latency; l != nil && l.Count > 0 && (worst == nil || l.P99 > worst.P99) {
			worst = l
		}
	}
	return worst
}

// concludeSearch ends the run with the verdict on its search: whether its results are regular.
func (s *scope) concludeSearch() {
	status := s.run.Status.Search
	numbers := fmt.Sprintf("%d trials in %s: %s", len(status.Trials), time.Duration(status.Spent).Round(time.Second), resultText(&status.Result))
	outcome, reason := spatev1.VerdictPassed, spatev1.ReasonSearchRegular
	irregular := slices.IndexFunc(status.Result.Goals, func(g spatev1.GoalResult) bool { return !g.Regular })
	switch {
	case irregular >= 0:
		goal := status.Result.Goals[irregular]
		outcome, reason, numbers = spatev1.VerdictFailed, spatev1.ReasonSearchIrregular, fmt.Sprintf("goal %s: %s; %s", goal.Name, goal.Reason, numbers)
	case status.Result.Reset != nil && status.Result.Reset.Reason != string(search.Found):
		outcome, reason, numbers = spatev1.VerdictFailed, spatev1.ReasonSearchIrregular, fmt.Sprintf("reset: %s; %s", status.Result.Reset.Reason, numbers)
	case status.Result.Reason == string(search.BudgetExhausted):
		outcome, reason, numbers = spatev1.VerdictFailed, spatev1.ReasonSearchIrregular, "the budget was used up; "+numbers
	}
	s.complete(spatev1.Verdict{Outcome: outcome, Reasons: []spatev1.VerdictReason{{Reason: reason, Message: numbers}}}, "")
}

// resultText says in a line what was found.
func resultText(result *spatev1.SearchResult) string {
	var texts []string
	for _, goal := range result.Goals {
		texts = append(texts, fmt.Sprintf("%s %s", goal.Name, loadText(goal.Lower)))
	}
	if n := len(result.FrameLoss); n > 0 {
		texts = append(texts, fmt.Sprintf("frame loss %s at %s%%", result.FrameLoss[0].LossRatio, result.FrameLoss[0].Percent))
	}
	if b := result.BackToBack; b != nil {
		texts = append(texts, fmt.Sprintf("back-to-back %s frames", b.Frames))
	}
	if r := result.Recovery; r != nil {
		texts = append(texts, fmt.Sprintf("recovery %s", r.Mean))
	}
	if r := result.Reset; r != nil {
		texts = append(texts, fmt.Sprintf("reset %s", r.Mean))
	}
	return strings.Join(texts, ", ")
}

func loadText(load string) string {
	if load == "" {
		return "none"
	}
	value, err := strconv.ParseFloat(load, 64)
	if err != nil {
		return load
	}
	return strconv.FormatFloat(value, 'f', 3, 64) + " per second"
}
