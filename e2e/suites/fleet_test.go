// SPDX-License-Identifier: Apache-2.0

// A fleet over two nodes: pods that the scheduler spreads send the packets of one, byte for byte, as captured through the operator. One of the
// nodes is the emulated machine of make e2e-sriov, which is slow: what is compared are packets, not when they were sent.

package suites

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// spreadPackets is how many packets a run has.
const spreadPackets = 300

// spreadGenerator has pods with a loopback port, which has a queue for each worker, as even over the nodes as can be.
func spreadGenerator(name string, replicas, workers int) string {
	return fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  workers: %[3]d
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  podTemplate:
    spec:
      tolerations: [{key: spate.dev/emulated, operator: Exists}]
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {spate.dev/generator: %[1]s}}}
  ports: [{name: loop, lineRate: 10Gbps, attachment: {loopback: {}}}]
`, name, replicas, workers)
}

// spreadProfile varies a port in order, an address at random by a seed, and a DSCP by a list that carries to another list. Its packets have no
// trailer, so that their bytes do not depend on the worker that sends them.
func spreadProfile(generator string) string {
	return fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: %[1]s}
spec:
  generatorRef: {name: %[1]s}
  duration: 5s
  drain: 3s
  generatorTolerance: {late: 100%%}
  traffic:
  - name: varied
    transmitPort: loop
    stream:
      inline:
        packet:
          headers:
          - ethernet: {source: "02:00:00:00:00:17", destination: "02:00:00:00:00:18"}
          - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
          - udp: {sourcePort: 1000, destinationPort: 2000}
          size: 128
        fields:
        - {name: port, range: {start: 1000, end: 1200}, writes: [{field: udp.sourcePort}]}
        - {name: client, range: {start: 198.19.0.0, end: 198.19.255.255}, order: Random, seed: 17, writes: [{field: ipv4.destination}]}
        - {name: class, values: [0, 46, 10, 34, 18], carryTo: server, writes: [{field: ipv4.dscp}]}
        - {name: server, values: [53, 80, 443], writes: [{field: udp.destinationPort}]}
        transmit: {burst: {packets: %[2]d, rate: 100pps}}
  thresholds: [{name: all-sent, expression: result.tx == %[2]d}]
`, generator, spreadPackets)
}

func TestSRIOVFleetOverTwoNodesSendsThePacketsOfOne(t *testing.T) {
	needsVFs(t)
	t.Parallel()
	ns := namespace(t)
	mustApply(t, ns, spreadGenerator("single", 1, 1)+"---"+spreadGenerator("fleet", 3, 2))
	fleet := generatorNamed(ns, "fleet")
	for _, g := range []*spate.TrafficGenerator{generatorNamed(ns, "single"), fleet} {
		condition(t, 5*time.Minute, g, spate.ConditionReady, metav1.ConditionTrue)
	}
	nodes := map[string]int{}
	for _, pod := range fleet.Status.Pods {
		nodes[pod.Node]++
	}
	if len(nodes) != 2 || len(fleet.Status.Pods) != 3 || nodes[sriovNode] == 0 {
		t.Fatalf("pods by node: %v", nodes)
	}
	// Both at once: what is compared does not depend on time.
	ofSingle, ofFleet := spreadCapture(t, ns, "single"), spreadCapture(t, ns, "fleet")
	for _, name := range []string{"single", "fleet"} {
		mustApply(t, ns, spreadProfile(name))
	}
	for _, name := range []string{"single", "fleet"} {
		p := profileNamed(ns, name)
		complete(t, 3*time.Minute, p)
		condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionTrue)
	}
	time.Sleep(5 * time.Second) // for what is on its way
	one, three := ofSingle(), ofFleet()
	if len(one) != 1 || len(three) != 3 {
		t.Errorf("%d pods and %d pods have sent", len(one), len(three))
	}
	want, got := allOf(one), allOf(three)
	if len(want) != spreadPackets || len(slices.Compact(slices.Clone(want))) < spreadPackets-5 {
		t.Fatalf("one pod sent %d packets, want %d that differ", len(want), spreadPackets)
	}
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("packet %d of %d (three pods: %d) differs:\n%s, of one pod\n%s, of three", i, len(want), len(got), append(want, "none")[min(i, len(want))], append(got, "none")[min(i, len(got))])
		}
	}
	t.Logf("%d packets are the same, of three pods by node: %v", len(got), nodes)
}

func allOf(byPod map[string][]string) (all []string) {
	for _, packets := range byPod {
		all = append(all, packets...)
	}
	slices.Sort(all)
	return all
}

// spreadCapture captures what the pods of a generator send, until the function that it returns is called: that returns all bytes of the
// packets, as hex digits by the pod's port.
func spreadCapture(t *testing.T, ns, generator string) func() map[string][]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), generator+".pcapng")
	plugin := exec.CommandContext(t.Context(), filepath.Join(root, "build/out/kubectl-spate"), "capture", generator, "-n", ns, "--port", "loop", "--direction", "tx", "--filter", "ether src 02:00:00:00:00:17", "-w", file)
	stderr, err := plugin.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	printed := bufio.NewScanner(stderr)
	if !printed.Scan() || !strings.HasPrefix(printed.Text(), "capturing: ") {
		t.Fatalf("kubectl spate capture: %q, %v", printed.Text(), printed.Err())
	}
	return func() map[string][]string {
		t.Helper()
		if err := plugin.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		for printed.Scan() {
			t.Log(printed.Text())
			if !strings.HasSuffix(printed.Text(), "; missed 0 packets") {
				t.Errorf("kubectl spate capture: %s", printed.Text())
			}
		}
		if err := plugin.Wait(); err != nil {
			t.Fatal(err)
		}
		return framesIn(t, file)
	}
}

// framesIn returns the packets in a file as hex digits, by the name of their interface.
func framesIn(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "tshark", "-r", file, "-T", "json", "-x", "-J", "frame").Output()
	if err != nil {
		t.Fatal(err)
	}
	var packets []struct {
		Source struct {
			Layers struct {
				Raw   []any `json:"frame_raw"`
				Frame struct {
					Interface struct {
						Name string `json:"frame.interface_name"`
					} `json:"frame.interface_id_tree"`
				} `json:"frame"`
			} `json:"layers"`
		} `json:"_source"`
	}
	if err := json.Unmarshal(text, &packets); err != nil {
		t.Fatal(err)
	}
	byPort := map[string][]string{}
	for _, p := range packets {
		port := p.Source.Layers.Frame.Interface.Name
		byPort[port] = append(byPort[port], fmt.Sprint(p.Source.Layers.Raw[0]))
	}
	return byPort
}
