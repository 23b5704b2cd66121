// SPDX-License-Identifier: Apache-2.0

// Multicast groups: a bridge of the node that snoops on IGMP and MLD forwards a group to the ports that are members, and to no others.

package suites

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// members is a generator of which one port is a member of two groups, on a bridge of the node.
const members = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: groups}
spec:
  config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "groups0"}'
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: receivers}
spec:
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  ports:
  - {name: source, attachment: {kernel: {network: groups}}}
  - {name: member, attachment: {kernel: {network: groups}}, addresses: [198.18.0.1/24], multicastGroups: [{address: 239.1.1.1}, {address: ff0e::77}]}
  - {name: other, attachment: {kernel: {network: groups}}}
`

// toGroups sends to two groups with a member, and to one without.
const toGroups = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: groups}
spec:
  generatorRef: {name: receivers}
  duration: 2s
  drain: 1s
  generatorTolerance: {late: 100%}
  traffic:
  - name: v4
    transmitPort: source
    receivePort: member
    stream:
      inline:
        packet:
          headers:
          - ethernet: {destination: "01:00:5e:01:01:01"}
          - ipv4: {source: 198.18.0.9, destination: 239.1.1.1}
          - udp: {sourcePort: 1000, destinationPort: 2000}
          size: 128
        transmit: {burst: {packets: 1000, rate: 1kpps}}
        measure: {flow: true}
  - name: v6
    transmitPort: source
    receivePort: member
    stream:
      inline:
        packet:
          headers:
          - ethernet: {destination: "33:33:00:00:00:77"}
          - ipv6: {source: "2001:db8::9", destination: "ff0e::77"}
          - udp: {sourcePort: 1000, destinationPort: 2000}
          size: 128
        transmit: {burst: {packets: 1000, rate: 1kpps}}
        measure: {flow: true}
  - name: no-member
    transmitPort: source
    receivePort: other
    stream:
      inline:
        packet:
          headers:
          - ethernet: {destination: "01:00:5e:09:09:09"}
          - ipv4: {source: 198.18.0.9, destination: 239.9.9.9}
          - udp: {sourcePort: 1000, destinationPort: 2000}
          size: 128
        transmit: {burst: {packets: 1000, rate: 1kpps}}
        measure: {flow: true}
  thresholds:
  - {name: members-receive, expression: 'result.streams["v4"].rx == 1000 && result.streams["v6"].rx == 1000'}
  - {name: others-do-not, expression: 'result.streams["no-member"].rx == 0'}
`

func TestASnoopingBridgeForwardsGroupsToMembersOnly(t *testing.T) {
	needsRig(t, theMultus)
	ns := namespace(t)
	mustApply(t, ns, members)
	condition(t, 90*time.Second, generatorNamed(ns, "receivers"), spate.ConditionReady, metav1.ConditionTrue)
	runAll(t,
		// A querier of IPv6 needs a link-local address.
		"sysctl -qw net.ipv6.conf.groups0.disable_ipv6=0",
		"ip address replace fe80::1/64 dev groups0 nodad",
		// The interval first: how long a new querier waits for another one is of the interval at that time.
		"ip link set groups0 type bridge mcast_igmp_version 3 mcast_mld_version 2 mcast_query_response_interval 100",
		"ip link set groups0 type bridge mcast_querier 1",
	)
	until(t, 15*time.Second, "the bridge knows the members", func(ctx context.Context) (bool, string) {
		table, err := exec.CommandContext(ctx, "bridge", "mdb", "show", "dev", "groups0").CombinedOutput()
		known := strings.Contains(string(table), "grp 239.1.1.1") && strings.Contains(string(table), "grp ff0e::77")
		return err == nil && known && !strings.Contains(string(table), "239.9.9.9"), string(table)
	})
	time.Sleep(2 * time.Second) // until then the bridge does not take itself for a querier, and floods
	p := profileNamed(ns, "groups")
	mustApply(t, ns, toGroups)
	complete(t, 60*time.Second, p)
	condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionTrue)
}
