// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// started is a supervisor whose tasks call the given function, until the test ends.
func started(t *testing.T, look func(ctx context.Context, run types.NamespacedName, _ *findings) (time.Duration, bool, error)) *supervisor {
	t.Helper()
	s := newSupervisor(look)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Start(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return s
}

func named(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func TestRunsWhoseEnginesDoNotAnswerHoldUpNoOther(t *testing.T) {
	done := make(chan string, 1)
	s := started(t, func(ctx context.Context, run types.NamespacedName, _ *findings) (time.Duration, bool, error) {
		if run.Namespace == "frozen" {
			<-ctx.Done()
			return 0, true, nil
		}
		done <- run.Name
		return 0, true, nil
	})
	for i := range 200 {
		s.ensure(t.Context(), named("frozen", strconv.Itoa(i)), nil)
	}
	s.ensure(t.Context(), named("other", "r"), nil)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("another namespace's run is held up")
	}
}

func TestARunHasOneTaskThatIsWokenAndEnds(t *testing.T) {
	var mu sync.Mutex
	looks, inside, ends := 0, 0, false
	s := started(t, func(context.Context, types.NamespacedName, *findings) (time.Duration, bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if inside++; inside > 1 {
			t.Error("two tasks supervise one run")
		}
		defer func() { inside-- }()
		looks++
		return time.Hour, ends, nil
	})
	seen := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return looks >= n
		}
	}
	run := named("n", "r")
	s.ensure(t.Context(), run, nil)
	soon(t, "no task is started", seen(1))
	s.ensure(t.Context(), run, nil)
	soon(t, "the task is not woken", seen(2))
	mu.Lock()
	ends = true
	mu.Unlock()
	s.ensure(t.Context(), run, nil)
	soon(t, "the task does not end", func() bool { return s.size() == 0 })
	s.ensure(t.Context(), run, nil)
	soon(t, "no other task is started", seen(4))
}

func TestATaskOutlivesErrorsAndPanics(t *testing.T) {
	looks := 0
	s := started(t, func(context.Context, types.NamespacedName, *findings) (time.Duration, bool, error) {
		switch looks++; looks {
		case 1:
			return 0, false, errors.New("the API server is away")
		case 2:
			panic("a defect")
		}
		return 0, true, nil
	})
	s.ensure(t.Context(), named("n", "r"), nil)
	soon(t, "the task does not go on", func() bool { return s.size() == 0 })
	if looks != 3 {
		t.Errorf("%d looks", looks)
	}
}
