// SPDX-License-Identifier: Apache-2.0

// Ports on PCI functions of a resource claim: a driver (e2e/dra) publishes the addresses of functions that are bound to vfio-pci, the
// scheduler allocates two of them, the container runtime gives the pod their IOMMU groups by CDI, and the engine sends from one to the other.

package suites

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

const claimingFunctions = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: functions}
spec: {spec: {devices: {
  requests: [{name: vf, exactly: {deviceClassName: functions.e2e.spate.dev, count: 2}}],
  constraints: [{requests: [vf], matchAttribute: resource.kubernetes.io/pcieRoot}]}}}
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
  - {name: east, attachment: {resourceClaim: {resourceClaimTemplateName: functions}}, addresses: [198.18.0.1/15], lineRate: 1Gbps}
  - {name: west, attachment: {resourceClaim: {resourceClaimTemplateName: functions}}, addresses: [198.19.0.1/15], lineRate: 1Gbps}
`

func TestSRIOVFunctionsOfAResourceClaim(t *testing.T) {
	needsVFs(t)
	ns := namespace(t)
	mustApply(t, ns, claimingFunctions)
	g := generatorNamed(ns, "vf")
	condition(t, 5*time.Minute, g, spate.ConditionReady, metav1.ConditionTrue)
	pod := g.Status.Pods[0]
	if pod.Node != sriovNode {
		t.Fatalf("the pod is on node %s", pod.Node)
	}
	// Either port may have either function. These are those that the device plugin does not have.
	macs := map[string]string{"0000:41:10.2": "02:00:00:00:04:03", "0000:42:10.2": "02:00:00:00:04:04"}
	for _, port := range pod.Ports {
		mac, of := macs[port.Device]
		if port.Kind != spate.PortPCI || !of || port.MAC != mac || port.Driver != "net_e1000_igb_vf" || !port.LinkUp {
			t.Errorf("port %+v, want a virtual function of %v", port, macs)
		}
		delete(macs, port.Device)
	}
	condition(t, 10*time.Second, g, spate.ConditionMeasurementReady, metav1.ConditionTrue)

	packets, _, _ := strings.Cut(virtualTraffic, "---")
	mustApply(t, ns, packets)
	exact(t, vfPassed(t, ns, "packets"), "imix", 2500)

	if err := kube.Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	until(t, 2*time.Minute, "the claim is freed", func(ctx context.Context) (bool, string) {
		var claims resourcev1.ResourceClaimList
		err := kube.List(ctx, &claims, client.InNamespace(ns))
		return err == nil && len(claims.Items) == 0, fmt.Sprint(len(claims.Items), err)
	})
}
