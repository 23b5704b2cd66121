// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkout has a page with a metric, a chart and a changelog.
func checkout(t *testing.T, page, chart, changes string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"docs/reference/metrics.md": page, "charts/spate/Chart.yaml": chart, "CHANGELOG.md": changes} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestAMetricKeepsItsVersionAndANewOneGetsThatOfTheNextRelease(t *testing.T) {
	page := &strings.Builder{}
	page.WriteString(table)
	row(page, ofLibraries[0], "")
	family := ofLibraries[1]
	family.Name = "spate_old"
	row(page, family, "0.1.0 | ")
	since, err := readVersions(checkout(t, page.String(), "version: 0.2.0\n", "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2027-01-01\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"spate_old": "0.1.0", "spate_new": "0.2.0"} {
		if got, err := since.of(name); got != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
	}
}

func TestANewMetricOfAReleasedVersionIsRefused(t *testing.T) {
	since, err := readVersions(checkout(t, "", "version: 0.1.0\n", "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2027-01-01\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := since.of("spate_new"); err == nil || !strings.Contains(err.Error(), "charts/spate/Chart.yaml has version 0.1.0") {
		t.Errorf("got %v", err)
	}
}
