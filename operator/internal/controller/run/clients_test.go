// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
	"spate.dev/operator/internal/verdict"
)

func counters(values ...any) (all []*enginev1.NamedCounter) {
	for i := 0; i < len(values); i += 2 {
		all = append(all, &enginev1.NamedCounter{Name: values[i].(string), Value: uint64(values[i+1].(int))})
	}
	return all
}

// binding is a run with clients on two engines, and what these report of them.
func binding() (*scope, []engineState) {
	s := &scope{r: &Reconciler{}, run: admitted("g-0", "g-1"), pods: []*corev1.Pod{nil, nil}} // no engine is called
	s.run.Status.Phase = spatev1.RunPreparing
	s.facts = &storage.Facts{Clients: []storage.ClientsFacts{{Name: "subs", LeastPPM: 990_000, Timeout: 2 * time.Minute}}}
	first := &enginev1.ClientGroupStats{Name: "subs", Wanted: 500, Ready: true, States: counters("Discovering", 0, "Bound", 490, "Renewing", 10)}
	second := &enginev1.ClientGroupStats{Name: "subs", Wanted: 500, States: counters("Discovering", 78, "Bound", 412, "Failed", 10), Causes: counters("NoOffer", 10)}
	return s, []engineState{{clients: []*enginev1.ClientGroupStats{first}}, {clients: []*enginev1.ClientGroupStats{second}}}
}

func TestARunStartsWhenItsClientsAreBound(t *testing.T) {
	s, holds := binding()
	ready, again := s.setUp(context.Background(), holds)
	if ready || again != clientsPause || s.run.Status.Phase != spatev1.RunSettingUp || s.run.Status.SetupTime == nil {
		t.Errorf("ready %v, again %s, %+v", ready, again, s.run.Status)
	}
	want := waiting{spatev1.ReasonClientsNotReady, "clients subs: 912 of 1000 are bound, at least 990 must be; Discovering 78; Failed 10: NoOffer 10"}
	if s.waiting != want {
		t.Errorf("got  %+v\nwant %+v", s.waiting, want)
	}
	s.waiting, holds[1].clients[0].Ready = waiting{}, true
	if ready, _ := s.setUp(context.Background(), holds); !ready || s.waiting.reason != "" {
		t.Errorf("the clients are bound, and the run waits: %+v", s.waiting)
	}
}

func TestClientsThatAnEngineDoesNotReportAreAwaited(t *testing.T) {
	s, holds := binding()
	holds[1].clients = nil
	if ready, _ := s.setUp(context.Background(), holds); ready || s.waiting.reason != spatev1.ReasonClientsNotReady {
		t.Errorf("got %+v", s.waiting)
	}
}

func TestARunWaitsForItsClientsAsLongAsTheirEntrySays(t *testing.T) {
	s, holds := binding()
	since := metav1.NewTime(time.Now().Add(-90 * time.Second)) // longer than setupTimeout
	s.run.Status.SetupTime = &since
	if ready, again := s.setUp(context.Background(), holds); ready || again == 0 || s.run.Status.Verdict != nil {
		t.Errorf("ready %v, again %s, %+v", ready, again, s.run.Status.Verdict)
	}
	if deadline, known := s.prepareDeadline(); !known || deadline != since.Add(2*time.Minute+prepareLimit) {
		t.Errorf("got %s", deadline)
	}
	since = metav1.NewTime(time.Now().Add(-121 * time.Second))
	ready, again := s.setUp(context.Background(), holds)
	v := s.run.Status.Verdict
	if ready || again != 0 || v == nil || v.Outcome != spatev1.VerdictInvalid || v.Reasons[0].Reason != spatev1.ReasonSetupTimedOut ||
		!strings.HasPrefix(v.Reasons[0].Message, "not set up within 2m0s: clients subs: 912 of 1000 are bound") {
		t.Errorf("ready %v, again %s, %+v", ready, again, v)
	}
}

func TestAnEngineThatEmulatesNoClientsRefusesTheRun(t *testing.T) {
	s, _ := binding()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "g-0"}}
	err := s.emulates(pod, &enginev1.GetInfoResponse{Version: "0.1.0", Features: []string{"stateful.records"}})
	if want := "pod g-0: engine 0.1.0 emulates no clients (spec.clients); use an engine image of the operator's release (spec.image of the generator)"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if err := s.emulates(pod, &enginev1.GetInfoResponse{Features: []string{"clients"}}); err != nil {
		t.Error(err)
	}
}

func TestClientsOfAllEnginesAreOneResult(t *testing.T) {
	_, holds := binding()
	first, second := holds[0].clients[0], holds[1].clients[0]
	first.Counters, second.Counters = counters("setups", 500, "dhcp4_discover", 510, "dhcp4_ack", 500), counters("setups", 412, "dhcp4_discover", 600, "dhcp4_ack", 412, "leases_lost", 3)
	first.SetupTime, second.SetupTime = &enginev1.LatencyStats{Count: 500, MinNs: 10, MaxNs: 50, SumNs: 5000}, &enginev1.LatencyStats{Count: 412, MinNs: 5, MaxNs: 20, SumNs: 4120}
	first.SetupRate, second.SetupRate = &enginev1.SetupRate{Min: 90, Mean: 100.5, Max: 110}, &enginev1.SetupRate{Min: 80, Mean: 90, Max: 95}
	stats := []*enginev1.WatchStatsResponse{{Clients: []*enginev1.ClientGroupStats{first}}, {Clients: []*enginev1.ClientGroupStats{second}}}
	got := clientResults(stats)["subs"]
	sum := int64(0)
	for _, n := range got.States {
		sum += n
	}
	if got.Wanted != 1000 || sum != got.Wanted || got.Bound != 912 || got.Failed["NoOffer"] != 10 || got.Setups != 912 || got.LeasesLost != 3 {
		t.Errorf("got %+v", got)
	}
	if *got.DHCPv4 != (spatev1.DHCPv4Messages{Discover: 1110, Ack: 912}) || got.DHCPv6 != nil {
		t.Errorf("got %+v, %+v", got.DHCPv4, got.DHCPv6)
	}
	if l := got.SetupTime; l == nil || l.Count != 912 || l.Min != 5 || l.Max != 50 || l.Mean != 10 {
		t.Errorf("got %+v", got.SetupTime)
	}
	if r := got.SetupRate; r == nil || r.Mean != "190.5" || r.Min != nil || r.Max != nil {
		t.Errorf("got %+v", got.SetupRate)
	}
	if alone := clientResults(stats[:1])["subs"].SetupRate; alone == nil || *alone.Min != 90 || *alone.Max != 110 {
		t.Errorf("got %+v", alone)
	}
}

func TestThresholdsReadClients(t *testing.T) {
	_, holds := binding()
	holds[0].clients[0].SetupTime = &enginev1.LatencyStats{Count: 500, MinNs: 10, MaxNs: 50, SumNs: 5000}
	result := forThresholds(spatev1.RunResult{Clients: clientResults([]*enginev1.WatchStatsResponse{{Clients: holds[0].clients}, {Clients: holds[1].clients}})})
	for expression, want := range map[string]bool{
		`result.clients["subs"].leasesLost == 0`:                        true,
		`result.clients["subs"].bound == result.clients["subs"].wanted`: false,
		`result.clients["subs"].failed["NoOffer"] == 10`:                true,
		`result.clients["subs"].failed["Nak"] == 0`:                     true,
		`result.clients["subs"].setupTime.max < duration("1s")`:         true,
		`result.clients.subs.dhcpv4.nak == 0`:                           true,
		`result.clients.all(name, result.clients[name].malformed == 0)`: true,
	} {
		threshold, err := verdict.Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if err := threshold.Check(verdict.Subjects{Clients: []string{"subs"}}); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
		if got := threshold.Evaluate(result); got.Failed || got.Passed != want {
			t.Errorf("%+v", got)
		}
	}
	threshold, err := verdict.Compile(`result.clients["others"].bound > 0`)
	if err != nil {
		t.Fatal(err)
	}
	if err := threshold.Check(verdict.Subjects{Clients: []string{"subs"}}); err == nil || !strings.Contains(err.Error(), "clients are subs") {
		t.Errorf("got %v", err)
	}
}
