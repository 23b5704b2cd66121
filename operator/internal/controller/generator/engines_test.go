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

func TestTheErrorOfADevicesTimeStampsIsReportedRoundedAndSeldomChanges(t *testing.T) {
	port := &enginev1.PortInfo{Name: "east", ReceiveTimestamps: enginev1.ReceiveTimestamps_RECEIVE_TIMESTAMPS_DEVICE}
	info := &enginev1.GetInfoResponse{Ports: []*enginev1.PortInfo{{Name: "loop", ReceiveTimestamps: enginev1.ReceiveTimestamps_RECEIVE_TIMESTAMPS_CPU}, port}}
	var before []spatev1.GeneratorPortStatus
	for _, c := range []struct{ measured, want int64 }{{3000, 10_000}, {420, 1000}, {700, 1000}, {1000, 1000}, {1001, 5000}, {900, 5000}, {310, 1000}, {0, 0}, {420, 1000}} {
		port.TimestampBoundNs = uint64(c.measured)
		before = portStatus(before, info)
		if got := before[1]; got.ReceiveTimestamps != spatev1.TimestampsDevice || int64(got.TimestampBound) != c.want {
			t.Errorf("of %d ns %s is reported, want %d ns", c.measured, got.TimestampBound, c.want)
		}
	}
	if loop := before[0]; loop.ReceiveTimestamps != spatev1.TimestampsCPU || loop.TimestampBound != 0 {
		t.Errorf("%+v", loop)
	}
	if older := portStatus(nil, &enginev1.GetInfoResponse{Ports: []*enginev1.PortInfo{{Name: "east"}}}); older[0].ReceiveTimestamps != "" {
		t.Errorf("an engine that does not report it: %+v", older)
	}
}
