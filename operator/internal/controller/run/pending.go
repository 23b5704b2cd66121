// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what happens to a run that was just made?

import (
	"cmp"
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/snapshot"
)

const (
	// recordLimit is how long a profile has for recording the run that it made.
	recordLimit = 10 * time.Second
	recordPause = 20 * time.Millisecond
)

// endUnstarted ends a run of which nothing was sent.
func (s *scope) endUnstarted() {
	s.invalid(cmp.Or(s.end.reason, spatev1.ReasonIncomplete), s.end.message+" before the run started", s.end.message)
}

// pending takes the snapshot over and checks that it is whole.
func (s *scope) pending(ctx context.Context) (time.Duration, error) {
	status := &s.run.Status
	status.Phase, status.RateFactor = spatev1.RunPending, s.run.Spec.RateFactor
	if stranger := s.notMade(); stranger != "" {
		if metav1.GetControllerOf(s.run) != nil && time.Since(s.run.CreationTimestamp.Time) < recordLimit {
			return recordPause, nil // its profile's status is just being written
		}
		s.invalid(spatev1.ReasonNotOfProfile, stranger, "")
		return 0, nil
	}
	if s.end.message != "" {
		s.endUnstarted()
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
	status.PrepareTime = &now
	return time.Millisecond, nil
}
