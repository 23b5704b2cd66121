// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how does a change of the profile's rate reach a run under way?

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/operator/api/v1alpha1"
	"spate.dev/operator/internal/controller/snapshot"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
)

// updateMargin is the time from a change to its effect where several engines must make it at one instant.
const updateMargin = 50 * time.Millisecond

// applyRate makes all engines send at the profile's rate, unless limits forbid it; then the rate in force stays, and
// the profile's conditions tell why.
func (s *scope) applyRate(ctx context.Context, stats []*enginev1.WatchStatsResponse) error {
	want := s.profile.Spec.Rate
	s.r.mu.Lock()
	applied, known := s.r.rates[s.run.UID]
	s.r.mu.Unlock()
	if known && applied == want {
		return nil
	}
	rescaled, err := s.rescale(ctx, want)
	var no *refusal
	if errors.As(err, &no) {
		s.r.Events.Eventf(s.run, nil, corev1.EventTypeWarning, "RateRefused", "Update", "%s", no.message)
		s.setRate(want) // told once; a change of limits or of other runs is taken up with the next change
		return nil
	}
	if err != nil {
		return err
	}
	factor, err := plan.Ratio(rescaled.Factor)
	if err != nil {
		s.r.Events.Eventf(s.run, nil, corev1.EventTypeWarning, "RateRefused", "Update", "spec.rate: %v", err)
		s.setRate(want)
		return nil
	}
	s.run.Status.RateFactor = rescaled.OwnFactor.RatString()
	if inForce(stats, factor) {
		s.setRate(want)
		return nil
	}
	at := time.Time{}
	if len(s.pods) > 1 {
		at = time.Now().Add(updateMargin)
	}
	errs := s.each(ctx, func(_ int, _ *corev1.Pod, c *engine.Client) error {
		_, err := c.SetRateFactor(ctx, s.run.Spec.RunID, factor, at)
		return err
	})
	if err := errors.Join(errs...); err != nil {
		var e *engine.Error
		if errors.As(err, &e) && e.Code == codes.FailedPrecondition {
			return nil // it is ending
		}
		return fmt.Errorf("change the rate: %w", err)
	}
	s.setRate(want)
	s.r.Events.Eventf(s.run, nil, corev1.EventTypeNormal, "RateChanged", "Update", "sends at %s times the entries' own rates", s.run.Status.RateFactor)
	return nil
}

func (s *scope) setRate(rate spatev1.ScaledRate) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.rates[s.run.UID] = rate
}

func inForce(stats []*enginev1.WatchStatsResponse, want *enginev1.Ratio) bool {
	for _, st := range stats {
		have := st.GetRun().GetRateFactor()
		// A missing factor is that of the start, 1.
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

// rescale works out what a rate asks of the run, or a refusal if limits or the other runs of the generator forbid it.
func (s *scope) rescale(ctx context.Context, want spatev1.ScaledRate) (plan.Rescaled, error) {
	bytes, err := snapshot.Load(ctx, s.r.Memory.Reader, s.run)
	if err != nil {
		return plan.Rescaled{}, err
	}
	p, err := plan.Decode(bytes)
	if err != nil {
		return plan.Rescaled{}, err
	}
	planned, err := plan.ParseFactor(s.run.Spec.RateFactor)
	if err != nil {
		return plan.Rescaled{}, err
	}
	rescaled, err := plan.Rescale(p, planned, want)
	if err != nil {
		return plan.Rescaled{}, &refusal{spatev1.ReasonInvalidSpec, err.Error()}
	}
	active, err := ActiveOn(ctx, s.r.Client, s.generator)
	if err != nil {
		return plan.Rescaled{}, err
	}
	others, err := s.r.Memory.LoadOf(ctx, Without(active, s.run.UID))
	if err != nil {
		return plan.Rescaled{}, err
	}
	problems := plan.CheckLoad(rescaled.Load.Plus(others), s.generator, field.NewPath("spec", "rate"))
	if len(problems) > 0 {
		return plan.Rescaled{}, &refusal{problems.Reason(), "with all runs of the generator: " + problems.Message()}
	}
	return rescaled, nil
}
