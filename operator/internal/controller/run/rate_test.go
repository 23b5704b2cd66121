// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// The run was planned with 1000 packets a second.
func TestBeyondALoweredGreatestRateARunMayHaveLessButNotMore(t *testing.T) {
	entry := func(change spatev1.EntryChange) []spatev1.EntryChange {
		change.Name = "a"
		return []spatev1.EntryChange{change}
	}
	for name, c := range map[string]struct {
		maxRate spatev1.AbsoluteRate
		want    requested
		applied requested // since the operator's start
		refused string
	}{
		"as it is, after a restart":         {"300pps", requested{}, requested{}, ""},
		"as it is":                          {"300pps", requested{}, requested{factor: "1"}, ""},
		"less":                              {"300pps", requested{rate: "0.5x"}, requested{factor: "1"}, ""},
		"less in all":                       {"300pps", requested{rate: "400pps"}, requested{factor: "1"}, ""},
		"less of an entry":                  {"300pps", requested{entries: entry(spatev1.EntryChange{Rate: "500pps"})}, requested{factor: "1"}, ""},
		"a pause":                           {"300pps", requested{entries: entry(spatev1.EntryChange{Paused: true})}, requested{factor: "1"}, ""},
		"less in bits":                      {"100kbps", requested{rate: "0.5x"}, requested{factor: "1"}, ""},
		"more":                              {"300pps", requested{rate: "2x"}, requested{factor: "1"}, spatev1.ReasonLimitExceeded},
		"more, after a restart":             {"300pps", requested{rate: "2x"}, requested{}, spatev1.ReasonLimitExceeded},
		"more of an entry":                  {"300pps", requested{entries: entry(spatev1.EntryChange{Rate: "1001pps"})}, requested{factor: "1"}, spatev1.ReasonLimitExceeded},
		"more than it was lowered to":       {"300pps", requested{rate: "0.8x"}, requested{factor: "1/2"}, spatev1.ReasonLimitExceeded},
		"more than its entry was lowered":   {"300pps", requested{}, requested{factor: "1", changes: entry(spatev1.EntryChange{Rate: "500pps"})}, spatev1.ReasonLimitExceeded},
		"more, within what is allowed":      {"3kpps", requested{rate: "3x"}, requested{factor: "1"}, ""},
		"more, and there it is not allowed": {"3kpps", requested{rate: "3.1x"}, requested{factor: "1"}, spatev1.ReasonLimitExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			s := underWayOn(t, c.maxRate)
			_, err := s.adjust(t.Context(), c.want, c.applied)
			var no *refusal
			if got := errors.As(err, &no); got && no.reason != c.refused || !got && (err != nil || c.refused != "") {
				t.Errorf("%v, want %q", err, c.refused)
			}
		})
	}
}

// The line rate of a port is a hard limit, whatever the run's current rates.
func TestLessIsRefusedWhereAPortCannotCarryIt(t *testing.T) {
	s := underWayOn(t, "300pps")
	s.generator.Spec.Ports = []spatev1.GeneratorPort{{Name: "p0", LineRate: "1kbps"}}
	_, err := s.adjust(t.Context(), requested{rate: "0.5x"}, requested{})
	var no *refusal
	if !errors.As(err, &no) || no.reason != spatev1.ReasonOversubscribed {
		t.Errorf("%v", err)
	}
}

func TestARestartedOperatorRefusesNothingThatNobodyAsked(t *testing.T) {
	s := underWayOn(t, "300pps")
	stats := []*enginev1.WatchStatsResponse{{Run: &enginev1.RunInfo{}}} // at the rate of the start
	must(t, s.applyRate(t.Context(), stats))
	expectEvents(t, "nothing asked", s.eventsSince())
	if s.run.Status.RateFactor != "1" {
		t.Errorf("%s", s.run.Status.RateFactor)
	}
	s.profile.Spec.Rate = "2x"
	for range 2 {
		must(t, s.applyRate(t.Context(), stats))
	}
	expectEvents(t, "more asked", s.eventsSince(), "Warning RateRefused with all runs of the generator: spec.rate: the traffic needs 2kpps in all, and generator lab allows 300pps")
}
