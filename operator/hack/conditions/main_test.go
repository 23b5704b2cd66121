// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEachConstantBecomesARowWithItsComment(t *testing.T) {
	source := "package p\n\n// Reasons of Ready.\nconst (\n\t// ReasonBusy: another run\n\t// is there.\n\tReasonBusy = \"Busy\"\n)\n"
	page, err := reference(written(t, source))
	if err != nil {
		t.Fatal(err)
	}
	if want := "## Reasons of Ready\n\n| name | meaning |\n|---|---|\n| `Busy` | another run is there. |\n"; !strings.HasSuffix(page, want) {
		t.Errorf("got\n%s\nwhich does not end with\n%s", page, want)
	}
}

func TestAReasonWithoutADescriptionIsRefused(t *testing.T) {
	if _, err := reference(written(t, "package p\n\nconst (\n\tReasonBusy = \"Busy\"\n)\n")); err == nil {
		t.Error("a constant without a comment was accepted")
	}
}

func written(t *testing.T, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conditions.go")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
