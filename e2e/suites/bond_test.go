// SPDX-License-Identifier: Apache-2.0

// A bond of kernel interfaces: two ports of one pod, whose members are the ends of two veth pairs, find each other by LACP, carry flows on
// both links, and report a link that is lost. Only the flows of that link are lost.

package suites

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// bondPairs are the veth pairs of the node. The ends move into the pod: a bridge, such as that of the bridge plugin, does not forward LACPDUs (IEEE 802.1D, 7.12.6).
var bondPairs = [][2]string{{"bond-up-a", "bond-down-a"}, {"bond-up-b", "bond-down-b"}}

// bondedGenerator has a bond at either end of the pairs.
const bondedGenerator = `
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: bonded}
spec:
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  ports:
  - {name: up, lineRate: 1Gbps, attachment: {bond: {members: [{name: up-a, kernel: {network: bond-up-a}}, {name: up-b, kernel: {network: bond-up-b}}]}}}
  - {name: down, lineRate: 1Gbps, attachment: {bond: {members: [{name: down-a, kernel: {network: bond-down-a}}, {name: down-b, kernel: {network: bond-down-b}}]}}}
`

// bondFlows is how many flows a run over a bond has. Flows differ in their source port only.
const bondFlows = 8

// bondProfile sends flows over the bonds of a generator, 200 packets a second each.
func bondProfile(name, generator, spec string) string {
	var text strings.Builder
	fmt.Fprintf(&text, `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: %s}
spec:
  generatorRef: {name: %s}
%s
  traffic:
`, name, generator, spec)
	for n := range bondFlows {
		fmt.Fprintf(&text, `
  - name: flow-%d
    transmitPort: up
    receivePort: down
    stream:
      inline:
        packet:
          headers:
          - ethernet: {source: "02:00:00:00:17:01", destination: "02:00:00:00:17:02"}
          - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
          - udp: {sourcePort: %d, destinationPort: 7}
          size: 128
        transmit: {continuous: {rate: 200pps}}
        measure: {flow: true}
`, n, 1024+n)
	}
	return text.String()
}

// bondLinks creates the veth pairs in the node, and deletes them when the test's pods are gone.
func bondLinks(t *testing.T) {
	t.Helper()
	needsRig(t, "links of the node")
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil { //nolint:gosec // of the test's own
			t.Fatalf("%s: %v: %s", args, err, out)
		}
	}
	for _, pair := range bondPairs {
		t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", pair[0]).Run() }) //nolint:gosec // of the test's own
		run("ip", "link", "add", pair[0], "type", "veth", "peer", "name", pair[1])
		for _, end := range pair {
			run("ethtool", "-K", end, "tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off")
			run("sysctl", "-qw", "net.ipv6.conf."+end+".disable_ipv6=1")
			run("ip", "link", "set", end, "up")
		}
	}
}

// bondNetworks has a network for each end of the pairs.
func bondNetworks() string {
	var text strings.Builder
	for _, end := range slices.Concat(bondPairs[0][:], bondPairs[1][:]) {
		fmt.Fprintf(&text, `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: %[1]s}
spec: {config: '{"cniVersion": "1.0.0", "type": "host-device", "device": "%[1]s"}'}
---`, end)
	}
	return text.String()
}

// aggregated waits until the generator is ready and LACP uses all members of both of its bonds.
func aggregated(t *testing.T, limit time.Duration, g *spate.TrafficGenerator) {
	t.Helper()
	until(t, limit, "LACP uses all links", func(ctx context.Context) (bool, string) {
		if err := get(ctx, g); err != nil {
			return false, err.Error()
		}
		for _, members := range bondsOf(g) {
			for _, m := range members {
				if !m.InUse || !slices.Contains(m.PartnerState, "Distributing") {
					return false, fmt.Sprintf("%+v", bondsOf(g))
				}
			}
		}
		return len(bondsOf(g)) == 2, fmt.Sprintf("%+v", g.Status.Conditions)
	})
	condition(t, 30*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
}

// bondsOf returns the members of the generator's bonds by port.
func bondsOf(g *spate.TrafficGenerator) map[string][]spate.BondMemberStatus {
	bonds := map[string][]spate.BondMemberStatus{}
	if len(g.Status.Pods) == 1 {
		for _, port := range g.Status.Pods[0].Ports {
			if port.Kind == spate.PortBond {
				bonds[port.Name] = port.Bond
			}
		}
	}
	return bonds
}

// agreed fails unless the status of the ports up and down reports two links that are one at either end.
func agreed(t *testing.T, g *spate.TrafficGenerator, devices map[string][]string) {
	t.Helper()
	macs := map[string]string{}
	for _, port := range g.Status.Pods[0].Ports {
		macs[port.Name] = port.MAC
	}
	for port, other := range map[string]string{"up": "down", "down": "up"} {
		members := bondsOf(g)[port]
		if len(members) != 2 {
			t.Fatalf("port %s: %+v", port, members)
		}
		for i, m := range members {
			for end, state := range map[string][]string{"this": m.ActorState, "the other": m.PartnerState} {
				for _, want := range []string{"Aggregation", "Synchronization", "Collecting", "Distributing"} {
					if !slices.Contains(state, want) {
						t.Errorf("port %s, member %s: %s end is %v, without %s", port, m.Device, end, state, want)
					}
				}
			}
			if m.Device != devices[port][i] || !m.LinkUp || m.PartnerSystem != macs[other] || m.Aggregator != members[0].Aggregator || m.PartnerKey != members[0].PartnerKey {
				t.Errorf("port %s: %+v, want %s, whose other end is that of %s", port, m, devices[port][i], macs[other])
			}
		}
	}
}

func TestBondOfTwoLinksLosesTheFlowsOfALostLinkOnly(t *testing.T) {
	t.Parallel()
	bondLinks(t)
	ns := namespace(t)
	mustApply(t, ns, bondNetworks()+bondedGenerator)
	g := generatorNamed(ns, "bonded")
	aggregated(t, 90*time.Second, g)
	agreed(t, g, map[string][]string{"up": {"up-a", "up-b"}, "down": {"down-a", "down-b"}})

	mustApply(t, ns, bondProfile("whole", "bonded", "  duration: 3s\n  drain: 2s\n  generatorTolerance: {late: 100%}\n  thresholds: [{name: no-loss, expression: result.lost == 0}]"))
	whole := passed(t, ns, "whole")
	for n := range bondFlows {
		exact(t, whole, fmt.Sprint("flow-", n), 600)
	}
	before := sentOn(t, ns, "bonded", "up-a", "up-b")
	if before[0] < 600 || before[1] < 600 {
		t.Errorf("%v packets on the links, want flows on both", before)
	}

	// One link goes down in mid-run, at one end: the other loses its carrier.
	mustApply(t, ns, bondProfile("cut", "bonded", "  duration: 10s\n  drain: 2s\n  generatorTolerance: {late: 100%, txDropped: 100%}\n  thresholds: [{name: no-loss, expression: result.lost == 0}]"))
	cut := profileNamed(ns, "cut")
	phase(t, 45*time.Second, cut, spate.ProfileRunning)
	inPodNetwork(t, ns, "bonded", "ip", "link", "set", "down-b", "down")
	until(t, 30*time.Second, "the status has the lost link at both ends", func(ctx context.Context) (bool, string) {
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
	condition(t, 10*time.Second, g, spate.ConditionReady, metav1.ConditionTrue) // by the other link
	if said := doctor(t, ns, "bonded"); !strings.Contains(said, "BondMemberUnused") || !strings.Contains(said, "up (up-b)") || !strings.Contains(said, "down (down-b)") || !strings.Contains(said, "there is no link") {
		t.Error("no warning of the members that are not used")
	}
	run := complete(t, 60*time.Second, cut)
	failed(t, cut, "no-loss")
	var lost int
	for n := range bondFlows {
		s := streamOf(t, run, fmt.Sprint("flow-", n))
		if s.Lost == 0 {
			exact(t, run, fmt.Sprint("flow-", n), 2000)
			continue
		}
		lost++
		if s.Rx == 0 {
			t.Errorf("flow %d: nothing arrived before the link was lost: %+v", n, s.StreamCounters)
		}
	}
	if lost == 0 || lost == bondFlows {
		t.Errorf("%d of %d flows have losses, want those of one link", lost, bondFlows)
	}
}

// inPodNetwork runs a command in the network namespace of a generator's only pod.
func inPodNetwork(t *testing.T, ns, generator string, args ...string) string {
	t.Helper()
	pods, err := enginePods(t.Context(), ns, generator)
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods of generator %s, %v", len(pods), generator, err)
	}
	process, err := processOf(&pods[0])
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "nsenter", append([]string{"--target", process, "--net"}, args...)...).CombinedOutput() //nolint:gosec // of the test's own pod
	if err != nil {
		t.Fatalf("%s: %v: %s", args, err, out)
	}
	return string(out)
}

// sentOn returns how many packets interfaces of a generator's pod have sent.
func sentOn(t *testing.T, ns, generator string, interfaces ...string) []int64 {
	t.Helper()
	var links []struct {
		Name  string `json:"ifname"`
		Stats struct {
			TX struct{ Packets int64 } `json:"tx"`
		} `json:"stats64"`
	}
	if err := json.Unmarshal([]byte(inPodNetwork(t, ns, generator, "ip", "-json", "-stats", "link")), &links); err != nil {
		t.Fatal(err)
	}
	sent := make([]int64, len(interfaces))
	for _, link := range links {
		if i := slices.Index(interfaces, link.Name); i >= 0 {
			sent[i] = link.Stats.TX.Packets
		}
	}
	return sent
}
