// SPDX-License-Identifier: Apache-2.0

// What stands in for a generator that is not known?

package offline

import (
	"fmt"
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
)

// DefaultLineRate is that of a stand-in's ports.
const DefaultLineRate spatev1.BitRate = "10Gbps"

// StandIn makes the plain generator of one engine, or of one for each group of pods that entries name, that a profile could run on: discard ports where it only sends, network ports of the same
// name where packets are expected and where applications are; two network ports where an entry names none.
func StandIn(profile *spatev1.TrafficProfile, lineRate spatev1.BitRate) *spatev1.TrafficGenerator {
	generator := &spatev1.TrafficGenerator{Spec: spatev1.TrafficGeneratorSpec{Replicas: 1, Workers: 1, AllowedNamespaces: spatev1.AllowedNamespaces{From: spatev1.NamespacesAll}}}
	generator.Name, generator.Namespace = "stand-in", profile.Namespace
	if ref := profile.Spec.GeneratorRef; ref != nil {
		generator.Name = string(ref.Name)
		if ref.Namespace != "" {
			generator.Namespace = ref.Namespace
		}
	}
	for _, e := range profile.Spec.Traffic {
		for _, name := range []spatev1.EntryName{e.TransmitPodGroup, e.ReceivePodGroup} {
			known := func(g spatev1.PodGroup) bool { return g.Name == name }
			if name != "" && !slices.ContainsFunc(generator.Spec.PodGroups, known) {
				generator.Spec.PodGroups = append(generator.Spec.PodGroups, spatev1.PodGroup{Name: name, Replicas: 1})
			}
		}
	}
	generator.Spec.Replicas = int32(max(1, len(generator.Spec.PodGroups)))
	var sending, receiving []spatev1.PortName
	portless := false // entries that name none have the two ports of the generator
	for _, e := range profile.Spec.Traffic {
		if e.TransmitPort == "" && e.ReceivePort == "" {
			portless = true
			continue
		}
		if e.Application != nil { // either side hears from the other
			for _, name := range []spatev1.PortName{e.TransmitPort, e.ReceivePort} {
				if name != "" {
					receiving = append(receiving, name)
				}
			}
			continue
		}
		if e.ReceivePort == "" {
			sending = append(sending, e.TransmitPort)
			continue
		}
		receiving = append(receiving, e.TransmitPort, e.ReceivePort)
	}
	for _, r := range profile.Spec.Reflect {
		receiving = append(receiving, r.Port)
	}
	for _, r := range profile.Spec.Receive {
		receiving = append(receiving, r.Port)
	}
	for _, name := range slices.Concat(sending, receiving) {
		if slices.ContainsFunc(generator.Spec.Ports, func(p spatev1.GeneratorPort) bool { return p.Name == name }) {
			continue
		}
		port := spatev1.GeneratorPort{Name: name, LineRate: lineRate}
		if slices.Contains(receiving, name) || portless {
			port.Attachment.Kernel = &spatev1.KernelAttachment{NetworkReference: spatev1.NetworkReference{Network: spatev1.ObjectName(name)}}
		} else {
			port.Attachment.Discard = &spatev1.DiscardAttachment{}
		}
		generator.Spec.Ports = append(generator.Spec.Ports, port)
	}
	for number := 1; portless && len(generator.Spec.Ports) < 2; number++ {
		name := spatev1.PortName(fmt.Sprintf("port-%d", number))
		if slices.ContainsFunc(generator.Spec.Ports, func(p spatev1.GeneratorPort) bool { return p.Name == name }) {
			continue
		}
		attachment := spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{NetworkReference: spatev1.NetworkReference{Network: spatev1.ObjectName(name)}}}
		generator.Spec.Ports = append(generator.Spec.Ports, spatev1.GeneratorPort{Name: name, LineRate: lineRate, Attachment: attachment})
	}
	return generator
}
