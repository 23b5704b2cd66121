// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: given the existing pods, which must be created and which deleted?

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/runs"
)

const (
	// attempts is how often a pod is created before the generator is stalled. A node that refuses a pod (by the topology of its CPUs
	// or devices) would refuse it indefinitely.
	attempts = 3
	// retryPause is multiplied by the number of the attempt.
	retryPause = 5 * time.Second
	// provenAfter is how long an engine must have run for its end not to count as a failed attempt.
	provenAfter = 10 * time.Minute
)

// fleet is what to do with a generator's pods.
type fleet struct {
	generator string
	names     map[string]bool // of all existing pods

	// live pods by index; nil if there is none.
	live []*corev1.Pod
	// create maps the index of a pod to create to the number of the attempt.
	create map[int]int
	// remove are the pods to delete.
	remove []*corev1.Pod
	// outdated is the number of live pods that are replaced when the generator is idle.
	outdated int
	// exhausted is why no more attempts are made for an index.
	exhausted *problem
	// failed is the latest failure of an index that waits for its next attempt.
	failed *problem
	// again is when the next attempt is due.
	again time.Duration
}

// size returns how many pods a generator has now: while runs use it, as many as they were admitted to. A change of spec.replicas takes
// effect when none uses it. Until then no other run is admitted, so all of them have the same number.
func size(g *spatev1.TrafficGenerator, active []spatev1.TrafficRun) int {
	pods := 0
	for i := range active {
		pods = max(pods, len(active[i].Status.Resolved.Generator.Pods))
	}
	if pods == 0 {
		return int(g.Spec.Replicas)
	}
	return pods
}

// resizing describes when a change of spec.replicas takes effect; it is empty if it has.
func resizing(g *spatev1.TrafficGenerator, active []spatev1.TrafficRun) string {
	now := size(g, active)
	if now == int(g.Spec.Replicas) {
		return ""
	}
	until, pods := "run "+runs.Names(active)[0]+" has ended", "1 pod"
	if len(active) > 1 {
		until = fmt.Sprintf("the %d runs that use the generator have ended", len(active))
	}
	if now > 1 {
		pods = fmt.Sprintf("%d pods", now)
	}
	return fmt.Sprintf("spec.replicas is %d and takes effect when %s: until then the generator has %s, and no other run is admitted", g.Spec.Replicas, until, pods)
}

// decide returns what to do with the pods of a generator, which are to have these templates, by index. Pods are replaced only when no
// run uses it.
func decide(generator string, pods []*corev1.Pod, templates []string, idle bool, now time.Time) fleet {
	replicas := len(templates)
	f := fleet{generator: generator, names: map[string]bool{}, live: make([]*corev1.Pod, replicas), create: map[int]int{}}
	ends := make([][]*corev1.Pod, replicas)
	taken := make([]bool, replicas)
	for _, pod := range pods {
		f.names[pod.Name] = true
		index, err := strconv.Atoi(pod.Labels[podspec.LabelIndex])
		if pod.DeletionTimestamp != nil {
			if err == nil && index < replicas {
				taken[index] = true // its device and name are still in use
			}
			continue
		}
		current := err == nil && index < replicas && pod.Labels[podspec.LabelTemplate] == templates[index]
		switch {
		case current && ended(pod):
			ends[index] = append(ends[index], pod)
		case current && f.live[index] == nil:
			f.live[index] = pod
		case ended(pod) || idle:
			f.remove = append(f.remove, pod)
			if index < replicas && !ended(pod) {
				taken[index] = true
			}
		default:
			f.outdated++
			if index < replicas {
				taken[index] = true
			}
		}
	}
	for index := range replicas {
		switch {
		case f.live[index] == nil && !taken[index]:
			f.attempt(index, ends[index], now)
		case len(ends[index]) > 0: // another attempt is in progress
			last := failure(slices.MaxFunc(ends[index], byEnd))
			f.failed = &last
		}
	}
	return f
}

func byEnd(a, b *corev1.Pod) int { return endedAt(a).Compare(endedAt(b)) }

// attempt decides whether a pod is created for an index whose earlier pods have ended.
func (f *fleet) attempt(index int, ends []*corev1.Pod, now time.Time) {
	slices.SortFunc(ends, byEnd)
	for i := len(ends) - 1; i >= 0; i-- {
		if lifetime(ends[i]) >= provenAfter { // it worked long enough: restart the count
			f.remove = append(f.remove, ends[:i+1]...)
			ends = ends[i+1:]
			break
		}
	}
	if len(ends) > 0 {
		last := failure(ends[len(ends)-1])
		if len(ends) >= attempts {
			last.message = fmt.Sprintf("%s (%d attempts; delete the failed pods or change the spec to retry)", last.message, len(ends))
			f.exhausted = &last
			return
		}
		f.failed = &last
		due := endedAt(ends[len(ends)-1]).Add(retryPause * time.Duration(len(ends)))
		if wait := due.Sub(now); wait > 0 {
			if f.again == 0 || wait < f.again {
				f.again = wait
			}
			return
		}
	}
	for number := 0; ; number++ {
		if !f.names[podspec.PodName(f.generator, index, number)] {
			f.create[index] = number
			return
		}
	}
}
