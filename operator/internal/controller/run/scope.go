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
	"spate.dev/operator/internal/runs"
)

// scope is a run with all it depends on, as the cache has it.
type scope struct {
	r          *Reconciler
	found      *findings
	run        *spatev1.TrafficRun
	before     *spatev1.TrafficRun       // as it was written last
	profile    *spatev1.TrafficProfile   // that it refers to; nil if it refers to none, or if that is gone
	definition *spatev1.TrafficProfile   // what it is to execute by its spec and its profile's as they are now; nil if the profile is gone
	generator  *spatev1.TrafficGenerator // that it was admitted to; nil if it is gone
	pods       []*corev1.Pod             // that it was admitted to; nil if lost
	lost       string                    // why a pod is lost; empty if none is

	waiting     waiting // why it has not been admitted; none if it has
	end         ending  // why the run is to end before its time; none if it is not
	unreachable string  // why an engine cannot be asked; empty if all can
	occupied    string  // which engine executes what nobody follows; empty if none does
	ended       string  // why the run ended before its time; empty if it did not
	final       bool    // all engines have reported how the run ended
}

func (s *scope) gather(ctx context.Context) error {
	err := s.define(ctx)
	if err != nil {
		return err
	}
	if s.run.Status.Resolved != nil {
		if err := s.admittedTo(ctx, s.run.Status.Resolved.Generator); err != nil {
			return err
		}
	}
	s.end, err = s.mustEnd(ctx)
	return err
}

// define finds what the run is to execute.
func (s *scope) define(ctx context.Context) error {
	if ref := s.run.Spec.ProfileRef; ref != nil {
		p := &spatev1.TrafficProfile{}
		err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: s.run.Namespace, Name: string(ref.Name)}, p)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		resolved, starter := s.run.Status.Resolved, runs.Starter(s.run)
		if resolved != nil && resolved.Profile.UID != p.UID || starter != nil && starter.UID != p.UID {
			return nil // a later one of the same name
		}
		s.profile = p
	}
	s.definition = plan.Effective(s.run, s.profile)
	return nil
}

// admittedTo finds the generator and the pods that the run has.
func (s *scope) admittedTo(ctx context.Context, ref spatev1.GeneratorSnapshot) error {
	g := &spatev1.TrafficGenerator{}
	err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: string(ref.Name)}, g)
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
	return nil
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
	if !runs.Active(s.run) {
		return ending{}, nil
	}
	return s.forbidden(ctx)
}

// unwanted says which change of the run, its profile or its generator ends it. A run that people created does not depend on its profile
// once it has been admitted.
func (s *scope) unwanted() (why string) {
	started := runs.Starter(s.run) != nil // by a profile
	switch {
	case s.run.DeletionTimestamp != nil:
		return "the run is deleted"
	case s.run.Spec.Stop:
		return endStopped
	case started && (s.profile == nil || s.profile.DeletionTimestamp != nil):
		return "the profile is deleted"
	case started && s.profile.Spec.Suspend:
		return endSuspended
	case started && s.superseded():
		return "the profile has changed"
	case s.run.Status.Resolved == nil:
		return ""
	case s.generator == nil || s.generator.DeletionTimestamp != nil:
		return "the generator is deleted"
	case s.generator.Spec.Suspend:
		return "the generator is suspended"
	}
	return ""
}

// superseded is true for a run that its profile started for what it sent then, and that is to send something else now.
func (s *scope) superseded() bool {
	if runs.PolicyOf(s.run) != spatev1.RunOnChange || s.profile.Spec.RunPolicy != spatev1.RunOnChange {
		return false
	}
	trigger := runs.TriggerOf(s.run)
	if last := s.profile.Status.LastTrigger; last != nil && last.Number == trigger.Number {
		trigger = *last // by the digest of this version of the operator
	}
	return s.profile.Generation > trigger.Generation && plan.ProfileDigest(s.profile) != trigger.Digest
}

const (
	// endSuspended is the reason of an end after which the profile may be resumed.
	endSuspended = "the profile is suspended"
	endStopped   = "spec.stop is true"
)

// each calls all engines of pods that are not lost, at once, and returns the errors by pod.
func (s *scope) each(ctx context.Context, call func(index int, pod *corev1.Pod, c *engine.Client) error) []error {
	errs := make([]error, len(s.pods))
	var wg sync.WaitGroup
	for i, pod := range s.pods {
		if pod == nil {
			continue
		}
		wg.Go(func() {
			c, err := s.r.Engines.Client(ctx, podspec.EngineOf(pod))
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
		_, err := c.Stop(ctx, s.run.Status.Resolved.RunID, why)
		return err
	})
}
