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

// Retention says for how long runs stay in the archive, since they were written. To know when they ended, each would have to be read.
type Retention struct {
	// For is how long a run is kept; without limit if 0.
	For time.Duration
	// Runs is the number of runs that are kept of each namespace, those written last; without limit if 0.
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
	if len(all) > 0 && all[0].At.IsZero() {
		return 0, errors.New("no archived run is deleted: the server does not say when objects were written (LastModified)")
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
		again, err := run.isWrittenAgain(ctx, s)
		if err == nil && !again {
			err = run.delete(ctx, s)
		}
		if err != nil {
			problems = append(problems, err)
		} else if !again {
			deleted++
		}
	}
	return deleted, errors.Join(problems...)
}

// isWrittenAgain reports whether a run was written again since all were listed, which may be long ago.
func (r *Run) isWrittenAgain(ctx context.Context, s Store) (bool, error) {
	current, err := folders(ctx, s, r.folder())
	return slices.ContainsFunc(current, func(run Run) bool { return run.At.After(r.At) }), err
}

// delete deletes the files of a run, RunFile first: a run that has it is whole.
func (r *Run) delete(ctx context.Context, s Store) error {
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
