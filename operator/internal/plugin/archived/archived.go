// SPDX-License-Identifier: Apache-2.0

// Package archived answers: which run of an archive does a command line mean?
package archived

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/runs/samples"
)

// Read returns the run that the arguments name, with its samples, if it has any: of an archive, or of the folder of one run.
func Read(ctx context.Context, flags *cluster.Flags, from string, args []string) (*spatev1.TrafficRun, *samples.Series, error) {
	if info, err := os.Stat(from); err != nil {
		return nil, nil, fmt.Errorf("--from: %w", err)
	} else if !info.IsDir() {
		return nil, nil, fmt.Errorf("--from %s: must be the folder of an archive, or of a run in one", from)
	}
	store := archive.Directory(from)
	folder, err := "", error(nil)
	if _, absent := os.Stat(filepath.Join(from, archive.RunFile)); absent != nil {
		folder, err = named(ctx, flags, store, args)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--from %s: %w", from, err)
	}
	run, series, err := archive.Load(ctx, store, folder)
	if err != nil {
		return nil, nil, fmt.Errorf("--from %s: %w", from, err)
	}
	if len(args) > 0 && run.Name != args[0] {
		return nil, nil, fmt.Errorf("--from %s: it is the folder of run %s", from, run.Name)
	}
	return run, series, nil
}

func named(ctx context.Context, flags *cluster.Flags, store archive.Store, args []string) (string, error) {
	if len(args) == 0 {
		return "", errors.New("it is not the folder of one run: name a RUN")
	}
	namespace, err := flags.Namespace()
	if err != nil {
		return "", err
	}
	return archive.Find(ctx, store, namespace, args[0])
}
