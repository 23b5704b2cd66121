// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs/runstest"
)

// A namespace that is going takes no generator; that is no fault, and tried no more.
func TestNothingIsMadeInANamespaceThatIsGoing(t *testing.T) {
	p := &spatev1.TrafficProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "imix", Namespace: "going", Finalizers: []string{Finalizer}},
		Spec: spatev1.TrafficProfileSpec{Generator: &spatev1.TrafficGeneratorSpec{
			Replicas: 1, Workers: 1, CPUPolicy: spatev1.CPUShared, PacketMemory: spatev1.PacketMemory{Backing: spatev1.BackingStandard, Size: "64Mi"},
			Ports: []spatev1.GeneratorPort{{Name: "a", Attachment: spatev1.PortAttachment{Loopback: &spatev1.LoopbackAttachment{}}}},
		}},
	}
	refused := 0
	create := func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
		refused++
		err := apierrors.NewForbidden(schema.GroupResource{}, object.GetName(), nil)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return err
	}
	c := runstest.Builder(t).WithObjects(p).WithInterceptorFuncs(interceptor.Funcs{Create: create}).Build()
	r := &Reconciler{Client: c, Events: events.NewFakeRecorder(9)}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p)})
	if err != nil || !result.IsZero() || refused != 1 {
		t.Errorf("%v, %v, refused %d times", result, err, refused)
	}
}
