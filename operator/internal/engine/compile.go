// SPDX-License-Identifier: Apache-2.0

package engine

// This file answers: would an engine take this plan?

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"spate.dev/operator/internal/engine/enginev1"
)

// Compiler tries plans with the engine's own code.
type Compiler struct {
	// Binary is the path of spate-engine; where there is none, nothing is tried.
	Binary string
}

// compileLimit bounds one try.
const compileLimit = 30 * time.Second

// Check returns what the engine would refuse the plan for; empty if it would take it, or if there is no engine to try.
func (c Compiler) Check(ctx context.Context, plan *enginev1.Plan) (string, error) {
	if c.Binary == "" {
		return "", nil
	}
	if _, err := os.Stat(c.Binary); err != nil {
		return "", nil
	}
	text, err := protojson.Marshal(plan)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, compileLimit)
	defer cancel()
	var out, complaints bytes.Buffer
	command := exec.CommandContext(ctx, c.Binary, "compile", "--plan", "-") //nolint:gosec // the operator's own flag
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(text), &out, &complaints
	err = command.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		message := strings.TrimSpace(complaints.String())
		for i, s := range plan.Streams {
			message = strings.ReplaceAll(message, fmt.Sprintf("streams[%d]", i), "stream "+s.Name)
		}
		return message, nil
	}
	return "", fmt.Errorf("%s compile: %w: %s", c.Binary, err, strings.TrimSpace(complaints.String()))
}
