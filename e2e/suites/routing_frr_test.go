// SPDX-License-Identifier: Apache-2.0

// Sessions of routing protocols with FRR in a pod: they come up, and both ends count the same routes.

package suites

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// frrRoutes is the number of routes of each family that FRR sends.
const frrRoutes = 100

// frrSetup is the limit for the sessions to come up once the engine is ready.
const frrSetup = 15 * time.Second

// FRR takes keys of OSPF of up to 16 bytes.
const frrPassword = "n0-0ne-has-it"

const frrManifest = `
apiVersion: v1
kind: Secret
metadata: {name: frr}
stringData: {dut: PASSWORD}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: frr}
spec:
  config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "BRIDGE"}'
---
apiVersion: v1
kind: Pod
metadata:
  name: frr
  annotations: {k8s.v1.cni.cncf.io/networks: frr}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: frr
    image: localhost/spate/peer:1
    imagePullPolicy: IfNotPresent
    command: [bash, -ec]
    args:
    - |
      ethtool -K net1 tx off > /dev/null
      ip address add 198.18.8.254/24 dev net1
      ip address add 2001:db8:8::254/64 dev net1 nodad
      install -d -o frr -g frr /run/frr
      cat > /etc/frr/frr.conf <<'CONF'
      CONFIGURATION
      CONF
      for daemon in zebra staticd bgpd ospfd ospf6d ripd ripngd bfdd; do /usr/lib/frr/$daemon -d; done
      vtysh -b
      exec sleep infinity
    resources: {requests: {cpu: 10m, memory: 64Mi}}
    securityContext: {capabilities: {add: [NET_ADMIN, NET_RAW, SYS_ADMIN]}}
    readinessProbe: {exec: {command: [vtysh, -c, show bgp summary json]}, periodSeconds: 1, timeoutSeconds: 5}
`

const frrConfiguration = `
interface net1
 ip ospf area 0
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 4
 ip ospf authentication message-digest
 ip ospf message-digest-key 1 md5 PASSWORD
 ipv6 ospf6 area 0
 ipv6 ospf6 network point-to-point
 ipv6 ospf6 hello-interval 1
 ipv6 ospf6 dead-interval 4
exit
router bgp 65002
 bgp router-id 198.18.8.254
 no bgp ebgp-requires-policy
 neighbor 198.18.8.1 remote-as 65001
 neighbor 198.18.8.1 password PASSWORD
 neighbor 198.18.8.1 bfd 10 200 200
 neighbor 198.18.8.1 timers connect 1
 neighbor 2001:db8:8::1 remote-as 65001
 neighbor 2001:db8:8::1 timers connect 1
 address-family ipv4 unicast
  redistribute static
  no neighbor 2001:db8:8::1 activate
 exit-address-family
 address-family ipv6 unicast
  redistribute static
  neighbor 2001:db8:8::1 activate
 exit-address-family
exit
router ospf
 redistribute static
 ospf router-id 198.18.8.254
exit
router ospf6
 redistribute static
 ospf6 router-id 198.18.8.254
exit
router rip
 timers basic 5 30 30
 version 2
 network net1
 redistribute static
exit
router ripng
 timers basic 5 30 30
 network net1
 redistribute static
exit
`

const frrGenerator = `
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: frr}
spec:
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  ports:
  - name: east
    attachment: {kernel: {network: frr}}
    addresses: [198.18.8.1/24, "2001:db8:8::1/64"]
    routing:
      bgp:
      - {name: four, localAS: 65001, neighbor: {address: 198.18.8.254, as: 65002}, passwordFrom: {secretKeyRef: {name: frr, key: dut}}, bfd: {interval: 200ms, multiplier: 10}}
      - {name: six, localAS: 65001, neighbor: {address: "2001:db8:8::254", as: 65002}}
      ospf:
      - {name: core, version: 2, network: PointToPoint, hello: 1s, dead: 4s, passwordFrom: {secretKeyRef: {name: frr, key: dut}}}
      - {name: core6, version: 3, network: PointToPoint, hello: 1s, dead: 4s}
      rip:
      - {name: old, version: RIPv2, update: 2s, timeout: 20s}
      - {name: old6, version: RIPng, update: 2s, timeout: 20s}
`

func TestSessionsWithFRRComeUpAndBothEndsCountTheSameRoutes(t *testing.T) {
	t.Parallel()
	needsRig(t, theMultus)
	ns := namespace(t)
	pod := frr(t, ns, "routed1")
	mustApply(t, ns, frrGenerator)
	g := generatorNamed(ns, "frr")
	condition(t, 90*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
	condition(t, frrSetup, g, spate.ConditionRoutingReady, metav1.ConditionTrue)

	until(t, 30*time.Second, "both ends count the same routes", func(ctx context.Context) (bool, string) {
		peers, err := frrPeers(ctx, pod)
		if err != nil {
			return false, err.Error()
		}
		if err := get(ctx, g); err != nil {
			return false, err.Error()
		}
		sessions := map[string]spate.RoutingSessionStatus{}
		for _, s := range g.Status.Pods[0].Ports[0].Sessions {
			sessions[s.Name] = s
		}
		seen := fmt.Sprintf("FRR: %+v; ours: %+v", peers, sessions)
		for name, address := range map[string]string{"four": "198.18.8.1", "six": "2001:db8:8::1"} {
			peer, ours := peers[address], sessions[name]
			if peer.State != "Established" || !ours.Up || peer.PfxSnt != frrRoutes || ours.RoutesReceived != peer.PfxSnt || peer.PfxRcd != 0 {
				return false, seen
			}
		}
		for _, name := range []string{"core", "core6", "old", "old6"} {
			if s := sessions[name]; !s.Up || s.RoutesReceived < frrRoutes {
				return false, seen
			}
		}
		return true, seen
	})
}

// frr runs FRR in a pod on a bridge, which sends frrRoutes routes of each family, and waits until it answers.
func frr(t *testing.T, ns, bridge string) *corev1.Pod {
	t.Helper()
	var routes strings.Builder
	for i := range frrRoutes {
		fmt.Fprintf(&routes, "ip route 203.0.%d.0/24 blackhole\nipv6 route 2001:db8:%x::/48 blackhole\n", i, 0x1000+i)
	}
	configuration := strings.ReplaceAll(strings.TrimSpace(frrConfiguration+routes.String()), "\n", "\n      ")
	manifest := strings.NewReplacer("BRIDGE", bridge, "CONFIGURATION", configuration).Replace(frrManifest)
	mustApply(t, ns, strings.ReplaceAll(manifest, "PASSWORD", frrPassword))
	pod := podNamed(ns, "frr")
	until(t, 60*time.Second, "FRR answers", func(ctx context.Context) (bool, string) {
		err := get(ctx, pod)
		return err == nil && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready, fmt.Sprintf("%+v %v", pod.Status, err)
	})
	return pod
}

// frrPeer is what FRR knows of a neighbor.
type frrPeer struct {
	State          string
	PfxRcd, PfxSnt int64
}

// frrPeers returns the neighbors of FRR's BGP by address.
func frrPeers(ctx context.Context, pod *corev1.Pod) (map[string]frrPeer, error) {
	var families map[string]struct{ Peers map[string]frrPeer }
	if err := frrShows(ctx, pod, "show bgp summary json", &families); err != nil {
		return nil, err
	}
	peers := map[string]frrPeer{}
	for _, family := range families {
		for address, peer := range family.Peers {
			peers[address] = peer
		}
	}
	return peers, nil
}

// frrShows reads what a command of FRR prints as JSON.
func frrShows(ctx context.Context, pod *corev1.Pod, command string, into any) error {
	out, err := inPod(ctx, pod.Namespace, pod.Name, "vtysh", "-c", command)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
