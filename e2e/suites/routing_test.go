// SPDX-License-Identifier: Apache-2.0

// Sessions of routing protocols with a BIRD of the node, on a bridge: runs wait for them, and passwords stay where they are needed.

package suites

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	spate "spate.dev/api/v1alpha1"
)

// routedPassword is the key of the TCP MD5 signatures, and of OSPF.
const routedPassword = "n0-0ne-else-has-it"

// routedManifest is a generator with sessions of all protocols, and a profile that sends when they are up. The Secret is created later.
const routedManifest = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: routed}
spec:
  config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "routed0"}'
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: speaker}
spec:
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  ports:
  - name: east
    attachment: {kernel: {network: routed}}
    addresses: [198.18.9.1/24, "2001:db8:9::1/64"]
    routing:
      bgp:
      - {name: dut, localAS: 65001, neighbor: {address: 198.18.9.254, as: 65002}, passwordFrom: {secretKeyRef: {name: routed, key: dut}}, bfd: {interval: 200ms, multiplier: 10}}
      - {name: six, localAS: 65001, neighbor: {address: "2001:db8:9::254", as: 65002}}
      ospf: [{name: core, version: 2, network: PointToPoint, hello: 1s, dead: 4s, passwordFrom: {secretKeyRef: {name: routed, key: dut}}}]
      rip: [{name: old, version: RIPv2, update: 2s, timeout: 20s}]
`

// routedProfile sends once the sessions are up.
const routedProfile = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: NAME}
spec:
  generatorRef: {name: speaker}
  traffic:
  - name: probe
    transmitPort: east
    stream:
      inline:
        packet: {headers: [{ethernet: {}}, {ipv4: {source: 198.18.9.1, destination: 198.18.9.254}}, {udp: {destinationPort: 9}}], size: 64}
        transmit: {continuous: {rate: 100pps}}
  duration: 1s
  setupTimeout: TIMEOUT
`

// routedDevice is the device under test, which sends a route of each family.
const routedDevice = `
log stderr all;
router id 198.18.9.254;
ipv4 table table4;
ipv6 table table6;
protocol device { scan time 1; }
protocol bfd { interface "routed0" { interval 200 ms; multiplier 10; }; }
protocol static routes4 { ipv4 { table table4; }; route 203.0.113.0/24 blackhole; }
protocol static routes6 { ipv6 { table table6; }; route 2001:db8:113::/48 blackhole; }
protocol bgp four_ {
  local 198.18.9.254 as 65002; neighbor 198.18.9.1 as 65001; interface "routed0"; connect delay time 1; password "PASSWORD"; bfd { interval 200 ms; multiplier 10; };
  ipv4 { table table4; import all; export where proto = "routes4"; };
}
protocol bgp six_ {
  local 2001:db8:9::254 as 65002; neighbor 2001:db8:9::1 as 65001; interface "routed0"; connect delay time 1;
  ipv6 { table table6; import all; export where proto = "routes6"; };
}
protocol ospf v2 {
  ipv4 { table table4; import all; export where proto = "routes4"; };
  area 0 { interface "routed0" { type ptp; hello 1; dead 4; authentication cryptographic; password "PASSWORD"; }; };
}
protocol rip { ipv4 { table table4; import all; export where proto = "routes4"; }; interface "routed0" { update time 2; }; }
`

func TestRunsWaitForSessionsOfTheirPorts(t *testing.T) {
	t.Parallel()
	needsRig(t, theMultus)
	ns := namespace(t)
	mustApply(t, ns, routedManifest)
	g := generatorNamed(ns, "speaker")
	condition(t, 90*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
	runAll(t,
		"ethtool -K routed0 tx off",
		"sysctl -qw net.ipv6.conf.routed0.disable_ipv6=0",
		"ip address replace 198.18.9.254/24 dev routed0",
		"ip address replace 2001:db8:9::254/64 dev routed0 nodad",
	)
	until(t, 30*time.Second, "the Secret is missed", func(context.Context) (bool, string) {
		c := condition(t, 30*time.Second, g, spate.ConditionRoutingReady, metav1.ConditionFalse)
		return strings.Contains(c.Message, "spec.ports[0].routing.bgp[0].passwordFrom: routed/dut"), c.Message
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "routed"}, StringData: map[string]string{"dut": routedPassword}}
	if err := kube.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	// The kubelet writes it within two minutes.
	until(t, 3*time.Minute, "the sessions are set", func(context.Context) (bool, string) {
		c := condition(t, 30*time.Second, g, spate.ConditionRoutingReady, metav1.ConditionFalse)
		return strings.Contains(c.Message, "session east/dut: "), c.Message
	})

	late := profileNamed(ns, "late")
	mustApply(t, ns, strings.NewReplacer("NAME", "late", "TIMEOUT", "3s").Replace(routedProfile))
	invalid(t, late, spate.ReasonSetupTimedOut, "not set up within 3s", "session east/dut: ")

	p := profileNamed(ns, "waits")
	mustApply(t, ns, strings.NewReplacer("NAME", "waits", "TIMEOUT", "90s").Replace(routedProfile))
	phase(t, 30*time.Second, p, spate.ProfileSettingUp)
	expect(t, condition(t, 10*time.Second, p, spate.ConditionReady, metav1.ConditionFalse), spate.ReasonRoutingNotReady, "session east/")
	device(t)
	condition(t, 60*time.Second, g, spate.ConditionRoutingReady, metav1.ConditionTrue)
	run := complete(t, 60*time.Second, p)
	if v := run.Status.Verdict; v == nil || v.Outcome != spate.VerdictPassed || run.Status.SetupTime == nil {
		t.Errorf("got %+v", run.Status)
	}

	user := asUser(t, userOf(t, ns, "spate-viewer"))
	table := user.says(t, 0, "kubectl spate routes "+run.Name)
	for _, words := range [][]string{{"dut", "BGP", "Established"}, {"six", "BGP", "Established"}, {"core", "OSPF", "Full"}, {"old", "RIP", "up"}} {
		found := false
		for line := range strings.Lines(table) {
			all := true
			for _, word := range words {
				all = all && strings.Contains(line, " "+word+" ")
			}
			found = found || all
		}
		if !found {
			t.Errorf("no session %v in\n%s", words, table)
		}
	}
	nobodyElseHas(t, ns, routedPassword)
}

// device runs BIRD on the bridge until the end of the test.
func device(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "bird.conf")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(routedDevice, "PASSWORD", routedPassword)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/usr/sbin/bird", "-f", "-c", file, "-s", filepath.Join(folder, "bird.ctl"))
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
}

// nobodyElseHas fails if a ConfigMap, a pod or an object of Spate has a text.
func nobodyElseHas(t *testing.T, ns, text string) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&corev1.ConfigMapList{}, &corev1.PodList{}, &corev1.EventList{}, &spate.TrafficGeneratorList{}, &spate.TrafficProfileList{}, &spate.TrafficRunList{},
	} {
		if err := kube.List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		found, err := yaml.Marshal(list)
		if err != nil || strings.Contains(string(found), text) {
			t.Errorf("%T has the password, or %v", list, err)
		}
	}
}
