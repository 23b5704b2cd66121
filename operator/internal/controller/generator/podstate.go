// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: what does Kubernetes report about an engine pod, and what does that mean?

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

// problem is why a pod cannot work (yet).
type problem struct {
	reason, message string
}

// started reports whether the pod's engine runs as far as Kubernetes knows.
func started(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
		return false
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running == nil {
			return false
		}
	}
	return true
}

// ended reports whether the pod will never run again.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// diagnose returns why a pod has not started.
func diagnose(pod *corev1.Pod) problem {
	if ended(pod) {
		return failure(pod)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return problem{spatev1.ReasonUnschedulable, fmt.Sprintf("pod %s: %s%s", pod.Name, c.Message, labelsNeeded(pod, c.Message))}
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			reason := spatev1.ReasonPodFailed
			if strings.Contains(w.Reason, "Image") {
				reason = spatev1.ReasonImagePullFailed
			}
			return problem{reason, fmt.Sprintf("pod %s: %s: %s", pod.Name, w.Reason, w.Message)}
		}
	}
	where := "waits for a node"
	if pod.Spec.NodeName != "" {
		where = "is being started on node " + pod.Spec.NodeName
	}
	return problem{spatev1.ReasonPodsPending, fmt.Sprintf("pod %s %s", pod.Name, where)}
}

// labelsNeeded names the labels that a pod requires of its node, where the scheduler reports that nodes lack them: its message has not which.
func labelsNeeded(pod *corev1.Pod, said string) string {
	if !strings.Contains(said, "node affinity/selector") || len(pod.Spec.NodeSelector) == 0 {
		return ""
	}
	return fmt.Sprintf("; the pod requires nodes with the labels %s (kubernetes.io/arch is the operator's --engine-architecture unless the generator"+
		" sets it; others are of spec.podTemplate.spec.nodeSelector and spec.podGroups), and with what spec.podTemplate.spec.affinity requires",
		labels.FormatLabels(pod.Spec.NodeSelector))
}

// remedies are by the kubelet's reason for a pod that it refuses.
var remedies = map[string]string{
	// Reasons of the Topology Manager.
	"TopologyAffinityError": "; the node cannot give the pod's CPUs, huge pages and devices from one NUMA node: lower spec.workers, set spec.controlCPU to Shared" +
		" (one CPU less), lower spec.packetMemory.size, attach networks whose devices are of one NUMA node, or choose another node (spec.podTemplate.spec.nodeSelector)",
	// Reason of the CPU Manager with the option full-pcpus-only.
	"SMTAlignmentError": "; the node gives only whole cores to pods, and this one requests an odd number of CPUs: set spec.threadsPerCore to 1 or 2",
}

// failure returns why a pod has ended: the node's refusal, or the last lines of the engine's log.
func failure(pod *corev1.Pod) problem {
	if how, end := podspec.EndOf(pod); end != nil {
		said := strings.TrimSpace(end.Message)
		if said == "" {
			said = end.Reason
		}
		return problem{spatev1.ReasonPodFailed, fmt.Sprintf("pod %s ended with %s: %s", pod.Name, how, lastLines(said, 3))}
	}
	if pod.Status.Reason != "" { // TopologyAffinityError, UnexpectedAdmissionError, OutOfcpu, Evicted, NodeLost
		return problem{spatev1.ReasonAdmissionFailed, fmt.Sprintf("pod %s: %s: %s%s", pod.Name, pod.Status.Reason, pod.Status.Message, remedies[pod.Status.Reason])}
	}
	return problem{spatev1.ReasonPodFailed, fmt.Sprintf("pod %s ended: %s", pod.Name, pod.Status.Message)}
}

func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, " | ")
}

// lifetime is how long the engine of an ended pod ran.
func lifetime(pod *corev1.Pod) time.Duration {
	if _, end := podspec.EndOf(pod); end != nil && !end.StartedAt.IsZero() {
		return end.FinishedAt.Sub(end.StartedAt.Time)
	}
	return 0
}

// endedAt is when a pod ended, as far as Kubernetes reports it.
func endedAt(pod *corev1.Pod) time.Time {
	if _, end := podspec.EndOf(pod); end != nil && !end.FinishedAt.IsZero() {
		return end.FinishedAt.Time
	}
	return pod.CreationTimestamp.Time
}
