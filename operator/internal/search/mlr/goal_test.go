// SPDX-License-Identifier: Apache-2.0

package mlr

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestGoalsThatCannotBeReachedAreRefused(t *testing.T) {
	for want, change := range map[string]func(g *Goal){
		"goals[a].lossRatio: 1 is not a loss ratio; give a value from 0":                                         func(g *Goal) { g.LossRatio = 1 },
		"goals[a].lossRatio: -0.1":                                                                               func(g *Goal) { g.LossRatio = -0.1 },
		"goals[a].exceedRatio: 1 is not a share":                                                                 func(g *Goal) { g.ExceedRatio = 1 },
		"goals[a].exceedRatio: NaN":                                                                              func(g *Goal) { g.ExceedRatio = math.NaN() },
		"goals[a].width: 0 is not a relative width":                                                              func(g *Goal) { g.Width = 0 },
		"goals[a].width: 1 is not a relative width":                                                              func(g *Goal) { g.Width = 1 },
		"goals[a].width: 1e-07":                                                                                  func(g *Goal) { g.Width = 1e-7 },
		"goals[a].initialTrialDuration: 0 s":                                                                     func(g *Goal) { g.InitialTrialDuration = 0 },
		"finalTrialDuration: 60 s is shorter than initialTrialDuration, 90 s; lower":                             func(g *Goal) { g.InitialTrialDuration = 90 },
		"durationSum: 30 s is shorter than finalTrialDuration, 60 s; raise durationSum":                          func(g *Goal) { g.DurationSum = 30 },
		"goals[a].durationSum: +Inf":                                                                             func(g *Goal) { g.DurationSum = math.Inf(1) },
		"precedingTargets: 0 preceding targets make no use of trials":                                            func(g *Goal) { g.PrecedingTargets = 0 },
		"goals[a].precedingTargets: -1 is out of range; give 0 to 16":                                            func(g *Goal) { g.PrecedingTargets = -1 },
		"goals[a].expansion: 1 is out of range; give 2":                                                          func(g *Goal) { g.Expansion = 1 },
		"load.min: 10 per second is less than one packet or connection in a trial of goal a, 0.01 s; raise load": func(g *Goal) { g.InitialTrialDuration = 0.01 },
	} {
		goal := RFC2544("a")
		change(&goal)
		_, err := New(10, 1000, []Goal{goal})
		var field *FieldError
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &field) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestSearchesThatCannotBeAreRefused(t *testing.T) {
	one := []Goal{RFC2544("a")}
	for want, err := range map[string]error{
		"load.max: 10 per second is not above load.min, 10 per second; raise": second(New(10, 10, one)),
		"load.max: +Inf":                    second(New(10, math.Inf(1), one)),
		"load.min: 0 per second is no load": second(New(0, 10, one)),
		"load.min: NaN":                     second(New(math.NaN(), 10, one)),
		"goals: 0 goals; give 1 to 8":       second(New(1, 10, nil)),
		"goals: 9 goals":                    second(New(1, 10, make([]Goal, 9))),
		"goals[a].name: another goal has":   second(New(1, 10, []Goal{one[0], TST009("a")})),
		"goals: no grid of loads fits":      second(New(1000, 1000.0001, []Goal{{"a", 0, 0, 0.9, 1, 1, 1, 0, 2}})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func second(_ *Search, err error) error { return err }

func TestTargetsBecomeFiner(t *testing.T) {
	s, err := New(9001, 14.88e6, []Goal{{"csit", 0, 0.5, 0.005, 1, 1, 21, 2, 2}, TST009("tst")})
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ trial, sum, width float64 }
	want := [][]row{{{1, 1, 4}, {1, math.Sqrt(21), 2}, {1, 21, 1}}, {{1, 1, 4}, {math.Sqrt(120), math.Sqrt(120), 2}, {60, 120, 1}}}
	for goal, targets := range s.chains {
		for i, target := range targets {
			w := want[goal][i]
			if math.Abs(target.trial-w.trial) > 1e-9 || math.Abs(target.sum-w.sum) > 1e-9 || float64(target.width) != w.width*float64(targets[2].width) {
				t.Errorf("goal %d, target %d: got %+v, want %+v", goal, i, *target, w)
			}
		}
	}
}
