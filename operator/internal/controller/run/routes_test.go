// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"reflect"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
)

// sending is what an engine reports of the routes of a run, which one session of port east advertises.
func sending(session *enginev1.RoutingSession) *enginev1.RunRoutes {
	session.Name = "dut"
	return &enginev1.RunRoutes{Sessions: []*enginev1.RoutesSession{{Port: "east", Session: session}}}
}

func TestARunStartsWhenItsRoutesAreSent(t *testing.T) {
	up := &enginev1.RoutingSession{Name: "dut", Up: true}
	for want, routes := range map[string]*enginev1.RunRoutes{
		"pod g-0: session east/dut: 402689 of 1000000 routes sent":                         sending(&enginev1.RoutingSession{Up: true, RoutesSent: 402689, RoutesConfigured: 1000000}),
		"pod g-0: session east/dut: 1000000 routes sent, 7000 bytes not acknowledged":      sending(&enginev1.RoutingSession{Up: true, RoutesSent: 1000000, RoutesConfigured: 1000000, UnacknowledgedBytes: 7000}),
		"pod g-0: all routes sent, and sessions not quiet for long enough":                 sending(&enginev1.RoutingSession{Up: true, RoutesSent: 10, RoutesConfigured: 10, AllSent: true}),
		"pod g-0: routes are not advertised: BIRD refuses its configuration: syntax error": {Problem: "BIRD refuses its configuration: syntax error"},
		"": {Ready: true},
	} {
		s, holds := awaiting(up)
		holds[0].info = &enginev1.RunInfo{Routes: routes}
		ready, again := s.setUp(context.Background(), holds)
		if ready != (want == "") || s.waiting.message != want {
			t.Errorf("ready %v, %+v, want %q", ready, s.waiting, want)
		}
		if !ready && (again != settingUpPause || s.run.Status.Phase != spatev1.RunSettingUp || s.waiting.reason != spatev1.ReasonRoutingNotReady) {
			t.Errorf("again %s, %+v, %+v", again, s.waiting, s.run.Status)
		}
	}
}

func TestSessionsOfPortsThatOnlyAdvertiseAreAwaited(t *testing.T) {
	down := &enginev1.RoutingSession{State: "Connect", ForS: 3}
	s, holds := awaiting(down)
	holds[0].ports, holds[0].info = nil, &enginev1.RunInfo{Routes: sending(down)}
	if ready, _ := s.setUp(context.Background(), holds); ready || s.waiting.message != "pod g-0: session east/dut: Connect" {
		t.Errorf("got %+v", s.waiting)
	}
}

func TestARunDoesNotStartWhenASessionFellMeanwhile(t *testing.T) {
	s, holds := awaiting(&enginev1.RoutingSession{Name: "dut", Up: true})
	holds[0].info = &enginev1.RunInfo{Routes: sending(&enginev1.RoutingSession{State: "Idle"})}
	if ready, _ := s.setUp(context.Background(), holds); ready || s.waiting.message != "routes are not sent" {
		t.Errorf("ready %v, %+v", ready, s.waiting)
	}
}

func TestWhatSessionsDidIsCountedFromTheStartAndKeptWhenTheRoutesAreWithdrawn(t *testing.T) {
	s := &scope{r: &Reconciler{}, run: admitted("g-0", "g-1"), found: &findings{}}
	holds := []engineState{
		{info: &enginev1.RunInfo{Routes: sending(&enginev1.RoutingSession{Flaps: 5, UpdatesSent: 500, UpdatesReceived: 9})}},
		{info: &enginev1.RunInfo{Routes: sending(&enginev1.RoutingSession{UpdatesSent: 499})}},
	}
	s.run.Status.SessionBaseline = s.sessionBaseline(holds)
	stats := func(routes ...*enginev1.RunRoutes) (all []*enginev1.WatchStatsResponse) {
		for _, r := range routes {
			all = append(all, &enginev1.WatchStatsResponse{Run: &enginev1.RunInfo{Routes: r}})
		}
		return all
	}
	first := sending(&enginev1.RoutingSession{Up: true, Flaps: 7, RoutesConfigured: 500, RoutesSent: 500, RoutesReceived: 3, UpdatesSent: 600, UpdatesReceived: 10})
	second := sending(&enginev1.RoutingSession{RoutesConfigured: 499, RoutesSent: 7, UpdatesSent: 499})
	want := map[string]spatev1.SessionResult{"east/dut": {Flaps: 2, Configured: 999, Sent: 507, Received: 3, UpdatesSent: 100, UpdatesReceived: 1}}
	if got := s.routing(stats(first, second)); got == nil || !reflect.DeepEqual(got.Sessions, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	// One pod has ended earlier, then the other.
	for _, ended := range [][]*enginev1.WatchStatsResponse{stats(nil, second), stats(nil, nil)} {
		if got := s.routing(ended); got == nil || !reflect.DeepEqual(got.Sessions, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	// Another operator has taken over.
	s.found = &findings{}
	s.run.Status.Result = &spatev1.RunResult{Routing: &spatev1.RoutingResult{Sessions: want}}
	if got := s.routing(stats(nil, nil)); !reflect.DeepEqual(got.Sessions, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// A pod that is lost has no part in it.
	second.Sessions[0].Session.Up = true
	if got := s.routing([]*enginev1.WatchStatsResponse{nil, stats(second)[0]}); !got.Sessions["east/dut"].Up || got.Sessions["east/dut"].Sent != 7 {
		t.Errorf("got %+v", got)
	}
}

func TestThresholdsReadWhatSessionsDid(t *testing.T) {
	result := resultOf(nil, &storage.Facts{}, admitted("g-0"))
	result.Routing = &spatev1.RoutingResult{Sessions: map[string]spatev1.SessionResult{"east/dut": {Up: true, Configured: 1000, Sent: 999}}}
	for expression, want := range map[string]bool{
		`result.routing.sessions["east/dut"].up && result.routing.sessions["east/dut"].flaps == 0`:                              true,
		`result.routing.sessions["east/dut"].sent == result.routing.sessions["east/dut"].configured`:                            false,
		`result.routing.sessions.all(name, result.routing.sessions[name].configured - result.routing.sessions[name].sent <= 1)`: true,
	} {
		got := thresholds([]spatev1.Threshold{{Name: "t", Expression: expression}}, result, compared{}, nil)
		if got[0].Met != want || got[0].reason != spatev1.ReasonThresholdMissed {
			t.Errorf("got %+v", got[0])
		}
	}
}
