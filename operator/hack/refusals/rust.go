// SPDX-License-Identifier: Apache-2.0

// What does the engine refuse? Read from the calls and errors that report it.

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	// rustReport matches the start of what reports: violations of a plan, refusals of a capture, texts of errors, and
	// what ends a command.
	rustReport = regexp.MustCompile(`(?:wrong\s*\.add|\btell|\bErr|refuse|wrong|\bok_or(?:_else)?|\bbail!|\bensure!|\beprintln!)\(|#\[error\(`)
	rustText   = regexp.MustCompile(`"((?:[^"\\]|\\[\s\S])*)"`)
	rustBreak  = regexp.MustCompile(`\\\n\s*`)
	// rustPath matches the path of a field as it is put together, and rustSegment each of its parts.
	rustPath    = regexp.MustCompile(`(?:` + rustRoot + `|` + rustPart + `)(?:\s*` + rustPart + `)*`)
	rustSegment = regexp.MustCompile(`(\w+)\("?([^")]*)"?\)`)
	// rustTests matches the start of a module of tests, which ends a file. A module in a file of its own is only
	// declared.
	rustTests = regexp.MustCompile(`#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))? )?mod \w+ \{`)
)

const (
	rustRoot = `(?:FieldPath::from\("[^"]*"\)|(?:Stream|Template|Pool)Index\([^()]*\)\.path\(\))`
	rustPart = `\.(?:field|index)\("?[^()"]+"?\)`
)

// rustLists are the lists of a plan that have a type for their indices.
var rustLists = map[string]string{"StreamIndex": "streams", "TemplateIndex": "stateful.templates", "PoolIndex": "stateful.pools"}

// rustFiles reads one file, or the files below a folder except tests.
func rustFiles(root, folder string) (all []file, err error) {
	err = filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if filepath.Ext(path) != ".rs" || entry.Name() == "tests.rs" || strings.Contains(path, "/tests/") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		all = append(all, file{name, question(string(text)), rustRefusals(string(text))})
		return nil
	})
	return all, err
}

// rustRefusals returns those of a file, in order: of each call the last text, and the first text as its field.
func rustRefusals(text string) (all []refusal) {
	if tests := rustTests.FindStringIndex(text); tests != nil {
		text = text[:tests[0]]
	}
	for _, at := range rustReport.FindAllStringIndex(text, -1) {
		var texts []string
		call := rustPath.ReplaceAllStringFunc(balanced(text[at[1]:]), writtenPath)
		for _, found := range rustText.FindAllStringSubmatch(call, -1) {
			texts = append(texts, strings.ReplaceAll(rustBreak.ReplaceAllString(found[1], ""), `\"`, `"`))
		}
		if strings.HasPrefix(text[at[0]:], "eprintln!") {
			texts = errorsOf(texts)
		}
		switch len(texts) {
		case 0:
		case 1:
			all = append(all, refusal{"", texts[0]})
		default:
			all = append(all, refusal{texts[0], texts[1]})
		}
	}
	return all
}

// writtenPath returns a path that is put together as a text, as it is reported.
func writtenPath(path string) string {
	written := "{}"
	for _, part := range rustSegment.FindAllStringSubmatch(path, -1) {
		switch name, literal := part[2], strings.Contains(part[0], `"`); {
		case part[1] == "from":
			written = name
		case rustLists[part[1]] != "":
			written = rustLists[part[1]] + "[{}]"
		case part[1] == "index":
			written += "[{}]"
		case part[1] == "field" && literal:
			written += "." + name
		case part[1] == "field":
			written += ".{}"
		}
	}
	return `"` + written + `"`
}

// errorsOf returns the texts that are printed as errors: most printed texts are not.
func errorsOf(printed []string) (texts []string) {
	for _, text := range printed {
		if text, is := strings.CutPrefix(text, "error: "); is {
			texts = append(texts, text)
		}
	}
	return texts
}

// balanced returns the text up to the parenthesis that closes one open before it. Parentheses in quotes do not count.
func balanced(text string) string {
	depth, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return text[:i]
			}
		}
	}
	return ""
}
