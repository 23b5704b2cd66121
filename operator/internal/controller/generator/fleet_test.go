// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"spate.dev/operator/internal/podspec"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func pod(name, index, template string, phase corev1.PodPhase, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(epoch),
		Labels: map[string]string{podspec.LabelGenerator: "g", podspec.LabelIndex: index, podspec.LabelTemplate: template},
	}}
	p.Status.Phase = phase
	for _, c := range change {
		c(p)
	}
	return p
}

func ranFor(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			StartedAt: metav1.NewTime(epoch.Add(-d)), FinishedAt: metav1.NewTime(epoch),
		}}}}
	}
}

func deleted(p *corev1.Pod) { now := metav1.NewTime(epoch); p.DeletionTimestamp = &now }

func TestDecide(t *testing.T) {
	const failed, runningPhase = corev1.PodFailed, corev1.PodRunning
	for name, c := range map[string]struct {
		pods      []*corev1.Pod
		replicas  int
		busy      bool
		after     time.Duration
		create    map[int]int
		remove    []string
		exhausted bool
		outdated  int
	}{
		"none yet":                        {replicas: 2, create: map[int]int{0: 0, 1: 0}},
		"all there":                       {pods: []*corev1.Pod{pod("g-0", "0", "t", runningPhase)}, replicas: 1},
		"fewer wanted":                    {pods: []*corev1.Pod{pod("g-0", "0", "t", runningPhase), pod("g-1", "1", "t", runningPhase)}, replicas: 1, remove: []string{"g-1"}},
		"fewer wanted while busy":         {pods: []*corev1.Pod{pod("g-0", "0", "t", runningPhase), pod("g-1", "1", "t", runningPhase)}, replicas: 1, busy: true, outdated: 1},
		"outdated":                        {pods: []*corev1.Pod{pod("g-0", "0", "old", runningPhase)}, replicas: 1, remove: []string{"g-0"}},
		"outdated while busy":             {pods: []*corev1.Pod{pod("g-0", "0", "old", runningPhase)}, replicas: 1, busy: true, outdated: 1},
		"going":                           {pods: []*corev1.Pod{pod("g-0", "0", "t", runningPhase, deleted)}, replicas: 1},
		"failed a moment ago":             {pods: []*corev1.Pod{pod("g-0", "0", "t", failed)}, replicas: 1},
		"failed once":                     {pods: []*corev1.Pod{pod("g-0", "0", "t", failed)}, replicas: 1, after: retryPause, create: map[int]int{0: 1}},
		"failed twice, too soon":          {pods: []*corev1.Pod{pod("g-0", "0", "t", failed), pod("g-0-retry1", "0", "t", failed)}, replicas: 1, after: retryPause},
		"failed twice":                    {pods: []*corev1.Pod{pod("g-0", "0", "t", failed), pod("g-0-retry1", "0", "t", failed)}, replicas: 1, after: 2 * retryPause, create: map[int]int{0: 2}},
		"failed three times":              {pods: []*corev1.Pod{pod("g-0", "0", "t", failed), pod("g-0-retry1", "0", "t", failed), pod("g-0-retry2", "0", "t", failed)}, replicas: 1, after: time.Hour, exhausted: true},
		"failed, of an outdated spec":     {pods: []*corev1.Pod{pod("g-0", "0", "old", failed)}, replicas: 1, remove: []string{"g-0"}, create: map[int]int{0: 1}},
		"failed after it worked for long": {pods: []*corev1.Pod{pod("g-0", "0", "t", failed, ranFor(time.Hour))}, replicas: 1, remove: []string{"g-0"}, create: map[int]int{0: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			f := decide("g", c.pods, slices.Repeat([]string{"t"}, c.replicas), !c.busy, epoch.Add(c.after))
			var removed []string
			for _, p := range f.remove {
				removed = append(removed, p.Name)
			}
			got := fmt.Sprint(f.create, removed, f.exhausted != nil, f.outdated)
			want := fmt.Sprint(c.create, c.remove, c.exhausted, c.outdated)
			if !maps.Equal(f.create, c.create) || !slices.Equal(removed, c.remove) || f.exhausted != nil != c.exhausted || f.outdated != c.outdated {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// The last lines of a log do not show that the kernel killed the engine.
func TestAnEngineThatTookTooMuchMemoryIsReported(t *testing.T) {
	killed := pod("g-0", "0", "t", corev1.PodFailed, func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "OOMKilled", Message: "run prepared\n",
		}}}}
	})
	const want = "pod g-0 ended with exit code 137 (OOMKilled: it needs more than its generator's spec.memory): run prepared"
	if got := failure(killed); got.message != want {
		t.Errorf("got  %s\nwant %s", got.message, want)
	}
}
