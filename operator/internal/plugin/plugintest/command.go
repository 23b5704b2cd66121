// SPDX-License-Identifier: Apache-2.0

package plugintest

// This file answers: what does a command line write, and how does it end?

import (
	"bytes"
	"strings"

	"github.com/spf13/cobra"
)

// Run runs a command line of the plugin that has these commands only, with standard input.
func Run(input string, args []string, commands ...*cobra.Command) (output, messages string, err error) {
	root := &cobra.Command{Use: "kubectl-spate", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(commands...)
	return Execute(root, input, args...)
}

// Execute runs a command line with standard input.
func Execute(root *cobra.Command, input string, args ...string) (output, messages string, err error) {
	var out, errs bytes.Buffer
	root.SetArgs(args)
	root.SetIn(strings.NewReader(input))
	root.SetOut(&out)
	root.SetErr(&errs)
	err = root.Execute()
	return out.String(), errs.String(), err
}
