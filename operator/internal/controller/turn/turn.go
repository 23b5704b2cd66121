// SPDX-License-Identifier: Apache-2.0

// Package turn shares out what there is little of, so that no namespace keeps the others from theirs.
package turn

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// forgotten is when a request that was not made again no longer counts.
const forgotten = 5 * time.Second

// Lane lets one through at a time, namespaces by turns: it is for what takes much memory. Who cannot enter asks again, and keeps the place.
type Lane struct {
	// Now is the clock; time.Now when nil.
	Now func() time.Time

	mu      sync.Mutex
	taken   bool
	served  map[string]int // the number of the last turn of each namespace that waits
	turns   int
	waiting []request
}

type request struct {
	namespace string
	key       types.UID
	asked     time.Time
}

// Enter tells whether it is the turn of a key in a namespace; if so, leave must be called in the end.
func (l *Lane) Enter(namespace string, key types.UID) (leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now
	if l.Now != nil {
		now = l.Now
	}
	l.ask(request{namespace, key, now()})
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
		// Of those whose turn is still to come, some may not have asked while it lasted.
		for i := range l.waiting {
			l.waiting[i].asked = now()
		}
		for namespace, turn := range l.served {
			if turn < l.turns-mostServed {
				delete(l.served, namespace)
			}
		}
	}), true
}

// mostServed namespaces are remembered.
const mostServed = 1000

// ask notes a request, and drops those that were given up.
func (l *Lane) ask(r request) {
	known := false
	for i := range l.waiting {
		if l.waiting[i].key == r.key {
			l.waiting[i].asked, known = r.asked, true
		}
	}
	if !known {
		l.waiting = append(l.waiting, r)
	}
	l.drop(func(old request) bool { return !l.taken && r.asked.Sub(old.asked) > forgotten })
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

// next is whose turn it is: the first of the namespace that was served the longest ago.
func (l *Lane) next() types.UID {
	first := l.waiting[0]
	for _, r := range l.waiting[1:] {
		if l.served[r.namespace] < l.served[first.namespace] {
			first = r
		}
	}
	return first.key
}

// Places are workers, of which a namespace may have a part.
type Places struct {
	// Each is how many a namespace may have at a time; one when 0.
	Each int
	// Most is how many all namespaces may have together; any number when 0.
	Most int

	mu   sync.Mutex
	all  int
	busy map[string]int
}

// Take a place for a namespace, unless it or all together have all they may; leave gives it back.
func (p *Places) Take(namespace string) (leave func(), ok bool) {
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

// has tells whether there is a place for a namespace.
func (p *Places) has(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free(namespace)
}

func (p *Places) free(namespace string) bool {
	return p.busy[namespace] < max(p.Each, 1) && (p.Most == 0 || p.all < p.Most)
}
