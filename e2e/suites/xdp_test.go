// SPDX-License-Identifier: Apache-2.0

// Ports on AF_XDP sockets in a pod: with the rights that the operator gives it under the runtime's default seccomp profile, and without
// a file of the node.

package suites

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// byXDP sends from either port of a pod to the other, through a bridge of the node.
const byXDP = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: redirected}
spec:
  config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "xdp0"}'
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: xdp}
spec:
  cpuPolicy: Shared
  packetMemory: {backing: Standard}
  ports:
  - {name: east, mac: "02:00:00:00:ea:5d", attachment: {kernel: {network: redirected, socketFamily: AFXDP}}}
  - {name: west, mac: "02:00:00:00:3e:5d", attachment: {kernel: {network: redirected, socketFamily: AFXDP}}}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: packets}
spec:
  generatorRef: {name: xdp}
  duration: 3s
  drain: 1s
  generatorTolerance: {late: 100%}
  traffic:
  - name: there
    transmitPort: east
    receivePort: west
    stream:
      inline:
        packet:
          headers:
          - ethernet: {destination: "02:00:00:00:3e:5d"}
          - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
          - udp: {sourcePort: 1000, destinationPort: 2000}
          size: 256
        transmit: {continuous: {rate: 1kpps}}
        measure: {flow: true}
  - name: back
    transmitPort: west
    receivePort: east
    stream:
      inline:
        packet:
          headers:
          - ethernet: {destination: "02:00:00:00:ea:5d"}
          - ipv4: {source: 198.19.0.1, destination: 198.18.0.1}
          - udp: {sourcePort: 2000, destinationPort: 1000}
          size: 1000
        transmit: {continuous: {rate: 1kpps}}
        measure: {flow: true}
  thresholds: [{name: all, expression: result.rx == 6000 && result.lost == 0}]
`

func TestPortsByAFXDPReceiveAllThatIsSent(t *testing.T) {
	needsRig(t, theMultus)
	ns := namespace(t)
	mustApply(t, ns, byXDP)
	g := generatorNamed(ns, "xdp")
	condition(t, 90*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
	for _, port := range g.Status.Pods[0].Ports {
		if port.Kind != spate.PortKernel || port.Driver != "net_af_xdp" || port.XDP == nil || port.XDP.CopyMode != spate.XDPCopy {
			t.Errorf("port %+v is no AF_XDP socket that copies", port)
		}
	}
	expect(t, condition(t, 10*time.Second, g, spate.ConditionMeasurementReady, metav1.ConditionFalse), spate.ReasonSharedResources, "port east: the kernel copies its packets (AF_XDP")
	p := profileNamed(ns, "packets")
	complete(t, 60*time.Second, p)
	condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionTrue)

	t.Run("an interface whose packets do not fit into a page", func(t *testing.T) {
		mustApply(t, ns, strings.NewReplacer(`"bridge": "xdp0"`, `"bridge": "xdp1", "mtu": 9000`, "name: redirected", "name: jumbo", "network: redirected", "network: jumbo",
			"metadata: {name: xdp}", "metadata: {name: jumbo}", "generatorRef: {name: xdp}", "generatorRef: {name: jumbo}", "metadata: {name: packets}", "metadata: {name: none}").Replace(byXDP))
		var refused metav1.Condition
		until(t, 90*time.Second, "the pod has failed", func(ctx context.Context) (bool, string) {
			g := generatorNamed(ns, "jumbo")
			if err := get(ctx, g); err != nil {
				return false, err.Error()
			}
			if ready := meta.FindStatusCondition(g.Status.Conditions, spate.ConditionReady); ready != nil {
				refused = *ready
			}
			return refused.Reason == spate.ReasonPodFailed, refused.Message
		})
		expect(t, refused, spate.ReasonPodFailed, "by AF_XDP failed: its MTU is 9000")
	})
}
