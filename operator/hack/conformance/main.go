// SPDX-License-Identifier: Apache-2.0

// conformance compares what imported profiles send with what TRex sends: a row a profile. See `make conformance`.
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

	"spate.dev/operator/internal/conformance"
)

func main() {
	data := flag.String("data", "", "folder with trex-stateless")
	engine := flag.String("engine", os.Getenv("SPATE_ENGINE"), "the engine's program")
	flag.Parse()
	passed, err := run(*data, *engine, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

// run compares the profiles of a folder, or those of them that are named.
func run(data, engine string, names []string) (passed bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	folder := filepath.Join(data, "trex-stateless")
	found, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Printf("skipped: there is no folder %s; name the one that has it, as CONFORMANCE\n", folder)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if len(names) == 0 {
		for _, file := range found {
			if name, is := strings.CutSuffix(file.Name(), ".json"); is {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	if len(names) == 0 {
		return false, fmt.Errorf("%s holds no profile", folder)
	}
	scratch, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	runner := conformance.Runner{Engine: engine, Scratch: scratch}
	failed := 0
	fmt.Printf(row, "PROFILE", "1 WORKER", "2 WORKERS", "FIRST DIFFERENCE")
	for _, name := range names {
		if !compare(ctx, runner, folder, name) {
			failed++
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	if _, err := os.Stat(filepath.Join(data, "trex-stateful")); err == nil {
		fmt.Println("stateful: not there yet")
	}
	fmt.Printf("%d passed, %d failed\n", len(names)-failed, failed)
	return failed == 0, nil
}

const row = "%-36s %-9s %-9s %s\n"

// compare prints a profile's row.
func compare(ctx context.Context, runner conformance.Runner, folder, name string) (passed bool) {
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
	fmt.Println(strings.TrimRight(fmt.Sprintf(strings.TrimSuffix(row, "\n"), name, cells[0], cells[1], first), " "))
	return first == ""
}

// line is an error's first line, and how many more there are.
func line(err error) string {
	first, rest, more := strings.Cut(err.Error(), "\n")
	if more {
		return fmt.Sprintf("%s (and %d more)", first, strings.Count(rest, "\n")+1)
	}
	return first
}
