// SPDX-License-Identifier: Apache-2.0

package verdict

// This file answers: does an expression read the result of a baseline, and can it be evaluated on that?

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Baseline is the variable with the result of the run that a run is compared with. Its type is that of `result`.
const Baseline = "baseline"

// ReadsBaseline reports whether the expression reads the result of a baseline.
func (t *Threshold) ReadsBaseline() bool {
	reads := func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.IdentKind && e.AsIdent() == Baseline && typeOf(e) == "verdict.Result"
	}
	return len(ast.MatchDescendants(ast.NavigateAST(t.compiled.NativeRep()), reads)) > 0
}

// CheckBaseline returns an error for streams, receivers, templates, groups, sides, counters and times in the expression that the result of this
// baseline does not have. Check has found those that a result with these subjects will not have.
func (t *Threshold) CheckBaseline(subjects Subjects, baseline *Result) error {
	_, details, err := t.eval(map[string]any{t.subject.variable: subjects.empty(), Baseline: *baseline})
	if err == nil {
		return nil
	}
	if path := t.absent(details); path != "" {
		return fmt.Errorf("%s: %w: streams of the baseline are %s; receivers are %s; templates are %s; groups are %s; sessions are %s", path, err, namesOf(baseline.Streams), namesOf(baseline.Receivers),
			namesOf(baseline.Templates), namesOf(baseline.Groups), namesOf(baseline.Routing.Sessions))
	}
	return nil // others, such as a division by zero, come from counters that are zero here
}

func namesOf[T any](all map[string]T) string { return list(slices.Sorted(maps.Keys(all))) }

// unknownBaseline evaluates the expression on a result while that of the baseline is not known: the error is one of the result.
func (t *Threshold) unknownBaseline(result Result) error {
	env, err := t.subject.env()
	if err != nil {
		return err
	}
	program, err := env.Program(t.compiled, cel.EvalOptions(cel.OptPartialEval), limitFor(len(result.Streams)))
	if err != nil {
		return err
	}
	known, err := cel.PartialVars(map[string]any{t.subject.variable: result}, cel.AttributePattern(Baseline))
	if err != nil {
		return err
	}
	_, _, err = program.Eval(known)
	return err
}

// absent returns the first selection of the expression that the result of the baseline does not have, such as
// baseline.streams["a"].latency.p99; empty if there is none.
func (t *Threshold) absent(details *cel.EvalDetails) string {
	if details == nil {
		return ""
	}
	for _, e := range ast.MatchDescendants(ast.NavigateAST(t.compiled.NativeRep()), ast.AllMatcher()) {
		path, ok := t.subject.path(e)
		if !ok || rootOf(e) != Baseline {
			continue
		}
		if value, known := details.State().Value(e.ID()); known && types.IsError(value) && strings.Contains(fmt.Sprint(value), "no such key") {
			return path
		}
	}
	return ""
}

// rootOf returns the variable that a selection starts at, such as baseline in baseline.streams[name].lost; empty for others.
func rootOf(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		return rootOf(e.AsSelect().Operand())
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Index {
			return rootOf(call.Args()[0])
		}
	}
	return ""
}
