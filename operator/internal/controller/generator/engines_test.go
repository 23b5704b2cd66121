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
