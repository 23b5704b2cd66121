// SPDX-License-Identifier: Apache-2.0

package mlr

// This file answers: what is searched for, and through which coarser targets?

import (
	"fmt"
	"math"
)

// Goal is a search goal of RFC 9971 section 4.6. Ratios and widths are fractions, not percent.
type Goal struct {
	// Name of the goal, unique in a search.
	Name string
	// LossRatio is the greatest loss ratio of a low-loss trial.
	LossRatio float64
	// ExceedRatio is the greatest share of DurationSum that high-loss trials may have at a lower bound.
	ExceedRatio float64
	// Width is the greatest relative width between the bounds: (upper - lower) / upper.
	Width float64
	// InitialTrialDuration is the duration of the first trials, in seconds.
	InitialTrialDuration float64
	// FinalTrialDuration is the duration of a full-length trial, in seconds.
	FinalTrialDuration float64
	// DurationSum is the duration of all full-length trials that classifies a load, in seconds.
	DurationSum float64
	// PrecedingTargets is the number of coarser targets that are reached before the goal's own.
	PrecedingTargets int
	// Expansion is the factor of the width with each step while a bound is missing.
	Expansion int
}

// RFC2544 returns the goal of RFC 2544: 60 s without loss (RFC 9971 section 4.6.11).
func RFC2544(name string) Goal {
	return Goal{
		Name: name, Width: 0.005, InitialTrialDuration: 1, FinalTrialDuration: 60, DurationSum: 60, PrecedingTargets: 2, Expansion: 2,
	}
}

// TST009 returns the goal of ETSI GS NFV-TST 009, binary search with loss verification: one of two trials of 60 s without loss.
func TST009(name string) Goal {
	goal := RFC2544(name)
	goal.ExceedRatio, goal.DurationSum = 0.5, 120
	return goal
}

// RFC9411 returns the goal of a test of RFC 9411: a sustain phase of 300 s (section 4.3.4) in which at most 0.001 % fail (section 7.2.3).
func RFC9411(name string) Goal {
	goal := RFC2544(name)
	goal.LossRatio, goal.FinalTrialDuration, goal.DurationSum = 0.00001, 300, 300
	return goal
}

// FieldError is a value that a search refuses.
type FieldError struct {
	// Field is its path in the search's parameters.
	Field string
	// Problem says what is wrong, and what would be right.
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

func problem(field, format string, values ...any) *FieldError {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, values...)}
}

// Limits of what a goal can ask for.
const (
	// MinWidth is the least width: loads that are closer are not distinguished.
	MinWidth = 1e-6
	// MaxPrecedingTargets is the greatest number of preceding targets.
	MaxPrecedingTargets = 16
	// MaxExpansion is the greatest expansion.
	MaxExpansion = 1024
	// MaxGoals is the greatest number of goals of one search.
	MaxGoals = 8
)

// Check returns what is wrong with a goal.
func (g Goal) Check() []*FieldError {
	at := func(field string) string { return fmt.Sprintf("goals[%s].%s", g.Name, field) }
	var problems []*FieldError
	refuse := func(field, format string, values ...any) {
		problems = append(problems, problem(at(field), format, values...))
	}
	if !(g.LossRatio >= 0 && g.LossRatio < 1) {
		refuse("lossRatio", "%v is not a loss ratio; give a value from 0 to below 1, as 0.005 for 0.5 %%", g.LossRatio)
	}
	if !(g.ExceedRatio >= 0 && g.ExceedRatio < 1) {
		refuse("exceedRatio", "%v is not a share; give a value from 0 to below 1, as 0.5 for half of the trials", g.ExceedRatio)
	}
	if !(g.Width >= MinWidth && g.Width < 1) {
		refuse("width", "%v is not a relative width; give a value above 0, at least %v, and below 1, as 0.005 for 0.5 %%", g.Width, MinWidth)
	}
	if !(g.InitialTrialDuration > 0) || math.IsInf(g.InitialTrialDuration, 0) {
		refuse("initialTrialDuration", "%v s is no duration of a trial; give one above 0, as 1s", g.InitialTrialDuration)
	}
	if !(g.FinalTrialDuration >= g.InitialTrialDuration) || math.IsInf(g.FinalTrialDuration, 0) {
		refuse("finalTrialDuration", "%v s is shorter than initialTrialDuration, %v s; lower initialTrialDuration or raise finalTrialDuration",
			g.FinalTrialDuration, g.InitialTrialDuration)
	}
	if !(g.DurationSum >= g.FinalTrialDuration) || math.IsInf(g.DurationSum, 0) {
		refuse("durationSum", "%v s is shorter than finalTrialDuration, %v s; raise durationSum to at least that", g.DurationSum, g.FinalTrialDuration)
	}
	switch {
	case g.PrecedingTargets < 0 || g.PrecedingTargets > MaxPrecedingTargets:
		refuse("precedingTargets", "%d is out of range; give 0 to %d", g.PrecedingTargets, MaxPrecedingTargets)
	case g.PrecedingTargets == 0 && g.InitialTrialDuration < g.DurationSum:
		refuse("precedingTargets", "0 preceding targets make no use of trials that are shorter than durationSum, %v s: give at least 1, or "+
			"set initialTrialDuration to that", g.DurationSum)
	}
	if g.Expansion < 2 || g.Expansion > MaxExpansion {
		refuse("expansion", "%d is out of range; give 2 to %d", g.Expansion, MaxExpansion)
	}
	return problems
}

// target is a goal, or a coarser one that is reached before it.
type target struct {
	// number among the targets of all goals, and of its goal.
	number, goal int
	loss, exceed float64
	width        int     // in units of the grid
	trial        float64 // duration of a full-length trial, in seconds
	sum          float64 // duration sum, in seconds
	expansion    int
}

// targets returns the targets of a goal from the coarsest to the goal's own. From one to the one before it, the width doubles and the duration
// sum shrinks by a constant factor down to the initial duration.
func (g Goal) targets(grid Grid, goal, number int) []target {
	chain := make([]target, g.PrecedingTargets+1)
	width := grid.width(g.Width)
	for i := range chain {
		before := g.PrecedingTargets - i // the number of targets after this one
		sum := g.sumBefore(before)
		chain[i] = target{
			number: number + i, goal: goal, loss: g.LossRatio, exceed: g.ExceedRatio, width: grid.clamp(width << before),
			trial: min(g.FinalTrialDuration, sum), sum: sum, expansion: g.Expansion,
		}
	}
	return chain
}

// sumBefore returns the duration sum of the target that is `targets` before the goal's own.
func (g Goal) sumBefore(targets int) float64 {
	switch targets {
	case 0:
		return g.DurationSum
	case g.PrecedingTargets:
		return g.InitialTrialDuration
	}
	factor := power(g.InitialTrialDuration/g.DurationSum, 1/float64(g.PrecedingTargets))
	return g.DurationSum * power(factor, float64(targets))
}
