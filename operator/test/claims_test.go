// SPDX-License-Identifier: Apache-2.0

package test

// Ports on devices of resource claims (Dynamic Resource Allocation). The API server has the real kinds; the test plays the controller of
// claims, the scheduler and the driver.

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

const linkDriver = "links.test.spate.dev"

const claimingGenerator = `
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: lab}
spec:
  cpuPolicy: Shared
  packetMemory: {size: 64Mi, backing: Standard}
  ports:
  - {name: east, addresses: [198.18.0.1/15], lineRate: 1Gbps, attachment: {resourceClaim: {resourceClaimTemplateName: links}}}
  - {name: west, addresses: [198.19.0.1/15], lineRate: 1Gbps, attachment: {resourceClaim: {resourceClaimTemplateName: links, request: link}}}
`

// template asks for links; how is the rest of the request.
func template(how string) string {
	return `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: links}
spec: {spec: {devices: {requests: [{name: link, exactly: {deviceClassName: links, ` + how + `}}]}}}
`
}

// claimed plays the controller that makes a pod's claim by its template, and the scheduler that gives it devices.
func claimed(t *testing.T, pod *corev1.Pod, devices ...string) *resourcev1.ResourceClaim {
	t.Helper()
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: *pod.Spec.ResourceClaims[0].ResourceClaimTemplateName}}
	must(t, get(template))
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name + "-links",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}},
	}, Spec: template.Spec.Spec}
	must(t, cluster.kube.Create(t.Context(), claim))
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	for _, device := range devices {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{
			Request: "link", Driver: linkDriver, Pool: "test-node", Device: device,
		})
	}
	must(t, cluster.kube.Status().Update(t.Context(), claim))
	must(t, setPod(t.Context(), cluster.kube, client.ObjectKeyFromObject(pod), func(s *corev1.PodStatus) {
		s.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: pod.Spec.ResourceClaims[0].Name, ResourceClaimName: &claim.Name}}
	}))
	return claim
}

// offered plays a driver that publishes devices, with one attribute each.
func offered(t *testing.T, attribute resourcev1.QualifiedName, values map[string]string) {
	t.Helper()
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: linkDriver, NodeName: ptr.To("test-node"), Pool: resourcev1.ResourcePool{Name: "test-node", ResourceSliceCount: 1},
	}}
	for device, value := range values {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: device, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{attribute: {StringValue: &value}}})
	}
	must(t, cluster.kube.Create(t.Context(), slice))
	t.Cleanup(func() { _ = cluster.kube.Delete(t.Context(), slice) })
}

// attached plays a driver that reports the interfaces of devices.
func attached(t *testing.T, claim *resourcev1.ResourceClaim, interfaces map[string]string) {
	t.Helper()
	must(t, get(claim))
	claim.Status.Devices = nil
	for device, name := range interfaces {
		claim.Status.Devices = append(claim.Status.Devices, resourcev1.AllocatedDeviceStatus{
			Driver: linkDriver, Pool: "test-node", Device: device, NetworkData: &resourcev1.NetworkDeviceData{InterfaceName: name},
		})
	}
	must(t, cluster.kube.Status().Update(t.Context(), claim))
}

func TestDevicesOfAResourceClaimBecomeThePortsOfARealEngine(t *testing.T) {
	needsEngine(t)
	near, far := veth(t)
	ns := namespace(t)
	offered(t, "model", map[string]string{"link-0": "pair", "link-1": "pair"})
	mustApply(t, ns, template("count: 2")+"---"+claimingGenerator)
	pod := podNamed(t, ns, "lab-0")
	claim := claimed(t, pod, "link-1", "link-0") // the first port gets the first of these
	g := generatorNamed(ns, "lab")

	// The driver has not reported anything yet.
	expect(t, startLimit, g, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonDeviceMismatch,
		"pod lab-0: port east: ResourceClaim "+claim.Name+" has link-1 of pool test-node (driver "+linkDriver+")", "networkData.interfaceName", "resource.kubernetes.io/pciBusID", "has the attributes model")
	expect(t, answerLimit, g, spatev1.ConditionMeasurementReady, metav1.ConditionFalse, spatev1.ReasonSharedResources, "port east: no engine has opened the device")

	attached(t, claim, map[string]string{"link-0": far, "link-1": near})
	expect(t, startLimit, g, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	for i, want := range []string{near, far} {
		if port := g.Status.Pods[0].Ports[i]; port.Kind != spatev1.PortKernel || port.Device != want {
			t.Errorf("port %s is %s %s, want %s", port.Name, port.Kind, port.Device, want)
		}
	}
	expect(t, answerLimit, g, spatev1.ConditionMeasurementReady, metav1.ConditionFalse, spatev1.ReasonSharedResources, "port east: the device of its resource claim is a kernel interface")

	mustApply(t, ns, loopbackStream+"---"+`
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: across}
spec:
  generatorRef: {name: lab}
  traffic: [{name: small, stream: {ref: {name: small}}, transmitPort: east, receivePort: west}]
  duration: 1s
  generatorTolerance: {late: 100%, txDropped: 0%}
  thresholds: [{name: all, expression: result.rx == 1000 && result.lost == 0}]
`)
	r := complete(t, readyLimit+runLimit, profileNamed(ns, "across"))
	must(t, ended(r))
	if r.Status.Verdict.Outcome != spatev1.VerdictPassed {
		t.Errorf("%+v: %d sent, %d received", r.Status.Verdict, r.Status.Result.Tx, r.Status.Result.Rx)
	}
}

func TestThePCIAddressOfAClaimedDeviceReachesItsEngine(t *testing.T) {
	ns := bareNamespace(t)
	offered(t, "resource.kubernetes.io/pciBusID", map[string]string{"vf-0": "0000:3b:02.1", "vf-1": "0000:3b:02.2"})
	mustApply(t, ns, template("count: 2")+"---"+claimingGenerator)
	pod := podNamed(t, ns, "lab-0")
	bound(t, pod)
	claimed(t, pod, "vf-0", "vf-1")
	want := `{"east":{"pci":"0000:3b:02.1"},"west":{"pci":"0000:3b:02.2"}}`
	until(t, startLimit, "the devices are reported", func() (bool, string) {
		pod := podNamed(t, ns, "lab-0")
		return pod.Annotations["spate.dev/claimed-devices"] == want, fmt.Sprint(pod.Annotations)
	})
}

// bound plays a scheduler, and at the end of the test the node's kubelet, without which the pod would stay.
func bound(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	must(t, cluster.kube.SubResource("binding").Create(t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "test-node"}}))
	t.Cleanup(func() {
		if err := cluster.kube.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

func TestAMismatchOfPortsAndResourceClaimListsBothSides(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, claimingGenerator)
	g := generatorNamed(ns, "lab")
	expect(t, startLimit, g, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonClaimTemplateNotFound, "spec.ports[0].attachment.resourceClaim.resourceClaimTemplateName", `"links"`, ns)

	renew := func(how string) {
		t.Helper()
		old := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "links"}}
		must(t, client.IgnoreNotFound(cluster.kube.Delete(t.Context(), old))) // its spec cannot be changed
		mustApply(t, ns, template(how))
	}
	renew("count: 1")
	expect(t, answerLimit, g, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonDeviceMismatch, "ResourceClaimTemplate links: ports east, west need 2 devices of request link, and it asks for 1: set spec.spec.devices.requests[0].exactly.count to 2")
	if pods := enginePods(t, ns); len(pods) != 0 {
		t.Errorf("%d pods were made", len(pods))
	}

	renew("allocationMode: All")
	pod := podNamed(t, ns, "lab-0")
	bound(t, pod)
	claim := claimed(t, pod, "link-0")
	expect(t, answerLimit, g, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonDeviceMismatch,
		"pod lab-0: ResourceClaim "+claim.Name+": ports east, west need 2 devices of request link, and it has link-0 of pool test-node (driver "+linkDriver+")", "allocationMode")
}
