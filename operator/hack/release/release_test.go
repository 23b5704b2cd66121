// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const metadata = `{
"packages": [
 {"id": "e", "name": "spate-engine", "version": "0.0.0", "source": null, "targets": [{"kind": ["bin"]}]},
 {"id": "w", "name": "spate-net", "version": "0.0.0", "source": null, "targets": [{"kind": ["lib"]}]},
 {"id": "r", "name": "rustls", "version": "0.23.46", "source": "registry", "targets": [{"kind": ["lib"]}]},
 {"id": "t", "name": "tokio", "version": "1.50.0", "source": "registry", "targets": [{"kind": ["lib"]}]},
 {"id": "m", "name": "clap_derive", "version": "4.6.0", "source": "registry", "targets": [{"kind": ["proc-macro"]}]},
 {"id": "s", "name": "syn", "version": "2.0.0", "source": "registry", "targets": [{"kind": ["lib"]}]},
 {"id": "p", "name": "proptest", "version": "1.12.0", "source": "registry", "targets": [{"kind": ["lib"]}]},
 {"id": "b", "name": "bindgen", "version": "0.72.0", "source": "registry", "targets": [{"kind": ["lib"]}]}],
"resolve": {"nodes": [
 {"id": "e", "deps": [{"pkg": "w", "dep_kinds": [{"kind": null}]}, {"pkg": "r", "dep_kinds": [{"kind": null}]}, {"pkg": "m", "dep_kinds": [{"kind": null}]},
   {"pkg": "p", "dep_kinds": [{"kind": "dev"}]}, {"pkg": "b", "dep_kinds": [{"kind": "build"}]}]},
 {"id": "w", "deps": [{"pkg": "t", "dep_kinds": [{"kind": "build"}, {"kind": null}]}]},
 {"id": "m", "deps": [{"pkg": "s", "dep_kinds": [{"kind": null}]}]},
 {"id": "r", "deps": []}, {"id": "t", "deps": []}, {"id": "s", "deps": []}, {"id": "p", "deps": []}, {"id": "b", "deps": []}]}}`

// lock has the crates of metadata that are not of the workspace.
const lock = `
[[package]]
name = "spate-engine"
version = "0.0.0"
dependencies = [
 "rustls",
]

[[package]]
name = "rustls"
version = "0.23.46"
source = "registry"
checksum = "ab"

[[package]]
name = "tokio"
version = "1.50.0"
source = "registry"
checksum = "cd"

[[package]]
name = "clap_derive"
version = "4.6.0"
source = "registry"
checksum = "ef"

[[package]]
name = "syn"
version = "2.0.0"
source = "registry"
checksum = "01"

[[package]]
name = "proptest"
version = "1.12.0"
source = "registry"
checksum = "02"

[[package]]
name = "bindgen"
version = "0.72.0"
source = "registry"
checksum = "03"
`

func names(parts []Component) string {
	var all []string
	for _, part := range parts {
		all = append(all, part.Name+" "+part.Version)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func TestCratesAreThoseThatAreLinked(t *testing.T) {
	found, err := crates([]byte(metadata), []byte(lock), "spate-engine", "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if got := names(found); got != "rustls 0.23.46, spate-engine 1.2.3, spate-net 1.2.3, tokio 1.50.0" {
		t.Error(got)
	}
	for _, crate := range found {
		if crate.Name == "rustls" && (len(crate.Hashes) != 1 || crate.Hashes[0].Content != "ab") {
			t.Errorf("rustls has the digests %v", crate.Hashes)
		}
	}
	if _, err := crates([]byte(metadata), []byte(lock), "no-such", "1.2.3"); err == nil {
		t.Error("a package that is not there was found")
	}
	if _, err := crates([]byte(metadata), nil, "spate-engine", "1.2.3"); err == nil || !strings.Contains(err.Error(), "no checksum of rustls") {
		t.Errorf("%v, want a crate without a checksum to be refused", err)
	}
}

func TestAPackageAndItsSource(t *testing.T) {
	found, err := debian([]byte("Package: librte-eal23\nVersion: 22.11.11-1~deb12u1\nArchitecture: amd64\nSource: dpdk\nDescription: x\n Version: no\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(found); got != "dpdk 22.11.11-1~deb12u1, librte-eal23 22.11.11-1~deb12u1" || found[0].PURL != "pkg:deb/debian/librte-eal23@22.11.11-1~deb12u1?arch=amd64" {
		t.Errorf("%s %s", got, found[0].PURL)
	}
	found, err = debian([]byte("Package: libgcc-s1\nVersion: 12.2.0-14\nArchitecture: amd64\nSource: gcc-12 (12.2.0)\n"))
	if got := names(found); err != nil || got != "gcc-12 12.2.0, libgcc-s1 12.2.0-14" {
		t.Errorf("%s %v", got, err)
	}
	if _, err := debian([]byte("Version: 1\n")); err == nil {
		t.Error("a status without a package was read")
	}
}

// archive writes an OCI archive with one layer of these files.
func archive(t *testing.T, path string, files map[string][]byte) {
	t.Helper()
	pack := func(files map[string][]byte) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for name, content := range files {
			if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(content); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	var layer bytes.Buffer
	w := gzip.NewWriter(&layer)
	if _, err := w.Write(pack(files)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sum := func(content []byte) string {
		of := sha256.Sum256(content)
		return hex.EncodeToString(of[:])
	}
	manifest := fmt.Appendf(nil, `{"layers": [{"digest": "sha256:%s"}]}`, sum(layer.Bytes()))
	must(t, os.WriteFile(path, pack(map[string][]byte{
		"index.json":                           fmt.Appendf(nil, `{"manifests": [{"digest": "sha256:%s"}]}`, sum(manifest)),
		"blobs/sha256/" + sum(manifest):        manifest,
		"./blobs/sha256/" + sum(layer.Bytes()): layer.Bytes(),
	}), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// described returns the folder of a release that was described: an image of the engine and a manifest.
func described(t *testing.T) string {
	t.Helper()
	folder, aside := t.TempDir(), t.TempDir()
	status := func(name, source string) []byte {
		return fmt.Appendf(nil, "Package: %s\nVersion: 1-1\nArchitecture: amd64\nSource: %s\n", name, source)
	}
	engine := map[string][]byte{
		"usr/local/bin/spate-engine":           []byte("ELF"),
		"./var/lib/dpkg/status.d/librte-eal23": status("librte-eal23", "dpdk"),
		"var/lib/dpkg/status.d/libc6":          status("libc6", "glibc"),
	}
	archive(t, filepath.Join(folder, "engine.oci.tar"), engine)
	must(t, os.WriteFile(filepath.Join(folder, "spate-crds.yaml"), []byte("kind: x\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(aside, "metadata.json"), []byte(metadata), 0o600))
	source := filepath.Join(aside, "source")
	for _, name := range locks {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(source, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(source, name), []byte(lock), 0o600))
	}
	r := Release{
		Version: "1.2.3", Source: source, Commit: strings.Repeat("a", 40), CargoMetadata: filepath.Join(aside, "metadata.json"),
		Started: time.Unix(1, 0), Tools: []Tool{{"go", "1.26"}},
	}
	must(t, r.describe(folder, time.Unix(60, 0)))
	return folder
}

func TestADescribedReleaseIsVerified(t *testing.T) {
	folder := described(t)
	must(t, verify(folder))
	var bom BOM
	must(t, readJSON(filepath.Join(folder, "engine.oci.tar.cdx.json"), &bom))
	if got := names(bom.Components); got != "dpdk 1-1, glibc 1-1, libc6 1-1, librte-eal23 1-1, rustls 0.23.46, spate-engine 1.2.3, spate-net 1.2.3, tokio 1.50.0" {
		t.Error(got)
	}
	var statement Statement
	must(t, readJSON(filepath.Join(folder, provenanceName), &statement))
	definition := statement.Predicate.BuildDefinition
	if len(statement.Subject) != 3 || definition.ResolvedDependencies[0].Digest["gitCommit"] != strings.Repeat("a", 40) {
		t.Errorf("%+v", statement)
	}
	uris := map[string]bool{}
	for _, d := range definition.ResolvedDependencies {
		if d.Name == "rustls" && d.Digest["sha256"] != "ab" {
			t.Errorf("rustls has the digest %v", d.Digest)
		}
		uris[d.URI+d.Name] = true
	}
	for _, want := range []string{"pkg:cargo/rustls@0.23.46rustls", "operator/go.sum", "engine/Cargo.lock", "pkg:deb/debian/dpdk@1-1?arch=sourcedpdk"} {
		if !uris[want] {
			t.Errorf("no %s among %v", want, uris)
		}
	}
	if uris["pkg:cargo/spate-net@1.2.3spate-net"] {
		t.Error("a crate of the source is a dependency of it")
	}
}

func TestWhatWasChangedIsFound(t *testing.T) {
	write := func(name, text string) func(string) error {
		return func(folder string) error { return os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600) }
	}
	remove := func(name string) func(string) error {
		return func(folder string) error { return os.Remove(filepath.Join(folder, name)) }
	}
	for name, c := range map[string]struct {
		change func(string) error
		want   []string
	}{
		"a file":         {write("spate-crds.yaml", "kind: y\n"), []string{"provenance.intoto.json: spate-crds.yaml has the digest", "SHA256SUMS: spate-crds.yaml has the digest"}},
		"one more":       {write("more", ""), []string{"provenance.intoto.json does not name more", "SHA256SUMS does not name more"}},
		"one less":       {remove("spate-crds.yaml"), []string{"spate-crds.yaml is missing"}},
		"no SBOM":        {remove("engine.oci.tar.cdx.json"), []string{"engine.oci.tar.cdx.json"}},
		"another SBOM":   {write("engine.oci.tar.cdx.json", `{"bomFormat": "CycloneDX", "metadata": {"component": {"name": "engine.oci.tar"}}}`), []string{"no dpdk with its version", "no rustls with its version"}},
		"no provenance":  {remove("provenance.intoto.json"), []string{"provenance.intoto.json"}},
		"no checksums":   {remove("SHA256SUMS"), []string{"SHA256SUMS"}},
		"other contents": {write("provenance.intoto.json", `{}`), []string{"is not known here"}},
	} {
		folder := described(t)
		must(t, c.change(folder))
		err := verify(folder)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

func TestAnImageWithoutPackagesIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.oci.tar")
	archive(t, path, map[string][]byte{"usr/local/bin/spate-engine": nil})
	if _, err := image(path, "1", nil); err == nil || !strings.Contains(err.Error(), "status.d") {
		t.Error(err)
	}
}

func TestProgramsHaveTheirModules(t *testing.T) {
	own, err := os.Executable()
	must(t, err)
	file, err := os.Open(own)
	must(t, err)
	defer file.Close()
	found, err := modules(file, "1.2.3")
	must(t, err)
	if got := names(found); !strings.Contains(got, "std 1.") {
		t.Error(got)
	}
}
