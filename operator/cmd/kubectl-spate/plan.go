// SPDX-License-Identifier: Apache-2.0

// Which plan do engines get for a profile?

package main

import (
	"github.com/spf13/cobra"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
)

// profileFlags choose a profile of the files.
type profileFlags struct {
	fileFlags
	profile string
}

func (f *profileFlags) add(c *cobra.Command) {
	f.fileFlags.add(c)
	c.Flags().StringVar(&f.profile, "profile", "", "name of the TrafficProfile, where there are several")
}

// plan of the profile, for all engines together.
func (f *profileFlags) plan(c *cobra.Command, names []string) (*enginev1.Plan, error) {
	files, problems, err := f.read(c, names)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		tell(c.ErrOrStderr(), problems)
		return nil, errProblems
	}
	profile, err := files.Profile(f.profile)
	if err != nil {
		return nil, err
	}
	resolved, problems := files.Resolve(profile)
	if len(problems) > 0 {
		tell(c.ErrOrStderr(), problems)
		return nil, errProblems
	}
	name, namespace := profile.Value.Name, profile.Value.Namespace
	return resolved.Plan(plan.Identity{RunID: name, Tag: 1, Profile: name, Namespace: namespace}), nil
}

func newPlanCommand() *cobra.Command {
	var flags profileFlags
	c := &cobra.Command{
		Use:   "plan FILE...",
		Short: "Print the plan that engines get for a profile",
		Long: `Prints the plan that engines get for a profile, as JSON: streams with the bytes of their packets, what varies in them,
rates and times, and templates with their programs and addresses. spate-engine run, simulate and compile read it. The plan of a generator of several replicas is that of
all of them together.

` + aboutFiles,
		Example: `  kubectl spate plan profile.yaml streams.yaml generator.yaml
  kubectl spate plan profile.yaml streams.yaml | spate-engine compile --plan -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, names []string) error {
			made, err := flags.plan(c, names)
			if err != nil {
				return err
			}
			text, err := plan.Text(made)
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	}
	flags.add(c)
	return c
}
