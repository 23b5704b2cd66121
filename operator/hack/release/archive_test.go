// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestArchivesDependOnNamesModesAndContentsOnly(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	for name, how := range map[string]packer{"x.tar": writeTar, "x.tar.gz": writeTarGz, "x.zip": writeZip} {
		var written [][]byte
		for _, order := range [][]string{{"a", "b/c"}, {"b/c", "a"}} {
			folder := t.TempDir()
			var entries []entry
			for i, file := range order {
				path := filepath.Join(folder, "file-"+file[:1])
				must(t, os.WriteFile(path, []byte("of "+file), 0o640))
				must(t, os.Chtimes(path, time.Now(), time.Now().Add(time.Duration(i)*time.Hour)))
				entries = append(entries, entry{file, 0o755, path})
			}
			archive := filepath.Join(folder, name)
			must(t, pack(archive, how, entries, at))
			content, err := os.ReadFile(archive)
			must(t, err)
			written = append(written, content)
		}
		if !bytes.Equal(written[0], written[1]) {
			t.Errorf("%s differs by the order in which its files are given", name)
		}
	}
}

func TestHeadersNameNobodyAndOneTime(t *testing.T) {
	folder := t.TempDir()
	path, at := filepath.Join(folder, "file"), time.Unix(1_700_000_000, 0)
	must(t, os.WriteFile(path, []byte("text"), 0o600))
	packed, zipped := filepath.Join(folder, "x.tar.gz"), filepath.Join(folder, "x.zip")
	must(t, pack(packed, writeTarGz, []entry{{"a", 0o755, path}}, at))
	must(t, pack(zipped, writeZip, []entry{{"a", 0o755, path}}, at))

	file, err := os.Open(packed)
	must(t, err)
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	must(t, err)
	if compressed.Name != "" || !compressed.ModTime.IsZero() {
		t.Errorf("the header of gzip has the name %q and the time %v", compressed.Name, compressed.ModTime)
	}
	header, err := tar.NewReader(compressed).Next()
	must(t, err)
	if !header.ModTime.Equal(at) || header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.Gname != "" || header.Mode != 0o755 {
		t.Errorf("%+v", header)
	}
	archive, err := zip.OpenReader(zipped)
	must(t, err)
	defer archive.Close()
	if f := archive.File[0]; !f.Modified.Equal(at) || f.Mode() != 0o755 {
		t.Errorf("%v %v", f.Modified, f.Mode())
	}
}

func TestAnArchiveThatCannotBeWrittenIsNotLeft(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "x.tar")
	if err := pack(path, writeTar, []entry{{"a", 0o644, filepath.Join(folder, "none")}}, time.Now()); err == nil {
		t.Error("a file that is not there was packed")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("what was begun is left")
	}
	if err := pack(path, func(io.Writer, []entry, time.Time) error { return nil }, nil, time.Now()); err != nil {
		t.Error(err)
	}
}
