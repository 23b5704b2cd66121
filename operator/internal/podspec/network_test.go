// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"maps"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

// of returns the rule of a policy for a port.
func of(t *testing.T, policy *networkingv1.NetworkPolicy, port int) networkingv1.NetworkPolicyIngressRule {
	t.Helper()
	for _, rule := range policy.Spec.Ingress {
		if len(rule.Ports) == 1 && rule.Ports[0].Port.IntValue() == port {
			return rule
		}
	}
	t.Fatalf("no rule for port %d in %+v", port, policy.Spec.Ingress)
	return networkingv1.NetworkPolicyIngressRule{}
}

func TestOnlyOperatorPodsCallEnginesAndMetricsAreOpenUnlessRestricted(t *testing.T) {
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "g"}}
	open := NetworkPolicy(g, Access{OperatorNamespace: "system"})
	from := of(t, open, grpcPort).From
	if len(from) != 1 || from[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "system" || from[0].PodSelector.MatchLabels[LabelName] != OperatorName {
		t.Errorf("calls from %+v", from)
	}
	if from := of(t, open, metricsPort).From; len(from) != 0 {
		t.Errorf("metrics only from %+v", from)
	}
	restricted := NetworkPolicy(g, Access{OperatorNamespace: "system", MetricsNamespaces: []string{"monitoring"}})
	from = of(t, restricted, metricsPort).From
	if len(from) != 1 || from[0].PodSelector != nil || from[0].NamespaceSelector.MatchExpressions[0].Values[0] != "monitoring" {
		t.Errorf("metrics from %+v", from)
	}
	if len(open.Spec.Ingress) != 2 || len(restricted.Spec.Ingress) != 2 {
		t.Errorf("%+v\n%+v", open.Spec.Ingress, restricted.Spec.Ingress)
	}
}

func TestAPodMonitorHasTheLabelsOfUsersBesidesItsOwn(t *testing.T) {
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "g"}}
	if got := PodMonitor(g, Scrapes{}).GetLabels(); !maps.Equal(got, Labels(g)) {
		t.Errorf("without labels of users: %v", got)
	}
	users := map[string]string{"release": "stack", LabelName: "other"}
	want := Labels(g)
	want["release"] = "stack"
	if got := PodMonitor(g, Scrapes{Labels: users}).GetLabels(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if endpoint := PodMonitor(g, Scrapes{Interval: model.Duration(time.Minute)}).Object["spec"].(map[string]any)["podMetricsEndpoints"].([]any)[0].(map[string]any); endpoint["interval"] != "1m" {
		t.Errorf("an endpoint with %v instead of an interval of 1m", endpoint["interval"])
	}
	if len(users) != 2 {
		t.Errorf("the labels of users were changed: %v", users)
	}
	for _, native := range []bool{false, true} {
		spec := PodMonitor(g, Scrapes{NativeHistograms: native}).Object["spec"].(map[string]any)
		for _, field := range []string{"scrapeNativeHistograms", "scrapeClassicHistograms"} {
			if _, there := spec[field]; there != native || native && spec[field] != true {
				t.Errorf("native histograms %t: %s is %v", native, field, spec[field])
			}
		}
	}
}
