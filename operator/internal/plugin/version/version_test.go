// SPDX-License-Identifier: Apache-2.0

package version

import (
	"regexp"
	"testing"

	"spate.dev/operator/internal/plugin/plugintest"
)

func TestThePluginTellsItsVersion(t *testing.T) {
	for linked, want := range map[string]string{"v1.2.3-4-gabcdef": `v1\.2\.3-4-gabcdef`, "": `\S+`} {
		out, _, err := plugintest.Run("", []string{"version"}, NewCommand(linked))
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^kubectl spate ` + want + `, contract 1\.[0-9]+, go\S+ [a-z]+/[a-z0-9]+\n$`).MatchString(out) {
			t.Errorf("got %q", out)
		}
	}
}
