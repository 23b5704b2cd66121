// SPDX-License-Identifier: Apache-2.0

package storage

// This file answers: how is a result stored that is too large for a status?

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// keyResult has a part of a result: compressed JSON (gzip).
const keyResult = "result.json.gz"

// SaveResult stores the whole result of a run and returns its reference. The same result is stored in the same
// ConfigMaps.
func SaveResult(ctx context.Context, c client.Client, run *spatev1.TrafficRun, result *spatev1.RunResult) (*spatev1.ResultDetails, error) {
	place := place{client: c, owner: run, run: run.Name, what: "result", key: keyResult}
	kept, err := place.save(ctx, func(w io.Writer) error { return json.NewEncoder(w).Encode(result) })
	if err != nil {
		return nil, err
	}
	return &spatev1.ResultDetails{Digest: kept.digest, Bytes: kept.bytes, Chunks: kept.chunks}, nil
}

// Refused reports whether storing fails on every attempt, such as for a quota.
func Refused(err error) bool {
	var taken *takenError
	return errors.As(err, &taken) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// LoadResult returns the whole result of a run: that of its status, or the stored one if the status has only a part.
func LoadResult(ctx context.Context, c client.Reader, run *spatev1.TrafficRun) (*spatev1.RunResult, error) {
	result := run.Status.Result
	if result == nil || result.Details == nil {
		return result, nil
	}
	if problem := result.Details.Problem; problem != "" {
		return nil, &LostError{"the whole result was not stored: " + problem}
	}
	d := result.Details
	return kept{d.Digest, d.Bytes, d.Chunks}.loadResult(ctx, c, run.Namespace, "result")
}

// loadResult reads a stored result.
func (k kept) loadResult(ctx context.Context, c client.Reader, namespace, what string) (*spatev1.RunResult, error) {
	text, err := k.load(ctx, c, namespace, what, keyResult)
	if err != nil {
		return nil, err
	}
	whole := &spatev1.RunResult{}
	if err := json.Unmarshal(text, whole); err != nil {
		return nil, &LostError{fmt.Sprintf("the %s in the run's ConfigMaps cannot be read: %v", what, err)}
	}
	return whole, nil
}
