// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
)

// called records which requests are added to a controller's queue.
type called struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	requests chan reconcile.Request
}

func (c called) Add(r reconcile.Request) { c.requests <- r }

// Some generators' engines did not answer the last time; those of the others hang now.
func TestGeneratorsOfANamespaceThatTakeLongHoldUpNoOther(t *testing.T) {
	const many, places = 3 * workers, perNamespace + unreachablePerNamespace
	if places >= workers {
		t.Fatalf("a namespace may have %d of %d workers", places, workers)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, spatev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	release, inside, done := make(chan struct{}), make(chan string, 2*many), make(chan ctrl.Result, 2*many)
	list := func(ctx context.Context, c client.WithWatch, objects client.ObjectList, options ...client.ListOption) error {
		if _, ok := objects.(*corev1.PodList); !ok {
			return c.List(ctx, objects, options...)
		}
		asked := (&client.ListOptions{}).ApplyOptions(options)
		inside <- asked.Namespace
		if asked.Namespace == "frozen" { // as an engine would be
			<-release
		}
		return errors.New("enough is known")
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{List: list})
	for i := range many {
		g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "frozen", Name: fmt.Sprint("g-", i)}}
		if i%2 == 0 {
			kstatus.Progressing(&g.Status.Conditions, 1, spatev1.ReasonEngineUnreachable, "x")
		}
		builder.WithObjects(g)
	}
	r := &Reconciler{Client: builder.WithObjects(&spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "g-0"}}).Build()}
	queue := called{requests: make(chan reconcile.Request, many)}
	if err := r.share(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	reconciled := func(namespace, name string) {
		result, _ := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
		done <- result
	}
	for i := range many {
		go reconciled("frozen", fmt.Sprint("g-", i))
	}
	within := time.After(10 * time.Second)
	for range many - places {
		select {
		case result := <-done:
			if result.RequeueAfter != soon {
				t.Fatalf("a generator that finds no place asks again in %s", result.RequeueAfter)
			}
		case <-within:
			t.Fatalf("%d generators of one namespace are dealt with at a time, want %d", len(inside), places)
		}
	}
	for range places {
		select {
		case <-inside:
		case <-within:
			t.Fatal("places are empty")
		}
	}
	go reconciled("other", "g-0")
	select {
	case ns := <-inside:
		if ns != "other" {
			t.Errorf("a generator of namespace %s is dealt with", ns)
		}
	case <-within:
		t.Error("another namespace's generator is held up")
	}
	close(release)
	for range places {
		select {
		case <-queue.requests: // a generator that leaves queues another
		case <-within:
			t.Fatal("nobody is called when places are free")
		}
	}
}
