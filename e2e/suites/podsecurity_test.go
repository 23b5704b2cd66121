// SPDX-License-Identifier: Apache-2.0

// Engines whose ports open no device are not root, so they run in namespaces of the Pod Security level `restricted`.

package suites

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

func TestLoopbackGeneratorRunsInARestrictedNamespace(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`))
	if err := kube.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, label); err != nil {
		t.Fatal(err)
	}
	mustApply(t, ns, loopbackGenerator+"---"+loopbackStream+"---"+loopbackProfile("restricted", "  duration: 1s"))
	p := profileNamed(ns, "restricted")
	complete(t, time.Minute, p)
	condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionTrue)
	pod := podNamed(ns, "loop-0")
	if err := get(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if user := pod.Spec.Containers[0].SecurityContext.RunAsUser; user == nil || *user == 0 {
		t.Errorf("the engine runs as user %v", user)
	}
}
