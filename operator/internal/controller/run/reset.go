// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: when is the device to be reset in a trial for that, and what came of it?

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
)

// askForReset notes that the device is to be reset, when packets of the current trial have been measured for a time. It returns when to look
// again, at most a time.
func (s *scope) askForReset(left time.Duration) time.Duration {
	current := s.run.Status.Search.Current
	if current.Test != spatev1.TestReset || current.ResetDevice {
		return left
	}
	from := current.StartTime.Add(s.phasesOf(current).warmup + min(time.Duration(current.Duration)/10, time.Second))
	if until := time.Until(from); until > 0 {
		return min(left, until+time.Millisecond)
	}
	current.ResetDevice = true
	s.r.Events.Eventf(s.run, nil, corev1.EventTypeNormal, "ResetDevice", "Run", "trial %d is measured: reset the device now; it must forward again within %s", current.Number, s.leftOf(current))
	return left
}

// leftOf is how long a trial is measured from now on.
func (s *scope) leftOf(trial *spatev1.TrialInput) time.Duration {
	ends := trial.StartTime.Add(s.phasesOf(trial).warmup + time.Duration(trial.Duration))
	return time.Until(ends).Truncate(100 * time.Millisecond)
}

// countReset is what a trial came to in which the device was reset. Packets that were late count as sent. Those that were not sent count as lost if
// a port had no link: the device was at its other end.
func (s *scope) countReset(result *spatev1.RunResult) spatev1.TrialRecord {
	trial := spatev1.TrialRecord{Intended: result.Tx + result.TxDropped, Sent: result.Tx, Received: result.Tx - result.Lost}
	if len(s.run.Status.PortsDown) > 0 {
		trial.Sent = trial.Intended
	}
	return withLossRatio(trial)
}

// longestOutage is that of all streams; nil if none is known.
func longestOutage(result *spatev1.RunResult) (longest *spatev1.Outage) {
	for _, stream := range result.Streams {
		if o := stream.Outage; o != nil && (longest == nil || o.Longest > longest.Longest) {
			longest = o
		}
	}
	return longest
}

// silentAtEnd reports whether nothing arrived of a stream that was sent in the last interval of a trial. Its errors are those of intervalEnd.
func (s *scope) silentAtEnd(ctx context.Context, stats []*enginev1.WatchStatsResponse, facts *storage.Facts) (bool, error) {
	last := len(intervals(s.run.Status.Search.Current, nil)) - 1
	if last == 0 {
		return false, nil
	}
	before, err := s.intervalEnd(ctx, last)
	if err != nil {
		return false, err
	}
	sent, received := byStream(stats, (*enginev1.StreamCounters).GetTxPackets), byStream(stats, (*enginev1.StreamCounters).GetRxPackets)
	sentBefore, receivedBefore := byStream(before, (*enginev1.StreamCounters).GetTxPackets), byStream(before, (*enginev1.StreamCounters).GetRxPackets)
	for name, packets := range sent {
		if facts.Flow[name] && facts.CountedAs[name] == "" && packets > sentBefore[name] && received[name] == receivedBefore[name] {
			return true, nil
		}
	}
	return false, nil
}
