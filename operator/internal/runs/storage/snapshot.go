// SPDX-License-Identifier: Apache-2.0

// Package storage stores parts of a run that may be larger than an object in ConfigMaps: its resolved plan, its
// whole result and its samples.
package storage

// This file answers: how is a run's plan stored and read?

import (
	"context"
	"errors"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
)

// keyPacked has a part of the compressed plan (gzip): copies of a stream differ in few bytes. Earlier operators stored
// the plan uncompressed, under another key.
const keyPacked = "plan.gz"

// Save stores a run's plan while it is written: at most one chunk is in memory. The run owns the chunks; they are
// deleted with it.
func Save(ctx context.Context, c client.Client, run *spatev1.TrafficRun, write func(io.Writer) error) (spatev1.Snapshot, error) {
	place := place{client: c, owner: run, run: run.Name, what: "plan", key: keyPacked}
	kept, err := place.save(ctx, write)
	return spatev1.Snapshot{Digest: kept.digest, Bytes: kept.bytes, Chunks: kept.chunks}, err
}

// LostError reports that stored data is missing or damaged.
type LostError struct{ Message string }

func (e *LostError) Error() string { return e.Message }

// Large is the size in bytes from which at most one plan is in memory at a time.
const Large = 4 << 20

// Load reads a run's plan and checks its digest.
func Load(ctx context.Context, c client.Reader, run *spatev1.TrafficRun) ([]byte, error) {
	return planOf(run).load(ctx, c, run.Namespace, "plan", keyPacked)
}

// readOutline reads the outline of a run's plan, and checks the plan's digest.
func readOutline(ctx context.Context, c client.Reader, run *spatev1.TrafficRun) (*enginev1.Plan, error) {
	outline, err := plan.ReadOutline(planOf(run).open(ctx, c, run.Namespace, "plan", keyPacked))
	var broken *plan.BrokenError
	if errors.As(err, &broken) {
		return nil, &LostError{"the plan in the run's ConfigMaps cannot be read: " + err.Error()}
	}
	return outline, err
}

func planOf(run *spatev1.TrafficRun) kept {
	s := run.Status.Resolved.Snapshot
	return kept{s.Digest, s.Bytes, s.Chunks}
}
