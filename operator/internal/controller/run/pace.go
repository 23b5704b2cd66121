// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how often are a run's counters written into its status?

import "time"

// countersShare is the share of the client's rate that writes of counters may take: the rest is for changes of phases.
const countersShare = 0.5

// pace is the minimum time between two writes of one run's counters, with `runs` active runs and a client that may make `rate` requests
// per second for runs (0 or less: unlimited). It is a tick, and grows without bound with the number of runs beyond countersShare*rate:
// with a thousand runs and 200 requests per second, each run is written every 10 s. Phases and conditions are written at once.
func pace(runs int, rate float32) time.Duration {
	if rate <= 0 {
		return tick
	}
	return max(tick, time.Duration(float64(runs)/(countersShare*float64(rate))*float64(time.Second)))
}
