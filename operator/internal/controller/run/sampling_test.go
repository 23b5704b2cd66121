// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/samples"
	"spate.dev/operator/internal/runs/storage"
)

// sampledFrom is a run that started at a time, as an operator that has just started finds it.
func sampledFrom(start time.Time, c client.Client) *scope {
	run, at := admitted("g-0"), metav1.NewMicroTime(start)
	run.Namespace, run.Name, run.UID = "n", "web-1", "u"
	run.Status.TrafficStartTime = &at
	return &scope{
		r: &Reconciler{Client: c, Memory: &storage.Memory{}, Events: events.NewFakeRecorder(9), supervisor: newSupervisor(nil)}, run: run, found: &findings{}, pods: []*corev1.Pod{{}},
	}
}

// read is a reading of a stream that has sent packets and received all, each with a delay of 10 ns.
func read(at time.Time, packets uint64) []*enginev1.WatchStatsResponse {
	return []*enginev1.WatchStatsResponse{{ReadAtNs: at.UnixNano(), Streams: []*enginev1.StreamStats{{
		Name: "a", Measured: &enginev1.StreamCounters{TxPackets: packets, RxPackets: packets, Latency: &enginev1.LatencyStats{Count: packets, SumNs: 10 * packets}},
	}}}}
}

func TestSamplesGoOnAfterARestartOfTheOperator(t *testing.T) {
	c := clientWith(t, func(client.Object) error { return nil })
	start, facts := time.Now().Add(-time.Hour), &storage.Facts{Flow: map[string]bool{"a": true}}
	before := sampledFrom(start, c)
	for i := range 10 {
		result := resultOf(read(start.Add(time.Duration(i)*time.Second), uint64(1000*i)), facts, before.run)
		before.sample(t.Context(), &result, read(start.Add(time.Duration(i)*time.Second), uint64(1000*i)), false)
	}
	before.saveSamplesBeside(t.Context())
	before.r.supervisor.all.Wait()

	after := sampledFrom(start, c)
	stats := read(start.Add(time.Minute), 60_000)
	result := resultOf(stats, facts, after.run)
	after.sample(t.Context(), &result, stats, false)
	stats = read(start.Add(time.Minute+time.Millisecond), 60_001) // the last, though it is not due
	result = resultOf(stats, facts, after.run)
	after.sample(t.Context(), &result, stats, true)
	after.saveLastSamples(t.Context())

	kept, err := storage.LoadSamples(t.Context(), c, after.run)
	must(t, err)
	if n := len(kept.Times); n != 12 || kept.Times[9] != 9e9 || kept.Times[11] != int64(time.Minute+time.Millisecond) {
		t.Fatalf("%d samples at %v", n, kept.Times)
	}
	if tx, delays := kept.Total[samples.Tx], kept.Streams["a"][samples.DelaySum]; tx[9] != 9000 || tx[10] != 60_000 || tx[11] != 60_001 || delays[11] != 600_010 {
		t.Errorf("%v, %v", tx, delays)
	}
	object := &corev1.ConfigMap{}
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "web-1-samples-0"}, object))
	if owner := metav1.GetControllerOf(object); owner == nil || owner.UID != "u" || owner.Kind != "TrafficRun" {
		t.Errorf("%+v", object.OwnerReferences)
	}
	another := after.run.DeepCopy()
	another.UID = "later"
	if kept, err := storage.LoadSamples(t.Context(), c, another); kept != nil || err != nil {
		t.Errorf("another run of the same name has %v, %v", kept, err)
	}
}

// The samples of one run are not written for each of them, and one that comes too early is none.
func TestSamplesAreStoredRarely(t *testing.T) {
	writes := 0
	s := sampledFrom(time.Now(), clientWith(t, func(client.Object) error { writes++; return nil }))
	for i := range 200 {
		stats := read(s.run.Status.TrafficStartTime.Add(time.Duration(i)*100*time.Millisecond), uint64(i))
		result := resultOf(stats, &storage.Facts{}, s.run)
		s.sample(t.Context(), &result, stats, false)
	}
	s.r.supervisor.all.Wait()
	if n := len(s.found.sampling.series.Times); writes != 0 || n < 19 || n > 23 {
		t.Errorf("%d writes of %d samples in 20 s", writes, n)
	}
	s.saveLastSamples(t.Context())
	if writes != 1 {
		t.Errorf("%d writes", writes)
	}
}

func TestSamplesThatCannotBeStoredAreReported(t *testing.T) {
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", fmt.Errorf("exceeded quota"))
	s := sampledFrom(time.Now(), clientWith(t, func(client.Object) error { return quota }))
	stats := read(time.Now(), 1)
	result := resultOf(stats, &storage.Facts{}, s.run)
	s.sample(t.Context(), &result, stats, true)
	s.saveLastSamples(t.Context())
	recorder := s.r.Events.(*events.FakeRecorder)
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events", len(recorder.Events))
	}
	if event := <-recorder.Events; !strings.Contains(event, spatev1.ReasonDetailsNotKept) || !strings.Contains(event, "samples are lost: ") || !strings.Contains(event, "exceeded quota") {
		t.Error(event)
	}
}
