// SPDX-License-Identifier: Apache-2.0

package archive

// This file answers: how is a directory, such as a mounted volume, a place for archived files?

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Directory is the path of a directory that exists.
type Directory string

// unfinished begins the names of files that are being written. A process that ends meanwhile leaves one behind.
const unfinished = ".unfinished-"

// path returns that of a file within the directory.
func (d Directory) path(name string) (string, error) {
	local := filepath.FromSlash(name)
	if !filepath.IsLocal(local) {
		return "", fmt.Errorf("%q is no name of a file in the archive", name)
	}
	return filepath.Join(string(d), local), nil
}

// Put implements Store: the file is written beside its place, synced, and renamed.
func (d Directory) Put(_ context.Context, name string, write func(io.Writer) error) error {
	path, err := d.path(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), unfinished)
	if err != nil {
		return err
	}
	err = errors.Join(write(file), file.Sync(), file.Close())
	if err == nil {
		err = errors.Join(os.Chmod(file.Name(), 0o644), os.Rename(file.Name(), path))
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the first error says more
	}
	return err
}

// Open implements Store.
func (d Directory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	path, err := d.path(name)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// List implements Store. What a process left unfinished is among the files: it is deleted with its run, or as a run that is not whole.
func (d Directory) List(ctx context.Context, folder string) (all []File, err error) {
	below := string(d)
	if folder != "" {
		if below, err = d.path(folder); err != nil {
			return nil, err
		}
	}
	err = filepath.WalkDir(below, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != string(d) {
			return nil // deleted meanwhile
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		name, err := filepath.Rel(string(d), path)
		all = append(all, File{filepath.ToSlash(name), info.ModTime()})
		return err
	})
	return all, err
}

// Delete implements Store. The directories above the file are removed when they are empty.
func (d Directory) Delete(_ context.Context, name string) error {
	path, err := d.path(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(path)
	for above != filepath.Clean(string(d)) && os.Remove(above) == nil { // until one is not empty
		above = filepath.Dir(above)
	}
	return nil
}
