// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"spate.dev/operator/test/drill"
)

func TestATableWithAMissedPromiseOrWithoutRowsFails(t *testing.T) {
	const held, missed = `{"fault":"a","detectedNs":1500000000,"seen":true}`, `{"fault":"b","missed":"hangs"}`
	for name, c := range map[string]struct{ rows, want string }{
		"all held": {held + "\n" + held + "\n", ""},
		"one not":  {held + "\n" + missed + "\n", "1 of 2 missed their promise"},
		"again":    {missed + "\n" + strings.Replace(missed, "hangs", "", 1) + "\n", ""},
		"no row":   {"", "no drill was run"},
		"cut off":  {held[:20], "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rows.jsonl")
			if err := os.WriteFile(file, []byte(c.rows), 0o600); err != nil {
				t.Fatal(err)
			}
			err := run("", []string{file, file + ".none"})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestRowsOfADocumentAreRenewed(t *testing.T) {
	const before = "# Drills\n\n| fault | detected after | condition and reason | what was kept | |\n|---|---|---|---|---|\n| a | 9.0 s | Old | x | held |\n| b | 2.0 s | B | y | held |\n\n| other | table |\n"
	folder := t.TempDir()
	document, rows := filepath.Join(folder, "drills.md"), filepath.Join(folder, "rows.jsonl")
	for name, text := range map[string]string{document: before, rows: `{"fault":"c","kept":["z"]}` + "\n" + `{"fault":"a","detectedNs":1500000000,"seen":true,"reported":["R","S"]}` + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(document, []string{rows}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(document)
	want := strings.Replace(before, "| a | 9.0 s | Old | x | held |\n| b | 2.0 s | B | y | held |\n", "| a | 1.5 s | R; S | | held |\n| b | 2.0 s | B | y | held |\n| c | nothing to detect | | z | held |\n", 1)
	if err != nil || string(got) != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
	if faults := strings.Join(drill.Faults(want), ","); faults != "a,b,c" {
		t.Errorf("faults %q", faults)
	}
	if err := os.WriteFile(rows, []byte(`{"fault":"a","missed":"hangs"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(document, []string{rows}); err == nil {
		t.Error("a missed promise was written down")
	}
}

// notListed are drills of docs/scaling.md.
var notListed = regexp.MustCompile("^none: .+ generators with .+ profiles, on simulated engines$")

// The table would keep the row of a drill that was deleted or renamed.
func TestTheDocumentHasTheDrillsThatThereAre(t *testing.T) {
	const root = "../../../.."
	text, err := os.ReadFile(filepath.Join(root, "docs/drills.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := drill.Faults(string(text))
	if len(listed) < 40 {
		t.Fatalf("%d rows", len(listed))
	}
	known := map[string]bool{}
	var names []string
	for _, pattern := range []string{"operator/test/*_test.go", "e2e/suites/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			faults, others := faultsOf(t, file)
			names = append(names, faults...)
			for _, other := range others {
				whole := regexp.MustCompile("^" + other + "$")
				for _, fault := range listed {
					known[fault] = known[fault] || whole.MatchString(fault)
				}
			}
		}
	}
	for _, name := range names {
		matched := notListed.MatchString(name)
		whole := regexp.MustCompile("^" + name + "$")
		for _, fault := range listed {
			if whole.MatchString(fault) {
				known[fault], matched = true, true
			}
		}
		if !matched {
			t.Errorf("docs/drills.md has no row of the drill %q: run it, then `make drills-document`", name)
		}
	}
	for _, fault := range listed {
		if !known[fault] {
			t.Errorf("docs/drills.md has a row of a fault that no drill has: %s", fault)
		}
	}
}

// faultsOf returns an expression for the fault of each drill that begins in a file: what is not in the call itself may be anything. A fault that
// begins with a variable begins with any of the texts of the file: these expressions are others.
func faultsOf(t *testing.T, file string) (faults, others []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var texts, variable []string
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(node.Value); err == nil {
				texts = append(texts, text)
			}
		case *ast.CallExpr:
			if function := called(node); len(node.Args) != 3 || function != "newDrill" && function != "drill.New" {
				break
			}
			if fault := expression(node.Args[1]); strings.HasPrefix(fault, anything) {
				variable = append(variable, strings.TrimPrefix(fault, anything))
			} else {
				faults = append(faults, fault)
			}
		}
		return true
	})
	for _, rest := range variable {
		for _, text := range texts {
			others = append(others, regexp.QuoteMeta(text)+rest)
		}
	}
	return faults, others
}

// called returns the name of what is called, with its package.
func called(call *ast.CallExpr) string {
	switch function := call.Fun.(type) {
	case *ast.Ident:
		return function.Name
	case *ast.SelectorExpr:
		if of, ok := function.X.(*ast.Ident); ok {
			return of.Name + "." + function.Sel.Name
		}
	}
	return ""
}

const anything = ".+"

var verb = regexp.MustCompile("%[a-z]")

// expression matches what a string of the source may be.
func expression(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(of.Value)
		if err != nil {
			return anything
		}
		return verb.ReplaceAllLiteralString(regexp.QuoteMeta(text), anything)
	case *ast.BinaryExpr:
		return expression(of.X) + expression(of.Y)
	case *ast.CallExpr: // fmt.Sprintf
		if len(of.Args) > 0 {
			return expression(of.Args[0])
		}
	}
	return anything
}
