// SPDX-License-Identifier: Apache-2.0

// conditions writes the reference of condition types and reasons (docs/reference/conditions.md) from the constants of
// the API and their comments. A reason without a description or without a remedy is an error.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
)

const head = `# Conditions and reasons

Every kind has conditions as kstatus reads them: ` + "`Ready`, and while they are True `Reconciling` and `Stalled`" + `. ` + "`kubectl describe`" + ` shows them with
the reason, a word that programs may compare, and the message, which is for people and may change. To wait for a run, wait for ` + "`Complete`" + ` and then read
` + "`Passed`" + ` ([the verdict](../concepts.md#the-verdict)). This file is generated from ` + "`api/v1alpha1/conditions.go`" + ` (` + "`make generate`" + `).
`

// remedyMark begins the remedy in the comment of a reason.
const remedyMark = "Remedy: "

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: conditions FILE.go  (writes Markdown to standard output)")
		os.Exit(2)
	}
	page, err := reference(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "conditions:", err)
		os.Exit(1)
	}
	fmt.Print(page)
}

// reference renders a section per block of constants: its title is the block's comment, its rows are the constants.
func reference(path string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return "", err
	}
	page := &strings.Builder{}
	page.WriteString(head)
	for _, decl := range file.Decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		title := strings.TrimSuffix(line(block.Doc), ".")
		reasons := strings.HasPrefix(title, "Reasons ")
		columns := "| name | meaning |\n|---|---|\n"
		if reasons {
			columns = "| reason | meaning | remedy |\n|---|---|---|\n"
		}
		fmt.Fprintf(page, "\n## %s\n\n%s", title, columns)
		for _, spec := range block.Specs {
			row, err := row(spec.(*ast.ValueSpec), reasons)
			if err != nil {
				return "", err
			}
			page.WriteString(row)
		}
	}
	return page.String(), nil
}

// row renders a constant. Its comment starts with its name, as Go's comments do; the page has its value instead. The comment of a reason ends
// with its remedy.
func row(spec *ast.ValueSpec, reason bool) (string, error) {
	name := spec.Names[0].Name
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok {
		return "", fmt.Errorf("%s is not a literal string", name)
	}
	value, err := strconv.Unquote(literal.Value)
	text, found := strings.CutPrefix(line(spec.Doc), name)
	if !found {
		err = errors.Join(err, fmt.Errorf("the comment of %s does not begin with its name", name))
	}
	meaning, remedy, remedied := strings.Cut(text, remedyMark)
	if reason && strings.TrimSpace(remedy) == "" {
		err = errors.Join(err, fmt.Errorf("the comment of %s has no remedy: end it with %q and what users do, or %q", name, remedyMark, remedyMark+"none is needed."))
	}
	if !reason && remedied {
		err = errors.Join(err, fmt.Errorf("%s has a remedy, and is no reason", name))
	}
	meaning = strings.TrimSpace(strings.TrimPrefix(meaning, ":"))
	if reason {
		return fmt.Sprintf("| `%s` | %s | %s |\n", value, cell(meaning), cell(remedy)), err
	}
	return fmt.Sprintf("| `%s` | %s |\n", value, cell(meaning)), err
}

// document is a page in docs/, as comments name it, with an anchor or without.
var document = regexp.MustCompile(`\bdocs/((?:[a-z-]+/)?([a-z-]+)\.md(?:#[a-z0-9-]+)?)`)

// cell renders a text in a table, with links to the documents that it names.
func cell(text string) string {
	text = document.ReplaceAllStringFunc(text, func(path string) string {
		parts := document.FindStringSubmatch(path)
		return fmt.Sprintf("[%s](../%s)", strings.ReplaceAll(parts[2], "-", " "), parts[1])
	})
	return strings.ReplaceAll(strings.TrimSpace(text), "|", `\|`)
}

// line returns a comment as one line.
func line(group *ast.CommentGroup) string {
	return strings.Join(strings.Fields(group.Text()), " ")
}
