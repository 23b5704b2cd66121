// SPDX-License-Identifier: Apache-2.0

package test

// What a generator becomes, and what is reported when it cannot be. The node is played by the test.

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// answerLimit bounds waits for what takes less than a second where the machine is not busy.
const answerLimit = 20 * time.Second

// start is long for the first test, which waits for the operator to come up.
const startLimit = 40 * time.Second

func bareNamespace(t *testing.T) string {
	ns := namespace(t)
	cluster.kubelet.leave(ns)
	return ns
}

func TestAGeneratorBecomesAPodACertificateAPolicyAndAMonitor(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator)
	expect(t, startLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonPodsPending, "loop-0")
	pod := podNamed(t, ns, "loop-0")
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever || len(pod.OwnerReferences) != 1 {
		t.Errorf("restart policy %s, owners %v", pod.Spec.RestartPolicy, pod.OwnerReferences)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "loop-engine-tls"}}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "loop-engine"}}
	monitor := &unstructured.Unstructured{}
	monitor.SetGroupVersionKind(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "PodMonitor"})
	monitor.SetNamespace(ns)
	monitor.SetName("loop-engine")
	for _, object := range []client.Object{secret, policy, monitor} {
		if err := get(object); err != nil {
			t.Error(err)
		}
	}
	for _, key := range []string{"ca.crt", "tls.crt", "tls.key"} {
		if len(secret.Data[key]) == 0 {
			t.Errorf("no %s", key)
		}
	}
	g := generatorNamed(ns, "loop")
	expect(t, answerLimit, g, spatev1.ConditionMeasurementReady, metav1.ConditionFalse, spatev1.ReasonSharedResources, "cpuPolicy Shared", "packetMemory.backing Standard")
	if g.Status.Selector != "app.kubernetes.io/managed-by=spate-operator,app.kubernetes.io/name=spate-engine,spate.dev/generator=loop" {
		t.Errorf("selector %q of the scale subresource", g.Status.Selector)
	}
}

func TestAMissingNetworkIsNamedBeforeAPodIsMade(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, strings.Replace(loopbackGenerator, "{loopback: {}}", "{sriov: {network: no-such-net}}", 1))
	g := generatorNamed(ns, "loop")
	expect(t, startLimit, g, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonNetworkNotFound, "spec.ports[0].attachment.sriov", "no-such-net")
	if pods := enginePods(t, ns); len(pods) != 0 {
		t.Errorf("%d pods were made", len(pods))
	}
	mustApply(t, ns, `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: no-such-net}
spec: {config: '{}'}
`)
	expect(t, startLimit, g, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonNetworkMismatch, "spec.ports[0].attachment.sriov", "has no annotation k8s.v1.cni.cncf.io/resourceName")
	if pods := enginePods(t, ns); len(pods) != 0 {
		t.Errorf("%d pods were made without a device", len(pods))
	}
	mustApply(t, ns, `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: no-such-net, annotations: {k8s.v1.cni.cncf.io/resourceName: vendor.example/vf}}
spec: {config: '{}'}
`)
	pod := podNamed(t, ns, "loop-0")
	if q := pod.Spec.Containers[0].Resources.Limits["vendor.example/vf"]; q.Value() != 1 {
		t.Errorf("asks for %s virtual functions", q.String())
	}
	if !strings.Contains(pod.Annotations["k8s.v1.cni.cncf.io/networks"], `"interface":"loop"`) {
		t.Errorf("networks: %s", pod.Annotations["k8s.v1.cni.cncf.io/networks"])
	}
}

func TestAKernelPortTakesNoDeviceOfANetwork(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: vf, annotations: {k8s.v1.cni.cncf.io/resourceName: vendor.example/vf}}
spec: {config: '{}'}
---`+strings.Replace(loopbackGenerator, "{loopback: {}}", "{kernel: {network: vf}}", 1))
	g := generatorNamed(ns, "loop")
	expect(t, startLimit, g, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonNetworkMismatch,
		"spec.ports[0].attachment.kernel", "gives the pod a device of vendor.example/vf", "attach the port by sriov instead")
	if pods := enginePods(t, ns); len(pods) != 0 {
		t.Errorf("%d pods were made", len(pods))
	}
}

func TestABifurcatedDeviceGivesThePodNetworkCapabilities(t *testing.T) {
	ns := bareNamespace(t)
	network := strings.Replace(loopbackGenerator, "{loopback: {}}", "{sriov: {network: mlx}}", 1)
	mustApply(t, ns, `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: mlx, annotations: {k8s.v1.cni.cncf.io/resourceName: vendor.example/vf}}
spec: {config: '{}'}
---`+strings.Replace(network, "name: loop}", "name: own}", 1)+"---"+strings.Replace(network, "network: mlx", "network: mlx, driver: Bifurcated", 1))
	for name, want := range map[string]bool{"own-0": false, "loop-0": true} {
		added := podNamed(t, ns, name).Spec.Containers[0].SecurityContext.Capabilities.Add
		for _, capability := range []corev1.Capability{"NET_RAW", "NET_ADMIN"} {
			if slices.Contains(added, capability) != want {
				t.Errorf("%s: %v, want %s among them: %v", name, added, capability, want)
			}
		}
	}
	err := apply(t.Context(), ns, strings.Replace(network, "network: mlx", "network: mlx, driver: Split", 1))
	if err == nil || !strings.Contains(err.Error(), "spec.ports[0].attachment.sriov.driver") {
		t.Errorf("another word: %v", err)
	}
}

func TestWhatTheSchedulerSaysIsReported(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator)
	pod := podNamed(t, ns, "loop-0")
	must(t, setPod(t.Context(), cluster.kube, client.ObjectKeyFromObject(pod), func(s *corev1.PodStatus) {
		s.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/1 nodes are available: 1 Insufficient hugepages-2Mi.",
		}}
	}))
	expect(t, answerLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonUnschedulable, "loop-0", "Insufficient hugepages-2Mi")
}

// A cluster of nodes for arm64 alone.
func TestNodesOfAnotherArchitectureTakeNoEngineAndTheReasonIsReported(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator)
	pod := podNamed(t, ns, "loop-0")
	if got := pod.Spec.NodeSelector[corev1.LabelArchStable]; got != "amd64" { // as images of a release are
		t.Errorf("the pod requires a node of architecture %q, want amd64", got)
	}
	must(t, setPod(t.Context(), cluster.kube, client.ObjectKeyFromObject(pod), func(s *corev1.PodStatus) {
		s.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
		}}
	}))
	expect(t, answerLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonUnschedulable,
		"loop-0", "kubernetes.io/arch=amd64")
}

func TestAnImageThatCannotBePulledIsReported(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator)
	pod := podNamed(t, ns, "loop-0")
	must(t, setPod(t.Context(), cluster.kube, client.ObjectKeyFromObject(pod), func(s *corev1.PodStatus) {
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "engine", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "engine:test: not found"},
		}}}
	}))
	expect(t, answerLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonImagePullFailed, "engine:test: not found")
}

func TestAPodThatANodeRefusesIsTriedThreeTimesOnly(t *testing.T) {
	t.Parallel()
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator)
	for attempt, name := range []string{"loop-0", "loop-0-retry1", "loop-0-retry2"} {
		pod := podNamed(t, ns, name)
		must(t, setPod(t.Context(), cluster.kube, client.ObjectKeyFromObject(pod), func(s *corev1.PodStatus) {
			s.Phase, s.Reason, s.Message = corev1.PodFailed, "TopologyAffinityError", "Resources cannot be allocated with Topology locality"
		}))
		if attempt < 2 {
			expect(t, answerLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonAdmissionFailed, "TopologyAffinityError", "spec.workers")
		}
	}
	g := generatorNamed(ns, "loop")
	expect(t, answerLimit, g, spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonAdmissionFailed, "3 attempts")
	time.Sleep(2 * time.Second)
	if pods := enginePods(t, ns); len(pods) != 3 {
		t.Errorf("%d pods, want the three that failed", len(pods))
	}
}

func TestAnEnginesLastWordsAreReported(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator)
	pod := podNamed(t, ns, "loop-0")
	must(t, setPod(t.Context(), cluster.kube, client.ObjectKeyFromObject(pod), func(s *corev1.PodStatus) {
		s.Phase = corev1.PodFailed
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "engine", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: "port east: no interface east\n", FinishedAt: metav1.Now()},
		}}}
	}))
	expect(t, answerLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonPodFailed, "exit code 2", "no interface east")
}

func TestAnEngineThatDoesNotAnswerIsReported(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator)
	pod := podNamed(t, ns, "loop-0")
	must(t, setPod(t.Context(), cluster.kube, client.ObjectKeyFromObject(pod), func(s *corev1.PodStatus) {
		s.Phase, s.PodIP, s.PodIPs = corev1.PodRunning, "127.0.0.9", []corev1.PodIP{{IP: "127.0.0.9"}}
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "engine", State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Minute))},
		}}}
	}))
	g := generatorNamed(ns, "loop")
	expect(t, 3*answerLimit, g, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonEngineUnreachable, "loop-0")
	t.Run("and does not hang the deletion", func(t *testing.T) {
		must(t, cluster.kube.Delete(t.Context(), g))
		until(t, 20*time.Second, "the generator is gone", func() (bool, string) { return get(g) != nil, fmt.Sprint(g.Status.Conditions) })
	})
}

// Facts of a real engine, on the machine of the test.
func TestTheMachineOfAnEngineIsReported(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator)
	g := generatorNamed(ns, "loop")
	expect(t, startLimit, g, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	must(t, err)
	clock := "clock source " + strings.TrimSpace(string(source))
	checks, findings := g.Status.Pods[0].Preflight, 0
	for _, c := range checks {
		if c.Remedy != "" {
			findings++
		}
	}
	if !slices.ContainsFunc(checks, func(c spatev1.PreflightCheck) bool {
		return c.Check == "ClockSourceNotTSC" && strings.HasPrefix(c.Observed, clock)
	}) {
		t.Errorf("want %q in %+v", clock, checks)
	}
	status, reason := metav1.ConditionTrue, spatev1.ReasonPreflightPassed
	if findings > 0 {
		status, reason = metav1.ConditionFalse, spatev1.ReasonPreflightFindings
	}
	expect(t, answerLimit, g, spatev1.ConditionMachineReady, status, reason)
}

func TestASuspendedGeneratorFreesItsPods(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator)
	podNamed(t, ns, "loop-0")
	mustApply(t, ns, loopbackGenerator+"  suspend: true\n")
	expect(t, answerLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonSuspended)
	until(t, answerLimit, "no pods", func() (bool, string) { n := len(enginePods(t, ns)); return n == 0, strconv.Itoa(n) })
	mustApply(t, ns, loopbackGenerator+"  suspend: false\n")
	podNamed(t, ns, "loop-0")
}

// As kubectl scale and autoscalers do, which find the pods by the selector.
func TestAGeneratorIsScaledBySubresource(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator)
	podNamed(t, ns, "loop-0")
	g, scale := generatorNamed(ns, "loop"), &autoscalingv1.Scale{}
	for _, replicas := range []int32{2, 1} {
		scaleTo(t, ns, replicas)
		until(t, answerLimit, fmt.Sprintf("%d pods that the selector finds", replicas), func() (bool, string) {
			if err := cluster.kube.SubResource("scale").Get(t.Context(), g, scale); err != nil {
				return false, err.Error()
			}
			selector, err := labels.Parse(scale.Status.Selector)
			if err != nil || selector.Empty() {
				return false, fmt.Sprintf("selector %q: %v", scale.Status.Selector, err)
			}
			var pods corev1.PodList
			must(t, cluster.kube.List(t.Context(), &pods, client.InNamespace(ns), client.MatchingLabelsSelector{Selector: selector}))
			return len(pods.Items) == int(replicas) && scale.Status.Replicas == replicas, fmt.Sprintf("%d pods, %+v", len(pods.Items), scale)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
