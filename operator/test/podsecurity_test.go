// SPDX-License-Identifier: Apache-2.0

package test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

const networksOfBothKinds = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: vf, annotations: {k8s.v1.cni.cncf.io/resourceName: vendor.example/vf}}
spec: {config: '{}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: net}
spec: {config: '{}'}
`

// docs/attachments.md says so of each.
func TestPodsOfEveryAttachmentAreForPrivilegedNamespaces(t *testing.T) {
	ns := bareNamespace(t)
	level := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}`))
	must(t, cluster.kube.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, level))
	mustApply(t, ns, networksOfBothKinds)
	for name, c := range map[string]struct {
		attachment string
		violated   []string
	}{
		"loopback":   {"{loopback: {}}", []string{"IPC_LOCK"}},
		"discard":    {"{discard: {}}", []string{"IPC_LOCK"}},
		"kernel":     {"{kernel: {network: net}}", []string{"IPC_LOCK", "NET_ADMIN", "NET_RAW"}},
		"sriov":      {"{sriov: {network: vf}}", []string{"IPC_LOCK"}},
		"bifurcated": {"{sriov: {network: vf, driver: Bifurcated}}", []string{"IPC_LOCK", "NET_ADMIN", "NET_RAW"}},
		"bond":       {"{bond: {members: [{name: a, sriov: {network: vf}}, {name: b, sriov: {network: vf}}]}}", []string{"IPC_LOCK"}},
		"memif":      {"{memif: {volume: sockets, socket: a.sock}}", []string{"IPC_LOCK"}},
	} {
		mustApply(t, ns, strings.NewReplacer("metadata: {name: loop}", "metadata: {name: "+name+"}", "ports:", "volumes: [{name: sockets, writable: true, persistentVolumeClaim: {claimName: sockets}}]\n  ports:",
			"{loopback: {}}", c.attachment).Replace(loopbackGenerator))
		expect(t, answerLimit, generatorNamed(ns, name), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonAdmissionFailed,
			append([]string{`violates PodSecurity "baseline`, "non-default capabilities"}, c.violated...)...)
	}
	privileged := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}`))
	must(t, cluster.kube.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, privileged))
	podNamed(t, ns, "memif-0")
}
