// SPDX-License-Identifier: Apache-2.0

// kubectl-spate is `kubectl spate`.
package main

import (
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{Use: "kubectl-spate", Short: "Works with Spate's traffic", SilenceUsage: true}
	root.AddCommand(newImportCommand())
	if root.Execute() != nil {
		os.Exit(1)
	}
}
