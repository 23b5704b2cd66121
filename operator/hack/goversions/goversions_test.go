// SPDX-License-Identifier: Apache-2.0

// Package goversions tests whether build/go-versions sees that a module is built of another version than the others, in a copy of their go.mod.
package goversions

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

const (
	root    = "../../.."
	program = "build/go-versions"
)

// copied returns a folder with the program and each go.mod of the checkout.
func copied(t *testing.T) string {
	t.Helper()
	files := []string{filepath.Join(root, program)}
	for _, pattern := range []string{"*/go.mod", "*/*/go.mod", "*/*/*/go.mod"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	folder := t.TempDir()
	for _, file := range files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestAVersionThatDiffersFromOthersIsAnError(t *testing.T) {
	const utils, old, future = "k8s.io/utils", "v0.0.0-20200101000000-000000000000", "v0.0.0-29990101000000-000000000000"
	for name, c := range map[string]struct{ module, edit, want string }{
		"none differs":        {"operator", "-require=example.com/alone@v1.0.0", ""},
		"required":            {"operator", "-require=" + utils + "@" + old, `(?m)^operator/go\.mod requires k8s\.io/utils ` + old + `, [a-z0-9/-]+/go\.mod has v0\.0\.0-2\d{13}-`},
		"replaced by older":   {"tools/prometheus-operator", "-replace=" + utils + "=" + utils + "@" + old, `(?m)^tools/prometheus-operator/go\.mod replaces k8s\.io/utils by ` + old + `, [a-z0-9/-]+/go\.mod has v0\.0\.0-2\d{13}-`},
		"replaced by newer":   {"tools/prometheus-operator", "-replace=" + utils + "=" + utils + "@" + future, `(?m)^operator/go\.mod requires k8s\.io/utils v0\.0\.0-\S+, tools/prometheus-operator/go\.mod has ` + future},
		"replaced on purpose": {"tools/multus", "-replace=k8s.io/kubelet=k8s.io/kubelet@v0.31.0", ""},
		"replaced by a fork":  {"operator", "-replace=" + utils + "=example.com/utils@v1.0.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := copied(t)
			edit := exec.CommandContext(t.Context(), "go", "mod", "edit", c.edit)
			edit.Dir = filepath.Join(folder, c.module)
			if out, err := edit.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			out, err := exec.CommandContext(t.Context(), "bash", filepath.Join(folder, program)).CombinedOutput()
			if (err == nil) != (c.want == "") || c.want == "" && len(out) > 0 || !regexp.MustCompile(c.want).Match(out) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
