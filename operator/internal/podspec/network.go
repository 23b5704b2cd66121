// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: who may connect to engine pods, and who scrapes them?

import (
	"maps"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

func selector(g *spatev1.TrafficGenerator) map[string]string {
	return map[string]string{LabelName: EngineName, LabelGenerator: g.Name}
}

// OperatorName is the label LabelName of the operator's pods.
const OperatorName = "spate-operator"

// Access says which pods may connect to engine pods.
type Access struct {
	// OperatorNamespace is the namespace of the operator's pods, which call engines.
	OperatorNamespace string
	// MetricsNamespaces are the namespaces whose pods may read metrics; all when empty.
	MetricsNamespaces []string
}

// metrics returns the peers that may read metrics; none means every peer.
func (a Access) metrics() []networkingv1.NetworkPolicyPeer {
	if len(a.MetricsNamespaces) == 0 {
		return nil
	}
	return []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: a.MetricsNamespaces},
	}}}}
}

// NetworkPolicy lets only the operator's pods call an engine, and those that Access names read its metrics. It applies to the pods'
// primary interface only, not to traffic ports.
func NetworkPolicy(g *spatev1.TrafficGenerator, access Access) *networkingv1.NetworkPolicy {
	port := func(n int) []networkingv1.NetworkPolicyPort {
		return []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt(n))}}
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: PolicyName(g.Name), Labels: Labels(g)},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selector(g)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{
					From: []networkingv1.NetworkPolicyPeer{{
						NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: access.OperatorNamespace}},
						PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{LabelName: OperatorName}},
					}},
					Ports: port(grpcPort),
				},
				{From: access.metrics(), Ports: port(metricsPort)},
			},
		},
	}
}

// PodMonitorKind is the Prometheus operator's kind PodMonitor.
var PodMonitorKind = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "PodMonitor"}

// Scrapes are what users set of the PodMonitors of generators.
type Scrapes struct {
	// Labels of PodMonitors besides their own, by which a Prometheus selects them.
	Labels map[string]string
	// Interval of scrapes.
	Interval model.Duration
	// NativeHistograms requests them beside the classic ones. The kind has the fields since the Prometheus operator 0.88; an older one drops them.
	NativeHistograms bool
}

// PodMonitor lets the Prometheus operator scrape the pods.
func PodMonitor(g *spatev1.TrafficGenerator, scrapes Scrapes) *unstructured.Unstructured {
	pods := map[string]any{}
	for k, v := range selector(g) {
		pods[k] = v
	}
	m := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": pods},
			"podMetricsEndpoints": []any{map[string]any{
				"port": PortMetrics, "interval": scrapes.Interval.String(),
				// The label that the dashboards select by. The action is the default of the CRD: without it, what the API server returns would differ from this.
				"relabelings": []any{map[string]any{"targetLabel": "generator", "replacement": g.Name, "action": "replace"}},
			}},
		},
	}}
	if scrapes.NativeHistograms {
		spec := m.Object["spec"].(map[string]any)
		// The dashboards and rules have the classic ones.
		spec["scrapeNativeHistograms"], spec["scrapeClassicHistograms"] = true, true
	}
	m.SetGroupVersionKind(PodMonitorKind)
	m.SetNamespace(g.Namespace)
	m.SetName(PolicyName(g.Name))
	all := map[string]string{}
	maps.Copy(all, scrapes.Labels)
	maps.Copy(all, Labels(g))
	m.SetLabels(all)
	return m
}
