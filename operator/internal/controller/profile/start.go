// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: how is a run made?

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/controller/run"
	"spate.dev/operator/internal/controller/snapshot"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/podspec"
)

// start makes the next run, with its snapshot, and waits until the cache has it: the next admission must see it.
func (s *scope) start(ctx context.Context) error {
	name := s.nextName()
	tag, err := s.r.tags.next(ctx, s.r.Client)
	if err != nil {
		return err
	}
	pods, err := s.podSnapshots(ctx)
	if err != nil {
		return err
	}
	marks, err := s.chooseMarks(ctx, tag)
	if err != nil {
		return err
	}
	defer s.marksSeen()
	for _, warning := range s.resolved.Warnings {
		s.r.Events.Eventf(s.profile, nil, corev1.EventTypeWarning, "PlanWarning", "Start", "%s", warning)
	}
	id := plan.Identity{RunID: name, Tag: tag, Profile: s.profile.Name, Namespace: s.profile.Namespace, Marks: marks}
	p := s.resolved.Outline(id)
	saved, err := snapshot.Save(ctx, s.r.Client, s.profile, name, func(w io.Writer) error { return s.resolved.Write(w, id) })
	if err != nil {
		return err
	}
	for _, ref := range s.resolved.Secrets {
		secret := s.secrets[ref.Name]
		secret.Key = ref.Key
		saved.Secrets = append(saved.Secrets, secret)
	}
	spec := &s.profile.Spec
	made := &spatev1.TrafficRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.profile.Namespace, Name: name, Finalizers: []string{run.Finalizer}},
		Spec: spatev1.TrafficRunSpec{
			Profile: spatev1.ProfileSnapshot{
				Name: spatev1.ObjectName(s.profile.Name), UID: s.profile.UID, Generation: s.profile.Generation,
				RunID: spec.RunID, Digest: s.digest, Definitions: s.resolved.Definitions,
			},
			Generator:  spatev1.GeneratorSnapshot{Name: spatev1.ObjectName(s.generator.Name), Namespace: s.generator.Namespace, Pods: pods, Limits: s.generator.Spec.Limits.DeepCopy()},
			RunID:      name,
			Tag:        int32(tag),
			Snapshot:   saved,
			RateFactor: s.resolved.Factor.RatString(),
			Entries:    s.resolved.Entries,
			Marks:      marksOf(p),
			Timing:     spatev1.RunTiming{Warmup: spec.Warmup, Duration: spec.Duration, Drain: spec.Drain},
			Thresholds: spec.Thresholds, GeneratorTolerance: spec.GeneratorTolerance,
		},
	}
	if err := controllerutil.SetControllerReference(s.profile, made, s.r.Client.Scheme()); err != nil {
		return err
	}
	if err := s.r.Client.Create(ctx, made); err != nil {
		if apierrors.IsAlreadyExists(err) && s.isForeign(ctx, name) {
			return &takenError{name}
		}
		return fmt.Errorf("make run %s: %w", name, err)
	}
	s.r.mu.Lock()
	s.r.made[s.profile.UID] = made.UID
	s.r.mu.Unlock()
	s.r.Events.Eventf(s.profile, made, corev1.EventTypeNormal, "RunCreated", "Start", "made run %s", name)
	s.runs = append(s.runs, *made)
	return s.r.seen(ctx, made)
}

// isForeign says whether a run of this name is there that is not the profile's. One that the cache does not have yet is its own.
func (s *scope) isForeign(ctx context.Context, name string) bool {
	there := &spatev1.TrafficRun{}
	err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: s.profile.Namespace, Name: name}, there)
	return err == nil && !metav1.IsControlledBy(there, s.profile)
}

// takenError says that a run's name is somebody else's.
type takenError struct{ run string }

func (e *takenError) Error() string {
	return fmt.Sprintf("TrafficRun %s exists and does not belong to this profile; delete it", e.run)
}

// refusedPause is the time until what the API server refused to make is made again: a quota may have been raised meanwhile.
const refusedPause = 30 * time.Second

// refused is what keeps a profile from being run if the API server refuses the run, its plan or its generator, however often it is
// asked: a quota, a policy of the cluster, a name that is taken. Any other error is returned.
func refused(err error) (decision, error) {
	d := decision{phase: spatev1.ProfilePending, again: refusedPause}
	var taken *takenError
	switch {
	case errors.As(err, &taken):
		d.reason = spatev1.ReasonNameTaken
	case snapshot.Refused(err) && !kstatus.Expected(err):
		d.reason = spatev1.ReasonAdmissionFailed
	default:
		return decision{}, err
	}
	d.message = fmt.Sprintf("no run can be made: %v; it is tried again every %s", err, refusedPause)
	return d, nil
}

// chooseMarks gives marks for the streams that left theirs open: none that a run under way has, on any generator, for packets
// may reach others' ports. The search starts at the run's tag, which is new too, so that a mark is used again late.
func (s *scope) chooseMarks(ctx context.Context, tag uint16) (plan.Marks, error) {
	var list spatev1.TrafficRunList
	if err := s.r.Client.List(ctx, &list); err != nil {
		return plan.Marks{}, err
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	var taken plan.Marks
	for _, others := range s.r.chosen { // of runs that are being made meanwhile
		taken.IPv4Identification = append(taken.IPv4Identification, others.IPv4Identification...)
		taken.IPv6FlowLabel = append(taken.IPv6FlowLabel, others.IPv6FlowLabel...)
	}
	for i := range list.Items {
		if m := list.Items[i].Spec.Marks; m != nil && run.Active(&list.Items[i]) {
			for _, number := range m.IPv4Identification {
				taken.IPv4Identification = append(taken.IPv4Identification, uint32(number))
			}
			for _, number := range m.IPv6FlowLabel {
				taken.IPv6FlowLabel = append(taken.IPv6FlowLabel, uint32(number))
			}
		}
	}
	marks, err := s.resolved.ChooseMarks(taken, uint32(tag))
	s.r.chosen[s.profile.UID] = marks
	return marks, err
}

// marksSeen forgets them once the run that has them is made, and in the cache, or is not made.
func (s *scope) marksSeen() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	delete(s.r.chosen, s.profile.UID)
}

// marksOf gives all marks of a plan for its run's record.
func marksOf(p *enginev1.Plan) *spatev1.RunMarks {
	marks := plan.MarksOf(p)
	if len(marks.IPv4Identification)+len(marks.IPv6FlowLabel) == 0 {
		return nil
	}
	kept := &spatev1.RunMarks{}
	for _, number := range marks.IPv4Identification {
		kept.IPv4Identification = append(kept.IPv4Identification, int32(number))
	}
	for _, number := range marks.IPv6FlowLabel {
		kept.IPv6FlowLabel = append(kept.IPv6FlowLabel, int32(number))
	}
	return kept
}

// nextName names a run after its profile, with the beginning of the profile's UID: a profile of the same name that comes
// later never meets its counters. The number is one more than any run's so far.
func (s *scope) nextName() string {
	last := 0
	if current := s.profile.Status.CurrentRun; current != nil {
		last = run.Number(current.Name)
	}
	for _, r := range append(slices.Clip(s.runs), s.strangers...) {
		last = max(last, run.Number(r.Name))
	}
	return fmt.Sprintf("%s-%.5s-%d", s.profile.Name, s.profile.UID, last+1)
}

// podSnapshots gives the generator's pods by their index: it is that of a pod's share.
func (s *scope) podSnapshots(ctx context.Context) ([]spatev1.PodSnapshot, error) {
	var pods []spatev1.PodSnapshot
	index := map[types.UID]int{}
	for _, status := range s.generator.Status.Pods {
		if !status.Ready {
			continue
		}
		pod := &corev1.Pod{}
		if err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: s.generator.Namespace, Name: status.Name}, pod); err != nil {
			return nil, err
		}
		pods = append(pods, spatev1.PodSnapshot{Name: pod.Name, UID: pod.UID})
		index[pod.UID] = podspec.Index(pod)
	}
	if len(pods) != int(s.generator.Spec.Replicas) {
		return nil, fmt.Errorf("TrafficGenerator %s has %d ready pods, not %d", s.generator.Name, len(pods), s.generator.Spec.Replicas)
	}
	slices.SortFunc(pods, func(a, b spatev1.PodSnapshot) int { return cmp.Compare(index[a.UID], index[b.UID]) })
	return pods, nil
}

// seen waits until the cache has a run that was just made.
func (r *Reconciler) seen(ctx context.Context, made *spatev1.TrafficRun) error {
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 5*time.Second, true, func(ctx context.Context) (bool, error) {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(made), &spatev1.TrafficRun{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

// tags are the marks of runs' packets. A tag is used again as late as possible, for packets may still be under way.
type tags struct {
	mu   sync.Mutex
	last uint16
}

// next gives a tag that no run has.
func (t *tags) next(ctx context.Context, c client.Reader) (uint16, error) {
	var list spatev1.TrafficRunList
	if err := c.List(ctx, &list); err != nil {
		return 0, err
	}
	var used []uint16
	newest := metav1.Time{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range list.Items {
		used = append(used, uint16(r.Spec.Tag))
		if t.last == 0 && newest.Before(&r.CreationTimestamp) { // after a restart go on behind the newest
			newest = r.CreationTimestamp
		}
	}
	if t.last == 0 {
		for _, r := range list.Items {
			if r.CreationTimestamp.Equal(&newest) {
				t.last = max(t.last, uint16(r.Spec.Tag))
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
