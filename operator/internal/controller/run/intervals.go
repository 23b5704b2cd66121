// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what had been counted within a trial, at the ends of intervals of equal length? They are stages at one rate, at whose ends
// engines keep their counters.

import (
	"context"
	"errors"
	"fmt"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

const (
	// mostIntervals is in how many intervals of equal length a trial is divided.
	mostIntervals = 10
	// shortestInterval is their least length.
	shortestInterval = time.Second
)

// inIntervals reports whether the current trial is divided.
func (s *scope) inIntervals() bool {
	return s.run.Status.Search.Current.Test == spatev1.TestReset || s.rateIsExamined()
}

// intervals are the stages of a trial at one part of the plan's rates.
func intervals(trial *spatev1.TrialInput, factor *enginev1.Ratio) []*enginev1.Stage {
	length := time.Duration(trial.Duration)
	count := max(min(int64(length/shortestInterval), mostIntervals), 1)
	all := make([]*enginev1.Stage, count)
	for i := range all {
		begin, end := int64(length)*int64(i)/count, int64(length)*int64(i+1)/count
		all[i] = &enginev1.Stage{DurationNs: uint64(end - begin), RateFactor: factor}
	}
	return all
}

// errNotKept means that an engine was too busy to read its counters at the end of an interval before the trial had ended.
var errNotKept = errors.New("the counters at the end of an interval were not kept")

// intervalEnd returns the counters of all engines at the end of an interval (1, 2, ...; not the last). The error is errNotKept if an engine does not
// have them, and never will.
func (s *scope) intervalEnd(ctx context.Context, interval int) ([]*enginev1.WatchStatsResponse, error) {
	stats, known, err := s.countersAt(ctx, interval)
	if err != nil {
		return nil, fmt.Errorf("the counters of trial %d at the end of interval %d: %w", s.run.Status.Search.Current.Number, interval, err)
	} else if !known {
		return nil, fmt.Errorf("%w (interval %d)", errNotKept, interval)
	}
	return stats, nil
}
