// SPDX-License-Identifier: Apache-2.0

// Who may connect to engines and to the operator, where a CNI enforces NetworkPolicies: the test does what one would (e2e/policies).

package suites

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
	"spate.dev/e2e/policies"
)

// bystander is a pod that has nothing to do with Spate.
const bystander = `
apiVersion: v1
kind: Pod
metadata: {name: bystander}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: wait, image: localhost/spate/node:1, imagePullPolicy: Never}]
`

// This test upgrades the installation, and rules would keep out pods of other tests: it runs alone.
func TestOnlyWhoIsAllowedReachesEnginesAndOperator(t *testing.T) {
	needsRig(t, thePodNetwork)
	ns, elsewhere, monitoring := namespace(t), namespace(t), namespace(t)
	metricsFor(t, monitoring)
	mustApply(t, ns, loopbackGenerator+"---"+loopbackStream)
	for _, where := range []string{ns, elsewhere, monitoring, operatorNamespace} {
		mustApply(t, where, bystander)
		t.Cleanup(func() {
			_ = kube.Delete(context.Background(), podNamed(where, "bystander"), client.GracePeriodSeconds(0))
		})
	}
	condition(t, 60*time.Second, generatorNamed(ns, "loop"), spate.ConditionReady, metav1.ConditionTrue)
	engine, operator := ready(t, ns, "loop-0"), operatorPod(t)
	type target struct {
		name, address string
		port          int
	}
	targets := []target{
		{"calls of the engine", engine.Status.PodIP, 7470}, {"metrics of the engine", engine.Status.PodIP, 7471},
		{"metrics of the operator", operator.Status.PodIP, 8080}, {"health of the operator", operator.Status.PodIP, 8081}, {"live of the operator", operator.Status.PodIP, 7480},
	}
	sources := map[string]*corev1.Pod{}
	for name, where := range map[string]string{"a pod beside the engine": ns, "a pod of another namespace": elsewhere, "a pod that may scrape": monitoring, "a pod beside the operator": operatorNamespace} {
		sources[name] = ready(t, where, "bystander")
	}
	sources["the operator"] = &operator
	for name, pod := range sources {
		for _, to := range targets {
			if err := connect(t, pod, to.address, to.port); err != nil {
				t.Fatalf("%s to %s before policies are enforced: %v", name, to.name, err)
			}
		}
	}
	enforce(t)
	live := " to live of the operator"
	may := map[string]bool{
		"the operator to calls of the engine": true, "the operator to metrics of the operator": true, "the operator to health of the operator": true,
		"a pod that may scrape to metrics of the engine": true, "a pod that may scrape to metrics of the operator": true,
		"the operator" + live: true, "a pod that may scrape" + live: true, "a pod beside the engine" + live: true, "a pod of another namespace" + live: true, "a pod beside the operator" + live: true,
	}
	for name, pod := range sources {
		for _, to := range targets {
			what := name + " to " + to.name
			err := connect(t, pod, to.address, to.port)
			if allowed := err == nil; allowed != may[what] {
				t.Errorf("%s: allowed %t, want %t (%v)", what, allowed, may[what], err)
			}
			if err != nil && !errors.Is(err, errNoAnswer) {
				t.Errorf("%s: %v, want no answer", what, err)
			}
		}
	}
	// The operator calls the engine, the kubelet probes both, and the API server reaches the operator.
	mustApply(t, ns, loopbackProfile("behind-policies", "  duration: 3s"))
	p := profileNamed(ns, "behind-policies")
	complete(t, 60*time.Second, p)
	condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionTrue)
	if len(scrape(t, operatorPod(t))) == 0 {
		t.Error("the API server does not reach the operator's metrics")
	}
	for _, pod := range []*corev1.Pod{ready(t, ns, "loop-0"), ready(t, operator.Namespace, operator.Name)} {
		if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
			t.Errorf("pod %s restarted %d times: its probes failed", pod.Name, restarts)
		}
	}
}

// metricsFor restricts metrics to pods of a namespace, until the test has ended.
func metricsFor(t *testing.T, ns string) {
	t.Helper()
	upgrade(t, installedAgain(t), fmt.Sprintf("metrics: {allowedNamespaces: [%s]}", ns))
}

// ready waits until a pod is ready.
func ready(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	pod := podNamed(ns, name)
	until(t, 60*time.Second, "pod "+name+" is ready", func(ctx context.Context) (bool, string) {
		err := get(ctx, pod)
		return err == nil && podReady(pod), fmt.Sprintf("%+v %v", pod.Status, err)
	})
	return pod
}

// enforce does what a CNI that enforces NetworkPolicies does with all pods that there are, until the test has ended. It does not
// follow changes.
func enforce(t *testing.T) {
	t.Helper()
	var all struct {
		policies   networkingv1.NetworkPolicyList
		pods       corev1.PodList
		namespaces corev1.NamespaceList
	}
	for _, list := range []client.ObjectList{&all.policies, &all.pods, &all.namespaces} {
		if err := kube.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	state := policies.State{Policies: all.policies.Items, Pods: all.pods.Items, Namespaces: all.namespaces.Items}
	own, err := net.InterfaceAddrs() // the tests run on the node
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range own {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && !prefix.Addr().IsLoopback() {
			state.NodeAddresses = append(state.NodeAddresses, prefix.Addr())
		}
	}
	enforced := 0
	for i := range state.Pods {
		pod := &state.Pods[i]
		rules, err := policies.Rules(state, pod, "eth0")
		if err != nil {
			t.Fatal(err)
		}
		if rules == "" || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		if err := nft(t.Context(), pod, rules); err != nil {
			t.Fatalf("pod %s/%s: %v\n%s", pod.Namespace, pod.Name, err, rules)
		}
		t.Cleanup(func() {
			// A pod that is gone has taken its rules along.
			_ = nft(context.Background(), pod, "delete table inet "+policies.Table)
		})
		enforced++
	}
	if enforced < 2 {
		t.Fatalf("policies select %d pods, want at least an engine and the operator", enforced)
	}
}

// nft executes commands of nftables in a pod's network namespace.
func nft(ctx context.Context, pod *corev1.Pod, commands string) error {
	pid, err := processOf(pod)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "nsenter", "--target", pid, "--net", "nft", "--file", "-")
	cmd.Stdin = strings.NewReader(commands)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

var errNoAnswer = errors.New("no answer within 2 s")

// connect opens a TCP connection from a pod.
func connect(t *testing.T, from *corev1.Pod, address string, port int) error {
	t.Helper()
	pid, err := processOf(from)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "nsenter", "--target", pid, "--net", "timeout", "2", "bash", "-c", fmt.Sprintf("</dev/tcp/%s/%d", address, port)) //nolint:gosec // of the test's own pods
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 124 {
		return errNoAnswer
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// processOf returns a process of a pod: all share its network.
func processOf(pod *corev1.Pod) (string, error) {
	names, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		cgroups, _ := os.ReadFile(name)
		if strings.Contains(strings.ReplaceAll(string(cgroups), "_", "-"), string(pod.UID)) {
			return filepath.Base(filepath.Dir(name)), nil
		}
	}
	return "", fmt.Errorf("none of %d processes is of pod %s/%s", len(names), pod.Namespace, pod.Name)
}
