// SPDX-License-Identifier: Apache-2.0

package top

// This file answers: where do runs and their counters come from?

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
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
	// interval at which runs and counters are read.
	interval = time.Second
	// findLimit bounds the reading of runs.
	findLimit = 10 * time.Second
	// listInterval is the interval at which runs are looked for.
	listInterval = 5 * time.Second
	// retryAfter is the time after which a run whose counters can no longer be read is tried again.
	retryAfter = 10 * time.Second
	// maxSources are read at a time: half of what the operator serves in a namespace.
	maxSources = 8
	// viewerRole has the right to read counters.
	viewerRole = "spate-viewer"
)

// finder returns the runs that are shown.
type finder func(context.Context) ([]spatev1.TrafficRun, error)

// find says what a name selects: a run, the latest run of a profile, or the active runs of a generator; without a name all active runs of the
// namespace.
func find(ctx context.Context, reader kube.Reader, namespace, name string) (subject string, _ finder, _ error) {
	if name == "" {
		return "namespace " + namespace, active(reader, namespace, func(*spatev1.TrafficRun) bool { return true }), nil
	}
	latest := func(ctx context.Context) ([]spatev1.TrafficRun, error) {
		run, err := cluster.FindRun(ctx, reader, namespace, name)
		if none := (cluster.NoRunError{}); errors.As(err, &none) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []spatev1.TrafficRun{*run}, nil
	}
	run, err := cluster.FindRun(ctx, reader, namespace, name)
	none := cluster.NoRunError{}
	if err == nil && run.Name == name {
		return "run " + name, latest, nil
	}
	if err == nil {
		return "profile " + name, latest, nil
	}
	if !errors.As(err, &none) {
		return "", nil, err
	}
	key := kube.ObjectKey{Namespace: namespace, Name: name}
	if reader.Get(ctx, key, &spatev1.TrafficProfile{}) == nil {
		return "profile " + name, latest, nil
	}
	if reader.Get(ctx, key, &spatev1.TrafficGenerator{}) == nil {
		return "generator " + name, active(reader, namespace, func(r *spatev1.TrafficRun) bool { return runs.GeneratorOf(r) == key.String() }), nil
	}
	return "", nil, fmt.Errorf("there is no TrafficRun, TrafficProfile or TrafficGenerator %q in namespace %s", name, namespace)
}

// active returns the active runs of a namespace that are meant. All runs are listed every listInterval, and in between those known are read:
// the namespace may have many that have ended.
func active(reader kube.Reader, namespace string, meant func(*spatev1.TrafficRun) bool) finder {
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

// feed reads runs, and counters of those that engines execute.
type feed struct {
	connection *cluster.Connection
	find       finder
	// pods are the only ones that are read, if there are any.
	pods []string
	send func(tea.Msg)

	mu sync.Mutex
	// reading are the runs whose counters are read, or were read less than retryAfter ago.
	reading map[types.UID]bool
	sources int
	all     sync.WaitGroup
}

// run sends messages until the context ends, and returns when all readers are closed.
func (f *feed) run(ctx context.Context) {
	defer f.all.Wait()
	f.reading = map[types.UID]bool{}
	for {
		found, err := f.findRuns(ctx)
		if ctx.Err() != nil {
			return
		}
		f.send(runsMsg{found, err})
		for i := range found {
			f.start(ctx, &found[i])
		}
		f.send(tickMsg{time.Now()})
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

func (f *feed) findRuns(ctx context.Context) ([]spatev1.TrafficRun, error) {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	return f.find(ctx)
}

// start reads the counters of a run, if engines execute it and they are not read already.
func (f *feed) start(ctx context.Context, run *spatev1.TrafficRun) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !operator.Readable(run) || f.reading[run.UID] {
		return
	}
	wanted := wantedPods(run, f.pods)
	pods := wanted[:min(len(wanted), maxSources-f.sources)]
	if len(pods) < len(wanted) {
		f.send(noteMsg{fmt.Sprintf("run %s: %d of %d pods are read; choose with --pod", run.Name, len(pods), len(wanted)), false})
	}
	if len(pods) == 0 {
		return
	}
	f.reading[run.UID] = true
	f.sources += len(pods)
	f.all.Go(func() {
		if err := f.read(ctx, run.Name, pods); err != nil && ctx.Err() == nil {
			f.send(noteMsg{err.Error(), true})
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

// wantedPods are the pods of a run that are not lost, and are among those wanted, if there are any.
func wantedPods(run *spatev1.TrafficRun, wanted []string) (pods []string) {
	for _, pod := range run.Status.Resolved.Generator.Pods {
		if !runs.HasLost(run, pod.Name) && (len(wanted) == 0 || slices.Contains(wanted, pod.Name)) {
			pods = append(pods, pod.Name)
		}
	}
	return pods
}

// read sends the counters of a run until it has ended.
func (f *feed) read(ctx context.Context, run string, pods []string) error {
	object := &spatev1.TrafficStatsReader{Spec: spatev1.TrafficStatsReaderSpec{RunRef: spatev1.LocalReference{Name: spatev1.ObjectName(run)}}}
	r, err := live.Open(ctx, f.connection, object, viewerRole, f)
	if err != nil {
		return err
	}
	defer r.Close()
	var all sync.WaitGroup
	failed := make([]error, len(pods))
	for i, pod := range pods {
		request := &livev1.WatchStatsRequest{Namespace: object.Namespace, Name: object.Name, Pod: pod, IntervalNs: uint64(interval)}
		all.Go(func() {
			failed[i] = live.Follow(ctx, r, f, func(ctx context.Context) (grpc.ServerStreamingClient[livev1.WatchStatsResponse], error) {
				return r.Calls.WatchStats(ctx, request)
			}, func(answer *livev1.WatchStatsResponse) error {
				f.send(statsMsg{source{run, pod}, answer})
				return nil
			})
		})
	}
	all.Wait()
	now := &spatev1.TrafficRun{}
	key := kube.ObjectKey{Namespace: object.Namespace, Name: run}
	if err := f.connection.Client.Get(ctx, key, now); apierrors.IsNotFound(err) || err == nil && !runs.Active(now) {
		return nil // the run has ended, which the operator says in one way or another
	}
	return errors.Join(failed...)
}

// Write takes what a reader waits for.
func (f *feed) Write(text []byte) (int, error) {
	f.send(noteMsg{text: string(text)})
	return len(text), nil
}
