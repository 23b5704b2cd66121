// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: who looks after a run that has been admitted? A task of its own, which calls the run's engines, publishes what they
// report, and ends with the run. Tasks wait for engines; the controller's workers never do. What a task knows is in the API or is asked from
// the engines again: another operator starts it anew.

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/metrics"
)

// retryPause is the time after which a task goes on that has failed; it doubles up to a tick.
const retryPause = 20 * time.Millisecond

// supervisor has a task for each run that has been admitted and has not ended, or that is being deleted.
type supervisor struct {
	// look takes a run a step further. It returns when to look again, and whether the run needs a task no more.
	look func(context.Context, types.NamespacedName, *findings) (again time.Duration, done bool, err error)

	mu    sync.Mutex
	ready chan struct{} // closed when ctx is set
	ctx   context.Context
	tasks map[types.NamespacedName]chan struct{} // that wake them
	all   sync.WaitGroup
}

// findings are what the task of a run has found out. Only the task uses it.
type findings struct {
	run     types.UID           // that they are about
	written *spatev1.TrafficRun // as it was written last; nil if the cache has that
	sample  sample
	asked   *asked // nil until rates are applied
	judged  judged
	limited limited
}

func newSupervisor(look func(context.Context, types.NamespacedName, *findings) (time.Duration, bool, error)) *supervisor {
	return &supervisor{look: look, ready: make(chan struct{}), tasks: map[types.NamespacedName]chan struct{}{}}
}

// size is the number of runs that have a task.
func (s *supervisor) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks)
}

// attends is true for a run that has a task.
func (s *supervisor) attends(run types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tasks[run] != nil
}

// Start lets tasks run until the operator ends or does not lead any more, and then waits for them.
func (s *supervisor) Start(ctx context.Context) error {
	s.ctx = ctx
	close(s.ready)
	<-ctx.Done()
	s.all.Wait()
	return nil
}

// attend starts a task for a run, or wakes the one that it has. written is the run as it was admitted; nil if that is in the cache.
func (s *supervisor) attend(ctx context.Context, run types.NamespacedName, written *spatev1.TrafficRun) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if wake, there := s.tasks[run]; there {
		select {
		case wake <- struct{}{}:
		default: // it is about to look
		}
		return
	}
	found := &findings{}
	if written != nil {
		found.run, found.written = written.UID, written
	}
	wake := make(chan struct{}, 1)
	s.tasks[run] = wake
	metrics.Supervised(len(s.tasks))
	s.all.Go(func() { s.supervise(run, wake, found) })
}

// supervise looks after a run until it needs that no more.
func (s *supervisor) supervise(run types.NamespacedName, wake chan struct{}, found *findings) {
	pause := retryPause
	for s.ctx.Err() == nil {
		again, done, err := s.safely(run, found)
		if err != nil {
			log.FromContext(s.ctx).Error(err, "the run is looked after again", "run", run)
			again, pause = pause, min(2*pause, tick)
		} else {
			pause = retryPause
		}
		if done && s.leave(run, wake) {
			return
		}
		if again <= 0 {
			again = tick
		}
		timer := time.NewTimer(again)
		select {
		case <-s.ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// safely looks after a run once. A panic is a defect; it ends neither the task nor the operator.
func (s *supervisor) safely(run types.NamespacedName, found *findings) (again time.Duration, done bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return s.look(s.ctx, run, found)
}

// leave ends a task, unless it has been woken meanwhile.
func (s *supervisor) leave(run types.NamespacedName, wake chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(wake) > 0 {
		return false
	}
	delete(s.tasks, run)
	metrics.Supervised(len(s.tasks))
	return true
}

// supervised is true for a run that needs a task: it holds what it was admitted to.
func supervised(run *spatev1.TrafficRun) bool {
	return run.Status.Resolved != nil && (run.DeletionTimestamp != nil || run.Status.Phase != spatev1.RunComplete)
}
