// SPDX-License-Identifier: Apache-2.0

// kubectl-spate is kubectl's plugin for Spate: `kubectl spate`. Commands on files need no cluster.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/exit"
)

// version is set by the linker (build/operator.mk).
var version string

func main() { os.Exit(code(execute())) }

func execute() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRootCommand()
	root.SetArgs(unflagged(os.Args[1:]))
	return root.ExecuteContext(ctx)
}

// unflagged moves a rate such as -10%, which would be parsed as a flag, behind all flags. No flag starts with a digit.
func unflagged(args []string) []string {
	at := slices.IndexFunc(args, func(arg string) bool { return len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9' })
	if at < 0 || slices.Contains(args, "--") {
		return args
	}
	return append(slices.Delete(slices.Clone(args), at, at+1), "--", args[at])
}

// code prints an error, unless an engine printed it already, and returns the exit code.
func code(err error) int {
	switch engine, alone := err.(*exec.ExitError); { //nolint:errorlint // a wrapped one has a message of its own
	case err == nil:
		return 0
	case alone && engine.Exited():
		return engine.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "error:", cluster.Explained(err))
	return exit.Code(err)
}
