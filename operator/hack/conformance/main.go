// SPDX-License-Identifier: Apache-2.0

// conformance compares what imported profiles send with what TRex sends, converts captures to templates, and compares searches with FD.io's
// reference package. It prints a row for each file. See `make conformance`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"spate.dev/operator/test/conformance"
)

func main() {
	data := flag.String("data", "", "folder with trex-stateless, trex-stateful, captures and mlrsearch")
	engine := flag.String("engine", os.Getenv("SPATE_ENGINE"), "the engine's program")
	python := flag.String("python", os.Getenv("MLRSEARCH_PYTHON"), "a Python interpreter with MLRsearch")
	flag.Parse()
	passed, err := run(*data, *engine, *python, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

// run checks the profiles, captures and searches in a folder, or only those that are named.
func run(data, engine, python string, names []string) (passed bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	scratch, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	runner := conformance.Runner{Engine: engine, Scratch: scratch}
	all, failed := 0, 0
	for _, part := range []part{
		{"trex-stateless", ".json", []any{"PROFILE", "1 WORKER", "2 WORKERS", "FIRST DIFFERENCE"}, stateless},
		{"trex-stateful", ".json", []any{"STATEFUL PROFILE", "1 WORKER", "", "FIRST DIFFERENCE"}, stateful},
		{"captures", ".pcap", []any{"CAPTURE", "TEMPLATE", "", "REFUSED"}, capture},
		{"mlrsearch", ".json", searchHeading, searches},
	} {
		of, bad, err := part.run(ctx, runner, data, names)
		if err != nil {
			return false, err
		}
		all, failed = all+of, failed+bad
	}
	if len(names) == 0 || slices.Contains(names, live) {
		of, bad := liveSearches(ctx, python)
		all, failed = all+of, failed+bad
	}
	if all > 0 {
		fmt.Printf("%d passed, %d failed\n", all-failed, failed)
	}
	return failed == 0, nil
}

// part of the data: the files of a folder.
type part struct {
	folder, ending string
	heading        []any
	// compare checks a file and prints its row.
	compare func(ctx context.Context, runner conformance.Runner, folder, name string) (passed bool)
}

// run returns the number of files, and how many of them failed.
func (p part) run(ctx context.Context, runner conformance.Runner, data string, chosen []string) (all, failed int, err error) {
	folder := filepath.Join(data, p.folder)
	found, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Printf("skipped: there is no folder %s; name the one that has it, as CONFORMANCE\n", folder)
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	var names []string
	for _, file := range found {
		if name, is := strings.CutSuffix(file.Name(), p.ending); is && (len(chosen) == 0 || slices.Contains(chosen, name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 && len(chosen) == 0 {
		return 0, 0, fmt.Errorf("%s holds nothing to compare", folder)
	}
	if len(names) == 0 {
		return 0, 0, nil
	}
	fmt.Printf(row, p.heading...)
	for _, name := range names {
		if !p.compare(ctx, runner, folder, name) {
			failed++
		}
		if ctx.Err() != nil {
			return 0, 0, ctx.Err()
		}
	}
	fmt.Println()
	return len(names), failed, nil
}

const row = "%-36s %-9s %-9s %s\n"

// stateless compares a profile and prints its row.
func stateless(ctx context.Context, runner conformance.Runner, folder, name string) (passed bool) {
	c, err := conformance.Load(folder, name)
	if err != nil {
		fmt.Printf(row, name, "-", "-", line(err))
		return false
	}
	cells := make([]string, len(conformance.Runs))
	first := ""
	for i, run := range conformance.Runs {
		cells[i] = "same"
		if err := runner.Compare(ctx, c, run); err != nil {
			cells[i] = "differs"
			if first == "" {
				first = fmt.Sprintf("%d worker(s): %s", run.Workers, line(err))
			}
		}
	}
	printRow(name, cells[0], cells[1], first)
	return first == ""
}

// printRow prints one.
func printRow(cells ...any) {
	fmt.Println(strings.TrimRight(fmt.Sprintf(strings.TrimSuffix(row, "\n"), cells...), " "))
}

// stateful compares a stateful profile and prints its row.
func stateful(ctx context.Context, runner conformance.Runner, folder, name string) (passed bool) {
	c, err := conformance.LoadStateful(folder, name)
	if err != nil {
		printRow(name, "-", "", line(err))
		return false
	}
	if err := runner.CompareStateful(ctx, c); err != nil {
		printRow(name, "differs", "", line(err))
		return false
	}
	printRow(name, "same", "", "")
	return true
}

// capture converts a capture and prints its row: a refusal names a packet's number.
func capture(ctx context.Context, runner conformance.Runner, folder, name string) (passed bool) {
	refusal, err := runner.Convert(ctx, filepath.Join(folder, name+".pcap"))
	switch {
	case err != nil:
		printRow(name, "-", "", line(err))
		return false
	case refusal != "":
		printRow(name, "refused", "", refusal)
		return true
	}
	printRow(name, "made", "", "")
	return true
}

// line returns an error's first line, and the number of others.
func line(err error) string {
	first, rest, more := strings.Cut(err.Error(), "\n")
	if more {
		return fmt.Sprintf("%s (and %d more)", first, strings.Count(rest, "\n")+1)
	}
	return first
}
