// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: has BIRD ended while a run used its sessions? All of them fell with it, which is not the device's doing.

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/podspec"
)

// comesBack is the least time from BIRD's end to the start of a run that has seen its sessions up again: the kubelet starts it, the engine gives
// it the sessions, the neighbors answer, and the engines are armed.
const comesBack = 2 * time.Second

// checkRouters has the run end as invalid if BIRD has ended in a pod with ports of the run that have sessions.
func (s *scope) checkRouters(stats []*enginev1.WatchStatsResponse) {
	if s.end.message != "" {
		return
	}
	if ended := s.routersEnded(stats); len(ended) > 0 {
		s.end = ending{spatev1.ReasonRoutingFailed, strings.Join(ended, "; ")}
	}
}

// routersEnded describes the ends of BIRD since the run's start, by the clock of each pod's node. The kubelet reports one within a second or two, and
// starts BIRD again: the engine's own report may last for less than a tick.
func (s *scope) routersEnded(stats []*enginev1.WatchStatsResponse) (ended []string) {
	for i, st := range present(stats) {
		started := st.GetRun().GetStartedAtNs()
		if started == 0 || s.pods[i] == nil || st.GetRun().GetRoutes() == nil && !s.usesRouting(st.GetPorts()) {
			continue
		}
		if end := podspec.RoutingEnd(s.pods[i]); end != nil && !end.FinishedAt.Time.Before(time.Unix(0, started).Add(-comesBack)) {
			ended = append(ended, fmt.Sprintf("pod %s: BIRD has ended (%s), and all sessions fell with it", s.pods[i].Name, howEnded(end)))
		}
	}
	return ended
}

func howEnded(end *corev1.ContainerStateTerminated) string {
	if end.Reason == "OOMKilled" {
		return "OOMKilled: it needs more than spec.routing.memory of its generator"
	}
	return fmt.Sprintf("exit code %d", end.ExitCode)
}

// usesRouting reports whether a port of the run has sessions.
func (s *scope) usesRouting(ports []*enginev1.PortStats) bool {
	generator := ptr.Deref(s.generator, spatev1.TrafficGenerator{})
	for i := range generator.Spec.Ports {
		if port := &generator.Spec.Ports[i]; port.Routing != nil && uses(ports, string(port.Name)) {
			return true
		}
	}
	return false
}
