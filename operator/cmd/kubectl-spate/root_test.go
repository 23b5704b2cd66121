// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/plugin/plugintest"
)

func TestErrorsAboutArgumentsShowWhichThereAre(t *testing.T) {
	for arguments, want := range map[string]string{
		"rate":                   "accepts 2 arg(s), received 0: kubectl spate rate RUN RATE [flags]",
		"stop":                   "accepts 1 arg(s), received 0: kubectl spate stop RUN [flags]",
		"logs a b":               "accepts 1 arg(s), received 2: kubectl spate logs RUN | GENERATOR [flags]",
		"search compare a b c d": "kubectl spate search compare ",
	} {
		if _, _, err := plugintest.Execute(newRootCommand(), "", strings.Fields(arguments)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}

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
