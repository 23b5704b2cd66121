// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: do the ports of a generator have the sessions of routing protocols that are specified, and are these up?

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/ports"
	"spate.dev/operator/internal/podspec"
)

// maxReported is the number of sessions that a condition's message names.
const maxReported = 3

// configureRouting sends the sessions of their ports to all engines that answer, which changes nothing where they have them, and returns why
// an engine does not have them.
func (r *Reconciler) configureRouting(ctx context.Context, g *spatev1.TrafficGenerator, live []*corev1.Pod, answers map[string]answer) []string {
	if !ports.HasRouting(&g.Spec) {
		return nil
	}
	problems := make([]string, len(live))
	var wg sync.WaitGroup
	for i, pod := range live {
		if pod == nil || answers[pod.Name].info == nil {
			continue
		}
		if answers[pod.Name].info.Routing == nil {
			problems[i] = fmt.Sprintf("pod %s has no container routing yet: it is replaced when no run uses it", pod.Name)
			continue
		}
		wg.Go(func() {
			c, err := r.Engines.Client(ctx, podspec.EngineOf(pod))
			if err == nil {
				err = c.Configure(ctx, ports.Routing(&g.Spec, podspec.Index(pod)))
			}
			if err != nil {
				problems[i] = fmt.Sprintf("pod %s: %s", pod.Name, inSpec(&g.Spec, err))
			} else if problem := answers[pod.Name].info.Routing.Problem; problem != "" {
				problems[i] = fmt.Sprintf("pod %s: %s (kubectl spate logs %s --container routing)", pod.Name, problem, g.Name)
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(problems, func(problem string) bool { return problem == "" })
}

// fieldsInSpec are names of fields of the contract, and of the spec.
var fieldsInSpec = strings.NewReplacer("local_as", "localAS", "neighbor_as", "neighbor.as", "router_id", "routerID", "password_file", "passwordFrom",
	"hold_time_s", "holdTime", "ttl_security", "ttlSecurity", "hello_s", "hello", "dead_s", "dead", "update_s", "update", "timeout_s", "timeout",
	"timers.interval_us", "interval", "interval_us", "interval", "timers.multiplier", "multiplier", "].link", "].network", "].family", "].version")

// inSpec returns an engine's error with the paths of fields in the generator's spec.
func inSpec(spec *spatev1.TrafficGeneratorSpec, err error) string {
	text := err.Error()
	router := 0
	for i := range spec.Ports {
		if spec.Ports[i].Routing != nil {
			text = strings.ReplaceAll(text, fmt.Sprintf("routing.routers[%d].", router), fmt.Sprintf("spec.ports[%d].routing.", i))
			router++
		}
	}
	var e *engine.Error
	if errors.As(err, &e) {
		return fieldsInSpec.Replace(text)
	}
	return text
}

var protocols = map[enginev1.RoutingProtocol]spatev1.RoutingProtocol{
	enginev1.RoutingProtocol_ROUTING_PROTOCOL_BGP:  spatev1.ProtocolBGP,
	enginev1.RoutingProtocol_ROUTING_PROTOCOL_OSPF: spatev1.ProtocolOSPF,
	enginev1.RoutingProtocol_ROUTING_PROTOCOL_RIP:  spatev1.ProtocolRIP,
	enginev1.RoutingProtocol_ROUTING_PROTOCOL_BFD:  spatev1.ProtocolBFD,
}

// sessionStatus returns what is reported of the sessions of a port, after what was reported before. The instant at which a session's state
// changed is reported once, since the engine has it to the second.
func sessionStatus(before []spatev1.GeneratorPortStatus, p *enginev1.PortInfo, now time.Time) []spatev1.RoutingSessionStatus {
	var reported []spatev1.RoutingSessionStatus
	for i := range before {
		if before[i].Name == p.Name {
			reported = before[i].Sessions
		}
	}
	var all []spatev1.RoutingSessionStatus
	for _, s := range p.Sessions {
		since := metav1.NewTime(now.Add(-time.Duration(s.ForS) * time.Second).Truncate(time.Second))
		status := spatev1.RoutingSessionStatus{
			Name: s.Name, Protocol: protocols[s.Protocol], Up: s.Up, State: s.State, Since: &since, LastError: s.LastError,
			Flaps: int64(s.Flaps), RoutesReceived: int64(s.RoutesReceived), RoutesConfigured: int64(s.RoutesConfigured), RoutesSent: int64(s.RoutesSent),
		}
		for _, known := range reported {
			if known.Name == s.Name && known.State == s.State && known.Flaps == status.Flaps && known.Since != nil {
				status.Since = known.Since
			}
		}
		all = append(all, status)
	}
	return all
}

// routingReady sets the RoutingReady condition of a generator that has routing, from its status and from why engines do not have their
// sessions. It has no part in Ready: a session that is down is the neighbor's as well. True while something is awaited.
func routingReady(g *spatev1.TrafficGenerator, problems []string) (awaited bool) {
	if !ports.HasRouting(&g.Spec) {
		meta.RemoveStatusCondition(&g.Status.Conditions, spatev1.ConditionRoutingReady)
		return false
	}
	// What engines were queried before they had the sessions of another specification is none of these.
	known := meta.FindStatusCondition(g.Status.Conditions, spatev1.ConditionRoutingReady)
	isNew := known == nil || known.ObservedGeneration != g.Generation
	set := func(value metav1.ConditionStatus, reason, message string) {
		kstatus.Set(&g.Status.Conditions, spatev1.ConditionRoutingReady, value, g.Generation, reason, message)
	}
	sessions, missing := 0, int(g.Spec.Replicas)-len(g.Status.Pods)
	for _, pod := range g.Status.Pods {
		reported := sessionsOf(pod)
		for _, wanted := range sessionNames(&g.Spec) {
			s, ok := reported[wanted]
			switch {
			case !ok:
				missing++
			case !s.Up:
				problems = append(problems, fmt.Sprintf("pod %s: %s", pod.Name, down(wanted.port, &s)))
			default:
				sessions++
			}
		}
	}
	switch {
	case len(problems) > 0:
		set(metav1.ConditionFalse, spatev1.ReasonRoutingNotReady, few(problems))
	case sessions == 0:
		set(metav1.ConditionUnknown, spatev1.ReasonNoEngines, "no engine has reported its sessions")
	case missing > 0:
		set(metav1.ConditionUnknown, spatev1.ReasonNoEngines, "not all engines have reported all of their sessions")
	case isNew:
		set(metav1.ConditionUnknown, spatev1.ReasonNoEngines, "the engines have not reported the sessions of this specification yet")
	default:
		set(metav1.ConditionTrue, spatev1.ReasonSessionsUp, fmt.Sprintf("all sessions are up: %d", sessions))
		return false
	}
	return true
}

// sessionName is a session of a port of every pod.
type sessionName struct {
	port    string
	session string
}

// sessionNames returns the sessions that are specified.
func sessionNames(spec *spatev1.TrafficGeneratorSpec) (all []sessionName) {
	for i := range spec.Ports {
		port := &spec.Ports[i]
		if port.Routing == nil {
			continue
		}
		for _, name := range ports.SessionNames(port.Routing) {
			all = append(all, sessionName{string(port.Name), string(name)})
		}
	}
	return all
}

// sessionsOf returns the sessions that a pod has reported.
func sessionsOf(pod spatev1.GeneratorPodStatus) map[sessionName]spatev1.RoutingSessionStatus {
	reported := map[sessionName]spatev1.RoutingSessionStatus{}
	for _, port := range pod.Ports {
		for _, s := range port.Sessions {
			reported[sessionName{port.Name, s.Name}] = s
		}
	}
	return reported
}

// down describes a session that is not up.
func down(port string, s *spatev1.RoutingSessionStatus) string {
	text := fmt.Sprintf("session %s/%s: %s", port, s.Name, s.State)
	if s.Since != nil {
		text += " since " + s.Since.UTC().Format(time.RFC3339)
	}
	if s.LastError != "" {
		text += ": " + s.LastError
	}
	return text
}

// few joins the first of the problems.
func few(problems []string) string {
	if more := len(problems) - maxReported; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(problems[:maxReported], "; "), more)
	}
	return strings.Join(problems, "; ")
}
