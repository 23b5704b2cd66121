// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Share is a part of a controller's workers, of which each namespace has a part again. Who finds no place is called when there is one, in
// the order of asking. One that is called and does not come keeps no place, so who waits asks again by itself, if not soon.
type Share struct {
	Places
	// Call has a request made again; nobody is called when nil.
	Call func(reconcile.Request)

	line    sync.Mutex
	waiting []reconcile.Request
}

// Take a place for a request's namespace, unless it or all together have all they may; leave gives it back.
func (s *Share) Take(request reconcile.Request) (leave func(), ok bool) {
	s.line.Lock()
	defer s.line.Unlock()
	back, ok := s.Places.Take(request.Namespace)
	at := slices.Index(s.waiting, request)
	switch {
	case ok && at >= 0:
		s.waiting = slices.Delete(s.waiting, at, at+1)
	case !ok && at < 0:
		s.waiting = append(s.waiting, request)
	}
	if !ok {
		return nil, false
	}
	return func() {
		back()
		if next, found := s.next(); found && s.Call != nil {
			s.Call(next)
		}
	}, true
}

// next is the first of those that wait whose namespace may have a place.
func (s *Share) next() (first reconcile.Request, found bool) {
	s.line.Lock()
	defer s.line.Unlock()
	at := slices.IndexFunc(s.waiting, func(r reconcile.Request) bool { return s.has(r.Namespace) })
	if at < 0 {
		return first, false
	}
	first = s.waiting[at]
	s.waiting = slices.Delete(s.waiting, at, at+1)
	return first, true
}
