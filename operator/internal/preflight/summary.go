// SPDX-License-Identifier: Apache-2.0

package preflight

// This file answers: what does the condition MachineReady report of all pods?

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

// named is how many findings a message names.
const named = 3

// Summary returns the condition MachineReady of a generator by the checks of its pods: status, reason and message.
func Summary(g *spatev1.TrafficGenerator) (metav1.ConditionStatus, string, string) {
	reported := 0
	var found, unknown []located
	for _, pod := range g.Status.Pods {
		if len(pod.Preflight) > 0 {
			reported++
		}
		for _, c := range pod.Preflight {
			switch {
			case IsFinding(&c):
				found = add(found, c, pod.Name)
			case c.State == spatev1.PreflightUnknown:
				unknown = add(unknown, c, pod.Name)
			}
		}
	}
	switch {
	case len(found) > 0:
		slices.SortStableFunc(found, func(a, b located) int { return severity[a.check.State] - severity[b.check.State] })
		return metav1.ConditionFalse, spatev1.ReasonPreflightFindings, messages(g.Name, found, func(l located) string {
			return fmt.Sprintf("%s of %s in %s: %s; remedy: %s", l.check.Check, l.check.Subject, l.where(), l.check.Observed, l.check.Remedy)
		})
	case reported == 0:
		return metav1.ConditionUnknown, spatev1.ReasonNoEngines, "no engine has reported its machine"
	case reported < int(g.Spec.Replicas):
		return metav1.ConditionUnknown, spatev1.ReasonNoEngines, fmt.Sprintf("%d of %d engines have reported their machines", reported, g.Spec.Replicas)
	}
	message := "the checks of the pods' machines found nothing"
	if len(unknown) > 0 {
		message += "; unknown: " + messages(g.Name, unknown, func(l located) string {
			return fmt.Sprintf("%s of %s in %s", l.check.Check, l.check.Subject, l.where())
		})
	}
	return metav1.ConditionTrue, spatev1.ReasonPreflightPassed, message
}

// located is a check with the pods in which it has the same outcome.
type located struct {
	check spatev1.PreflightCheck
	pods  []string
}

// add adds a check of a pod.
func add(all []located, c spatev1.PreflightCheck, pod string) []located {
	for i := range all {
		if all[i].check == c {
			all[i].pods = append(all[i].pods, pod)
			return all
		}
	}
	return append(all, located{c, []string{pod}})
}

// where names the pods.
func (l located) where() string {
	if len(l.pods) == 1 {
		return "pod " + l.pods[0]
	}
	return "pods " + strings.Join(l.pods, ", ")
}

// messages joins the first texts, and says where the others are.
func messages(generator string, all []located, text func(located) string) string {
	var parts []string
	for _, l := range all[:min(len(all), named)] {
		parts = append(parts, text(l))
	}
	joined := strings.Join(parts, ". ")
	if more := len(all) - named; more > 0 {
		joined += fmt.Sprintf(" (and %d more: kubectl spate doctor %s)", more, generator)
	}
	return joined
}
