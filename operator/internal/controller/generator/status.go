// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: what does a generator's status say?

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
)

// patience is how long a scheduled pod may take before its events are read.
const patience = 3 * time.Second

// report fills in what is known of each pod, and returns what is wrong: runs that are being stopped, and live pods.
func (r *Reconciler) report(ctx context.Context, g *spatev1.TrafficGenerator, all, live []*corev1.Pod, heard heard) []trouble {
	troubles := slices.Clone(heard.orphaned)
	g.Status.Replicas, g.Status.ReadyReplicas, g.Status.Pods, g.Status.EngineVersion = 0, 0, nil, ""
	versions := map[string]bool{}
	for _, pod := range live {
		if pod == nil {
			continue
		}
		status := spatev1.GeneratorPodStatus{Name: pod.Name, Node: pod.Spec.NodeName, IP: pod.Status.PodIP, Phase: pod.Status.Phase}
		wrong := r.trouble(ctx, pod, heard.answers)
		if a := heard.answers[pod.Name]; a.info != nil {
			status.TimeSource, status.DPDKVersion, status.Ports = a.info.TimeSource, a.info.DpdkVersion, portStatus(a.info)
			versions[a.info.Version] = true
			g.Status.EngineVersion = a.info.Version
		}
		if wrong != nil {
			troubles = append(troubles, *wrong)
			status.Message = wrong.message
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
			status := spatev1.GeneratorPodStatus{Name: pod.Name, Node: pod.Spec.NodeName, Phase: pod.Status.Phase}
			switch {
			case pod.DeletionTimestamp != nil:
				status.Message = "is being deleted"
			case ended(pod):
				status.Message = failure(pod).message
			default:
				status.Message = "is replaced when nothing runs on it"
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
	return troubles
}

// trouble tells what is wrong with a live pod, if anything.
func (r *Reconciler) trouble(ctx context.Context, pod *corev1.Pod, answers map[string]answer) *trouble {
	if a, asked := answers[pod.Name]; asked {
		if wrong := judge(pod, a); wrong != nil && wrong.reason == spatev1.ReasonEngineUnreachable && starting(pod) {
			return &trouble{spatev1.ReasonPodsPending, fmt.Sprintf("pod %s: the engine is starting", pod.Name)}
		} else {
			return wrong
		}
	}
	wrong := diagnose(pod)
	if wrong.reason == spatev1.ReasonPodsPending && pod.Spec.NodeName != "" && time.Since(pod.CreationTimestamp.Time) > patience {
		if refused := r.sandboxFailure(ctx, pod); refused != nil {
			return refused
		}
	}
	return &wrong
}

// starting tells whether the engine may still be opening its ports.
func starting(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil && time.Since(c.State.Running.StartedAt.Time) < 10*time.Second {
			return true
		}
	}
	return false
}

// settle sums up: the gravest trouble becomes the conditions. It returns when to look again.
func (r *Reconciler) settle(_ context.Context, g *spatev1.TrafficGenerator, f fleet, troubles []trouble) time.Duration {
	c := &g.Status.Conditions
	switch {
	case f.exhausted != nil:
		kstatus.Stalled(c, g.Generation, f.exhausted.reason, f.exhausted.message)
		return watchful
	case len(troubles) > 0:
		first := troubles[0]
		for _, t := range troubles {
			if first.reason == spatev1.ReasonPodsPending {
				first = t
			}
		}
		message := first.message
		if more := len(troubles) - 1; more > 0 {
			message = fmt.Sprintf("%s (and %d more pods)", message, more)
		}
		kstatus.Progressing(c, g.Generation, first.reason, message)
		if f.failed != nil && first.reason == spatev1.ReasonPodsPending {
			kstatus.Progressing(c, g.Generation, f.failed.reason, f.failed.message+"; another attempt is made")
		}
		return soon
	case f.failed != nil && g.Status.ReadyReplicas < g.Spec.Replicas:
		kstatus.Progressing(c, g.Generation, f.failed.reason, f.failed.message+"; another attempt is made")
		return max(f.again, 100*time.Millisecond)
	case g.Status.ReadyReplicas < g.Spec.Replicas:
		message := fmt.Sprintf("%d of %d pods are ready", g.Status.ReadyReplicas, g.Spec.Replicas)
		if f.outdated > 0 {
			message = fmt.Sprintf("%d pods are replaced when nothing runs on them", f.outdated)
		}
		kstatus.Progressing(c, g.Generation, spatev1.ReasonPodsPending, message)
		return soon
	}
	message := fmt.Sprintf("%d engines answer, all ports are up", g.Status.ReadyReplicas)
	if g.Spec.Replicas == 1 {
		message = "the engine answers, all ports are up"
	}
	kstatus.Ready(c, g.Generation, spatev1.ReasonAvailable, message)
	return watchful
}

// measurementReady sets the condition of that name. Attachments are nil while they are not known.
func measurementReady(g *spatev1.TrafficGenerator, attached *podspec.Attachments) {
	set := func(value metav1.ConditionStatus, reason, message string) {
		kstatus.Set(&g.Status.Conditions, spatev1.ConditionMeasurementReady, value, g.Generation, reason, message)
	}
	shared := podspec.Shared(&g.Spec, attached, g.Status.Pods)
	switch {
	case len(shared) > 0:
		set(metav1.ConditionFalse, spatev1.ReasonSharedResources, "not for measurement: "+strings.Join(shared, "; "))
	case g.Status.ReadyReplicas == 0:
		set(metav1.ConditionUnknown, spatev1.ReasonNoEngines, "no engine has reported its ports")
	default:
		set(metav1.ConditionTrue, spatev1.ReasonExclusiveResources, "CPUs, packet memory and ports are the engines' own")
	}
}

// announce tells people by an event when Ready changes its reason.
func (r *Reconciler) announce(before, after *spatev1.TrafficGenerator) {
	was, is := meta.FindStatusCondition(before.Status.Conditions, spatev1.ConditionReady), meta.FindStatusCondition(after.Status.Conditions, spatev1.ConditionReady)
	if is == nil || is.Reason == spatev1.ReasonPodsPending || (was != nil && was.Reason == is.Reason) {
		return
	}
	kind := corev1.EventTypeWarning
	if is.Reason == spatev1.ReasonAvailable || is.Reason == spatev1.ReasonSuspended {
		kind = corev1.EventTypeNormal
	}
	r.Events.Eventf(after, nil, kind, is.Reason, "Reconcile", "%s", kstatus.Shortened(is.Message, kstatus.LongestNote))
}
