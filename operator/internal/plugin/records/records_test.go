// SPDX-License-Identifier: Apache-2.0

package records

import (
	"bytes"
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plugin/plugintest"
)

// onPods returns a run on engine pods in a namespace other than its own.
func onPods(names ...string) *spatev1.TrafficRun {
	run := plugintest.RunNamed("web-1", "web", time.Unix(0, 0))
	run.Status.Resolved = &spatev1.ResolvedRun{RunID: "web-1", Generator: spatev1.GeneratorSnapshot{Namespace: "lab"}}
	for _, name := range names {
		run.Status.Resolved.Generator.Pods = append(run.Status.Resolved.Generator.Pods, spatev1.PodSnapshot{Name: name})
	}
	return run
}

func TestARecordIsALineWithAllItsColumns(t *testing.T) {
	record := &enginev1.ConnectionRecord{
		Template: "web<1>", Side: enginev1.Side_SIDE_CLIENT, Flow: 3, EndReason: "closed", LocalAddress: []byte{16, 0, 0, 1}, LocalPort: 1025,
		RemoteAddress: netip.MustParseAddr("2001:2::1").AsSlice(), RemotePort: 80, StartNs: 4, EstablishedNs: 5, EndNs: 6,
		SentBytes: 7, ReceivedBytes: 8, SentPackets: 9, ReceivedPackets: 10, RetransmittedPackets: 11, RoundTripNs: 12,
	}
	var out, said bytes.Buffer
	printer := recordsPrinter{pod: "lab-0", lock: &sync.Mutex{}, to: &out, progress: &said}
	for missed := range uint64(2) {
		if err := printer.print(&enginev1.WatchRecordsResponse{RunId: "web-1-0af3", Run: "web-1", Records: []*enginev1.ConnectionRecord{record, {
			Template: "dns", Side: enginev1.Side_SIDE_SERVER, Udp: true, LocalAddress: []byte{1, 2, 3, 4}, RemoteAddress: []byte{1, 2, 3, 5},
		}}, Missed: missed * 7}); err != nil {
			t.Fatal(err)
		}
	}
	const want = `{"pod":"lab-0","run":"web-1","template":"web<1>","side":"client","protocol":"tcp","end_reason":"closed","flow":3,"local_address":"16.0.0.1","local_port":1025,"remote_address":"2001:2::1","remote_port":80,"start":4,"established":5,"first_byte":null,"end":6,"sent_bytes":7,"received_bytes":8,"sent_packets":9,"received_packets":10,"retransmitted_packets":11,"round_trip_ns":12}
{"pod":"lab-0","run":"web-1","template":"dns","side":"server","protocol":"udp","end_reason":"","flow":0,"local_address":"1.2.3.4","local_port":0,"remote_address":"1.2.3.5","remote_port":0,"start":0,"established":null,"first_byte":null,"end":0,"sent_bytes":0,"received_bytes":0,"sent_packets":0,"received_packets":0,"retransmitted_packets":0,"round_trip_ns":null}
`
	if out.String() != want+want || printer.records != 4 || printer.missed.All != 7 || said.String() != "lab-0: records come faster than they are read: some are missed\n" {
		t.Errorf("got %s%+v %q", out.String(), printer, said.String())
	}
	record.RemoteAddress = nil
	if err := printer.print(&enginev1.WatchRecordsResponse{Records: []*enginev1.ConnectionRecord{record}}); err == nil || !strings.Contains(err.Error(), "pod lab-0: the engine gives addresses of 4 and 0 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestOnlyPodsOfTheRunAreRead(t *testing.T) {
	if _, err := podsOf(onPods("lab-0", "lab-1"), "lab-2"); err == nil || !strings.Contains(err.Error(), "must be one of lab-0, lab-1") {
		t.Errorf("got %v", err)
	}
	if pods, err := podsOf(onPods("lab-0", "lab-1"), "lab-1"); err != nil || !slices.Equal(pods, []string{"lab-1"}) {
		t.Errorf("got %v, %v", pods, err)
	}
}

func TestRecordsAreAwaitedUntilTheRunBegins(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	stored := onPods("lab-0")
	stored.Status.Phase = spatev1.RunPreparing
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).Build()
	run := stored.DeepCopy()
	said := &signalling{first: make(chan struct{})}
	result := make(chan error)
	go func() { result <- awaitStart(t.Context(), store, run, said) }()
	<-said.first
	stored.Status.Phase = spatev1.RunWarmingUp
	if err := store.Status().Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil || !strings.Contains(said.text, "run web-1 has not started") {
		t.Errorf("%v, %q", err, said.text)
	}

	run.Status.Phase = spatev1.RunComplete
	if err := awaitStart(t.Context(), store, run, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "give its profile web spec.records: {}") {
		t.Errorf("got %v", err)
	}
	run.Status.Result = &spatev1.RunResult{Records: &spatev1.RecordsResult{Pods: []spatev1.PodRecords{{Pod: "lab-0"}, {Pod: "lab-1"}}}}
	if err := awaitStart(t.Context(), store, run, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "give its profile web spec.records.volume") {
		t.Errorf("got %v", err)
	}
	run.Status.Result = &spatev1.RunResult{Records: &spatev1.RecordsResult{Pods: []spatev1.PodRecords{{File: "results/web-1-0.parquet"}, {File: "none", Problem: "full"}}}}
	if err := awaitStart(t.Context(), store, run, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "volume: results/web-1-0.parquet; see kubectl spate result web-1") {
		t.Errorf("got %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	run.Status.Phase = spatev1.RunPending
	if err := awaitStart(stopped, store, run, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "has not started") {
		t.Errorf("got %v", err)
	}
}

func TestTheFirstRunOfAProfileIsAwaited(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	profile := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "web"}}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(profile).Build()
	if _, err := awaited(t.Context(), store, "tests", "none", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `no run of a TrafficProfile "none"`) {
		t.Errorf("got %v", err)
	}
	said := &signalling{first: make(chan struct{})}
	result := make(chan error)
	var run *spatev1.TrafficRun
	go func() {
		var err error
		run, err = awaited(t.Context(), store, "tests", "web", said)
		result <- err
	}()
	<-said.first
	if err := store.Create(t.Context(), onPods("lab-0")); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil || run.Name != "web-1" || strings.Count(said.text, "profile web has no run") != 1 {
		t.Errorf("%v, %v, %q", run, err, said.text)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := store.Delete(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if _, err := awaited(stopped, store, "tests", "web", &bytes.Buffer{}); err == nil {
		t.Error("who has enough waits on")
	}
}

// signalling reports when it is first written to.
type signalling struct {
	once  sync.Once
	first chan struct{}
	text  string
}

func (s *signalling) Write(p []byte) (int, error) {
	s.text += string(p)
	s.once.Do(func() { close(s.first) })
	return len(p), nil
}
