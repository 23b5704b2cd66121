// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what does a run depend on, how are all its engines called at once, and why must it end?

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/podspec"
)

// scope is a run with all it depends on, as the cache has it.
type scope struct {
	r         *Reconciler
	run       *spatev1.TrafficRun
	profile   *spatev1.TrafficProfile   // nil if it is gone
	generator *spatev1.TrafficGenerator // nil if it is gone
	pods      []*corev1.Pod             // as in the run's spec; nil if lost
	lost      string                    // why a pod is lost; empty if none is

	end         ending // why the run is to end before its time; none if it is not
	unreachable string // why an engine cannot be asked; empty if all can
	occupied    string // which engine executes what nobody follows; empty if none does
	ended       string // why the run ended before its time; empty if it did not
	final       bool   // all engines have told how the run ended
}

func (s *scope) gather(ctx context.Context) error {
	p := &spatev1.TrafficProfile{}
	err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: s.run.Namespace, Name: string(s.run.Spec.Profile.Name)}, p)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && p.UID == s.run.Spec.Profile.UID {
		s.profile = p
	}
	g := &spatev1.TrafficGenerator{}
	ref := s.run.Spec.Generator
	err = s.r.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: string(ref.Name)}, g)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil {
		s.generator = g
	}
	s.pods = make([]*corev1.Pod, len(ref.Pods))
	for i, snapshot := range ref.Pods {
		pod := &corev1.Pod{}
		err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: snapshot.Name}, pod)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return err
		case err != nil || pod.UID != snapshot.UID:
			s.lost = fmt.Sprintf("pod %s is gone", snapshot.Name)
		case pod.DeletionTimestamp != nil:
			s.lost = fmt.Sprintf("pod %s is being deleted", snapshot.Name)
		case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
			s.lost = fmt.Sprintf("pod %s has ended", snapshot.Name)
			if how, _ := podspec.EndOf(pod); how != "" {
				s.lost += " with " + how
			}
		default:
			s.pods[i] = pod
		}
	}
	s.end, err = s.mustEnd(ctx)
	return err
}

// ending is why a run is to end before its time.
type ending struct {
	// reason of a verdict that nobody asked for; empty if the run's own side ends it.
	reason, message string
}

// mustEnd says why the run is to end before its time, whatever was found before.
func (s *scope) mustEnd(ctx context.Context) (ending, error) {
	if own := s.unwanted(); own != "" {
		return ending{message: own}, nil
	}
	if !Active(s.run) {
		return ending{}, nil
	}
	return s.forbidden(ctx)
}

// unwanted says which change of the run's profile or generator ends it.
func (s *scope) unwanted() (why string) {
	switch {
	case s.run.DeletionTimestamp != nil:
		return "the run is deleted"
	case s.profile == nil || s.profile.DeletionTimestamp != nil:
		return "the profile is deleted"
	case s.profile.Spec.Suspend:
		return endSuspended
	case s.profile.Generation > s.run.Spec.Profile.Generation && plan.ProfileDigest(s.profile) != s.run.Spec.Profile.Digest:
		return "the profile has changed"
	case s.generator == nil || s.generator.DeletionTimestamp != nil:
		return "the generator is deleted"
	case s.generator.Spec.Suspend:
		return "the generator is suspended"
	}
	return ""
}

// endSuspended is the reason of an end after which the profile may be resumed.
const endSuspended = "the profile is suspended"

// each calls all engines of pods that are not lost, at once, and returns the errors by pod.
func (s *scope) each(ctx context.Context, call func(index int, pod *corev1.Pod, c *engine.Client) error) []error {
	errs := make([]error, len(s.pods))
	var wg sync.WaitGroup
	for i, pod := range s.pods {
		if pod == nil {
			continue
		}
		wg.Go(func() {
			c, err := s.r.Engines.Client(ctx, engine.TargetOf(pod))
			if err == nil {
				err = call(i, pod, c)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errs
}

// stop ends transmission on all engines that can be reached.
func (s *scope) stop(ctx context.Context, why string) {
	s.each(ctx, func(_ int, _ *corev1.Pod, c *engine.Client) error {
		_, err := c.Stop(ctx, s.run.Spec.RunID, why)
		return err
	})
}
