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
)

// awaiting is a run on the port east of a generator, which has one session, and what its engine reports of it.
func awaiting(sessions ...*enginev1.RoutingSession) (*scope, []engineState) {
	s := &scope{r: &Reconciler{}, run: admitted("g-0"), pods: []*corev1.Pod{nil}} // no engine is called
	s.run.Status.Phase = spatev1.RunPreparing
	s.generator = &spatev1.TrafficGenerator{}
	one := &spatev1.PortRouting{BGP: []spatev1.BGPSession{{Name: "dut"}}}
	s.generator.Spec.Ports = []spatev1.GeneratorPort{{Name: "east", Routing: one}, {Name: "west", Routing: one}}
	return s, []engineState{{
		ports:    []*enginev1.PortStats{{Port: "east"}},
		sessions: map[string][]*enginev1.RoutingSession{"east": sessions}, routing: &enginev1.RoutingInfo{},
	}}
}

func TestARunStartsWhenTheSessionsOfItsPortsAreUp(t *testing.T) {
	down := &enginev1.RoutingSession{Name: "dut", State: "Connect", ForS: 12, LastError: "Socket: Connection refused"}
	s, holds := awaiting(down)
	ready, again := s.setUp(context.Background(), holds)
	if ready || again != settingUpPause || s.run.Status.Phase != spatev1.RunSettingUp || s.run.Status.SetupTime == nil {
		t.Errorf("ready %v, again %s, %+v", ready, again, s.run.Status)
	}
	if want := (waiting{spatev1.ReasonRoutingNotReady, "pod g-0: session east/dut: Connect: Socket: Connection refused"}); s.waiting != want {
		t.Errorf("got %+v", s.waiting)
	}
	s.waiting = waiting{}
	down.Up = true
	if ready, _ := s.setUp(context.Background(), holds); !ready || s.waiting.reason != "" {
		t.Errorf("the session is up, and the run waits: %+v", s.waiting)
	}
}

func TestWhatARunWaitsForIsWrittenOnlyWhenASessionChanges(t *testing.T) {
	session := &enginev1.RoutingSession{Name: "dut", State: "Connect", ForS: 12}
	s, holds := awaiting(session)
	since := metav1.NewTime(time.Date(2026, 11, 29, 1, 2, 3, 0, time.UTC))
	known := []spatev1.RoutingSessionStatus{{Name: "dut", State: "Connect", Since: &since}}
	s.generator.Status.Pods = []spatev1.GeneratorPodStatus{{Name: "g-0", Ports: []spatev1.GeneratorPortStatus{{Name: "west"}, {Name: "east", Sessions: known}}}}
	for range 2 {
		if s.setUp(context.Background(), holds); s.waiting.message != "pod g-0: session east/dut: Connect since 2026-11-29T01:02:03Z" {
			t.Errorf("got %+v", s.waiting)
		}
		session.ForS++
	}
	session.State = "Active"
	if s.setUp(context.Background(), holds); s.waiting.message != "pod g-0: session east/dut: Active" {
		t.Errorf("the instant is that of another state: %+v", s.waiting)
	}
}

func TestARunThatNeedNotWaitIsNotInSettingUp(t *testing.T) {
	s, holds := awaiting(&enginev1.RoutingSession{Name: "dut", Up: true})
	if ready, _ := s.setUp(context.Background(), holds); !ready || s.run.Status.Phase != spatev1.RunPreparing || s.run.Status.SetupTime != nil {
		t.Errorf("got %+v", s.run.Status)
	}
	holds[0].ports = []*enginev1.PortStats{{Port: "north"}}
	holds[0].sessions = nil
	if ready, _ := s.setUp(context.Background(), holds); !ready {
		t.Error("it waits for sessions of ports that it does not use")
	}
}

func TestSessionsThatAnEngineDoesNotHaveAreAwaited(t *testing.T) {
	s, holds := awaiting()
	if ready, _ := s.setUp(context.Background(), holds); ready || !strings.Contains(s.waiting.message, "port east does not have the sessions of its specification; the condition RoutingReady of the generator says why") {
		t.Errorf("got %+v", s.waiting)
	}
	holds[0].routing.Problem = "BIRD is not reached: connection refused"
	if ready, _ := s.setUp(context.Background(), holds); ready || s.waiting.message != "pod g-0: port east: BIRD is not reached: connection refused" {
		t.Errorf("got %+v", s.waiting)
	}
}

func TestARunWhoseSessionsDoNotComeUpIsInvalid(t *testing.T) {
	s, holds := awaiting(&enginev1.RoutingSession{Name: "dut", State: "Active", ForS: 60})
	long := metav1.NewTime(time.Now().Add(-time.Minute))
	s.run.Status.SetupTime, s.run.Status.Phase = &long, spatev1.RunSettingUp
	s.run.Status.Resolved.Timing.Setup = "2m"
	if ready, again := s.setUp(context.Background(), holds); ready || again == 0 || s.run.Status.Verdict != nil {
		t.Fatalf("it does not wait for 2m: %+v", s.run.Status.Verdict)
	}
	s.run.Status.Resolved.Timing.Setup = "50s"
	ready, again := s.setUp(context.Background(), holds)
	if verdict := s.run.Status.Verdict; ready || again != 0 || verdict == nil || verdict.Outcome != spatev1.VerdictInvalid || verdict.Reasons[0].Reason != spatev1.ReasonSetupTimedOut {
		t.Fatalf("got %+v", s.run.Status)
	}
	if want := "not set up within 50s: pod g-0: session east/dut: Active; fix this"; !strings.HasPrefix(s.run.Status.Verdict.Reasons[0].Message, want) {
		t.Errorf("got %s", s.run.Status.Verdict.Reasons[0].Message)
	}
}

func TestPreparingMayTakeItsTimeAfterSettingUp(t *testing.T) {
	s, _ := awaiting()
	if _, known := s.prepareDeadline(); known {
		t.Error("nothing was prepared")
	}
	began := metav1.NewTime(time.Now())
	s.run.Status.PrepareTime = &began
	if at, _ := s.prepareDeadline(); !at.Equal(began.Add(prepareLimit)) {
		t.Errorf("got %s", at)
	}
	s.run.Status.SetupTime, s.run.Status.Resolved.Timing.Setup = &began, "10m"
	if at, _ := s.prepareDeadline(); !at.Equal(began.Add(10*time.Minute + prepareLimit)) {
		t.Errorf("got %s", at)
	}
}
