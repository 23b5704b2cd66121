// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheSectionOfAVersionIsReleased(t *testing.T) {
	const log = `# Changelog

What changes.

## [Unreleased]

### Added

- **Next**: more.

## [1.2.3] - 2026-01-02

### Fixed

- One ([why](docs/x.md)).

## [1.2.2]

## [1.2.1] - 2025-01-02
- First.

[1.2.1]: https://example.com/v1.2.1
`
	for version, want := range map[string]string{
		"1.2.3":       "# Spate 1.2.3\n\n### Fixed\n\n- One ([why](docs/x.md)).\n",
		"1.2.1":       "# Spate 1.2.1\n\n- First.\n",
		"1.3.0-rc.1":  "# Spate 1.3.0-rc.1\n\n### Added\n\n- **Next**: more.\n",
		"1.2.2":       "section [1.2.2] of CHANGELOG.md is empty",
		"1.3.0":       "no section [1.3.0]: rename [Unreleased] to `## [1.3.0] - YEAR-MONTH-DAY`",
		"1.2":         "no section [1.2]",
		"Unreleased]": "no section",
	} {
		r := Release{Folder: t.TempDir(), Source: t.TempDir(), Version: version}
		must(t, os.WriteFile(filepath.Join(r.Source, changelogName), []byte(log), 0o600))
		err := r.changelog()
		got, _ := os.ReadFile(filepath.Join(r.Folder, changelogName))
		if strings.HasPrefix(want, "#") && string(got) != want {
			t.Errorf("%s: %v\n%s", version, err, got)
		}
		if !strings.HasPrefix(want, "#") && (err == nil || !strings.Contains(err.Error(), want) || got != nil) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
}

func TestTheProjectsChangelogHasWhatThePreReleasesAreMadeOf(t *testing.T) {
	r := Release{Folder: t.TempDir(), Source: "../../..", Version: "0.0.1-rc.1"}
	must(t, r.changelog())
}
