// SPDX-License-Identifier: Apache-2.0

package admission

// This file answers: which tag, which marks and which pods does a run have?

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/marks"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/runs"
)

// tags assigns the tags in runs' packets. A tag is reused as late as possible, because packets may still be in flight.
type tags struct {
	mu   sync.Mutex
	last uint16
}

// next returns a tag that no run has.
func (t *tags) next(ctx context.Context, c client.Reader) (uint16, error) {
	var list spatev1.TrafficRunList
	if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return 0, err
	}
	var used []uint16
	newest := metav1.Time{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range list.Items {
		if r.Status.Resolved == nil {
			continue
		}
		used = append(used, uint16(r.Status.Resolved.Tag), uint16(r.Status.Resolved.SecondTag))
		if t.last == 0 && newest.Before(&r.CreationTimestamp) { // after a restart, continue after the newest run's tag
			newest = r.CreationTimestamp
		}
	}
	if t.last == 0 {
		for _, r := range list.Items {
			if r.Status.Resolved != nil && r.CreationTimestamp.Equal(&newest) {
				t.last = max(t.last, uint16(r.Status.Resolved.Tag), uint16(r.Status.Resolved.SecondTag))
			}
		}
	}
	for range 1 << 16 {
		t.last++
		if t.last != 0 && !slices.Contains(used, t.last) {
			return t.last, nil
		}
	}
	return 0, fmt.Errorf("all 65535 run tags are in use; delete ended TrafficRuns")
}

// chooseMarks returns marks for the streams that do not set theirs. No active run on any generator has these marks,
// because packets may reach ports of others. The search starts at the run's tag, which is new, too, so that a mark is
// reused late.
func (s *Resolution) chooseMarks(ctx context.Context, run types.UID, tag uint16) (marks.Marks, error) {
	var list spatev1.TrafficRunList
	if err := s.r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return marks.Marks{}, err
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	var taken marks.Marks
	for _, others := range s.r.chosen { // of runs that are being admitted
		taken.IPv4Identification = append(taken.IPv4Identification, others.IPv4Identification...)
		taken.IPv6FlowLabel = append(taken.IPv6FlowLabel, others.IPv6FlowLabel...)
	}
	for i := range list.Items {
		if !runs.Admitted(&list.Items[i]) {
			continue
		}
		if m := list.Items[i].Status.Resolved.Marks; m != nil {
			for _, number := range m.IPv4Identification {
				taken.IPv4Identification = append(taken.IPv4Identification, uint32(number))
			}
			for _, number := range m.IPv6FlowLabel {
				taken.IPv6FlowLabel = append(taken.IPv6FlowLabel, uint32(number))
			}
		}
	}
	marks, err := s.Resolved.ChooseMarks(taken, uint32(tag))
	if err == nil {
		s.r.chosen[run] = marks
	}
	return marks, err
}

// marksSettled is called when the cache has the run with the marks, or when it was not admitted.
func (r *Resolver) marksSettled(run types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.chosen, run)
}

// marksOf returns all marks of a plan, for the run's status.
func marksOf(p *enginev1.Plan) *spatev1.RunMarks {
	all := marks.Of(p)
	if len(all.IPv4Identification)+len(all.IPv6FlowLabel) == 0 {
		return nil
	}
	kept := &spatev1.RunMarks{}
	for _, number := range all.IPv4Identification {
		kept.IPv4Identification = append(kept.IPv4Identification, int32(number))
	}
	for _, number := range all.IPv6FlowLabel {
		kept.IPv6FlowLabel = append(kept.IPv6FlowLabel, int32(number))
	}
	return kept
}

// pods returns the generator's pods by index, which is the index of the pod's share.
func (s *Resolution) pods(ctx context.Context) ([]spatev1.PodSnapshot, error) {
	var pods []spatev1.PodSnapshot
	index := map[types.UID]int{}
	for _, status := range s.Generator.Status.Pods {
		if !status.Ready {
			continue
		}
		pod := &corev1.Pod{}
		if err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: s.Generator.Namespace, Name: status.Name}, pod); err != nil {
			return nil, err
		}
		pods = append(pods, spatev1.PodSnapshot{Name: pod.Name, UID: pod.UID})
		index[pod.UID] = podspec.Index(pod)
	}
	if len(pods) != int(s.Generator.Spec.Replicas) {
		return nil, fmt.Errorf("TrafficGenerator %s has %d ready pods, not %d", s.Generator.Name, len(pods), s.Generator.Spec.Replicas)
	}
	slices.SortFunc(pods, func(a, b spatev1.PodSnapshot) int { return cmp.Compare(index[a.UID], index[b.UID]) })
	return pods, nil
}
