// SPDX-License-Identifier: Apache-2.0

// kubectl-spate is kubectl's plugin for Spate: `kubectl spate`. What it does with files needs no cluster.
package main

import (
	"context"
	"errors"
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

// code tells an error, unless the engine did, and gives the exit code.
func code(err error) int {
	var engine *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &engine) && engine.Exited():
		return engine.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	return 1
}
