// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what is the verdict on a run?

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/quantity"
	"spate.dev/operator/internal/runs/storage"
	"spate.dev/operator/internal/verdict"
)

// finish writes the final counters and the verdict. A run that was ended early is judged only if it had no duration, and never if its
// generator no longer allows it.
func (s *scope) finish(ctx context.Context, stats []*enginev1.WatchStatsResponse, facts *storage.Facts) error {
	why := s.end.message
	result := resultOf(stats, facts, s.run)
	result.Duration, result.Routing = spatev1.MeasuredTime(s.measured()), s.routing(stats)
	s.sample(ctx, &result, stats, true)
	s.adoptThresholds()
	if err := s.compare(ctx); err != nil {
		return err
	}
	aborted := abortReason(stats)
	if err := s.endStages(ctx, stats, facts, why != "" || aborted != "" || stoppedEarly(stats), aborted); err != nil {
		return err
	}
	lost, err := s.settle(ctx, result)
	if err != nil {
		return err
	}
	s.final = true
	for i, st := range present(stats) {
		early := st.Run.State == enginev1.RunState_RUN_STATE_STOPPED || s.duration() == 0
		if early && st.Run.EndReason != "" && why == "" {
			why = fmt.Sprintf("pod %s: %s", s.podName(i), st.Run.EndReason)
		}
	}
	s.withoutLink(stats, facts)
	switch {
	case s.end.reason == spatev1.ReasonRoutingFailed && !stoppedEarly(stats): // seen when the run had ended by itself
		s.invalid(s.end.reason, why, "")
	case s.end.reason != "":
		s.invalid(s.end.reason, "stopped: "+why, why)
	case aborted != "":
		s.complete(judge(s.run, result, s.compared, distrusted(stats, s.run), s.run.Status.PortsDown, aborted), why)
	case why != "" && s.duration() > 0:
		s.invalid(spatev1.ReasonIncomplete, "ended before its duration: "+why, why)
	default:
		s.complete(judge(s.run, result, s.compared, distrusted(stats, s.run), s.run.Status.PortsDown, ""), why)
	}
	if v := s.run.Status.Verdict; lost != "" {
		v.Reasons = append(v.Reasons, spatev1.VerdictReason{Reason: spatev1.ReasonDetailsNotKept, Message: lost})
	}
	return nil
}

// stoppedEarly reports whether an engine ended its part of the run before its time.
func stoppedEarly(stats []*enginev1.WatchStatsResponse) bool {
	for _, st := range present(stats) {
		if st.GetRun().GetState() == enginev1.RunState_RUN_STATE_STOPPED {
			return true
		}
	}
	return false
}

// maxContradictions is how many contradictions of an engine are listed: each of its templates may have one, and a status is bounded.
const maxContradictions = 3

// distrusted returns the reasons for which the engines' own reports say that counters are not reliable.
func distrusted(stats []*enginev1.WatchStatsResponse, run *spatev1.TrafficRun) []spatev1.VerdictReason {
	var reasons []spatev1.VerdictReason
	if late := timedOut(stats, run); len(late) > 0 {
		reasons = append(reasons, spatev1.VerdictReason{Reason: spatev1.ReasonDrainTimedOut, Message: "the drain timed out: " + strings.Join(late, "; ")})
	}
	if reported := contradictions(stats, run); len(reported) > 0 {
		reasons = append(reasons, spatev1.VerdictReason{Reason: spatev1.ReasonCountersContradict, Message: "counters contradict each other: " + strings.Join(reported, "; ")})
	}
	return reasons
}

// timedOut returns a text for each pod whose engine closed the run before it had read all packets.
func timedOut(stats []*enginev1.WatchStatsResponse, run *spatev1.TrafficRun) []string {
	var all []string
	for i, st := range stats {
		if text := st.GetRun().GetDrainTimedOut(); text != "" {
			all = append(all, fmt.Sprintf("pod %s: %s", run.Status.Resolved.Generator.Pods[i].Name, text))
		}
	}
	return all
}

// contradictions returns a text for each pod whose engine reports identities of counters that do not hold.
func contradictions(stats []*enginev1.WatchStatsResponse, run *spatev1.TrafficRun) []string {
	var all []string
	for i, st := range stats {
		reported := st.GetRun().GetContradictions()
		if len(reported) == 0 {
			continue
		}
		text := strings.Join(reported[:min(len(reported), maxContradictions)], "; ")
		if more := len(reported) - maxContradictions; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		all = append(all, fmt.Sprintf("pod %s: %s", run.Status.Resolved.Generator.Pods[i].Name, text))
	}
	return all
}

// measured is how long the measured phase has lasted so far. Without a duration, it is the time until now less the drain, which is
// exact enough for mean rates.
func (s *scope) measured() time.Duration {
	start := s.run.Status.TrafficStartTime
	if start == nil {
		return 0
	}
	passed := time.Since(start.Time) - s.warmup()
	if d := s.duration(); d > 0 {
		return max(min(passed, d), 0)
	}
	return max(passed-s.drain(), time.Millisecond)
}

// invalid completes a run whose counters say nothing about the device under test.
func (s *scope) invalid(reason, message, why string) {
	s.complete(spatev1.Verdict{
		Outcome: spatev1.VerdictInvalid,
		Reasons: []spatev1.VerdictReason{{Reason: reason, Message: message}},
	}, why)
}

func (s *scope) complete(v spatev1.Verdict, why string) {
	concise(&v)
	at := now()
	s.run.Status.Phase, s.run.Status.CompletionTime, s.run.Status.Progress = spatev1.RunComplete, &at, nil
	s.run.Status.Verdict, s.ended = &v, why
}

// judge determines the verdict: first whether the counters are reliable, then whether the generator was the limit, then the thresholds.
// Ports without a link, packets throttled by limits and lost records are reported, but do not change the outcome. A run that was aborted has
// failed, for that reason.
func judge(run *spatev1.TrafficRun, result spatev1.RunResult, with compared, distrusted []spatev1.VerdictReason, down []string, aborted string) spatev1.Verdict {
	v := spatev1.Verdict{Outcome: spatev1.VerdictPassed, Reasons: distrusted}
	if len(distrusted) > 0 {
		v.Outcome = spatev1.VerdictInvalid
	}
	for _, limit := range generatorLimits(run.Status.Resolved.GeneratorTolerance, result) {
		tolerated, err := quantity.Tolerated(limit.tolerance, uint64(max(limit.of, 0)))
		if err != nil || limit.count > 0 && uint64(limit.count) > tolerated {
			v.Outcome = spatev1.VerdictInvalid
			v.Reasons = append(v.Reasons, spatev1.VerdictReason{
				Reason: spatev1.ReasonGeneratorLimited,
				Message: fmt.Sprintf("%d %s; generatorTolerance.%s of %s allows %d of %d %s",
					limit.count, limit.what, limit.name, limit.tolerance, tolerated, limit.of, limit.did),
			})
		}
	}
	fail := func(reason, message string) {
		if v.Outcome == spatev1.VerdictPassed {
			v.Outcome = spatev1.VerdictFailed
		}
		v.Reasons = append(v.Reasons, spatev1.VerdictReason{Reason: reason, Message: message})
	}
	if aborted != "" {
		fail(spatev1.ReasonAborted, aborted)
	}
	for _, message := range failedStages(run.Status.Stages) {
		if !strings.HasPrefix(aborted, message) {
			fail(spatev1.ReasonStageFailed, message)
		}
	}
	lost := run.Status.LostPods
	evaluated := thresholds(run.Status.Resolved.Thresholds, result, with, podNames(lost))
	var unmeasured []spatev1.VerdictReason
	for i, t := range evaluated {
		v.Thresholds = append(v.Thresholds, t.ThresholdResult)
		if t.Met {
			continue
		}
		message := fmt.Sprintf("threshold %s: %s", t.Name, t.Message)
		if text := run.Status.Resolved.Thresholds[i].Message; text != "" {
			message = text + " (" + message + ")"
		}
		reason := spatev1.VerdictReason{Reason: t.reason, Message: message}
		if t.reason == spatev1.ReasonThresholdUnmeasured {
			unmeasured = append(unmeasured, reason)
			continue
		}
		fail(reason.Reason, reason.Message)
	}
	if v.Outcome == spatev1.VerdictPassed && len(unmeasured) > 0 {
		v.Outcome = spatev1.VerdictInvalid
	}
	v.Reasons = append(v.Reasons, unmeasured...)
	if v.Outcome == spatev1.VerdictPassed {
		numbers := summary(result, len(lost) > 0)
		message := fmt.Sprintf("%s; %d thresholds hold", numbers, len(evaluated))
		switch len(evaluated) {
		case 0:
			message = numbers + "; there are no thresholds"
		case 1:
			message = numbers + "; the threshold holds"
		}
		v.Reasons = append(v.Reasons, spatev1.VerdictReason{Reason: spatev1.ReasonThresholdsMet, Message: message})
	}
	if len(lost) > 0 {
		v.Reasons = append(v.Reasons, spatev1.VerdictReason{Reason: spatev1.ReasonPodLost, Message: withoutPods(run, v.Thresholds)})
	}
	if result.Throttled > 0 {
		v.Reasons = append(v.Reasons, spatev1.VerdictReason{
			Reason: spatev1.ReasonLimitExceeded, Message: fmt.Sprintf("%d packets were throttled by the generator's limits.maxRate", result.Throttled),
		})
	}
	if len(down) > 0 {
		v.Reasons = append(v.Reasons, spatev1.VerdictReason{Reason: spatev1.ReasonPortDown, Message: strings.Join(down, ", ") + " had no link for a time"})
	}
	if reason, message := lostRecords(result.Records); reason != "" {
		v.Reasons = append(v.Reasons, spatev1.VerdictReason{Reason: reason, Message: message})
	}
	return v
}

// failedStages describes the failed thresholds of stages.
func failedStages(stages []spatev1.StageStatus) (messages []string) {
	for _, stage := range stages {
		if stage.Phase != spatev1.StageFailed {
			continue
		}
		for _, t := range stage.Thresholds {
			if !t.Met {
				messages = append(messages, fmt.Sprintf("stage %s: threshold %s: %s", stage.Name, t.Name, t.Message))
			}
		}
	}
	return messages
}

// generatorLimit is an effect of the generator itself that a verdict tolerates up to a bound.
type generatorLimit struct {
	name      string
	tolerance spatev1.Tolerance
	count     int64
	what      string // happened to `count` of them
	of        int64
	did       string // what the tolerance is a share of
}

// generatorLimits are the ways in which the generator may have been the limit, for packets of streams and flows of templates.
func generatorLimits(tolerance spatev1.GeneratorTolerance, result spatev1.RunResult) []generatorLimit {
	limits := []generatorLimit{
		{"txDropped", tolerance.TxDropped, result.TxDropped, "packets could not be sent", result.Tx, "sent"},
		{"late", tolerance.Late, result.Late, "packets were sent late", result.Tx, "sent"},
		{"rxMissed", tolerance.RxMissed, result.RxMissed, "packets arrived and were lost before the engine read them", result.Tx + packetsSent(result.Templates), "sent"},
	}
	if flows := result.Flows; flows != nil {
		due := flows.Attempted + flows.NotStarted + flows.Exhausted
		limits = append(limits,
			generatorLimit{"txDropped", tolerance.TxDropped, flows.NotStarted, "flows did not start before the end (status.result.flows.notStarted)", due, "due"},
			generatorLimit{"txDropped", tolerance.TxDropped, flows.Exhausted, "flows found no room in the flow table, or no free port (status.result.flows.exhausted)", due, "due"},
			generatorLimit{"late", tolerance.Late, flows.Late, "flows started late (status.result.flows.late)", due, "due"})
	}
	return limits
}

// summary of a result in one line. When a pod was lost, how many packets were lost is not known.
func summary(result spatev1.RunResult, podLost bool) string {
	packets := fmt.Sprintf("%d packets sent, %d received", result.Tx, result.Rx)
	if !podLost {
		packets += fmt.Sprintf(", %d lost", result.Lost)
	}
	flows := result.Flows
	if flows == nil {
		return packets
	}
	text := fmt.Sprintf("%d flows attempted, %d established, %d failed", flows.Attempted, flows.Established, flows.Failed)
	if flows.Throttled > 0 {
		text += fmt.Sprintf(", %d throttled by maxConcurrentFlows", flows.Throttled)
	}
	if len(result.Streams) > 0 {
		text += "; " + packets
	}
	return text
}

type judgedThreshold struct {
	spatev1.ThresholdResult
	reason string
}

// thresholds evaluates all of them. Those that read what cannot be known without the lost pods, or without the result of the baseline, are not
// met.
func thresholds(wanted []spatev1.Threshold, whole spatev1.RunResult, with compared, lost []string) []judgedThreshold {
	var all []judgedThreshold
	result := forThresholds(whole)
	for _, t := range wanted {
		j := judgedThreshold{ThresholdResult: spatev1.ThresholdResult{Name: string(t.Name)}, reason: spatev1.ReasonThresholdMissed}
		compiled, err := verdict.Compile(t.Expression)
		if err != nil { // the profile's check rejects these
			j.Message, j.reason = fmt.Sprintf("%s: %v", t.Expression, err), spatev1.ReasonThresholdError
		} else if unknown := compiled.Unknown(); len(lost) > 0 && len(unknown) > 0 {
			j.Message = fmt.Sprintf("%s cannot be evaluated: %s not known, since pods were lost that may have sent or received some of these packets: %s",
				t.Expression, strings.Join(unknown, ", "), strings.Join(lost, ", "))
			j.reason = spatev1.ReasonThresholdUnmeasured
		} else if with.result == nil && compiled.ReadsBaseline() {
			j.Message = fmt.Sprintf("%s cannot be evaluated: %s", t.Expression, cmp.Or(with.lost, "the run has no baseline (spec.baselineRef)"))
			j.reason = spatev1.ReasonThresholdUnmeasured
		} else {
			outcome := with.evaluate(compiled, result)
			j.Met, j.Message = outcome.Passed, outcome.Message
			if outcome.Failed {
				j.reason = spatev1.ReasonThresholdError
			}
			switch bound := boundOf(whole, compiled); {
			case bound > 0 && whole.ClockBound > 0:
				j.Message += fmt.Sprintf(" (delays between pods are exact to %s, by which their clocks may differ)", humanReadable(bound))
			case bound > 0: // within one pod, on a port with receiveTimestamps: Device
				j.Message += fmt.Sprintf(" (delays are exact to %s, by which the clock of the receiving device may be off)", humanReadable(bound))
			}
		}
		all = append(all, j)
	}
	return all
}

// forThresholds returns a result as expressions read it.
func forThresholds(r spatev1.RunResult) verdict.Result {
	length := max(time.Duration(r.Duration), time.Millisecond)
	seconds := length.Seconds()
	out := verdict.Result{
		Tx: r.Tx, TxBytes: r.TxBytes, Rx: r.Rx, RxBytes: r.RxBytes, Lost: r.Lost, LossRatio: number(r.LossRatio), Duplicates: r.Duplicates,
		OutOfOrder: r.OutOfOrder, Misdirected: r.Misdirected, TxDropped: r.TxDropped, Late: r.Late, RxMissed: r.RxMissed, Foreign: r.Foreign, OtherMAC: r.OtherMAC, NotReflected: r.NotReflected, Throttled: r.Throttled,
		TxPps: float64(r.Tx) / seconds, RxPps: float64(r.Rx) / seconds,
		TxBps: float64(r.TxBytes) * 8 / seconds, RxBps: float64(r.RxBytes) * 8 / seconds,
		SequenceTooHigh: r.SequenceTooHigh, SequenceTooLow: r.SequenceTooLow,
		Duration: length, Streams: make(map[string]verdict.Stream, len(r.Streams)), Receivers: make(map[string]verdict.Receiver, len(r.Receivers)),
		Templates: make(map[string]map[string]verdict.Side, len(r.Templates)), Groups: make(map[string]verdict.Group, len(r.Groups)),
	}
	if r.Flows != nil {
		out.Flows = sideForThresholds(&spatev1.TemplateSide{FlowCounters: *r.Flows}, length)
	}
	if all := r.Records; all != nil {
		out.Records = verdict.Records{Written: all.Written, Omitted: all.Omitted, Delivered: all.Delivered, Undelivered: all.Undelivered, Dropped: all.Dropped}
		for _, pod := range all.Pods {
			if pod.Problem != "" {
				out.Records.FilesNotWritten++
			}
		}
	}
	if r.Routing != nil {
		out.Routing.Sessions = make(map[string]verdict.Session, len(r.Routing.Sessions))
		for name, s := range r.Routing.Sessions {
			out.Routing.Sessions[name] = verdict.Session{
				Up: s.Up, Flaps: s.Flaps, Configured: s.Configured, Sent: s.Sent, Received: s.Received, UpdatesSent: s.UpdatesSent, UpdatesReceived: s.UpdatesReceived,
			}
		}
	}
	for name, t := range r.Templates {
		sides := map[string]verdict.Side{}
		if t.Client != nil {
			sides[verdict.Client] = sideForThresholds(t.Client, length)
		}
		if t.Server != nil {
			sides[verdict.Server] = sideForThresholds(t.Server, length)
		}
		out.Templates[name] = sides
	}
	for name, g := range r.Groups {
		sides := verdict.Group{}
		if g.Client != nil {
			sides[verdict.Client] = groupForThresholds(g.Client, length)
		}
		if g.Server != nil {
			sides[verdict.Server] = groupForThresholds(g.Server, length)
		}
		out.Groups[name] = sides
	}
	out.Clients = clientsForThresholds(r.Clients)
	for name, x := range r.Receivers {
		out.Receivers[name] = verdict.Receiver{
			Packets: x.Packets, Bytes: x.Bytes, Pps: float64(x.Packets) / seconds, Bps: float64(x.Bytes) * 8 / seconds,
			InterArrival: moments(x.InterArrival), Jitter: moments(x.Jitter), Latency: moments(x.Latency),
		}
	}
	for name, s := range r.Streams {
		out.Streams[name] = verdict.Stream{
			Tx: s.Tx, TxBytes: s.TxBytes, Rx: s.Rx, RxBytes: s.RxBytes, Lost: s.Lost, LossRatio: number(s.LossRatio), Duplicates: s.Duplicates,
			OutOfOrder: s.OutOfOrder, Misdirected: s.Misdirected, TxDropped: s.TxDropped, Late: s.Late,
			TxPps: float64(s.Tx) / seconds, RxPps: float64(s.Rx) / seconds,
			TxBps: float64(s.TxBytes) * 8 / seconds, RxBps: float64(s.RxBytes) * 8 / seconds,
			SequenceTooHigh: s.SequenceTooHigh, SequenceTooLow: s.SequenceTooLow, Latency: times(s.Latency), Outage: outageForThresholds(s.Outage),
			ByTag: tagsForThresholds(s.ByTag),
		}
	}
	return out
}

func sideForThresholds(s *spatev1.TemplateSide, length time.Duration) verdict.Side {
	seconds := length.Seconds()
	return verdict.Side{
		Attempted: s.Attempted, Established: s.Established, Closed: s.Closed, Failed: s.Failed, Open: s.Open,
		Reset: s.Reset, TimedOut: s.TimedOut, ClosedEarly: s.ClosedEarly, HTTPErrors: s.HTTPErrors, Aborted: s.Aborted, IdleTimeouts: s.IdleTimeouts,
		Bytes: s.BytesSent + s.BytesReceived, BytesSent: s.BytesSent, BytesReceived: s.BytesReceived,
		Messages: s.MessagesSent + s.MessagesReceived, MessagesSent: s.MessagesSent, MessagesReceived: s.MessagesReceived,
		PacketsSent: s.PacketsSent, PacketsReceived: s.PacketsReceived, Retransmitted: s.Retransmitted, Errors: s.Errors,
		Late: s.Late, NotStarted: s.NotStarted, Exhausted: s.Exhausted, Throttled: s.Throttled,
		Cps: float64(s.Established) / seconds, Bps: float64(s.BytesSent+s.BytesReceived) * 8 / seconds,
		Counters: s.Counters, ConnectTime: delays(s.ConnectTime), RoundTrip: delays(s.RoundTrip), Outage: outageForThresholds(s.Outage),
	}
}

func groupForThresholds(s *spatev1.GroupSide, length time.Duration) verdict.Side {
	side := sideForThresholds(&spatev1.TemplateSide{FlowCounters: s.FlowCounters, Counters: s.Counters}, length)
	side.ConnectTime, side.RoundTrip = moments(s.ConnectTime), moments(s.RoundTrip)
	return side
}

// outageForThresholds returns the times of an outage by the names of verdict.OutageKeys; nil if none was measured.
func outageForThresholds(o *spatev1.Outage) map[string]any {
	if o == nil {
		return nil
	}
	all := map[string]any{"longest": time.Duration(o.Longest), "atLeast": time.Duration(o.Longest), "offset": time.Duration(o.Offset)}
	if o.AtLeast != nil {
		all["atLeast"] = time.Duration(*o.AtLeast)
	}
	return all
}

// times of a stream as expressions read them: only known ones.
func times(l *spatev1.Latency) map[string]any {
	if l == nil {
		return nil
	}
	all := map[string]any{"jitter": time.Duration(l.Jitter), "jitterMax": time.Duration(l.JitterMax)}
	if l.Count > 0 {
		maps.Copy(all, delays(l))
		all["jitterMean"] = time.Duration(l.JitterMean)
	}
	return all
}

// delays of a template as expressions read them, without jitter, which only packets have.
func delays(l *spatev1.Latency) map[string]any {
	if l == nil || l.Count == 0 {
		return nil
	}
	all := map[string]any{"count": l.Count}
	for name, value := range map[string]spatev1.MeasuredTime{
		"min": l.Min, "mean": l.Mean, "max": l.Max, "deviation": l.Deviation, "p50": l.P50, "p90": l.P90, "p95": l.P95,
		"p99": l.P99, "p999": l.P999, "p9999": l.P9999,
	} {
		all[name] = time.Duration(value)
	}
	return all
}

func moments(m *spatev1.Moments) map[string]any {
	if m == nil {
		return nil
	}
	return map[string]any{
		"count": m.Count, "mean": time.Duration(m.Mean), "deviation": time.Duration(m.Deviation), "min": time.Duration(m.Min), "max": time.Duration(m.Max),
	}
}

func number(text string) float64 {
	value, _ := strconv.ParseFloat(text, 64)
	return value
}

// primary returns the reason for the Passed condition, and all messages.
func primary(v *spatev1.Verdict) (reason, message string) {
	messages := make([]string, len(v.Reasons))
	for i, r := range v.Reasons {
		messages[i] = r.Message
	}
	return v.Reasons[0].Reason, strings.Join(messages, "; ")
}
