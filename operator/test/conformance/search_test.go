// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// searches of FD.io's package, in the folder named by CONFORMANCE.
func searches(t *testing.T) []Search {
	t.Helper()
	folder := filepath.Join(os.Getenv("CONFORMANCE"), "mlrsearch")
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if os.Getenv("CONFORMANCE") == "" || err != nil || len(files) == 0 {
		t.Skip("CONFORMANCE names no folder with mlrsearch/*.json")
	}
	var all []Search
	for _, file := range files {
		found, err := LoadSearches(folder, strings.TrimSuffix(filepath.Base(file), ".json"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

func TestSearchesAreThoseOfTheReference(t *testing.T) {
	trials := 0
	all := searches(t)
	for _, s := range all {
		if err := s.Compare(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		trials += len(s.Trials)
	}
	t.Logf("%d searches, %d trials", len(all), trials)
}

func TestDifferencesOfSearchesAreFound(t *testing.T) {
	goal := SearchGoal{Width: 0.005, InitialDuration: 60, FinalDuration: 60, DurationSum: 60, Expansion: 2}
	passes := SearchTrial{Duration: 60, Load: 2000, Intended: 120000, Sent: 120000, Received: 120000}
	load := 2000.0
	right := Search{Min: 1000, Max: 2000, Goals: []SearchGoal{goal}, Trials: []SearchTrial{passes}, Results: []SearchResult{{Lower: &load, Throughput: &load}}}
	if err := right.Compare(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(s *Search){
		"trial 1 is 2000 per second for 60 s, want 2000 per second for 59 s": func(s *Search) { s.Trials = []SearchTrial{{Duration: 59, Load: 2000}} },
		"trial 1 is 2000 per second for 60 s, want 2000.1 per second":        func(s *Search) { s.Trials = []SearchTrial{{Duration: 60, Load: 2000.1}} },
		"ends before trial 2 of 2":                                           func(s *Search) { s.Trials = append(s.Trials, passes) },
		"goes on after trial 0":                                              func(s *Search) { s.Trials = nil },
		"1 goals, want 0":                                                    func(s *Search) { s.Results = nil },
		"throughput 2000; want 2000 to none, throughput none":                func(s *Search) { s.Results = []SearchResult{{Lower: &load}} },
		"load.max": func(s *Search) { s.Max = 1 },
	} {
		s := right
		s.Trials = s.Trials[:len(s.Trials):len(s.Trials)]
		change(&s)
		if err := s.Compare(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestFilesWithoutSearchesSayWhy(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"empty": "[]", "broken": "{"} {
		if err := os.WriteFile(filepath.Join(folder, name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"empty": "holds no search", "broken": "JSON", "absent": "no such file"} {
		if _, err := LoadSearches(folder, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	if _, err := Reference(t.Context(), "/nowhere/python3", nil); err == nil || !strings.Contains(err.Error(), "/nowhere/python3") {
		t.Errorf("got %v", err)
	}
}

// TestRandomSearchesAreThoseOfTheReference needs the package: `make mlrsearch-reference` installs it.
func TestRandomSearchesAreThoseOfTheReference(t *testing.T) {
	python := os.Getenv("MLRSEARCH_PYTHON")
	if python == "" {
		t.Skip("MLRSEARCH_PYTHON is no interpreter with MLRsearch: `make mlrsearch-reference` installs one")
	}
	found, err := Reference(t.Context(), python, RandomSearches(1000, 1))
	if err != nil {
		t.Fatal(err)
	}
	trials, same := 0, 0
	for _, s := range found {
		if err := s.Compare(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		} else {
			same++
		}
		trials += len(s.Trials)
	}
	t.Logf("%d of %d searches agree, %d trials", same, len(found), trials)
}
