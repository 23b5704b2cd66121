// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
)

// governed returns the answer of an engine whose worker's CPU has a governor.
func governed(governor string) answer {
	return answer{info: &enginev1.GetInfoResponse{
		ContractMinor: engine.ContractMinor, Workers: 1, Ports: []*enginev1.PortInfo{{Name: "a", Kind: enginev1.PortKind_PORT_KIND_LOOPBACK, LinkUp: true}},
		Machine: &enginev1.Machine{WorkerCpus: []*enginev1.WorkerCpu{{Cpu: 4, Governor: &enginev1.TextFact{Fact: &enginev1.TextFact_Value{Value: governor}}}}},
	}}
}

func TestTheMachinesOfPodsAreReportedAndDoNotMakeAGeneratorUnready(t *testing.T) {
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Name: "lab"}, Spec: spatev1.TrafficGeneratorSpec{Replicas: 2}}
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "lab-0"}}, {ObjectMeta: metav1.ObjectMeta{Name: "lab-1"}}}
	r := &Reconciler{}
	report := func(first, second answer) *metav1.Condition {
		reports := engineReports{answers: map[string]answer{"lab-0": first, "lab-1": second}}
		problems := r.report(t.Context(), g, pods, pods, reports)
		r.settle(t.Context(), g, fleet{}, "", problems)
		machineReady(g)
		return meta.FindStatusCondition(g.Status.Conditions, spatev1.ConditionMachineReady)
	}
	found := report(governed("performance"), governed("powersave"))
	if found.Status != metav1.ConditionFalse || found.Reason != spatev1.ReasonPreflightFindings ||
		!strings.HasPrefix(found.Message, "GovernorNotPerformance of CPU 4 in pod lab-1: governor powersave; remedy: set the governor") {
		t.Errorf("%+v", found)
	}
	if !meta.IsStatusConditionTrue(g.Status.Conditions, spatev1.ConditionReady) || g.Status.ReadyReplicas != 2 {
		t.Errorf("a finding has a part in Ready: %+v", g.Status)
	}
	if first := g.Status.Pods[1].Preflight[0]; first.Check != "GovernorNotPerformance" || first.State != spatev1.PreflightWarning || first.Subject != "CPU 4" {
		t.Errorf("%+v", first)
	}
	before := g.DeepCopy()
	report(governed("performance"), governed("powersave"))
	if !reflect.DeepEqual(before.Status, g.Status) {
		t.Error("the same answers change the status, which would be written again")
	}
	if found = report(governed("performance"), governed("performance")); found.Status != metav1.ConditionTrue || found.Reason != spatev1.ReasonPreflightPassed {
		t.Errorf("%+v", found)
	}
	away := answer{err: errors.New("connection refused")}
	if found = report(away, away); found.Status != metav1.ConditionUnknown || found.Reason != spatev1.ReasonNoEngines || g.Status.Pods[0].Preflight != nil {
		t.Errorf("%+v", found)
	}
}
