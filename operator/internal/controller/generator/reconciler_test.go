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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/pki"
)

// A namespace that is going takes nothing new; what is still to be made is no fault, and tried no more.
func TestNothingIsMadeInANamespaceThatIsGoing(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, spatev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"*v1.Secret", "*v1.NetworkPolicy", "*v1.Pod"} {
		t.Run(kind, func(t *testing.T) {
			g := &spatev1.TrafficGenerator{
				ObjectMeta: metav1.ObjectMeta{Name: "lab", Namespace: "going", Finalizers: []string{Finalizer}},
				Spec: spatev1.TrafficGeneratorSpec{
					Replicas: 1, Workers: 1, CPUPolicy: spatev1.CPUShared, Hugepages: spatev1.Hugepages{PageSize: spatev1.HugepagesNone, Memory: "64Mi"},
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
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(g).WithStatusSubresource(g).
				WithIndex(&spatev1.TrafficRun{}, "spec.generator", func(client.Object) []string { return nil }).
				WithInterceptorFuncs(interceptor.Funcs{Create: create}).Build()
			certificates := &pki.Store{Client: c, Namespace: "spate-system", Policy: pki.DefaultPolicy(), Clock: clock.RealClock{}}
			r := &Reconciler{Client: c, Live: c, Events: events.NewFakeRecorder(9), Images: Images{Own: "engine"}, Certificates: certificates, unscraped: map[types.UID]map[string]time.Time{}}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(g)})
			if err != nil || !result.IsZero() || refused != 1 {
				t.Errorf("%v, %v, refused %d times", result, err, refused)
			}
		})
	}
}

// Nothing is made of a spec that is not valid, but the engines that there are go on being looked at.
func TestAGeneratorThatIsNotValidIsLookedAtAgain(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	vlan := int32(5)
	g := &spatev1.TrafficGenerator{
		ObjectMeta: metav1.ObjectMeta{Name: "lab", Namespace: "n", Finalizers: []string{Finalizer}},
		Spec:       spatev1.TrafficGeneratorSpec{Replicas: 1, Workers: 1, Ports: []spatev1.GeneratorPort{{Name: "a", VLAN: &vlan, Attachment: spatev1.PortAttachment{Loopback: &spatev1.LoopbackAttachment{}}}}},
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(g).WithStatusSubresource(g).
		WithIndex(&spatev1.TrafficRun{}, "spec.generator", func(client.Object) []string { return nil }).Build()
	r := &Reconciler{Client: c, Live: c, Events: events.NewFakeRecorder(9), unscraped: map[types.UID]map[string]time.Time{}}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(g)})
	if err != nil || result.RequeueAfter != watchful {
		t.Errorf("%v, %v", result, err)
	}
}
