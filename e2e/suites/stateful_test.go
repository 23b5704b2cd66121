// SPDX-License-Identifier: Apache-2.0

// Emulated applications: both sides through a router, emulated clients with a real nginx, and a real curl with emulated
// servers.

package suites

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

func templateOf(t *testing.T, run *spate.TrafficRun, name string) spate.TemplateResult {
	t.Helper()
	result, found := run.Status.Result.Templates[name]
	if !found {
		t.Fatalf("no template %s in %+v", name, run.Status.Result.Templates)
	}
	return result
}

// settled fails unless this number of flows of a side were started, and all of them were established and ended without
// an error.
func settled(t *testing.T, what string, side *spate.TemplateSide, flows int64) {
	t.Helper()
	if side == nil {
		t.Fatalf("%s: there is no such side", what)
	}
	if side.Attempted != flows || side.Established != flows || side.Closed != flows || side.Failed != 0 || side.Open != 0 {
		t.Errorf("%s: %+v, want %d flows, all established and closed without an error", what, side.FlowCounters, flows)
	}
}

func TestAWebSiteThroughARouter(t *testing.T) {
	needsRig(t, thePrometheus)
	ns := lab(t)
	mustApply(t, ns, demo(t, "http.yaml"))
	http := profileNamed(ns, "http")
	run := complete(t, 60*time.Second, http)
	expect(t, condition(t, 10*time.Second, http, spate.ConditionPassed, metav1.ConditionTrue), spate.ReasonThresholdsMet, "2400 flows attempted, 2400 established, 0 failed")

	flows := run.Status.Result.Flows
	started := int64(2400)
	if flows.NotStarted > 0 { // tolerated, because the cluster's own components run on the same cores
		started -= flows.NotStarted
	}
	side := templateOf(t, run, "http")
	settled(t, "clients", side.Client, started)
	settled(t, "servers", side.Server, started)
	const page, requests = 8192 + 5*4096, 70 + 5*69
	if side.Client.BytesReceived != page*started || side.Client.BytesSent != requests*started || side.Server.BytesReceived != side.Client.BytesSent {
		t.Errorf("clients %+v, servers %+v; want %d bytes of answers and %d of requests for each", side.Client.FlowCounters, side.Server.FlowCounters, page, requests)
	}
	if http.Status.Flows == nil || *http.Status.Flows != *flows {
		t.Errorf("the profile has %+v, its run %+v", http.Status.Flows, *flows)
	}
	timed(t, run, "probe")
	if c := side.Client.ConnectTime; c == nil || c.Count != started || c.P50 < c.Min || c.Max < c.P99 {
		t.Errorf("connect time %+v of %d connections", c, started)
	}
	t.Run("Prometheus has the same", func(t *testing.T) {
		for metric, want := range map[string]map[string]int64{
			"spate_template_flows_established_total":   {"client": side.Client.Established, "server": side.Server.Established},
			"spate_template_received_data_bytes_total": {"client": side.Client.BytesReceived, "server": side.Server.BytesReceived},
			"spate_template_open_flows":                {"client": 0, "server": 0},
		} {
			got := countedBy(t, "role", metric, `template="http"`, run)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", metric, got, want)
			}
		}
		// The one worker has all flows: clients receive by the hash that was computed, servers are where their clients' packets arrive.
		received := countedBy(t, "role", "spate_template_received_packets_total", `template="http"`, run)
		steered := countedBy(t, "steering", "spate_worker_flow_packets_total", `worker!=""`, run)
		want := map[string]int64{"rss": received["client"], "placed": received["server"], "handed_off": 0, "handoff_lost": 0}
		if !maps.Equal(steered, want) || received["client"] < started || received["server"] < started {
			t.Errorf("packets of flows by steering: %v, want %v", steered, want)
		}
	})
	t.Run("every query of the dashboards has data", func(t *testing.T) { queriesHaveData(t, run, ofTemplates) })
	t.Run("both sides on one port", func(t *testing.T) { oneArm(t, ns) })
	t.Run("a page that does not come fails the run", func(t *testing.T) { lostPages(t, ns) })
}

// oneArm fails unless clients and servers on one port are connected by the router, which returns frames to the port that they came from.
func oneArm(t *testing.T, ns string) {
	const probe = `  - {name: probe, transmitPort: east, receivePort: west, stream: {ref: {name: probe}}}
`
	all := demo(t, "http.yaml")
	all = all[:strings.LastIndex(all, "---")]
	latency := all[strings.Index(all, "  - {name: latency"):strings.Index(all, "---")]
	mustApply(t, ns, strings.NewReplacer(probe, "", latency, "", "{name: http}", "{name: one-arm}", "receivePort: west", "receivePort: east", "web-page", "web-page-in-the-east",
		"198.19.128.1, end: 198.19.128.254", "198.18.144.1, end: 198.18.144.254", "duration: 8s", "duration: 2s", "established > 2000", "established > 500").Replace(all))
	p := profileNamed(ns, "one-arm")
	run := complete(t, 60*time.Second, p)
	condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionTrue)
	started := int64(600) - run.Status.Result.Flows.NotStarted
	side := templateOf(t, run, "http")
	settled(t, "clients", side.Client, started)
	settled(t, "servers", side.Server, started)
}

// lostPages fails unless a run whose servers cannot be reached fails, with the numbers.
func lostPages(t *testing.T, ns string) {
	router(t, "deafen")
	t.Cleanup(func() { router(t, "forward") })
	deaf := strings.NewReplacer("duration: 8s", "duration: 2s", "drain: 2s", "drain: 100ms", "metadata: {name: http}", "metadata: {name: deaf}").Replace(demo(t, "http.yaml"))
	mustApply(t, ns, deaf)
	p := profileNamed(ns, "deaf")
	run := complete(t, 60*time.Second, p)
	failed(t, p, "connections", "result.flows.failed is")
	clients := templateOf(t, run, "http").Client
	if clients.Established != 0 || clients.Attempted == 0 || clients.Failed != clients.Attempted || clients.Aborted+clients.TimedOut != clients.Failed {
		t.Errorf("%+v, want every attempt to fail without an answer", clients.FlowCounters)
	}
}

// inPod runs a command in a pod.
func inPod(ctx context.Context, ns, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "kubectl", append([]string{"exec", "-n", ns, name, "--"}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func podNamed(ns, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

func TestARealNginxAndARealCurl(t *testing.T) {
	ns := lab(t)
	mustApply(t, ns, demo(t, "nginx-pod.yaml"))
	nginx := podNamed(ns, "nginx")
	until(t, 60*time.Second, "nginx answers", func(ctx context.Context) (bool, string) {
		err := get(ctx, nginx)
		ready := slices.ContainsFunc(nginx.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		return err == nil && ready, fmt.Sprintf("%+v %v", nginx.Status, err)
	})
	t.Run("our clients at nginx", func(t *testing.T) { visits(t, ns) })
	t.Run("connections that are slow to come about, and none of which fails, fail the run", func(t *testing.T) { slowVisits(t, ns) })
	if err := kube.Delete(t.Context(), nginx); err != nil {
		t.Fatal(err)
	}
	until(t, 30*time.Second, "nginx's link is free", func(ctx context.Context) (bool, string) {
		err := get(ctx, nginx)
		return apierrors.IsNotFound(err), fmt.Sprintf("%+v %v", nginx.Status, err)
	})
	t.Run("curl at our servers", func(t *testing.T) { visited(t, ns) })
}

// visits fails unless every connection of the engine got its page from nginx, by nginx's own count, too.
func visits(t *testing.T, ns string) {
	mustApply(t, ns, demo(t, "nginx.yaml"))
	run := passed(t, ns, "nginx")
	result := templateOf(t, run, "visitor")
	if result.Server != nil {
		t.Errorf("the servers are real, and there is a server side: %+v", result.Server)
	}
	settled(t, "visitors", result.Client, 800-run.Status.Result.Flows.NotStarted)
	served := strconv.FormatInt(result.Client.Established, 10)
	until(t, 15*time.Second, "nginx has logged "+served+" visits", func(ctx context.Context) (bool, string) {
		out, err := inPod(ctx, ns, "nginx", "grep", "-c", `^198[.]18[.]128[.].*" 200 20000 "`, "/var/log/nginx/access.log")
		return err == nil && out == served, out
	})
}

// slowVisits fails unless a run whose connections need a second SYN, which takes a second, fails because of that time
// only.
func slowVisits(t *testing.T, ns string) {
	router(t, "hesitate")
	t.Cleanup(func() { router(t, "forward") })
	mustApply(t, ns, strings.NewReplacer("metadata: {name: nginx}", "metadata: {name: slow}", "duration: 4s", "duration: 2s", "established > 600", "established > 300").Replace(demo(t, "nginx.yaml")))
	slow := profileNamed(ns, "slow")
	run := complete(t, 60*time.Second, slow)
	clients := templateOf(t, run, "visitor").Client
	settled(t, "visitors", clients, 400-run.Status.Result.Flows.NotStarted)
	if c := clients.ConnectTime; c == nil || c.Min < spate.MeasuredTime(900*time.Millisecond) {
		t.Fatalf("connect times %+v, want a second or more", c)
	}
	failed(t, slow, "connecting took longer than 500 ms", fmt.Sprintf(`result.templates["visitor"].client.connectTime.p99 is %s`, clients.ConnectTime.P99))
	for _, threshold := range run.Status.Verdict.Thresholds {
		if threshold.Met == (threshold.Name == "connect-time") {
			t.Errorf("threshold %s: met is %t: %s", threshold.Name, threshold.Met, threshold.Message)
		}
	}
}

// visited fails unless curl got a page from each emulated server, by the servers' own counters, too.
func visited(t *testing.T, ns string) {
	mustApply(t, ns, demo(t, "site.yaml"))
	site := profileNamed(ns, "site")
	phase(t, 30*time.Second, site, spate.ProfileRunning)
	mustApply(t, ns, demo(t, "curl-pod.yaml"))
	curl := podNamed(ns, "curl")
	until(t, 60*time.Second, "curl has ended", func(ctx context.Context) (bool, string) {
		err := get(ctx, curl)
		return curl.Status.Phase == corev1.PodSucceeded || curl.Status.Phase == corev1.PodFailed, fmt.Sprint(curl.Status.Phase, " ", err)
	})
	out, err := exec.CommandContext(t.Context(), "kubectl", "logs", "-n", ns, "curl").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "100 status 200, 20000 bytes" {
		t.Errorf("curl says %q, %v; want 100 pages of 20000 bytes", out, err)
	}
	if err := kube.Patch(t.Context(), site, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))); err != nil {
		t.Fatal(err)
	}
	run := passed(t, ns, "site")
	result := templateOf(t, run, "site")
	if result.Client != nil {
		t.Errorf("the clients are real, and there is a client side: %+v", result.Client)
	}
	settled(t, "servers", result.Server, 100)
}
