// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// lagging is a cache that returns an old version of a run, until it catches up.
type lagging struct {
	client.Client
	has *spatev1.TrafficRun
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if run, is := into.(*spatev1.TrafficRun); is && l.has != nil {
		l.has.DeepCopyInto(run)
		return nil
	}
	return l.Client.Get(ctx, key, into, options...)
}

// An admission replaces the stored plan: a second one would leave the run without the plan that its status names.
func TestACopyFromBeforeItsAdmissionDoesNotAdmitARunAgain(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("p", "1kpps"))...)
	request := ctrl.Request{NamespacedName: named("n", l.run("r", "p"))}
	before, written := l.get("r"), make(chan *spatev1.TrafficRun, 1)
	l.r.supervisor = started(t, func(ctx context.Context, _ types.NamespacedName, found *findings) (time.Duration, bool, error) {
		written <- found.written
		<-ctx.Done()
		return 0, true, nil
	})
	if result, err := l.r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	first := l.get("r")
	if has := <-written; has == nil || has.ResourceVersion != first.ResourceVersion || has.Status.Resolved == nil {
		t.Errorf("the task begins with %+v", has)
	}
	l.r.Client = &lagging{l.c, before}
	if result, err := l.r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != cacheLag {
		t.Errorf("%+v, %v", result, err)
	}
	if again := l.get("r"); again.ResourceVersion != first.ResourceVersion {
		t.Errorf("it was written again: %+v", again.Status)
	}
}

func TestATaskGoesOnFromWhatItWroteLast(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("p", "1kpps"))...)
	admitted, found := l.starts(l.run("r", "p")), &findings{}
	cache := &lagging{Client: l.c}
	l.r.Client = cache
	must(t, l.c.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "g-0"}}))
	look := func(ended bool) {
		t.Helper()
		if again, done, err := l.r.follow(t.Context(), named("n", "r"), found); err != nil || done != ended || again != cacheLag {
			t.Errorf("again in %s, done %v, %v", again, done, err)
		}
	}
	look(false)
	end := l.get("r")
	if end.Status.Phase != spatev1.RunComplete || found.written.ResourceVersion != end.ResourceVersion {
		t.Errorf("%+v, written %+v", end.Status, found.written)
	}
	cache.has = admitted // as if it had not ended
	look(false)
	look(false)
	if end := l.get("r"); end.ResourceVersion != found.written.ResourceVersion {
		t.Errorf("it was written again: %+v", end.Status)
	}
	cache.has = nil
	look(true)
	if found.written != nil {
		t.Error("a copy is kept though the cache has it")
	}
}

func TestATaskKnowsNothingOfAnEarlierRunOfTheName(t *testing.T) {
	earlier, later := created(), created()
	earlier.UID, earlier.ResourceVersion, later.UID, later.ResourceVersion = "earlier", "9", "later", "7"
	found := &findings{run: "earlier", written: earlier, sample: sample{written: time.Now()}, permission: permission{known: true}}
	if got := found.latest(later); got != later || found.run != "later" || found.written != nil || found.permission.known || !found.sample.written.IsZero() {
		t.Errorf("%s, %+v", got.UID, found)
	}
}

func TestATaskEndsWithARunThatIsGone(t *testing.T) {
	l := newLab(t)
	if _, done, err := l.r.follow(t.Context(), named("n", "gone"), &findings{}); err != nil || !done {
		t.Errorf("done %v, %v", done, err)
	}
}
