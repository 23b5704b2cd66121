// SPDX-License-Identifier: Apache-2.0

// Ports on devices of resource claims: the scheduler allocates two links that are wired to each other, a real driver (e2e/dra) moves them
// into the pod, and the engine sends from one to the other. What is wrong with a claim is in the generator's condition.

package suites

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

// claimingPair has a port on each end of the pair.
const claimingPair = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: pair}
spec: {spec: {devices: {requests: [{name: link, exactly: {deviceClassName: links.e2e.spate.dev, count: 2}}]}}}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: pair}
spec:
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  ports:
  - {name: east, attachment: {resourceClaim: {resourceClaimTemplateName: pair}}, addresses: [10.212.0.1/24], lineRate: 1Gbps}
  - {name: west, attachment: {resourceClaim: {resourceClaimTemplateName: pair, request: link}}, addresses: [10.212.0.2/24], lineRate: 1Gbps}
`

const pairTraffic = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: packets}
spec:
  generatorRef: {name: pair}
  duration: 3s
  generatorTolerance: {late: 100%, txDropped: 0%}
  traffic:
  - name: udp
    stream:
      inline:
        packet:
          headers:
          - ethernet: {}
          - ipv4: {source: 10.212.0.1, destination: 10.212.0.2}
          - udp: {sourcePort: 1024, destinationPort: 7}
          size: 256
        transmit: {continuous: {rate: 1kpps}}
        measure: {flow: true}
  thresholds: [{name: all, expression: result.rx == 3000 && result.lost == 0}]
`

// withLinks starts the driver, and ends it when the test's pods are gone.
func withLinks(t *testing.T) (ns string) {
	t.Helper()
	needsRig(t, "links of the node and a driver beside its kubelet")
	cache := os.Getenv("SPATE_CACHE")
	if _, err := script("e2e/dra/links", "up", filepath.Join(cache, "e2e", "dra-links")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the namespace's
		if t.Failed() {
			log, _ := os.ReadFile("/run/dra-links/driver.log")
			t.Logf("log of the driver:\n%s", log)
		}
		if _, err := script("e2e/dra/links", "down"); err != nil {
			t.Error(err)
		}
	})
	return namespace(t)
}

func TestResourceClaimsGiveThePodTwoLinksAndGetThemBack(t *testing.T) {
	ns := withLinks(t)
	mustApply(t, ns, claimingPair)
	g := generatorNamed(ns, "pair")
	condition(t, 90*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
	devices := map[string]bool{}
	for _, port := range g.Status.Pods[0].Ports {
		if port.Kind != spate.PortKernel {
			t.Errorf("port %+v is no kernel interface", port)
		}
		devices[port.Device] = true
	}
	if !devices["dra-a"] || !devices["dra-b"] {
		t.Errorf("the ports are %v, not dra-a and dra-b", devices)
	}
	expect(t, condition(t, 10*time.Second, g, spate.ConditionMeasurementReady, metav1.ConditionFalse), spate.ReasonSharedResources, "port east: the device of its resource claim is a kernel interface")
	if links, err := script("e2e/dra/links", "where"); links != "" || err != nil {
		t.Errorf("in the node: %q, %v", links, err)
	}

	mustApply(t, ns, pairTraffic)
	p := profileNamed(ns, "packets")
	complete(t, 60*time.Second, p)
	condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionTrue)

	if err := kube.Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	until(t, 90*time.Second, "the claim is freed", func(ctx context.Context) (bool, string) {
		var claims resourcev1.ResourceClaimList
		err := kube.List(ctx, &claims, client.InNamespace(ns))
		return err == nil && len(claims.Items) == 0, fmt.Sprint(len(claims.Items), err)
	})
	until(t, 10*time.Second, "the links are in the node again", func(context.Context) (bool, string) {
		links, err := script("e2e/dra/links", "where")
		return links == "dra-a\ndra-b", fmt.Sprint(links, err)
	})
}

func TestResourceClaimsThatDoNotFitAreExplained(t *testing.T) {
	ns := withLinks(t)
	one := strings.Replace(claimingPair, "count: 2", "count: 1", 1)
	mustApply(t, ns, one)
	g := generatorNamed(ns, "pair")
	expect(t, condition(t, 30*time.Second, g, spate.ConditionReady, metav1.ConditionFalse), spate.ReasonDeviceMismatch,
		"ResourceClaimTemplate pair: ports east, west need 2 devices of request link, and it asks for 1", "count to 2")

	// More than there are: the scheduler's words.
	three := strings.ReplaceAll(strings.Replace(claimingPair, "count: 2", "count: 3", 1), "pair", "three")
	three += "  - {name: north, attachment: {resourceClaim: {resourceClaimTemplateName: three}}}\n"
	mustApply(t, ns, three)
	until(t, 30*time.Second, "the scheduler's reason is reported", func(ctx context.Context) (bool, string) {
		g := generatorNamed(ns, "three")
		if err := get(ctx, g); err != nil {
			return false, err.Error()
		}
		for _, c := range g.Status.Conditions {
			if c.Type == spate.ConditionReady && c.Reason == spate.ReasonUnschedulable && strings.Contains(c.Message, "cannot allocate all claims") {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", g.Status.Conditions)
	})
}
