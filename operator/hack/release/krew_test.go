// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The rules of https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/ and of Krew's index.
func TestTheManifestKeepsToTheRulesOfKrew(t *testing.T) {
	r := described(t)
	var manifest KrewPlugin
	must(t, readYAML(filepath.Join(r.Folder, krewName), &manifest))
	if manifest.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || manifest.Kind != "Plugin" || manifest.Metadata.Name+".yaml" != krewName {
		t.Errorf("%+v", manifest)
	}
	spec := manifest.Spec
	if spec.Version != "v1.2.3" || !strings.HasPrefix(spec.Homepage, "https://") {
		t.Errorf("version %s of %s", spec.Version, spec.Homepage)
	}
	if s := spec.ShortDescription; s == "" || len(s) > 50 || strings.ContainsAny(s, "\r\n") || strings.HasSuffix(s, ".") {
		t.Errorf("short description %q", s)
	}
	for line := range strings.Lines(spec.Description + spec.Caveats) {
		if len(line) > 120 {
			t.Errorf("a line of %d characters: %s", len(line), line)
		}
	}
	platforms := map[string]bool{}
	for _, p := range spec.Platforms {
		name := p.Selector.MatchLabels["os"] + "/" + p.Selector.MatchLabels["arch"]
		if len(p.Selector.MatchLabels) != 2 || platforms[name] {
			t.Errorf("%s is selected by %v", name, p.Selector.MatchLabels)
		}
		platforms[name] = true
		if !regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(p.SHA256) {
			t.Errorf("%s: digest %q", name, p.SHA256)
		}
		if !regexp.MustCompile(`^https://example\.com/v1\.2\.3/kubectl-spate-1\.2\.3-[a-z]+-[a-z0-9]+\.(tar\.gz|zip)$`).MatchString(p.URI) {
			t.Errorf("%s: URI %s", name, p.URI)
		}
		if want := map[bool]string{false: "kubectl-spate", true: "kubectl-spate.exe"}[strings.HasPrefix(name, "windows/")]; p.Bin != want {
			t.Errorf("%s: program %s, not %s", name, p.Bin, want)
		}
	}
	for _, want := range []string{"linux/amd64", "darwin/arm64", "windows/amd64"} {
		if !platforms[want] || len(platforms) != 3 {
			t.Errorf("no %s, or others, among %v", want, platforms)
		}
	}
}

func TestAManifestWithoutAnAddressSaysSo(t *testing.T) {
	r := described(t)
	r.DownloadURL = ""
	must(t, r.krew())
	text, err := os.ReadFile(filepath.Join(r.Folder, krewName))
	must(t, err)
	if !strings.Contains(string(text), "uri: DOWNLOAD_URL/kubectl-spate-1.2.3-linux-amd64.tar.gz\n") {
		t.Error(string(text))
	}
	r.Folder = t.TempDir()
	if err := r.krew(); err == nil || !strings.Contains(err.Error(), "no archive of the plugin") {
		t.Errorf("%v, want a folder without archives to be refused", err)
	}
}

// Krew's own program takes the manifest, finds the digests right, and links the plugin on each platform.
func TestKrewInstallsThePlugin(t *testing.T) {
	krew := os.Getenv("KREW")
	if krew == "" {
		t.Fatal("KREW, the path of krew, is not set: run `make operator-test`, which builds it")
	}
	r := described(t)
	for _, p := range []Platform{{"linux", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}} {
		root := t.TempDir()
		command := exec.CommandContext(t.Context(), krew, "install", "--manifest", filepath.Join(r.Folder, krewName), "--archive", filepath.Join(r.Folder, p.archive(r.Version)))
		command.Env = append(os.Environ(), "KREW_ROOT="+root, "KREW_OS="+p.OS, "KREW_ARCH="+p.Arch, "KREW_NO_UPGRADE_CHECK=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s/%s: %v: %s", p.OS, p.Arch, err, out)
			continue
		}
		store := filepath.Join(root, "store/spate/v1.2.3")
		installed, err := os.ReadFile(filepath.Join(store, p.program()))
		if err != nil || !bytes.Equal(installed, program("k8s.io/client-go")) {
			t.Errorf("%s/%s: another program was installed (%v)", p.OS, p.Arch, err)
		}
		for _, name := range []string{licenceName, completionName} {
			if _, err := os.Stat(filepath.Join(store, name)); err != nil && (name == licenceName || p.OS != "windows") {
				t.Errorf("%s/%s: %v", p.OS, p.Arch, err)
			}
		}
	}
	// Caveats name where completion is.
	if !strings.Contains(krewCaveats, "/store/spate/v%s/"+completionName) {
		t.Errorf("%q", krewCaveats)
	}
}
