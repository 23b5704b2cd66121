// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: since which version is a metric there? The page has it: a metric that is on it keeps its version, another gets the chart's, which
// is the version of the next release.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Columns of the tables of our own metrics.
const (
	columns     = 6
	sinceColumn = 4
)

// versions are those since which metrics are there.
type versions struct {
	// listed are those of the metrics of the page, by name.
	listed map[string]string
	// next is that of other metrics, if it is not released.
	next     string
	released bool
}

func readVersions(root string) (*versions, error) {
	v := &versions{listed: map[string]string{}}
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/metrics.md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, " | "); len(cells) == columns && strings.HasPrefix(line, "| `") {
			v.listed[strings.Trim(cells[0], "| `")] = cells[sinceColumn]
		}
	}
	var chart struct{ Version string }
	text, err := os.ReadFile(filepath.Join(root, "charts/spate/Chart.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &chart)
	}
	if err != nil {
		return nil, err
	}
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	v.next, v.released = chart.Version, strings.Contains(string(changes), "\n## ["+chart.Version+"]")
	return v, nil
}

// of returns the version since which a metric is there.
func (v *versions) of(name string) (string, error) {
	if since, there := v.listed[name]; there {
		return since, nil
	}
	if v.released {
		return "", fmt.Errorf("%s is new, and charts/spate/Chart.yaml has version %s, which CHANGELOG.md has as released: raise it to that of the next release", name, v.next)
	}
	return v.next, nil
}
