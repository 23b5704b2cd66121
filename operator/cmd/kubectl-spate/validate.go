// SPDX-License-Identifier: Apache-2.0

// Is there anything wrong with manifests?

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newValidateCommand() *cobra.Command {
	var files fileFlags
	c := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Tell every problem of manifests, without a cluster",
		Long: `Tells every problem of manifests: file, document, object, field, and what is wrong, a line each. Exits with 1 if there
is one. It finds what keeps the operator from making a plan, and fields that do not exist. What only the cluster knows it
cannot tell: the line rates of devices, what engines refuse, and the API's own rules (kubectl apply --dry-run=server).

` + aboutFiles,
		Example: `  kubectl spate validate profile.yaml streams.yaml generator.yaml
  kubectl kustomize config/samples | kubectl spate validate -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, names []string) error {
			read, problems, err := files.read(c, names)
			if err != nil {
				return err
			}
			problems = append(problems, read.Check()...)
			tell(c.OutOrStdout(), problems)
			for _, other := range read.Others {
				fmt.Fprintf(c.ErrOrStderr(), "%s: %s: is not looked into\n", other.Origin, other.Value)
			}
			if len(problems) > 0 {
				return fmt.Errorf("problems found: %d", len(problems))
			}
			fmt.Fprintf(c.OutOrStdout(), "no problem found (TrafficProfiles: %d, StatelessStreams: %d, ASTFTemplates: %d, TrafficGenerators: %d)\n", len(read.Profiles), len(read.Streams), len(read.Templates), len(read.Generators))
			return nil
		},
	}
	files.add(c)
	return c
}
