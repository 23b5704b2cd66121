// SPDX-License-Identifier: Apache-2.0

// Package version answers: which version of the plugin is this?
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/engine"
)

// NewCommand returns `version`. What the linker set is the version; if that is empty, the module's is used, as with `go install`.
func NewCommand(linked string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of the plugin",
		Long: `Shows the version of the plugin: the tag or the commit that it was built from ("-dirty" where files were changed since), the
version of the contract with engines, and what it was built with. It needs no cluster.`,
		Example: "  kubectl spate version",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), Text(linked))
			return err
		},
	}
}

// Text is what `version` prints, in one line.
func Text(linked string) string {
	is := linked
	if info, known := debug.ReadBuildInfo(); is == "" && known {
		is = info.Main.Version
	}
	return fmt.Sprintf("kubectl spate %s, contract 1.%d, %s %s/%s", cmp.Or(is, "(devel)"), engine.ContractMinor, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
