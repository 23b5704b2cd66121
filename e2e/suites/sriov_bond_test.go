// SPDX-License-Identifier: Apache-2.0

// A bond of PCI devices that are assigned whole: two ports of one pod, whose members are four NICs, wired in pairs. Virtual functions are no
// members here: LACPDUs do not reach those of the emulated NICs.

package suites

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// wholeNICs are the NICs of the emulated machine that pods get whole, and their PCI addresses (e2e/sriov/settings.sh).
var wholeNICs = map[string]string{"up-a": "0000:43:00.0", "down-a": "0000:44:00.0", "up-b": "0000:45:00.0", "down-b": "0000:46:00.0"}

// wholeNetworks has a network for each of them.
func wholeNetworks() string {
	var text strings.Builder
	for name := range wholeNICs {
		fmt.Fprintf(&text, `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: %[1]s, annotations: {k8s.v1.cni.cncf.io/resourceName: spate.dev/%[2]s}}
spec: {config: '{"cniVersion": "1.0.0", "name": "%[1]s", "type": "host-device"}'}
---`, name, strings.ReplaceAll(name, "-", "_")) // the device plugin takes no hyphens
	}
	return text.String()
}

const bondedNICs = `
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: bonded}
spec:
  pollMode: Adaptive
  workers: 1
  threadsPerCore: 1
  packetMemory: {size: 128Mi}
  podTemplate:
    spec:
      tolerations: [{key: spate.dev/emulated, operator: Exists}]
  ports:
  - {name: up, attachment: {bond: {members: [{name: up-a, sriov: {network: up-a}}, {name: up-b, sriov: {network: up-b}}]}}}
  - {name: down, attachment: {bond: {members: [{name: down-a, sriov: {network: down-a}}, {name: down-b, sriov: {network: down-b}}]}}}
`

func TestSRIOVBondOfNICsGoesOnWithOneLink(t *testing.T) {
	needsVFs(t)
	ns := namespace(t)
	mustApply(t, ns, wholeNetworks()+bondedNICs)
	g := generatorNamed(ns, "bonded")
	aggregated(t, 5*time.Minute, g)
	agreed(t, g, map[string][]string{"up": {wholeNICs["up-a"], wholeNICs["up-b"]}, "down": {wholeNICs["down-a"], wholeNICs["down-b"]}})

	const spec = "  duration: 5s\n  drain: 3s\n  rate: 400pps\n  generatorTolerance: {late: 100%}\n  thresholds: [{name: no-loss, expression: result.lost == 0}]"
	mustApply(t, ns, bondProfile("whole", "bonded", spec))
	run := vfPassed(t, ns, "whole")
	for n := range bondFlows {
		exact(t, run, fmt.Sprint("flow-", n), 250)
	}

	// Both ends of one cable lose their link, as those of a real one do.
	t.Cleanup(func() {
		setLink(t, "up-b", true)
		setLink(t, "down-b", true)
	})
	setLink(t, "up-b", false)
	setLink(t, "down-b", false)
	until(t, 60*time.Second, "the status has the lost link at both ends", func(ctx context.Context) (bool, string) {
		if err := get(ctx, g); err != nil {
			return false, err.Error()
		}
		for port, members := range bondsOf(g) {
			if len(members) != 2 || !members[0].LinkUp || !members[0].InUse || members[1].LinkUp || members[1].InUse {
				return false, fmt.Sprintf("port %s: %+v", port, members)
			}
		}
		return len(bondsOf(g)) == 2, ""
	})
	condition(t, 30*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
	if said := doctor(t, ns, "bonded"); !strings.Contains(said, "BondMemberUnused") || !strings.Contains(said, "up ("+wholeNICs["up-b"]+")") {
		t.Error("no warning of the member that is not used")
	}
	// All flows are on the other link.
	mustApply(t, ns, bondProfile("half", "bonded", spec))
	run = vfPassed(t, ns, "half")
	for n := range bondFlows {
		exact(t, run, fmt.Sprint("flow-", n), 250)
	}
}
