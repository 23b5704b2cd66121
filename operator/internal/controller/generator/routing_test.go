// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
)

func TestSinceIsReportedOnceForAState(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	port := func(state string, lasting uint32, flaps uint64) *enginev1.PortInfo {
		return &enginev1.PortInfo{Name: "east", Sessions: []*enginev1.RoutingSession{{
			Name: "dut", Protocol: enginev1.RoutingProtocol_ROUTING_PROTOCOL_BGP, Up: state == "Established", State: state, ForS: lasting, Flaps: flaps, RoutesReceived: 7,
		}}}
	}
	first := sessionStatus(nil, port("Established", 5, 0), now)
	if s := first[0]; s.Name != "dut" || s.Protocol != spatev1.ProtocolBGP || !s.Up || s.RoutesReceived != 7 || !s.Since.Equal(&metav1.Time{Time: now.Add(-5 * time.Second).Truncate(time.Second)}) {
		t.Errorf("got %+v", s)
	}
	before := []spatev1.GeneratorPortStatus{{Name: "west"}, {Name: "east", Sessions: first}}
	if later := sessionStatus(before, port("Established", 14, 0), now.Add(10*time.Second)); !later[0].Since.Equal(first[0].Since) {
		t.Errorf("the status changes with each query: %v, %v", first[0].Since, later[0].Since)
	}
	for _, changed := range []*enginev1.PortInfo{port("Connect", 2, 1), port("Established", 2, 1)} {
		if later := sessionStatus(before, changed, now.Add(10*time.Second)); later[0].Since.Equal(first[0].Since) {
			t.Errorf("%v is reported as if nothing had changed", changed)
		}
	}
}

func TestRoutingIsReadyWhenAllSessionsAreUp(t *testing.T) {
	g := &spatev1.TrafficGenerator{}
	found := func() *metav1.Condition {
		return meta.FindStatusCondition(g.Status.Conditions, spatev1.ConditionRoutingReady)
	}
	if routingReady(g, nil) || found() != nil {
		t.Errorf("a generator without routing has the condition %+v", found())
	}
	g.Spec.Replicas = 1
	g.Spec.Ports = []spatev1.GeneratorPort{{Name: "east", Routing: &spatev1.PortRouting{BGP: []spatev1.BGPSession{{Name: "dut"}, {Name: "six"}}}}}
	if !routingReady(g, nil) || found().Status != metav1.ConditionUnknown {
		t.Errorf("no engine has answered: %+v", found())
	}
	down := spatev1.RoutingSessionStatus{Name: "dut", State: "Connect", LastError: "Socket: Connection refused"}
	up := spatev1.RoutingSessionStatus{Name: "six", Up: true}
	g.Status.Pods = []spatev1.GeneratorPodStatus{{Name: "g-0", Ports: []spatev1.GeneratorPortStatus{{Name: "east", Sessions: []spatev1.RoutingSessionStatus{down, up}}}}}
	if !routingReady(g, nil) || found().Reason != spatev1.ReasonRoutingNotReady || found().Message != "pod g-0: session east/dut: Connect: Socket: Connection refused" {
		t.Errorf("a session is down: %+v", found())
	}
	g.Status.Pods[0].Ports[0].Sessions = []spatev1.RoutingSessionStatus{up}
	if !routingReady(g, nil) || found().Status != metav1.ConditionUnknown {
		t.Errorf("a session has not been reported: %+v", found())
	}
	down.Up = true
	g.Status.Pods[0].Ports[0].Sessions = []spatev1.RoutingSessionStatus{down, up}
	if routingReady(g, nil) || found().Status != metav1.ConditionTrue || found().Message != "all sessions are up: 2" {
		t.Errorf("all are up: %+v", found())
	}
	g.Spec.Replicas = 2
	if !routingReady(g, nil) || found().Status != metav1.ConditionUnknown {
		t.Errorf("a pod has not answered: %+v", found())
	}
	g.Spec.Replicas = 1
	g.Generation++
	if !routingReady(g, nil) || found().Status != metav1.ConditionUnknown {
		t.Errorf("what was reported may be of the generation before: %+v", found())
	}
	if routingReady(g, nil) || found().Status != metav1.ConditionTrue {
		t.Errorf("all are up again: %+v", found())
	}
	if !routingReady(g, []string{"pod g-0: a", "b", "c", "d", "e"}) || found().Message != "pod g-0: a; b; c; and 2 more" {
		t.Errorf("engines do not have what is specified: %+v", found())
	}
	g.Spec.Ports[0].Routing = nil
	if routingReady(g, nil) || found() != nil {
		t.Errorf("routing was removed: %+v", found())
	}
}

func TestAnEnginesErrorHasTheFieldOfTheSpec(t *testing.T) {
	spec := &spatev1.TrafficGeneratorSpec{Ports: []spatev1.GeneratorPort{{Name: "plain"}, {Name: "east", Routing: &spatev1.PortRouting{}}, {Name: "west", Routing: &spatev1.PortRouting{}}}}
	for message, want := range map[string]string{
		"routing.routers[0].bgp[0].password_file: bgp/dut: No such file or directory": "spec.ports[1].routing.bgp[0].passwordFrom: bgp/dut: No such file or directory",
		"routing.routers[1].ospf[0].hello_s: 0; must be at least 1 s":                 "spec.ports[2].routing.ospf[0].hello: 0; must be at least 1 s",
	} {
		if got := inSpec(spec, &engine.Error{Code: codes.FailedPrecondition, Message: message}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
