// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: are the routes of a run sent, and what did the sessions do that advertised them?

import (
	"fmt"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/routes"
)

// routesUnsent describes the routes that an engine has not sent yet, by session. Sessions that are down are described elsewhere.
func routesUnsent(pod string, of *enginev1.RunRoutes) (unsent []string) {
	switch {
	case of == nil || of.Ready:
		return nil
	case of.Problem != "":
		return []string{fmt.Sprintf("pod %s: routes are not advertised: %s", pod, of.Problem)}
	}
	down := false
	for _, s := range of.Sessions {
		session, name := s.Session, routes.SessionKey(s.Port, s.GetSession().GetName())
		switch {
		case !session.GetUp():
			down = true
		case session.AllSent:
		case session.RoutesSent != session.RoutesConfigured:
			unsent = append(unsent, fmt.Sprintf("pod %s: session %s: %d of %d routes sent", pod, name, session.RoutesSent, session.RoutesConfigured))
		default:
			unsent = append(unsent, fmt.Sprintf("pod %s: session %s: %d routes sent, %d bytes not acknowledged", pod, name, session.RoutesSent, session.UnacknowledgedBytes))
		}
	}
	if len(unsent) == 0 && !down {
		return []string{fmt.Sprintf("pod %s: all routes sent, and sessions not quiet for long enough", pod)}
	}
	return unsent
}

// advertises reports whether a port of an engine advertises routes of the run.
func advertises(of *enginev1.RunRoutes, port string) bool {
	for _, s := range of.GetSessions() {
		if s.Port == port {
			return true
		}
	}
	return false
}

// sessionBaseline is what the sessions that advertise the run's routes had counted before its start.
func (s *scope) sessionBaseline(holds []engineState) (all []spatev1.SessionBaseline) {
	for i, h := range holds {
		for _, r := range h.info.GetRoutes().GetSessions() {
			all = append(all, spatev1.SessionBaseline{
				Pod: s.podName(i), Session: routes.SessionKey(r.Port, r.GetSession().GetName()),
				Flaps: int64(r.GetSession().GetFlaps()), UpdatesSent: int64(r.GetSession().GetUpdatesSent()), UpdatesReceived: int64(r.GetSession().GetUpdatesReceived()),
			})
		}
	}
	return all
}

// routing is what sessions have done, as it was last known of all engines: their routes are withdrawn when the run has ended.
func (s *scope) routing(stats []*enginev1.WatchStatsResponse) *spatev1.RoutingResult {
	if now := routingOf(stats, s.run); now != nil {
		s.found.routing = now
	}
	if s.found.routing == nil && s.run.Status.Result != nil {
		return s.run.Status.Result.Routing
	}
	return s.found.routing
}

// routingOf sums up what the sessions of all pods have done; nil if one of the engines advertises no routes of the run.
func routingOf(stats []*enginev1.WatchStatsResponse, run *spatev1.TrafficRun) *spatev1.RoutingResult {
	all := map[string]spatev1.SessionResult{}
	for i, st := range present(stats) {
		if st.GetRun().GetRoutes() == nil {
			return nil
		}
		pod := run.Status.Resolved.Generator.Pods[i].Name
		for _, r := range st.Run.Routes.Sessions {
			name, session := routes.SessionKey(r.Port, r.GetSession().GetName()), r.GetSession()
			before := baselineOf(run, pod, name)
			sum, others := all[name]
			all[name] = spatev1.SessionResult{
				Up: session.GetUp() && (sum.Up || !others), Flaps: sum.Flaps + max(int64(session.GetFlaps())-before.Flaps, 0),
				Configured: sum.Configured + int64(session.GetRoutesConfigured()), Sent: sum.Sent + int64(session.GetRoutesSent()), Received: sum.Received + int64(session.GetRoutesReceived()),
				UpdatesSent: sum.UpdatesSent + max(int64(session.GetUpdatesSent())-before.UpdatesSent, 0), UpdatesReceived: sum.UpdatesReceived + max(int64(session.GetUpdatesReceived())-before.UpdatesReceived, 0),
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &spatev1.RoutingResult{Sessions: all}
}

// baselineOf is what a session of a pod had counted before the run.
func baselineOf(run *spatev1.TrafficRun, pod, session string) spatev1.SessionBaseline {
	for _, b := range run.Status.SessionBaseline {
		if b.Pod == pod && b.Session == session {
			return b
		}
	}
	return spatev1.SessionBaseline{}
}
