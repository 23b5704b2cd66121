// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestARefusalOfTheNodeHasARemedy(t *testing.T) {
	for reason, c := range map[string]struct {
		message string
		remedy  bool
	}{
		"TopologyAffinityError":    {"Resources cannot be allocated with Topology locality", true},
		"UnexpectedAdmissionError": {"Allocate failed", false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lab-0"}, Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: c.message}}
		got := failure(pod)
		start := "pod lab-0: " + reason + ": " + c.message
		if got.reason != spatev1.ReasonAdmissionFailed || !strings.HasPrefix(got.message, start) || (got.message == start) == c.remedy {
			t.Errorf("%+v", got)
		}
		for _, part := range []string{"from one NUMA node", "spec.workers", "spec.controlCPU to Shared", "spec.packetMemory.size", "devices are of one NUMA node", "another node"} {
			if strings.Contains(got.message, part) != c.remedy {
				t.Errorf("%s: %q, with %q: %v", reason, got.message, part, c.remedy)
			}
		}
	}
}
