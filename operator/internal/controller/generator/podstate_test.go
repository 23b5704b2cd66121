// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestARefusalOfTheNodeHasARemedy(t *testing.T) {
	for reason, c := range map[string]struct {
		message  string
		remedies []string
	}{
		"TopologyAffinityError": {"Resources cannot be allocated with Topology locality",
			[]string{"from one NUMA node", "spec.workers", "spec.controlCPU to Shared", "spec.packetMemory.size", "devices are of one NUMA node", "another node"}},
		"SMTAlignmentError":        {"SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2", []string{"spec.threadsPerCore to 1 or 2"}},
		"UnexpectedAdmissionError": {"Allocate failed", nil},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lab-0"}, Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: c.message}}
		got := failure(pod)
		start := "pod lab-0: " + reason + ": " + c.message
		if got.reason != spatev1.ReasonAdmissionFailed || !strings.HasPrefix(got.message, start) || (got.message == start) != (c.remedies == nil) {
			t.Errorf("%+v", got)
		}
		for _, part := range c.remedies {
			if !strings.Contains(got.message, part) {
				t.Errorf("%s: %q, want %q", reason, got.message, part)
			}
		}
	}
}

// The scheduler's message does not name the labels that nodes lack.
func TestAPodThatNoNodeSuitsNamesTheLabelsItRequires(t *testing.T) {
	for message, named := range map[string]bool{
		"0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.": true,
		"0/2 nodes are available: 2 Insufficient hugepages-2Mi.":                        false,
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lab-0"}, Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "nic": "100g"},
		}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
		}}}}
		got := diagnose(pod)
		if got.reason != spatev1.ReasonUnschedulable || !strings.HasPrefix(got.message, "pod lab-0: "+message) ||
			strings.Contains(got.message, "kubernetes.io/arch=amd64,kubernetes.io/os=linux,nic=100g") != named {
			t.Errorf("%+v", got)
		}
	}
}

// A kubelet that drops the event leaves the reason in its log only.
func TestAPodThatIsNotDeletedHasAReason(t *testing.T) {
	due := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "g-0", DeletionTimestamp: &metav1.Time{Time: due}}, Spec: corev1.PodSpec{NodeName: "n1"}}
	for name, c := range map[string]struct {
		event  string
		after  time.Duration
		reason string
		words  string
	}{
		"an event":            {"no such device", 5 * time.Second, spatev1.ReasonAttachmentFailed, "pod g-0 cannot be deleted: no such device"},
		"none, at first":      {"", 59 * time.Second, "", ""},
		"none after a minute": {"", time.Minute, spatev1.ReasonPodsPending, "the kubelet's log on node n1 has the reason"},
	} {
		got := notDeleted(pod, c.event, due.Add(c.after))
		if c.reason == "" && got != nil || c.reason != "" && (got == nil || got.reason != c.reason || !strings.Contains(got.message, c.words)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
