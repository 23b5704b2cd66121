// SPDX-License-Identifier: Apache-2.0

package live

// This file answers: which counters of a run does a reader get, and how long?

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/live/livev1"
)

const (
	// minInterval and maxInterval bound the time from one answer to the next.
	minInterval, maxInterval = time.Second, time.Minute
	// maxRows bounds the streams of an answer, and the sides of templates: about 0.5 MiB. Receivers, of which a run has 16 at most, are all sent.
	maxRows = 1000
)

// WatchStats streams counters of a run in a pod.
func (s *Server) WatchStats(request *livev1.WatchStatsRequest, to grpc.ServerStreamingServer[livev1.WatchStatsResponse]) error {
	reader, run := &spatev1.TrafficStatsReader{}, &spatev1.TrafficRun{}
	admitted := false
	ctx, held, end, err := s.begin(to.Context(), client.ObjectKey{Namespace: request.Namespace, Name: request.Name}, reader, &s.watchers, func(ctx context.Context) error {
		found := &spatev1.TrafficRun{}
		key := client.ObjectKey{Namespace: request.Namespace, Name: string(reader.Spec.RunRef.Name)}
		if admitted {
			return mayGoOn(found, request.Pod, s.Client.Get(ctx, key, found))
		}
		admitted, run = true, found
		return mayStart(found, "counters", s.Fresh.Get(ctx, key, found)) // the cache may be behind the start of the run
	})
	if err != nil {
		return err
	}
	defer end()
	from, err := s.engineFor(ctx, run, request.Pod)
	if err != nil {
		return err
	}
	defer from.Close()
	ports, err := from.Ports(ctx)
	if err != nil {
		return ofEngine(request.Pod, err)
	}
	counters, err := from.WatchStats(ctx, run.Status.Resolved.RunID, min(max(time.Duration(min(request.IntervalNs, uint64(maxInterval))), minInterval), maxInterval))
	if err != nil {
		return ofEngine(request.Pod, err)
	}
	return forward(ctx, held, request.Pod, counters.Recv, func(answer *enginev1.WatchStatsResponse) error {
		response := &livev1.WatchStatsResponse{Engine: answer, Ports: ports, Omitted: reduce(answer)}
		ports = nil
		return to.Send(response)
	})
}

// mayStart returns why the counters or records of a run cannot be read; err is that of reading the run.
func mayStart(run *spatev1.TrafficRun, what string, err error) error {
	switch {
	case err != nil:
		return unread(err)
	case !Readable(run):
		return status.Errorf(codes.FailedPrecondition, "run %s is %s: %s can only be read while it is active", run.Name, run.Status.Phase, what)
	}
	return nil
}

// unread is the error of a run that could not be read.
func unread(err error) error {
	if apierrors.IsNotFound(err) {
		return status.Errorf(codes.NotFound, "spec.runRef: %v", err)
	}
	return status.Errorf(codes.Unavailable, "spec.runRef: %v", err)
}

// mayGoOn returns why the counters of a run in a pod can no longer be read. Reading renews the run's lease in the engine, so it must not outlast the
// operator's own interest in the run: an engine that the operator has given up ends the run by its lease.
func mayGoOn(run *spatev1.TrafficRun, pod string, err error) error {
	switch {
	case err != nil:
		return unread(err)
	case run.Status.Phase == spatev1.RunComplete:
		return status.Errorf(codes.FailedPrecondition, "run %s has ended", run.Name)
	case slices.ContainsFunc(run.Status.LostPods, func(lost spatev1.LostPod) bool { return lost.Name == pod }):
		return status.Errorf(codes.FailedPrecondition, "pod %s is lost to run %s", pod, run.Name)
	}
	return nil
}

// reduce removes from an answer what no screen shows, and returns how many streams and sides of templates are beyond the bound.
func reduce(answer *enginev1.WatchStatsResponse) (omitted uint32) {
	omitted = uint32(max(len(answer.Streams)-maxRows, 0) + max(len(answer.Templates)-maxRows, 0))
	answer.Streams, answer.Templates = answer.Streams[:min(len(answer.Streams), maxRows)], answer.Templates[:min(len(answer.Templates), maxRows)]
	for _, stream := range answer.Streams {
		for _, c := range []*enginev1.StreamCounters{stream.GetWarmup(), stream.GetMeasured()} {
			if c != nil {
				c.Outage, c.ByTag = nil, nil
				reduceTimes(c.Latency)
			}
		}
	}
	for _, side := range answer.Templates {
		side.Outage, side.Warmup, side.ProgramCounters = nil, nil, nil
		reduceTimes(side.ConnectTime)
		reduceTimes(side.RoundTrip)
	}
	for _, port := range answer.Ports {
		port.Queues = nil
	}
	answer.Records = nil
	return omitted
}

func reduceTimes(times *enginev1.LatencyStats) {
	if times != nil {
		times.Buckets, times.Distribution = nil, nil
	}
}
