// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: what does a port's attachment need of the pod and its engine? Each kind of attachment has a file with one
// implementation.

import (
	spatev1 "spate.dev/api/v1alpha1"
)

// attachment is one of the kinds of attachments.
type attachment interface {
	// device is the device on the engine's command line: --port NAME=DEVICE.
	device() string
	// opensDevice reports whether the engine opens a device of the node, which reads and writes the engine's memory.
	opensDevice() bool
	// kernelDriver reports whether packets or configuration pass through a driver of the kernel, for which the engine needs NET_RAW and
	// NET_ADMIN.
	kernelDriver() bool
	// loadsProgram reports whether the engine loads a program into the kernel, for which it needs BPF.
	loadsProgram() bool
	// shared is what measurements share with others because of the attachment; empty if nothing. Pods report how their engines opened the
	// ports.
	shared(pods []spatev1.GeneratorPodStatus) string
}

// Attachments is what the NetworkAttachmentDefinitions of a generator specify.
type Attachments struct {
	// Resources are the device plugins' resources, by the interface's name in the pod.
	Resources map[string]string
}

// of returns the attachment of a port. The API server has verified that there is exactly one.
func (a Attachments) of(port *spatev1.GeneratorPort) attachment {
	name, to := string(port.Name), &port.Attachment
	switch {
	case to.SRIOV != nil:
		return sriov{spec: to.SRIOV, name: name, resource: a.Resources[name]}
	case to.Kernel != nil:
		return kernel{name: name, xdp: to.Kernel.SocketFamily == spatev1.FamilyAFXDP}
	case to.Bond != nil:
		return a.bond(to.Bond)
	case to.Memif != nil:
		return memif{spec: to.Memif}
	case to.ResourceClaim != nil:
		return claimed{name: name}
	case to.Loopback != nil:
		return loopback{}
	}
	return discard{}
}

// all returns the attachments of all ports.
func (t Template) all() []attachment {
	all := make([]attachment, len(t.Generator.Spec.Ports))
	for i := range all {
		all[i] = t.Attachments.of(&t.Generator.Spec.Ports[i])
	}
	return all
}
