// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: as which user does an engine run, and with which capabilities?

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

// nonRoot is the user and the group of an engine that needs no right. It owns nothing on a node.
const nonRoot int64 = 65532

// podSecurityContext has a group for an engine that is not root, so that it can read its certificate.
func (t Template) podSecurityContext() *corev1.PodSecurityContext {
	context := &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	if t.runsAsNonRoot() {
		context.FSGroup = ptr.To(nonRoot)
	}
	return context
}

func (t Template) securityContext() *corev1.SecurityContext {
	context := &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: t.capabilities()},
		// Added capabilities are effective for root only.
		RunAsUser: ptr.To[int64](0),
	}
	if t.runsAsNonRoot() {
		context.RunAsNonRoot, context.RunAsUser, context.RunAsGroup = ptr.To(true), ptr.To(nonRoot), ptr.To(nonRoot)
	}
	return context
}

// runsAsNonRoot reports whether the engine needs neither a capability nor files of root's: sockets of memif peers and files in claimed
// volumes belong to the user who made them.
func (t Template) runsAsNonRoot() bool {
	claims := slices.ContainsFunc(t.Generator.Spec.Volumes, func(v spatev1.GeneratorVolume) bool { return v.PersistentVolumeClaim != nil })
	return len(t.capabilities()) == 0 && !claims
}

func (t Template) capabilities() (add []corev1.Capability) {
	huge := t.Generator.Spec.PacketMemory.Backing != spatev1.BackingStandard
	if huge || slices.ContainsFunc(t.all(), attachment.opensDevice) {
		// Memory that a device reads and writes is locked.
		add = append(add, "IPC_LOCK")
	}
	if huge {
		// DPDK queries and sets the NUMA node of its pages; the default seccomp profile allows that only with this
		// capability.
		add = append(add, "SYS_NICE")
	}
	if t.makesInterface() || slices.ContainsFunc(t.all(), attachment.kernelDriver) {
		// For packet sockets, creating and configuring interfaces, promiscuous mode, and raw queues and flow rules through a kernel driver.
		add = append(add, "NET_RAW", "NET_ADMIN")
	}
	if slices.ContainsFunc(t.all(), attachment.loadsProgram) {
		// For bpf(2), which the default seccomp profile allows only with this capability.
		add = append(add, "BPF")
	}
	return add
}

// makesInterface reports whether the engine creates an interface of the pod for a port, to which packets are punted, or by which routing
// protocols are spoken.
func (t Template) makesInterface() bool {
	return slices.ContainsFunc(t.Generator.Spec.Ports, func(p spatev1.GeneratorPort) bool { return p.Punt != nil || p.Routing != nil })
}
