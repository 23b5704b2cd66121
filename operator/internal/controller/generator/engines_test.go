// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
)

func TestAnEngineWhoseWorkerHangsIsNotReady(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "g-0"}}
	info := &enginev1.GetInfoResponse{ContractMinor: engine.ContractMinor}
	if found := engineProblem(pod, answer{info: info}); found != nil {
		t.Fatalf("%+v", found)
	}
	info.Problem = "worker 1 has not passed its loop for 10 s"
	found := engineProblem(pod, answer{info: info})
	if found == nil || found.reason != spatev1.ReasonEngineHangs || !strings.HasPrefix(found.message, "pod g-0: worker 1 has not passed its loop for 10 s") {
		t.Errorf("%+v", found)
	}
}

func TestADeviceThatItsNodeRequestsMakesAGeneratorUnready(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "g-0"}, Spec: corev1.PodSpec{NodeName: "worker-1"}}
	port := &enginev1.PortInfo{Name: "east", Device: "0000:3b:02.1", LinkUp: false, RemovalRequested: true}
	info := &enginev1.GetInfoResponse{ContractMinor: engine.ContractMinor, Ports: []*enginev1.PortInfo{port}}
	found := engineProblem(pod, answer{info: info})
	if found == nil || found.reason != spatev1.ReasonDeviceRequested || !strings.HasPrefix(found.message, "pod g-0: node worker-1 requests the device of port east (0000:3b:02.1) back") {
		t.Errorf("%+v", found)
	}
	port.RemovalRequested = false
	if found = engineProblem(pod, answer{info: info}); found == nil || found.reason != spatev1.ReasonPortDown {
		t.Errorf("%+v", found)
	}
}
