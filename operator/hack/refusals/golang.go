// SPDX-License-Identifier: Apache-2.0

// What do Go packages refuse? Read from the calls that report it.

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// reporting are the functions whose first string literal is a refusal, and the least number of arguments before it.
var reporting = map[string]int{"add": 1, "Add": 1, "wrong": 1, "refuse": 1, "Refuse": 1, "unknown": 1, "Errorf": 0, "New": 0}

// goFiles reads the files of a package's folder except tests.
func goFiles(root, folder string) (all []file, err error) {
	entries, err := os.ReadDir(filepath.Join(root, folder))
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name := filepath.Join(folder, entry.Name())
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(entry.Name(), "zz_") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		found, err := goRefusals(name, text)
		if err != nil {
			return nil, err
		}
		all = append(all, file{name, question(string(text)), found})
	}
	return all, nil
}

// goRefusals returns those of a file, in order.
func goRefusals(name string, text []byte) (all []refusal, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			if one, found := reported(n); found {
				all = append(all, one)
			}
		case *ast.KeyValueExpr:
			all = append(all, refusedCommand(n)...)
		}
		return true
	})
	return all, nil
}

// refusedCommand returns the refusal of a TRex command that the import refuses by name: `"name": {refused: "why"}`.
func refusedCommand(entry *ast.KeyValueExpr) (all []refusal) {
	name, is := literal(entry.Key)
	fields, isList := entry.Value.(*ast.CompositeLit)
	if !is || !isList {
		return nil
	}
	for _, field := range fields.Elts {
		pair, is := field.(*ast.KeyValueExpr)
		if !is {
			continue
		}
		if key, is := pair.Key.(*ast.Ident); is && key.Name == "refused" {
			if text, is := literal(pair.Value); is {
				all = append(all, refusal{name, text})
			}
		}
	}
	return all
}

// reported returns what a call reports, if it reports something.
func reported(call *ast.CallExpr) (refusal, bool) {
	name := ""
	switch of := call.Fun.(type) {
	case *ast.SelectorExpr:
		name = of.Sel.Name
		if from, is := of.X.(*ast.Ident); is && (from.Name == "notes" || name == "New" && from.Name != "errors" || name == "Errorf" && from.Name != "fmt") {
			return refusal{}, false
		}
		if from, is := of.X.(*ast.SelectorExpr); is && from.Sel.Name == "notes" {
			return refusal{}, false
		}
	case *ast.Ident:
		name = of.Name
	}
	from, known := reporting[name]
	if !known || len(call.Args) <= from {
		return refusal{}, false
	}
	for i, argument := range call.Args[from:] {
		if text, is := literal(argument); is {
			return refusal{place(call.Args[:from+i]), text}, true
		}
	}
	return refusal{}, false
}

// literal returns a string literal, or several that are concatenated.
func literal(of ast.Expr) (string, bool) {
	switch e := of.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, a := literal(e.X)
		right, b := literal(e.Y)
		return left + right, a && b && e.Op == token.ADD
	}
	return "", false
}

// place returns the field that arguments name: their texts, joined.
func place(arguments []ast.Expr) string {
	var parts []string
	for _, argument := range arguments {
		ast.Inspect(argument, func(node ast.Node) bool {
			if of, is := node.(ast.Expr); is {
				if text, is := literal(of); is && !slices.Contains(parts, text) {
					parts = append(parts, text)
					return false
				}
			}
			return true
		})
	}
	return strings.Join(parts, ".")
}
