// SPDX-License-Identifier: Apache-2.0

package verdict

// This file answers: does an expression use what its profile does not measure?

import (
	"fmt"
	"maps"
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// Measures are what is measured of a stream's packets on arrival.
type Measures struct {
	// Arrival: packets are counted, by trailer or mark.
	Arrival bool
	// Order: packets have sequence numbers, in a trailer.
	Order bool
	// Latency: packets have time stamps.
	Latency bool
	// Tags are the names under which packets are counted by VLAN tag; none if they are not.
	Tags []string
}

// need is what must be measured for a field of a result and of its streams to exceed 0.
type need struct {
	met    func(Measures) bool
	remedy string
}

var needs = func() map[string]need {
	arrival := need{func(m Measures) bool { return m.Arrival }, "set measure.flow or measure.mark, and the entry's receivePort"}
	order := need{func(m Measures) bool { return m.Order }, "set measure.flow, and the entry's receivePort"}
	return map[string]need{
		"rx": arrival, "rxBytes": arrival, "rxPps": arrival, "rxBps": arrival, "lost": arrival, "lossRatio": arrival, "misdirected": arrival,
		"duplicates": order, "outOfOrder": order, "sequenceTooHigh": order, "sequenceTooLow": order,
		outage:    arrival,
		byTag:     {func(m Measures) bool { return len(m.Tags) > 0 }, "set measure.byTag"},
		"latency": {func(m Measures) bool { return m.Latency }, "set measure.latency"},
	}
}()

// unmeasured reports counters that are always 0, because nothing in the profile increments them, and times that nothing
// measures: a threshold on them would check nothing. What a baseline has measured is not known here.
func (t *Threshold) unmeasured(subjects Subjects) error {
	for _, e := range ast.MatchDescendants(ast.NavigateAST(t.compiled.NativeRep()), ast.KindMatcher(ast.SelectKind)) {
		if rootOf(e) == Baseline {
			continue
		}
		field, of := e.AsSelect().FieldName(), e.Children()[0]
		candidates, owner := subjects.Streams, "the profile's streams"
		switch name, named := keyOf(of); {
		case typeOf(of) == "verdict.Result" && field == "flows" && len(subjects.Templates) == 0:
			return fmt.Errorf("%s.flows is not measured: no entry of spec.traffic is an application", t.subject.variable)
		case typeOf(of) == "verdict.Stream" && named:
			measures, known := subjects.Streams[name]
			if !known {
				continue // reported as a missing key
			}
			candidates, owner = map[string]Measures{name: measures}, "stream "+name
		case typeOf(of) == "verdict.Side" && named:
			if err := subjects.untimed(field, name, of.Children()[0]); err != nil {
				return err
			}
			continue
		case typeOf(of) != "verdict.Result" && typeOf(of) != "verdict.Stream":
			continue
		}
		if need, some := needs[field]; some && !anyOf(candidates, need.met) {
			return fmt.Errorf("%s is not measured of %s: %s", field, owner, need.remedy)
		}
	}
	return nil
}

// untimed reports a time that nothing measures on this side of the templates or groups that an expression selects: one,
// by its name, or any.
func (s Subjects) untimed(field, side string, of ast.NavigableExpr) error {
	candidates, owner := []Sides{}, "any template"
	if name, named := keyOf(of); !named {
		candidates = slices.AppendSeq(slices.Collect(maps.Values(s.Templates)), maps.Values(s.Groups))
	} else if of.Children()[0].AsSelect().FieldName() == "groups" {
		candidates, owner = append(candidates, s.Groups[name]), "group "+name
	} else {
		candidates, owner = append(candidates, s.Templates[name]), "template "+name
	}
	remedy := ""
	for _, sides := range candidates {
		program, emulated := sides[side]
		if !emulated {
			continue // reported as a missing key, if no other side has it
		}
		if remedy = program.Unmeasured[field]; remedy == "" {
			return nil
		}
	}
	if remedy == "" {
		return nil
	}
	return fmt.Errorf("%s is not measured of the %s of %s: %s", field, side, owner, remedy)
}

// ReadsLatency reports whether the expression reads the latency of a stream: by its name, or of any.
func (t *Threshold) ReadsLatency(stream string) bool {
	for _, e := range ast.MatchDescendants(ast.NavigateAST(t.compiled.NativeRep()), ast.KindMatcher(ast.SelectKind)) {
		of := e.Children()[0]
		if e.AsSelect().FieldName() != "latency" || typeOf(of) != "verdict.Stream" || rootOf(of) == Baseline {
			continue
		}
		if name, named := keyOf(of); !named || name == stream {
			return true
		}
	}
	return false
}

// keyOf returns the name in result.streams["name"] and result.streams.name.
func keyOf(e ast.Expr) (name string, named bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().FieldName(), true
	case ast.CallKind:
		if call := e.AsCall(); len(call.Args()) == 2 && call.Args()[1].Kind() == ast.LiteralKind {
			text, named := call.Args()[1].AsLiteral().(types.String)
			return string(text), named
		}
	}
	return "", false
}

func typeOf(e ast.NavigableExpr) string { return e.Type().TypeName() }

func anyOf(streams map[string]Measures, met func(Measures) bool) bool {
	for _, m := range streams {
		if met(m) {
			return true
		}
	}
	return false
}
