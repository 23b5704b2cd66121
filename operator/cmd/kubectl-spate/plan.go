// SPDX-License-Identifier: Apache-2.0

// Which plan do engines get for a profile?

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/offline"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/origin"
)

// errRefused follows what an engine refuses.
var errRefused = errors.New("the engine would refuse the plan")

// profileFlags select a profile or a run of the files.
type profileFlags struct {
	fileFlags
	profile, run string
}

func (f *profileFlags) add(c *cobra.Command) {
	f.fileFlags.add(c)
	c.Flags().StringVar(&f.profile, "profile", "", "name of the TrafficProfile, where there are several")
	c.Flags().StringVar(&f.run, "run", "", "name of a TrafficRun: what it executes, with its overrides")
	c.MarkFlagsMutuallyExclusive("profile", "run")
}

// planned is the selected definition, and its plan.
type planned struct {
	files      offline.Files
	definition offline.Definition
	// plan for all engines together.
	plan   *enginev1.Plan
	origin origin.Origin
}

// resolve returns the plan of the selected profile or run.
func (f *profileFlags) resolve(c *cobra.Command, names []string) (*planned, error) {
	files, problems, err := f.read(c, names)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		tell(c.ErrOrStderr(), problems)
		return nil, errProblems
	}
	definition, err := files.Choose(f.profile, f.run)
	if err != nil {
		return nil, err
	}
	resolved, problems := files.Resolve(definition)
	if len(problems) > 0 {
		tell(c.ErrOrStderr(), problems)
		return nil, errProblems
	}
	for _, warning := range resolved.Warnings {
		fmt.Fprintln(c.ErrOrStderr(), "warning:", warning)
	}
	made := definition.Plan(resolved)
	return &planned{files, definition, made, origin.Of(made, resolved.Entries)}, nil
}

func newPlanCommand() *cobra.Command {
	var flags profileFlags
	var named string
	var secrets, programs bool
	c := &cobra.Command{
		Use:   "plan FILE...",
		Short: "Print the plan that engines get for a profile or a run",
		Long: `Prints the plan that engines get for a profile, or for a run with its overrides, as JSON: streams with the bytes of their
packets, what varies in them, rates and times, and applications with their programs and addresses: those that presets (http, dns,
payload) expand to, too. spate-engine run, simulate and compile read it. The plan of a generator of several replicas is that of all of
them together. It refers to bytes of Secrets, and has them with --secrets only; engines need them. Where the engine's program
spate-engine is found, what it would refuse is reported by the fields of the files, and the exit code is 1.

With --programs it prints the programs of presets as ASTFTemplates, to be read, or changed and applied in place of the presets.

` + aboutFiles,
		Example: `  kubectl spate plan profile.yaml streams.yaml generator.yaml
  kubectl spate plan profile.yaml streams.yaml | spate-engine compile --plan -

  # What a run would execute
  kubectl spate plan profile.yaml run.yaml --run smoke-fast

  # The programs that presets expand to
  kubectl spate plan website.yaml --programs`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, names []string) error {
			compiler, err := maybeEngine(named)
			if err != nil {
				return err
			}
			p, err := flags.resolve(c, names)
			if err != nil {
				return err
			}
			if programs {
				return showPrograms(c, p)
			}
			made := p.plan
			data := made.Data
			if !secrets {
				made.Data = nil
			}
			text, err := plan.Text(made)
			made.Data = data
			if err != nil {
				return err
			}
			if _, err = c.OutOrStdout().Write(text); err != nil {
				return err
			}
			checked, err := compiler.Check(c.Context(), made)
			for _, violation := range checked.Warned {
				fmt.Fprintln(c.ErrOrStderr(), "warning:", p.origin.Refused(violation.Field, violation.Description))
			}
			for _, violation := range checked.Refused {
				fmt.Fprintln(c.ErrOrStderr(), p.origin.Refused(violation.Field, violation.Description))
			}
			if err != nil || len(checked.Refused) == 0 {
				return err
			}
			return errRefused
		},
	}
	flags.add(c)
	c.Flags().BoolVar(&secrets, "secrets", false, "print the bytes of Secrets that the plan refers to")
	c.Flags().BoolVar(&programs, "programs", false, "print the programs that presets expand to, as ASTFTemplates, instead of the plan")
	c.MarkFlagsMutuallyExclusive("secrets", "programs")
	addEngine(c, &named)
	return c
}

// showPrograms prints the templates of presets as manifests.
func showPrograms(c *cobra.Command, p *planned) error {
	var resources []resource
	for _, template := range p.files.Programs(p.definition) {
		resources = append(resources, resource{"astftemplate", template})
	}
	if len(resources) == 0 {
		return fmt.Errorf("%s has no application of a preset (http, dns or payload)", p.definition.Object)
	}
	return show(c.OutOrStdout(), resources)
}
