// SPDX-License-Identifier: Apache-2.0

// kubectl-spate is kubectl's plugin for Spate: `kubectl spate`. What it does with files needs no cluster.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() { os.Exit(code(run())) }

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return newRootCommand().ExecuteContext(ctx)
}

// code tells an error, unless it is that of an engine, which told it, and gives the exit code.
func code(err error) int {
	switch engine, alone := err.(*exec.ExitError); { //nolint:errorlint // a wrapped one has something to tell
	case err == nil:
		return 0
	case alone && engine.Exited():
		return engine.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	return 1
}
