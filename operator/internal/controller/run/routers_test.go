// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/podspec"
)

// routed is a run that started at an instant, on the port east of a generator with sessions, and how BIRD has ended in its pod.
func routed(started time.Time, bird corev1.ContainerStatus) (*scope, []*enginev1.WatchStatsResponse) {
	s, _ := awaiting()
	s.pods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "g-0"}}}
	bird.Name = podspec.RoutingContainer
	other := corev1.ContainerStatus{Name: "inform", State: corev1.ContainerState{Terminated: terminatedAt(started.Add(time.Hour))}}
	s.pods[0].Status.InitContainerStatuses = []corev1.ContainerStatus{other, bird}
	return s, []*enginev1.WatchStatsResponse{{
		Run: &enginev1.RunInfo{State: enginev1.RunState_RUN_STATE_RUNNING, StartedAtNs: started.UnixNano()}, Ports: []*enginev1.PortStats{{Port: "east"}},
	}}
}

// terminatedAt is as the kubelet reports it: in seconds.
func terminatedAt(at time.Time) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: 139, FinishedAt: metav1.NewTime(at.Truncate(time.Second))}
}

func TestARunWhoseRouterEndsIsInvalid(t *testing.T) {
	started := time.Now().Add(-time.Minute)
	again := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, c := range map[string]struct {
		bird corev1.ContainerStatus
		want string
	}{
		"it has not ended":               {corev1.ContainerStatus{State: again}, ""},
		"it ended long before the run":   {corev1.ContainerStatus{State: again, LastTerminationState: corev1.ContainerState{Terminated: terminatedAt(started.Add(-time.Hour))}}, ""},
		"its sessions were up again":     {corev1.ContainerStatus{State: again, LastTerminationState: corev1.ContainerState{Terminated: terminatedAt(started.Add(-comesBack))}}, ""},
		"it ended right before":          {corev1.ContainerStatus{State: again, LastTerminationState: corev1.ContainerState{Terminated: terminatedAt(started)}}, "pod g-0: BIRD has ended (exit code 139), and all sessions fell with it"},
		"it runs again":                  {corev1.ContainerStatus{State: again, LastTerminationState: corev1.ContainerState{Terminated: terminatedAt(started.Add(3 * time.Second))}}, "pod g-0: BIRD has ended (exit code 139), and all sessions fell with it"},
		"it has ended and does not run":  {corev1.ContainerStatus{State: corev1.ContainerState{Terminated: terminatedAt(started.Add(3 * time.Second))}}, "pod g-0: BIRD has ended (exit code 139), and all sessions fell with it"},
		"the kubelet waits to start it":  {corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: corev1.ContainerState{Terminated: terminatedAt(started.Add(time.Second))}}, "pod g-0: BIRD has ended (exit code 139), and all sessions fell with it"},
		"it had too little memory":       {corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", FinishedAt: metav1.Now()}}}, "pod g-0: BIRD has ended (OOMKilled: it needs more than spec.routing.memory of its generator), and all sessions fell with it"},
		"it has not started for so long": {corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}, ""},
	} {
		s, stats := routed(started, c.bird)
		s.checkRouters(stats)
		want := ending{}
		if c.want != "" {
			want = ending{spatev1.ReasonRoutingFailed, c.want}
		}
		if s.end != want {
			t.Errorf("%s: got %+v", name, s.end)
		}
	}
}

func TestTheEndOfARouterConcernsRunsWithItsSessionsOnly(t *testing.T) {
	started := time.Now().Add(-time.Minute)
	bird := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: terminatedAt(time.Now())}}
	for name, change := range map[string]func(*scope, *enginev1.WatchStatsResponse){
		"a port without sessions": func(_ *scope, st *enginev1.WatchStatsResponse) { st.Ports[0].Port = "north" },
		"no port":                 func(_ *scope, st *enginev1.WatchStatsResponse) { st.Ports = nil },
		"a generator without":     func(s *scope, _ *enginev1.WatchStatsResponse) { s.generator.Spec.Ports[0].Routing = nil },
		"the generator is gone":   func(s *scope, _ *enginev1.WatchStatsResponse) { s.generator = nil },
		"the pod is lost":         func(s *scope, _ *enginev1.WatchStatsResponse) { s.pods[0] = nil },
		"nothing has started":     func(_ *scope, st *enginev1.WatchStatsResponse) { st.Run.StartedAtNs = 0 },
	} {
		s, stats := routed(started, bird)
		change(s, stats[0])
		if s.checkRouters(stats); s.end != (ending{}) {
			t.Errorf("%s: got %+v", name, s.end)
		}
	}
	s, stats := routed(started, bird)
	s.end = ending{message: endStopped}
	if s.checkRouters(stats); s.end != (ending{message: endStopped}) {
		t.Errorf("a run that is stopped: got %+v", s.end)
	}
}
