// SPDX-License-Identifier: Apache-2.0

// Are searches those of FD.io's reference package, as recorded and when both run now?

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"spate.dev/operator/test/conformance"
)

// live is the row of the searches that the reference package runs now.
const live = "live"

// liveCount is the number of these searches.
const liveCount = 1000

var searchHeading = []any{"SEARCHES", "SAME", "TRIALS", "FIRST DIFFERENCE"}

// searches compares the searches of a file and prints its row.
func searches(_ context.Context, _ conformance.Runner, folder, name string) (passed bool) {
	all, err := conformance.LoadSearches(folder, name)
	if err != nil {
		printRow(name, "-", "-", line(err))
		return false
	}
	return compared(name, all)
}

// compared prints the row of searches.
func compared(name string, all []conformance.Search) (passed bool) {
	same, trials, first := 0, 0, ""
	for _, s := range all {
		trials += len(s.Trials)
		err := s.Compare()
		if err == nil {
			same++
		} else if first == "" {
			first = fmt.Sprintf("%s: %s", s.Name, line(err))
		}
	}
	printRow(name, fmt.Sprintf("%d/%d", same, len(all)), strconv.Itoa(trials), first)
	return first == ""
}

// liveSearches has the reference package run random searches, compares them and prints a row.
func liveSearches(ctx context.Context, python string) (all, failed int) {
	if _, err := os.Stat(filepath.Clean(python)); python == "" || err != nil {
		fmt.Printf("skipped: %d random searches against MLRsearch: -python %q is no interpreter that has it; `make mlrsearch-reference` installs one\n", liveCount, python)
		return 0, 0
	}
	fmt.Printf(row, searchHeading...)
	found, err := conformance.Reference(ctx, python, conformance.RandomSearches(liveCount, 1))
	if err != nil {
		printRow(live, "-", "-", line(err))
		return 1, 1
	}
	passed := compared(live, found)
	fmt.Println()
	if !passed {
		return 1, 1
	}
	return 1, 0
}
