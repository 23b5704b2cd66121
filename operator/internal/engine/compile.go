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
	if !c.there() {
		return "", nil
	}
	_, refusal, err := c.run(ctx, plan)
	return refusal, err
}

// there tells whether there is an engine to try.
func (c Compiler) there() bool {
	_, err := os.Stat(c.Binary)
	return c.Binary != "" && err == nil
}

// Resolve gives a plan with each template's capture replaced by what it comes to: programs, payloads, protocol and destination
// port; or what the engine would refuse it for.
func (c Compiler) Resolve(ctx context.Context, plan *enginev1.Plan) (resolved *enginev1.Plan, refusal string, err error) {
	out, refusal, err := c.run(ctx, plan, "--resolved")
	if err != nil || refusal != "" {
		return nil, refusal, err
	}
	resolved = &enginev1.Plan{}
	if err := protojson.Unmarshal(out, resolved); err != nil {
		return nil, "", fmt.Errorf("%s compile --resolved printed no plan: %w", c.Binary, err)
	}
	return resolved, "", nil
}

// run compiles a plan, and gives what is printed or why the plan is refused.
func (c Compiler) run(ctx context.Context, plan *enginev1.Plan, flags ...string) (output []byte, refusal string, err error) {
	text, err := protojson.Marshal(plan)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, compileLimit)
	defer cancel()
	var out, complaints bytes.Buffer
	command := exec.CommandContext(ctx, c.Binary, append([]string{"compile", "--plan", "-"}, flags...)...) //nolint:gosec // the operator's own flag
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(text), &out, &complaints
	err = command.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.Bytes(), "", nil
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return nil, named(strings.TrimSpace(complaints.String()), plan), nil
	}
	return nil, "", fmt.Errorf("%s compile: %w: %s", c.Binary, err, strings.TrimSpace(complaints.String()))
}

// named says streams and templates by their names.
func named(message string, plan *enginev1.Plan) string {
	for i, s := range plan.GetStreams() {
		message = strings.ReplaceAll(message, fmt.Sprintf("streams[%d]", i), "stream "+s.Name)
	}
	for i, t := range plan.GetStateful().GetTemplates() {
		message = strings.ReplaceAll(message, fmt.Sprintf("stateful.templates[%d]", i), "template "+t.Name)
	}
	return message
}
