// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"
)

func TestThePluginTellsItsVersion(t *testing.T) {
	t.Cleanup(func() { version = "" })
	for linked, want := range map[string]string{"v1.2.3-4-gabcdef": `v1\.2\.3-4-gabcdef`, "": `\S+`} {
		version = linked
		root, out := newRootCommand(), &strings.Builder{}
		root.SetOut(out)
		root.SetArgs([]string{"version"})
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^kubectl spate ` + want + `, contract 1\.[0-9]+, go\S+ [a-z]+/[a-z0-9]+\n$`).MatchString(out.String()) {
			t.Errorf("got %q", out)
		}
	}
}
