// SPDX-License-Identifier: Apache-2.0

// Package turn shares scarce resources fairly between namespaces.
package turn

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// expiry is the time after which a request that was not repeated is dropped.
const expiry = 5 * time.Second

// Lane admits one key at a time, namespaces in turn: it is for work that needs much memory. A key that is not admitted retries, and
// keeps its place in the queue.
type Lane struct {
	// Now is the clock; time.Now if nil.
	Now func() time.Time

	mu      sync.Mutex
	taken   bool
	served  map[string]int // the number of the last turn of each waiting namespace
	turns   int
	waiting []request
}

type request struct {
	namespace string
	key       types.UID
	repeated  time.Time
}

// Enter reports whether it is the turn of a key in a namespace; if so, release must be called at the end.
func (l *Lane) Enter(namespace string, key types.UID) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now
	if l.Now != nil {
		now = l.Now
	}
	l.enqueue(request{namespace, key, now()})
	if l.taken || l.next() != key {
		return nil, false
	}
	l.taken = true
	l.turns++
	if l.served == nil {
		l.served = map[string]int{}
	}
	l.served[namespace] = l.turns
	l.drop(func(r request) bool { return r.key == key })
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.taken = false
		// Waiting requests may not have been repeated during this turn: restart their expiry.
		for i := range l.waiting {
			l.waiting[i].repeated = now()
		}
		for namespace, turn := range l.served {
			if turn < l.turns-maxServed {
				delete(l.served, namespace)
			}
		}
	}), true
}

// maxServed bounds how many turns back a namespace is remembered.
const maxServed = 1000

// enqueue adds or refreshes a request, and drops expired ones.
func (l *Lane) enqueue(r request) {
	known := false
	for i := range l.waiting {
		if l.waiting[i].key == r.key {
			l.waiting[i].repeated, known = r.repeated, true
		}
	}
	if !known {
		l.waiting = append(l.waiting, r)
	}
	l.drop(func(old request) bool { return !l.taken && r.repeated.Sub(old.repeated) > expiry })
}

func (l *Lane) drop(which func(request) bool) {
	kept := l.waiting[:0]
	for _, r := range l.waiting {
		if !which(r) {
			kept = append(kept, r)
		}
	}
	l.waiting = kept
}

// next is the key whose turn it is: the first of the namespace that was served least recently.
func (l *Lane) next() types.UID {
	first := l.waiting[0]
	for _, r := range l.waiting[1:] {
		if l.served[r.namespace] < l.served[first.namespace] {
			first = r
		}
	}
	return first.key
}

// Places are workers, with a limit for each namespace.
type Places struct {
	// Each is the limit for a namespace; one if 0.
	Each int
	// Max is the limit for all namespaces together; unlimited if 0.
	Max int

	mu   sync.Mutex
	all  int
	busy map[string]int
}

// Take takes a place for a namespace, unless the limit of the namespace or of all is reached; release returns it.
func (p *Places) Take(namespace string) (release func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.free(namespace) {
		return nil, false
	}
	if p.busy == nil {
		p.busy = map[string]int{}
	}
	p.busy[namespace]++
	p.all++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.busy[namespace]--; p.busy[namespace] == 0 {
			delete(p.busy, namespace)
		}
	}), true
}

// has reports whether there is a place for a namespace.
func (p *Places) has(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free(namespace)
}

func (p *Places) free(namespace string) bool {
	return p.busy[namespace] < max(p.Each, 1) && (p.Max == 0 || p.all < p.Max)
}
