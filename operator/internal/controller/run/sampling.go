// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: when are a run's counters sampled, and when are the samples stored? They are what was read of the engines anyway. A
// restart of the operator loses the samples since they were stored last; counters are sums since the start, so what is counted in that
// time is the difference of the samples around it.

import (
	"context"
	"errors"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/samples"
	"spate.dev/operator/internal/runs/storage"
)

const (
	// saveSamplesEvery is the time between two writes of a run's samples while it lasts.
	saveSamplesEvery = 30 * time.Second
	// samplesLimit bounds a request about samples: a run does not wait for them any longer.
	samplesLimit = 2 * time.Second
)

// sampling is the state of a run's samples. Only the run's task uses it.
type sampling struct {
	series *samples.Series // nil before the first sample
	saved  time.Time       // when they were last given to a request that stores them
	saving chan struct{}   // closed when that request has ended; nil before the first
}

// sample adds the counters to the run's samples if it is time for one, or if they are the last.
func (s *scope) sample(ctx context.Context, result *spatev1.RunResult, stats []*enginev1.WatchStatsResponse, last bool) {
	start := s.run.Status.TrafficStartTime
	if start == nil {
		return
	}
	readAt := int64(math.MinInt64)
	for _, st := range present(stats) {
		readAt = max(readAt, st.ReadAtNs)
	}
	at := time.Unix(0, readAt).Sub(start.Time)
	of := &s.found.sampling
	if at < 0 || of.series == nil && !s.resumeSamples(ctx, start.Time) || !last && !of.series.Due(at) {
		return
	}
	of.series.Choose(result)
	delays, connectTimes := delaysOfStreams(stats, of.series.Streams), connectTimesOf(stats, of.series.Templates)
	of.series.Add(samples.Reading{At: at, Result: result, Delays: delays, ConnectTimes: connectTimes}, samples.Limit(s.r.supervisor.size()))
	if !last && time.Since(of.saved) > max(saveSamplesEvery, 10*pace(s.r.supervisor.size(), s.r.requests)) {
		s.saveSamplesBeside(ctx)
	}
}

// resumeSamples begins the samples of a run, or goes on with those that an operator before this one has stored. It returns false if they
// could not be read now.
func (s *scope) resumeSamples(ctx context.Context, start time.Time) bool {
	of := &s.found.sampling
	of.saved = time.Now()
	if time.Since(start) > saveSamplesEvery { // earlier than that none are stored
		ctx, cancel := context.WithTimeout(ctx, samplesLimit)
		defer cancel()
		stored, err := storage.LoadSamples(ctx, s.r.Client, s.run)
		var gone *storage.LostError
		if err != nil && !errors.As(err, &gone) {
			log.FromContext(ctx).Error(err, "reading the samples failed; retrying", "run", s.run.Namespace+"/"+s.run.Name)
			return false
		}
		of.series = stored
	}
	if of.series == nil {
		of.series = samples.New()
	}
	return true
}

// saveSamplesBeside stores the samples while the run's task goes on, unless that is still being done.
func (s *scope) saveSamplesBeside(ctx context.Context) {
	of := &s.found.sampling
	if of.saving != nil {
		select {
		case <-of.saving:
		default:
			return
		}
	}
	encoded, err := of.series.Encode()
	if err != nil {
		log.FromContext(ctx).Error(err, "encoding the samples failed", "run", s.run.Namespace+"/"+s.run.Name)
		return
	}
	done, owner, c := make(chan struct{}), ownerOnly(s.run), s.r.Client
	of.saving, of.saved = done, time.Now()
	s.r.supervisor.all.Go(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(ctx, samplesLimit)
		defer cancel()
		if err := storage.SaveSamples(ctx, c, owner, encoded); err != nil {
			log.FromContext(ctx).Error(err, "storing the samples failed; they are stored again later", "run", owner.Namespace+"/"+owner.Name)
		}
	})
}

// saveLastSamples stores the samples of a run that has ended. If they cannot be stored, an event says so: the verdict does not depend on
// them.
func (s *scope) saveLastSamples(ctx context.Context) {
	of := &s.found.sampling
	if of.series == nil {
		return
	}
	if of.saving != nil {
		<-of.saving // an older version may not replace the last; it is bounded by samplesLimit
	}
	encoded, err := of.series.Encode()
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, samplesLimit)
		defer cancel()
		err = storage.SaveSamples(ctx, s.r.Client, ownerOnly(s.run), encoded)
	}
	if err != nil {
		s.r.Events.Eventf(s.run, nil, corev1.EventTypeWarning, spatev1.ReasonDetailsNotKept, "Run", "%s", kstatus.Shortened("samples are lost: "+err.Error(), kstatus.LongestNote))
	}
}

// ownerOnly returns what of a run an owner reference is made of.
func ownerOnly(run *spatev1.TrafficRun) *spatev1.TrafficRun {
	return &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: run.Name, UID: run.UID}}
}

// delaysOfStreams sums up the delays of packets that all engines measured, by stream, of these streams.
func delaysOfStreams(stats []*enginev1.WatchStatsResponse, wanted map[string]samples.Table) map[string]samples.Times {
	all := map[string]samples.Times{}
	for _, st := range present(stats) {
		for _, stream := range st.Streams {
			if l := stream.GetMeasured().GetLatency(); wanted[stream.Name] != nil && l.GetCount() > 0 {
				all[stream.Name] = withTimes(all[stream.Name], l)
			}
		}
	}
	return all
}

// connectTimesOf sums up the connect times that all engines measured of clients, by template, of these templates.
func connectTimesOf(stats []*enginev1.WatchStatsResponse, wanted map[string]samples.Table) map[string]samples.Times {
	all := map[string]samples.Times{}
	for _, st := range present(stats) {
		for _, t := range st.Templates {
			if l := t.GetConnectTime(); wanted[t.Template] != nil && t.GetSide() == enginev1.Side_SIDE_CLIENT && l.GetCount() > 0 {
				all[t.Template] = withTimes(all[t.Template], l)
			}
		}
	}
	return all
}

func withTimes(t samples.Times, l *enginev1.LatencyStats) samples.Times {
	return samples.Times{Count: t.Count + int64(l.GetCount()), Sum: t.Sum + int64(l.GetSumNs())}
}
