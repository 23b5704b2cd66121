// SPDX-License-Identifier: Apache-2.0

package verdict

// This file answers: which fields are there instead of one that is not?

import (
	"reflect"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/parser"
)

// instead lists the fields of what an expression reads an undefined field of; empty where the message is about something else, or the
// type is not known, as within a macro.
func (s *subject) instead(env *cel.Env, expression, message string) string {
	_, name, undefined := strings.Cut(message, "undefined field '")
	parsed, issues := env.Parse(expression)
	if !undefined || issues.Err() != nil {
		return ""
	}
	name = strings.TrimSuffix(name, "'")
	types := map[string]reflect.Type{}
	structs(s.of, types)
	for _, e := range ast.MatchDescendants(ast.NavigateAST(parsed.NativeRep()), ast.KindMatcher(ast.SelectKind)) {
		if e.AsSelect().FieldName() != name {
			continue
		}
		operand, err := parser.Unparse(e.AsSelect().Operand(), parsed.NativeRep().SourceInfo())
		if err != nil {
			continue
		}
		compiled, issues := env.Compile(operand)
		if issues.Err() != nil {
			continue
		}
		if of := types[compiled.OutputType().TypeName()]; of != nil {
			return operand + " has " + list(fieldsOf(of))
		}
	}
	return ""
}

// structs adds the types of structs that values of a type consist of, by their names in expressions.
func structs(of reflect.Type, all map[string]reflect.Type) {
	switch of.Kind() {
	case reflect.Map, reflect.Pointer, reflect.Slice:
		structs(of.Elem(), all)
	case reflect.Struct:
		if all[of.String()] != nil {
			return
		}
		all[of.String()] = of
		for i := range of.NumField() {
			structs(of.Field(i).Type, all)
		}
	}
}

// fieldsOf are the names of a struct's fields in expressions.
func fieldsOf(of reflect.Type) []string {
	names := make([]string, of.NumField())
	for i := range names {
		names[i] = of.Field(i).Tag.Get("cel")
	}
	return slices.Sorted(slices.Values(names))
}
