// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: what does a generator's status report?

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/preflight"
)

// patience is how long a scheduled pod may take to start before its events are read.
const patience = 3 * time.Second

// report updates the status of each pod, and returns the problems: orphaned runs that are being stopped, and those of live pods.
func (r *Reconciler) report(ctx context.Context, g *spatev1.TrafficGenerator, all, live []*corev1.Pod, reports engineReports) []problem {
	problems := slices.Clone(reports.orphaned)
	before := g.Status.Pods
	g.Status.Replicas, g.Status.ReadyReplicas, g.Status.Pods, g.Status.EngineVersion = 0, 0, nil, ""
	versions := map[string]bool{}
	for _, pod := range live {
		if pod == nil {
			continue
		}
		status := podStatus(pod)
		status.IP = pod.Status.PodIP
		found := r.problem(ctx, pod, reports.answers)
		if device := reports.devices[pod.Name]; found != nil && device != nil {
			found = device
		}
		if a := reports.answers[pod.Name]; a.info != nil {
			status.TimeSource, status.DPDKVersion, status.Ports = a.info.TimeSource, a.info.DpdkVersion, portStatus(portsBefore(before, pod.Name), a.info)
			status.Clock = clockStatus(before, pod.Name, a.clock)
			status.Preflight = preflight.Check(&g.Spec, a.info)
			versions[a.info.Version] = true
			g.Status.EngineVersion = a.info.Version
		}
		if found != nil {
			problems = append(problems, *found)
			status.Message = found.message
		} else {
			status.Ready = true
			g.Status.ReadyReplicas++
		}
		g.Status.Replicas++
		g.Status.Pods = append(g.Status.Pods, status)
	}
	if len(versions) > 1 {
		g.Status.EngineVersion = ""
	}
	for _, pod := range all {
		if !slices.Contains(live, pod) && len(g.Status.Pods) < 64 {
			status := podStatus(pod)
			switch {
			case pod.DeletionTimestamp != nil:
				status.Message = "is being deleted"
				if stuck := r.detachFailure(ctx, pod); stuck != nil {
					status.Message = stuck.message
					if podspec.Index(pod) < int(g.Spec.Replicas) { // its successor waits for it
						problems = append(problems, *stuck)
					}
				}
			case ended(pod):
				status.Message = failure(pod).message
			default:
				status.Message = "is replaced when no run uses it"
			}
			g.Status.Pods = append(g.Status.Pods, status)
		}
	}
	index := map[string]int{}
	for _, pod := range slices.Concat(all, live) {
		if pod != nil {
			index[pod.Name] = podspec.Index(pod)
		}
	}
	slices.SortFunc(g.Status.Pods, func(a, b spatev1.GeneratorPodStatus) int {
		return cmp.Or(cmp.Compare(index[a.Name], index[b.Name]), cmp.Compare(a.Name, b.Name))
	})
	return problems
}

// podStatus returns what the pod itself says.
func podStatus(pod *corev1.Pod) spatev1.GeneratorPodStatus {
	group := spatev1.EntryName(pod.Labels[podspec.LabelPodGroup])
	return spatev1.GeneratorPodStatus{Name: pod.Name, PodGroup: group, Node: pod.Spec.NodeName, Phase: pod.Status.Phase}
}

// problem returns what is wrong with a live pod; nil if nothing is.
func (r *Reconciler) problem(ctx context.Context, pod *corev1.Pod, answers map[string]answer) *problem {
	if a, asked := answers[pod.Name]; asked {
		if found := engineProblem(pod, a); found != nil && found.reason == spatev1.ReasonEngineUnreachable && starting(pod) {
			return &problem{spatev1.ReasonPodsPending, fmt.Sprintf("pod %s: the engine is starting", pod.Name)}
		} else {
			return found
		}
	}
	found := diagnose(pod)
	if found.reason == spatev1.ReasonPodsPending && pod.Spec.NodeName != "" && time.Since(pod.CreationTimestamp.Time) > patience {
		if refused := r.sandboxFailure(ctx, pod); refused != nil {
			return refused
		}
	}
	return &found
}

// starting reports whether the engine may still be opening its ports.
func starting(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil && time.Since(c.State.Running.StartedAt.Time) < 10*time.Second {
			return true
		}
	}
	return false
}

// settle sets the conditions by the most severe problem, and by whether spec.replicas has yet to take effect. It returns when to reconcile
// again.
func (r *Reconciler) settle(_ context.Context, g *spatev1.TrafficGenerator, f fleet, resizing string, problems []problem) time.Duration {
	c := &g.Status.Conditions
	switch {
	case f.exhausted != nil:
		kstatus.Stalled(c, g.Generation, f.exhausted.reason, f.exhausted.message)
		return readyInterval
	case len(problems) > 0:
		first := problems[0]
		for _, t := range problems {
			if first.reason == spatev1.ReasonPodsPending {
				first = t
			}
		}
		message := first.message
		if more := len(problems) - 1; more > 0 {
			message = fmt.Sprintf("%s (and %d more pods)", message, more)
		}
		kstatus.Progressing(c, g.Generation, first.reason, message)
		if f.failed != nil && first.reason == spatev1.ReasonPodsPending {
			kstatus.Progressing(c, g.Generation, f.failed.reason, f.failed.message+"; retrying")
		}
		return soon
	case resizing != "":
		kstatus.Progressing(c, g.Generation, spatev1.ReasonReplicasPending, resizing)
		return readyInterval
	case f.failed != nil && g.Status.ReadyReplicas < g.Spec.Replicas:
		kstatus.Progressing(c, g.Generation, f.failed.reason, f.failed.message+"; retrying")
		return max(f.again, 100*time.Millisecond)
	case g.Status.ReadyReplicas < g.Spec.Replicas:
		message := fmt.Sprintf("%d of %d pods are ready", g.Status.ReadyReplicas, g.Spec.Replicas)
		if f.outdated > 0 {
			message = fmt.Sprintf("%d pods are replaced when no run uses them", f.outdated)
		}
		kstatus.Progressing(c, g.Generation, spatev1.ReasonPodsPending, message)
		return soon
	}
	message := fmt.Sprintf("%d engines answer, all ports are up", g.Status.ReadyReplicas)
	if g.Spec.Replicas == 1 {
		message = "the engine answers, all ports are up"
	}
	kstatus.Ready(c, g.Generation, spatev1.ReasonAvailable, message)
	return readyInterval
}

// measurementReady sets the MeasurementReady condition.
func measurementReady(g *spatev1.TrafficGenerator) {
	set := func(value metav1.ConditionStatus, reason, message string) {
		kstatus.Set(&g.Status.Conditions, spatev1.ConditionMeasurementReady, value, g.Generation, reason, message)
	}
	shared := podspec.Shared(&g.Spec, g.Status.Pods)
	switch {
	case len(shared) > 0:
		set(metav1.ConditionFalse, spatev1.ReasonSharedResources, "not for measurement: "+strings.Join(shared, "; "))
	case g.Status.ReadyReplicas == 0:
		set(metav1.ConditionUnknown, spatev1.ReasonNoEngines, "no engine has reported its ports")
	default:
		set(metav1.ConditionTrue, spatev1.ReasonExclusiveResources, "the engines use their CPUs, packet memory and ports exclusively")
	}
}

// machineReady sets the MachineReady condition. It has no part in Ready.
func machineReady(g *spatev1.TrafficGenerator) {
	value, reason, message := preflight.Summary(g)
	kstatus.Set(&g.Status.Conditions, spatev1.ConditionMachineReady, value, g.Generation, reason, message)
}

// announce emits an event when Ready changes its reason.
func (r *Reconciler) announce(before, after *spatev1.TrafficGenerator) {
	was, is := meta.FindStatusCondition(before.Status.Conditions, spatev1.ConditionReady), meta.FindStatusCondition(after.Status.Conditions, spatev1.ConditionReady)
	if is == nil || is.Reason == spatev1.ReasonPodsPending || (was != nil && was.Reason == is.Reason) {
		return
	}
	kind := corev1.EventTypeWarning
	if slices.Contains([]string{spatev1.ReasonAvailable, spatev1.ReasonSuspended, spatev1.ReasonReplicasPending}, is.Reason) {
		kind = corev1.EventTypeNormal
	}
	r.Events.Eventf(after, nil, kind, is.Reason, "Reconcile", "%s", kstatus.Shortened(is.Message, kstatus.LongestNote))
}
