// SPDX-License-Identifier: Apache-2.0

// Which live changes does a run need: another total rate, other rates of entries, and which entries are paused?

package plan

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/plan/origin"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/quantity"
)

// EntryStates returns the entries of a profile that differ from a run's snapshot.
func EntryStates(snapshot []spatev1.EntrySnapshot, profile *spatev1.TrafficProfile) []spatev1.EntryChange {
	var all []spatev1.EntryChange
	for _, e := range profile.Spec.Traffic {
		at := slices.IndexFunc(snapshot, func(s spatev1.EntrySnapshot) bool { return s.Name == string(e.Name) })
		if at < 0 {
			continue // a profile without the entry starts another run
		}
		was, change := snapshot[at], spatev1.EntryChange{Name: string(e.Name), Paused: pausedIn(&e, profile)}
		if e.Stream != nil {
			if rate := cmp.Or(e.Stream.Rate, was.StreamRate); rate != was.Rate {
				change.Rate = rate
			}
		}
		if e.Application != nil {
			if rate := cmp.Or(e.Application.ConnectionRate, was.TemplateRate); rate != was.ConnectionRate {
				change.ConnectionRate = rate
			}
		}
		if change.Rate != "" || change.ConnectionRate != "" || change.Paused != was.Paused {
			all = append(all, change)
		}
	}
	return all
}

// Live is what an active run is to send.
type Live struct {
	Rescaled
	// Rates of the entries whose own rate was changed, by name, multiplied by OwnFactor.
	Rates map[string]*enginev1.Rate
	// ConnectionRates likewise, of entries with templates, in connections per second.
	ConnectionRates map[string]*enginev1.Ratio
}

// Adjust returns what spec.rate and changed entries require of a run that was planned with the factor `planned`.
// selected are the streams of the entries that select them (see origin.Selected).
func Adjust(plan *enginev1.Plan, planned *big.Rat, rate spatev1.ScaledRate, changes []spatev1.EntryChange, selected map[string][]string,
	generator *spatev1.TrafficGenerator,
) (Live, error) {
	rates, own := map[string]quantity.Quantity{}, map[string]quantity.Quantity{} // of entries, and of streams
	for _, change := range changes {
		if change.Rate == "" {
			continue
		}
		requested, err := quantity.ParseRate(change.Rate)
		if err != nil {
			return Live{}, fmt.Errorf("entry %s: rate %q: %w", change.Name, change.Rate, err)
		}
		names := []string{change.Name}
		if some := selected[change.Name]; len(some) > 0 {
			names = some
		}
		if requested, err = onPort(requested, firstStream(plan, names[0]), generator); err != nil {
			return Live{}, fmt.Errorf("entry %s: rate %q: %w", change.Name, change.Rate, err)
		}
		rates[change.Name] = requested
		for _, name := range names {
			own[name] = requested
		}
	}
	changed, err := withRates(plan, planned, own)
	if err != nil {
		return Live{}, err
	}
	live := Live{Rates: map[string]*enginev1.Rate{}}
	if live.Rescaled, err = Rescale(changed, planned, rate, generator); err != nil {
		return Live{}, err
	}
	for name, requested := range rates {
		ratio, err := quantity.RateRatio(requested.Unit, new(big.Rat).Mul(requested.Value, live.OwnFactor))
		if err != nil {
			return Live{}, fmt.Errorf("entry %s: %w", name, err)
		}
		live.Rates[name] = quantity.PlanRate(requested.Unit, ratio)
	}
	live.ConnectionRates, err = connectionRates(changes, live.OwnFactor)
	return live, err
}

// connectionRates returns the changed rates of entries with templates, at a factor.
func connectionRates(changes []spatev1.EntryChange, factor *big.Rat) (map[string]*enginev1.Ratio, error) {
	all := map[string]*enginev1.Ratio{}
	for _, change := range changes {
		if change.ConnectionRate == "" {
			continue
		}
		rate, err := quantity.ParseConnectionRate(change.ConnectionRate)
		if err != nil {
			return nil, fmt.Errorf("entry %s: connectionRate %q: %w", change.Name, change.ConnectionRate, err)
		}
		if all[change.Name], err = quantity.RateRatio(quantity.PacketsPerSecond, rate.Mul(rate, factor)); err != nil {
			return nil, fmt.Errorf("entry %s: connectionRate %q: %w", change.Name, change.ConnectionRate, err)
		}
	}
	return all, nil
}

// firstStream returns the first stream that is counted under a name; nil if there is none.
func firstStream(plan *enginev1.Plan, name string) *enginev1.Stream {
	for _, s := range plan.GetStreams() {
		if origin.CountedAs(s) == name {
			return s
		}
	}
	return nil
}

// onPort converts a share of the line rate of a stream's port to an absolute rate.
func onPort(rate quantity.Quantity, s *enginev1.Stream, generator *spatev1.TrafficGenerator) (quantity.Quantity, error) {
	if rate.Unit != quantity.LinePercent {
		return rate, nil
	}
	if generator == nil {
		return rate, fmt.Errorf("its generator is gone")
	}
	var problems problem.Problems
	if rate = absolute(rate, s.GetTxPort(), s.GetEngines(), generator, spec, &problems); len(problems) > 0 {
		return rate, fmt.Errorf("%s", problems[0].Message)
	}
	return rate, nil
}

// withRates returns a plan whose streams have other rates of their own, for its load only: its streams are incomplete.
func withRates(plan *enginev1.Plan, planned *big.Rat, own map[string]quantity.Quantity) (*enginev1.Plan, error) {
	if len(own) == 0 {
		return plan, nil
	}
	changed := &enginev1.Plan{RunId: plan.GetRunId(), Stateful: plan.GetStateful()}
	for _, s := range plan.GetStreams() {
		requested, known := own[origin.CountedAs(s)]
		if !known {
			changed.Streams = append(changed.Streams, s)
			continue
		}
		ratio, err := quantity.RateRatio(requested.Unit, new(big.Rat).Mul(requested.Value, planned))
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", s.GetName(), err)
		}
		copied := &enginev1.Stream{
			Name: s.GetName(), Group: s.GetGroup(), TxPort: s.GetTxPort(), Packet: s.GetPacket(), Program: s.GetProgram(),
			Waits: s.GetWaits(), Next: s.GetNext(), Engines: s.GetEngines(),
		}
		rate := quantity.PlanRate(requested.Unit, ratio)
		if bursts := s.GetBursts(); bursts != nil {
			copied.Transmit = &enginev1.Stream_Bursts{Bursts: &enginev1.Bursts{Rate: rate, Packets: bursts.GetPackets(), Count: bursts.GetCount(), GapNs: bursts.GetGapNs()}}
		} else {
			copied.Transmit = &enginev1.Stream_Continuous{Continuous: &enginev1.Continuous{Rate: rate}}
		}
		changed.Streams = append(changed.Streams, copied)
	}
	return changed, nil
}

// OwnLoad returns the load of a run at a factor of 1 of its entries' own rates, including live changes.
func OwnLoad(plan *enginev1.Plan, planned *big.Rat, changes []spatev1.EntryChange, selected map[string][]string, generator *spatev1.TrafficGenerator) (load.Load, error) {
	live, err := Adjust(plan, planned, "", changes, selected, generator)
	return live.Load, err
}
