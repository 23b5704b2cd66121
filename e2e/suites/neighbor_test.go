// SPDX-License-Identifier: Apache-2.0

// A next hop that has another MAC in mid-run: the kernel's bridge is the next hop, and its MAC changes.

package suites

import (
	"context"
	"fmt"
	"maps"
	"net"
	"sync/atomic"
	"testing"
	"time"

	spate "spate.dev/api/v1alpha1"
)

// The MACs of the bridge pinged0, before and after. Neither is that of a port of the bridge, at which the kernel would receive too.
const (
	firstMAC  = "02:53:00:00:07:01"
	secondMAC = "02:53:00:00:07:02"
)

// toTheBridge sends to the bridge's address from both pods, at the MAC that is resolved.
const toTheBridge = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: followed}
spec:
  generatorRef: {name: pinger}
  duration: 10m
  generatorTolerance: {late: 100%}
  traffic:
  - name: udp
    transmitPort: east
    stream:
      inline:
        packet:
          headers:
          - ethernet: {}
          - ipv4: {source: 198.18.7.1, destination: 198.18.7.254}
          - udp: {sourcePort: 1000, destinationPort: 5000}
          size: 128
        transmit: {continuous: {rate: 1kpps}}
`

// followsTheBridge fails unless a run's packets arrive at the bridge's new MAC after it has changed, and each pod has counted that.
func followsTheBridge(t *testing.T, ns string, pods []string) {
	arrived := countDatagrams(t, "198.18.7.254:5000")
	moves := func() map[string]int64 { return movesByPod(t, ns) }
	before := moves()
	if len(before) != len(pods) {
		t.Fatalf("moves counted by pods %v, want those of %v", before, pods)
	}
	mustApply(t, ns, toTheBridge)
	p := profileNamed(ns, "followed")
	phase(t, 30*time.Second, p, spate.ProfileRunning)
	until(t, 10*time.Second, "packets arrive at the first MAC", func(context.Context) (bool, string) {
		n := arrived.Load()
		return n > 100, fmt.Sprint(n, " packets")
	})
	// A neighbor that was heard within the last second is not replaced at once.
	time.Sleep(1500 * time.Millisecond)
	// The kernel announces its new MAC (gratuitous ARP), and receives no frames to the former one.
	runAll(t, "ip link set dev pinged0 address "+secondMAC)
	// More than the socket can have stored of what came before.
	const moreThanStored = 1000
	at := arrived.Load()
	until(t, 10*time.Second, "packets arrive at the second MAC", func(context.Context) (bool, string) {
		n := arrived.Load()
		return n > at+moreThanStored, fmt.Sprintf("%d packets before the change and %d in all", at, n)
	})
	want := map[string]int64{}
	for _, pod := range pods {
		want[pod] = before[pod] + 1
	}
	until(t, 10*time.Second, "each pod has counted that its next hop moved", func(context.Context) (bool, string) {
		have := moves()
		return maps.Equal(have, want), fmt.Sprintf("%v, want %v", have, want)
	})
	if err := kube.Delete(t.Context(), p); err != nil {
		t.Error(err)
	}
}

// movesByPod returns how often a neighbor of the port had another MAC, by pod.
func movesByPod(t *testing.T, ns string) map[string]int64 {
	t.Helper()
	samples, err := query(t.Context(), fmt.Sprintf(`spate_port_neighbor_moves_total{namespace=%q,port="east"}`, ns))
	if err != nil {
		t.Fatal(err)
	}
	moves := map[string]int64{}
	for _, s := range samples {
		moves[s.labels["pod"]] = int64(s.value)
	}
	return moves
}

// countDatagrams counts the datagrams that the node's kernel delivers to an address and UDP port of its own, until the test ends.
func countDatagrams(t *testing.T, address string) *atomic.Int64 {
	t.Helper()
	socket, err := net.ListenPacket("udp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	count := new(atomic.Int64)
	go func() {
		buffer := make([]byte, 2048)
		for {
			if _, _, err := socket.ReadFrom(buffer); err != nil {
				return // closed
			}
			count.Add(1)
		}
	}()
	return count
}
