// SPDX-License-Identifier: Apache-2.0

package engine

// This file answers: how is the engine of a pod reached?

import (
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"spate.dev/operator/internal/pki"
	"spate.dev/operator/internal/podspec"
)

// TargetOf returns the engine of a generator's pod, with the port that the pod declares.
func TargetOf(pod *corev1.Pod) Target {
	port := int32(0)
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == podspec.PortGRPC {
				port = p.ContainerPort
			}
		}
	}
	return Target{
		Address:    net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port))),
		ServerName: pki.ServerName(pod.Namespace, pod.Labels[podspec.LabelGenerator]),
	}
}
