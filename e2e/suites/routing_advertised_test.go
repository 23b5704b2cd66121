// SPDX-License-Identifier: Apache-2.0

// Routes of a run with FRR in a pod: the run sends when FRR has all of them, FRR has their attributes, and when the run has ended it has none.

package suites

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

const (
	// advertisedFour and advertisedSix are the routes that sessions of BGP advertise: a range and a list of IPv4, a range of IPv6.
	advertisedFour, advertisedSix = 20_000 + 2, 500
	// advertisedFor is the duration of the run.
	advertisedFor = 20 * time.Second
)

// advertising is a profile that advertises routes by BGP, OSPF and RIP.
const advertising = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: advertising}
spec:
  generatorRef: {name: frr}
  routing:
    advertise:
    - name: customers
      port: east
      sessions: [four]
      prefixes: {range: {first: 20.0.0.0/24, count: 20000, step: 2}}
      attributes: {asPath: [64512, 4200000001], communities: ["65001:100", "65001:200"], med: 10}
    - name: listed
      port: east
      sessions: [four]
      prefixes: {list: [192.0.2.0/25, 100.64.0.0/10]}
      attributes: {nextHop: 198.18.8.7, largeCommunities: ["65001:1:2"], origin: Incomplete}
    - name: six
      port: east
      sessions: [six]
      prefixes: {range: {first: "2001:db8:8000::/48", count: 500}}
      attributes: {origin: EGP}
    - {name: held, port: east, sessions: [four], state: Withdrawn, prefixes: {list: [198.51.100.0/24]}}
    - {name: internal, port: east, sessions: [core], prefixes: {range: {first: 172.16.0.0/24, count: 10}}, attributes: {metric: 77}}
    - {name: old, port: east, sessions: [old], prefixes: {list: [172.17.0.0/24]}, attributes: {metric: 3}}
    ready: {quiet: 3s}
  thresholds:
  - {name: routes, expression: 'result.routing.sessions.all(s, result.routing.sessions[s].up && result.routing.sessions[s].flaps == 0 && result.routing.sessions[s].sent == result.routing.sessions[s].configured)'}
  traffic:
  - name: probe
    transmitPort: east
    stream:
      inline:
        packet: {headers: [{ethernet: {}}, {ipv4: {source: 198.18.8.1, destination: 198.18.8.254}}, {udp: {destinationPort: 9}}], size: 64}
        transmit: {continuous: {rate: 100pps}}
  duration: DURATION
  setupTimeout: 90s
`

func TestARunSendsWhenFRRHasItsRoutesWhichItWithdrawsAtItsEnd(t *testing.T) {
	t.Parallel()
	needsRig(t, theMultus)
	ns := namespace(t)
	pod := frr(t, ns, "routed2")
	neighbor(t, pod, "neighbor 198.18.8.1 shutdown")
	mustApply(t, ns, frrGenerator)
	condition(t, 90*time.Second, generatorNamed(ns, "frr"), spate.ConditionReady, metav1.ConditionTrue)

	// One session is down, and the others have their routes already.
	p := profileNamed(ns, "advertising")
	mustApply(t, ns, strings.ReplaceAll(advertising, "DURATION", advertisedFor.String()))
	phase(t, 30*time.Second, p, spate.ProfileSettingUp)
	expect(t, condition(t, 10*time.Second, p, spate.ConditionReady, metav1.ConditionFalse), spate.ReasonRoutingNotReady, "session east/")
	received(t, pod, 30*time.Second, 0, advertisedSix)
	untilItWaits(t, p, "session east/four: ")

	// All routes are there before the run sends.
	neighbor(t, pod, "no neighbor 198.18.8.1 shutdown")
	untilItWaits(t, p, "all routes sent, and sessions not quiet for long enough")
	phase(t, 60*time.Second, p, spate.ProfileRunning)
	received(t, pod, 0, advertisedFour, advertisedSix)
	attributesIn(t, pod)
	internalIn(t, pod)
	peers, err := frrPeers(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}

	run := complete(t, advertisedFor+60*time.Second, p)
	if v := run.Status.Verdict; v == nil || v.Outcome != spate.VerdictPassed || run.Status.SetupTime == nil {
		t.Errorf("got %+v", run.Status)
	}
	bothCount(t, peers, run)
	received(t, pod, 15*time.Second, 0, 0)
	user := asUser(t, userOf(t, ns, "spate-viewer"))
	if table := user.says(t, 0, "kubectl spate result "+run.Name); !strings.Contains(table, "ROUTES OF SESSION") || !strings.Contains(table, strconv.Itoa(advertisedFour)) {
		t.Errorf("no sessions in\n%s", table)
	}
}

// neighbor gives FRR a command for its neighbor of IPv4.
func neighbor(t *testing.T, pod *corev1.Pod, command string) {
	t.Helper()
	if out, err := inPod(t.Context(), pod.Namespace, pod.Name, "vtysh", "-c", "configure terminal", "-c", "router bgp 65002", "-c", command); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// received waits until FRR has numbers of routes from its neighbors of IPv4 and IPv6.
func received(t *testing.T, pod *corev1.Pod, limit time.Duration, four, six int64) {
	t.Helper()
	until(t, limit+5*time.Second, "FRR has the routes", func(ctx context.Context) (bool, string) {
		peers, err := frrPeers(ctx, pod)
		if err != nil {
			return false, err.Error()
		}
		has := peers["198.18.8.1"].PfxRcd == four && peers["2001:db8:8::1"].PfxRcd == six
		if limit == 0 && !has {
			t.Fatalf("FRR has %+v, want %d and %d routes", peers, four, six)
		}
		return has, fmt.Sprintf("%+v", peers)
	})
}

// untilItWaits returns when a profile reports that its run waits for something.
func untilItWaits(t *testing.T, p *spate.TrafficProfile, what string) {
	t.Helper()
	until(t, 30*time.Second, "the run waits for "+what, func(context.Context) (bool, string) {
		c := condition(t, 10*time.Second, p, spate.ConditionReady, metav1.ConditionFalse)
		return strings.Contains(c.Message, what), c.Message
	})
}

// frrPath is a path of BGP to a prefix, as FRR has it.
type frrPath struct {
	ASPath struct {
		String string
	}
	Origin         string
	Metric         *int64
	Community      struct{ String string }
	LargeCommunity struct{ String string }
	Nexthops       []struct{ IP string }
}

// attributesIn checks the attributes that FRR has of the sets' routes, the first and the last of the range among them.
func attributesIn(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	customers := "65001 64512 4200000001, IGP, MED 10, communities 65001:100 65001:200, large , by 198.18.8.1"
	listed := "65001, incomplete, MED -, communities , large 65001:1:2, by 198.18.8.7"
	for prefix, want := range map[string]string{
		"ipv4 unicast 20.0.0.0/24": customers, "ipv4 unicast 20.0.2.0/24": customers, "ipv4 unicast 20.156.62.0/24": customers, "ipv4 unicast 20.0.1.0/24": "none", "ipv4 unicast 20.156.64.0/24": "none",
		"ipv4 unicast 192.0.2.0/25": listed, "ipv4 unicast 100.64.0.0/10": listed, "ipv4 unicast 198.51.100.0/24": "none",
		"ipv6 unicast 2001:db8:81f3::/48": "65001, EGP, MED -, communities , large , by 2001:db8:8::1",
	} {
		var shown struct{ Paths []frrPath }
		if err := frrShows(t.Context(), pod, "show bgp "+prefix+" json", &shown); err != nil {
			t.Fatal(err)
		}
		got := "none"
		if len(shown.Paths) == 1 && len(shown.Paths[0].Nexthops) > 0 {
			path, med := shown.Paths[0], "-"
			if path.Metric != nil {
				med = strconv.FormatInt(*path.Metric, 10)
			}
			got = fmt.Sprintf("%s, %s, MED %s, communities %s, large %s, by %s", path.ASPath.String, path.Origin, med, path.Community.String, path.LargeCommunity.String, path.Nexthops[0].IP)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", prefix, got, want)
		}
	}
}

// internalIn waits until FRR has the routes of OSPF and RIP, with their metrics: RIP's has grown by one.
func internalIn(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	for prefix, want := range map[string]string{"172.16.0.0/24": "ospf 77", "172.16.9.0/24": "ospf 77", "172.17.0.0/24": "rip 4"} {
		until(t, 10*time.Second, prefix+" is in FRR", func(ctx context.Context) (bool, string) {
			var shown map[string][]struct {
				Protocol string
				Metric   int64
			}
			if err := frrShows(ctx, pod, "show ip route "+prefix+" json", &shown); err != nil {
				return false, err.Error()
			}
			routes := shown[prefix]
			return len(routes) == 1 && fmt.Sprintf("%s %d", routes[0].Protocol, routes[0].Metric) == want, fmt.Sprintf("%+v", shown)
		})
	}
}

// bothCount compares what FRR counted while the run sent with the run's result.
func bothCount(t *testing.T, peers map[string]frrPeer, run *spate.TrafficRun) {
	t.Helper()
	if run.Status.Result == nil || run.Status.Result.Routing == nil {
		t.Fatalf("no sessions in %+v", run.Status.Result)
	}
	sessions := run.Status.Result.Routing.Sessions
	for name, address := range map[string]string{"east/four": "198.18.8.1", "east/six": "2001:db8:8::1"} {
		peer, ours := peers[address], sessions[name]
		// FRR sends our routes back, too, which BIRD refuses: they have come through its own AS (RFC 4271 section 9.1.2).
		if !ours.Up || ours.Sent != peer.PfxRcd || ours.Configured != peer.PfxRcd || ours.Received != peer.PfxSnt-peer.PfxRcd {
			t.Errorf("%s: FRR has %+v, and the result %+v", name, peer, ours)
		}
	}
	if sessions["east/core"].Sent != 10 || sessions["east/old"].Sent != 1 {
		t.Errorf("got %+v", sessions)
	}
}
