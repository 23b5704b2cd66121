// SPDX-License-Identifier: Apache-2.0

package engine

// This file answers: does an engine accept this plan?

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"spate.dev/operator/internal/engine/enginev1"
)

// Compiler checks plans with the engine's own code.
type Compiler struct {
	// Binary is the path of spate-engine; if empty, nothing is checked.
	Binary string
	// Limit bounds one check; DefaultLimit when 0.
	Limit time.Duration
}

// DefaultLimit is ample time for any plan that engines accept, on a CPU that is available.
const DefaultLimit = time.Minute

// LateError says that a check was stopped at its limit.
type LateError struct{ Limit time.Duration }

func (e *LateError) Error() string {
	return fmt.Sprintf("spate-engine could not try the plan within %s", e.Limit)
}

// Checked is the engine's result for a plan.
type Checked struct {
	// Refused lists what the engine refuses.
	Refused []Violation
	// Warned lists what the engine accepts and is seldom intended.
	Warned []Violation
}

// Check returns the engine's result for a plan; an empty one without an engine. Plans with captures on volumes are not
// checked, because only the engines' nodes have the files.
func (c Compiler) Check(ctx context.Context, plan *enginev1.Plan) (checked Checked, err error) {
	return c.CheckWritten(ctx, plan, encoded(plan))
}

// CheckWritten is Check for a plan that is too large for memory: outline has all of it but bytes, and write writes it
// encoded.
func (c Compiler) CheckWritten(ctx context.Context, outline *enginev1.Plan, write func(io.Writer) error) (checked Checked, err error) {
	if !c.there() || OnVolume(outline) {
		return checked, nil
	}
	out, refused, err := c.run(ctx, write)
	checked.Refused = refused
	if err == nil && refused == nil {
		checked.Warned = warnings(out)
	}
	return checked, err
}

// OnVolume reports whether a plan has captures that are files of engines.
func OnVolume(plan *enginev1.Plan) bool {
	return slices.ContainsFunc(plan.GetStateful().GetTemplates(), func(t *enginev1.Template) bool { return t.GetCapture().GetPath() != "" }) ||
		slices.ContainsFunc(plan.GetStreams(), func(s *enginev1.Stream) bool { return s.GetReplay().GetPath() != "" })
}

// there reports whether there is an engine's program.
func (c Compiler) there() bool {
	_, err := os.Stat(c.Binary)
	return c.Binary != "" && err == nil
}

// Resolve returns a plan with each template's capture replaced by what is derived from it (programs, payloads, protocol
// and destination port), or what the engine refuses.
func (c Compiler) Resolve(ctx context.Context, plan *enginev1.Plan) (resolved *enginev1.Plan, refused []Violation, err error) {
	out, refused, err := c.run(ctx, encoded(plan), "--resolved")
	if err != nil || len(refused) > 0 {
		return nil, refused, err
	}
	resolved = &enginev1.Plan{}
	if err := protojson.Unmarshal(out, resolved); err != nil {
		return nil, nil, fmt.Errorf("%s compile --resolved printed no plan: %w", c.Binary, err)
	}
	return resolved, nil, nil
}

// encoded returns a function that writes a plan in memory.
func encoded(plan *enginev1.Plan) func(io.Writer) error {
	return func(w io.Writer) error {
		bytes, err := proto.Marshal(plan)
		if err == nil {
			_, err = w.Write(bytes)
		}
		return err
	}
}

// run compiles a plan, and returns the output, or why the plan is refused.
func (c Compiler) run(ctx context.Context, write func(io.Writer) error, flags ...string) (output []byte, refused []Violation, err error) {
	limit := cmp.Or(c.Limit, DefaultLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &LateError{limit})
	defer cancel()
	var out, complaints bytes.Buffer
	command := exec.CommandContext(ctx, c.Binary, append([]string{"compile", "--plan", "-", "--format", "binary"}, flags...)...) //nolint:gosec // the operator's own flag
	command.Stdout, command.Stderr = &out, &complaints
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := command.Start(); err != nil {
		return nil, nil, fmt.Errorf("%s compile: %w", c.Binary, err)
	}
	written := bufio.NewWriterSize(stdin, 64<<10)
	unwritten := write(written)
	if unwritten == nil {
		unwritten = written.Flush()
	}
	_ = stdin.Close()
	err = command.Wait()
	var late *LateError
	if errors.As(context.Cause(ctx), &late) && err != nil {
		return nil, nil, late
	}
	if unwritten != nil && !errors.Is(unwritten, syscall.EPIPE) { // a process that stopped reading says why
		return nil, nil, unwritten
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.Bytes(), nil, nil
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return nil, violations(out.Bytes(), complaints.String()), nil
	}
	return nil, nil, fmt.Errorf("%s compile: %w: %s", c.Binary, err, strings.TrimSpace(complaints.String()))
}

// warnings parses those that an engine printed: each has a field and a text.
func warnings(output []byte) (all []Violation) {
	var printed struct{ Warnings []string }
	if json.Unmarshal(output, &printed) != nil {
		return nil
	}
	for _, warning := range printed.Warnings {
		if field, description, found := strings.Cut(warning, ": "); found {
			all = append(all, Violation{field, description})
		}
	}
	return all
}

// violations parses those that an engine printed; if there are none, all of the output is one.
func violations(output []byte, message string) []Violation {
	var printed struct{ Errors []Violation }
	if json.Unmarshal(output, &printed) == nil && len(printed.Errors) > 0 {
		return printed.Errors
	}
	return []Violation{{Description: strings.TrimSpace(message)}}
}
