// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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

// called notes which requests a controller's queue is given.
type called struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	requests chan reconcile.Request
}

func (c called) Add(r reconcile.Request) { c.requests <- r }

func TestRunsOfANamespaceThatTakeLongHoldUpNoOther(t *testing.T) {
	const many = 3 * workers
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, spatev1.AddToScheme(scheme))
	release, inside, done := make(chan struct{}), make(chan string, 2*many), make(chan ctrl.Result, 2*many)
	get := func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, ok := object.(*spatev1.TrafficProfile); !ok {
			return c.Get(ctx, key, object, options...)
		}
		inside <- key.Namespace
		if key.Namespace == "frozen" { // as an engine would be
			<-release
		}
		return errors.New("enough is known")
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{Get: get})
	request := func(namespace, name string) ctrl.Request {
		return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	}
	for i := range many {
		builder.WithObjects(&spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "frozen", Name: fmt.Sprint("r-", i)}})
	}
	r := &Reconciler{Client: builder.WithObjects(&spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "r-0"}}).Build()}
	queue := called{requests: make(chan reconcile.Request, many)}
	must(t, r.share(t.Context(), queue))
	for i := range many {
		go func() {
			result, _ := r.Reconcile(t.Context(), request("frozen", fmt.Sprint("r-", i)))
			done <- result
		}()
	}
	within := time.After(10 * time.Second)
	for range many - perNamespace {
		select {
		case result := <-done:
			if result.RequeueAfter != tick {
				t.Fatalf("a run that finds no place asks again in %s", result.RequeueAfter)
			}
		case <-within:
			t.Fatalf("%d runs of one namespace are dealt with at a time, want %d", len(inside), perNamespace)
		}
	}
	for range perNamespace {
		select {
		case <-inside:
		case <-within:
			t.Fatal("places are empty")
		}
	}
	go func() { _, _ = r.Reconcile(t.Context(), request("other", "r-0")) }()
	select {
	case ns := <-inside:
		if ns != "other" {
			t.Errorf("a run of namespace %s is dealt with", ns)
		}
	case <-within:
		t.Error("another namespace's run is held up")
	}
	close(release)
	for range perNamespace {
		select {
		case <-queue.requests: // who leaves calls another
		case <-within:
			t.Fatal("nobody is called when places are free")
		}
	}
}

func TestNoNamespaceHasAllWorkers(t *testing.T) {
	if all := perNamespace + silentPerNamespace + armedPerNamespace; all >= workers {
		t.Errorf("a namespace may have %d of %d", all, workers)
	}
}

func TestAStartAtAnInstantHasAPlaceWhateverItsNamespaceWaitsFor(t *testing.T) {
	r := &Reconciler{}
	must(t, r.share(t.Context(), called{requests: make(chan reconcile.Request, 99)}))
	take := func(name string, status spatev1.TrafficRunStatus) bool {
		s := &scope{r: r, run: &spatev1.TrafficRun{Status: status}}
		_, ok := s.place().Take(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "n", Name: name}})
		return ok
	}
	silent := spatev1.TrafficRunStatus{Phase: spatev1.RunRunning}
	kstatus.Progressing(&silent.Conditions, 1, spatev1.ReasonEngineUnreachable, "x")
	soon, past := metav1.NewMicroTime(time.Now().Add(time.Hour)), metav1.NewMicroTime(time.Now().Add(-time.Second))
	under := spatev1.TrafficRunStatus{Phase: spatev1.RunRunning, StartedAt: &past}
	for i := range silentPerNamespace + 1 {
		if ok := take(fmt.Sprint("silent-", i), silent); ok != (i < silentPerNamespace) {
			t.Errorf("run %d with a silent engine: %t", i, ok)
		}
	}
	for i := range perNamespace + 1 {
		if ok := take(fmt.Sprint("run-", i), under); ok != (i < perNamespace) {
			t.Errorf("run %d: %t", i, ok)
		}
	}
	if take("missed", spatev1.TrafficRunStatus{Phase: spatev1.RunPreparing, StartedAt: &past}) {
		t.Error("a run whose instant has passed has a place of those that start")
	}
	if !take("armed", spatev1.TrafficRunStatus{Phase: spatev1.RunPreparing, StartedAt: &soon}) {
		t.Error("a start waits")
	}
}
