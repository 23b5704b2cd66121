// SPDX-License-Identifier: Apache-2.0

// Package dut simulates devices under test, to try searches without traffic.
package dut

// This file answers: how many packets of a trial does a simulated device forward?

import (
	"math"

	"spate.dev/operator/internal/search"
)

// Device forwards packets at a constant rate. Equal trials with equal numbers have equal outcomes.
type Device struct {
	// Capacity is the rate that it forwards, in pps.
	Capacity float64 `json:"capacity"`
	// Buffer is the number of packets that it forwards in each trial beyond its capacity.
	Buffer int64 `json:"buffer,omitempty"`
	// Generator is the maximum rate of the traffic generator, in pps. 0: it sends any rate.
	Generator float64 `json:"generator,omitempty"`
	// Every is the period, in trials, with which Loses packets more are lost. 0: never.
	Every int `json:"every,omitempty"`
	// Loses is the number of packets that are lost once in Every trials.
	Loses int64 `json:"loses,omitempty"`
	// Band is a range of loads, from the first to below the second in pps, at which one packet at least is lost.
	Band [2]float64 `json:"band,omitzero"`
}

// Measure returns what a trial with a number from 1 records.
func (d Device) Measure(number int, input search.Input) search.Trial {
	intended := input.Packets
	if intended == 0 {
		intended = packets(input.Duration * input.Load)
	}
	sent := intended
	if d.Generator > 0 {
		sent = min(sent, packets(input.Duration*d.Generator))
	}
	received := min(sent, packets(input.Duration*d.Capacity)+d.Buffer)
	if d.Every > 0 && number%d.Every == 0 {
		received = max(0, received-d.Loses)
	}
	if d.Band[0] <= input.Load && input.Load < d.Band[1] {
		received = min(received, sent-1)
	}
	return search.Trial{Number: number, Input: input, Intended: intended, Sent: sent, Lost: sent - received, Valid: true}
}

// packets rounds down.
func packets(count float64) int64 { return int64(math.Min(count, math.MaxInt64/4)) }
