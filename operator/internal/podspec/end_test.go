// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTheEndOfAPodSaysWhoEndedIt(t *testing.T) {
	for want, c := range map[string]struct{ reason, message, container string }{
		"exit code 137": {"", "", "Error"},
		"exit code 137 (OOMKilled: it needs more than its generator's spec.memory)":   {"", "", "OOMKilled"},
		"exit code 137 (Evicted: The node was low on resource: memory.)":              {"Evicted", "The node was low on resource: memory. ", "Error"},
		"exit code 137 (Terminated: Pod was terminated in response to node shutdown)": {"Terminated", "Pod was terminated in response to node shutdown", "Error"},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Reason: c.reason, Message: c.message, ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: c.container}},
		}}}}
		if how, end := EndOf(pod); how != want || end == nil {
			t.Errorf("got %q, want %q", how, want)
		}
	}
}
