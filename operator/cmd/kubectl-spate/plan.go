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
)

// errRefused is told after what an engine refuses.
var errRefused = errors.New("the engine would refuse the plan")

// profileFlags choose a profile of the files.
type profileFlags struct {
	fileFlags
	profile string
}

func (f *profileFlags) add(c *cobra.Command) {
	f.fileFlags.add(c)
	c.Flags().StringVar(&f.profile, "profile", "", "name of the TrafficProfile, where there are several")
}

// plan of the profile, for all engines together, and what it was made of.
func (f *profileFlags) plan(c *cobra.Command, names []string) (*enginev1.Plan, plan.Origin, error) {
	files, problems, err := f.read(c, names)
	if err != nil {
		return nil, plan.Origin{}, err
	}
	if len(problems) > 0 {
		tell(c.ErrOrStderr(), problems)
		return nil, plan.Origin{}, errProblems
	}
	profile, err := files.Profile(f.profile)
	if err != nil {
		return nil, plan.Origin{}, err
	}
	resolved, problems := files.Resolve(profile)
	if len(problems) > 0 {
		tell(c.ErrOrStderr(), problems)
		return nil, plan.Origin{}, errProblems
	}
	for _, warning := range resolved.Warnings {
		fmt.Fprintln(c.ErrOrStderr(), "warning:", warning)
	}
	made := offline.PlanOf(profile.Value, resolved)
	return made, plan.OriginOf(made, resolved.Entries), nil
}

func newPlanCommand() *cobra.Command {
	var flags profileFlags
	var named string
	var secrets bool
	c := &cobra.Command{
		Use:   "plan FILE...",
		Short: "Print the plan that engines get for a profile",
		Long: `Prints the plan that engines get for a profile, as JSON: streams with the bytes of their packets, what varies in them,
rates and times, and templates with their programs and addresses. spate-engine run, simulate and compile read it. The plan of a generator of several replicas is that of
all of them together. It refers to bytes of Secrets, and has them with --secrets only; engines need them. Where the engine's program spate-engine is found, what it would refuse is told, by the fields of the files, and the exit code is 1.

` + aboutFiles,
		Example: `  kubectl spate plan profile.yaml streams.yaml generator.yaml
  kubectl spate plan profile.yaml streams.yaml | spate-engine compile --plan -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, names []string) error {
			compiler, err := maybeEngine(named)
			if err != nil {
				return err
			}
			made, origin, err := flags.plan(c, names)
			if err != nil {
				return err
			}
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
				fmt.Fprintln(c.ErrOrStderr(), "warning:", origin.Refused(violation.Field, violation.Description))
			}
			for _, violation := range checked.Refused {
				fmt.Fprintln(c.ErrOrStderr(), origin.Refused(violation.Field, violation.Description))
			}
			if err != nil || len(checked.Refused) == 0 {
				return err
			}
			return errRefused
		},
	}
	flags.add(c)
	c.Flags().BoolVar(&secrets, "secrets", false, "print the bytes of Secrets that the plan refers to")
	addEngine(c, &named)
	return c
}
