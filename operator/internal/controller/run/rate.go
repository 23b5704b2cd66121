// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how are changes of the rates of a profile and its entries applied to an active run?

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/plan/quantity"
	"spate.dev/operator/internal/runs"
)

// updateMargin is the time from a change to its effect if several engines, or several changes, must apply at one instant.
const updateMargin = 50 * time.Millisecond

// requested are the live settings of a profile and a run.
type requested struct {
	rate    spatev1.ScaledRate
	entries []spatev1.EntryChange
	// paused is true if the profile or the run pauses all entries.
	paused bool
	// factor and changes in force since this request; empty if it was refused.
	factor  string
	changes []spatev1.EntryChange
	// refused holds the circumstances of a refusal, and message its text; both are empty if the request was not refused.
	refused, message string
}

func (a requested) equal(other requested) bool {
	return a.rate == other.rate && a.paused == other.paused && slices.Equal(a.entries, other.entries)
}

// applyRate sets the requested rates on all engines, unless limits forbid it. Then the current rates stay in force, and the profile's
// conditions report why.
func (s *scope) applyRate(ctx context.Context, stats []*enginev1.WatchStatsResponse) error {
	want := requested{rate: s.definition.Spec.Rate, entries: plan.EntryStates(s.run.Status.Resolved.Entries, s.definition), paused: s.definition.Spec.Paused}
	var applied requested
	known := s.found.requested != nil
	if known {
		applied = *s.found.requested
	}
	if len(s.run.Status.Resolved.Stages) > 0 {
		return s.applyPauses(ctx, want, applied)
	}
	around := ""
	if applied.refused != "" {
		var err error
		if around, err = s.circumstances(ctx); err != nil {
			return err
		}
	}
	if known && applied.equal(want) && applied.refused == around {
		if applied.factor != "" { // also if that status was never written
			s.run.Status.RateFactor, s.run.Status.Entries, s.run.Status.Paused = applied.factor, applied.changes, applied.paused
		}
		return nil
	}
	live, err := s.adjust(ctx, want, applied)
	var factor *enginev1.Ratio
	if err == nil {
		if factor, err = quantity.Ratio(live.Factor); err != nil {
			err = &refusal{spatev1.ReasonInvalidSpec, "spec.rate: " + err.Error()}
		}
	}
	var no *refusal
	if errors.As(err, &no) {
		if no.message != applied.message {
			s.r.Events.Eventf(s.run, nil, corev1.EventTypeWarning, "RateRefused", "Update", "%s", no.message)
		}
		if want.refused, err = s.circumstances(ctx); err != nil {
			return err
		}
		want.factor, want.changes, want.message = applied.factor, applied.changes, no.message
		s.found.requested = &want
		return nil
	}
	if err != nil {
		return err
	}
	before := s.run.Status.Entries
	if known && applied.factor != "" {
		before = applied.changes
	}
	want.factor, want.changes = live.OwnFactor.RatString(), want.entries
	if len(want.entries)+len(before) == 0 && inForce(stats, factor) {
		s.run.Status.RateFactor = want.factor
		s.found.requested = &want
		return nil
	}
	facts, err := s.r.Memory.Of(ctx, s.run)
	if err != nil {
		return err
	}
	if err := s.send(ctx, factor, live, facts.Selected, s.pauses(want.entries, before, facts.Selected)); err != nil {
		var e *engine.Error
		if errors.As(err, &e) && e.Code == codes.FailedPrecondition {
			return nil // the run is ending
		}
		return fmt.Errorf("change the rate: %w", err)
	}
	s.run.Status.RateFactor, s.run.Status.Entries, s.run.Status.Paused = want.factor, want.changes, want.paused
	s.found.requested = &want
	s.r.Events.Eventf(s.run, nil, corev1.EventTypeNormal, "RateChanged", "Update", "sends at %s times the entries' own rates%s", s.run.Status.RateFactor, changesOf(want))
	return nil
}

// applyPauses pauses and resumes entries of a run with stages. Their rates are those of the stages.
func (s *scope) applyPauses(ctx context.Context, want, applied requested) error {
	status := &s.run.Status
	if s.found.requested != nil && applied.equal(want) {
		status.Entries, status.Paused = applied.changes, applied.paused
		return nil
	}
	want.changes = slices.Clone(want.entries)
	for i, change := range want.entries {
		if change.Rate != "" || change.ConnectionRate != "" {
			message := fmt.Sprintf("entry %s: the rates of a run with stages cannot be changed while it is active", change.Name)
			s.r.Events.Eventf(s.run, nil, corev1.EventTypeWarning, "RateRefused", "Update", "%s", message)
			want.changes[i].Rate, want.changes[i].ConnectionRate = "", ""
		}
	}
	facts, err := s.r.Memory.Of(ctx, s.run)
	if err != nil {
		return err
	}
	id := status.Resolved.RunID
	for paused, which := range s.pauses(want.changes, status.Entries, facts.Selected) {
		err := errors.Join(s.each(ctx, func(_ int, _ *corev1.Pod, c *engine.Client) error {
			_, err := c.SetPaused(ctx, id, which, paused, time.Time{})
			return err
		})...)
		var e *engine.Error
		if errors.As(err, &e) && e.Code == codes.FailedPrecondition {
			return nil // the run is ending
		}
		if err != nil {
			return fmt.Errorf("pause entries: %w", err)
		}
	}
	status.Entries, status.Paused = want.changes, want.paused
	s.found.requested = &want
	return nil
}

// circumstances identify what a refusal depends on besides the profile: the generator's limits, and the other runs with their rates.
// When they change, the request is retried.
func (s *scope) circumstances(ctx context.Context) (string, error) {
	active, err := runs.ActiveOn(ctx, s.r.Client, s.generator)
	var text strings.Builder
	fmt.Fprint(&text, s.generator.Generation)
	for _, other := range runs.Without(active, s.run.UID) {
		fmt.Fprintf(&text, " %s=%s%v", other.UID, other.Status.RateFactor, other.Status.Entries)
	}
	return text.String(), err
}

// changesOf describes changed entries.
func changesOf(want requested) string {
	if want.paused {
		return "; the run is paused"
	}
	var texts []string
	for _, e := range want.entries {
		switch {
		case e.Paused:
			texts = append(texts, e.Name+" is paused")
		case e.Rate != "":
			texts = append(texts, fmt.Sprintf("%s has %s", e.Name, e.Rate))
		case e.ConnectionRate != "":
			texts = append(texts, fmt.Sprintf("%s has %s", e.Name, e.ConnectionRate))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "; " + strings.Join(texts, ", ")
}

// pauses are the entries to pause or resume: those that differ from the snapshot, and those that did.
func (s *scope) pauses(want, before []spatev1.EntryChange, selected map[string][]string) map[bool]*enginev1.Selector {
	names := map[string]bool{}
	for _, change := range before {
		at := slices.IndexFunc(s.run.Status.Resolved.Entries, func(e spatev1.EntrySnapshot) bool { return e.Name == change.Name })
		if at >= 0 && s.run.Status.Resolved.Entries[at].Paused != change.Paused {
			names[change.Name] = s.run.Status.Resolved.Entries[at].Paused
		}
	}
	for _, change := range want {
		names[change.Name] = change.Paused
	}
	split := map[bool]*enginev1.Selector{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		which := split[names[name]]
		if which == nil {
			which = &enginev1.Selector{}
			split[names[name]] = which
		}
		if s.isTemplate(name) {
			which.Templates = append(which.Templates, name)
		} else {
			which.Streams = append(which.Streams, streamsOf(name, selected)...)
		}
	}
	return split
}

// streamsOf returns the names of an entry's streams: its own, or those of the streams that it selects.
func streamsOf(entry string, selected map[string][]string) []string {
	if names := selected[entry]; len(names) > 0 {
		return names
	}
	return []string{entry}
}

// isTemplate reports whether an entry is an application with clients.
func (s *scope) isTemplate(entry string) bool {
	return slices.ContainsFunc(s.run.Status.Resolved.Entries, func(e spatev1.EntrySnapshot) bool { return e.Name == entry && e.ConnectionRate != "" })
}

// send applies the settings on all engines, at one instant.
func (s *scope) send(ctx context.Context, factor *enginev1.Ratio, live plan.Live, selected map[string][]string, pauses map[bool]*enginev1.Selector) error {
	at := time.Time{}
	if len(s.pods) > 1 || len(live.Rates)+len(live.ConnectionRates) > 0 {
		at = time.Now().Add(updateMargin)
	}
	id := s.run.Status.Resolved.RunID
	return errors.Join(s.each(ctx, func(_ int, _ *corev1.Pod, c *engine.Client) error {
		if _, err := c.SetRateFactor(ctx, id, factor, at); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(live.Rates)) {
			if _, err := c.SetRate(ctx, id, streamsOf(name, selected), live.Rates[name], at); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(live.ConnectionRates)) {
			if _, err := c.SetConnectionRate(ctx, id, name, live.ConnectionRates[name], at); err != nil {
				return err
			}
		}
		for _, paused := range []bool{true, false} {
			if which := pauses[paused]; which != nil {
				if _, err := c.SetPaused(ctx, id, which, paused, at); err != nil {
					return err
				}
			}
		}
		return nil
	})...)
}

func inForce(stats []*enginev1.WatchStatsResponse, want *enginev1.Ratio) bool {
	for _, st := range present(stats) {
		have := st.GetRun().GetRateFactor()
		// A missing factor is the initial one, 1.
		n, d := max(have.GetNumerator(), 0), have.GetDenominator()
		if have == nil || d == 0 {
			n, d = 1, 1
		}
		if n*want.Denominator != want.Numerator*d {
			return false
		}
	}
	return true
}

// adjust computes the requested settings, or a refusal if limits or the other runs of the generator forbid them. If limits.maxRate was
// lowered meanwhile, engines throttle the run: then a request for no more than the current rates (`applied`) is allowed.
func (s *scope) adjust(ctx context.Context, want, applied requested) (plan.Live, error) {
	planned, err := quantity.ParseFactor(s.run.Status.Resolved.RateFactor)
	if err != nil {
		return plan.Live{}, err
	}
	facts, err := s.r.Memory.Of(ctx, s.run)
	if err != nil {
		return plan.Live{}, err
	}
	var live plan.Live
	err = s.r.Memory.Outline(ctx, s.run, func(p *enginev1.Plan) (err error) {
		if live, err = plan.Adjust(p, planned, want.rate, want.entries, facts.Selected, s.generator); err != nil {
			return &refusal{spatev1.ReasonInvalidSpec, err.Error()}
		}
		return nil
	})
	if err != nil {
		return plan.Live{}, err
	}
	active, err := runs.ActiveOn(ctx, s.r.Client, s.generator)
	if err != nil {
		return plan.Live{}, err
	}
	others, err := s.r.Memory.LoadOf(ctx, runs.Without(active, s.run.UID))
	if err != nil {
		return plan.Live{}, err
	}
	at := field.NewPath("spec", "rate")
	problems := load.CheckMaxRate(live.Load.Plus(others), s.generator, at)
	if len(problems) > 0 {
		have, err := s.loadInForce(ctx, applied)
		if err != nil {
			return plan.Live{}, err
		}
		if live.Load.NoGreater(have, s.generator.Spec.Limits) {
			problems = nil
		}
	}
	problems = append(problems, load.CheckLineRates(live.Load.Plus(others), s.generator, at)...)
	if len(problems) > 0 {
		return plan.Live{}, &refusal{problems.Reason(), "with all runs of the generator: " + problems.Message()}
	}
	return live, nil
}

// loadInForce is the run's load at its current rates: as last applied, else as in its status.
func (s *scope) loadInForce(ctx context.Context, applied requested) (load.Load, error) {
	have := *s.run
	if applied.factor != "" {
		have.Status.RateFactor, have.Status.Entries = applied.factor, applied.changes
	}
	return s.r.Memory.LoadOf(ctx, []spatev1.TrafficRun{have})
}
