// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: how do the same files become the same archive, regardless of who packs them, where and when? Entries are in the order of their
// names, have no owner, and have one time.

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// entry is a file of an archive: its name there, its permissions, and where its content is.
type entry struct {
	name string
	mode fs.FileMode
	path string
}

// packer writes entries, which are in order, as an archive.
type packer func(w io.Writer, entries []entry, at time.Time) error

// pack writes an archive of entries into a file. A file that could not be written whole is removed.
func pack(path string, how packer, entries []entry, at time.Time) error {
	entries = slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(how(file, entries, at), file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// writeTar writes entries as POSIX.1-1988 tar (ustar), which has one time a file, in seconds.
func writeTar(w io.Writer, entries []entry, at time.Time) error {
	archive := tar.NewWriter(w)
	for _, e := range entries {
		err := e.copyTo(func(size int64) (io.Writer, error) {
			return archive, archive.WriteHeader(&tar.Header{
				Typeflag: tar.TypeReg, Name: e.name, Size: size, Mode: int64(e.mode.Perm()), ModTime: at, Format: tar.FormatUSTAR,
			})
		})
		if err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeTarGz writes entries as tar by gzip, whose header has neither name nor time.
func writeTarGz(w io.Writer, entries []entry, at time.Time) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(compressed, entries, at), compressed.Close())
}

// writeZip writes entries as a zip archive.
func writeZip(w io.Writer, entries []entry, at time.Time) error {
	archive := zip.NewWriter(w)
	for _, e := range entries {
		err := e.copyTo(func(int64) (io.Writer, error) {
			header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at.UTC()}
			header.SetMode(e.mode)
			return archive.CreateHeader(header)
		})
		if err != nil {
			return err
		}
	}
	return archive.Close()
}

// copyTo copies the content to the writer that begin returns for its size in bytes.
func (e entry) copyTo(begin func(size int64) (io.Writer, error)) error {
	file, err := os.Open(e.path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	to, err := begin(info.Size())
	if err != nil {
		return err
	}
	_, err = io.Copy(to, file)
	return err
}

// entriesOf returns the files below a folder, by their names in it, readable by all.
func entriesOf(folder string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		entries = append(entries, entry{filepath.ToSlash(name), 0o644, path})
		return err
	})
	return entries, err
}
