// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: are the sessions of the run's ports up and its clients bound, and how long does the run wait for them?

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

const (
	// settingUpPause is the interval at which engines are queried for their sessions.
	settingUpPause = 200 * time.Millisecond
	// maxSessions is the number of sessions that a message names.
	maxSessions = 3
	// defaultSetup is spec.setupTimeout where a run has none.
	defaultSetup = time.Minute
)

// setUp waits for the sessions of the run's ports, and for its clients; true if none is awaited.
func (s *scope) setUp(ctx context.Context, holds []engineState) (ready bool, again time.Duration) {
	down, absent := s.sessionsDown(holds), s.clientsAwaited(holds)
	if len(down)+len(absent) == 0 {
		return true, 0
	}
	if s.run.Status.SetupTime == nil {
		now := metav1.Now()
		s.run.Status.SetupTime, s.run.Status.Phase = &now, spatev1.RunSettingUp
	}
	waited := time.Since(s.run.Status.SetupTime.Time)
	if len(down) == 0 {
		return false, s.awaitClients(ctx, absent, waited)
	}
	message := strings.Join(down[:min(len(down), maxSessions)], "; ")
	if more := len(down) - maxSessions; more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	if limit := s.setupTimeout(); waited > limit {
		s.stop(ctx, "the sessions of the run's ports are not up")
		s.invalid(spatev1.ReasonSetupTimedOut, fmt.Sprintf("not set up within %s: %s%s", limit, message, s.remedy()), "")
		return false, 0
	}
	s.waiting = waiting{spatev1.ReasonRoutingNotReady, message}
	return false, settingUpPause
}

// setupTimeout is how long the run waits.
func (s *scope) setupTimeout() time.Duration {
	return cmp.Or(parsed(s.run.Status.Resolved.Timing.Setup), defaultSetup)
}

// prepareDeadline is when all engines must have been reached and prepared; waiting for sessions and clients comes on top.
func (s *scope) prepareDeadline() (at time.Time, known bool) {
	switch {
	case s.run.Status.SetupTime != nil:
		return s.run.Status.SetupTime.Add(max(s.setupTimeout(), s.clientsLimit()) + prepareLimit), true
	case s.run.Status.PrepareTime != nil:
		return s.run.Status.PrepareTime.Add(prepareLimit), true
	}
	return time.Time{}, false
}

// sessionsDown describes the sessions of the run's ports that are not up, and those that an engine does not have.
func (s *scope) sessionsDown(holds []engineState) (down []string) {
	if s.generator == nil {
		return nil
	}
	for i, h := range holds {
		for j := range s.generator.Spec.Ports {
			port := &s.generator.Spec.Ports[j]
			if port.Routing == nil || !uses(h.ports, string(port.Name)) {
				continue
			}
			down = append(down, portDown(s.run.Status.Resolved.Generator.Pods[i].Name, port, h.sessions[string(port.Name)], h.routing)...)
		}
	}
	return down
}

// uses reports whether a run has a port.
func uses(ports []*enginev1.PortStats, name string) bool {
	for _, p := range ports {
		if p.Port == name {
			return true
		}
	}
	return false
}

// portDown describes the sessions of a port of a pod that are not up.
func portDown(pod string, port *spatev1.GeneratorPort, sessions []*enginev1.RoutingSession, routing *enginev1.RoutingInfo) (down []string) {
	r := port.Routing
	wanted := len(r.BGP) + len(r.OSPF) + len(r.RIP) + len(r.BFD)
	switch {
	case routing.GetProblem() != "":
		return []string{fmt.Sprintf("pod %s: port %s: %s", pod, port.Name, routing.Problem)}
	case len(sessions) != wanted:
		return []string{fmt.Sprintf("pod %s: port %s has %d of its %d sessions; the condition RoutingReady of the generator says why", pod, port.Name, len(sessions), wanted)}
	}
	for _, session := range sessions {
		if session.Up {
			continue
		}
		text := fmt.Sprintf("pod %s: session %s/%s: %s for %d s", pod, port.Name, session.Name, session.State, session.ForS)
		if session.LastError != "" {
			text += ": " + session.LastError
		}
		down = append(down, text)
	}
	return down
}
