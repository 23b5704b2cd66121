// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// lab returns a generator of one pod with two sessions, of which one is down.
func lab() *spatev1.TrafficGenerator {
	since := metav1.NewTime(at.Add(-90 * time.Second))
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab"}}
	g.Status.Pods = []spatev1.GeneratorPodStatus{{Name: "lab-0", Node: "worker-1", Ports: []spatev1.GeneratorPortStatus{{Name: "east", Sessions: []spatev1.RoutingSessionStatus{
		{Name: "dut", Protocol: spatev1.ProtocolBGP, State: "Connect", Since: &since, LastError: "Socket: Connection refused", Flaps: 2},
		{Name: "core", Protocol: spatev1.ProtocolOSPF, Up: true, State: "Full", RoutesReceived: 12, RoutesConfigured: 1000, RoutesSent: 402},
	}}}}}
	g.Status.Conditions = []metav1.Condition{{Type: spatev1.ConditionRoutingReady, Status: metav1.ConditionFalse, Reason: spatev1.ReasonRoutingNotReady, Message: "pod lab-0: session east/dut: Connect"}}
	return g
}

func TestSessionsAreATableWithTheReasonOfEachThatIsDown(t *testing.T) {
	var out bytes.Buffer
	if err := writeTable(&out, reportOf(lab()), at, true); err != nil {
		t.Fatal(err)
	}
	want := `POD    PORT  SESSION  PROTOCOL  STATE    FOR  FLAPS  CONFIGURED  SENT  RECEIVED  LAST ERROR                  NODE
lab-0  east  dut      BGP       Connect  90s  2      0           0     0         Socket: Connection refused  worker-1
lab-0  east  core     OSPF      Full     -    0      1000        402   12        -                           worker-1
`
	if out.String() != want {
		t.Errorf("got:\n%s", out.String())
	}
}

func TestTheExitCodeIsThatOfTheCondition(t *testing.T) {
	g := lab()
	if err := problem(g); err == nil || err.Error() != "RoutingNotReady: pod lab-0: session east/dut: Connect" {
		t.Errorf("a session is down: %v", err)
	}
	g.Status.Conditions[0].Status = metav1.ConditionTrue
	if err := problem(g); err != nil {
		t.Errorf("all are up: %v", err)
	}
	g.Status.Conditions = nil
	if err := problem(g); err == nil || !strings.Contains(err.Error(), "no port of generator lab has routing") {
		t.Errorf("there is no routing: %v", err)
	}
}

func TestProgramsReadSessionsWithTheirPorts(t *testing.T) {
	text, err := json.Marshal(reportOf(lab()).Pods[0].Sessions[1])
	if want := `{"port":"east","name":"core","protocol":"OSPF","up":true,"state":"Full","routesReceived":12,"routesConfigured":1000,"routesSent":402}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v", text, err)
	}
	if rows := reportOf(lab()).rows(); len(rows) != 2 || rows[0].Since != "2026-01-02T03:02:35Z" || rows[0].Session != "dut" {
		t.Errorf("got %+v", rows)
	}
}
