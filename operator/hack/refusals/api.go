// SPDX-License-Identifier: Apache-2.0

// What does the API server refuse by the rules of the types?

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	rule      = regexp.MustCompile(`^\s*// \+kubebuilder:validation:XValidation:.*message="((?:[^"\\]|\\.)*)"`)
	ruleField = regexp.MustCompile(`fieldPath="\.([A-Za-z.]+)"`)
	declared  = regexp.MustCompile(`^(?:type ([A-Z]\w*) |\t[A-Z]\w* .*json:"([A-Za-z0-9]+))`)
)

// apiFiles reads the rules of the types of a folder.
func apiFiles(root, folder string) (all []file, err error) {
	names, err := filepath.Glob(filepath.Join(root, folder, "*_types.go"))
	if err != nil {
		return nil, err
	}
	names = append(names, filepath.Join(root, folder, "quantities.go"))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, file{filepath.Join(folder, filepath.Base(name)), question(string(text)), rules(string(text))})
	}
	return all, nil
}

// rules returns those of a file; each is about the type or field that is declared next.
func rules(text string) (all []refusal) {
	open, in := 0, ""
	for line := range strings.Lines(text) {
		if found := rule.FindStringSubmatch(line); found != nil {
			field := ""
			if at := ruleField.FindStringSubmatch(line); at != nil {
				field = "." + at[1]
			}
			all = append(all, refusal{field, found[1]})
			continue
		}
		found := declared.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		of := found[1]
		if of != "" {
			in = of
		} else {
			of = in + "." + found[2]
		}
		for ; open < len(all); open++ {
			all[open].field = of + all[open].field
		}
	}
	return all
}
