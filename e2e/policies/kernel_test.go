// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The kernel enforces the rules as the policies say, for connections that come in and for those that go out. Pods are network namespaces on a
// bridge of another one. The addresses are those of the State that `cluster` returns.
func TestTheKernelEnforcesTheRules(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("it makes network namespaces: run it as root")
	}
	prefix := fmt.Sprintf("spate-policies-%d-", os.Getpid())
	host := prefix + "host"
	netns := func(name string) string {
		t.Helper()
		must(t, "ip", "netns", "add", name)
		t.Cleanup(func() { must(t, "ip", "netns", "delete", name) })
		must(t, "ip", "-n", name, "link", "set", "lo", "up")
		return name
	}
	netns(host)
	must(t, "ip", "-n", host, "link", "add", "br0", "type", "bridge")
	must(t, "ip", "-n", host, "address", "add", "10.0.0.1/24", "dev", "br0")
	must(t, "ip", "-n", host, "link", "set", "br0", "up")
	for i, name := range []string{"engine", "client", "operator", "prometheus"} {
		ns := netns(prefix + name)
		port, last := fmt.Sprintf("pod%d", i), map[string]int{"engine": 2, "client": 3, "operator": 4, "prometheus": 6}[name]
		must(t, "ip", "-n", host, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", ns)
		must(t, "ip", "-n", host, "link", "set", port, "master", "br0", "up")
		must(t, "ip", "-n", ns, "address", "add", fmt.Sprintf("10.0.0.%d/24", last), "dev", "eth0")
		must(t, "ip", "-n", ns, "link", "set", "eth0", "up")
	}
	engine := prefix + "engine"
	for _, port := range []string{"7470", "7471"} {
		server := exec.Command("ip", "netns", "exec", engine, "busybox", "nc", "-ll", "-p", port, "-e", "/bin/true") //nolint:gosec // of the test's own
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = server.Process.Kill()
			_ = server.Wait()
		})
	}
	connects := func(from, port string) bool {
		script := fmt.Sprintf("for i in 1 2 3 4 5; do (echo > /dev/tcp/10.0.0.2/%s) 2>&1 | grep -q refused || exit 0; sleep 0.1; done; exit 1", port)
		return exec.Command("ip", "netns", "exec", prefix+from, "timeout", "1", "bash", "-c", script+"; wait").Run() == nil //nolint:gosec // of the test's own
	}
	all := []string{"client", "operator", "prometheus", "host"}
	for _, from := range all {
		if !connects(from, "7470") || !connects(from, "7471") {
			t.Fatalf("%s cannot connect before there are rules", from)
		}
	}
	s := cluster(policy(t, `
podSelector: {matchLabels: {app: engine}}
ingress:
- from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: system}}, podSelector: {matchLabels: {app: operator}}}]
  ports: [{port: grpc}]
- from: [{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [monitoring]}]}}]
  ports: [{port: 7471}]
`))
	for range 2 { // the second time they replace those of before
		enforce(t, engine, s, 0)
	}
	may := map[string]bool{"operator 7470": true, "prometheus 7471": true, "host 7470": true, "host 7471": true}
	for _, from := range all {
		for _, port := range []string{"7470", "7471"} {
			if got := connects(from, port); got != may[from+" "+port] {
				t.Errorf("%s connects to port %s: %t", from, port, got)
			}
		}
	}

	// What the client may connect to; the engine lets everything in again.
	must(t, "ip", "netns", "exec", engine, "nft", "delete", "table", "inet", Table)
	enforce(t, prefix+"client", cluster(policy(t, `
podSelector: {}
policyTypes: [Egress]
egress: [{to: [{podSelector: {matchLabels: {app: engine}}}], ports: [{port: 7470}]}]
`)), 1)
	for from, want := range map[string][2]bool{"client": {true, false}, "operator": {true, true}} {
		if got := [2]bool{connects(from, "7470"), connects(from, "7471")}; got != want {
			t.Errorf("%s connects to ports 7470 and 7471: %t, want %t", from, got, want)
		}
	}
}

// enforce sets the rules of a pod of the state in a network namespace.
func enforce(t *testing.T, netns string, s State, pod int) {
	t.Helper()
	rules, err := Rules(s, &s.Pods[pod], "eth0")
	if err != nil {
		t.Fatal(err)
	}
	nft := exec.Command("ip", "netns", "exec", netns, "nft", "-f", "-") //nolint:gosec // of the test's own
	nft.Stdin = strings.NewReader(rules)
	if out, err := nft.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, rules)
	}
}

func must(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}
