// SPDX-License-Identifier: Apache-2.0

// Where is the engine's program?

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/engine"
)

// engineVariable names the engine's program in the environment.
const engineVariable = "SPATE_ENGINE"

var errNoEngine = errors.New("this takes the engine's program spate-engine, which is not in PATH: build it with `make engine`, " +
	"and name it with --engine or in the environment as " + engineVariable)

// addEngine adds the flag with its path.
func addEngine(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "engine", "", "the engine's program (default $"+engineVariable+", or spate-engine in PATH)")
}

// findEngine returns the path of the engine's program.
func findEngine(flag string) (string, error) {
	name, from := flag, "--engine"
	if name == "" {
		name, from = os.Getenv(engineVariable), engineVariable
	}
	if name == "" {
		name, from = "spate-engine", ""
	}
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case from != "":
		return "", fmt.Errorf("%s names the engine's program: %w", from, err)
	}
	return "", errNoEngine
}

// maybeEngine returns a compiler without a program if none is named and none is found: it checks nothing.
func maybeEngine(flag string) (engine.Compiler, error) {
	path, err := findEngine(flag)
	if errors.Is(err, errNoEngine) {
		err = nil
	}
	return engine.Compiler{Binary: path}, err
}
