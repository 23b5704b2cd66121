// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what supervises a run that has been admitted? A task of its own, which calls the run's engines, publishes what
// they report, and ends with the run. Only tasks wait for engines; the controller's workers never do. A task's state can be read again
// from the API and the engines: after a restart of the operator a new task takes over.

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/metrics"
)

// retryPause is the time after which a failed task retries; it doubles up to a tick.
const retryPause = 20 * time.Millisecond

// supervisor runs a task for each run that is admitted and has not ended, or that is being deleted.
type supervisor struct {
	// follow advances a run by one step. It returns when to call it again, and whether the task is done.
	follow func(context.Context, types.NamespacedName, *findings) (again time.Duration, done bool, err error)

	mu    sync.Mutex
	ready chan struct{} // closed when ctx is set
	ctx   context.Context
	tasks map[types.NamespacedName]chan struct{} // that wake the tasks
	all   sync.WaitGroup
}

// findings are the state of a run's task between iterations. Only the task uses it.
type findings struct {
	run          types.UID           // that they belong to
	written      *spatev1.TrafficRun // as last written; nil if the cache has that version
	sample       sample
	sampling     sampling
	routing      *spatev1.RoutingResult // as last read of all engines; nil if it was not
	requested    *requested             // nil until a rate is applied
	permission   permission
	appliedLimit appliedLimit
	// read are the counters that each pod's engine was last seen with, by the pod's index, if the run goes on without lost pods.
	read map[int]*spatev1.PodCounters
	// stageStats are the counters at the end of stage stageNumber (1, 2, ...).
	stageStats  []*enginev1.WatchStatsResponse
	stageNumber int
	// earlier has what streams had sent, for about the last second.
	earlier []earlier
	// compared is the result that the run is compared with; nil until it was read.
	compared *compared
	// silent is since when each pod's engine has not answered.
	silent map[int]time.Time
}

func newSupervisor(follow func(context.Context, types.NamespacedName, *findings) (time.Duration, bool, error)) *supervisor {
	return &supervisor{follow: follow, ready: make(chan struct{}), tasks: map[types.NamespacedName]chan struct{}{}}
}

// size is the number of tasks.
func (s *supervisor) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks)
}

// has reports whether a run has a task.
func (s *supervisor) has(run types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tasks[run] != nil
}

// Start lets tasks run until the operator stops or loses its lease, and then waits for them.
func (s *supervisor) Start(ctx context.Context) error {
	s.ctx = ctx
	close(s.ready)
	<-ctx.Done()
	s.all.Wait()
	return nil
}

// ensure starts a task for a run, or wakes the existing one. written is the run as admitted; nil if the cache has it.
func (s *supervisor) ensure(ctx context.Context, run types.NamespacedName, written *spatev1.TrafficRun) {
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
		default: // a wake-up is already pending
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

// supervise runs a task until it is done.
func (s *supervisor) supervise(run types.NamespacedName, wake chan struct{}, found *findings) {
	pause := retryPause
	for s.ctx.Err() == nil {
		again, done, err := s.followOnce(run, found)
		if err != nil {
			log.FromContext(s.ctx).Error(err, "supervising the run failed; retrying", "run", run)
			again, pause = pause, min(2*pause, tick)
		} else {
			pause = retryPause
		}
		if done && s.end(run, wake) {
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

// followOnce runs one iteration. A panic is a defect, but must end neither the task nor the operator.
func (s *supervisor) followOnce(run types.NamespacedName, found *findings) (again time.Duration, done bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return s.follow(s.ctx, run, found)
}

// end removes a task, unless it has been woken meanwhile.
func (s *supervisor) end(run types.NamespacedName, wake chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(wake) > 0 {
		return false
	}
	delete(s.tasks, run)
	metrics.Supervised(len(s.tasks))
	return true
}

// supervised reports whether a run needs a task.
func supervised(run *spatev1.TrafficRun) bool {
	return run.Status.Resolved != nil && (run.DeletionTimestamp != nil || run.Status.Phase != spatev1.RunComplete)
}
