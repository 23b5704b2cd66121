// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// rights decide which namespaces a client may list.
type rights struct {
	mu       sync.Mutex
	missing  []string
	secrets  []string // namespaces whose Secrets alone may not be listed
	down     bool     // the API server
	unsynced bool     // the cache lacks objects
}

func (r *rights) missIn(namespaces ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missing = namespaces
}

func (r *rights) lackObjects() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsynced = true
}

// synced waits as the cache does, which gets no objects meanwhile.
func (r *rights) synced(ctx context.Context) bool {
	r.mu.Lock()
	synced := !r.unsynced
	r.mu.Unlock()
	if !synced {
		<-ctx.Done()
	}
	return synced
}

func (r *rights) client() client.Client {
	return fake.NewClientBuilder().WithScheme(newScheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			var o client.ListOptions
			o.ApplyOptions(options)
			r.mu.Lock()
			defer r.mu.Unlock()
			switch {
			case r.down:
				return apierrors.NewServiceUnavailable("down")
			case slices.Contains(r.secrets, o.Namespace) && list.GetObjectKind().GroupVersionKind().Kind == "SecretList":
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("in namespace "+o.Namespace))
			case slices.Contains(r.missing, o.Namespace):
				return apierrors.NewForbidden(schema.GroupResource{Group: "spate.dev", Resource: "trafficruns"}, "", errors.New("in namespace "+o.Namespace))
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
}

func TestNamespacesThatCannotBeReadAreNotCached(t *testing.T) {
	var r rights
	r.missIn("gone")
	l, err := newLookout(t.Context(), r.client(), []string{"gone", "lab", "test"})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(cached("system", l.readable()).DefaultNamespaces); !slices.Equal(got, []string{"lab", "test"}) {
		t.Errorf("objects of %q are cached", got)
	}
}

// The role of an older operator lacks kinds.
func TestANamespaceWithARoleForSomeKindsIsNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rights{secrets: []string{"lab"}}
		l, err := newLookout(t.Context(), r.client(), []string{"lab", "test"})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.readable(); !slices.Equal(got, []string{"test"}) {
			t.Errorf("readable: %q", got)
		}
		interrupt, ended := started(t, &r, "lab", "test")
		defer interrupt()
		goesOn(t, ended, time.Hour) // a restart would change nothing
	})
}

// The cache of no namespace would be the cache of all.
func TestAnOperatorThatCanReadNoNamespaceDoesNotStart(t *testing.T) {
	var r rights
	r.missIn("gone", "lab")
	if _, err := newLookout(t.Context(), r.client(), []string{"gone", "lab"}); err == nil || !strings.Contains(err.Error(), "--watch-namespaces=gone,lab: none can be read: ") {
		t.Errorf("%v", err)
	}
	if l, err := newLookout(t.Context(), r.client(), nil); err != nil || l.readable() != nil {
		t.Errorf("of all namespaces: %v", err)
	}
}

func TestAnAPIServerThatIsDownSaysNothingAboutNamespaces(t *testing.T) {
	r := rights{down: true}
	if _, err := newLookout(t.Context(), r.client(), []string{"lab"}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("%v", err)
	}
}

// started is an operator that reads these namespaces until it is interrupted, or ended.
func started(t *testing.T, r *rights, namespaces ...string) (interrupt func(), ended chan error) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	l, err := newLookout(ctx, r.client(), namespaces)
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() {
		ended <- l.during(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}, r.synced)
	}()
	return interrupt, ended
}

// goesOn waits, and the operator must not have ended then.
func goesOn(t *testing.T, ended chan error, wait time.Duration) {
	t.Helper()
	time.Sleep(wait)
	synctest.Wait()
	select {
	case err := <-ended:
		t.Fatalf("it has ended: %v", err)
	default:
	}
}

func TestAnOperatorEndsToBeRestartedWithANamespaceThatCanBeReadNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rights
		r.missIn("gone")
		interrupt, ended := started(t, &r, "gone", "lab")
		defer interrupt()
		goesOn(t, ended, time.Hour)
		r.missIn()
		time.Sleep(2 * lookInterval)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "namespace gone can be read now") {
			t.Errorf("%v", err)
		}
	})
}

func TestAnOperatorEndsToBeRestartedWithoutANamespaceThatCannotBeReadForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rights
		interrupt, ended := started(t, &r, "lab", "test")
		defer interrupt()
		r.missIn("lab") // while its Role is replaced
		goesOn(t, ended, lossLimit/2)
		r.missIn()
		goesOn(t, ended, time.Hour)
		r.missIn("lab")
		goesOn(t, ended, lossLimit/2)
		time.Sleep(lossLimit)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "namespace lab could not be read for 5m0s") {
			t.Errorf("%v", err)
		}
	})
}

// Controllers wait for the objects of all namespaces, and would wait for those of this one until its Role is there again.
func TestAnOperatorEndsToBeRestartedWithoutANamespaceThatItLosesBeforeItHasItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rights
		interrupt, ended := started(t, &r, "lab", "test")
		defer interrupt()
		r.lackObjects()
		goesOn(t, ended, time.Hour) // it may be read, and is only slow
		r.missIn("lab")
		time.Sleep(2 * lookInterval)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "namespace lab cannot be read any more") || !apierrors.IsForbidden(err) {
			t.Errorf("%v", err)
		}
	})
}

// A standby replica has few objects. When it leads, it needs those of all namespaces.
func TestAnOperatorThatNeedsMoreObjectsOfALostNamespaceEndsToBeRestartedWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rights
		interrupt, ended := started(t, &r, "lab", "test")
		defer interrupt()
		r.missIn("lab")
		goesOn(t, ended, 2*lookInterval)
		r.lackObjects()
		time.Sleep(2 * lookInterval)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "namespace lab cannot be read any more") {
			t.Errorf("%v", err)
		}
	})
}

func TestControllersThatDoNotEndDoNotHoldUpTheRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rights
		l, err := newLookout(t.Context(), r.client(), []string{"lab"})
		if err != nil {
			t.Fatal(err)
		}
		r.lackObjects()
		r.missIn("lab")
		release := make(chan struct{})
		defer close(release)
		begun := time.Now()
		err = l.during(t.Context(), func(context.Context) error {
			<-release
			return nil
		}, r.synced)
		if err == nil || !strings.Contains(err.Error(), "namespace lab cannot be read any more") || !strings.Contains(err.Error(), "have not ended within") {
			t.Errorf("%v", err)
		}
		if took := time.Since(begun); took > lookInterval+syncLimit+endLimit {
			t.Errorf("it has ended after %s", took)
		}
	})
}

func TestAnOperatorThatIsInterruptedEndsWithoutAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupt, ended := started(t, &rights{}, "lab")
		goesOn(t, ended, time.Hour)
		interrupt()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestTheErrorOfAnOperatorIsReturned(t *testing.T) {
	l, err := newLookout(t.Context(), (&rights{}).client(), []string{"lab"})
	if err != nil {
		t.Fatal(err)
	}
	lost := errors.New("leader election lost")
	if err := l.during(t.Context(), func(context.Context) error { return lost }, (&rights{}).synced); !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
}
