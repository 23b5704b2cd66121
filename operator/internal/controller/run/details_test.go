// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs/storage"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// largest is a result of as many entries as a profile may have, each with long names and large numbers.
func largest(counters int) spatev1.RunResult {
	const number = 1<<62 + 1
	name := func(kind string, n int) string { return fmt.Sprintf("%s-%0*d", kind, 62-len(kind), n) }
	latency := func() *spatev1.Latency {
		l := &spatev1.Latency{OneWayUnknown: true}
		for i, v := 0, reflect.ValueOf(l).Elem(); i < v.NumField(); i++ {
			if v.Field(i).CanInt() {
				v.Field(i).SetInt(number)
			}
		}
		return l
	}
	own := map[string]int64{}
	for i := range counters {
		own[name("counter", i)] = number
	}
	var flows spatev1.FlowCounters
	for i, v := 0, reflect.ValueOf(&flows).Elem(); i < v.NumField(); i++ {
		v.Field(i).SetInt(number)
	}
	side := func() *spatev1.TemplateSide {
		return &spatev1.TemplateSide{FlowCounters: flows, Counters: own, ConnectTime: latency(), RoundTrip: latency()}
	}
	moments := &spatev1.Moments{Count: number, Mean: number, Deviation: number, Min: number, Max: number}
	group := func() *spatev1.GroupSide {
		return &spatev1.GroupSide{FlowCounters: flows, Counters: own, ConnectTime: moments, RoundTrip: moments}
	}
	packets := spatev1.StreamCounters{Tx: number, TxBytes: number, Rx: number, RxBytes: number, Lost: number, LossRatio: "0.123456789"}
	result := spatev1.RunResult{
		StreamCounters: packets, Flows: &flows, Streams: map[string]spatev1.StreamResult{}, Templates: map[string]spatev1.TemplateResult{},
		Groups: map[string]spatev1.GroupResult{}, Receivers: map[string]spatev1.ReceiverResult{},
	}
	for i := range 512 {
		result.Streams[name("stream", i)] = spatev1.StreamResult{StreamCounters: packets, Latency: latency()}
		result.Templates[name("template", i)] = spatev1.TemplateResult{Client: side(), Server: side()}
		result.Groups[name("group", i)] = spatev1.GroupResult{Client: group(), Server: group()}
	}
	for i := range 16 {
		r := spatev1.ReceiverResult{Packets: number, Bytes: number, InterArrival: moments, Jitter: moments, Latency: moments}
		for worker := range 1024 {
			r.Workers = append(r.Workers, spatev1.WorkerReceived{Pod: name("pod", worker/64), Worker: int32(worker % 64), Packets: number, Bytes: number})
		}
		result.Receivers[name("receiver", i)] = r
	}
	return result
}

func TestAStatusHasTheFirstEntriesOfALargeResult(t *testing.T) {
	for _, counters := range []int{0, 256} {
		whole := largest(counters)
		part, truncated := bounded(whole, resultRoom)
		t.Logf("%d counters a side: the whole has %d KiB, the status %d KiB: %s", counters, size(whole)>>10, size(part)>>10, (&spatev1.ResultDetails{Truncated: truncated}).Has())
		if size(part) > resultRoom+16<<10 {
			t.Errorf("the status has %d bytes of it", size(part))
		}
		if !reflect.DeepEqual(part.StreamCounters, whole.StreamCounters) || part.Flows != whole.Flows || len(part.Receivers) != 16 {
			t.Error("sums and receivers are those of the whole")
		}
		first := slices.Sorted(maps.Keys(whole.Streams))
		if n := len(part.Streams); n < 50 || !slices.Equal(slices.Sorted(maps.Keys(part.Streams)), first[:n]) || truncated[0] != (spatev1.TruncatedList{List: "streams", Kept: int32(n), Total: 512}) {
			t.Errorf("%d streams, %+v", n, truncated[0])
		}
		if len(truncated) != 4 || !all(whole.Receivers, 1024) {
			t.Errorf("%+v, or the whole has fewer workers", truncated)
		}
	}
	few := largest(0).Streams
	for _, name := range slices.Sorted(maps.Keys(few))[100:] {
		delete(few, name)
	}
	small := spatev1.RunResult{Streams: few}
	if part, truncated := bounded(small, resultRoom); truncated != nil || len(part.Streams) != 100 {
		t.Errorf("%d streams of 100, %v", len(part.Streams), truncated)
	}
}

// Tags are those of their stream: a status has all of them, or not the stream.
func TestAStatusOmitsAStreamWithMoreTagsThanItHasRoomFor(t *testing.T) {
	tags := map[string]spatev1.TagCounters{}
	for vlan := range 4094 {
		tags[strconv.Itoa(vlan+1)] = spatev1.TagCounters{Packets: 1 << 40, Bytes: 1 << 50}
	}
	whole := spatev1.RunResult{Streams: map[string]spatev1.StreamResult{"first": {}, "second": {ByTag: tags}, "third": {}}}
	part, truncated := bounded(whole, resultRoom)
	if want := []spatev1.TruncatedList{{List: "streams", Kept: 1, Total: 3}}; !slices.Equal(truncated, want) || size(whole) <= resultRoom {
		t.Errorf("%+v of a result of %d bytes, want %+v", truncated, size(whole), want)
	}
	if _, first := part.Streams["first"]; !first || len(part.Streams) != 1 || len(whole.Streams["second"].ByTag) != len(tags) {
		t.Errorf("%d streams, and the whole result has %d tags of %d", len(part.Streams), len(whole.Streams["second"].ByTag), len(tags))
	}
}

// all reports whether each receiver has that many workers.
func all(receivers map[string]spatev1.ReceiverResult, workers int) bool {
	for _, r := range receivers {
		if len(r.Workers) != workers {
			return false
		}
	}
	return true
}

func TestALargeSpecLeavesLessRoom(t *testing.T) {
	run := &spatev1.TrafficRun{}
	if room := roomOf(run); room != resultRoom {
		t.Errorf("%d bytes", room)
	}
	run.Status.Resolved = &spatev1.ResolvedRun{}
	run.Status.Resolved.Snapshot.Secrets = make([]spatev1.SecretSnapshot, 4096)
	for i := range run.Status.Resolved.Snapshot.Secrets {
		run.Status.Resolved.Snapshot.Secrets[i].Key = strings.Repeat("k", 140)
	}
	if room := roomOf(run); room >= resultRoom || room < 0 {
		t.Errorf("%d bytes beside %d of what was resolved", room, size(run.Status.Resolved))
	}
	run.Status.Resolved.Snapshot.Secrets[0].Key = strings.Repeat("k", 1<<20)
	part, truncated := bounded(largest(0), roomOf(run))
	if len(part.Streams) != 0 || len(truncated) != 4 {
		t.Errorf("%d streams, %v", len(part.Streams), truncated)
	}
}

func clientWith(t *testing.T, create func(client.Object) error, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, spatev1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := create(object); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
	}).Build()
}

func TestTheWholeOfALargeResultIsBesideTheRun(t *testing.T) {
	run := &spatev1.TrafficRun{}
	run.Namespace, run.Name, run.UID = "n", "web-1a2b3-1", "u"
	c := clientWith(t, func(client.Object) error { return nil }, run)
	s, whole := &scope{r: &Reconciler{Client: c}, run: run}, largest(256)
	for range 2 { // an attempt after which the status could not be written
		lost, err := s.settle(t.Context(), whole)
		if lost != "" || err != nil {
			t.Fatal(lost, err)
		}
	}
	details := run.Status.Result.Details
	t.Logf("%d KiB in %d chunks", details.Bytes>>10, len(details.Chunks))
	if len(details.Chunks) == 0 || string(details.Chunks[0].Name) != "web-1a2b3-1-result-0" || len(details.Truncated) != 4 {
		t.Errorf("%+v", details)
	}
	back, err := storage.LoadResult(t.Context(), c, run)
	if err != nil || !reflect.DeepEqual(*back, whole) {
		t.Errorf("another result came back: %v", err)
	}
	chunk := &corev1.ConfigMap{}
	chunk.Namespace, chunk.Name = "n", "web-1a2b3-1-result-0"
	must(t, c.Delete(t.Context(), chunk))
	if _, err := storage.LoadResult(t.Context(), c, run); err == nil || !strings.Contains(err.Error(), "ConfigMap web-1a2b3-1-result-0 with the run's result is gone") {
		t.Errorf("%v", err)
	}
}

func TestAResultThatCannotBeKeptEndsTheRunAndSaysWhatIsLost(t *testing.T) {
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", fmt.Errorf("exceeded quota"))
	busy := apierrors.NewServiceUnavailable("busy")
	foreign := &corev1.ConfigMap{}
	foreign.Namespace, foreign.Name = "n", "r-result-0"
	for name, c := range map[string]struct {
		refusal error
		there   []client.Object
		lost    string
		again   bool
	}{
		"a quota":             {refusal: quota, lost: "exceeded quota"},
		"somebody's own name": {there: []client.Object{foreign}, lost: `ConfigMap "r-result-0" exists and is not owned by the run`},
		"a busy API server":   {refusal: busy, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			run := &spatev1.TrafficRun{}
			run.Namespace, run.Name, run.UID = "n", "r", "u"
			s := &scope{r: &Reconciler{Client: clientWith(t, func(client.Object) error { return c.refusal }, c.there...)}, run: run}
			lost, err := s.settle(t.Context(), largest(0))
			if c.again {
				if err == nil {
					t.Error("it is not tried again")
				}
				return
			}
			must(t, err)
			for _, text := range []string{"of 512 templates", c.lost} {
				if !strings.Contains(lost, text) {
					t.Errorf("no %q in %q", text, lost)
				}
			}
			if d := run.Status.Result.Details; !strings.Contains(d.Problem, c.lost) || len(d.Truncated) != 4 || len(d.Chunks) != 0 {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestAStatusListsNoMoreStreamsThanItsKindAllows(t *testing.T) {
	whole := spatev1.RunResult{Streams: map[string]spatev1.StreamResult{}}
	for i := range 520 { // small enough for the room
		whole.Streams[fmt.Sprintf("s%05d", i)] = spatev1.StreamResult{}
	}
	if size(whole) > resultRoom {
		t.Fatalf("%d bytes", size(whole))
	}
	part, truncated := bounded(whole, resultRoom)
	if len(part.Streams) > mostListed || len(part.Streams) == 0 || len(truncated) != 1 || int(truncated[0].Kept) != len(part.Streams) || truncated[0].Total != 520 {
		t.Errorf("%d streams, %+v", len(part.Streams), truncated)
	}
	delete(whole.Streams, "s00519")
	for i := range 7 {
		delete(whole.Streams, fmt.Sprintf("s%05d", i))
	}
	if part, truncated := bounded(whole, resultRoom); len(part.Streams) != mostListed || truncated != nil {
		t.Errorf("%d streams, %+v", len(part.Streams), truncated)
	}
}
