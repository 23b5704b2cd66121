// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

func TestCountersOfARunAreReadWhileTheOperatorFollowsIt(t *testing.T) {
	missing := apierrors.NewNotFound(schema.GroupResource{Group: "spate.dev", Resource: "trafficruns"}, "web")
	in := func(phase spatev1.RunPhase, change func(*spatev1.TrafficRun)) *spatev1.TrafficRun {
		run := &spatev1.TrafficRun{}
		run.Name, run.Status.Phase, run.Status.Resolved = "web", phase, &spatev1.ResolvedRun{}
		if change != nil {
			change(run)
		}
		return run
	}
	for name, c := range map[string]struct {
		run         *spatev1.TrafficRun
		err         error
		start, goOn codes.Code
	}{
		"running":       {in(spatev1.RunRunning, nil), nil, codes.OK, codes.OK},
		"draining":      {in(spatev1.RunDraining, nil), nil, codes.OK, codes.OK},
		"preparing":     {in(spatev1.RunPreparing, nil), nil, codes.FailedPrecondition, codes.OK}, // the cache may be behind
		"pending":       {in(spatev1.RunPending, func(r *spatev1.TrafficRun) { r.Status.Resolved = nil }), nil, codes.FailedPrecondition, codes.OK},
		"complete":      {in(spatev1.RunComplete, nil), nil, codes.FailedPrecondition, codes.FailedPrecondition},
		"the pod lost":  {in(spatev1.RunRunning, func(r *spatev1.TrafficRun) { r.Status.LostPods = []spatev1.LostPod{{Name: "lab-0"}} }), nil, codes.OK, codes.FailedPrecondition},
		"another lost":  {in(spatev1.RunRunning, func(r *spatev1.TrafficRun) { r.Status.LostPods = []spatev1.LostPod{{Name: "lab-1"}} }), nil, codes.OK, codes.OK},
		"deleted":       {in("", nil), missing, codes.NotFound, codes.NotFound},
		"no API server": {in("", nil), apierrors.NewServiceUnavailable("away"), codes.Unavailable, codes.Unavailable},
	} {
		if start, goOn := status.Code(mayStart(c.run, "counters", c.err)), status.Code(mayGoOn(c.run, "lab-0", c.err)); start != c.start || goOn != c.goOn {
			t.Errorf("%s: starts with %s, goes on with %s", name, start, goOn)
		}
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	times := func() *enginev1.LatencyStats {
		l := &enginev1.LatencyStats{Count: 1, Quantiles: []*enginev1.Quantile{{PartsPerMillion: 500_000, Ns: 9_000}}, Distribution: &enginev1.Distribution{}}
		for range 1000 {
			l.Buckets = append(l.Buckets, &enginev1.Bucket{UpperNs: 1 << 40, Count: 1 << 40})
			l.Distribution.Cells, l.Distribution.Counts = append(l.Distribution.Cells, 1<<20), append(l.Distribution.Counts, 1<<40)
		}
		return l
	}
	answer := &enginev1.WatchStatsResponse{Ports: []*enginev1.PortStats{{Port: "east", Queues: make([]*enginev1.QueueStats, 64)}}, Receivers: []*enginev1.ReceiverStats{{}}}
	for range maxRows + 7 {
		answer.Streams = append(answer.Streams, &enginev1.StreamStats{Name: "a-name-of-some-length", Measured: &enginev1.StreamCounters{
			TxPackets: 1 << 40, RxPackets: 1 << 40, TxBytes: 1 << 50, RxBytes: 1 << 50, Missing: 1 << 40, Latency: times(), Outage: &enginev1.Outage{LongestNs: 1}, ByTag: &enginev1.TagStats{},
		}})
		answer.Templates = append(answer.Templates, &enginev1.TemplateStats{Template: "web", ConnectTime: times(), RoundTrip: times(), ProgramCounters: []*enginev1.ProgramCounter{{Name: "pages"}}})
	}
	if omitted := reduce(answer); omitted != 14 || len(answer.Streams) != maxRows || len(answer.Templates) != maxRows {
		t.Errorf("%d omitted, %d streams, %d templates", omitted, len(answer.Streams), len(answer.Templates))
	}
	if len(answer.Receivers) != 1 {
		t.Errorf("%d receivers", len(answer.Receivers))
	}
	first := answer.Streams[0].Measured
	if first.Outage != nil || first.ByTag != nil || first.Latency.Quantiles[0].Ns != 9_000 || first.Missing != 1<<40 {
		t.Errorf("%+v", first)
	}
	if size := proto.Size(answer); size > 512<<10 {
		t.Errorf("%d bytes", size)
	}
}
