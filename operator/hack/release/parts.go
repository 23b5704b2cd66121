// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: what is a file made of? Go programs have the modules that they are linked from; cargo lists the crates of the engine;
// Debian's packages are in an image as dpkg has them.

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
)

// modules returns the Go modules of a program.
func modules(program io.ReaderAt, version string) ([]Component, error) {
	info, err := buildinfo.Read(program)
	if err != nil {
		return nil, err
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	parts := []Component{library("std", goVersion, "pkg:golang/std@"+goVersion)}
	add := func(path, of string) *Component {
		if strings.HasPrefix(path, "spate.dev/") {
			of = version // of this repository
		}
		parts = append(parts, library(path, of, "pkg:golang/"+path+"@"+of))
		return &parts[len(parts)-1]
	}
	add(info.Main.Path, version)
	for _, module := range info.Deps {
		if module.Replace != nil && !strings.HasPrefix(module.Path, "spate.dev/") {
			module = module.Replace
		}
		add(module.Path, module.Version).dirHash = module.Sum
	}
	return parts, nil
}

// checksums returns the SHA-256 of each crate in a Cargo.lock, by name and version.
func checksums(lock []byte) map[string]string {
	found := map[string]string{}
	fields := map[string]string{}
	for line := range strings.Lines(string(lock)) {
		line = strings.TrimSpace(line)
		if line == "[[package]]" {
			clear(fields)
		}
		if name, value, ok := strings.Cut(line, " = "); ok {
			fields[name] = strings.Trim(value, `"`)
		}
		if fields["checksum"] != "" {
			found[fields["name"]+"@"+fields["version"]] = fields["checksum"]
		}
	}
	return found
}

// crates returns the crates that are linked into a package of the workspace: of the output of cargo metadata, with the digests of Cargo.lock.
func crates(metadata, lock []byte, root, version string) ([]Component, error) {
	var workspace struct {
		Packages []struct {
			ID, Name, Version string
			Source            *string
			Targets           []struct{ Kind []string }
		}
		Resolve struct {
			Nodes []struct {
				ID   string
				Deps []struct {
					Pkg      string
					DepKinds []struct{ Kind *string } `json:"dep_kinds"`
				}
			}
		}
	}
	if err := json.Unmarshal(metadata, &workspace); err != nil {
		return nil, err
	}
	linked := map[string][]string{}
	for _, node := range workspace.Resolve.Nodes {
		for _, dep := range node.Deps {
			for _, kind := range dep.DepKinds {
				if kind.Kind == nil { // neither for building nor for tests
					linked[node.ID] = append(linked[node.ID], dep.Pkg)
				}
			}
		}
	}
	byID, sums := map[string]Component{}, checksums(lock)
	var next []string
	for _, p := range workspace.Packages {
		if slices.ContainsFunc(p.Targets, func(target struct{ Kind []string }) bool { return slices.Contains(target.Kind, "proc-macro") }) {
			continue // runs in the compiler
		}
		of := p.Version
		if p.Source == nil {
			of = version // of this repository
		}
		crate := library(p.Name, of, "pkg:cargo/"+p.Name+"@"+of)
		if p.Source != nil {
			sum := sums[p.Name+"@"+p.Version]
			if sum == "" {
				return nil, fmt.Errorf("no checksum of %s %s in Cargo.lock", p.Name, p.Version)
			}
			crate.Hashes = []Hash{{Algorithm: "SHA-256", Content: sum}}
		}
		byID[p.ID] = crate
		if p.Name == root {
			next = append(next, p.ID)
		}
	}
	if len(next) != 1 {
		return nil, fmt.Errorf("%d packages are called %s", len(next), root)
	}
	found := map[string]Component{}
	for len(next) > 0 {
		id := next[0]
		next = next[1:]
		crate, there := byID[id]
		if _, known := found[id]; known || !there {
			continue
		}
		found[id] = crate
		next = append(next, linked[id]...)
	}
	return unique(slices.Collect(maps.Values(found))), nil
}

// debian returns the package that a status of dpkg is of, and its source package.
func debian(status []byte) ([]Component, error) {
	fields := map[string]string{}
	for line := range strings.Lines(string(status)) {
		if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
			fields[name] = strings.TrimSpace(value)
		}
	}
	name, version, architecture := fields["Package"], fields["Version"], fields["Architecture"]
	if name == "" || version == "" {
		return nil, errors.New("a status of dpkg without Package or Version")
	}
	source, sourceVersion, _ := strings.Cut(cmp.Or(fields["Source"], name), " ")
	sourceVersion = cmp.Or(strings.Trim(sourceVersion, "()"), version)
	purl := func(name, version, architecture string) string {
		return "pkg:deb/debian/" + url.PathEscape(name) + "@" + url.QueryEscape(version) + "?arch=" + architecture
	}
	return []Component{library(name, version, purl(name, version, architecture)), library(source, sourceVersion, purl(source, sourceVersion, "source"))}, nil
}

// image returns what an image is made of, an OCI archive.
func image(archive, version string, crates []Component) ([]Component, error) {
	var parts []Component
	packages := 0
	err := layers(archive, func(name string, _ fs.FileMode, content io.Reader) error {
		switch {
		case name == "usr/local/bin/spate-operator":
			program, err := io.ReadAll(content)
			if err != nil {
				return err
			}
			found, err := modules(bytes.NewReader(program), version)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			parts = append(parts, found...)
		case name == "usr/local/bin/spate-engine":
			parts = append(parts, crates...)
		case path.Dir(name) == "var/lib/dpkg/status.d":
			status, err := io.ReadAll(content)
			if err != nil {
				return err
			}
			found, err := debian(status)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			parts = append(parts, found...)
			packages++
		}
		return nil
	})
	if err == nil && packages == 0 {
		err = errors.New("var/lib/dpkg/status.d has no packages")
	}
	return parts, err
}

// layers calls visit for each file of an image.
func layers(archive string, visit func(name string, mode fs.FileMode, content io.Reader) error) error {
	l, err := openLayout(archive)
	if err != nil {
		return err
	}
	defer l.Close()
	for _, layer := range l.manifest.Layers {
		content := l.blobs[blobName(layer.Digest)]
		if content == nil {
			return fmt.Errorf("no layer %s", layer.Digest)
		}
		if err := layerFiles(content, visit); err != nil {
			return err
		}
	}
	return nil
}

// layerFiles calls visit for each regular file of a layer.
func layerFiles(layer *io.SectionReader, visit func(name string, mode fs.FileMode, content io.Reader) error) error {
	var magic [2]byte
	if _, err := layer.ReadAt(magic[:], 0); err != nil {
		return err
	}
	var content io.Reader = layer
	if magic == [2]byte{0x1f, 0x8b} {
		unpacked, err := gzip.NewReader(layer)
		if err != nil {
			return err
		}
		content = unpacked
	}
	for entries := tar.NewReader(content); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag == tar.TypeReg {
			if err := visit(path.Clean(strings.TrimPrefix(header.Name, "/")), fs.FileMode(header.Mode), entries); err != nil {
				return err
			}
		}
	}
}
