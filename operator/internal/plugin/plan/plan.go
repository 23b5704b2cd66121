// SPDX-License-Identifier: Apache-2.0

// Package plan answers: which plan do engines get for a profile or a run?
package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plugin/enginebinary"
	"spate.dev/operator/internal/plugin/files"
	"spate.dev/operator/internal/plugin/resources"
	"spate.dev/operator/internal/plugin/selection"
)

// errRefused follows what an engine refuses.
var errRefused = errors.New("the engine would refuse the plan")

// NewCommand returns `plan`.
func NewCommand() *cobra.Command {
	var flags selection.Flags
	var named string
	var secrets, programs bool
	c := &cobra.Command{
		Use:   "plan (FILE | -f FILE | -k FOLDER)...",
		Short: "Print the plan that engines get for a profile or a run",
		Long: `Prints the plan that engines get for a profile, or for a run with its overrides, as JSON: streams with the bytes of their
packets, what varies in them, rates and times, and applications with their programs and addresses: those that presets (http, dns,
payload) expand to, too. spate-engine run, simulate and compile read it. The plan of a generator of several replicas is that of all of
them together. It refers to bytes of Secrets, and has them with --secrets only; engines need them. Where the engine's program
spate-engine is found, what it would refuse is reported by the fields of the files, and the exit code is 1.

With --programs it prints the programs of presets as ASTFTemplates, to be read, or changed and applied in place of the presets.

` + files.About,
		Example: `  kubectl spate plan profile.yaml streams.yaml generator.yaml
  kubectl spate plan profile.yaml streams.yaml | spate-engine compile --plan -

  # What a run would execute
  kubectl spate plan profile.yaml run.yaml --run smoke-fast

  # The programs that presets expand to
  kubectl spate plan website.yaml --programs`,
		Args: flags.Args,
		RunE: func(c *cobra.Command, names []string) error {
			compiler, err := enginebinary.Optional(named)
			if err != nil {
				return err
			}
			p, err := flags.Resolve(c, names)
			if err != nil {
				return err
			}
			if programs {
				return showPrograms(c, p)
			}
			made := p.Plan
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
			var warned []string
			for _, violation := range checked.Warned {
				text := p.Origin.Refused(violation.Field, violation.Description).Error()
				if !slices.Contains(warned, text) { // both programs of a preset have one field
					fmt.Fprintln(c.ErrOrStderr(), "warning:", text)
				}
				warned = append(warned, text)
			}
			for _, violation := range checked.Refused {
				fmt.Fprintln(c.ErrOrStderr(), p.Origin.Refused(violation.Field, violation.Description))
			}
			if err != nil || len(checked.Refused) == 0 {
				return err
			}
			return errRefused
		},
	}
	flags.Add(c)
	c.Flags().BoolVar(&secrets, "secrets", false, "print the bytes of Secrets that the plan refers to")
	c.Flags().BoolVar(&programs, "programs", false, "print the programs that presets expand to, as ASTFTemplates, instead of the plan")
	c.MarkFlagsMutuallyExclusive("secrets", "programs")
	enginebinary.AddFlag(c, &named)
	return c
}

// showPrograms prints the templates of presets as manifests.
func showPrograms(c *cobra.Command, p *selection.Planned) error {
	var all []resources.Resource
	for _, template := range p.Files.Programs(p.Definition) {
		all = append(all, resources.Resource{Kind: "astftemplate", Object: template})
	}
	if len(all) == 0 {
		return fmt.Errorf("%s has no application of a preset (http, dns or payload)", p.Definition.Object)
	}
	return resources.Show(c.OutOrStdout(), all)
}
