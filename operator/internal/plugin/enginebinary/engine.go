// SPDX-License-Identifier: Apache-2.0

// Package enginebinary answers: where is the engine's program that a command runs on the user's machine?
package enginebinary

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/engine"
)

// Variable names the engine's program in the environment.
const Variable = "SPATE_ENGINE"

var errNoEngine = errors.New("this takes the engine's program spate-engine, which is not in PATH: build it with `make engine`, " +
	"and name it with --engine or in the environment as " + Variable)

// AddFlag adds the flag with its path.
func AddFlag(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "engine", "", "the engine's program (default $"+Variable+", or spate-engine in PATH)")
}

// Find returns the path of the engine's program.
func Find(flag string) (string, error) {
	name, from := flag, "--engine"
	if name == "" {
		name, from = os.Getenv(Variable), Variable
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

// Optional returns a compiler without a program if none is named and none is found: it checks nothing.
func Optional(flag string) (engine.Compiler, error) {
	path, err := Find(flag)
	if errors.Is(err, errNoEngine) {
		err = nil
	}
	return engine.Compiler{Binary: path}, err
}
