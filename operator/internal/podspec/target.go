// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: how is the engine of a pod reached?

import (
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/pki"
)

// EngineOf returns the engine of a generator's pod, with the port that the pod declares.
func EngineOf(pod *corev1.Pod) engine.Target {
	port := int32(0)
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == PortGRPC {
				port = p.ContainerPort
			}
		}
	}
	return engine.Target{
		Address:    net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port))),
		ServerName: pki.ServerName(pod.Namespace, pod.Labels[LabelGenerator]),
	}
}
