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

// docs/attachments.md states the level of each.
func TestPodsOfEachAttachmentAreAllowedByTheLevelOfItsDocumentation(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, networksOfBothKinds)
	attachments := map[string]string{
		"loopback": "{loopback: {}}", "discard": "{discard: {}}", "kernel": "{kernel: {network: net}}", "xdp": "{kernel: {network: net, socketFamily: AFXDP}}", "sriov": "{sriov: {network: vf}}",
		"bifurcated": "{sriov: {network: vf, driver: Bifurcated}}", "bond": "{bond: {members: [{name: a, sriov: {network: vf}}, {name: b, sriov: {network: vf}}]}}",
		"memif": "{memif: {volume: sockets, socket: a.sock}}",
		// A loopback port, with huge pages.
		"huge": "{loopback: {}}",
	}
	lock, admin := []string{"non-default capabilities", "IPC_LOCK"}, []string{"non-default capabilities", "IPC_LOCK", "NET_ADMIN", "NET_RAW"}
	xdp := []string{"non-default capabilities", "BPF", "IPC_LOCK", "NET_ADMIN", "NET_RAW"}
	levels := []struct {
		name     string
		violated map[string][]string
	}{
		{"baseline", map[string][]string{"kernel": admin, "xdp": xdp, "sriov": lock, "bifurcated": admin, "bond": lock, "huge": {"IPC_LOCK", "SYS_NICE"}}},
		{"restricted", map[string][]string{"memif": {"runAsNonRoot != true", "runAsUser=0"}}},
	}
	for _, level := range levels {
		enforce(t, ns, level.name)
		for name, attachment := range attachments {
			violated, refused := level.violated[name]
			if _, refused := levels[0].violated[name]; refused && level.name == "restricted" {
				continue // baseline refuses it already
			}
			object := level.name + "-" + name
			manifest := strings.NewReplacer("metadata: {name: loop}", "metadata: {name: "+object+"}", "{loopback: {}}", attachment)
			text := manifest.Replace(loopbackGenerator)
			switch name {
			case "memif":
				text = strings.Replace(text, "ports:", "volumes: [{name: sockets, writable: true, persistentVolumeClaim: {claimName: sockets}}]\n  ports:", 1)
			case "huge":
				text = strings.Replace(text, "backing: Standard", "backing: Hugepages2Mi", 1)
			}
			mustApply(t, ns, text)
			if refused {
				expect(t, answerLimit, generatorNamed(ns, object), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonAdmissionFailed,
					append([]string{`violates PodSecurity "` + level.name}, violated...)...)
			} else {
				podNamed(t, ns, object+"-0")
			}
		}
	}
	enforce(t, ns, "privileged")
	podNamed(t, ns, "baseline-sriov-0")
}

// enforce sets the Pod Security level of a namespace.
func enforce(t *testing.T, ns, level string) {
	t.Helper()
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "`+level+`"}}}`))
	must(t, cluster.kube.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, label))
}
