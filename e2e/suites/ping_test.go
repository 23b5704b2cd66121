// SPDX-License-Identifier: Apache-2.0

// Ping from ports of two pods: the kernel replies on a bridge of the node; limits of the generator apply.

package suites

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// pingerManifest is a generator of two pods, each with a port on a bridge of the node, which may send to that bridge's subnets and to others
// behind it only.
const pingerManifest = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: pinged}
spec:
  config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "pinged0"}'
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: pinger}
spec:
  replicas: 2
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  limits: {allowedDestinations: [198.18.7.0/24, "2001:db8:7::/64", 203.0.113.0/24]}
  ports:
  - name: east
    attachment: {kernel: {network: pinged}}
    addresses: [198.18.7.1/24, "2001:db8:7::1/64"]
    gateway: 198.18.7.254
`

func TestAPortPingsTheKernel(t *testing.T) {
	needsRig(t, theMultus)
	ns := namespace(t)
	mustApply(t, ns, pingerManifest)
	g := generatorNamed(ns, "pinger")
	condition(t, 90*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
	first, second := g.Status.Pods[0].Name, g.Status.Pods[1].Name
	runAll(t,
		"ip link set dev pinged0 address "+firstMAC,
		"sysctl -qw net.ipv4.conf.pinged0.arp_notify=1",
		"sysctl -qw net.ipv6.conf.pinged0.disable_ipv6=0",
		"ip address replace 198.18.7.254/24 dev pinged0",
		"ip address replace 2001:db8:7::254/64 dev pinged0 nodad",
	)
	viewer, pinger := userOf(t, ns, "spate-viewer"), userOf(t, ns, "spate-pinger")
	pings := func(user string, args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), filepath.Join(root, "build/out/kubectl-spate"), append([]string{"ping", "pinger", "-n", ns, "--kubeconfig", user, "--port", "east"}, args...)...)
	}
	ping := func(user string, args ...string) (string, int) {
		out, err := pings(user, args...).CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return string(out), exit.ExitCode()
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(out), 0
	}
	if out, code := ping(viewer, "198.18.7.254", "--count", "1"); code != 1 || !strings.Contains(out, "bind the ClusterRole spate-pinger in namespace "+ns) {
		t.Errorf("a viewer: exit code %d: %s", code, out)
	}
	reply := regexp.MustCompile(`(?m)^from \S+: seq=[123] ttl=64 time=\d+\.\d{3} ms$`)
	for _, to := range []string{"198.18.7.254", "2001:db8:7::254"} {
		out, code := ping(pinger, to, "--pod", first, "--count", "3", "--interval", "100ms", "--size", "1200")
		t.Log(out)
		if code != 0 || len(reply.FindAllString(out, -1)) != 3 || !strings.Contains(out, "3 requests, 3 replies, 0% lost; round trip min/mean/max/stddev ") {
			t.Errorf("%s: exit code %d: %s", to, code, out)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"198.18.7.77"}, "next hop 198.18.7.77 did not answer"},
		{[]string{"198.18.7.1"}, "198.18.7.1 is at the port itself"},
		{[]string{"198.18.7.255"}, "198.18.7.255 is no address of a single station"},
		{[]string{"198.18.7.254", "--source", "198.18.7.9"}, "--source: 198.18.7.9 is none of the port's addresses"},
		{[]string{"192.0.2.1"}, "192.0.2.1 is in none of limits.allowedDestinations"},
		{[]string{"203.0.113.9", "--hop-limit", "1"}, "from 198.18.7.254: seq=1 time to live exceeded\n1 requests, 0 replies, 100% lost\n"},
	} {
		if out, code := ping(pinger, append(c.args, "--pod", first, "--count", "1")...); code != 1 || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit code %d, want %q: %s", c.args, code, c.want, out)
		}
	}

	t.Run("which pods ping", func(t *testing.T) {
		if out, code := ping(pinger, "198.18.7.254", "--pod", "loop-0", "--count", "1"); code != 1 ||
			!strings.Contains(out, fmt.Sprintf("--pod %q must be a running pod of TrafficGenerator pinger: one of %s, %s", "loop-0", first, second)) {
			t.Errorf("a pod that is not the generator's: exit code %d: %s", code, out)
		}
		out, code := ping(pinger, "198.18.7.254", "--pod", second, "--count", "1")
		if code != 0 || !strings.Contains(out, "PING 198.18.7.254 from 198.18.7.2 (port east) by "+firstMAC+": 56 bytes of data\nfrom ") {
			t.Errorf("the second pod: exit code %d: %s", code, out)
		}
		out, code = ping(pinger, "198.18.7.254", "--count", "2", "--interval", "100ms")
		for pod, address := range map[string]string{first: "198.18.7.1", second: "198.18.7.2"} {
			for _, want := range []string{"PING 198.18.7.254 from " + address + " (port east)", "from 198.18.7.254: seq=1 ttl=64", "from 198.18.7.254: seq=2 ttl=64", "2 requests, 2 replies, 0% lost; "} {
				if code != 0 || !strings.Contains(out, pod+": "+want) {
					t.Errorf("all pods: exit code %d, want %q of pod %s: %s", code, want, pod, out)
				}
			}
		}
	})
	t.Run("how long a reply is waited for", func(t *testing.T) {
		runAll(t, "ip route replace blackhole 203.0.113.66")
		t.Cleanup(func() { _ = exec.Command("ip", "route", "delete", "blackhole", "203.0.113.66").Run() })
		command := pings(pinger, "203.0.113.66", "--pod", first, "--count", "1", "--timeout", "2500ms")
		out, err := command.StdoutPipe()
		if err == nil {
			err = command.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		var at []time.Time
		for read := bufio.NewScanner(out); read.Scan(); {
			lines, at = append(lines, read.Text()), append(at, time.Now())
		}
		err = command.Wait()
		if err == nil || len(lines) != 3 || !strings.HasPrefix(lines[0], "PING 203.0.113.66 ") || lines[1] != "no reply: seq=1" || lines[2] != "1 requests, 0 replies, 100% lost" {
			t.Fatalf("%v: %q", err, lines)
		}
		// Without --timeout it is a second.
		if took := at[1].Sub(at[0]); took < 2400*time.Millisecond {
			t.Errorf("a reply was waited for %s, want 2.5 s", took)
		}
	})
	t.Run("a run follows its next hop to another MAC", func(t *testing.T) { followsTheBridge(t, ns, []string{first, second}) })
	if out, code := ping(pinger, "198.18.7.254", "--pod", first, "--count", "1"); code != 0 || !strings.Contains(out, " by "+secondMAC+": ") {
		t.Errorf("at the new MAC: exit code %d: %s", code, out)
	}

	// Narrower limits end a ping that is under way.
	command := pings(pinger, "198.18.7.254")
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	mustApply(t, ns, strings.Replace(pingerManifest, "198.18.7.0/24, ", "", 1))
	if err := command.Wait(); err == nil || !strings.Contains(out.String(), "ttl=64") || !strings.Contains(out.String(), "198.18.7.254 is in none of limits.allowedDestinations") {
		t.Errorf("%v: %s", err, out.String())
	}
}
