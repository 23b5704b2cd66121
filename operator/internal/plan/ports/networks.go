// SPDX-License-Identifier: Apache-2.0

package ports

// This file answers: which Multus networks do the ports of a generator attach to?

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

// Network is a Multus network of a port.
type Network struct {
	spatev1.NetworkReference
	// At is the path of the attachment.
	At *field.Path
	// Interface is its name in the pod.
	Interface string
	// Device says whether the network's NetworkAttachmentDefinition must name the resource of a device plugin; otherwise it must not.
	Device bool
}

// Networks returns the networks of all ports, in their order. at is the path of the specification.
func Networks(spec *spatev1.TrafficGeneratorSpec, at *field.Path) (networks []Network) {
	for i := range spec.Ports {
		port := &spec.Ports[i]
		to, at := &port.Attachment, at.Child("ports").Index(i).Child("attachment")
		networks = append(networks, networksOf(string(port.Name), to.SRIOV, to.Kernel, at)...)
		if to.Bond == nil {
			continue
		}
		for j := range to.Bond.Members {
			m := &to.Bond.Members[j]
			networks = append(networks, networksOf(string(m.Name), m.SRIOV, m.Kernel, at.Child("bond", "members").Index(j))...)
		}
	}
	return networks
}

func networksOf(name string, sriov *spatev1.SRIOVAttachment, kernel *spatev1.KernelAttachment, at *field.Path) (networks []Network) {
	if sriov != nil {
		networks = append(networks, Network{NetworkReference: sriov.NetworkReference, At: at.Child("sriov"), Interface: name, Device: true})
	}
	if kernel != nil {
		networks = append(networks, Network{NetworkReference: kernel.NetworkReference, At: at.Child("kernel"), Interface: name})
	}
	return networks
}

// NamespaceIn returns the namespace of the NetworkAttachmentDefinition, for a generator in a namespace.
func (n *Network) NamespaceIn(generator string) string {
	if n.Namespace != "" {
		return n.Namespace
	}
	return generator
}
