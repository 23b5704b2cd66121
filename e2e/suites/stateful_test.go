// SPDX-License-Identifier: Apache-2.0

// Emulated applications: both sides through a router, our clients at a real nginx, a real curl at our servers.

package suites

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/operator/api/v1alpha1"
)

func templateOf(t *testing.T, run *spate.TrafficRun, name string) spate.TemplateResult {
	t.Helper()
	at := slices.IndexFunc(run.Status.Result.Templates, func(s spate.TemplateResult) bool { return s.Name == name })
	if at < 0 {
		t.Fatalf("no template %s in %+v", name, run.Status.Result.Templates)
	}
	return run.Status.Result.Templates[at]
}

// settled fails unless so many flows of a side began, all of which were established and ended well.
func settled(t *testing.T, what string, side *spate.TemplateSide, flows int64) {
	t.Helper()
	if side == nil {
		t.Fatalf("%s: there is no such side", what)
	}
	if side.Attempts != flows || side.Connects != flows || side.Closed != flows || side.Failed != 0 || side.OpenFlows != 0 {
		t.Errorf("%s: %+v, want %d flows, all established and ended well", what, side.TemplateCounters, flows)
	}
}

func TestAWebSiteThroughARouter(t *testing.T) {
	ns := lab(t)
	mustApply(t, ns, demo(t, "http.yaml"))
	http := profileNamed(ns, "http")
	run := complete(t, 60*time.Second, http)
	expect(t, condition(t, 10*time.Second, http, spate.ConditionPassed, metav1.ConditionTrue), spate.ReasonThresholdsMet, "2400 flows begun, 2400 established, 0 failed")

	flows := run.Status.Result.Flows
	begun := int64(2400)
	if flows.NotBegun > 0 { // tolerated, for the cluster's own components run on the same cores
		begun -= flows.NotBegun
	}
	side := templateOf(t, run, "http")
	settled(t, "clients", side.Client, begun)
	settled(t, "servers", side.Server, begun)
	const page, requests = 8192 + 5*4096, 70 + 5*69
	if side.Client.BytesReceived != page*begun || side.Client.BytesSent != requests*begun || side.Server.BytesReceived != side.Client.BytesSent {
		t.Errorf("clients %+v, servers %+v; want %d bytes of answers and %d of requests for each", side.Client.TemplateCounters, side.Server.TemplateCounters, page, requests)
	}
	if http.Status.Flows == nil || *http.Status.Flows != *flows {
		t.Errorf("the profile has %+v, its run %+v", http.Status.Flows, *flows)
	}
	timed(t, run, "probe")
	if c := side.Client.ConnectTime; c == nil || c.Count != begun || c.P50 < c.Min || c.Max < c.P99 {
		t.Errorf("connect time %+v of %d connections", c, begun)
	}
	t.Run("Prometheus has the same", func(t *testing.T) {
		for metric, want := range map[string]map[string]int64{
			"spate_template_connects_total":            {"client": side.Client.Connects, "server": side.Server.Connects},
			"spate_template_received_data_bytes_total": {"client": side.Client.BytesReceived, "server": side.Server.BytesReceived},
			"spate_template_open_flows":                {"client": 0, "server": 0},
		} {
			got := countedBy(t, "role", metric, `template="http"`, run)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", metric, got, want)
			}
		}
	})
	t.Run("every query of the dashboards has data", func(t *testing.T) { everyTemplateQueryHasData(t, ns) })
	t.Run("a page that does not come fails the run", func(t *testing.T) { lostPages(t, ns) })
}

// lostPages fails unless a run whose servers cannot be reached fails, with the numbers.
func lostPages(t *testing.T, ns string) {
	router(t, "deafen")
	t.Cleanup(func() { router(t, "forward") })
	deaf := strings.NewReplacer("duration: 8s", "duration: 2s", "drain: 2s", "drain: 100ms", "metadata: {name: http}", "metadata: {name: deaf}").Replace(demo(t, "http.yaml"))
	mustApply(t, ns, deaf)
	p := profileNamed(ns, "deaf")
	run := complete(t, 60*time.Second, p)
	expect(t, condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionFalse), spate.ReasonThresholdMissed, "connections", "result.flows.failed is")
	clients := templateOf(t, run, "http").Client
	if clients.Connects != 0 || clients.Attempts == 0 || clients.Failed != clients.Attempts || clients.Cut+clients.TimedOut != clients.Failed {
		t.Errorf("%+v, want every attempt to fail without an answer", clients.TemplateCounters)
	}
}

// edge is a generator with one port of the router's links.
func edge(side, address, gateway string) string {
	return fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: edge}
spec:
  controlCPU: Shared
  hugepages: {pageSize: 2Mi, memory: 128Mi}
  ports:
  - {name: %[1]s, attachment: {network: {name: dut-%[1]s}}, addresses: [%[2]s/24], gateway: %[3]s}
---`, side, address, gateway)
}

// peerNetwork hands a router's link to a pod with an address, and routes to all else of the test by the router.
func peerNetwork(side, address, gateway string) string {
	return fmt.Sprintf(`
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: peer-%[1]s}
spec:
  config: '{"cniVersion": "1.0.0", "type": "host-device", "device": "%[1]s0", "ipam": {"type": "static",
    "addresses": [{"address": "%[2]s/24"}], "routes": [{"dst": "198.18.0.0/15", "gw": "%[3]s"}]}}'
---`, side, address, gateway)
}

// peer is a pod of a real server or client on a router's link.
func peer(name, side, command string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {k8s.v1.cni.cncf.io/networks: peer-%s}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - name: peer
    image: localhost/spate/peer:1
    imagePullPolicy: IfNotPresent
    resources: {requests: {cpu: 10m, memory: 32Mi}}
    command: [bash, -ec, %q]
---`, name, side, command)
}

// inPeer runs a command in a peer's container.
func inPeer(ctx context.Context, ns, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "kubectl", append([]string{"exec", "-n", ns, name, "--"}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func TestClientsOfARealNginx(t *testing.T) {
	ns := namespace(t)
	mustApply(t, ns, demo(t, "network.yaml"))
	mustApply(t, ns, edge("east", "198.18.0.2", "198.18.0.1"))
	mustApply(t, ns, peerNetwork("west", "198.19.0.2", "198.19.0.1")+peer("nginx", "west", `
		mkdir -p /srv/www
		head -c 20000 /dev/zero > /srv/www/index.html
		cat > /tmp/nginx.conf <<-END
			worker_processes 1;
			daemon off;
			error_log stderr;
			events { worker_connections 4096; }
			http { access_log /tmp/access.log combined buffer=4k flush=1s; server { listen 80; root /srv/www; } }
		END
		exec nginx -c /tmp/nginx.conf`))
	condition(t, 60*time.Second, generatorNamed(ns, "edge"), spate.ConditionReady, metav1.ConditionTrue)
	until(t, 60*time.Second, "nginx answers", func(ctx context.Context) (bool, string) {
		out, err := inPeer(ctx, ns, "nginx", "curl", "-sS", "--max-time", "1", "-o", "/dev/null", "http://198.19.0.2/")
		return err == nil, out
	})
	mustApply(t, ns, `
apiVersion: spate.dev/v1alpha1
kind: ASTFTemplate
metadata: {name: visitor}
spec:
  destinationPort: 80
  rate: 200cps
  pools:
    clients: [{name: clients, first: 198.18.128.1, last: 198.18.128.250}]
    servers: [{name: nginx, first: 198.19.0.2, last: 198.19.0.2}]
  source:
    programs:
      transport: TCP
      client:
      - send: {content: {text: "GET / HTTP/1.1\r\nHost: nginx\r\nConnection: close\r\n\r\n"}}
      - waitForPeerClose: {}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: nginx}
spec:
  generatorRef: {name: edge}
  traffic:
  - {name: visitor, templateRef: {name: visitor}, transmitPort: east}
  duration: 4s
  drain: 3s
  generatorTolerance: {late: 100%, txDropped: 25%}
  thresholds:
  - {name: all-answered, expression: 'result.flows.failed == 0 && result.flows.connects == result.flows.attempts'}
  - {name: whole-pages, expression: 'result.templates["visitor"].client.bytesReceived > 20000 * result.flows.connects'}
`)
	run := passed(t, ns, "nginx")
	result := templateOf(t, run, "visitor")
	if result.Server != nil {
		t.Errorf("the servers are real, and there is a server side: %+v", result.Server)
	}
	settled(t, "visitors", result.Client, 800-run.Status.Result.Flows.NotBegun)
	served := strconv.FormatInt(result.Client.Connects+1, 10) // and the one that asked whether it is there
	until(t, 15*time.Second, "nginx has logged "+served+" visits", func(ctx context.Context) (bool, string) {
		out, err := inPeer(ctx, ns, "nginx", "grep", "-c", `" 200 20000 "`, "/tmp/access.log")
		return err == nil && out == served, out
	})
}

func TestCurlAtOurServers(t *testing.T) {
	ns := namespace(t)
	mustApply(t, ns, demo(t, "network.yaml"))
	mustApply(t, ns, edge("west", "198.19.0.2", "198.19.0.1"))
	condition(t, 60*time.Second, generatorNamed(ns, "edge"), spate.ConditionReady, metav1.ConditionTrue)
	mustApply(t, ns, `
apiVersion: spate.dev/v1alpha1
kind: ASTFTemplate
metadata: {name: site}
spec:
  destinationPort: 80
  rate: 1cps
  pools:
    servers: [{name: servers, first: 198.19.128.1, last: 198.19.131.254}]
  source:
    programs:
      transport: TCP
      server:
      - receive: {bytes: 60}
      - send: {content: {text: "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\nConnection: close\r\n\r\n"}}
      - send: {content: {size: 20000}}
      - waitForPeerClose: {}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: site}
spec:
  generatorRef: {name: edge}
  traffic:
  - {name: site, templateRef: {name: site}, receivePort: west}
  thresholds:
  - {name: nothing-failed, expression: 'result.templates["site"].server.failed == 0 && result.flows.connects == 100'}
`)
	site := profileNamed(ns, "site")
	phase(t, 30*time.Second, site, spate.ProfileRunning)
	mustApply(t, ns, peerNetwork("east", "198.18.0.2", "198.18.0.1")+peer("curl", "east", `
		curl --silent --show-error --fail --max-time 20 --parallel --parallel-max 20 -o /dev/null \
			-w '%{http_code} %{size_download}\n' 'http://198.19.[128-131].[10-34]/' 2>/dev/null | sort | uniq -c`))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "curl"}}
	until(t, 60*time.Second, "curl has ended", func(ctx context.Context) (bool, string) {
		err := get(ctx, pod)
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed, fmt.Sprint(pod.Status.Phase, " ", err)
	})
	out, err := exec.CommandContext(t.Context(), "kubectl", "logs", "-n", ns, "curl").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "100 200 20000" {
		t.Errorf("curl says %q, %v; want 100 answers of 20000 bytes", out, err)
	}
	if err := kube.Patch(t.Context(), site, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))); err != nil {
		t.Fatal(err)
	}
	run := complete(t, 30*time.Second, site)
	if v := run.Status.Verdict; v == nil || v.Outcome != spate.VerdictPassed {
		t.Errorf("verdict %+v", v)
	}
	result := templateOf(t, run, "site")
	if result.Client != nil {
		t.Errorf("the clients are real, and there is a client side: %+v", result.Client)
	}
	settled(t, "servers", result.Server, 100)
}
