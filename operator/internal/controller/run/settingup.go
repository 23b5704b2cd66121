// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: are the sessions of the run's ports up, its routes sent and its clients bound, and how long does the run wait for them?

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/ports"
)

const (
	// settingUpPause is the interval at which engines are queried for their sessions.
	settingUpPause = 200 * time.Millisecond
	// maxSessions is the number of sessions that a message names.
	maxSessions = 3
	// defaultSetup is spec.setupTimeout where a run has none.
	defaultSetup = time.Minute
)

// setUp waits for the sessions of the run's ports, for its routes to be sent, and for its clients; true if nothing is awaited.
func (s *scope) setUp(ctx context.Context, holds []engineState) (ready bool, again time.Duration) {
	awaited, absent := s.routingAwaited(holds), s.clientsAwaited(holds)
	if len(awaited)+len(absent) == 0 {
		return true, 0
	}
	if s.run.Status.SetupTime == nil {
		now := metav1.Now()
		s.run.Status.SetupTime, s.run.Status.Phase = &now, spatev1.RunSettingUp
	}
	waited := time.Since(s.run.Status.SetupTime.Time)
	if len(awaited) == 0 {
		return false, s.awaitClients(ctx, absent, waited)
	}
	message := strings.Join(awaited[:min(len(awaited), maxSessions)], "; ")
	if more := len(awaited) - maxSessions; more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	if limit := s.setupTimeout(); waited > limit {
		s.stop(ctx, "the sessions of the run's ports are not up, or its routes not sent")
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

// routingAwaited describes the sessions that are not up, and those whose routes are not sent.
func (s *scope) routingAwaited(holds []engineState) (awaited []string) {
	awaited, sent := s.sessionsDown(holds), true
	for i, h := range holds {
		routes := h.info.GetRoutes()
		awaited, sent = append(awaited, routesUnsent(s.podName(i), routes)...), sent && (routes == nil || routes.Ready)
	}
	if len(awaited) == 0 && !sent { // a session fell after its state was read
		return []string{"routes are not sent"}
	}
	return awaited
}

// sessionsDown describes the sessions of the run's ports that are not up, and those that an engine does not have.
func (s *scope) sessionsDown(holds []engineState) (down []string) {
	if s.generator == nil {
		return nil
	}
	for i, h := range holds {
		for j := range s.generator.Spec.Ports {
			port := &s.generator.Spec.Ports[j]
			if port.Routing == nil || !uses(h.ports, string(port.Name)) && !advertises(h.info.GetRoutes(), string(port.Name)) {
				continue
			}
			pod := s.run.Status.Resolved.Generator.Pods[i].Name
			down = append(down, portDown(pod, port, h.sessions[string(port.Name)], h.routing, s.reported(pod, string(port.Name)))...)
		}
	}
	return down
}

// reported returns the sessions of a port of a pod in the generator's status.
func (s *scope) reported(pod, port string) []spatev1.RoutingSessionStatus {
	for i := range s.generator.Status.Pods {
		if s.generator.Status.Pods[i].Name != pod {
			continue
		}
		for _, p := range s.generator.Status.Pods[i].Ports {
			if p.Name == port {
				return p.Sessions
			}
		}
	}
	return nil
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

// portDown describes the sessions of a port of a pod that are not up. The text changes only with a session, since it is written to the
// run's status: the instant of the change is that of the generator's status, once that has it.
func portDown(pod string, port *spatev1.GeneratorPort, sessions []*enginev1.RoutingSession, routing *enginev1.RoutingInfo, reported []spatev1.RoutingSessionStatus) (down []string) {
	wanted := ports.SessionNames(port.Routing)
	isOther := len(sessions) != len(wanted)
	for i := 0; i < len(wanted) && !isOther; i++ {
		isOther = sessions[i].Name != string(wanted[i])
	}
	switch {
	case routing.GetProblem() != "":
		return []string{fmt.Sprintf("pod %s: port %s: %s", pod, port.Name, routing.Problem)}
	case isOther:
		return []string{fmt.Sprintf("pod %s: port %s does not have the sessions of its specification; the condition RoutingReady of the generator says why", pod, port.Name)}
	}
	for _, session := range sessions {
		if session.Up {
			continue
		}
		text := fmt.Sprintf("pod %s: session %s/%s: %s", pod, port.Name, session.Name, session.State)
		known := slices.IndexFunc(reported, func(r spatev1.RoutingSessionStatus) bool {
			return r.Name == session.Name && r.State == session.State && r.Since != nil
		})
		if known >= 0 {
			text += " since " + reported[known].Since.UTC().Format(time.RFC3339)
		}
		if session.LastError != "" {
			text += ": " + session.LastError
		}
		down = append(down, text)
	}
	return down
}
