// SPDX-License-Identifier: Apache-2.0

// Shared memory (memif) between two pods that mount the same claim of a local PersistentVolume. Each end receives exactly what the other sends;
// a server whose client is gone reports that it has no link, and takes the next one.

package suites

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

const memifClaim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: sockets}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---`

// memifEnd is a generator at one end of a socket.
func memifEnd(name, role, mac string) string {
	return fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: %[1]s}
spec:
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  volumes: [{name: sockets, writable: true, persistentVolumeClaim: {claimName: sockets}}]
  ports:
  - {name: wire, lineRate: 1Gbps, mac: %[2]q, attachment: {memif: {volume: sockets, socket: wire.sock, id: 7, role: %[3]s}}}
---`, name, mac, role)
}

const (
	serverMAC = "02:00:00:00:18:01"
	clientMAC = "02:00:00:00:18:02"
	// memifPackets is how many packets each end sends.
	memifPackets = 2000
)

// memifProfile sends from one end of a socket and counts what arrives there. The packets are sent in the middle of the run, so that all of
// them arrive within a run of the other end that starts up to 4 s before or after. Their MAC addresses are given: there is no ARP to count.
func memifProfile(name, from, to string) string {
	return fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: %[1]s}
spec:
  generatorRef: {name: %[1]s}
  duration: 10s
  drain: 1s
  generatorTolerance: {late: 100%%}
  receive: [{name: others, port: wire}]
  traffic:
  - name: udp
    transmitPort: wire
    stream:
      inline:
        packet:
          headers:
          - ethernet: {source: %[2]q, destination: %[3]q}
          - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
          - udp: {sourcePort: 1024, destinationPort: 7}
          size: 256
        startDelay: 4s
        transmit: {burst: {packets: %[4]d, rate: 1kpps}}
  thresholds: [{name: all, expression: 'result.tx == %[4]d && result.receivers["others"].packets == %[4]d'}]
---`, name, from, to, memifPackets)
}

func TestMemifBetweenTwoPods(t *testing.T) {
	t.Parallel()
	needsRig(t, theNodesFiles)
	ns := namespace(t)
	provision(t, ns, "sockets")
	mustApply(t, ns, memifClaim+memifEnd("server", "Server", serverMAC)+memifEnd("client", "Client", clientMAC))
	server, peer := generatorNamed(ns, "server"), generatorNamed(ns, "client")
	for _, g := range []*spate.TrafficGenerator{server, peer} {
		condition(t, 90*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
		if port := g.Status.Pods[0].Ports[0]; port.Kind != spate.PortMemif || !port.LinkUp || port.Driver != "net_memif" || !strings.HasSuffix(port.Device, "/sockets/wire.sock") {
			t.Errorf("%s: port %+v", g.Name, port)
		}
	}

	mustApply(t, ns, memifProfile("server", serverMAC, clientMAC)+memifProfile("client", clientMAC, serverMAC))
	for _, name := range []string{"server", "client"} {
		run := passed(t, ns, name)
		if r, other := run.Status.Result, receiverOf(t, run, "others"); r.Tx != memifPackets || r.TxDropped != 0 || other.Packets != memifPackets || other.Bytes != memifPackets*256 {
			t.Errorf("%s: %d sent, %d dropped, %d packets of %d bytes received; want %d each of 256 bytes", name, r.Tx, r.TxDropped, other.Packets, other.Bytes, memifPackets)
		}
	}

	// The client's pod is deleted in mid-run, and its generator starts another when the server has reported that.
	mustApply(t, ns, strings.NewReplacer("metadata: {name: server}", "metadata: {name: interrupted}", "startDelay: 4s", "startDelay: 0s",
		fmt.Sprintf("{burst: {packets: %d, rate: 1kpps}}", memifPackets), "{continuous: {rate: 100pps}}", "duration: 10s", "duration: 10m").Replace(memifProfile("server", serverMAC, clientMAC)))
	interrupted := profileNamed(ns, "interrupted")
	phase(t, 45*time.Second, interrupted, spate.ProfileRunning)
	suspended := func(value string) string {
		return strings.Replace(memifEnd("client", "Client", clientMAC), "  cpuPolicy: Shared", "  suspend: "+value+"\n  cpuPolicy: Shared", 1)
	}
	mustApply(t, ns, suspended("true"))
	readyReason(t, 30*time.Second, server, spate.ReasonPortDown, "port wire", "wire.sock", "has no link")
	mustApply(t, ns, suspended("false"))
	condition(t, 60*time.Second, peer, spate.ConditionReady, metav1.ConditionTrue)
	condition(t, 20*time.Second, server, spate.ConditionReady, metav1.ConditionTrue)
	// What the server sends now arrives at the new client.
	mustApply(t, ns, "apiVersion: spate.dev/v1alpha1\nkind: TrafficProfile\nmetadata: {name: after}\nspec:\n  generatorRef: {name: client}\n  duration: 1s\n  receive: [{name: others, port: wire}]\n"+
		"  thresholds: [{name: heard, expression: 'result.receivers[\"others\"].packets > 50'}]\n")
	passed(t, ns, "after")
	if err := kube.Delete(t.Context(), interrupted); err != nil {
		t.Error(err)
	}
}
