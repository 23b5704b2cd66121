// SPDX-License-Identifier: Apache-2.0

package walkthroughs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// exercised finds the commands of a page that apply its patch and test it.
	exercised = regexp.MustCompile("(?m)^git apply -C1 (docs/contributing/[a-z-]+\\.patch)\n(go test -C operator .*-run '([A-Za-z0-9|]+)'.*)$")
	// changed finds the files that a patch changes, and written those that it writes.
	changed = regexp.MustCompile(`(?m)^--- a/(\S+)$`)
	written = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`)
)

// The steps of a walk-through are done: its patch is applied to copies of the files, which replace those of the checkout for the compiler, and the
// tests that the page names pass. So the checkout is left as it is.
func TestThePatchesOfWalkThroughsDoWhatTheirPagesSay(t *testing.T) {
	pages, err := filepath.Glob(root + "/docs/contributing/*.md")
	if err != nil {
		t.Fatal(err)
	}
	patches, err := filepath.Glob(root + "/docs/contributing/*.patch")
	if err != nil || len(patches) < 3 {
		t.Fatal(patches, err)
	}
	tried := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		commands := exercised.FindStringSubmatch(string(text))
		if commands == nil {
			continue
		}
		tried[filepath.Base(commands[1])] = true
		t.Run(filepath.Base(page), func(t *testing.T) { exercise(t, commands[1], commands[2], strings.Split(commands[3], "|")) })
	}
	for _, patch := range patches {
		if !tried[filepath.Base(patch)] {
			t.Errorf("no page has the commands that apply and test %s", filepath.Base(patch))
		}
	}
}

// exercise runs a command of `go test` on the checkout with a patch; each of the tests must have passed.
func exercise(t *testing.T, patch, command string, tests []string) {
	t.Helper()
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	patch = filepath.Join(checkout, patch)
	text, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	copies := t.TempDir()
	for _, file := range changed.FindAllStringSubmatch(string(text), -1) {
		before, err := os.ReadFile(filepath.Join(checkout, file[1]))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(copies, file[1])
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	apply := exec.CommandContext(t.Context(), "git", "apply", "-C1", patch)
	apply.Dir = copies
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%s does not apply any more: renew it (make its change, then git diff -U1): %v\n%s", filepath.Base(patch), err, out)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, file := range written.FindAllStringSubmatch(string(text), -1) {
		overlay.Replace[filepath.Join(checkout, file[1])] = filepath.Join(copies, file[1])
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	overlaid := filepath.Join(copies, "overlay.json")
	if err := os.WriteFile(overlaid, list, 0o600); err != nil {
		t.Fatal(err)
	}
	// vet, and tests of a package, would look for a folder that the patch makes, and that is not there.
	run := exec.CommandContext(t.Context(), "bash", "-c", strings.Replace(command, "go test -C operator ", "go test -C operator -v -count=1 -vet=off -overlay '"+overlaid+"' ", 1))
	run.Dir = checkout
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	for _, name := range tests {
		if !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Errorf("%s has not run %s:\n%s", command, name, out)
		}
	}
}
