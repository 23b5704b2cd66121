// SPDX-License-Identifier: Apache-2.0

// Package archive keeps runs that have ended outside the cluster's API, where they outlive their objects.
package archive

// This file answers: what does a place for archived files do?

import (
	"context"
	"io"
	"time"
)

// Store has files by names such as `tests/imix-1-UID/run.json.gz`.
type Store interface {
	// Put stores what is written under a name, instead of what is there. Until write has returned nil, readers find what was there before.
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// Open reads a file; the error is fs.ErrNotExist if there is none.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List returns the files below a folder, all if it is empty, in no order. That there is no such folder is no error.
	List(ctx context.Context, folder string) ([]File, error)
	// Delete deletes a file. That there is none is no error.
	Delete(ctx context.Context, name string) error
}

// File is a stored file.
type File struct {
	Name string
	// Modified is when it was stored.
	Modified time.Time
}
