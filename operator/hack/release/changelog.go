// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: what is new in a release? The section of its version in CHANGELOG.md.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	changelogName = "CHANGELOG.md"
	unreleased    = "Unreleased"
)

// changelog writes the section of the version. A pre-release without one of its own has that of what is not released yet.
func (r *Release) changelog() error {
	text, err := os.ReadFile(filepath.Join(r.Source, changelogName))
	if err != nil {
		return err
	}
	section, there := sectionOf(string(text), r.Version)
	from := r.Version
	if !there && strings.Contains(r.Version, "-") {
		from = unreleased
		section, there = sectionOf(string(text), unreleased)
	}
	switch {
	case !there && from == unreleased:
		return fmt.Errorf("%s has neither a section [%s] nor [%s]: add one of them, with what changes for users", changelogName, r.Version, unreleased)
	case !there:
		return fmt.Errorf("%s has no section [%s]: rename [%s] to `## [%s] - YEAR-MONTH-DAY`, add an empty [%s] above it, and commit that; a pre-release, such as VERSION=%s-rc.1, is made of [%s]",
			changelogName, r.Version, unreleased, r.Version, unreleased, r.Version, unreleased)
	case section == "":
		return fmt.Errorf("section [%s] of %s is empty: write there what changes for users", from, changelogName)
	}
	return os.WriteFile(filepath.Join(r.Folder, changelogName), []byte("# Spate "+r.Version+"\n\n"+section+"\n"), 0o644)
}

// sectionOf returns what a changelog says below the heading `## [NAME]`, until the next heading of its level or the link references at the end.
func sectionOf(text, name string) (string, bool) {
	var lines []string
	inside, there := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			rest, matches := strings.CutPrefix(heading, "["+name+"]")
			inside = matches && (rest == "" || strings.HasPrefix(rest, " "))
			there = there || inside
			continue
		}
		if strings.HasPrefix(line, "[") && strings.Contains(line, "]: ") {
			inside = false
		}
		if inside {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), there
}
