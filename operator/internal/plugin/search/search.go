// SPDX-License-Identifier: Apache-2.0

// Package search answers: what did a search find, how far is it, and how long will one take?
package search

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/output"
)

// NewCommand returns `search`.
func NewCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "search",
		Short: "Report, follow, compare and simulate TrafficSearches",
		Example: `  kubectl spate search report router
  kubectl spate search compare router-before router-after
  kubectl spate search simulate router.yaml --device capacity=1Mpps`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newReportCommand(), newWatchCommand(), newSimulateCommand(), newCompareCommand())
	return c
}

// newReportCommand returns `search report`.
func newReportCommand() *cobra.Command {
	var flags cluster.Flags
	var form output.Flag
	c := &cobra.Command{
		Use:   "report SEARCH",
		Short: "Show what a search found, as the tables of RFC 2544 section 26",
		Long: `Shows what a TrafficSearch has found: throughput by goal, latency, frame loss and back-to-back frames of each variant, the parameters in force, and
in what the method differs from RFC 2544. While the search lasts, what it has found so far. Loads are of the busiest transmitting port.`,
		Example: `  kubectl spate search report router
  kubectl spate search report router -o csv > router.csv
  kubectl spate search report router -o junit > router.xml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: flags.Complete(1, cluster.Searches),
		RunE: func(c *cobra.Command, args []string) error {
			if err := form.Check(); err != nil {
				return err
			}
			connection, err := flags.Connect()
			if err != nil {
				return err
			}
			search, err := find(c.Context(), connection.Client, connection.Namespace, args[0])
			if err != nil {
				return err
			}
			return formats[form.Form()](c.OutOrStdout(), search)
		},
	}
	flags.Add(c)
	form.Add(c, "md", "junit")
	return c
}

func find(ctx context.Context, reader kube.Reader, namespace, name string) (*spatev1.TrafficSearch, error) {
	search := &spatev1.TrafficSearch{}
	if err := reader.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: name}, search); err != nil {
		if kube.IgnoreNotFound(err) == nil {
			return nil, fmt.Errorf("there is no TrafficSearch %q in namespace %s", name, namespace)
		}
		return nil, err
	}
	return search, nil
}
