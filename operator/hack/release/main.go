// SPDX-License-Identifier: Apache-2.0

// release describes the files of a release: an SBOM for each image and program, where each file comes from, and their checksums. It also
// verifies a release that was described.
package main

import (
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
	"strings"
	"time"
)

// Names of what is written beside the files of a release.
const (
	checksumsName  = "SHA256SUMS"
	provenanceName = "provenance.intoto.json"
	sbomSuffix     = ".cdx.json"
	imageSuffix    = ".oci.tar"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "verify" {
		if len(args) != 2 {
			return errors.New("usage: release verify FOLDER")
		}
		return verify(args[1])
	}
	var r Release
	var started string
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	f.StringVar(&r.Version, "version", "", "version of the release")
	f.StringVar(&r.Source, "source", "..", "the checkout's folder")
	f.StringVar(&r.Repository, "repository", "", "where the source comes from, as git+https://...")
	f.StringVar(&r.Commit, "commit", "", "the commit it is built from")
	f.StringVar(&r.Command, "command", "make release", "the command that built it")
	f.StringVar(&r.CargoMetadata, "cargo-metadata", "", "output of cargo metadata, for the engine's dependencies")
	f.StringVar(&started, "started", "", "when the build began, in RFC 3339")
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
	if f.NArg() != 1 || r.Version == "" || r.Commit == "" || r.CargoMetadata == "" {
		return errors.New("usage: release --version V --commit HASH --cargo-metadata FILE [...] FOLDER, or: release verify FOLDER")
	}
	var err error
	if r.Started, err = time.Parse(time.RFC3339, started); err != nil {
		return fmt.Errorf("--started: %w", err)
	}
	return r.describe(f.Arg(0), time.Now())
}

// Release is what is known of a build.
type Release struct {
	Version, Source, Repository, Commit, Command, CargoMetadata string
	Started                                                     time.Time
	Tools                                                       []Tool
}

// Tool is a program of the build.
type Tool struct{ Name, Version string }

// describe writes the SBOMs, the provenance and the checksums of the files in a folder.
func (r *Release) describe(folder string, now time.Time) error {
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
	files, err := released(folder)
	if err != nil {
		return err
	}
	var materials []Component
	for _, name := range files {
		parts, err := r.parts(filepath.Join(folder, name), crates)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if parts == nil {
			continue
		}
		materials = append(materials, parts...)
		if err := writeJSON(filepath.Join(folder, name+sbomSuffix), sbom(name, r.Version, r.Started, parts)); err != nil {
			return err
		}
	}
	if files, err = released(folder); err != nil {
		return err
	}
	subjects, err := digests(folder, files)
	if err != nil {
		return err
	}
	statement, err := r.provenance(subjects, unique(materials), now)
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(folder, provenanceName), statement); err != nil {
		return err
	}
	all, err := digests(folder, append(files, provenanceName))
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, file := range all {
		fmt.Fprintf(&sums, "%s  %s\n", file.Digest["sha256"], file.Name)
	}
	return os.WriteFile(filepath.Join(folder, checksumsName), []byte(sums.String()), 0o644)
}

// parts returns what a file is made of; nil for those that are no programs.
func (r *Release) parts(path string, crates []Component) ([]Component, error) {
	switch name := filepath.Base(path); {
	case strings.HasSuffix(name, imageSuffix):
		return image(path, r.Version, crates)
	case strings.HasPrefix(name, "kubectl-spate"):
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return modules(file, r.Version)
	}
	return nil, nil
}

// released returns the names of a release's files without provenance and checksums.
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
		if entry.Name() != provenanceName && entry.Name() != checksumsName {
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
		digest, err := digest(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		all = append(all, Resource{Name: name, Digest: map[string]string{"sha256": digest}})
	}
	return all, nil
}

func digest(path string) (string, error) {
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
