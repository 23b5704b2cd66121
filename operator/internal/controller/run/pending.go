// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what happens to a run that was just made?

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/operator/api/v1alpha1"
	"spate.dev/operator/internal/controller/snapshot"
)

// pending takes the snapshot over and checks that it is whole.
func (s *scope) pending(ctx context.Context) (time.Duration, error) {
	status := &s.run.Status
	status.Phase, status.RateFactor = spatev1.RunPending, s.run.Spec.RateFactor
	if why := s.mustEnd(); why != "" {
		s.invalid(spatev1.ReasonIncomplete, why+" before the run started", why)
		return 0, nil
	}
	if err := snapshot.Adopt(ctx, s.r.Client, s.run); err != nil {
		return 0, err
	}
	var lost *snapshot.LostError
	if _, err := s.r.Memory.Of(ctx, s.run); errors.As(err, &lost) {
		s.invalid(spatev1.ReasonSnapshotLost, lost.Message, "")
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	status.Phase = spatev1.RunPreparing
	now := metav1.Now()
	status.StartTime = &now
	return time.Millisecond, nil
}
