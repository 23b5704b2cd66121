// SPDX-License-Identifier: Apache-2.0

package archive

// This file answers: which archived runs are deleted?

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"
)

// Retention says for how long runs stay in the archive.
type Retention struct {
	// For is how long a run is kept; without limit if 0.
	For time.Duration
	// Runs is the number of runs that are kept of each namespace; without limit if 0.
	Runs int
}

// IsUnlimited reports whether all runs are kept.
func (r Retention) IsUnlimited() bool { return r.For == 0 && r.Runs == 0 }

// writtenWithin is the time after which a run that is not whole is no longer being written.
const writtenWithin = 24 * time.Hour

// Apply deletes the runs that are kept no longer, and returns their number. It goes on after an error.
func (r Retention) Apply(ctx context.Context, s Store, now time.Time) (deleted int, err error) {
	if r.IsUnlimited() {
		return 0, nil
	}
	all, err := folders(ctx, s, "")
	if err != nil {
		return 0, err
	}
	newer := map[string]int{} // runs of a namespace
	var problems []error
	for _, run := range slices.Backward(all) {
		if !run.whole && now.Sub(run.At) <= writtenWithin {
			continue
		}
		if run.whole {
			newer[run.Namespace]++
		}
		if run.whole && (r.Runs == 0 || newer[run.Namespace] <= r.Runs) && (r.For == 0 || now.Sub(run.At) <= r.For) {
			continue
		}
		if err := run.delete(ctx, s); err != nil {
			problems = append(problems, err)
			continue
		}
		deleted++
	}
	return deleted, errors.Join(problems...)
}

// delete deletes the files of a run, RunFile first: a run that has it is whole.
func (r Run) delete(ctx context.Context, s Store) error {
	whole := func(name string) bool { return path.Base(name) == RunFile }
	for _, first := range []bool{true, false} {
		for _, name := range r.files {
			if whole(name) != first {
				continue
			}
			if err := s.Delete(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}
