// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// publishing is a checkout with a branch origin/gh-pages, as the workflow of a release has it.
type publishing struct {
	folder, script string
}

func (p publishing) git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", p.folder, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// publish commits a site of these pages as a version, and returns what the branch has.
func (p publishing) publish(t *testing.T, version string, pages ...string) []string {
	t.Helper()
	site := t.TempDir()
	for _, page := range append(pages, "index.html") {
		if err := os.WriteFile(filepath.Join(site, page), []byte(version), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(t.Context(), p.script, site, version)
	run.Dir = p.folder
	run.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.git(t, "update-ref", "refs/remotes/origin/gh-pages", "gh-pages")
	return strings.Fields(p.git(t, "ls-tree", "-r", "--name-only", "gh-pages"))
}

func TestDocumentsOfVersionsStandBesideEachOther(t *testing.T) {
	script, err := filepath.Abs("../../../build/publish-docs")
	if err != nil {
		t.Fatal(err)
	}
	p := publishing{t.TempDir(), script}
	p.git(t, "init", "--quiet")
	p.git(t, "commit", "--quiet", "--allow-empty", "--message", "first")
	p.publish(t, "0.1.0", "old.html")
	p.publish(t, "0.10.0-rc.2", "new.html")
	p.publish(t, "0.9.0")
	got := strings.Join(p.publish(t, "0.1.0", "renamed.html"), " ")
	if want := ".nojekyll 0.1.0/index.html 0.1.0/renamed.html 0.10.0-rc.2/index.html 0.10.0-rc.2/new.html 0.9.0/index.html index.html versions.json"; got != want {
		t.Errorf("the branch has\n%s\nwant\n%s", got, want)
	}
	var versions []struct {
		Version string
		Aliases []string
	}
	if err := json.Unmarshal([]byte(p.git(t, "show", "gh-pages:versions.json")), &versions); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, v := range versions {
		listed = append(listed, v.Version+strings.Join(v.Aliases, ""))
	}
	if got, want := strings.Join(listed, " "), "0.10.0-rc.2 0.9.0latest 0.1.0"; got != want {
		t.Errorf("versions %s, want %s", got, want)
	}
	if index := p.git(t, "show", "gh-pages:index.html"); !strings.Contains(index, "url=0.9.0/") {
		t.Errorf("the index does not lead to the last release:\n%s", index)
	}
	if status := p.git(t, "status", "--porcelain"); status != "" {
		t.Errorf("the checkout is changed:\n%s", status)
	}
}
