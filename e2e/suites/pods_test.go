// SPDX-License-Identifier: Apache-2.0

// One profile on several pods on one link: each pod has clients and servers of its own, and flows go between all of them;
// or clients are on the pods of one group, and servers on those of another. Each pod records the ends of its flows on a
// shared volume, and streams them live.

package suites

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// twoPods are on a bridge of the node with both ports. Neither five clients nor three servers divide equally between
// them.
const twoPods = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: records}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: span}
spec:
  config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "span0"}'
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: two}
spec:
  replicas: 2
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  volumes: [{name: results, persistentVolumeClaim: {claimName: records}, writable: true}]
  ports:
  - {name: east, attachment: {kernel: {network: span}}, addresses: [10.211.0.1/16]}
  - {name: west, attachment: {kernel: {network: span}}, addresses: [10.211.1.1/16]}
---
apiVersion: spate.dev/v1alpha1
kind: ASTFTemplate
metadata: {name: echo}
spec:
  destinationPort: 7
  connectionRate: 150cps
  pools:
    clients: [{name: clients, start: 10.211.16.1, end: 10.211.16.5}]
    servers: [{name: servers, start: 10.211.32.1, end: 10.211.32.3, order: Random, seed: 7}]
  source:
    programs:
      transport: TCP
      client:
      - send: {content: {size: 1000}}
      - receive: {bytes: 1000}
      server:
      - receive: {bytes: 1000}
      - send: {content: {size: 1000}}
      - waitForPeerClose: {}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: echo}
spec:
  generatorRef: {name: two}
  traffic:
  - {name: echo, application: {templateRef: {name: echo}}}  # from the first port to the second
  records: {volume: results}
  duration: 4s
  drain: 3s
  generatorTolerance: {late: 100%, txDropped: 25%}
  thresholds:
  - {name: none-failed, expression: 'result.flows.failed == 0 && result.flows.established == result.flows.attempted'}
`

// clientsAndServers are pods of two groups on one bridge of the node, with one port each.
const clientsAndServers = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: apart}
spec:
  config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "apart0"}'
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: apart}
spec:
  replicas: 3
  podGroups: [{name: clients, replicas: 1}, {name: servers, replicas: 2}]
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  ports: [{name: link, attachment: {kernel: {network: apart}}, addresses: [10.212.0.1/16]}]
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: apart}
spec:
  generatorRef: {name: apart}
  duration: 4s
  drain: 3s
  generatorTolerance: {late: 100%, txDropped: 25%}
  traffic:
  - name: web
    transmitPort: link
    transmitPodGroup: clients
    receivePort: link
    receivePodGroup: servers
    application:
      inline:
        connectionRate: 150cps
        pools:
          clients: [{name: clients, start: 10.212.16.1, count: 5}]
          servers: [{name: servers, start: 10.212.32.1, count: 3}]
        source: {http: {responseBytes: 2048}}
  thresholds:
  - {name: none-failed, expression: 'result.flows.failed == 0 && result.flows.established == result.flows.attempted'}
`

func TestClientsOnOneGroupOfPodsAndServersOnAnother(t *testing.T) {
	needsRig(t, theMultus)
	ns := namespace(t)
	mustApply(t, ns, clientsAndServers)
	g := generatorNamed(ns, "apart")
	condition(t, 60*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
	run := passed(t, ns, "apart")
	side := templateOf(t, run, "web")
	started := 600 - run.Status.Result.Flows.NotStarted
	settled(t, "clients", side.Client, started)
	settled(t, "servers", side.Server, started)
	if side.Client.BytesReceived != side.Server.BytesSent || side.Client.BytesSent != side.Server.BytesReceived {
		t.Errorf("clients %+v, servers %+v", side.Client.FlowCounters, side.Server.FlowCounters)
	}
	// The first and the third server are the first's of the two pods with servers.
	pods := run.Status.Resolved.Generator.Pods
	if run.Status.Result.Flows.NotStarted == 0 {
		for role, want := range map[string]map[string]int64{"client": {pods[0].Name: 600}, "server": {pods[1].Name: 400, pods[2].Name: 200}} {
			if got := countedBy(t, "pod", "spate_template_flows_established_total", fmt.Sprintf("role=%q", role), run); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("connections by the pods of %ss: %v, want %v", role, got, want)
			}
		}
	}
}

func TestPoolsOverTwoPods(t *testing.T) {
	needsRig(t, theNodesFiles)
	ns := namespace(t)
	provision(t, ns, "records")
	viewer, reader := userOf(t, ns, "spate-viewer"), userOf(t, ns, "spate-records-reader")
	mustApply(t, ns, twoPods)
	condition(t, 60*time.Second, generatorNamed(ns, "two"), spate.ConditionReady, metav1.ConditionTrue)
	phase(t, 30*time.Second, profileNamed(ns, "echo"), spate.ProfileRunning)
	live := readLive(t, "echo", viewer, reader)
	run := passed(t, ns, "echo")
	side := templateOf(t, run, "echo")
	started := 600 - run.Status.Result.Flows.NotStarted
	settled(t, "clients", side.Client, started)
	settled(t, "servers", side.Server, started)
	pods := run.Status.Resolved.Generator.Pods
	// Each pod starts half of the connections, whatever its number of clients. The first and the third server are the
	// first pod's.
	if run.Status.Result.Flows.NotStarted == 0 {
		for role, want := range map[string]map[string]int64{"client": {pods[0].Name: 300, pods[1].Name: 300}, "server": {pods[0].Name: 400, pods[1].Name: 200}} {
			if got := countedBy(t, "pod", "spate_template_flows_established_total", fmt.Sprintf("role=%q", role), run); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("connections by the pods of %ss: %v, want %v", role, got, want)
			}
		}
	}
	recorded(t, run, 2)
	for _, pod := range run.Status.Result.Records.Pods {
		if live[pod.Pod] == 0 || live[pod.Pod] > pod.Written {
			t.Errorf("%d records of pod %s were delivered live, and it has written %d", live[pod.Pod], pod.Pod, pod.Written)
		}
	}
	t.Run("a pod without a client of its own", func(t *testing.T) {
		mustApply(t, ns, strings.NewReplacer("end: 10.211.16.5", "end: 10.211.16.1", "  duration: 4s", "  runID: alone\n  duration: 4s").Replace(twoPods))
		refused := condition(t, 20*time.Second, profileNamed(ns, "echo"), spate.ConditionReady, metav1.ConditionFalse)
		expect(t, refused, spate.ReasonInvalidSpec, "spec.pools.clients[0] has 1 addresses for the 2 pods of generator two")
	})
}
