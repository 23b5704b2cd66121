// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: what does a user of kubectl's plugin download? An archive for each platform, with the program, its completion, and the licence.

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	pluginName     = "kubectl-spate"
	completionName = "kubectl_complete-spate"
	licenceName    = "LICENSE"
)

// Platform is an operating system and an architecture, as Go names them.
type Platform struct{ OS, Arch string }

func parsePlatform(text string) (Platform, error) {
	system, architecture, ok := strings.Cut(text, "/")
	if !ok || system == "" || architecture == "" || strings.ContainsAny(text, "- ") {
		return Platform{}, fmt.Errorf("%q is not OS/ARCHITECTURE, such as linux/amd64", text)
	}
	return Platform{system, architecture}, nil
}

// program is the name of the plugin's program there.
func (p Platform) program() string {
	if p.OS == "windows" {
		return pluginName + ".exe"
	}
	return pluginName
}

// archive is the name of the plugin's archive for a platform.
func (p Platform) archive(version string) string {
	suffix := ".tar.gz"
	if p.OS == "windows" {
		suffix = ".zip"
	}
	return fmt.Sprintf("%s-%s-%s-%s%s", pluginName, version, p.OS, p.Arch, suffix)
}

// pluginPlatform returns the platform that an archive of the plugin is for; false for other files.
func pluginPlatform(name, version string) (Platform, bool) {
	rest, ok := strings.CutPrefix(name, pluginName+"-"+version+"-")
	if !ok {
		return Platform{}, false
	}
	rest, _, _ = strings.Cut(rest, ".")
	system, architecture, _ := strings.Cut(rest, "-")
	p := Platform{system, architecture}
	return p, p.archive(version) == name
}

// plugin packs the program of a platform. On Windows kubectl runs no shell script to complete words, so the archive for it has none.
func (r *Release) plugin(platform, program string) error {
	p, err := parsePlatform(platform)
	if err != nil {
		return err
	}
	entries := []entry{{p.program(), 0o755, program}, {licenceName, 0o644, filepath.Join(r.Source, licenceName)}}
	how := writeZip
	if p.OS != "windows" {
		how = writeTarGz
		entries = append(entries, entry{completionName, 0o755, filepath.Join(r.Source, "operator/cmd", pluginName, completionName)})
	}
	return pack(filepath.Join(r.Folder, p.archive(r.Version)), how, entries, r.Time)
}

// verifyPlugin checks that an archive of the plugin has what belongs into it, and nothing else.
func verifyPlugin(folder, name string, p Platform) error {
	wanted := map[string]fs.FileMode{p.program(): 0o755, licenceName: 0o644}
	if p.OS != "windows" {
		wanted[completionName] = 0o755
	}
	var problems []error
	err := unpack(filepath.Join(folder, name), func(file string, mode fs.FileMode, _ io.Reader) error {
		if is, there := wanted[file]; !there || is != mode {
			problems = append(problems, fmt.Errorf("%s: %s with mode %#o is not of the plugin", name, file, mode))
		}
		delete(wanted, file)
		return nil
	})
	for file := range wanted {
		problems = append(problems, fmt.Errorf("%s: no %s", name, file))
	}
	return errors.Join(append(problems, err)...)
}

// pluginModules returns the Go modules of the program in an archive of the plugin.
func pluginModules(archive string, p Platform, version string) ([]Component, error) {
	var found []Component
	err := unpack(archive, func(file string, _ fs.FileMode, content io.Reader) error {
		if file != p.program() {
			return nil
		}
		program, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		found, err = modules(bytes.NewReader(program), version)
		return err
	})
	if err == nil && found == nil {
		err = fmt.Errorf("no %s", p.program())
	}
	return found, err
}

// unpack calls visit for each file of a tar.gz or zip.
func unpack(path string, visit func(name string, mode fs.FileMode, content io.Reader) error) error {
	if strings.HasSuffix(path, ".zip") {
		archive, err := zip.OpenReader(path)
		if err != nil {
			return err
		}
		defer archive.Close()
		for _, file := range archive.File {
			content, err := file.Open()
			if err != nil {
				return err
			}
			if err := errors.Join(visit(file.Name, file.Mode(), content), content.Close()); err != nil {
				return err
			}
		}
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for entries := tar.NewReader(compressed); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(header.Name, fs.FileMode(header.Mode), entries); err != nil {
			return err
		}
	}
}
