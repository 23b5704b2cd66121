// SPDX-License-Identifier: Apache-2.0

package test

// How often is the API server written to while a run is active?

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// writes of a namespace's objects as a watch sees them.
type writes struct {
	mu sync.Mutex
	// at which instants, by kind.
	at map[string][]time.Time
	// phases of runs: since when.
	since map[spatev1.RunPhase]time.Time
}

func watchWrites(t *testing.T, ns string) *writes {
	t.Helper()
	w := &writes{at: map[string][]time.Time{}, since: map[spatev1.RunPhase]time.Time{}}
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	t.Cleanup(func() { cancel(); readers.Wait() })
	for kind, list := range map[string]client.ObjectList{
		"run": &spatev1.TrafficRunList{}, "profile": &spatev1.TrafficProfileList{}, "generator": &spatev1.TrafficGeneratorList{},
	} {
		must(t, cluster.kube.List(ctx, list, client.InNamespace(ns)))
		changes, err := cluster.kube.Watch(ctx, list, client.InNamespace(ns), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
		must(t, err)
		readers.Go(func() {
			defer changes.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case change, open := <-changes.ResultChan():
					if !open {
						return
					}
					w.note(kind, change)
				}
			}
		})
	}
	return w
}

func (w *writes) note(kind string, change watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[kind] = append(w.at[kind], time.Now())
	if r, ok := change.Object.(*spatev1.TrafficRun); ok {
		if _, known := w.since[r.Status.Phase]; !known {
			w.since[r.Status.Phase] = time.Now()
		}
	}
}

// between two instants, of a kind.
func (w *writes) between(kind string, from, to time.Time) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.at[kind] {
		if at.After(from) && at.Before(to) {
			n++
		}
	}
	return n
}

func (w *writes) phase(p spatev1.RunPhase) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since[p]
}

func TestDrillWritesOfARunUnderWay(t *testing.T) {
	t.Parallel()
	const length = 6 * time.Second
	replayed := strings.Replace(loopbackProfile("replay", lenient+"  duration: 6s"), "stream: {ref: {name: small}}",
		"stream: {inline: {transmit: {replay: {gap: {fixed: 10ms}, pcap: {from: {configMapKeyRef: {name: recorded, key: pcap}}}}}}}", 1)
	for name, c := range map[string]struct{ generator, profile string }{
		"stateless":      {"", loopbackProfile("stateless", lenient+"  duration: 6s")},
		"stateful":       {"", loopbackTemplate + "---" + greetingProfile("stateful", "  duration: 6s\n")},
		"replay":         {"", strings.Replace(replayed, ", receivePort: loop", "", 1)},
		"on-two-engines": {"  replicas: 2\n", loopbackProfile("on-two-engines", lenient+"  duration: 6s")},
		"endless":        {"", loopbackProfile("endless", lenient)},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrill(t, "none: writes to the API server for a run, "+name, 3*time.Minute)
			ns := ready(t, c.generator)
			recorded := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "recorded"}, BinaryData: map[string][]byte{"pcap": frames(t, 50, "recorded")}}
			must(t, cluster.kube.Create(t.Context(), recorded))
			w := watchWrites(t, ns)
			mustApply(t, ns, c.profile)
			p := profileNamed(ns, name)
			phase(t, runLimit, p, spatev1.ProfileRunning)
			start := w.phase(spatev1.RunRunning)
			// What a phase's beginning writes comes within half a second of the profile's saying so.
			from, to := time.Now().Add(500*time.Millisecond), start.Add(length-500*time.Millisecond)
			for time.Now().Before(to) { // users read, which starts no reconciliation
				must(t, get(p))
				time.Sleep(100 * time.Millisecond)
			}
			seconds := to.Sub(from).Seconds()
			runs, ofProfile, ofGenerator := w.between("run", from, to), w.between("profile", from, to), w.between("generator", from, to)
			d.ReportsText(fmt.Sprintf("%.1f writes/s of the run while it sends, %d of profile and generator", float64(runs)/seconds, ofProfile+ofGenerator))
			if float64(runs) > seconds+1 || float64(runs) < seconds/3 {
				t.Errorf("want one a second")
			}
			// After a load, an engine's clock is known better, and reported when it is several times better (clock.ReportOf).
			if ofProfile != 0 || ofGenerator > 3 {
				t.Errorf("%d writes of the profile and %d of the generator between phases; want none, and those of a clock", ofProfile, ofGenerator)
			}
			if name == "endless" {
				return
			}
			complete(t, runLimit, p)
			all := w.between("run", start.Add(-time.Minute), time.Now())
			// The profile was created by the test.
			ofProfile, ofGenerator = w.between("profile", start.Add(-time.Minute), time.Now())-1, w.between("generator", start.Add(-time.Minute), time.Now())
			beside := all + ofProfile + ofGenerator - int(math.Ceil(w.phase(spatev1.RunComplete).Sub(start).Seconds()))
			d.ReportsText(fmt.Sprintf("%d writes of the run in all, %d of its profile, %d of its generator: %d beside one a second", all, ofProfile, ofGenerator, beside))
			if beside > 15 {
				t.Errorf("%d writes beside one a second; want 15 at most", beside)
			}
		})
	}
}
