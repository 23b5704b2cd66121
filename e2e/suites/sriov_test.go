// SPDX-License-Identifier: Apache-2.0

// Virtual functions under a real kubelet: its CPU, memory, topology and device managers, the SR-IOV network device plugin and Multus give
// a generator two functions of two NICs, which are wired to each other, and CPUs and huge pages of their NUMA node. The node is an
// emulated machine (make e2e-sriov), about 20 times slower than a real one: what is asserted is which packets arrive, not how fast.

package suites

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

const sriovNode = "sriov-node"

// needsVFs skips a test where no node has virtual functions.
func needsVFs(t *testing.T) {
	t.Helper()
	if os.Getenv("SPATE_SRIOV") == "" {
		t.Skip("no node has virtual functions (make e2e-sriov brings one)")
	}
}

// virtualFunctions are two networks, each of one NIC, and a generator with a port on each: two whole cores, of which the engine uses a thread each, and 128 MiB of huge pages.
// Its worker sleeps when idle: one that polls takes half of the time of all emulated CPUs. That of the resource claim polls.
const virtualFunctions = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: east, annotations: {k8s.v1.cni.cncf.io/resourceName: spate.dev/east}}
spec: {config: '{"cniVersion": "1.0.0", "name": "east", "type": "host-device"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: west, annotations: {k8s.v1.cni.cncf.io/resourceName: spate.dev/west}}
spec: {config: '{"cniVersion": "1.0.0", "name": "west", "type": "host-device"}'}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: vf}
spec:
  pollMode: Adaptive
  workers: 1
  threadsPerCore: 1
  packetMemory: {size: 128Mi}
  podTemplate:
    spec:
      tolerations: [{key: spate.dev/emulated, operator: Exists}]
  ports:
  - {name: east, attachment: {sriov: {network: east}}, addresses: [198.18.0.1/15], lineRate: 1Gbps}
  - {name: west, attachment: {sriov: {network: west}}, addresses: [198.19.0.1/15], lineRate: 1Gbps}
`

const virtualTraffic = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: packets}
spec:
  generatorRef: {name: vf}
  duration: 5s
  drain: 3s
  generatorTolerance: {late: 100%, txDropped: 0%}
  traffic:
  - name: imix
    stream:
      inline:
        packet:
          headers:
          - ethernet: {}
          - ipv4: {source: 198.18.0.2, destination: 198.19.0.1}
          - udp: {sourcePort: 1024, destinationPort: 7}
          imix: Simple
        transmit: {continuous: {rate: 500pps}}
        measure: {flow: true}
  thresholds: [{name: no-loss, expression: result.lost == 0}]
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: connections}
spec:
  generatorRef: {name: vf}
  duration: 5s
  drain: 5s
  generatorTolerance: {late: 100%, txDropped: 0%}
  traffic:
  - name: http
    application:
      inline:
        connectionRate: 20cps
        pools:
          clients: [{name: clients, start: 198.18.1.1, end: 198.18.1.20}]
          servers: [{name: servers, start: 198.19.1.1, end: 198.19.1.4}]
        source: {http: {responseBytes: 4096}}
  thresholds: [{name: none-failed, expression: result.flows.failed == 0 && result.flows.established == result.flows.attempted}]
`

func TestSRIOVFunctionsUnderAKubelet(t *testing.T) {
	needsVFs(t)
	t.Parallel() // beside the fleet, which has no CPU of its own
	ns := namespace(t)
	mustApply(t, ns, virtualFunctions)
	startNodeShell(t, ns) // while the engine starts
	g := generatorNamed(ns, "vf")
	condition(t, 5*time.Minute, g, spate.ConditionReady, metav1.ConditionTrue)
	pod := g.Status.Pods[0]
	if pod.Node != sriovNode {
		t.Fatalf("the pod is on node %s", pod.Node)
	}
	for _, port := range pod.Ports {
		// The host has given the virtual functions these addresses.
		mac := map[string]string{"east": "02:00:00:00:04:01", "west": "02:00:00:00:04:02"}[port.Name]
		if port.Kind != spate.PortPCI || port.MAC != mac || port.Driver != "net_e1000_igb_vf" || !port.LinkUp {
			t.Errorf("port %+v, want the virtual function %s", port, mac)
		}
		t.Logf("port %s: %s, driver %s, %s", port.Name, port.Device, port.Driver, port.LineRate)
	}
	t.Run("CPUs and huge pages are of the NUMA node of the devices", func(t *testing.T) { onNUMANode1(t, ns, pod.Name) })
	if said := doctor(t, ns, "vf"); !strings.Contains(said, "device 0000:41:10.0 on node 1, CPU") ||
		!strings.Contains(said, "nothing uses the other thread of the core") || strings.Contains(said, "  Error  ") {
		t.Errorf("kubectl spate doctor: %s", said)
	}

	mustApply(t, ns, virtualTraffic)
	run := vfPassed(t, ns, "packets")
	exact(t, run, "imix", 2500)
	if got := counted(t, "spate_stream_tx_packets_total", run); got["imix"] != 2500 {
		t.Errorf("packets that were scraped: %v", got)
	}
	run = vfPassed(t, ns, "connections")
	side := templateOf(t, run, "http")
	settled(t, "clients", side.Client, 100)
	settled(t, "servers", side.Server, 100)
	if got := countedBy(t, "role", "spate_template_flows_established_total", `role="client"`, run); got["client"] != 100 {
		t.Errorf("flows that were scraped: %v", got)
	}
}

// vfPassed waits until a profile's run passes.
func vfPassed(t *testing.T, ns, name string) *spate.TrafficRun {
	t.Helper()
	p := profileNamed(ns, name)
	run := complete(t, 3*time.Minute, p)
	condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionTrue)
	return run
}

// onNUMANode1 fails unless the CPUs and huge pages of a pod's engine are of NUMA node 1, which the functions are on.
func onNUMANode1(t *testing.T, ns, name string) {
	t.Helper()
	pod := podNamed(ns, name)
	if err := get(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	shell := nodeShell(t, ns)
	script := `for p in $(pidof spate-engine); do p=/proc/$p; grep -q pod` + string(pod.UID) + ` $p/cgroup || continue
cat $p/task/*/status | sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' | sort -u | paste -s -d ,; grep -h huge $p/numa_maps | grep -o 'N[0-9]*=[0-9]*' | sort | uniq -c; cat /sys/devices/system/node/node1/cpulist; done`
	out, err := inPod(t.Context(), ns, shell, "sh", "-c", script)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Log(out)
	lines := strings.Split(out, "\n")
	// CPUs of the control thread and of the worker.
	cpus, node := cpuList(t, lines[0]), cpuList(t, lines[len(lines)-1])
	// Threads of a core have adjacent numbers in this machine.
	if len(cpus) != 2 || !slices.Contains(node, cpus[0]) || !slices.Contains(node, cpus[1]) || cpus[0]/2 == cpus[1]/2 {
		t.Errorf("the engine has CPUs %v; node 1 has %v", cpus, node)
	}
	if !strings.Contains(out, "N1=") || strings.Contains(out, "N0=") {
		t.Errorf("huge pages by NUMA node: %s", out)
	}
}

// cpuList reads a list of the kernel, such as 0,3-5.
func cpuList(t *testing.T, text string) (cpus []int) {
	t.Helper()
	for _, part := range strings.Split(text, ",") {
		first, last, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil {
			t.Fatalf("%q is no list of CPUs", text)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// startNodeShell creates the pod that nodeShell waits for.
func startNodeShell(t *testing.T, ns string) {
	t.Helper()
	mustApply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: node-shell}
spec:
  nodeName: sriov-node
  hostPID: true
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  tolerations: [{operator: Exists}]
  containers:
  - {name: shell, image: 'localhost/spate/node:1', imagePullPolicy: Never, securityContext: {privileged: true}}
`)
}

// nodeShell returns the name of a pod with all rights on the emulated machine, which startNodeShell has created.
func nodeShell(t *testing.T, ns string) string {
	t.Helper()
	pod := podNamed(ns, "node-shell")
	until(t, 2*time.Minute, "the shell on the node runs", func(ctx context.Context) (bool, string) {
		err := get(ctx, pod)
		return err == nil && pod.Status.Phase == corev1.PodRunning, fmt.Sprintf("%+v %v", pod.Status, err)
	})
	return pod.Name
}
