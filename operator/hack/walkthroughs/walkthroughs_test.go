// SPDX-License-Identifier: Apache-2.0

// Package walkthroughs tests whether what documents for contributors mention exists: files, folders, and names in files.
package walkthroughs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// mentioned finds `path/to/file` and `path/to/file: name` between backticks: paths from the root of the checkout.
var mentioned = regexp.MustCompile("`((?:api|build|charts|config|crds|dashboards|docs|e2e|engine|operator|tools)/[A-Za-z0-9_./-]+)(?:: ([A-Za-z0-9_-]+))?`")

// missing says what a mention names that is not there; nil where it is.
func missing(path, name string) error {
	is, err := os.Stat(filepath.Join(root, path))
	switch {
	case err != nil:
		return fmt.Errorf("%s does not exist", path)
	case name == "":
		return nil
	case is.IsDir():
		return errors.New("a folder has no names")
	}
	text, err := os.ReadFile(filepath.Join(root, path))
	if err == nil && !regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).Match(text) {
		err = fmt.Errorf("%s does not mention %s", path, name)
	}
	return err
}

func TestWhatIsMentionedExists(t *testing.T) {
	pages, err := filepath.Glob(root + "/docs/contributing/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatal(pages, err)
	}
	for _, page := range append(pages, root+"/docs/architecture.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := mentioned.FindAllStringSubmatch(strings.ReplaceAll(string(text), "/NAME`", "`"), -1)
		if len(found) == 0 {
			t.Errorf("%s mentions no file", page)
		}
		for _, m := range found {
			if err := missing(m[1], m[2]); err != nil {
				t.Errorf("%s: %v", filepath.Base(page), err)
			}
		}
	}
}

func TestWhatDoesNotExistIsFound(t *testing.T) {
	for mention, want := range map[string]string{
		"`operator/go.mod`":                 "",
		"`operator/go.mod: spate`":          "",
		"`operator/internal/packet`":        "",
		"`operator/go.sum.old`":             "does not exist",
		"`operator/go.mod: spateOfTraffic`": "does not mention",
		"`operator/internal: packet`":       "a folder has no names",
	} {
		found := mentioned.FindStringSubmatch(mention)
		if found == nil {
			t.Errorf("%s is not found", mention)
			continue
		}
		if err := missing(found[1], found[2]); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", mention, err, want)
		}
	}
}
