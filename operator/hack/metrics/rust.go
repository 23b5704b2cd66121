// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: which metrics do engines have? Their source says name, help and type in few forms, which are read here: another form is an error.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"spate.dev/operator/internal/metrics"
)

var (
	// tuple is an entry of a list of metrics, or of parts of their names: name, help, and how it is read.
	tuple = regexp.MustCompile(`\(\s*"([a-z_]+)",\s*"((?:[^"\\]|\\.)*)",\s*\|(\w+)\|`)
	// described is the registration of a metric, by literals or by variables.
	described = regexp.MustCompile(`encoder\s*\.family\(\s*(&?name|"\w+"),\s*(&?help|"(?:[^"\\]|\\.)*"),\s*MetricType::(\w+)`)
	named     = regexp.MustCompile(`let name =\s*"(\w+)";`)
	helped    = regexp.MustCompile(`let help =\s*"((?:[^"\\]|\\.)*)";`)
	formed    = regexp.MustCompile(`format!\("(spate_\w+\{\w+\}\w*(?:\{\w+\})?)"\)`)
	broken    = regexp.MustCompile(`\\\n\s*`)
)

// engineFamilies returns the metrics of engines in the order of their source, those of metrics.rs first.
func engineFamilies(root string) ([]metrics.Family, error) {
	files, err := filepath.Glob(filepath.Join(root, "engine/engine/src/metrics/*.rs"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var all []metrics.Family
	for _, file := range append([]string{filepath.Join(root, "engine/engine/src/metrics.rs")}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := familiesIn(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		all = append(all, found...)
	}
	for i := range all {
		if all[i].Labels = labelsOf(all[i].Name); all[i].Labels == nil {
			return nil, fmt.Errorf("%s: its labels are not known (operator/hack/metrics/labels.go)", all[i].Name)
		}
		if all[i].Type == "counter" {
			all[i].Name += "_total"
		}
	}
	return all, nil
}

// familiesIn returns the metrics of a file, without their labels.
func familiesIn(source string) ([]metrics.Family, error) {
	source, _, _ = strings.Cut(source, "#[cfg(test)]")
	source = broken.ReplaceAllString(source, "")
	var all []metrics.Family
	from := 0 // the end of the registration before
	for _, at := range described.FindAllStringSubmatchIndex(source, -1) {
		name, help, kind := source[at[2]:at[3]], source[at[4]:at[5]], strings.ToLower(source[at[6]:at[7]])
		before := source[from:at[0]]
		from = at[1]
		if literal, ok := unquoted(help); ok {
			help = literal
		} else if last := helped.FindAllStringSubmatch(before, -1); last != nil {
			help = last[len(last)-1][1]
		} else {
			help = ""
		}
		if literal, ok := unquoted(name); ok {
			name = literal
		} else if last := named.FindAllStringSubmatch(before, -1); last != nil {
			name = last[len(last)-1][1]
		} else {
			several, err := listed(before, kind)
			if err != nil {
				return nil, err
			}
			all = append(all, several...)
			continue
		}
		if help == "" {
			return nil, fmt.Errorf("%s: its help is not found", name)
		}
		all = append(all, metrics.Family{Name: name, Type: kind, Help: help})
	}
	if len(all) == 0 && strings.Contains(source, "MetricType::") || strings.Count(source, ".family(") != len(described.FindAllString(source, -1)) {
		return nil, errors.New("a metric is registered in a form that is not known here")
	}
	return all, nil
}

func unquoted(literal string) (string, bool) {
	if !strings.HasPrefix(literal, `"`) {
		return "", false
	}
	return strings.Trim(literal, `"`), true
}

// listed returns the metrics of a list in what precedes their registration: their names are there, or formed of parts.
func listed(before, kind string) ([]metrics.Family, error) {
	entries, parts := []metrics.Family{}, map[string][][2]string{} // parts by the variable that their closures have
	for _, entry := range tuple.FindAllStringSubmatch(before, -1) {
		if strings.HasPrefix(entry[1], "spate_") {
			entries = append(entries, metrics.Family{Name: entry[1], Type: kind, Help: entry[2]})
		} else {
			parts[entry[3]] = append(parts[entry[3]], [2]string{entry[1], entry[2]})
		}
	}
	form := formed.FindStringSubmatch(before)
	switch {
	case form == nil:
	case form[1] == "spate_template_{name}":
		return []metrics.Family{{Name: "spate_template_NAME", Type: kind, Help: templateCounters}}, nil
	case form[1] == "spate_template_{kind}_seconds":
		for _, kinds := range parts["times"] {
			entries = append(entries, metrics.Family{Name: "spate_template_" + kinds[0] + "_seconds", Type: kind, Help: kinds[1]})
		}
	case form[1] == "spate_receiver_{part}_{unit}":
		for _, part := range parts["r"] {
			for _, unit := range parts["m"] {
				entries = append(entries, metrics.Family{Name: "spate_receiver_" + part[0] + "_" + unit[0], Type: kind, Help: part[1] + ": " + unit[1]})
			}
		}
	}
	if len(entries) == 0 {
		return nil, errors.New("the names of a list of metrics are not found")
	}
	return entries, nil
}
