// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/pki"
	"spate.dev/operator/internal/runs/runstest"
)

// A terminating namespace accepts no new objects; that is no failure, and not retried.
func TestNothingIsMadeInANamespaceThatIsGoing(t *testing.T) {
	for _, kind := range []string{"*v1.Secret", "*v1.NetworkPolicy", "*v1.Pod"} {
		t.Run(kind, func(t *testing.T) {
			g := &spatev1.TrafficGenerator{
				ObjectMeta: metav1.ObjectMeta{Name: "lab", Namespace: "going", Finalizers: []string{Finalizer}},
				Spec: spatev1.TrafficGeneratorSpec{
					Replicas: 1, Workers: 1, CPUPolicy: spatev1.CPUShared, PacketMemory: spatev1.PacketMemory{Backing: spatev1.BackingStandard, Size: "64Mi"},
					Ports: []spatev1.GeneratorPort{{Name: "a", Attachment: spatev1.PortAttachment{Loopback: &spatev1.LoopbackAttachment{}}}},
				},
			}
			refused := 0
			create := func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				if object.GetNamespace() != g.Namespace || fmt.Sprintf("%T", object) != kind {
					return c.Create(ctx, object, options...)
				}
				refused++
				err := apierrors.NewForbidden(schema.GroupResource{}, object.GetName(), nil)
				err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
				return err
			}
			c := runstest.Builder(t).WithObjects(g).WithInterceptorFuncs(interceptor.Funcs{Create: create}).Build()
			certificates := &pki.Store{Client: c, Namespace: "spate-system", Policy: pki.DefaultPolicy(), Clock: clock.RealClock{}}
			r := &Reconciler{Client: c, Live: c, Events: events.NewFakeRecorder(9), Images: Images{Own: "engine"}, Certificates: certificates, unscraped: map[types.UID]map[string]time.Time{}}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(g)})
			if err != nil || !result.IsZero() || refused != 1 {
				t.Errorf("%v, %v, refused %d times", result, err, refused)
			}
		})
	}
}

// Nothing is created for an invalid spec, but existing engines are still queried.
func TestAGeneratorThatIsNotValidIsLookedAtAgain(t *testing.T) {
	vlan := int32(5)
	g := &spatev1.TrafficGenerator{
		ObjectMeta: metav1.ObjectMeta{Name: "lab", Namespace: "n", Finalizers: []string{Finalizer}},
		Spec:       spatev1.TrafficGeneratorSpec{Replicas: 1, Workers: 1, Ports: []spatev1.GeneratorPort{{Name: "a", VLAN: &vlan, Attachment: spatev1.PortAttachment{Loopback: &spatev1.LoopbackAttachment{}}}}},
	}
	c := runstest.Builder(t).WithObjects(g).Build()
	r := &Reconciler{Client: c, Live: c, Events: events.NewFakeRecorder(9), unscraped: map[types.UID]map[string]time.Time{}}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(g)})
	if err != nil || result.RequeueAfter != readyInterval {
		t.Errorf("%v, %v", result, err)
	}
}
