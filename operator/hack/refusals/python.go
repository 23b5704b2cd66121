// SPDX-License-Identifier: Apache-2.0

// What does the script that has TRex's client load profiles refuse?

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var pythonExit = regexp.MustCompile(`sys\.exit\("((?:[^"\\]|\\.)*)"`)

// pythonFiles reads the scripts in a folder.
func pythonFiles(root, folder string) (all []file, err error) {
	names, err := filepath.Glob(filepath.Join(root, folder, "*.py"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		_, comment, _ := strings.Cut(string(text), `"""`)
		comment, _, _ = strings.Cut(comment, "?")
		one := file{filepath.Join(folder, filepath.Base(name)), strings.Join(strings.Fields(comment), " ") + "?", nil}
		for _, found := range pythonExit.FindAllStringSubmatch(string(text), -1) {
			one.refusals = append(one.refusals, refusal{"", found[1]})
		}
		all = append(all, one)
	}
	return all, nil
}
