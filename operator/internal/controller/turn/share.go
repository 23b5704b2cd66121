// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Share is a part of a controller's workers with a limit for each namespace. A request that finds no place is queued again when one is
// free, in the order of requests. The place is not reserved, so a waiting request also has to retry on its own, if not soon.
type Share struct {
	Places
	// Call queues a request again; nil: nothing is queued.
	Call func(reconcile.Request)

	line    sync.Mutex
	waiting []reconcile.Request
}

// Take takes a place for a request's namespace, unless the limit of the namespace or of all is reached; release returns it.
func (s *Share) Take(request reconcile.Request) (release func(), ok bool) {
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

// next is the first waiting request whose namespace may have a place.
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
