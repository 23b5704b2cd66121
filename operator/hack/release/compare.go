// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: what is different in two releases that should be the same? Names the files, and in archives their members.

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxMembers is how many differing members of a file are named.
const maxMembers = 20

// compare prints the files in which two folders differ, and fails if there are any.
func compare(out io.Writer, first, second string) error {
	one, err := digestsIn(first)
	if err != nil {
		return err
	}
	other, err := digestsIn(second)
	if err != nil {
		return err
	}
	different := differences(one, other)
	for _, name := range different {
		fmt.Fprintf(out, "%s differs\n", name)
		if one[name] == "" || other[name] == "" {
			fmt.Fprintln(out, "  only one folder has it")
			continue
		}
		if err := compareMembers(out, filepath.Join(first, name), filepath.Join(second, name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(different) > 0 {
		return fmt.Errorf("%d of %d files differ", len(different), len(one))
	}
	if len(one) == 0 {
		return errors.New("there are no files")
	}
	return nil
}

func digestsIn(folder string) (map[string]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, e := range entries {
		if found[e.Name()], err = digestOf(filepath.Join(folder, e.Name())); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// differences returns the names, in order, that do not have the same value in both.
func differences(one, other map[string]string) []string {
	all := maps.Clone(one)
	maps.Copy(all, other)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return one[name] == other[name] })
}

// compareMembers prints in which members two archives of one kind differ, or in which lines two texts do.
func compareMembers(out io.Writer, first, second string) error {
	one, err := members(first)
	if err != nil {
		return err
	}
	other, err := members(second)
	if err != nil {
		return err
	}
	different := differences(one, other)
	for _, name := range different[:min(len(different), maxMembers)] {
		fmt.Fprintf(out, "  %s: %s, %s\n", name, orNone(one[name]), orNone(other[name]))
	}
	if more := len(different) - maxMembers; more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
	if len(different) == 0 {
		fmt.Fprintln(out, "  its members are the same: their order or what surrounds them differs")
	}
	return nil
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// members returns what is compared of a file: by the names of an archive's members their modes and digests, by the numbers of a text's lines the lines.
func members(path string) (map[string]string, error) {
	found := map[string]string{}
	add := func(prefix string) func(name string, mode fs.FileMode, content io.Reader) error {
		return func(name string, mode fs.FileMode, content io.Reader) error {
			hash := sha256.New()
			_, err := io.Copy(hash, content)
			found[prefix+name] = fmt.Sprintf("mode %#o, SHA-256 %x", mode, hash.Sum(nil)[:8])
			return err
		}
	}
	switch {
	case strings.HasSuffix(path, imageSuffix):
		return found, layoutMembers(path, found, add)
	case strings.HasSuffix(path, ".tgz"), strings.HasSuffix(path, ".tar.gz"), strings.HasSuffix(path, ".zip"):
		return found, unpack(path, add(""))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		found[fmt.Sprintf("line %6d", number)] = strings.TrimSpace(line)
	}
	return found, nil
}

// layoutMembers adds the files of an image's layers, and its configuration, to what is found.
func layoutMembers(path string, found map[string]string, add func(prefix string) func(string, fs.FileMode, io.Reader) error) error {
	l, err := openLayout(path)
	if err != nil {
		return err
	}
	defer l.Close()
	for i, layer := range l.manifest.Layers {
		content := l.blobs[blobName(layer.Digest)]
		if content == nil {
			return fmt.Errorf("no layer %s", layer.Digest)
		}
		if err := layerFiles(content, add(fmt.Sprintf("layer %d: ", i+1))); err != nil {
			return err
		}
	}
	config := l.blobs[blobName(l.manifest.Config.Digest)]
	if config == nil {
		return errors.New("no configuration")
	}
	text, err := io.ReadAll(config)
	found["configuration"] = string(text)
	return err
}
