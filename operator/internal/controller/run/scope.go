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
	"spate.dev/operator/internal/runs/storage"
)

// scope is a run with the objects it depends on, as the cache has them.
type scope struct {
	r          *Reconciler
	found      *findings
	run        *spatev1.TrafficRun
	before     *spatev1.TrafficRun       // as last written
	profile    *spatev1.TrafficProfile   // nil if the run refers to none, or if it no longer exists
	definition *spatev1.TrafficProfile   // what the run executes by its spec and its profile's, as they are now; nil if the profile no longer exists
	generator  *spatev1.TrafficGenerator // that the run was admitted to; nil if it no longer exists
	pods       []*corev1.Pod             // that the run was admitted to; nil if lost
	lost       []loss                    // of those, the ones that are not in the run's status yet
	comparedTo *spatev1.TrafficRun       // that a run is compared with which is not admitted yet; nil if it is with none
	compared   compared                  // the result that an admitted run is compared with, once it was read

	facts *storage.Facts // of the plan of a run that is being prepared; nil until they are read

	waiting     waiting // why the run has not been admitted; empty if it has
	end         ending  // why the run must end early; empty if it need not
	unreachable string  // which engine cannot be reached; empty if all can
	orphaned    string  // which engine executes an orphaned run; empty if none does
	ended       string  // why the run ended early; empty if it did not
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

// define determines what the run executes.
func (s *scope) define(ctx context.Context) error {
	if ref := s.run.Spec.ProfileRef; ref != nil {
		p := &spatev1.TrafficProfile{}
		err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: s.run.Namespace, Name: string(ref.Name)}, p)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		resolved, starter := s.run.Status.Resolved, runs.Starter(s.run)
		if resolved != nil && resolved.Profile.UID != p.UID || starter != nil && starter.UID != p.UID {
			return nil // a later object of the same name
		}
		s.profile = p
	}
	s.definition = plan.Effective(s.run, s.profile)
	return nil
}

// admittedTo gets the generator and the pods that the run was admitted to.
func (s *scope) admittedTo(ctx context.Context, ref spatev1.GeneratorSnapshot) error {
	g := &spatev1.TrafficGenerator{}
	err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: string(ref.Name)}, g)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil {
		g.Spec.Replicas = int32(len(ref.Pods)) // a change takes effect when no run uses the generator: rates in percent and limits are those of the run's pods
		s.generator = g
	}
	s.pods = make([]*corev1.Pod, len(ref.Pods))
	for i, snapshot := range ref.Pods {
		if runs.HasLost(s.run, snapshot.Name) {
			continue
		}
		pod := &corev1.Pod{}
		err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: snapshot.Name}, pod)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return err
		case err != nil || pod.UID != snapshot.UID:
			s.lost = append(s.lost, loss{i, fmt.Sprintf("pod %s no longer exists", snapshot.Name)})
		case pod.DeletionTimestamp != nil:
			s.lost = append(s.lost, loss{i, fmt.Sprintf("pod %s is being deleted", snapshot.Name)})
		case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
			message := fmt.Sprintf("pod %s has ended", snapshot.Name)
			if how, _ := podspec.EndOf(pod); how != "" {
				message += " with " + how
			}
			s.lost = append(s.lost, loss{i, message})
		default:
			s.pods[i] = pod
		}
	}
	return nil
}

// ending is why a run must end early.
type ending struct {
	// reason of the verdict; empty if the end was requested.
	reason, message string
}

// mustEnd returns why the run must end early. It does not depend on earlier findings.
func (s *scope) mustEnd(ctx context.Context) (ending, error) {
	if own := s.endRequested(); own != "" {
		return ending{message: own}, nil
	}
	if !runs.Active(s.run) {
		return ending{}, nil
	}
	return s.forbidden(ctx)
}

// endRequested returns which change of the run, its profile or its generator ends it. An admitted run that no profile started does not
// depend on its profile.
func (s *scope) endRequested() (why string) {
	started := runs.Starter(s.run) != nil // by the profile
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

// superseded reports whether the profile that started the run now sends something else.
func (s *scope) superseded() bool {
	if runs.PolicyOf(s.run) != spatev1.RunOnChange || s.profile.Spec.RunPolicy != spatev1.RunOnChange {
		return false
	}
	trigger := runs.TriggerOf(s.run)
	if last := s.profile.Status.LastTrigger; last != nil && last.Number == trigger.Number {
		trigger = *last // its digest was computed by this version of the operator
	}
	return s.profile.Generation > trigger.Generation && plan.ProfileDigest(s.profile) != trigger.Digest
}

const (
	// endSuspended is the reason if the profile may be resumed afterwards.
	endSuspended = "the profile is suspended"
	endStopped   = "spec.stop is true"
)

// each calls the engines of all pods that are not lost concurrently, and returns the errors by pod.
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
