// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how often are a run's counters written into its status?

import "time"

// countersShare is the part of the client's rate that the counters of all runs may take together: the rest is left for changes of phases.
const countersShare = 0.5

// pace is the least time between two writes of the counters of one of so many runs under way, by a client that may make `rate` requests
// a second for runs (no limit: 0 or less). It is a tick, and grows with the number of runs beyond countersShare*rate of them, without a
// bound: a thousand runs at 200 requests a second are written every 10 s each. Phases and conditions are written at once.
func pace(runs int, rate float32) time.Duration {
	if rate <= 0 {
		return tick
	}
	return max(tick, time.Duration(float64(runs)/(countersShare*float64(rate))*float64(time.Second)))
}
