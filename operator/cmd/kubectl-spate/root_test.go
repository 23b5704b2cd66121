// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestCommandsShowExamples(t *testing.T) {
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		if !c.HasSubCommands() && !c.Runnable() || c.Short == "" {
			t.Errorf("%s: Short %q, runnable %v", c.CommandPath(), c.Short, c.Runnable())
		}
		if c.Runnable() && c.Example == "" {
			t.Errorf("%s: no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(newRootCommand())
}
