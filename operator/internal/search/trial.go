// SPDX-License-Identifier: Apache-2.0

// Package search chooses the trials of the benchmarks of RFC 2544, RFC 9004 and RFC 9971 and computes their results. It measures nothing, knows no
// clock and keeps no state: the recorded trials determine the next one.
package search

// This file answers: what is a trial, and how much did it lose?

import "slices"

// Input is what a trial is to do.
type Input struct {
	// Load of an interface in pps.
	Load float64
	// Duration for which packets are sent, in seconds.
	Duration float64
	// Packets is the length of a burst: the number of packets in all. 0: as many as Load and Duration make.
	Packets int64
	// Overload is the part of Duration, at its beginning, after which the load is halved, in seconds. 0: the load is the same all the time.
	Overload float64
}

// Trial is a recorded trial.
type Trial struct {
	// Number from 1.
	Number int
	// Input is what the trial was to do.
	Input
	// Intended is the number of packets that were due, 0 if it is not known.
	Intended int64
	// Sent is the number of packets that were sent.
	Sent int64
	// Lost is the number of packets sent and not received, negative if more were received.
	Lost int64
	// LastLoss is when the last loss became known, in seconds from the beginning; 0 if there was none.
	LastLoss float64
	// Outage is the longest time in which nothing arrived, and OutageAt its beginning, in seconds; only of tests of a reset.
	Outage, OutageAt float64
	// SilentAtEnd: nothing of a stream arrived in the last part of such a trial.
	SilentAtEnd bool
	// Valid: the trial counts. It does not if a pod was lost, a link was down or counters contradict each other; it is then repeated.
	Valid bool
	// HighLoss are the goals for which the trial is high-loss whatever it lost, because a `require` is false.
	HighLoss []string
	// Elapsed is the time that the trial took with settling, drain and pause, in seconds. 0: Duration and Budget.Overhead.
	Elapsed float64
}

// Received is the number of packets received.
func (t Trial) Received() int64 { return t.Sent - t.Lost }

// Unsent is the number of packets that were due and not sent, negative if more were sent.
func (t Trial) Unsent() int64 {
	if t.Intended == 0 {
		return 0
	}
	return t.Intended - t.Sent
}

// LossRatio is (|lost| + |unsent|) / max(sent, intended), at most 1; 0 of a trial without packets. Everything unusual makes it greater, so that a
// search moves to lower loads.
func (t Trial) LossRatio() float64 {
	return ratio(magnitude(t.Lost)+magnitude(t.Unsent()), float64(max(t.Sent, t.Intended)))
}

// DeviceLossRatio is |lost| / sent, at most 1: without what the generator did not send.
func (t Trial) DeviceLossRatio() float64 { return ratio(magnitude(t.Lost), float64(t.Sent)) }

// generatorLimited reports that a trial exceeds a loss ratio only by what the generator did not send.
func (t Trial) generatorLimited(loss float64) bool {
	return t.LossRatio() > loss && t.DeviceLossRatio() <= loss
}

// fails reports whether a `require` of a goal is false.
func (t Trial) fails(goal string) bool { return slices.Contains(t.HighLoss, goal) }

func magnitude(packets int64) float64 { return max(float64(packets), -float64(packets)) }

func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(part/whole, 1)
}
