// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how does a trial open connections and hold them, in a search for open connections? It begins them in the phase in which an
// engine sends, and holds them in the drain, in which none begins: those that are still open at its end are the ones that it held.

import (
	"fmt"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/quantity"
	"spate.dev/operator/internal/search/sequence"
)

// opens reports whether the search is for open connections.
func (s *scope) opens() bool {
	return s.run.Spec.Search != nil && s.run.Spec.Search.Load.Vary == spatev1.VaryOpenConnections
}

// trialPhases are the lengths of a trial's phases in engines.
type trialPhases struct{ warmup, sends, drain time.Duration }

func (p trialPhases) endAfter(start time.Time) time.Time {
	return start.Add(p.warmup + p.sends + p.drain)
}

// phasesOf are the phases of a trial.
func (s *scope) phasesOf(trial *spatev1.TrialInput) trialPhases {
	if s.opens() {
		return trialPhases{sends: parsed(s.run.Spec.Search.Load.Ramp), drain: time.Duration(trial.Duration)}
	}
	return trialPhases{s.warmup(), time.Duration(trial.Duration), s.drain()}
}

// openLoads sets the bounds of a search for open connections.
func (s *scope) openLoads(clients bool) error {
	if !clients {
		return &refusal{spatev1.ReasonInvalidSpec, "spec.search.load.vary: OpenConnections is for applications that have clients, and the profile has none"}
	}
	from, texts := s.run.Spec.Search.Load, [2]string{}
	for i, rate := range []spatev1.SearchRate{from.Min, from.Max} {
		number, err := quantity.ParseSearchRate(rate)
		if err == nil && number.Unit != quantity.OpenConnections {
			err = fmt.Errorf("must be a number of connections such as 10kconn")
		}
		if err != nil {
			return &refusal{spatev1.ReasonInvalidSpec, fmt.Sprintf("spec.search.load.%s %q: %v", []string{"min", "max"}[i], rate, err)}
		}
		value, _ := number.Value.Float64()
		texts[i] = sequence.Text(value)
	}
	return s.bounds(spatev1.UnitOpen, texts[0], texts[1])
}

// countOpen is what a trial of open connections came to. Connections that were due and not attempted were not sent: the generator was the limit, as
// by its flow table, its ports, or maxConcurrentFlows of a template. Of those attempted, all that are not open at the end of the trial are lost.
func countOpen(flows *spatev1.FlowCounters) spatev1.TrialRecord {
	trial := spatev1.TrialRecord{LossRatio: "0"}
	if flows == nil {
		return trial
	}
	trial.Sent, trial.Received = flows.Attempted, flows.Aborted
	trial.Intended = flows.Attempted + flows.NotStarted + flows.Exhausted + flows.Throttled
	return withLossRatio(trial)
}
