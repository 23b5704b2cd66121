// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestNamespacesHaveTheLaneByTurns(t *testing.T) {
	now := time.Unix(1000, 0)
	l := &Lane{Now: func() time.Time { return now }}
	release, ok := l.Enter("greedy", "g0")
	if !ok {
		t.Fatal("a free lane is taken")
	}
	// Many keys of one namespace wait, then one of another.
	for _, key := range []types.UID{"g1", "g2", "g3"} {
		if _, ok := l.Enter("greedy", key); ok {
			t.Errorf("%s is let in beside another", key)
		}
	}
	l.Enter("modest", "m1")
	now = now.Add(time.Minute) // a long turn; keys that had asked before keep their places
	release()
	if _, ok := l.Enter("greedy", "g1"); ok {
		t.Error("greedy has two turns in a row though modest waits")
	}
	release, ok = l.Enter("modest", "m1")
	if !ok {
		t.Fatal("it is the turn of modest")
	}
	release()
	release() // the second call has no effect
	if _, ok := l.Enter("greedy", "g2"); ok {
		t.Error("g1 came first")
	}
	release, ok = l.Enter("greedy", "g1")
	if !ok {
		t.Fatal("it is the turn of g1")
	}
	release()
	// g2 and g3 no longer ask: they are not waited for.
	now = now.Add(expiry + time.Second)
	if _, ok := l.Enter("late", "l1"); !ok {
		t.Error("the lane is kept for those who gave up")
	}
}

func TestANamespaceHasAPartOfThePlaces(t *testing.T) {
	p := &Places{Each: 2}
	first, _ := p.Take("a")
	if _, ok := p.Take("a"); !ok {
		t.Error("the second is refused")
	}
	if _, ok := p.Take("a"); ok {
		t.Error("a third is let in")
	}
	if _, ok := p.Take("b"); !ok {
		t.Error("another namespace is refused")
	}
	first()
	first()
	if _, ok := p.Take("a"); !ok {
		t.Error("a place that was given back is refused")
	}
	if _, ok := p.Take("a"); ok {
		t.Error("it was given back twice")
	}
}
