// SPDX-License-Identifier: Apache-2.0

// conditions writes the reference of condition types and reasons (docs/reference/conditions.md) from the constants of
// the API and their comments. A reason without a description is an error.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
)

const head = `# Conditions and reasons

Every kind has conditions as kstatus reads them: ` + "`Ready`, and while they are True `Reconciling` and `Stalled`" + `. ` + "`kubectl describe`" + ` shows them with
the reason, a word that programs may compare, and the message, which is for people and may change. To wait for a run, wait for ` + "`Complete`" + ` and then read
` + "`Passed`" + ` ([the verdict](../concepts.md#the-verdict)). This file is generated from ` + "`api/v1alpha1/conditions.go`" + ` (` + "`make generate`" + `).
`

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
		fmt.Fprintf(page, "\n## %s\n\n| name | meaning |\n|---|---|\n", title)
		for _, spec := range block.Specs {
			row, err := row(spec.(*ast.ValueSpec))
			if err != nil {
				return "", err
			}
			page.WriteString(row)
		}
	}
	return page.String(), nil
}

// row renders a constant. Its comment starts with its name, as Go's comments do; the page has its value instead.
func row(spec *ast.ValueSpec) (string, error) {
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
	text = strings.TrimSpace(strings.TrimPrefix(text, ":"))
	return fmt.Sprintf("| `%s` | %s |\n", value, strings.ReplaceAll(text, "|", `\|`)), err
}

// line returns a comment as one line.
func line(group *ast.CommentGroup) string {
	return strings.Join(strings.Fields(group.Text()), " ")
}
