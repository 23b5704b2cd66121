// SPDX-License-Identifier: Apache-2.0

// Package selection answers: which profile or run of the files do the flags select, and which plan results from it?
package selection

import (
	"fmt"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/offline"
	"spate.dev/operator/internal/plan/origin"
	"spate.dev/operator/internal/plugin/files"
)

// Flags select a profile or a run of the files.
type Flags struct {
	files        files.Flags
	profile, run string
}

// Add adds the flags to a command.
func (f *Flags) Add(c *cobra.Command) {
	f.files.Add(c)
	c.Flags().StringVar(&f.profile, "profile", "", "name of the TrafficProfile, where there are several")
	c.Flags().StringVar(&f.run, "run", "", "name of a TrafficRun: what it executes, with its overrides")
	c.MarkFlagsMutuallyExclusive("profile", "run")
}

// Args accepts the arguments of a command that reads files.
func (f *Flags) Args(c *cobra.Command, names []string) error { return f.files.Args(c, names) }

// Planned is the selected definition, and its plan.
type Planned struct {
	Files      offline.Files
	Definition offline.Definition
	// Plan for all engines together.
	Plan *enginev1.Plan
	// Origin gives the fields of the files for the fields of the plan.
	Origin origin.Origin
}

// Resolve returns the plan of the selected profile or run.
func (f *Flags) Resolve(c *cobra.Command, names []string) (*Planned, error) {
	read, problems, err := f.files.Read(c, names)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		files.Tell(c.ErrOrStderr(), problems)
		return nil, files.ErrProblems
	}
	definition, err := read.Choose(f.profile, f.run)
	if err != nil {
		return nil, err
	}
	resolved, problems := read.Resolve(definition)
	if len(problems) > 0 {
		files.Tell(c.ErrOrStderr(), problems)
		return nil, files.ErrProblems
	}
	for _, warning := range resolved.Warnings {
		fmt.Fprintln(c.ErrOrStderr(), "warning:", warning)
	}
	made := definition.Plan(resolved)
	return &Planned{read, definition, made, origin.Of(made, resolved.Entries, resolved.Clients)}, nil
}
