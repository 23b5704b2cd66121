// SPDX-License-Identifier: Apache-2.0

package verdict

// This file answers: which fields can a threshold of a search use, is it valid, and is it true of what the search found?

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/common/ast"
)

// Search is the type of `search` in an expression: what a search found. Loads are packets a second of the busiest transmitting port, or
// connections a second of all applications.
type Search struct {
	Variants map[string]Variant `cel:"variants"`
}

// Variant is the type of an entry of `search.variants`.
type Variant struct {
	// Goals by name.
	Goals map[string]Goal `cel:"goals"`
	// Latency by the percentage of the throughput, such as "50". A latency that was not measured is absent: using it is an error, not a zero.
	Latency map[string]LatencyRow `cel:"latency"`
	// FrameLoss from the maximum load down.
	FrameLoss []FrameLossRow `cel:"frameLoss"`
	// BackToBack has the keys of BurstKeys; none if no burst was measured.
	BackToBack map[string]any `cel:"backToBack"`
	// Recovery has the keys of RecoveryKeys; none if no trial of an overload was made.
	Recovery map[string]any `cel:"recovery"`
	// Reset has the keys of ResetKeys; none if no trial of a reset was made.
	Reset   map[string]any `cel:"reset"`
	MaxLoad float64        `cel:"maxLoad"`
}

// Goal is the type of an entry of a variant's goals: of several repeats, the median.
type Goal struct {
	// Lower is 0 if there is no lower bound, Upper infinite if there is no upper one.
	Lower      float64 `cel:"lower"`
	Upper      float64 `cel:"upper"`
	Throughput float64 `cel:"throughput"`
	// LossRatio at the lower bound, by which the throughput is less; 1 if there is none.
	LossRatio float64 `cel:"lossRatio"`
	Regular   bool    `cel:"regular"`
	Confirmed bool    `cel:"confirmed"`
	Reason    string  `cel:"reason"`
	// Min, Max and Deviation of the lower bounds of all repeats.
	Min       float64 `cel:"min"`
	Max       float64 `cel:"max"`
	Deviation float64 `cel:"deviation"`
}

// LatencyRow is the type of an entry of a variant's latency.
type LatencyRow struct {
	Load           float64       `cel:"load"`
	Mean           time.Duration `cel:"mean"`
	Typical        time.Duration `cel:"typical"`
	WorstCase      time.Duration `cel:"worstCase"`
	DelayVariation time.Duration `cel:"delayVariation"`
}

// FrameLossRow is the type of an entry of a variant's frameLoss.
type FrameLossRow struct {
	Percent   float64 `cel:"percent"`
	Load      float64 `cel:"load"`
	LossRatio float64 `cel:"lossRatio"`
}

// BurstKeys are the keys of a variant's backToBack: a number of frames, and durations.
var BurstKeys = []string{"frames", "bufferTime", "correctedBufferTime"}

// Burst returns a variant's backToBack.
func Burst(frames float64, bufferTime, corrected time.Duration) map[string]any {
	return map[string]any{"frames": frames, "bufferTime": bufferTime, "correctedBufferTime": corrected}
}

// RecoveryKeys are the keys of a variant's recovery: durations.
var RecoveryKeys = []string{"mean", "greatest"}

// Recovered returns a variant's recovery.
func Recovered(mean, greatest time.Duration) map[string]any {
	return map[string]any{"mean": mean, "greatest": greatest}
}

// ResetKeys are the keys of a variant's reset: durations.
var ResetKeys = []string{"mean", "greatest", "byLoss"}

// WasReset returns a variant's reset.
func WasReset(mean, greatest, byLoss time.Duration) map[string]any {
	return map[string]any{"mean": mean, "greatest": greatest, "byLoss": byLoss}
}

var ofSearch = newSubject("search", reflect.TypeFor[Search](), `search.variants["64"].goals["ndr"].regular`)

// SearchThreshold is a compiled expression on what a search found.
type SearchThreshold struct{ threshold *Threshold }

// CompileSearch checks that the expression uses only fields that what a search found has, and that it is a boolean.
func CompileSearch(expression string) (*SearchThreshold, error) {
	compiled, err := ofSearch.compile(expression)
	if err != nil {
		return nil, err
	}
	return &SearchThreshold{compiled}, nil
}

// Tests are the names in what a search will find.
type Tests struct {
	Variants []string
	// Goals of throughput, and Latency by the percentages of it; empty without these tests.
	Goals, Latency []string
	// FrameLoss, BackToBack, Recovery and Reset are whether the search has these tests.
	FrameLoss, BackToBack, Recovery, Reset bool
}

// Check returns an error for variants, goals and tests in the expression that the search does not have.
func (t *SearchThreshold) Check(tests Tests) error {
	compiled := t.threshold.compiled.NativeRep()
	for _, e := range ast.MatchDescendants(ast.NavigateAST(compiled), ast.AllMatcher()) {
		if e.Kind() == ast.SelectKind && typeOf(e.Children()[0]) == "verdict.Variant" {
			if err := tests.has(e.AsSelect().FieldName()); err != nil {
				return err
			}
		}
		name, named := keyOf(e)
		if !named || e.Children()[0].Kind() != ast.SelectKind {
			continue
		}
		of := e.Children()[0]
		if err := tests.hasKey(typeOf(of.Children()[0])+"."+of.AsSelect().FieldName(), name); err != nil {
			return err
		}
	}
	_, _, err := t.threshold.program.Eval(map[string]any{ofSearch.variable: tests.sample()})
	if err != nil && strings.Contains(err.Error(), "no such overload") {
		return fmt.Errorf("%w: times are durations, such as duration('100us'), and frames are a number", err)
	}
	return nil // others, such as a division by zero, come from numbers that are zero here
}

// has returns an error if the search does not have the test that a field of a variant is of.
func (t Tests) has(field string) error {
	for _, test := range []struct {
		field, remedy string
		done          bool
	}{
		{"goals", "throughput", len(t.Goals) > 0}, {"latency", "latency", len(t.Latency) > 0}, {"frameLoss", "frameLoss", t.FrameLoss}, {"backToBack", "backToBack", t.BackToBack},
		{"recovery", "recovery", t.Recovery}, {"reset", "reset", t.Reset},
	} {
		if test.field == field && !test.done {
			return fmt.Errorf("%s is not measured: set spec.%s", field, test.remedy)
		}
	}
	return nil
}

// hasKey returns an error if a map of what the search finds will not have a key.
func (t Tests) hasKey(of, key string) error {
	for _, known := range []struct {
		of, what string
		keys     []string
	}{
		{"verdict.Search.variants", "variants of the search", t.Variants}, {"verdict.Variant.goals", "goals of the search", t.Goals},
		{"verdict.Variant.latency", "percentages of spec.latency.atPercent", t.Latency}, {"verdict.Variant.backToBack", "fields of backToBack", BurstKeys},
		{"verdict.Variant.recovery", "fields of recovery", RecoveryKeys}, {"verdict.Variant.reset", "fields of reset", ResetKeys},
	} {
		if known.of == of && !slices.Contains(known.keys, key) {
			return fmt.Errorf("no such key: %s: %s are %s", key, known.what, list(known.keys))
		}
	}
	return nil
}

// sample is what a search with these tests finds, without numbers.
func (t Tests) sample() Search {
	variant := Variant{Goals: map[string]Goal{}, Latency: map[string]LatencyRow{}, FrameLoss: []FrameLossRow{{}}, BackToBack: Burst(0, 0, 0), Recovery: Recovered(0, 0), Reset: WasReset(0, 0, 0)}
	for _, goal := range t.Goals {
		variant.Goals[goal] = Goal{}
	}
	for _, percent := range t.Latency {
		variant.Latency[percent] = LatencyRow{}
	}
	all := Search{Variants: map[string]Variant{}}
	for _, name := range t.Variants {
		all.Variants[name] = variant
	}
	return all
}

// Evaluate evaluates the threshold on what a search found.
func (t *SearchThreshold) Evaluate(found Search) Outcome {
	outcome := t.threshold.evaluate(map[string]any{ofSearch.variable: found})
	if outcome.Failed && strings.Contains(outcome.Message, "no such key") {
		outcome.Message += " (the search has no such result: no throughput was found, or the budget had been used up)"
	}
	return outcome
}

// formatted returns what a search found in few words; ok is false for other values.
func formatted(value any) (text string, ok bool) {
	switch x := value.(type) {
	case map[string]Variant:
		return "of " + list(slices.Sorted(maps.Keys(x))), true
	case map[string]Goal:
		return "of " + list(slices.Sorted(maps.Keys(x))), true
	case map[string]LatencyRow:
		return "of " + list(slices.Sorted(maps.Keys(x))), true
	case []FrameLossRow:
		return fmt.Sprintf("%d rows", len(x)), true
	}
	return "", false
}
