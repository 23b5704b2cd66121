// SPDX-License-Identifier: Apache-2.0

// Live capture: a user with no other right sees the packets of a running profile's port, in a file and in a pipe that
// tshark reads; nobody else does.

package suites

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

// bothWays sends from either port of a pod to the other, through a bridge of the node.
const bothWays = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: span}
spec:
  config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "span0"}'
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: lab}
spec:
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  ports:
  - {name: east, attachment: {kernel: {network: span}}}
  - {name: west, attachment: {kernel: {network: span}}}
---
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: udp}
spec:
  packet:
    headers:
    - ethernet: {destination: "02:00:00:00:00:99"} # no station: the bridge floods it
    - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
    - udp: {sourcePort: 1000, destinationPort: 2000}
    size: 256
  transmit: {continuous: {rate: 500pps}}
---
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: other}
spec:
  packet:
    headers:
    - ethernet: {destination: "02:00:00:00:00:99"} # no station: the bridge floods it
    - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
    - udp: {sourcePort: 1000, destinationPort: 2001}
    size: 256
  transmit: {continuous: {rate: 500pps}}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: busy}
spec:
  generatorRef: {name: lab}
  traffic:
  - {name: there, transmitPort: east, stream: {ref: {name: udp}}}
  - {name: back, transmitPort: west, stream: {ref: {name: udp}}}
  - {name: other, transmitPort: east, stream: {ref: {name: other}}}
  duration: 2m
`

func TestPacketsAreCapturedLive(t *testing.T) {
	needsRig(t, theMultus)
	ns := namespace(t)
	viewer, capturer := userOf(t, ns, "spate-viewer"), userOf(t, ns, "spate-capturer")
	mustApply(t, ns, bothWays)
	condition(t, 60*time.Second, generatorNamed(ns, "lab"), spate.ConditionReady, metav1.ConditionTrue)
	phase(t, 30*time.Second, profileNamed(ns, "busy"), spate.ProfileRunning)
	capture := func(user string, args ...string) (string, error) {
		return script("build/out/kubectl-spate", append([]string{"capture", "lab", "--kubeconfig", user}, args...)...)
	}

	_, err := capture(viewer, "--port", "east", "--count", "1", "-w", "-")
	if err == nil || !strings.Contains(err.Error(), "forbidden") || !strings.Contains(err.Error(), "bind the ClusterRole spate-capturer in namespace "+ns) {
		t.Errorf("a viewer got %v", err)
	}
	if _, err = script("build/out/kubectl-spate", "records", "busy", "--kubeconfig", capturer); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("one who may capture reads records: %v", err)
	}

	text, err := script("build/out/kubectl-spate", "top", "lab", "--once", "-o", "json", "--kubeconfig", viewer) // which a viewer may read
	var counters struct {
		Ports, Streams []struct {
			Port, Stream string
			Rate         float64 `json:"txPacketsPerSecond"`
		}
		Workers []struct {
			Ports string
			Busy  *float64
		}
	}
	if err != nil || json.Unmarshal([]byte(text), &counters) != nil || len(counters.Ports) != 2 || counters.Ports[0].Port != "lab-0/east" || counters.Ports[0].Rate < 500 ||
		len(counters.Streams) != 3 || len(counters.Workers) == 0 || counters.Workers[0].Ports == "-" || counters.Workers[0].Busy == nil {
		t.Errorf("%v, %s", err, text)
	}

	file := filepath.Join(t.TempDir(), "east.pcapng")
	if _, err := capture(capturer, "--port", "east", "--filter", "udp dst port 2000", "--snaplen", "64", "--count", "400", "-w", file); err != nil {
		t.Fatal(err)
	}
	fields := []string{"-T", "fields", "-e", "frame.interface_name", "-e", "frame.packet_flags_direction", "-e", "udp.dstport", "-e", "frame.len", "-e", "frame.cap_len", "-e", "frame.time_delta"}
	dissected, err := exec.CommandContext(t.Context(), "tshark", append([]string{"-r", file}, fields...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	pod := "lab-0"
	seen := map[string]int{}
	for line := range strings.Lines(string(dissected)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 6 || f[0] != pod+"/east" || f[2] != "2000" || f[3] != "252" || f[4] != "64" {
			t.Fatalf("got %q", line)
		}
		seen[f[1]]++
	}
	if received, sent := seen["0x00000001"], seen["0x00000002"]; received+sent != 400 || received < 100 || sent < 100 {
		t.Errorf("by direction: %v", seen)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	plugin := exec.CommandContext(ctx, filepath.Join(root, "build/out/kubectl-spate"), "capture", "lab", "--port", "east,west", "--kubeconfig", capturer, "-w", "-")
	tshark := exec.CommandContext(ctx, "tshark", append([]string{"-l", "-i", "-", "-c", "1000"}, fields...)...)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	plugin.Stdout, tshark.Stdin = write, read
	lines, err := tshark.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	plugin.Stderr = &said
	if err := errors.Join(plugin.Start(), tshark.Start(), read.Close(), write.Close()); err != nil { // only the two processes have the pipe open
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { err = plugin.Wait(); close(ended) }()
	ports := map[string]int{}
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		select {
		case <-ended:
			if len(ports) == 0 {
				t.Errorf("tshark's first line came after the capture's end: %v, %s", err, said.String())
			}
		default:
		}
		f := strings.Split(scanner.Text(), "\t")
		ports[f[0]+" "+f[2]]++
	}
	if failed := tshark.Wait(); failed != nil {
		t.Error(failed)
	}
	// When the pipe's reader is gone, the plugin ends without an error.
	if <-ended; err != nil || !strings.Contains(said.String(), pod+"/west: captured ") {
		t.Errorf("%v: %s", err, said.String())
	}
	for _, want := range []string{pod + "/east 2000", pod + "/east 2001", pod + "/west 2000", pod + "/west 2001"} {
		if ports[want] == 0 {
			t.Errorf("tshark saw no packets of %s: %v", want, ports)
		}
	}
	until(t, 20*time.Second, "no capture is left", func(ctx context.Context) (bool, string) {
		var left spate.TrafficCaptureList
		err := kube.List(ctx, &left, client.InNamespace(ns))
		return err == nil && len(left.Items) == 0, strconv.Itoa(len(left.Items))
	})
	if p := profileNamed(ns, "busy"); get(t.Context(), p) != nil || p.Status.Phase != spate.ProfileRunning {
		t.Errorf("the run is %s", p.Status.Phase)
	}
}
