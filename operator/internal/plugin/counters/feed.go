// SPDX-License-Identifier: Apache-2.0

// Package counters answers: what do engines count while runs are active? A feed reads runs and their counters; a board keeps the last two
// readings of each engine, and computes rates.
package counters

// This file answers: where do runs and their counters come from?

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	operator "spate.dev/operator/internal/live"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/live"
	"spate.dev/operator/internal/runs"
)

const (
	// findInterval is the interval at which runs are read.
	findInterval = time.Second
	// findLimit bounds the reading of runs.
	findLimit = 10 * time.Second
	// listInterval is the interval at which runs are looked for.
	listInterval = 5 * time.Second
	// retryAfter is the time after which a run whose counters can no longer be read is tried again.
	retryAfter = 10 * time.Second
	// MaxSources are read at a time: half of what the operator serves in a namespace.
	MaxSources = 8
	// viewerRole has the right to read counters.
	viewerRole = "spate-viewer"
)

// Finder returns the runs that are shown.
type Finder func(context.Context) ([]spatev1.TrafficRun, error)

// Find says what an argument selects: a run, the latest run of a profile, or the active runs of a generator; without one all active runs of the
// namespace. The subject is such as `profile imix`.
func Find(ctx context.Context, reader kube.Reader, namespace, argument string) (subject string, _ Finder, _ error) {
	if argument == "" {
		return "namespace " + namespace, active(reader, namespace, func(*spatev1.TrafficRun) bool { return true }), nil
	}
	s, err := cluster.Find(ctx, reader, namespace, argument)
	if err != nil {
		return "", nil, err
	}
	switch s.Kind {
	case cluster.GeneratorKind:
		key := kube.ObjectKeyFromObject(s.Generator).String()
		return "generator " + s.Name, active(reader, namespace, func(r *spatev1.TrafficRun) bool { return runs.GeneratorOf(r) == key }), nil
	case cluster.ProfileKind:
		subject = "profile " + s.Name
	default:
		subject = "run " + s.Name
	}
	return subject, func(ctx context.Context) ([]spatev1.TrafficRun, error) {
		run, err := s.Latest(ctx, reader)
		if run == nil {
			return nil, err
		}
		return []spatev1.TrafficRun{*run}, nil
	}, nil
}

// active returns the active runs of a namespace that are meant. All runs are listed every listInterval, and in between those known are read:
// the namespace may have many that have ended.
func active(reader kube.Reader, namespace string, meant func(*spatev1.TrafficRun) bool) Finder {
	var known []spatev1.TrafficRun
	var listed time.Time
	return func(ctx context.Context) ([]spatev1.TrafficRun, error) {
		if time.Since(listed) > listInterval {
			var list spatev1.TrafficRunList
			if err := reader.List(ctx, &list, kube.InNamespace(namespace)); err != nil {
				return nil, err
			}
			known, listed = list.Items, time.Now()
			slices.SortFunc(known, func(a, b spatev1.TrafficRun) int { return strings.Compare(a.Name, b.Name) })
		} else {
			for i := range known {
				run := &spatev1.TrafficRun{} // what an object has would stay in it
				if err := reader.Get(ctx, kube.ObjectKeyFromObject(&known[i]), run); apierrors.IsNotFound(err) {
					run.Status.Phase = spatev1.RunComplete // it is not shown any more
				} else if err != nil {
					return nil, err
				}
				known[i] = *run
			}
		}
		known = slices.DeleteFunc(known, func(r spatev1.TrafficRun) bool { return !runs.Active(&r) || !meant(&r) })
		return slices.Clone(known), nil
	}
}

// Events of a feed.
type (
	// Found has the runs that are shown, or why they could not be read. It occurs every second.
	Found struct {
		Runs []spatev1.TrafficRun
		Err  error
	}
	// Counted is a reading.
	Counted struct {
		From   Source
		Answer *livev1.WatchStatsResponse
	}
	// Note is what users should know; IsBad if counters cannot be read.
	Note struct {
		Text  string
		IsBad bool
	}
	// Ticked occurs every second.
	Ticked struct{ Now time.Time }
)

// Feed reads runs, and counters of those that engines execute.
type Feed struct {
	Connection *cluster.Connection
	Find       Finder
	// Pods are the only ones that are read, if there are any.
	Pods []string
	// Interval from one reading to the next, 1 s to 60 s.
	Interval time.Duration

	send func(event any) // from several goroutines at a time
	mu   sync.Mutex
	// reading are the runs whose counters are read, or were read less than retryAfter ago.
	reading map[types.UID]bool
	sources int
	all     sync.WaitGroup
}

// Start reads in the background, and sends events from several goroutines at a time. end ends that, and returns when the objects of all readers are
// deleted.
func (f *Feed) Start(ctx context.Context, send func(event any)) (end func()) {
	f.send = send
	reading, cancel := context.WithCancel(ctx)
	var closed sync.WaitGroup
	closed.Go(func() { f.run(reading) })
	return func() {
		cancel()
		closed.Wait()
	}
}

// Events starts the feed with a channel, from which events are received one by one until end is called.
func (f *Feed) Events(ctx context.Context) (events <-chan any, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	all := make(chan any)
	stop := f.Start(ctx, func(event any) {
		select {
		case all <- event:
		case <-ctx.Done():
		}
	})
	return all, func() {
		cancel()
		stop()
	}
}

// run reads until the context ends, and returns when all readers are closed.
func (f *Feed) run(ctx context.Context) {
	defer f.all.Wait()
	f.reading = map[types.UID]bool{}
	for {
		found, err := f.findRuns(ctx)
		if ctx.Err() != nil {
			return
		}
		f.send(Found{found, err})
		for i := range found {
			f.start(ctx, &found[i])
		}
		f.send(Ticked{time.Now()})
		select {
		case <-ctx.Done():
			return
		case <-time.After(findInterval):
		}
	}
}

func (f *Feed) findRuns(ctx context.Context) ([]spatev1.TrafficRun, error) {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	return f.Find(ctx)
}

// start reads the counters of a run, if engines execute it and they are not read already.
func (f *Feed) start(ctx context.Context, run *spatev1.TrafficRun) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !operator.Readable(run) || f.reading[run.UID] {
		return
	}
	wanted := WantedPods(run, f.Pods)
	pods := wanted[:min(len(wanted), MaxSources-f.sources)]
	if len(pods) < len(wanted) {
		f.send(Note{Text: fmt.Sprintf("run %s: %d of %d pods are read; choose with --pod", run.Name, len(pods), len(wanted))})
	}
	if len(pods) == 0 {
		return
	}
	f.reading[run.UID] = true
	f.sources += len(pods)
	f.all.Go(func() {
		if err := f.read(ctx, run.Name, pods); err != nil && ctx.Err() == nil {
			f.send(Note{err.Error(), true})
		}
		f.mu.Lock()
		f.sources -= len(pods)
		f.mu.Unlock()
		select { // engines end a run before its status does
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.reading, run.UID)
	})
}

// WantedPods are the pods of a run that are not lost, and are among those wanted, if there are any.
func WantedPods(run *spatev1.TrafficRun, wanted []string) (pods []string) {
	for _, pod := range run.Status.Resolved.Generator.Pods {
		if !runs.HasLost(run, pod.Name) && (len(wanted) == 0 || slices.Contains(wanted, pod.Name)) {
			pods = append(pods, pod.Name)
		}
	}
	return pods
}

// AreComplete reports whether all rates are known of the runs that engines execute, in as many pods as are read.
func (b *Board) AreComplete(all []spatev1.TrafficRun, pods []string) bool {
	wanted, known := 0, 0
	for i := range all {
		if run := &all[i]; operator.Readable(run) {
			for _, pod := range WantedPods(run, pods) {
				wanted++
				if b.Complete(Source{run.Name, pod}) {
					known++
				}
			}
		}
	}
	return known >= min(wanted, MaxSources)
}

// read passes the counters of a run on until it has ended.
func (f *Feed) read(ctx context.Context, run string, pods []string) error {
	object := &spatev1.TrafficStatsReader{Spec: spatev1.TrafficStatsReaderSpec{RunRef: spatev1.LocalReference{Name: spatev1.ObjectName(run)}}}
	r, err := live.Open(ctx, f.Connection, object, viewerRole, f)
	if err != nil {
		return err
	}
	defer r.Close()
	var all sync.WaitGroup
	failed := make([]error, len(pods))
	for i, pod := range pods {
		request := &livev1.WatchStatsRequest{Namespace: object.Namespace, Name: object.Name, Pod: pod, IntervalNs: uint64(f.Interval)}
		all.Go(func() {
			failed[i] = live.Follow(ctx, r, f, func(ctx context.Context) (grpc.ServerStreamingClient[livev1.WatchStatsResponse], error) {
				return r.Calls.WatchStats(ctx, request)
			}, func(answer *livev1.WatchStatsResponse) error {
				f.send(Counted{Source{run, pod}, answer})
				return nil
			})
		})
	}
	all.Wait()
	now := &spatev1.TrafficRun{}
	key := kube.ObjectKey{Namespace: object.Namespace, Name: run}
	if err := f.Connection.Client.Get(ctx, key, now); apierrors.IsNotFound(err) || err == nil && !runs.Active(now) {
		return nil // the run has ended, which the operator says in one way or another
	}
	return errors.Join(failed...)
}

// Write takes what a reader waits for.
func (f *Feed) Write(text []byte) (int, error) {
	f.send(Note{Text: string(text)})
	return len(text), nil
}
