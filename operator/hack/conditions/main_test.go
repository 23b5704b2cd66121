// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEachConstantBecomesARowWithItsComment(t *testing.T) {
	source := "package p\n\n// Reasons of Ready.\nconst (\n\t// ReasonBusy: another run\n\t// is there.\n\t// Remedy: wait\n\t// (docs/run-a.md#exit-codes).\n\tReasonBusy = \"Busy\"\n)\n"
	page, err := reference(written(t, source))
	if err != nil {
		t.Fatal(err)
	}
	want := "## Reasons of Ready\n\n| reason | meaning | remedy |\n|---|---|---|\n| `Busy` | another run is there. | wait ([run a](../run-a.md#exit-codes)). |\n"
	if !strings.HasSuffix(page, want) {
		t.Errorf("got\n%s\nwhich does not end with\n%s", page, want)
	}
}

func TestAReasonWithoutADescriptionOrARemedyIsRefused(t *testing.T) {
	for what, c := range map[string]struct{ title, comment, want string }{
		"no description":               {"Reasons of Ready", "", "does not begin with its name"},
		"no remedy":                    {"Reasons of Ready", "// ReasonBusy: another run is there.\n\t", "has no remedy"},
		"an empty remedy":              {"Reasons of Ready", "// ReasonBusy: another run is there. Remedy:\n\t", "has no remedy"},
		"a condition type with remedy": {"Condition types", "// ReasonBusy: another run is there. Remedy: wait.\n\t", "is no reason"},
	} {
		source := "package p\n\n// " + c.title + ".\nconst (\n\t" + c.comment + "ReasonBusy = \"Busy\"\n)\n"
		if _, err := reference(written(t, source)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", what, err, c.want)
		}
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
