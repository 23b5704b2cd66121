// SPDX-License-Identifier: Apache-2.0

package storage

// This file answers: how is the result of a baseline stored for the run that is compared with it?

import (
	"context"
	"encoding/json"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// whatBaseline is in the names of the ConfigMaps.
const whatBaseline = "baseline"

// SaveBaseline stores the whole result of a baseline, which has ended, beside the run that is compared with it.
func SaveBaseline(ctx context.Context, c client.Client, run, baseline *spatev1.TrafficRun, result *spatev1.RunResult) (*spatev1.BaselineSnapshot, error) {
	place := place{client: c, owner: run, run: run.Name, what: whatBaseline, key: keyResult}
	kept, err := place.save(ctx, func(w io.Writer) error { return json.NewEncoder(w).Encode(result) })
	if err != nil {
		return nil, err
	}
	return &spatev1.BaselineSnapshot{
		Name: spatev1.ObjectName(baseline.Name), UID: baseline.UID, Profile: baseline.Status.Resolved.Profile.Name, CompletionTime: *baseline.Status.CompletionTime, Outcome: baseline.Status.Verdict.Outcome,
		Digest: kept.digest, Bytes: kept.bytes, Chunks: kept.chunks,
	}, nil
}

// LoadBaseline returns the whole result of a run's baseline, as it was stored.
func LoadBaseline(ctx context.Context, c client.Reader, run *spatev1.TrafficRun) (*spatev1.RunResult, error) {
	b := run.Status.Resolved.Baseline
	return kept{b.Digest, b.Bytes, b.Chunks}.loadResult(ctx, c, run.Namespace, whatBaseline)
}
