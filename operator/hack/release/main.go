// SPDX-License-Identifier: Apache-2.0

// release makes the files of a release from what was built, describes them (an SBOM for each image and program, where each file comes from,
// checksums), signs them, and verifies a release that was described.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of what is written beside the files of a release.
const (
	checksumsName  = "SHA256SUMS"
	provenanceName = "provenance.intoto.json"
	sbomSuffix     = ".cdx.json"
)

const usage = `usage: release [flags] COMMAND FOLDER [ARGUMENT...]

image FOLDER NAME ARCHIVE        NAME.oci.tar of an image's docker-archive
chart FOLDER                     chart.oci.tar of the chart's package, spate-VERSION.tgz
plugin FOLDER OS/ARCH PROGRAM    the archive of kubectl's plugin for a platform
krew FOLDER                      spate.yaml, Krew's manifest of these archives
install FOLDER                   install.yaml and uninstall.yaml
changelog FOLDER                 CHANGELOG.md of the version
describe FOLDER                  SBOMs, provenance and checksums of the files
sign FOLDER                      signatures of provenance and checksums, by --key
verify FOLDER                    are the files what provenance and checksums name, and signed by --key, if that is given?
compare FOLDER OTHER             which files differ, and what in them`

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// Release is what is known of a build.
type Release struct {
	// Folder has the files of the release, Source is the checkout.
	Folder, Source string
	// Version has no v in front. Commit is what is built, Repository where it comes from (git+https://...), Command by what.
	Version, Commit, Repository, Command string
	// Images is the repository of the images without their names, DownloadURL where the files can be had from.
	Images, DownloadURL string
	// CargoMetadata is a file with the output of cargo metadata.
	CargoMetadata string
	// Key is a file with a key in PEM: to sign, a private one, to verify, a public one.
	Key string
	// Time is that of the commit, in whole seconds. All files and SBOMs have it.
	Time  time.Time
	Tools []Tool
}

// Tool is a program of the build.
type Tool struct{ Name, Version string }

func run(ctx context.Context, args []string, out io.Writer) error {
	var r Release
	var what, file string
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	f.Usage = func() { fmt.Fprint(f.Output(), usage, "\n"); f.PrintDefaults() }
	f.StringVar(&r.Version, "version", "", "version of the release")
	f.StringVar(&r.Source, "source", "..", "the checkout's folder")
	f.StringVar(&r.Repository, "repository", "", "where the source comes from, as git+https://...")
	f.StringVar(&r.Commit, "commit", "", "the commit it is built from")
	f.StringVar(&r.Command, "command", "make release", "the command that built it")
	f.StringVar(&r.Images, "images", imagesHere, "repository of the images, without their names")
	f.StringVar(&r.DownloadURL, "download-url", "", "where the files of the release can be had from")
	f.StringVar(&r.CargoMetadata, "cargo-metadata", "", "output of cargo metadata, for the engine's dependencies")
	f.StringVar(&r.Key, "key", "", "file with a key in PEM: a private one to sign, a public one to verify")
	f.Func("time", "time of the commit, in seconds since 1970", func(text string) error {
		seconds, err := strconv.ParseInt(text, 10, 64)
		r.Time = time.Unix(seconds, 0).UTC()
		return err
	})
	f.Func("tool", "a tool of the build, as NAME=VERSION; may be repeated", func(text string) error {
		name, version, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=VERSION", text)
		}
		r.Tools = append(r.Tools, Tool{name, version})
		return nil
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	args = f.Args()
	wants := map[string]int{"image": 4, "plugin": 4, "chart": 2, "krew": 2, "install": 2, "changelog": 2, "describe": 2, "sign": 2, "verify": 2, "compare": 3}
	if len(args) == 0 || wants[args[0]] != len(args) {
		return errors.New(usage)
	}
	r.Folder = args[1]
	if len(args) > 2 {
		what, file = args[2], args[len(args)-1]
	}
	if r.Version == "" && !slices.Contains([]string{"sign", "verify", "compare"}, args[0]) {
		return fmt.Errorf("%s: --version is needed", args[0])
	}
	switch args[0] {
	case "image":
		return r.image(ctx, what, file)
	case "chart":
		return r.chart(ctx)
	case "plugin":
		return r.plugin(what, file)
	case "krew":
		return r.krew()
	case "install":
		return r.install()
	case "changelog":
		return r.changelog()
	case "describe":
		return r.describe()
	case "sign":
		return r.sign(out)
	case "compare":
		return compare(out, r.Folder, file)
	default:
		return r.verify(out)
	}
}

// describe writes the SBOMs, the provenance and the checksums of the files in the folder.
func (r *Release) describe() error {
	if r.Commit == "" || r.CargoMetadata == "" || r.Time.IsZero() {
		return errors.New("describe: --commit, --cargo-metadata and --time are needed")
	}
	metadata, err := os.ReadFile(r.CargoMetadata)
	if err != nil {
		return err
	}
	lock, err := os.ReadFile(filepath.Join(r.Source, "engine/Cargo.lock"))
	if err != nil {
		return err
	}
	crates, err := crates(metadata, lock, "spate-engine", r.Version)
	if err != nil {
		return fmt.Errorf("%s: %w", r.CargoMetadata, err)
	}
	files, err := released(r.Folder)
	if err != nil {
		return err
	}
	var materials []Component
	for _, name := range files {
		parts, err := r.parts(name, crates)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if parts == nil {
			continue
		}
		materials = append(materials, parts...)
		if err := writeJSON(filepath.Join(r.Folder, name+sbomSuffix), sbom(name, r.Version, r.Time, parts)); err != nil {
			return err
		}
	}
	if files, err = released(r.Folder); err != nil {
		return err
	}
	subjects, err := digests(r.Folder, files)
	if err != nil {
		return err
	}
	statement, err := r.provenance(subjects, unique(materials))
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(r.Folder, provenanceName), statement); err != nil {
		return err
	}
	all, err := digests(r.Folder, append(files, provenanceName))
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, file := range all {
		fmt.Fprintf(&sums, "%s  %s\n", file.Digest["sha256"], file.Name)
	}
	return os.WriteFile(filepath.Join(r.Folder, checksumsName), []byte(sums.String()), 0o644)
}

// parts returns what a file is made of; nil for those that are no programs.
func (r *Release) parts(name string, crates []Component) ([]Component, error) {
	path := filepath.Join(r.Folder, name)
	if p, ok := pluginPlatform(name, r.Version); ok {
		return pluginModules(path, p, r.Version)
	}
	if isImage(name) {
		return image(path, r.Version, crates)
	}
	return nil, nil
}

// isImage reports whether a file is an image of programs, and not the chart.
func isImage(name string) bool { return strings.HasSuffix(name, imageSuffix) && name != chartName }

// released returns the names of a release's files without provenance, checksums and signatures.
func released(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			return nil, fmt.Errorf("%s in %s is not a file", entry.Name(), folder)
		}
		if !slices.Contains(append([]string{provenanceName, checksumsName}, signatures...), entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// digests returns the digest of each file.
func digests(folder string, names []string) ([]Resource, error) {
	var all []Resource
	for _, name := range names {
		digest, err := digestOf(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		all = append(all, Resource{Name: name, Digest: map[string]string{"sha256": digest}})
	}
	return all, nil
}

// digestOf returns the SHA-256 of a file in hexadecimal.
func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
