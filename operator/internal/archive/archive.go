// SPDX-License-Identifier: Apache-2.0

package archive

// This file answers: what is archived of a run, and how is it found again?

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs/samples"
)

// The files of a run, in the folder NAMESPACE/NAME-UID.
const (
	// RunFile is the TrafficRun with its whole result, as JSON compressed by gzip. It is written last: a run whose file is there is whole.
	RunFile = "run.json.gz"
	// SamplesFile has the samples, as samples.Series.Encode returns them; absent if the run has none.
	SamplesFile = "samples.json.gz"
)

// uidLength is the length of a UID, which ends the name of a folder.
const uidLength = 36

// mostUnpacked is the maximum size in bytes of a run's file when it is unpacked. The largest results have less than half of it.
const mostUnpacked = 256 << 20

// Folder returns that of a run.
func Folder(run *spatev1.TrafficRun) string {
	return path.Join(run.Namespace, run.Name+"-"+string(run.UID))
}

// Save stores a run with its whole result, and its encoded samples, if it has any.
func Save(ctx context.Context, s Store, run *spatev1.TrafficRun, encoded []byte) error {
	folder := Folder(run)
	if encoded != nil {
		err := s.Put(ctx, path.Join(folder, SamplesFile), func(w io.Writer) error {
			_, err := w.Write(encoded)
			return err
		})
		if err != nil {
			return err
		}
	}
	kept := *run
	kept.SetGroupVersionKind(spatev1.GroupVersion.WithKind("TrafficRun"))
	kept.ManagedFields = nil
	return s.Put(ctx, path.Join(folder, RunFile), func(w io.Writer) error {
		packed := gzip.NewWriter(w)
		return errors.Join(json.NewEncoder(packed).Encode(&kept), packed.Close())
	})
}

// Run is an archived run.
type Run struct {
	Namespace, Name, UID string
	// At is when it was archived: when the latest of its files was written, by the clock of the place.
	At time.Time

	whole bool // it has RunFile
	files []string
}

// folder returns that of the run.
func (r *Run) folder() string { return path.Join(r.Namespace, r.Name+"-"+r.UID) }

// Runs returns the archived runs of a namespace, or all if it is empty, the oldest first. Runs that are not whole are omitted.
func Runs(ctx context.Context, s Store, namespace string) ([]Run, error) {
	all, err := folders(ctx, s, namespace)
	return slices.DeleteFunc(all, func(run Run) bool { return !run.whole }), err
}

// folders returns the archived runs below a folder, or all if it is empty, whole or not, the oldest first. Files of others are no part of them.
func folders(ctx context.Context, s Store, below string) ([]Run, error) {
	files, err := s.List(ctx, below)
	if err != nil {
		return nil, err
	}
	byFolder := map[string]*Run{}
	for _, file := range files {
		folder, own := path.Dir(file.Name), path.Base(file.Name)
		if own != RunFile && own != SamplesFile && !strings.HasPrefix(own, unfinished) {
			continue
		}
		namespace, base, found := strings.Cut(folder, "/")
		at := len(base) - uidLength
		if !found || strings.Contains(base, "/") || at < 2 || base[at-1] != '-' {
			continue
		}
		if byFolder[folder] == nil {
			byFolder[folder] = &Run{Namespace: namespace, Name: base[:at-1], UID: base[at:]}
		}
		run := byFolder[folder]
		run.files, run.whole = append(run.files, file.Name), run.whole || own == RunFile
		if file.Modified.After(run.At) {
			run.At = file.Modified
		}
	}
	all := make([]Run, 0, len(byFolder))
	for _, run := range byFolder {
		all = append(all, *run)
	}
	slices.SortFunc(all, func(a, b Run) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.UID, b.UID)) })
	return all, nil
}

// Load returns an archived run, with its whole result, and its samples; nil if it has none.
func Load(ctx context.Context, s Store, folder string) (*spatev1.TrafficRun, *samples.Series, error) {
	return load(ctx, s, folder, mostUnpacked)
}

// load is Load with a maximum size in bytes of the unpacked file of the run.
func load(ctx context.Context, s Store, folder string, most int64) (*spatev1.TrafficRun, *samples.Series, error) {
	run := &spatev1.TrafficRun{}
	if err := read(ctx, s, path.Join(folder, RunFile), func(r io.Reader) error {
		packed, err := gzip.NewReader(r)
		if err != nil {
			return err
		}
		unpacked := &bounded{packed, most, most}
		if err := json.NewDecoder(unpacked).Decode(run); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, unpacked) // gzip's checksum is at the end
		return err
	}); err != nil {
		return nil, nil, err
	}
	var series *samples.Series
	err := read(ctx, s, path.Join(folder, SamplesFile), func(r io.Reader) error {
		encoded, err := io.ReadAll(io.LimitReader(r, samples.MostBytes+1))
		if err == nil {
			series, err = samples.Decode(encoded)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return run, series, err
}

func read(ctx context.Context, s Store, name string, use func(io.Reader) error) error {
	file, err := s.Open(ctx, name)
	if err != nil {
		return err
	}
	defer file.Close()
	err = use(file)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return fmt.Errorf("%s cannot be read: its end is missing", name)
	case err != nil:
		return fmt.Errorf("%s cannot be read: %w", name, err)
	}
	return nil
}

// bounded reads at most a number of bytes, and fails beyond, where io.LimitReader would end.
type bounded struct {
	io.Reader
	left, most int64
}

func (b *bounded) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("it unpacks to more than %d bytes, as no run does", b.most)
	}
	n, err := b.Reader.Read(into[:min(int64(len(into)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Find returns the folder of the run of a name that was archived last.
func Find(ctx context.Context, s Store, namespace, name string) (string, error) {
	all, err := Runs(ctx, s, namespace)
	if err != nil {
		return "", err
	}
	for _, run := range slices.Backward(all) {
		if run.Name == name {
			return run.folder(), nil
		}
	}
	return "", fmt.Errorf("the archive has no run %q of namespace %s", name, namespace)
}
