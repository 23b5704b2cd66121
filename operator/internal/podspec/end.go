// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: how did an engine's container end?

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// EndOf returns how the engine of a pod ended, such as `exit code 1`, and its terminated state in Kubernetes; nil if it
// never ran.
func EndOf(pod *corev1.Pod) (how string, ended *corev1.ContainerStateTerminated) {
	for _, c := range pod.Status.ContainerStatuses {
		t := c.State.Terminated
		switch {
		case t == nil:
			continue
		case t.Reason == "OOMKilled":
			return fmt.Sprintf("exit code %d (OOMKilled: it needs more than its generator's spec.memory)", t.ExitCode), t
		case pod.Status.Reason != "": // Evicted, Terminated (the node shuts down)
			return fmt.Sprintf("exit code %d (%s: %s)", t.ExitCode, pod.Status.Reason, strings.TrimSpace(pod.Status.Message)), t
		}
		return fmt.Sprintf("exit code %d", t.ExitCode), t
	}
	return "", nil
}
