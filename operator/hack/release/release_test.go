// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
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

// packed returns a tar of files, with times and names of users as a build leaves them, in the order of their names.
func packed(t *testing.T, at time.Time, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name])), Typeflag: tar.TypeReg, ModTime: at, Uname: at.Format("user-05")}))
		_, err := w.Write(files[name])
		must(t, err)
	}
	must(t, w.Close())
	return out.Bytes()
}

// builtImage writes an image as `make images` leaves it, a docker-archive with one layer of these files, that was built at a time.
func builtImage(t *testing.T, path string, at time.Time, files map[string][]byte) {
	t.Helper()
	layer := packed(t, at, files)
	name := hexDigest(layer)
	config := fmt.Appendf(nil, `{"created": %[1]q, "architecture": "amd64", "os": "linux", "container_config": {"Hostname": %[1]q}, "config": {"Entrypoint": ["/bin/x"], "Env": ["PATH=/bin"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:%[2]s"]},
 "history": [{"created": %[1]q, "created_by": "COPY"}, {"created": %[1]q, "created_by": "ENTRYPOINT", "comment": "FROM %[3]s", "empty_layer": true}]}`,
		at.Format(time.RFC3339Nano), name, hexDigest([]byte(at.String()))[:12])
	must(t, os.WriteFile(path, packed(t, at, map[string][]byte{
		name + ".tar": layer, "config.json": config, "manifest.json": fmt.Appendf(nil, `[{"Config": "config.json", "RepoTags": ["x:dev"], "Layers": ["%s.tar"]}]`, name),
	}), 0o600))
}

func hexDigest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// program returns what debug/buildinfo reads of a Go program: an ELF file whose data segment names the modules that it is linked from.
func program(modules ...string) []byte {
	var info strings.Builder
	info.WriteString("path\tspate.dev/operator/cmd/x\nmod\tspate.dev/operator\t(devel)\t\n")
	for _, module := range modules {
		info.WriteString("dep\t" + module + "\tv1.2.3\th1:sum=\n")
	}
	const sentinel = "0123456789abcdef"
	data := append([]byte("\xff Go buildinf:\x08\x02"), make([]byte, 16)...) // strings follow inline
	for _, text := range []string{"go1.26.8", sentinel + info.String() + sentinel} {
		data = append(binary.AppendUvarint(data, uint64(len(text))), text...)
	}
	const address, headers = 0x1000, 64 + 56
	var out bytes.Buffer
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	}
	copy(header.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	segment := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: headers, Vaddr: address, Paddr: address, Filesz: uint64(len(data)), Memsz: uint64(len(data)), Align: 16,
	}
	for _, part := range []any{header, segment, data} {
		_ = binary.Write(&out, binary.LittleEndian, part) // a buffer takes all
	}
	return out.Bytes()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source makes a checkout's folder with the files that a release is made of, some of them the real ones.
func source(folder string) error {
	for _, name := range locks {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700), os.WriteFile(filepath.Join(folder, name), []byte(lock), 0o600)); err != nil {
			return err
		}
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "config", "operator/cmd"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, changelogName), []byte("# Changelog\n\n## [1.2.3] - 2026-01-02\n\n- All.\n"), 0o600)
}

const (
	registry = "registry.example/spate"
	download = "https://example.com/v1.2.3"
)

// makeRelease returns a release that is made and described of images and programs that were built at a time, in a checkout of its own.
func makeRelease(t *testing.T, at time.Time) *Release {
	t.Helper()
	aside := t.TempDir()
	checkout := filepath.Join(aside, "source")
	must(t, source(checkout))
	r := &Release{
		Folder: filepath.Join(aside, "release"), Version: "1.2.3", Source: checkout, Commit: strings.Repeat("a", 40), CargoMetadata: filepath.Join(aside, "metadata.json"),
		Images: registry, DownloadURL: download, Time: time.Unix(1_000_000_000, 0), Tools: []Tool{{"go", "1.26"}},
	}
	must(t, os.Mkdir(r.Folder, 0o700))
	must(t, os.WriteFile(r.CargoMetadata, []byte(metadata), 0o600))
	status := func(name, source string) []byte {
		return fmt.Appendf(nil, "Package: %s\nVersion: 1-1\nArchitecture: amd64\nSource: %s\n", name, source)
	}
	engine := map[string][]byte{
		"usr/local/bin/spate-engine":         []byte("ELF"),
		"var/lib/dpkg/status.d/librte-eal23": status("librte-eal23", "dpdk"),
		"var/lib/dpkg/status.d/libc6":        status("libc6", "glibc"),
	}
	operator := maps.Clone(engine)
	operator["usr/local/bin/spate-operator"] = program("sigs.k8s.io/controller-runtime")
	for name, files := range map[string]map[string][]byte{"engine": engine, "operator": operator} {
		archive := filepath.Join(aside, name+".tar")
		builtImage(t, archive, at, files)
		must(t, r.image(t.Context(), name, archive))
	}
	must(t, os.WriteFile(filepath.Join(aside, "chart.yaml"), []byte("name: spate\nversion: 1.2.3\napiVersion: v2\ndescription: A chart\nhome: https://spate.dev\n"+
		"maintainers: [{name: A}, {name: B}]\nannotations: {artifacthub.io/license: Apache-2.0}\n"), 0o600))
	must(t, pack(filepath.Join(r.Folder, chartFile(r.Version)), writeTarGz, []entry{{"spate/Chart.yaml", 0o644, filepath.Join(aside, "chart.yaml")}}, r.Time))
	must(t, r.chart(t.Context()))
	must(t, r.install())
	must(t, r.changelog())
	must(t, os.WriteFile(filepath.Join(r.Folder, definitionsName), []byte("kind: x\n"), 0o600))
	for _, platform := range []string{"linux/amd64", "darwin/arm64", "windows/amd64"} {
		path := filepath.Join(aside, "program")
		must(t, os.WriteFile(path, program("k8s.io/client-go"), 0o600))
		must(t, r.plugin(platform, path))
	}
	must(t, r.krew())
	must(t, r.describe())
	return r
}

// once makes a release for all tests that only change copies of it.
var once struct {
	sync.Once
	release Release
	files   fs.FS
}

// described returns a release with a copy of the files of one that was made once.
func described(t *testing.T) *Release {
	t.Helper()
	once.Do(func() {
		r := makeRelease(t, time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC))
		kept := fstest.MapFS{}
		entries, err := entriesOf(r.Folder)
		must(t, err)
		for _, e := range entries {
			content, err := os.ReadFile(e.path)
			must(t, err)
			kept[e.name] = &fstest.MapFile{Data: content, Mode: 0o600}
		}
		once.release, once.files = *r, kept
	})
	r := once.release
	r.Folder, r.Source = t.TempDir(), "../../.."
	must(t, os.CopyFS(r.Folder, once.files))
	return &r
}

func TestADescribedReleaseIsVerified(t *testing.T) {
	r := described(t)
	var said strings.Builder
	must(t, (&Release{Folder: r.Folder}).verify(&said))
	if !strings.Contains(said.String(), "nothing is signed") {
		t.Errorf("it says %q", said.String())
	}
	var bom BOM
	must(t, readJSON(filepath.Join(r.Folder, "engine.oci.tar.cdx.json"), &bom))
	if got := names(bom.Components); got != "dpdk 1-1, glibc 1-1, libc6 1-1, librte-eal23 1-1, rustls 0.23.46, spate-engine 1.2.3, spate-net 1.2.3, tokio 1.50.0" {
		t.Error(got)
	}
	must(t, readJSON(filepath.Join(r.Folder, "kubectl-spate-1.2.3-darwin-arm64.tar.gz.cdx.json"), &bom))
	if got := names(bom.Components); got != "k8s.io/client-go v1.2.3, spate.dev/operator 1.2.3, std 1.26.8" {
		t.Error(got)
	}
	var statement Statement
	must(t, readJSON(filepath.Join(r.Folder, provenanceName), &statement))
	definition := statement.Predicate.BuildDefinition
	if definition.ResolvedDependencies[0].Digest["gitCommit"] != strings.Repeat("a", 40) || definition.ExternalParameters["images"] != registry {
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
	replace := func(name, old, with string) func(string) error {
		return func(folder string) error {
			text, err := os.ReadFile(filepath.Join(folder, name))
			if err == nil && !strings.Contains(string(text), old) {
				err = fmt.Errorf("%s does not have %q", name, old)
			}
			return errors.Join(err, write(name, strings.ReplaceAll(string(text), old, with))(folder))
		}
	}
	const plugin = "kubectl-spate-1.2.3-linux-amd64.tar.gz"
	for name, c := range map[string]struct {
		change func(string) error
		want   []string
	}{
		"a file":             {write(definitionsName, "kind: y\n"), []string{"provenance.intoto.json: spate-crds.yaml has the digest", "SHA256SUMS: spate-crds.yaml has the digest"}},
		"one more":           {write("more", ""), []string{"provenance.intoto.json does not name more", "SHA256SUMS does not name more"}},
		"one less":           {remove(definitionsName), []string{"SHA256SUMS: spate-crds.yaml is missing", "\nspate-crds.yaml is missing"}},
		"no SBOM":            {remove("engine.oci.tar.cdx.json"), []string{"engine.oci.tar.cdx.json"}},
		"no SBOM of plugin":  {remove(plugin + sbomSuffix), []string{plugin + ".cdx.json: no such file"}},
		"another SBOM":       {write("engine.oci.tar.cdx.json", `{"bomFormat": "CycloneDX", "metadata": {"component": {"name": "engine.oci.tar"}}}`), []string{"no dpdk with its version", "no rustls with its version"}},
		"no provenance":      {remove("provenance.intoto.json"), []string{"provenance.intoto.json"}},
		"no checksums":       {remove("SHA256SUMS"), []string{"SHA256SUMS"}},
		"other contents":     {write("provenance.intoto.json", `{}`), []string{"is not known here"}},
		"another image":      {replace(installName, registry+"/engine:1.2.3@sha256:", registry+"/engine:1.2.3@sha256:0"), []string{"install.yaml: its images are"}},
		"another version":    {replace("engine.oci.tar", "SPATE_VERSION=1.2.3", "SPATE_VERSION=1.2.4"), []string{"engine.oci.tar: its environment has no SPATE_VERSION=1.2.3"}},
		"a digest for Krew":  {replace(krewName, "sha256: ", "sha256: 0"), []string{"spate.yaml: " + plugin + " has the digest"}},
		"a platform of Krew": {replace(krewName, "os: darwin", "os: linux"), []string{"spate.yaml: kubectl-spate-1.2.3-darwin-arm64.tar.gz is for map[arch:arm64 os:linux]"}},
		"a Krew without one": {remove(plugin), []string{plugin + " is missing", "spate.yaml: " + plugin + " is not of this release"}},
		"a chart's package":  {write(chartFile("1.2.3"), ""), []string{"chart.oci.tar does not have spate-1.2.3.tgz as its content"}},
		"no plugin in it": {func(folder string) error {
			return pack(filepath.Join(folder, plugin), writeTarGz, []entry{{"more", 0o600, filepath.Join(folder, definitionsName)}}, time.Now())
		}, []string{plugin + ": no kubectl-spate", plugin + ": no LICENSE", plugin + ": more with mode 0600 is not of the plugin"}},
	} {
		r := described(t)
		must(t, c.change(r.Folder))
		err := (&Release{Folder: r.Folder}).verify(io.Discard)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// Times, users, folders and the steps of a build do not reach the files of a release.
func TestTheSameIsReleasedByAnotherBuild(t *testing.T) {
	first, second := described(t), makeRelease(t, time.Date(2027, 11, 12, 13, 14, 15, 16, time.UTC))
	var said strings.Builder
	if err := compare(&said, first.Folder, second.Folder); err != nil {
		t.Errorf("%v:\n%s", err, said.String())
	}
}

func TestWhatDiffersIsNamed(t *testing.T) {
	first, second := described(t), described(t)
	must(t, os.WriteFile(filepath.Join(second.Folder, definitionsName), []byte("kind: y\n"), 0o600))
	must(t, os.Remove(filepath.Join(second.Folder, chartName)))
	archive := filepath.Join(t.TempDir(), "engine.tar")
	builtImage(t, archive, time.Unix(1, 0), map[string][]byte{"usr/local/bin/spate-engine": []byte("another"), "var/lib/dpkg/status.d/libc6": nil})
	must(t, second.image(t.Context(), "engine", archive))
	must(t, second.plugin("windows/amd64", archive))
	var said strings.Builder
	err := compare(&said, first.Folder, second.Folder)
	if err == nil || !strings.HasPrefix(err.Error(), "4 of ") {
		t.Errorf("%v", err)
	}
	for _, want := range []string{
		"spate-crds.yaml differs\n  line      1: kind: x, kind: y\n", "chart.oci.tar differs\n  only one folder has it\n",
		"engine.oci.tar differs\n  configuration: {", "  layer 1: usr/local/bin/spate-engine: mode 0755, SHA-256 ", "  layer 1: var/lib/dpkg/status.d/librte-eal23: mode 0755, SHA-256 ", ", none\n",
		"kubectl-spate-1.2.3-windows-amd64.zip differs\n  kubectl-spate.exe: mode 0755, SHA-256 ",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in\n%s", want, said.String())
		}
	}
	if strings.Contains(said.String(), "LICENSE") {
		t.Errorf("what is the same is named:\n%s", said.String())
	}
	if err := compare(io.Discard, t.TempDir(), t.TempDir()); err == nil {
		t.Error("two empty folders are the same release")
	}
}

func TestAnImageWithoutPackagesIsRefused(t *testing.T) {
	r := Release{Folder: t.TempDir(), Version: "1.2.3"}
	archive := filepath.Join(t.TempDir(), "engine.tar")
	builtImage(t, archive, time.Unix(1, 0), map[string][]byte{"usr/local/bin/spate-engine": nil})
	must(t, r.image(t.Context(), "engine", archive))
	if _, err := image(filepath.Join(r.Folder, "engine.oci.tar"), "1", nil); err == nil || !strings.Contains(err.Error(), "status.d") {
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

func TestTheCommandLine(t *testing.T) {
	r := described(t)
	private, public := keys(t, p256...)
	var said strings.Builder
	must(t, run(t.Context(), []string{"--key", private, "sign", r.Folder}, &said))
	must(t, run(t.Context(), []string{"--key", public, "verify", r.Folder}, &said))
	if strings.Count(said.String(), "release: signed by the key with SHA-256 ") != 2 {
		t.Errorf("it says %q", said.String())
	}
	must(t, run(t.Context(), []string{"compare", r.Folder, r.Folder}, &said))
	must(t, run(t.Context(), []string{"--version", "9.9.9-rc.1", "--source", "../../..", "changelog", r.Folder}, &said))
	for want, args := range map[string][]string{
		"usage: release [flags] COMMAND":                                       {"verify"},
		"usage: release [flags] COMMAND FOLDER":                                {"no-such", r.Folder},
		"krew: --version is needed":                                            {"krew", r.Folder},
		"sign: --key is needed":                                                {"sign", r.Folder},
		`"x" is not NAME=VERSION`:                                              {"--tool", "x", "verify", r.Folder},
		`"linux" is not OS/ARCHITECTURE`:                                       {"--version", "1.2.3", "plugin", r.Folder, "linux", "x"},
		"describe: --commit, --cargo-metadata and --time are needed":           {"--version", "1.2.3", "describe", r.Folder},
		"provenance.intoto.json: CHANGELOG.md has the digest":                  {"verify", r.Folder},
		"what would be signed is not right: provenance.intoto.json: CHANGELOG": {"--key", private, "sign", r.Folder},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
