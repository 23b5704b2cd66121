// SPDX-License-Identifier: Apache-2.0

// Package validate answers: are manifests valid?
package validate

import (
	"fmt"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/offline"
	"spate.dev/operator/internal/plugin/enginebinary"
	"spate.dev/operator/internal/plugin/files"
)

// NewCommand returns `validate`.
func NewCommand() *cobra.Command {
	var flags files.Flags
	var named string
	c := &cobra.Command{
		Use:   "validate (FILE | -f FILE | -k FOLDER)...",
		Short: "Report every problem of manifests, without a cluster",
		Long: `Reports every problem of manifests: file, document, object, field, and what is wrong, a line each. Exits with 1 if there is one.
It finds what an API server refuses, in the server's words: fields that do not exist, and values that break the rules of the kinds of
Spate. Of what a server takes, with the defaults that it fills in, it finds what keeps the operator from making a plan and, with the
engine's program spate-engine, what engines refuse of templates, profiles and runs. What only the cluster knows it does not find: the
line rates of devices, and what admission policies refuse.

` + files.About,
		Example: `  kubectl spate validate profile.yaml streams.yaml generator.yaml
  kubectl spate validate -R -f profiles/
  kubectl spate validate -k config/samples
  helm template lab ./chart | kubectl spate validate -`,
		Args: flags.Args,
		RunE: func(c *cobra.Command, names []string) error {
			compiler, err := enginebinary.Optional(named)
			if err != nil {
				return err
			}
			read, problems, err := flags.Read(c, names)
			if err != nil {
				return err
			}
			problems = append(problems, read.Check()...)
			tried, err := try(c, compiler, read, problems)
			if err != nil {
				return err
			}
			problems = append(problems, tried.Refused...)
			files.Tell(c.OutOrStdout(), problems)
			for _, warning := range append(read.Warnings(), tried.Warned...) {
				fmt.Fprintln(c.ErrOrStderr(), "warning:", warning.Error())
			}
			for _, other := range read.Others {
				fmt.Fprintf(c.ErrOrStderr(), "%s: %s: is ignored\n", other.Origin, other.Value)
			}
			if len(problems) > 0 {
				return fmt.Errorf("problems found: %d", len(problems))
			}
			fmt.Fprintf(c.OutOrStdout(), "no problem found (TrafficProfiles: %d, TrafficRuns: %d, TrafficSearches: %d, StatelessStreams: %d, ASTFTemplates: %d, TrafficGenerators: %d)\n",
				len(read.Profiles), len(read.Runs), len(read.Searches), len(read.Streams), len(read.Templates), len(read.Generators))
			return nil
		},
	}
	flags.Add(c)
	enginebinary.AddFlag(c, &named)
	return c
}

// try has an engine check what has no problem so far, and reports what it did not check.
func try(c *cobra.Command, compiler engine.Compiler, read offline.Files, known []manifest.Problem) (tried offline.Tried, err error) {
	if len(read.Templates)+len(read.Profiles)+len(read.Runs) == 0 {
		return tried, nil
	}
	if compiler.Binary == "" {
		fmt.Fprintln(c.ErrOrStderr(), "not checked by an engine, which may refuse more: spate-engine is not in PATH; build it with `make engine`, "+
			"and name it with --engine or in the environment as "+enginebinary.Variable)
		return tried, nil
	}
	tried, err = read.Try(c.Context(), compiler, known)
	for _, one := range tried.Untried {
		fmt.Fprintf(c.ErrOrStderr(), "%s: %s: not checked by an engine: %s\n", one.Origin, one.Object, one.Message)
	}
	return tried, err
}
