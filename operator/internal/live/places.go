// SPDX-License-Identifier: Apache-2.0

package live

// This file answers: how many readers may there be at a time?

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxStreams at a time: a slow reader takes up to about 3 MiB of memory, for a response of the engine and what is
	// queued behind it.
	maxStreams = 24
	// maxOfNamespace leaves room for readers in other namespaces. Each engine has a limit of its own.
	maxOfNamespace = 16
)

// places counts the streams.
type places struct {
	mu    sync.Mutex
	taken map[string]int // by namespace
	all   int
}

// take reserves a place, which leave frees.
func (p *places) take(namespace string) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.all >= maxStreams:
		return nil, status.Errorf(codes.ResourceExhausted, "%d streams are read from the operator, which is the maximum: end one (kubectl get trafficcaptures,trafficpings,trafficrecordsreaders,trafficstatsreaders -A)", maxStreams)
	case p.taken[namespace] >= maxOfNamespace:
		return nil, status.Errorf(codes.ResourceExhausted, "%d streams are read in namespace %s, which is the maximum: end one (kubectl get trafficcaptures,trafficpings,trafficrecordsreaders,trafficstatsreaders -n %[2]s), or read fewer ports and pods",
			maxOfNamespace, namespace)
	}
	if p.taken == nil {
		p.taken = map[string]int{}
	}
	p.taken[namespace]++
	p.all++
	var once sync.Once
	return func() { once.Do(func() { p.leave(namespace) }) }, nil
}

func (p *places) leave(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.taken[namespace]--; p.taken[namespace] == 0 {
		delete(p.taken, namespace)
	}
}
