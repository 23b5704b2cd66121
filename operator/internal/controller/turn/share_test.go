// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func of(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func TestWhoFindsNoPlaceIsCalledInTheOrderOfAsking(t *testing.T) {
	var calls []reconcile.Request
	s := &Share{Call: func(r reconcile.Request) { calls = append(calls, r) }}
	called := func(want ...reconcile.Request) {
		t.Helper()
		if !slices.Equal(calls, want) {
			t.Errorf("called %v, want %v", calls, want)
		}
		calls = nil
	}
	take := func(r reconcile.Request, want bool) (release func()) {
		t.Helper()
		release, ok := s.Take(r)
		if ok != want {
			t.Errorf("%s: %t", r, ok)
		}
		return release
	}
	s.Each = 1
	release := take(of("a", "1"), true)
	take(of("a", "2"), false)
	take(of("a", "3"), false)
	take(of("a", "2"), false) // it keeps its place in the queue
	other := take(of("b", "1"), true)
	other()
	called() // a place of another namespace is of no use to those that wait
	release()
	called(of("a", "2"))
	release = take(of("a", "3"), true) // retried on its own, and waits no longer
	take(of("a", "2"), false)
	release()
	called(of("a", "2"))
	take(of("a", "2"), true)()
	called()
}

func TestAPlaceOfAllIsGivenToAnotherNamespace(t *testing.T) {
	var calls []reconcile.Request
	s := &Share{Call: func(r reconcile.Request) { calls = append(calls, r) }}
	s.Each, s.Max = 2, 2
	release, _ := s.Take(of("a", "1"))
	s.Take(of("a", "2"))
	if _, ok := s.Take(of("b", "1")); ok {
		t.Error("more than all may have")
	}
	release()
	if !slices.Equal(calls, []reconcile.Request{of("b", "1")}) {
		t.Errorf("called %v", calls)
	}
}

// Like workers: all refused requests return when they are called, and all are handled.
func TestNobodyIsForgotten(t *testing.T) {
	const many = 1000
	queue := make(chan reconcile.Request, many)
	s := &Share{Call: func(r reconcile.Request) { queue <- r }}
	s.Each, s.Max = 2, 5
	for i := range many {
		queue <- of(fmt.Sprint("n-", i%7), strconv.Itoa(i))
	}
	done := make(chan reconcile.Request)
	for range 16 {
		go func() {
			for r := range queue {
				if release, ok := s.Take(r); ok {
					release()
					done <- r
				}
			}
		}()
	}
	seen := map[reconcile.Request]bool{}
	for range many {
		r := <-done
		if seen[r] {
			t.Fatalf("%s is dealt with twice", r)
		}
		seen[r] = true
	}
	close(queue)
}
